/* transport/tcp/endpoint.c - opens TCP endpoints, and creates and releases pairs; the transport's table. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/tcp/connect.h"
#include "transport/tcp/pair.h"

#define CUT_MAX                                                                                              \
    (UINT64_C(1) << 20) /* largest rest of a cut frame that is copied, so that an abort can follow it */
#define NS_PER_US INT64_C(1000)
/* Descriptors of libuv's first loop: epoll, an eventfd, and two pipes for signals (process and loop). */
#define LOOP_DESCRIPTORS 6
/* Most bytes of one system call; more would not fit the socket's buffer anyway. */
#define BATCH_BYTES (2U << 20)

/* ---- Pairs ----------------------------------------------------------------------------------------- */

gcoll_tcp_pair *gcoll_tcp_pair_of(gcoll_tcp *tcp, uint32_t rank) {
    if (rank >= tcp->size || rank == tcp->rank)
        return NULL;
    gcoll_tcp_pair *pair = tcp->pairs[rank];
    if (!pair) {
        pair = calloc(1, sizeof *pair);
        if (pair) {
            pair->tcp = tcp;
            pair->rank = rank;
            gcoll_flow_init(&pair->flow, &gcoll_tcp_flow_lane, rank, tcp->eager_bytes, tcp->pool_bytes);
            tcp->pairs[rank] = pair;
        }
    }
    return pair;
}

/* Forgets what the connection has to do with messages that are dropped. */
static void drop_moving(gcoll_tcp_pair *pair) {
    gcoll_message_queue_clear(&pair->output.messages);
    pair->output.cut.message = NULL;
    pair->posted = 0;
    pair->input.slot = NULL;
}

void gcoll_tcp_pair_drop(gcoll_tcp_pair *pair) {
    gcoll_flow_drop(&pair->flow);
    drop_moving(pair);
}

/* Copies the rest of a frame that the kernel has taken in part, and the control frames after it, as the
 * caller may now reuse its memory. The next write then begins a new frame. False: the rest is too large, or
 * out of memory. */
static bool keep_cut(gcoll_tcp_output *out) {
    gcoll_tcp_cut *cut = &out->cut;
    const size_t head = cut->end - cut->begin, payload = (size_t)cut->payload_bytes;
    const size_t control = out->end - out->begin;
    if (cut->payload_bytes == 0)
        return true;
    if (cut->payload_bytes > CUT_MAX)
        return false;
    uint8_t *bytes = malloc(head + payload + control);
    if (!bytes)
        return false;
    memcpy(bytes, cut->bytes + cut->begin, head);
    memcpy(bytes + head, cut->payload, payload);
    if (control > 0)
        memcpy(bytes + head + payload, out->control + out->begin, control);
    free(out->control);
    out->control = bytes;
    out->begin = 0;
    out->end = out->capacity = head + payload + control;
    memset(cut, 0, sizeof *cut);
    return true;
}

void gcoll_tcp_pair_release(gcoll_tcp_pair *pair) {
    bool keeps_socket =
        pair->verdict == GCOLL_ERR_PROTOCOL || pair->verdict == GCOLL_ERR_MISMATCH || pair->changed ||
        pair->verdict == GCOLL_ERR_NO_MEMORY; /* the peer must learn that it is not at fault */
    gcoll_tcp_output *out = &pair->output;
    gcoll_tcp_dial_end(pair);
    gcoll_tcp_link_drop(pair->reserve);
    if (pair->state == GCOLL_TCP_DEPARTED)
        gcoll_flow_depart(&pair->flow);
    else
        gcoll_flow_drop(&pair->flow);
    drop_moving(pair);
    free(pair->input.bytes);
    free(pair->input.fragment);
    memset(&pair->input, 0, sizeof pair->input);
    if (pair->socket && keeps_socket && keep_cut(out)) {
        gcoll_tcp_socket_poll(pair->socket);
        return;
    }
    gcoll_tcp_socket_close(pair->socket);
    pair->socket = NULL;
    free(out->control);
    memset(out, 0, sizeof *out);
}

void gcoll_tcp_pair_destroy(gcoll_tcp_pair *pair) {
    if (pair) {
        gcoll_tcp_dial_end(pair);
        gcoll_tcp_link_drop(pair->reserve);
        gcoll_tcp_pair_drop(pair);
        gcoll_tcp_socket_close(pair->socket);
        free(pair->input.bytes);
        free(pair->input.fragment);
        free(pair->output.control);
        free(pair);
    }
}

/* ---- Opening --------------------------------------------------------------------------------------- */

static void on_wake(uv_async_t *waker) {
    (void)waker; /* the flag is set already */
}

static int64_t spin_ns(int64_t spin_us) {
    int64_t us = gcoll_tcp_bounded(spin_us);
    return us > 0 ? us * NS_PER_US : 0;
}

static gcoll_status set_limits(gcoll_tcp *tcp, const gcoll_endpoint_options *options) {
    uint64_t pool = options->eager_pool_bytes > 0 ? options->eager_pool_bytes : GCOLL_TCP_POOL_BYTES;
    uint64_t eager = options->eager_bytes > 0 ? options->eager_bytes : GCOLL_TCP_EAGER_BYTES;
    if (pool < GCOLL_TCP_POOL_MIN || pool > GCOLL_TCP_POOL_MAX)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.eager_pool_bytes: is %llu; allowed are 0 (default) and %llu to %llu",
                           (unsigned long long)pool, (unsigned long long)GCOLL_TCP_POOL_MIN,
                           (unsigned long long)GCOLL_TCP_POOL_MAX);
    uint64_t most = pool / 2 - GCOLL_FLOW_OVERHEAD_BYTES;
    tcp->pool_bytes = pool;
    tcp->eager_bytes = eager < most ? eager : most; /* see transport/flow: less than half the pool */
    tcp->connect_timeout_ms = options->connect_timeout_ms > 0 ? gcoll_tcp_bounded(options->connect_timeout_ms)
                                                              : GCOLL_TCP_CONNECT_MS;
    tcp->patience.spin_ns = spin_ns(options->spin_us);
    return GCOLL_OK;
}

/* Sets sizes of frames and batches. Batches with checksums are small, as the checksums of bytes that the
 * kernel does not take are computed again. */
static void set_frames(gcoll_tcp *tcp, bool checksum) {
    tcp->crc = checksum ? gcoll_crc32c_find() : NULL;
    tcp->fragment_max = checksum ? GCOLL_WIRE_CHECKED_MAX : GCOLL_WIRE_FRAGMENT_MAX;
    tcp->batch_bytes = checksum ? GCOLL_WIRE_CHECKED_MAX : BATCH_BYTES;
    tcp->address.checksum = checksum;
}

/* Checks that enough descriptors are free for a loop, as libuv aborts the process if it cannot open the pipe
 * of its first loop. Returns 0 or an error number. Keeps none of them, so that enough are left to tell the
 * others of a failure. */
static int try_descriptors(void) {
    int taken[LOOP_DESCRIPTORS], count = 0, error = 0;
    while (count < LOOP_DESCRIPTORS && (taken[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    if (count < LOOP_DESCRIPTORS)
        error = errno;
    while (count > 0)
        close(taken[--count]);
    return error;
}

static gcoll_status start_loop(gcoll_tcp *tcp) {
    gcoll_fork_hold();
    int error = -try_descriptors();
    if (error == 0)
        error = uv_loop_init(&tcp->loop);
    if (error == 0)
        gcoll_descriptor_enter(&tcp->loop_descriptor, uv_backend_fd(&tcp->loop));
    gcoll_fork_release();
    char text[GCOLL_ERRNO_TEXT_MAX];
    if (error != 0)
        return gcoll_error(gcoll_status_of_errno(-error), "cannot make an event loop: %s",
                           gcoll_errno_text(-error, text));
    tcp->loop.data = tcp; /* marks that the loop exists and must be closed */
    tcp->waker.data = tcp->alarm.data = tcp->sweeper.data = tcp->pause.data = tcp;
    error = uv_async_init(&tcp->loop, &tcp->waker, on_wake);
    if (error == 0)
        error = uv_timer_init(&tcp->loop, &tcp->alarm);
    if (error == 0)
        error = uv_timer_init(&tcp->loop, &tcp->sweeper);
    if (error == 0)
        error = uv_timer_init(&tcp->loop, &tcp->pause);
    return error == 0 ? GCOLL_OK
                      : gcoll_error(gcoll_status_of_errno(-error), "cannot start an event loop: %s",
                                    gcoll_errno_text(-error, text));
}

static gcoll_status allocate(gcoll_tcp *tcp) {
    tcp->pairs = calloc(tcp->size, sizeof(gcoll_tcp_pair *));
    if (!tcp->pairs || posix_memalign((void **)&tcp->hot_bytes, 64, GCOLL_TCP_HOT_BYTES) != 0)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint of %u ranks", tcp->size);
    return GCOLL_OK;
}

/* Reserves two descriptors: a rank that runs out of them needs two to report it in a file store. */
static void keep_spare(gcoll_tcp *tcp) {
    for (size_t i = 0; i < sizeof tcp->spare / sizeof tcp->spare[0]; i++)
        tcp->spare[i] = eventfd(0, EFD_CLOEXEC); /* an eventfd, as a forked child's copy of it does no harm */
}

void gcoll_tcp_drop_spare(gcoll_tcp *tcp) {
    for (size_t i = 0; i < sizeof tcp->spare / sizeof tcp->spare[0]; i++) {
        if (tcp->spare[i] >= 0)
            close(tcp->spare[i]);
        tcp->spare[i] = -1;
    }
}

static gcoll_status tcp_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                             gcoll_endpoint **endpoint) {
    if (options->size == 0 || options->rank >= options->size)
        return gcoll_error(GCOLL_ERR_INVALID, "rank: %u of %u; allowed are 0 to size - 1", options->rank,
                           options->size);
    gcoll_tcp *tcp = calloc(1, sizeof *tcp);
    if (!tcp)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint");
    tcp->spare[0] = tcp->spare[1] = -1;
    tcp->rank = options->rank;
    tcp->size = options->size;
    tcp->news_of = tcp->doubt = UINT32_MAX;
    tcp->events = *events;
    memcpy(tcp->group, options->group, sizeof tcp->group);
    set_frames(tcp, options->checksum);
    gcoll_status status = start_loop(tcp);
    if (status != GCOLL_OK) {
        gcoll_tcp_destroy(tcp);
        return status;
    }
    status = set_limits(tcp, options);
    if (status == GCOLL_OK)
        status = allocate(tcp);
    if (status == GCOLL_OK)
        status = gcoll_random_bytes(tcp->address.token, sizeof tcp->address.token);
    gcoll_host_address bind_to;
    bool everywhere;
    if (status == GCOLL_OK) {
        tcp->address.host = gcoll_host_identity();
        status = gcoll_tcp_find_interfaces(tcp, options->interface, options->route_to, &bind_to, &everywhere);
    }
    if (status == GCOLL_OK)
        status = gcoll_tcp_listen(tcp, options, &bind_to, everywhere);
    if (status != GCOLL_OK) {
        gcoll_tcp_destroy(tcp);
        return status;
    }
    keep_spare(tcp);
    *endpoint = (gcoll_endpoint *)(void *)tcp;
    return GCOLL_OK;
}

/* ---- The rest of the table ------------------------------------------------------------------------- */

static gcoll_status tcp_address(gcoll_endpoint *endpoint, char *text, size_t bytes) {
    return gcoll_address_format(&gcoll_tcp_of(endpoint)->address, text, bytes);
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
    .probe = gcoll_tcp_probe,
    .set_position = gcoll_tcp_set_position,
    .set_concern = gcoll_tcp_set_concern,
    .set_spin = tcp_set_spin,
    .abort = gcoll_tcp_abort,
    .close = gcoll_tcp_close,
    .moves = gcoll_tcp_moves,
    .look = gcoll_tcp_look,
    .set_news = gcoll_tcp_set_news,
    .set_doubt = gcoll_tcp_set_doubt,
    .take_back = gcoll_tcp_take_back,
    .abandon = gcoll_tcp_abandon,
};
