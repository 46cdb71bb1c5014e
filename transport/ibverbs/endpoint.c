/* transport/ibverbs/endpoint.c - opens ibverbs endpoints; the transport's table of operations. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/pair.h"
#include "transport/session/side.h"

#define NS_PER_US     INT64_C(1000)
#define SPIN_US_MAX   INT64_C(1000000000)
#define SLOT_ROUNDING 64U
/* The first size of the completion queue: for four peers; it grows. */
#define CQ_FIRST (4 * 2 * GCOLL_IB_DEPTH)

/* Comes before the side channel's address, so that ranks with different transports notice the difference. */
static const char prefix[] = "ib1;";

static int64_t spin_ns(int64_t spin_us) {
    return spin_us <= 0 ? 0 : (spin_us < SPIN_US_MAX ? spin_us : SPIN_US_MAX) * NS_PER_US;
}

static gcoll_status set_limits(gcoll_ib *ib, const gcoll_endpoint_options *options) {
    uint64_t pool = options->eager_pool_bytes > 0 ? options->eager_pool_bytes : GCOLL_IB_POOL_BYTES;
    uint64_t eager = options->eager_bytes > 0 ? options->eager_bytes : GCOLL_IB_EAGER_BYTES;
    if (pool < GCOLL_IB_POOL_MIN || pool > GCOLL_IB_POOL_MAX)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.eager_pool_bytes: is %llu; allowed are 0 (default) and %llu to %llu",
                           (unsigned long long)pool, (unsigned long long)GCOLL_IB_POOL_MIN,
                           (unsigned long long)GCOLL_IB_POOL_MAX);
    uint64_t most = pool / 2 - GCOLL_FLOW_OVERHEAD_BYTES; /* as in tcp: less than half the pool */
    most = most < GCOLL_IB_EAGER_MAX ? most : GCOLL_IB_EAGER_MAX;
    ib->pool_bytes = pool;
    ib->eager_bytes = eager < most ? eager : most;
    ib->slot_bytes = (uint32_t)(ib->eager_bytes + GCOLL_IB_FIXED_BYTES + SLOT_ROUNDING - 1) / SLOT_ROUNDING *
                     SLOT_ROUNDING;
    ib->patience.spin_ns = spin_ns(options->spin_us);
    return GCOLL_OK;
}

static gcoll_status open_side(gcoll_ib *ib, const gcoll_endpoint_options *options) {
    gcoll_endpoint_options side = *options;
    gcoll_events events = gcoll_ib_side_events;
    events.arg = ib;
    side.spin_us = 0;
    side.eager_bytes = 0;
    side.eager_pool_bytes = 0;
    gcoll_status status = gcoll_transport_tcp.open(&side, &events, &ib->side);
    if (status == GCOLL_OK)
        ib->moves = gcoll_net_moves_counter(ib->side);
    return status;
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
    gcoll_status status = gcoll_ib_open_device(ib, gcoll_net_own_address(ib->side));
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
    return gcoll_net_watch(ib->side, ib->channel->fd);
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
    if (status == GCOLL_OK)
        status = set_limits(ib, options);
    if (status == GCOLL_OK)
        status = gcoll_ib_options_read(options->ibverbs, &ib->options);
    if (status == GCOLL_OK)
        status = gcoll_verbs_load(&ib->verbs);
    if (status == GCOLL_OK)
        status = open_side(ib, options);
    if (status == GCOLL_OK)
        status = open_device(ib);
    if (status == GCOLL_OK)
        status = make_queues(ib);
    ib->memory.cache_bytes = ib->options.cache_bytes;
    ib->options.device = NULL; /* the caller's memory */
    return status;
}

static gcoll_status ib_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                            gcoll_endpoint **endpoint) {
    gcoll_ib *ib = calloc(1, sizeof *ib);
    gcoll_status status = GCOLL_OK;
    if (ib)
        ib->pairs = calloc(options->size > 0 ? options->size : 1, sizeof(gcoll_ib_pair *));
    if (!ib || !ib->pairs) {
        free(ib);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint");
    }
    ib->rank = options->rank;
    ib->size = options->size;
    ib->events = *events;
    status = open_all(ib, options);
    if (status != GCOLL_OK) {
        if (ib->side) {
            gcoll_net_unwatch(ib->side);
            gcoll_transport_tcp.close(ib->side, 0);
        }
        gcoll_ib_destroy(ib);
        return status;
    }
    *endpoint = (gcoll_endpoint *)(void *)ib;
    return GCOLL_OK;
}

/* ---- The rest of the table ------------------------------------------------------------------------- */

static gcoll_status ib_address(gcoll_endpoint *endpoint, char *text, size_t bytes) {
    const size_t ahead = sizeof prefix - 1;
    char side[GCOLL_ADDRESS_MAX];
    gcoll_status status = gcoll_transport_tcp.address(gcoll_ib_of(endpoint)->side, side, sizeof side);
    if (status != GCOLL_OK)
        return status;
    if (ahead + strlen(side) >= bytes)
        return gcoll_error(GCOLL_ERR_INVALID, "address: needs %zu bytes, and there are %zu",
                           ahead + strlen(side) + 1, bytes);
    snprintf(text, bytes, "%s%s", prefix, side);
    return GCOLL_OK;
}

static gcoll_status ib_connect(gcoll_endpoint *endpoint, uint32_t peer, const char *address) {
    if (strncmp(address, prefix, sizeof prefix - 1) != 0)
        return gcoll_error(GCOLL_ERR_PROTOCOL, "address: '%.40s' is not an address of transport ibverbs",
                           address);
    return gcoll_transport_tcp.connect(gcoll_ib_of(endpoint)->side, peer, address + sizeof prefix - 1);
}

static void ib_flush(gcoll_endpoint *endpoint) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);
    if (ib->outputs)
        gcoll_ib_flush_all(ib);
    if (ib->meeting_count > 0)
        gcoll_transport_tcp.flush(ib->side);
}

static void ib_wake(gcoll_endpoint *endpoint) {
    gcoll_transport_tcp.wake(gcoll_ib_of(endpoint)->side);
}

static void ib_probe(gcoll_endpoint *endpoint, uint32_t peer) {
    gcoll_transport_tcp.probe(gcoll_ib_of(endpoint)->side, peer);
}

static void ib_set_position(gcoll_endpoint *endpoint, uint64_t position) {
    gcoll_transport_tcp.set_position(gcoll_ib_of(endpoint)->side, position);
}

static void ib_set_concern(gcoll_endpoint *endpoint, uint64_t stream,
                           const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_transport_tcp.set_concern(gcoll_ib_of(endpoint)->side, stream, fingerprint);
}

static void ib_set_news(gcoll_endpoint *endpoint, uint32_t rank, uint32_t moves) {
    gcoll_transport_tcp.set_news(gcoll_ib_of(endpoint)->side, rank, moves);
}

static void ib_set_doubt(gcoll_endpoint *endpoint, uint32_t rank) {
    gcoll_transport_tcp.set_doubt(gcoll_ib_of(endpoint)->side, rank);
}

static uint32_t ib_moves(gcoll_endpoint *endpoint) {
    return gcoll_transport_tcp.moves(gcoll_ib_of(endpoint)->side);
}

/* Adds this transport's signs of life to those of the side channel: work requests that the peer's device has
 * acknowledged. Probes go over the side channel, which also sees whether the peer's host is alive. */
static void ib_look(gcoll_endpoint *endpoint, uint32_t peer, gcoll_sight *sight) {
    const gcoll_ib *ib = gcoll_ib_of(endpoint);
    const gcoll_ib_pair *pair = ib->pairs[peer];
    gcoll_transport_tcp.look(ib->side, peer, sight);
    if (pair) {
        sight->heard += pair->heard;
        sight->taken += pair->finished_sends;
    }
}

static void ib_set_spin(gcoll_endpoint *endpoint, int64_t spin_us) {
    gcoll_ib_of(endpoint)->patience.spin_ns = spin_ns(spin_us);
}

/* ---- Memory that stays registered ------------------------------------------------------------------ */

static gcoll_status ib_attach(gcoll_endpoint *endpoint, void *data, uint64_t bytes, bool is_written,
                              uint64_t largest, void **handle) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);
    gcoll_ib_region *region = NULL;
    if (largest > ib->eager_bytes) {
        region = gcoll_ib_register_for_long(ib, data, bytes, is_written ? GCOLL_IB_GRANTABLE : GCOLL_IB_OWN);
        if (!region)
            return GCOLL_ERR_NO_MEMORY;
    }
    *handle = region;
    return GCOLL_OK;
}

static void ib_detach(gcoll_endpoint *endpoint, void *handle) {
    gcoll_ib_unregister(gcoll_ib_of(endpoint), handle);
}

static uint32_t ib_device_memory(const gcoll_endpoint *endpoint) {
    return ((const gcoll_ib *)(const void *)endpoint)->options.device_memory;
}

static gcoll_status ib_attach_device(gcoll_endpoint *endpoint, const gcoll_foreign_memory *memory,
                                     bool is_written, void **handle) {
    *handle = gcoll_ib_register_device(gcoll_ib_of(endpoint), memory,
                                       is_written ? GCOLL_IB_GRANTABLE : GCOLL_IB_OWN);
    return *handle ? GCOLL_OK : GCOLL_ERR_UNSUPPORTED;
}

void gcoll_ib_get_counters(gcoll_endpoint *endpoint, gcoll_ib_counters *counters) {
    *counters = gcoll_ib_of(endpoint)->counters;
}

const gcoll_transport gcoll_transport_ibverbs = {
    .name = "ibverbs",
    .yields = true,
    .list = gcoll_ib_list,
    .open = ib_open,
    .address = ib_address,
    .connect = ib_connect,
    .post_send = gcoll_ib_post_send,
    .post_recv = gcoll_ib_post_recv,
    .flush = ib_flush,
    .progress = gcoll_ib_progress,
    .peek = gcoll_ib_peek,
    .wake = ib_wake,
    .probe = ib_probe,
    .set_position = ib_set_position,
    .set_concern = ib_set_concern,
    .set_spin = ib_set_spin,
    .attach = ib_attach,
    .detach = ib_detach,
    .device_memory = ib_device_memory,
    .attach_device = ib_attach_device,
    .expose = gcoll_ib_expose,
    .conceal = gcoll_ib_conceal,
    .access = gcoll_ib_access,
    .abort = gcoll_ib_abort,
    .close = gcoll_ib_close,
    .moves = ib_moves,
    .look = ib_look,
    .set_news = ib_set_news,
    .set_doubt = ib_set_doubt,
    .take_back = gcoll_ib_take_back,
    .abandon = gcoll_ib_abandon,
};
