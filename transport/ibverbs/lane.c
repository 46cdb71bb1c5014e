/* transport/ibverbs/lane.c - the lane's table; opening its port, polling, sleeping. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/pair.h"

#define SLOT_ROUNDING 64U
/* The first size of the completion queue: for four peers; it grows. */
#define CQ_FIRST (4 * 2 * GCOLL_IB_DEPTH)

/* A slot holds the largest small message, and at least one full packet, which a proof needs. */
static uint32_t slot_bytes(const gcoll_ib *ib) {
    const uint32_t packet = gcoll_ib_mtu_bytes(ib->place.mtu);
    const uint32_t bytes = (uint32_t)(ib->eager_bytes + GCOLL_IB_FIXED_BYTES + SLOT_ROUNDING - 1) /
                           SLOT_ROUNDING * SLOT_ROUNDING;
    return bytes > packet ? bytes : packet;
}

static gcoll_status refused(const gcoll_ib *ib, const char *what) {
    const int error = errno;
    char text[GCOLL_ERRNO_TEXT_MAX];
    return gcoll_error(gcoll_status_of_errno(error), "ibverbs: %s refuses to make a %s: %s", ib->place.name,
                       what, gcoll_errno_text(error, text));
}

/* Opens the device, and registers its descriptors for forks. */
static gcoll_status open_device(gcoll_ib *ib) {
    gcoll_fork_hold();
    gcoll_status status = gcoll_ib_open_device(ib, gcoll_net_own_address(ib->net));
    if (status == GCOLL_OK) {
        gcoll_descriptor_enter(&ib->commands, ib->context->cmd_fd);
        gcoll_descriptor_enter(&ib->async_events, ib->context->async_fd);
    }
    gcoll_fork_release();
    return status;
}

static void make_channel(gcoll_ib *ib) {
    gcoll_fork_hold();
    ib->channel = ib->verbs.create_comp_channel(ib->context);
    if (ib->channel)
        gcoll_descriptor_enter(&ib->completions, ib->channel->fd);
    gcoll_fork_release();
}

static gcoll_status make_queues(gcoll_ib *ib) {
    ib->pd = ib->verbs.alloc_pd(ib->context);
    if (!ib->pd)
        return refused(ib, "protection domain");
    make_channel(ib);
    if (!ib->channel)
        return refused(ib, "completion channel");
    int flags = fcntl(ib->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(ib->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return refused(ib, "completion channel that does not block");
    ib->cq_entries = CQ_FIRST < ib->cq_most ? CQ_FIRST : ib->cq_most;
    ib->cq = ib->verbs.create_cq(ib->context, (int)ib->cq_entries, ib, ib->channel, 0);
    if (!ib->cq)
        return refused(ib, "completion queue");
    return gcoll_net_watch(ib->net, &gcoll_lane_ibverbs, ib->channel->fd);
}

/* Refuses options.checksum: the device writes large messages itself, and checks each packet. */
static gcoll_status check_checksum(const gcoll_endpoint_options *options) {
    if (!options->checksum)
        return GCOLL_OK;
    return gcoll_error(
        GCOLL_ERR_UNSUPPORTED,
        "options.checksum: is 1; allowed is 0 over ibverbs, whose devices check packets themselves");
}

static gcoll_status open_all(gcoll_ib *ib, const gcoll_endpoint_options *options) {
    gcoll_status status = check_checksum(options);
    if (status == GCOLL_OK && options->may_lack)
        status = gcoll_ib_check_unasked();
    if (status == GCOLL_OK)
        status = gcoll_lane_set_limits(options, "ibverbs", GCOLL_IB_EAGER_BYTES, GCOLL_IB_EAGER_MAX,
                                       &ib->eager_bytes, &ib->pool_bytes);
    if (status == GCOLL_OK)
        status = gcoll_ib_options_read(options->ibverbs, &ib->options);
    if (status == GCOLL_OK)
        status = gcoll_verbs_load(&ib->verbs);
    if (status == GCOLL_OK)
        status = open_device(ib);
    if (status == GCOLL_OK) {
        ib->slot_bytes = slot_bytes(ib);
        status = make_queues(ib);
    }
    ib->memory.cache_bytes = ib->options.cache_bytes;
    ib->options.device = NULL; /* the caller's memory */
    return status;
}

static void ib_close(gcoll_lane_port *port) {
    gcoll_ib *ib = gcoll_ib_of(port);
    while (ib->known) {
        gcoll_ib_pair *next = ib->known->next_known;
        free(ib->known->control.bytes);
        free(ib->known);
        ib->known = next;
    }
    gcoll_ib_memory_clear(ib);
    gcoll_fork_hold();
    gcoll_descriptor_leave(&ib->completions);
    gcoll_descriptor_leave(&ib->async_events);
    gcoll_descriptor_leave(&ib->commands);
    if (ib->cq)
        ib->verbs.destroy_cq(ib->cq);
    if (ib->channel)
        ib->verbs.destroy_comp_channel(ib->channel);
    if (ib->pd)
        ib->verbs.dealloc_pd(ib->pd);
    if (ib->context)
        ib->verbs.close_device(ib->context);
    gcoll_fork_release();
    free(ib);
}

static gcoll_status ib_open(gcoll_net *net, const gcoll_endpoint_options *options, gcoll_lane_port **port) {
    gcoll_ib *ib = calloc(1, sizeof *ib);
    if (!ib)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint");
    ib->net = net;
    const gcoll_status status = open_all(ib, options);
    *port = (gcoll_lane_port *)(void *)ib;
    return status;
}

/* ---- Polling and sleeping --------------------------------------------------------------------------- */

static void ib_flush(gcoll_lane_port *port) {
    gcoll_ib *ib = gcoll_ib_of(port);
    if (ib->outputs)
        gcoll_ib_flush_all(ib);
}

static bool ib_poll(gcoll_lane_port *port) {
    gcoll_ib *ib = gcoll_ib_of(port);
    const bool moved = gcoll_ib_poll(ib) > 0;
    if (!moved && ib->proof_count > 0) /* else an acknowledgement may still wait behind what was polled */
        gcoll_ib_limit_proofs(ib);
    return moved;
}

static void ib_arm(gcoll_lane_port *port) {
    gcoll_ib *ib = gcoll_ib_of(port);
    if (!ib->armed)
        ib->armed = ibv_req_notify_cq(ib->cq, 0) == 0;
    ib->counters.sleeps++;
}

static void ib_disarm(gcoll_lane_port *port) {
    gcoll_ib *ib = gcoll_ib_of(port);
    struct ibv_cq *cq;
    void *arg;
    while (ib->verbs.get_cq_event(ib->channel, &cq, &arg) == 0) {
        ib->verbs.ack_cq_events(cq, 1);
        ib->armed = false;
    }
}

static void ib_look(const gcoll_session *session, gcoll_lane_sight *sight) {
    const gcoll_ib_pair *pair = gcoll_session_lane_state(session);
    sight->heard = pair->heard;
    sight->taken = pair->finished_sends;
}

/* False once a piece is granted: the peer's device may be writing into the memory. */
static bool ib_may_take_back(const gcoll_session *session, const gcoll_message *message) {
    (void)session;
    return message->moved == 0;
}

/* ---- Memory that stays registered ------------------------------------------------------------------ */

static gcoll_status ib_attach(gcoll_lane_port *port, void *data, uint64_t bytes, bool is_written,
                              uint64_t largest, void **handle) {
    gcoll_ib *ib = gcoll_ib_of(port);
    gcoll_ib_region *region = NULL;
    if (largest > ib->eager_bytes) {
        region = gcoll_ib_register_for_long(ib, data, bytes, is_written ? GCOLL_IB_GRANTABLE : GCOLL_IB_OWN);
        if (!region)
            return GCOLL_ERR_NO_MEMORY;
    }
    *handle = region;
    return GCOLL_OK;
}

static void ib_detach(gcoll_lane_port *port, void *handle) {
    gcoll_ib_unregister(gcoll_ib_of(port), handle);
}

static uint32_t ib_device_memory(const gcoll_lane_port *port) {
    return ((const gcoll_ib *)(const void *)port)->options.device_memory;
}

static gcoll_status ib_attach_device(gcoll_lane_port *port, const gcoll_foreign_memory *memory,
                                     bool is_written, void **handle) {
    *handle =
        gcoll_ib_register_device(gcoll_ib_of(port), memory, is_written ? GCOLL_IB_GRANTABLE : GCOLL_IB_OWN);
    return *handle ? GCOLL_OK : GCOLL_ERR_UNSUPPORTED;
}

void gcoll_ib_get_counters(gcoll_endpoint *endpoint, gcoll_ib_counters *counters) {
    gcoll_lane_port *port = gcoll_net_port(endpoint, &gcoll_lane_ibverbs);
    memset(counters, 0, sizeof *counters);
    if (port)
        *counters = gcoll_ib_of(port)->counters;
}

static uint64_t ib_registrations(const gcoll_lane_port *port) {
    return ((const gcoll_ib *)(const void *)port)->counters.registrations;
}

const gcoll_lane gcoll_lane_ibverbs = {
    .name = "ibverbs",
    .number = GCOLL_LANE_IBVERBS,
    .is_clear = true,
    .list = gcoll_ib_list,
    .is_likely = gcoll_ib_is_likely,
    .open = ib_open,
    .close = ib_close,
    .flush = ib_flush,
    .poll = ib_poll,
    .arm = ib_arm,
    .disarm = ib_disarm,
    .flow = &gcoll_ib_flow_lane,
    .begin = gcoll_ib_begin,
    .hear = gcoll_ib_hear,
    .leave = gcoll_ib_leave,
    .is_leaving = gcoll_ib_is_leaving,
    .drop = gcoll_ib_drop,
    .end = gcoll_ib_end,
    .look = ib_look,
    .may_take_back = ib_may_take_back,
    .registrations = ib_registrations,
    .attach = ib_attach,
    .detach = ib_detach,
    .device_memory = ib_device_memory,
    .attach_device = ib_attach_device,
    .expose = gcoll_ib_expose,
    .conceal = gcoll_ib_conceal,
    .access = gcoll_ib_access,
};
