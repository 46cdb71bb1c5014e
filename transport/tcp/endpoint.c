/* transport/tcp/endpoint.c - the table of operations, opening, and pairs. */
#include <stdlib.h>
#include <string.h>

#include "transport/tcp/tcp.h"

#define NS_PER_US INT64_C(1000)

/* ---- Pairs ----------------------------------------------------------------------------------------- */

gcoll_tcp_pair *gcoll_tcp_pair_of(gcoll_tcp *tcp, uint32_t rank) {
    gcoll_tcp_pair *pair;

    if (rank >= tcp->size || rank == tcp->rank) {
        return NULL;
    }
    pair = tcp->pairs[rank];
    if (pair == NULL) {
        pair = calloc(1, sizeof *pair);
        if (pair != NULL) {
            pair->tcp = tcp;
            pair->rank = rank;
            tcp->pairs[rank] = pair;
        }
    }
    return pair;
}

static void drop_sends(gcoll_tcp_pair *pair) {
    gcoll_match_clear(&pair->outgoing);
    memset(&pair->waiting, 0, sizeof pair->waiting);
    pair->promised = pair->asked = 0;
    pair->output.head = pair->output.tail = NULL;
    pair->output.cut.message = NULL;
}

void gcoll_tcp_pair_drop(gcoll_tcp_pair *pair) {
    drop_sends(pair);
    gcoll_match_clear(&pair->incoming);
    memset(&pair->ungranted, 0, sizeof pair->ungranted);
    pair->posted = pair->granted = pair->offered = 0;
    pair->held = 0;
    pair->input.slot = NULL;
}

/* A receive that is posted, or a message that came in part, will never be complete. */
static void drop_if_hopeless(void *arg, gcoll_slot *slot) {
    gcoll_tcp_pair *pair = arg;

    if (slot->message == NULL && (slot->flags & GCOLL_TCP_STARTED) && slot->received == slot->total) {
        return;
    }
    if (slot->held != NULL) {
        pair->held -= slot->total;
    }
    gcoll_match_remove(&pair->incoming, slot);
}

void gcoll_tcp_pair_release(gcoll_tcp_pair *pair) {
    bool keeps_socket = pair->verdict == GCOLL_ERR_PROTOCOL || pair->verdict == GCOLL_ERR_MISMATCH;
    gcoll_tcp_output *out = &pair->output;

    gcoll_tcp_dial_end(pair);
    gcoll_tcp_link_drop(pair->reserve);
    if (pair->state == GCOLL_TCP_DEPARTED) {
        drop_sends(pair);
        memset(&pair->ungranted, 0, sizeof pair->ungranted);
        gcoll_match_visit(&pair->incoming, drop_if_hopeless, pair);
        pair->posted = 0;
        pair->input.slot = NULL;
    } else {
        gcoll_tcp_pair_drop(pair);
    }
    free(pair->input.bytes);
    memset(&pair->input, 0, sizeof pair->input);
    if (pair->socket != NULL && keeps_socket && out->cut.payload_bytes == 0) {
        gcoll_tcp_socket_poll(pair->socket);
        return;
    }
    gcoll_tcp_socket_close(pair->socket);
    pair->socket = NULL;
    free(out->control);
    memset(out, 0, sizeof *out);
}

void gcoll_tcp_pair_destroy(gcoll_tcp_pair *pair) {
    if (pair != NULL) {
        gcoll_tcp_dial_end(pair);
        gcoll_tcp_link_drop(pair->reserve);
        gcoll_tcp_pair_drop(pair);
        gcoll_tcp_socket_close(pair->socket);
        free(pair->input.bytes);
        free(pair->output.control);
        free(pair);
    }
}

/* ---- Opening --------------------------------------------------------------------------------------- */

static void on_wake(uv_async_t *waker) {
    gcoll_tcp *tcp = waker->data;

    tcp->woken = true;
}

static int64_t spin_ns(int64_t spin_us) {
    int64_t us = gcoll_tcp_bounded(spin_us);

    return us > 0 ? us * NS_PER_US : 0;
}

static gcoll_status set_limits(gcoll_tcp *tcp, const gcoll_endpoint_options *options) {
    uint64_t pool = options->eager_pool_bytes > 0 ? options->eager_pool_bytes : GCOLL_TCP_POOL_BYTES;
    uint64_t eager = options->eager_bytes > 0 ? options->eager_bytes : GCOLL_TCP_EAGER_BYTES;
    uint64_t most;

    if (pool < GCOLL_TCP_POOL_MIN || pool > GCOLL_TCP_POOL_MAX) {
        return gcoll_error(GCOLL_ERR_INVALID, "eager_pool_bytes: %llu; allowed are %llu to %llu",
                           (unsigned long long)pool, (unsigned long long)GCOLL_TCP_POOL_MIN,
                           (unsigned long long)GCOLL_TCP_POOL_MAX);
    }
    most = pool / 2 - GCOLL_TCP_OVERHEAD_BYTES;
    tcp->pool_bytes = pool;
    tcp->eager_bytes = eager < most ? eager : most; /* see flow.c: less than half the pool */
    tcp->connect_timeout_ms = options->connect_timeout_ms > 0 ? gcoll_tcp_bounded(options->connect_timeout_ms)
                                                              : GCOLL_TCP_CONNECT_MS;
    tcp->patience.spin_ns = spin_ns(options->spin_us);
    return GCOLL_OK;
}

static gcoll_status start_loop(gcoll_tcp *tcp) {
    int error = uv_loop_init(&tcp->loop);

    if (error != 0) {
        return gcoll_error(GCOLL_ERR_IO, "cannot make an event loop: %s", uv_strerror(error));
    }
    tcp->loop.data = tcp; /* says that there is one to close */
    tcp->waker.data = tcp->alarm.data = tcp->sweeper.data = tcp->pause.data = tcp;
    error = uv_async_init(&tcp->loop, &tcp->waker, on_wake);
    if (error == 0) {
        error = uv_timer_init(&tcp->loop, &tcp->alarm);
    }
    if (error == 0) {
        error = uv_timer_init(&tcp->loop, &tcp->sweeper);
    }
    if (error == 0) {
        error = uv_timer_init(&tcp->loop, &tcp->pause);
    }
    return error == 0 ? GCOLL_OK
                      : gcoll_error(GCOLL_ERR_IO, "cannot start an event loop: %s", uv_strerror(error));
}

static gcoll_status allocate(gcoll_tcp *tcp) {
    tcp->pairs = calloc(tcp->size, sizeof(gcoll_tcp_pair *));
    if (tcp->pairs == NULL || posix_memalign((void **)&tcp->hot_bytes, 64, GCOLL_TCP_HOT_BYTES) != 0) {
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint of %u ranks", tcp->size);
    }
    return GCOLL_OK;
}

static gcoll_status tcp_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                             gcoll_endpoint **endpoint) {
    gcoll_host_address bind_to;
    bool everywhere;
    gcoll_tcp *tcp;
    gcoll_status status;

    if (options->size == 0 || options->rank >= options->size) {
        return gcoll_error(GCOLL_ERR_INVALID, "rank: %u of %u; allowed are 0 to size - 1", options->rank,
                           options->size);
    }
    tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL) {
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint");
    }
    tcp->rank = options->rank;
    tcp->size = options->size;
    tcp->events = *events;
    memcpy(tcp->group, options->group, sizeof tcp->group);
    status = start_loop(tcp);
    if (status != GCOLL_OK) {
        gcoll_tcp_destroy(tcp);
        return status;
    }
    status = set_limits(tcp, options);
    if (status == GCOLL_OK) {
        status = allocate(tcp);
    }
    if (status == GCOLL_OK) {
        status = gcoll_random_bytes(tcp->address.token, sizeof tcp->address.token);
    }
    if (status == GCOLL_OK) {
        tcp->address.host = gcoll_host_identity();
        status = gcoll_tcp_find_interfaces(tcp, options->interface, options->route_to, &bind_to, &everywhere);
    }
    if (status == GCOLL_OK) {
        status = gcoll_tcp_listen(tcp, options, &bind_to, everywhere);
    }
    if (status != GCOLL_OK) {
        gcoll_tcp_destroy(tcp);
        return status;
    }
    *endpoint = (gcoll_endpoint *)(void *)tcp;
    return GCOLL_OK;
}

/* ---- The rest of the table ------------------------------------------------------------------------- */

static gcoll_status tcp_address(gcoll_endpoint *endpoint, char *text, size_t bytes) {
    return gcoll_address_format(&gcoll_tcp_of(endpoint)->address, text, bytes);
}

static void tcp_probe(gcoll_endpoint *endpoint, uint32_t peer) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    gcoll_tcp_pair *pair = peer < tcp->size ? tcp->pairs[peer] : NULL;

    if (pair != NULL && pair->state == GCOLL_TCP_CONNECTED && !tcp->leaving) {
        pair->output.ping = true;
        gcoll_tcp_want_output(pair);
    }
}

static void tcp_set_position(gcoll_endpoint *endpoint, uint64_t position) {
    gcoll_tcp_of(endpoint)->position = position;
}

static void tcp_set_concern(gcoll_endpoint *endpoint, uint64_t stream,
                            const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);

    tcp->concerned = fingerprint != NULL;
    tcp->concern_stream = stream;
    if (fingerprint != NULL) {
        memcpy(tcp->concern, fingerprint, sizeof tcp->concern);
    }
}

static void tcp_set_spin(gcoll_endpoint *endpoint, int64_t spin_us) {
    gcoll_tcp_of(endpoint)->patience.spin_ns = spin_ns(spin_us);
}

const gcoll_transport gcoll_transport_tcp = {
    .name = "tcp",
    .yields = true,
    .list = gcoll_tcp_list,
    .open = tcp_open,
    .address = tcp_address,
    .connect = gcoll_tcp_connect,
    .post_send = gcoll_tcp_post_send,
    .post_recv = gcoll_tcp_post_recv,
    .flush = gcoll_tcp_flush,
    .progress = gcoll_tcp_progress,
    .peek = gcoll_tcp_peek,
    .wake = gcoll_tcp_wake,
    .probe = tcp_probe,
    .set_position = tcp_set_position,
    .set_concern = tcp_set_concern,
    .set_spin = tcp_set_spin,
    .abort = gcoll_tcp_abort,
    .close = gcoll_tcp_close,
};
