/* transport/session/net.c - opens TCP endpoints, and creates and releases sessions; the transport's table. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/session/branch.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"

#define CUT_MAX                                                                                              \
    (UINT64_C(1) << 20) /* largest rest of a cut frame that is copied, so that an abort can follow it */
#define NS_PER_US INT64_C(1000)
/* Descriptors of libuv's first loop: epoll, an eventfd, and two pipes for signals (process and loop). */
#define LOOP_DESCRIPTORS 6
/* Most bytes of one system call; more would not fit the socket's buffer anyway. */
#define BATCH_BYTES (2U << 20)

/* ---- Pairs ----------------------------------------------------------------------------------------- */

gcoll_session *gcoll_session_of(gcoll_net *net, uint32_t rank) {
    if (rank >= net->size || rank == net->rank)
        return NULL;
    gcoll_session *session = net->sessions[rank];
    if (!session) {
        session = calloc(1, sizeof *session);
        if (session) {
            session->net = net;
            session->rank = rank;
            gcoll_flow_init(&session->flow, &gcoll_no_flow_lane, rank, net->eager_bytes, net->pool_bytes);
            net->sessions[rank] = session;
        }
    }
    return session;
}

/* Forgets what the connection has to do with messages that are dropped. */
static void drop_moving(gcoll_session *session) {
    for (gcoll_channel *channel = session->channels; channel; channel = channel->next)
        channel->posted = 0;
    gcoll_message_queue_clear(&session->output.messages);
    gcoll_message_queue_clear(&session->output.sealed);
    session->output.cut.message = NULL;
    session->posted = 0;
    session->input.slot = NULL;
    session->input.flow = &session->flow;
}

void gcoll_session_drop(gcoll_session *session) {
    gcoll_session_drop_lane(session);
    gcoll_flow_drop(&session->flow);
    drop_moving(session);
}

bool gcoll_session_keep_cut(gcoll_session *session) {
    gcoll_session_output *out = &session->output;
    gcoll_session_cut *cut = &out->cut;
    const size_t head = cut->end - cut->begin, payload = (size_t)cut->payload_bytes;
    const size_t control = gcoll_bytes_left(&out->control);
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
        memcpy(bytes + head + payload, out->control.bytes + out->control.begin, control);
    free(out->control.bytes);
    out->control = (gcoll_byte_queue){bytes, 0, head + payload + control, head + payload + control};
    memset(cut, 0, sizeof *cut);
    return true;
}

void gcoll_session_release(gcoll_session *session) {
    bool keeps_socket =
        session->verdict == GCOLL_ERR_PROTOCOL || session->lane.tells ||
        session->verdict == GCOLL_ERR_MISMATCH || session->changed ||
        session->verdict == GCOLL_ERR_NO_MEMORY; /* the peer must learn that it is not at fault */
    gcoll_session_output *out = &session->output;
    gcoll_dial_end(session);
    gcoll_link_drop(session->reserve);
    gcoll_session_drop_lane(session);
    if (session->state == GCOLL_SESSION_DEPARTED)
        gcoll_flow_depart(&session->flow);
    else
        gcoll_flow_drop(&session->flow);
    drop_moving(session);
    if (keeps_socket)
        gcoll_session_end_doubt(session);
    else /* else the end would look like a failure there, before it is told */
        gcoll_session_end_lane(session);
    free(session->input.bytes);
    free(session->input.fragment);
    memset(&session->input, 0, sizeof session->input);
    if (session->socket && keeps_socket && gcoll_session_keep_cut(session)) {
        gcoll_socket_poll(session->socket);
        return;
    }
    gcoll_socket_close(session->socket);
    session->socket = NULL;
    free(out->control.bytes);
    memset(out, 0, sizeof *out);
}

void gcoll_session_destroy(gcoll_session *session) {
    if (session) {
        gcoll_dial_end(session);
        gcoll_link_drop(session->reserve);
        gcoll_session_drop(session);
        gcoll_session_end_lane(session);
        gcoll_socket_close(session->socket);
        free(session->input.bytes);
        free(session->input.fragment);
        free(session->output.control.bytes);
        gcoll_forget_secret(session->key, sizeof session->key);
        free(session);
    }
}

/* ---- Opening --------------------------------------------------------------------------------------- */

static void on_wake(uv_async_t *waker) {
    (void)waker; /* the flag is set already */
}

static int64_t spin_ns(int64_t spin_us) {
    int64_t us = gcoll_net_bounded(spin_us);
    return us > 0 ? us * NS_PER_US : 0;
}

static gcoll_status set_limits(gcoll_net *net, const gcoll_endpoint_options *options) {
    gcoll_status status = gcoll_lane_set_limits(options, "tcp", GCOLL_NET_EAGER_BYTES, UINT64_MAX,
                                                &net->eager_bytes, &net->pool_bytes);
    net->connect_timeout_ms = options->connect_timeout_ms > 0 ? gcoll_net_bounded(options->connect_timeout_ms)
                                                              : GCOLL_NET_CONNECT_MS;
    net->connects_on = options->connects_on;
    gcoll_patience_init(&net->patience, spin_ns(options->spin_us), options->rank);
    return status;
}

/* Sets sizes of frames and batches. Batches with checksums are small, as the checksums of bytes that the
 * kernel does not take are computed again. */
static void set_frames(gcoll_net *net, bool checksum) {
    net->crc = checksum ? gcoll_crc32c_find() : NULL;
    net->fragment_max = checksum ? GCOLL_WIRE_CHECKED_MAX : GCOLL_WIRE_FRAGMENT_MAX;
    net->batch_bytes = checksum ? GCOLL_WIRE_CHECKED_MAX : BATCH_BYTES;
    net->address.checksum = checksum;
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

static int add_handles(gcoll_net *net) {
    net->waker.data = net->alarm.data = net->sweeper.data = net->pause.data = net;
    int error = uv_async_init(&net->loop, &net->waker, on_wake);
    if (error == 0)
        error = uv_timer_init(&net->loop, &net->alarm);
    if (error == 0)
        error = uv_timer_init(&net->loop, &net->sweeper);
    if (error == 0)
        error = uv_timer_init(&net->loop, &net->pause);
    return error != 0 ? error : gcoll_net_watch_listeners(net);
}

gcoll_status gcoll_net_start(gcoll_net *net) {
    if (gcoll_net_has_loop(net))
        return GCOLL_OK;
    gcoll_fork_hold();
    int error = -try_descriptors();
    if (error == 0)
        error = uv_loop_init(&net->loop);
    if (error == 0)
        gcoll_descriptor_enter(&net->loop_descriptor, uv_backend_fd(&net->loop));
    gcoll_fork_release();
    char text[GCOLL_ERRNO_TEXT_MAX];
    if (error != 0)
        return gcoll_error(gcoll_status_of_errno(-error), "cannot make an event loop: %s",
                           gcoll_errno_text(-error, text));
    net->loop.data = net; /* marks that the loop exists and must be closed */
    error = add_handles(net);
    return error == 0 ? GCOLL_OK
                      : gcoll_error(gcoll_status_of_errno(-error), "cannot start an event loop: %s",
                                    gcoll_errno_text(-error, text));
}

static gcoll_status allocate(gcoll_net *net) {
    net->sessions = calloc(net->size, sizeof(gcoll_session *));
    if (!net->sessions || posix_memalign((void **)&net->hot_bytes, 64, GCOLL_SESSION_HOT_BYTES) != 0)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint of %u ranks", net->size);
    return GCOLL_OK;
}

/* Reserves two descriptors: a rank that runs out of them needs two to report it in a file store. */
static void keep_spare(gcoll_net *net) {
    for (size_t i = 0; i < sizeof net->spare / sizeof net->spare[0]; i++)
        net->spare[i] = eventfd(0, EFD_CLOEXEC); /* an eventfd, as a forked child's copy of it does no harm */
}

void gcoll_net_drop_spare(gcoll_net *net) {
    for (size_t i = 0; i < sizeof net->spare / sizeof net->spare[0]; i++) {
        if (net->spare[i] >= 0)
            close(net->spare[i]);
        net->spare[i] = -1;
    }
}

static gcoll_status net_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                             gcoll_endpoint **endpoint) {
    if (options->size == 0 || options->rank >= options->size)
        return gcoll_error(GCOLL_ERR_INVALID, "rank: %u of %u; allowed are 0 to size - 1", options->rank,
                           options->size);
    gcoll_net *net = calloc(1, sizeof *net);
    if (!net)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint");
    net->spare[0] = net->spare[1] = -1;
    net->rank = options->rank;
    net->size = options->size;
    net->voice.news_of = net->voice.doubt = UINT32_MAX;
    net->events = *events;
    memcpy(net->group, options->group, sizeof net->group);
    net->has_secret = options->secret;
    net->address.secret = net->has_secret;
    if (net->has_secret)
        memcpy(net->secret, options->secret, sizeof net->secret);
    set_frames(net, options->checksum);
    gcoll_status status = gcoll_net_set_encryption(net, options->encryption);
    if (status == GCOLL_OK)
        status = set_limits(net, options);
    if (status == GCOLL_OK)
        status = allocate(net);
    if (status == GCOLL_OK)
        status = gcoll_random_bytes(net->address.token, sizeof net->address.token);
    bool everywhere;
    if (status == GCOLL_OK) {
        net->address.host = gcoll_host_identity();
        status = gcoll_net_find_interfaces(net, options, &everywhere);
    }
    if (status == GCOLL_OK)
        status = gcoll_net_listen(net, options, everywhere);
    if (status == GCOLL_OK)
        status = gcoll_net_open_lanes(net, options);
    if (status != GCOLL_OK) {
        gcoll_net_destroy(net);
        return status;
    }
    keep_spare(net);
    *endpoint = (gcoll_endpoint *)(void *)net;
    return GCOLL_OK;
}

/* ---- The rest of the table ------------------------------------------------------------------------- */

static gcoll_status net_address(gcoll_endpoint *endpoint, char *text, size_t bytes) {
    return gcoll_address_format(&gcoll_net_of(endpoint)->address, text, bytes);
}

static void net_set_spin(gcoll_endpoint *endpoint, int64_t spin_us) {
    gcoll_net_of(endpoint)->patience.spin_ns = spin_ns(spin_us);
}

/* Without a choice of the caller, this lane alone. */
static gcoll_status open_by(const gcoll_lane *lane, const gcoll_endpoint_options *options,
                            const gcoll_events *events, gcoll_endpoint **endpoint) {
    const gcoll_lane_row row = {.name = lane->name, .lane = lane};
    const gcoll_lane_choice choice = {.lane = &row};
    gcoll_endpoint_options one = *options;
    if (one.lane_count == 0) {
        one.lanes = &choice;
        one.lane_count = 1;
    }
    return net_open(&one, events, endpoint);
}

static gcoll_status tcp_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                             gcoll_endpoint **endpoint) {
    return open_by(&gcoll_lane_tcp, options, events, endpoint);
}

static gcoll_status ibverbs_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                                 gcoll_endpoint **endpoint) {
    return open_by(&gcoll_lane_ibverbs, options, events, endpoint);
}

static gcoll_status shm_open_alone(const gcoll_endpoint_options *options, const gcoll_events *events,
                                   gcoll_endpoint **endpoint) {
    return open_by(&gcoll_lane_shm, options, events, endpoint);
}

#define NET_OPERATIONS                                                                                       \
    .yields = true, .address = net_address, .connect = gcoll_net_connect, .post_send = gcoll_net_post_send,  \
    .post_recv = gcoll_net_post_recv, .moves_now = gcoll_net_moves_now, .send_now = gcoll_net_send_now,      \
    .recv_now = gcoll_net_recv_now, .flush = gcoll_net_flush, .progress = gcoll_net_progress,                \
    .peek = gcoll_net_peek, .wake = gcoll_net_wake, .probe = gcoll_net_probe,                                \
    .set_position = gcoll_net_set_position, .set_concern = gcoll_net_set_concern, .set_spin = net_set_spin,  \
    .abort = gcoll_net_abort, .close = gcoll_net_close, .moves = gcoll_net_moves, .look = gcoll_net_look,    \
    .set_news = gcoll_net_set_news, .set_doubt = gcoll_net_set_doubt, .take_back = gcoll_net_take_back,      \
    .look_soon = gcoll_net_look_soon, .abandon = gcoll_net_abandon, .explain = gcoll_net_explain,            \
    .count = gcoll_net_count, .count_peer = gcoll_net_count_peer

const gcoll_transport gcoll_transport_tcp = {
    .name = "tcp", .open = tcp_open, NET_OPERATIONS, .shared = &gcoll_transport_branch};

/* Groups share connections by frames that only tcp has. */
const gcoll_transport gcoll_transport_shm = {
    .name = "shm", .beyond = "tcp", .open = shm_open_alone, NET_OPERATIONS};

/* Lanes, one of which may reach the memory of peers. */
const gcoll_transport gcoll_transport_ibverbs = {.name = "ibverbs",
                                                 .open = ibverbs_open,
                                                 NET_OPERATIONS,
                                                 .attach = gcoll_net_attach,
                                                 .detach = gcoll_net_detach,
                                                 .device_memory = gcoll_net_device_memory,
                                                 .attach_device = gcoll_net_attach_device,
                                                 .expose = gcoll_net_expose,
                                                 .conceal = gcoll_net_conceal,
                                                 .reaches = gcoll_net_reaches,
                                                 .access = gcoll_net_access};
