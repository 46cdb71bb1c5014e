/* transport/ibverbs/endpoint.c - the table of operations, and opening. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/ib.h"
#include "transport/tcp/side.h"

#define NS_PER_US     INT64_C(1000)
#define SPIN_US_MAX   INT64_C(1000000000)
#define SLOT_ROUNDING 64U
/* For four peers; it grows. */
#define CQ_FIRST (4 * 2 * GCOLL_IB_DEPTH)

/* Ahead of the side channel's address, so that ranks of different transports say so. */
static const char prefix[] = "ib1;";

static int64_t spin_ns(int64_t spin_us) {
    return spin_us <= 0 ? 0 : (spin_us < SPIN_US_MAX ? spin_us : SPIN_US_MAX) * NS_PER_US;
}

static gcoll_status set_limits(gcoll_ib *ib, const gcoll_endpoint_options *options) {
    uint64_t pool = options->eager_pool_bytes > 0 ? options->eager_pool_bytes : GCOLL_IB_POOL_BYTES;
    uint64_t eager = options->eager_bytes > 0 ? options->eager_bytes : GCOLL_IB_EAGER_BYTES;
    uint64_t most;

    if (pool < GCOLL_IB_POOL_MIN || pool > GCOLL_IB_POOL_MAX) {
        return gcoll_error(GCOLL_ERR_INVALID, "eager_pool_bytes: %llu; allowed are %llu to %llu",
                           (unsigned long long)pool, (unsigned long long)GCOLL_IB_POOL_MIN,
                           (unsigned long long)GCOLL_IB_POOL_MAX);
    }
    most = pool / 2 - GCOLL_IB_OVERHEAD_BYTES; /* as in tcp: less than half the pool */
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
    return gcoll_transport_tcp.open(&side, &events, &ib->side);
}

static gcoll_status refused(const gcoll_ib *ib, const char *what) {
    return gcoll_error(GCOLL_ERR_IO, "ibverbs: %s refuses to make a %s: %s", ib->place.name, what,
                       strerror(errno));
}

static gcoll_status make_queues(gcoll_ib *ib) {
    int flags;

    ib->pd = ib->verbs.alloc_pd(ib->context);
    if (ib->pd == NULL) {
        return refused(ib, "protection domain");
    }
    ib->channel = ib->verbs.create_comp_channel(ib->context);
    if (ib->channel == NULL) {
        return refused(ib, "completion channel");
    }
    flags = fcntl(ib->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(ib->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        return refused(ib, "completion channel that does not block");
    }
    ib->cq_entries = CQ_FIRST < ib->cq_most ? CQ_FIRST : ib->cq_most;
    ib->cq = ib->verbs.create_cq(ib->context, (int)ib->cq_entries, ib, ib->channel, 0);
    if (ib->cq == NULL) {
        return refused(ib, "completion queue");
    }
    return gcoll_tcp_watch(ib->side, ib->channel->fd);
}

static gcoll_status open_all(gcoll_ib *ib, const gcoll_endpoint_options *options) {
    gcoll_status status = set_limits(ib, options);

    if (status == GCOLL_OK) {
        status = gcoll_ib_options_read(options->ibverbs, &ib->options);
    }
    if (status == GCOLL_OK) {
        status = gcoll_verbs_load(&ib->verbs);
    }
    if (status == GCOLL_OK) {
        status = open_side(ib, options);
    }
    if (status == GCOLL_OK) {
        status = gcoll_ib_open_device(ib, gcoll_tcp_own_address(ib->side));
    }
    if (status == GCOLL_OK) {
        status = make_queues(ib);
    }
    ib->memory.cache_bytes = ib->options.cache_bytes;
    ib->options.device = NULL; /* the caller's memory */
    return status;
}

static gcoll_status ib_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                            gcoll_endpoint **endpoint) {
    gcoll_ib *ib = calloc(1, sizeof *ib);
    gcoll_status status = GCOLL_OK;

    if (ib != NULL) {
        ib->pairs = calloc(options->size > 0 ? options->size : 1, sizeof(gcoll_ib_pair *));
    }
    if (ib == NULL || ib->pairs == NULL) {
        free(ib);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint");
    }
    ib->rank = options->rank;
    ib->size = options->size;
    ib->events = *events;
    status = open_all(ib, options);
    if (status != GCOLL_OK) {
        if (ib->side != NULL) {
            gcoll_tcp_unwatch(ib->side);
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

    if (status != GCOLL_OK) {
        return status;
    }
    if (ahead + strlen(side) >= bytes) {
        return gcoll_error(GCOLL_ERR_INVALID, "address: needs %zu bytes, and there are %zu",
                           ahead + strlen(side) + 1, bytes);
    }
    snprintf(text, bytes, "%s%s", prefix, side);
    return GCOLL_OK;
}

static gcoll_status ib_connect(gcoll_endpoint *endpoint, uint32_t peer, const char *address) {
    if (strncmp(address, prefix, sizeof prefix - 1) != 0) {
        return gcoll_error(GCOLL_ERR_INVALID, "address: '%.40s' is none of transport ibverbs", address);
    }
    return gcoll_transport_tcp.connect(gcoll_ib_of(endpoint)->side, peer, address + sizeof prefix - 1);
}

static void ib_flush(gcoll_endpoint *endpoint) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);

    if (ib->outputs != NULL) {
        gcoll_ib_flush_all(ib);
    }
    if (ib->meeting_count > 0) {
        gcoll_transport_tcp.flush(ib->side);
    }
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
        if (region == NULL) {
            return GCOLL_ERR_NO_MEMORY;
        }
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
    return *handle != NULL ? GCOLL_OK : GCOLL_ERR_UNSUPPORTED;
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
};
