/*
 * transport/ibverbs/hello.c - the exchange of hellos by which two ranks connect their queue pairs.
 *
 * Each side sends a hello over the side channel, with `open` set so that the other side notices it without a
 * posted receive. It then receives two messages: the peer's hello, and its "ready", which says that its queue
 * pair can receive. Nothing is sent over the queue pair before "ready": packets to a queue pair that cannot
 * receive are dropped, and the device repeats them only for a limited time, while the peer may be computing.
 * A message that arrives over the queue pair counts as "ready", too.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/pair.h"

#define RNR_TIMER   12 /* 0.64 ms; never needed */
#define HOP_LIMIT   64
#define INDEX_HELLO 0
#define INDEX_READY 1

static const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES] = "gcoll ibverbs hello";

/* ---- The queue pair -------------------------------------------------------------------------------- */

static void set_address(const gcoll_ib *ib, const gcoll_ib_hello *peer, struct ibv_ah_attr *address) {
    address->port_num = ib->place.port;
    address->sl = (uint8_t)ib->options.service_level;
    address->dlid = peer->lid;
    if (peer->ethernet) {
        address->is_global = 1;
        address->grh.dgid = peer->gid;
        address->grh.sgid_index = (uint8_t)ib->place.gid_index;
        address->grh.hop_limit = HOP_LIMIT;
        address->grh.traffic_class = (uint8_t)ib->options.traffic_class;
    }
}

static int receive_from(gcoll_ib_pair *pair) {
    const gcoll_ib *ib = pair->ib;
    const gcoll_ib_hello *peer = &pair->peer;
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTR,
                                     .path_mtu = peer->mtu < ib->place.mtu ? peer->mtu : ib->place.mtu,
                                     .dest_qp_num = peer->qpn,
                                     .rq_psn = peer->psn,
                                     .max_dest_rd_atomic = 1,
                                     .min_rnr_timer = RNR_TIMER};
    set_address(ib, peer, &attributes.ah_attr);
    return ib->verbs.modify_qp(pair->qp, &attributes,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int send_to(gcoll_ib_pair *pair) {
    const gcoll_ib *ib = pair->ib;
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTS,
                                     .timeout = (uint8_t)ib->options.timeout,
                                     .retry_cnt = (uint8_t)ib->options.retry_count,
                                     .rnr_retry = (uint8_t)ib->options.rnr_retry,
                                     .sq_psn = pair->psn,
                                     .max_rd_atomic = 1};
    return ib->verbs.modify_qp(pair->qp, &attributes,
                               IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* ---- Messages -------------------------------------------------------------------------------------- */

static void on_said(gcoll_message *message) {
    (void)message;
}

void gcoll_ib_connect_if_ready(gcoll_ib_pair *pair) {
    if (pair->state != GCOLL_IB_MEETING || !pair->meeting->ready || !pair->meeting->peer_ready)
        return;
    pair->state = GCOLL_IB_CONNECTED;
    pair->ib->meeting_count--;
    pair->slots = GCOLL_IB_DEPTH;
    gcoll_flow_connect(&pair->flow, pair->ib->eager_bytes, pair->peer.pool_bytes);
    gcoll_ib_grant_pieces(pair);
    gcoll_ib_want_output(pair);
}

static void on_ready(gcoll_message *message) {
    gcoll_ib_pair *pair = message->owner;
    pair->meeting->peer_ready = true;
    gcoll_ib_connect_if_ready(pair);
}

static const char *check(const gcoll_ib_pair *pair) {
    const gcoll_ib *ib = pair->ib;
    if (pair->peer.ethernet != ib->place.ethernet)
        return pair->peer.ethernet ? "is on Ethernet, and this rank on InfiniBand"
                                   : "is on InfiniBand, and this rank on Ethernet";
    if (pair->peer.eager_bytes != ib->eager_bytes)
        return "runs with another eager_bytes, or another pool";
    if (pair->peer.by_device != (ib->options.device_memory != GCOLL_IB_DEVICE_MEMORY_NEVER))
        return pair->peer.by_device ? "runs with ibverbs.device_memory, and this rank without"
                                    : "runs without ibverbs.device_memory, and this rank with it";
    return NULL;
}

static void say_ready(gcoll_ib_pair *pair) {
    gcoll_ib_meeting *meeting = pair->meeting;
    meeting->ready = true;
    meeting->say_ready =
        (gcoll_message){.stream = GCOLL_IB_STREAM, .index = INDEX_READY, .done = on_said, .owner = pair};
    gcoll_transport_tcp.post_send(pair->ib->side, pair->rank, &meeting->say_ready);
    gcoll_ib_connect_if_ready(pair);
}

static void on_hello(gcoll_message *message) {
    gcoll_ib_pair *pair = message->owner;
    if (pair->state != GCOLL_IB_MEETING)
        return;
    const char *wrong = gcoll_ib_get_hello(pair->meeting->heard, &pair->peer);
    if (wrong) {
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", wrong);
        return;
    }
    wrong = check(pair);
    if (wrong) {
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "%s", wrong);
        return;
    }
    int error = receive_from(pair);
    error = error == 0 ? send_to(pair) : error;
    if (error != 0) {
        gcoll_ib_fail(pair, GCOLL_ERR_PEER, "cannot be reached by %s port %u (%s)", pair->ib->place.name,
                      pair->ib->place.port, strerror(error));
        return;
    }
    say_ready(pair);
}

static void say_hello(gcoll_ib_pair *pair) {
    const gcoll_ib *ib = pair->ib;
    gcoll_ib_meeting *meeting = pair->meeting;
    gcoll_ib_hello hello = {.qpn = pair->qp->qp_num,
                            .psn = pair->psn,
                            .lid = ib->place.lid,
                            .ethernet = ib->place.ethernet,
                            .by_device = ib->options.device_memory != GCOLL_IB_DEVICE_MEMORY_NEVER,
                            .gid = ib->place.gid,
                            .mtu = ib->place.mtu,
                            .depth = GCOLL_IB_DEPTH,
                            .piece_max = ib->place.message_max,
                            .eager_bytes = ib->eager_bytes,
                            .pool_bytes = ib->pool_bytes};
    gcoll_ib_put_hello(meeting->said, &hello);
    meeting->hear = (gcoll_message){.stream = GCOLL_IB_STREAM,
                                    .index = INDEX_HELLO,
                                    .bytes = GCOLL_IB_HELLO_BYTES,
                                    .data = meeting->heard,
                                    .done = on_hello,
                                    .owner = pair};
    meeting->hear_ready =
        (gcoll_message){.stream = GCOLL_IB_STREAM, .index = INDEX_READY, .done = on_ready, .owner = pair};
    meeting->say = (gcoll_message){.stream = GCOLL_IB_STREAM,
                                   .index = INDEX_HELLO,
                                   .bytes = GCOLL_IB_HELLO_BYTES,
                                   .data = meeting->said,
                                   .open = fingerprint,
                                   .done = on_said,
                                   .owner = pair};
    gcoll_transport_tcp.post_recv(ib->side, pair->rank, &meeting->hear);
    gcoll_transport_tcp.post_recv(ib->side, pair->rank, &meeting->hear_ready);
    gcoll_transport_tcp.post_send(ib->side, pair->rank, &meeting->say);
}

void gcoll_ib_meet(gcoll_ib_pair *pair) {
    if (pair->state != GCOLL_IB_IDLE)
        return;
    pair->state = GCOLL_IB_MEETING;
    pair->ib->meeting_count++;
    pair->meeting = calloc(1, sizeof *pair->meeting);
    if (!pair->meeting) {
        gcoll_flow_out_of_memory(&pair->flow);
        return;
    }
    gcoll_status status = gcoll_ib_queue_create(pair);
    if (status != GCOLL_OK) {
        gcoll_ib_problem(pair->ib, status);
        return;
    }
    say_hello(pair);
}
