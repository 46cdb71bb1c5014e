/*
 * transport/ibverbs/access.c - one-sided access by RDMA WRITE and RDMA READ.
 *
 * The owner registers exposed memory for remote writing and reading until it conceals it. The peer posts a
 * work request; the owner's software takes no part. An access uses no slot of the peer. It stands ahead of
 * small messages in the send queue, so a message that is posted after an access arrives after it.
 */
#include "transport/ibverbs/pair.h"

gcoll_status gcoll_ib_expose(gcoll_lane_port *port, void *data, uint64_t bytes, gcoll_exposed *exposed) {
    gcoll_ib *ib = gcoll_ib_of(port);
    gcoll_ib_region *region = gcoll_ib_register_for_long(ib, data, bytes, GCOLL_IB_SHARED);
    if (!region)
        return GCOLL_ERR_NO_MEMORY;
    ib->exposed_count++;
    *exposed = (gcoll_exposed){.handle = region, .address = (uintptr_t)data, .key = region->mr->rkey};
    return GCOLL_OK;
}

void gcoll_ib_conceal(gcoll_lane_port *port, gcoll_exposed *exposed) {
    gcoll_ib *ib = gcoll_ib_of(port);
    gcoll_ib_unregister(ib, exposed->handle);
    ib->exposed_count--;
}

void gcoll_ib_access(gcoll_session *session, gcoll_remote_access *access) {
    gcoll_ib_pair *pair = gcoll_session_lane_state(session);
    gcoll_message *message = &access->message;
    message->region = gcoll_ib_register(pair->ib, message->data, message->bytes,
                                        access->gets ? GCOLL_IB_GRANTABLE : GCOLL_IB_OWN);
    if (!message->region) {
        gcoll_net_fail(pair->ib->net, GCOLL_ERR_NO_MEMORY);
        return;
    }
    gcoll_message_push(&pair->accesses, message);
    gcoll_ib_want_output(pair);
}

uint32_t gcoll_ib_next_access(gcoll_ib_pair *pair, struct ibv_send_wr *work) {
    gcoll_message *message = pair->accesses.first;
    const gcoll_remote_access *access = (const gcoll_remote_access *)message;
    uint64_t left = message->bytes - message->moved;
    uint32_t bytes = left < pair->ib->place.message_max ? (uint32_t)left : pair->ib->place.message_max;
    work->opcode = access->gets ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    work->sg_list->addr = (uintptr_t)message->data + message->moved;
    work->sg_list->length = bytes;
    work->sg_list->lkey = ((gcoll_ib_region *)message->region)->mr->lkey;
    work->wr.rdma.remote_addr = access->address + message->moved;
    work->wr.rdma.rkey = access->key;
    message->moved += bytes;
    if (message->moved == message->bytes)
        gcoll_message_pop(&pair->accesses);
    return bytes;
}
