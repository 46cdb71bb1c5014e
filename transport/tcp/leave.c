/*
 * transport/tcp/leave.c - abort and close.
 *
 * Both first drop all messages. In each pair the kernel may have taken a part of one frame. Without the rest
 * the peer could not parse the next frame, and a rest of zeros could complete a message with wrong bytes. So
 * the rest is sent from user memory while abort or close runs: the caller is inside this call, so the memory
 * is valid. If the time does not suffice, the connection is closed, and user memory is not read later.
 *
 * While they write, they also read and discard, so that two ranks that leave at once do not block each other.
 */
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "transport/tcp/connect.h"
#include "transport/tcp/pair.h"

#define WAIT_STEP_US INT64_C(1000)
/* The pause between two checks whether the peers' kernels have acknowledged everything: grows to about 1 ms.
 */
#define PAUSE_FIRST_NS 20000
#define PAUSE_MAX_NS   1000000
/* The longest that a close takes while bytes arrive, in multiples of its limit. */
#define MOVING_LIMITS 30
/* A slow transfer may pause this long: TCP repeats a lost segment after 200 ms, then after 400 ms. */
#define MOVING_MS 1000

/* How long leaving may take. */
typedef struct parting {
    int64_t limit_ms, until_ms;
    bool is_close;   /* close, not abort: streams end once they are written */
    bool may_last;   /* may exceed limit_ms while bytes arrive, as on a slow network */
    uint64_t left;   /* unacknowledged bytes at the latest progress */
    int64_t last_ms; /* the end in any case */
} parting;

/* Drops all messages: from now on no `done`, no event, and no access to user memory except for cut frames. */
static void forget_messages(gcoll_tcp *tcp) {
    tcp->leaving = true;
    gcoll_tcp_watch_all(tcp);
    gcoll_message_queue_clear(&tcp->completed);
    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->pairs[i])
            gcoll_tcp_pair_drop(tcp->pairs[i]);
}

/* Releases pairs that broke. */
static void release_broken(gcoll_tcp *tcp) {
    while (tcp->verdicts) {
        gcoll_tcp_pair *pair = tcp->verdicts;
        tcp->verdicts = pair->next_verdict;
        pair->in_verdicts = false;
        gcoll_tcp_pair_release(pair);
    }
    tcp->last_verdict = NULL;
}

/* Whether output is left to send. A peer that aborted needs none, and may no longer read. */
static bool has_unsent(const gcoll_tcp *tcp) {
    for (const gcoll_tcp_pair *pair = tcp->outputs; pair; pair = pair->next_output)
        if (pair->socket && !pair->told && gcoll_tcp_has_output(pair))
            return true;
    return false;
}

static bool is_dialing(const gcoll_tcp *tcp, uint32_t except) {
    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->pairs[i] && tcp->pairs[i]->state == GCOLL_TCP_DIALING && i != except)
            return true;
    return false;
}

/* The number of written bytes that the peers' kernels have not acknowledged. */
static uint64_t unacknowledged(const gcoll_tcp *tcp) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < tcp->size; i++) {
        const gcoll_tcp_pair *pair = tcp->pairs[i];
        int bytes = 0;
        if (pair && pair->socket && !pair->told && !pair->output.dead &&
            ioctl(pair->socket->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0)
            total += (uint64_t)bytes;
    }
    return total;
}

/* Whether leaving has taken as long as it may. */
static bool is_over(const gcoll_tcp *tcp, parting *p) {
    const int64_t now = gcoll_now_ms();
    if (p->may_last && now < p->last_ms) {
        const uint64_t left = unacknowledged(tcp);
        if (left < p->left) {
            p->left = left;
            p->until_ms = now + (p->limit_ms > MOVING_MS ? p->limit_ms : MOVING_MS);
        }
    }
    return now >= p->until_ms;
}

/* Ends the streams on which everything is written, at once: a peer learns that this rank left while others
 * still read. Later probes get no answer, as nothing can be written after the end. */
static void end_streams(gcoll_tcp *tcp) {
    for (uint32_t i = 0; i < tcp->size; i++) {
        gcoll_tcp_pair *pair = tcp->pairs[i];
        if (pair && pair->socket && !pair->output.ended && !gcoll_tcp_has_output(pair)) {
            pair->output.ended = true;
            shutdown(pair->socket->fd, SHUT_WR);
        }
    }
}

/* Writes, and discards arriving data, until everything is written or time is over. */
static void drain(gcoll_tcp *tcp, parting *p) {
    for (;;) {
        gcoll_tcp_flush_all(tcp);
        if (p->is_close)
            end_streams(tcp);
        release_broken(tcp);
        if (!has_unsent(tcp) || is_over(tcp, p))
            return;
        gcoll_tcp_block(tcp, WAIT_STEP_US);
    }
}

/* Closes a connection whose cut frame still needs user memory, as the memory is not valid after the call. */
static void cut_off(gcoll_tcp_pair *pair) {
    if (pair->output.cut.payload_bytes > 0) {
        gcoll_tcp_socket_close(pair->socket);
        pair->socket = NULL;
        pair->output.cut.payload_bytes = 0;
        pair->output.cut.payload = NULL;
        if (pair->state == GCOLL_TCP_CONNECTED)
            pair->state = GCOLL_TCP_FAILED;
    }
}

static void tell(gcoll_tcp_pair *pair, const gcoll_note *note) {
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES + GCOLL_NOTE_TEXT_MAX];
    if (pair->socket && !pair->told)
        gcoll_tcp_append_control(pair, bytes, gcoll_wire_put_note(bytes, note));
}

void gcoll_tcp_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    int64_t now = gcoll_now_ms();
    parting p = {0};
    if (tcp->leaving)
        return;
    limit_ms = gcoll_tcp_bounded(limit_ms);
    p.until_ms = now + limit_ms;
    gcoll_tcp_drop_spare(tcp);
    forget_messages(tcp);
    tcp->note = *note;
    tcp->has_note = true;
    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->pairs[i])
            tell(tcp->pairs[i], note);
    drain(tcp, &p);
    /* Also tell peers that are just connecting, but do not wait for the culprit: that it does not answer may
     * be the reason of the abort. */
    while (is_dialing(tcp, note->culprit) && gcoll_now_ms() < now + limit_ms / 4) {
        gcoll_tcp_block(tcp, WAIT_STEP_US);
        drain(tcp, &p);
    }
    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->pairs[i])
            cut_off(tcp->pairs[i]);
}

/* ---- Closing --------------------------------------------------------------------------------------- */

static void say_goodbye(gcoll_tcp_pair *pair) {
    if (pair->state == GCOLL_TCP_CONNECTED) {
        gcoll_tcp_say_goodbye(pair);
        pair->output.last_frame = true;
    }
    gcoll_tcp_dial_end(pair);
    gcoll_tcp_link_drop(pair->reserve);
}

static void await_acknowledgement(gcoll_tcp *tcp, parting *p) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = PAUSE_FIRST_NS};
    while (unacknowledged(tcp) > 0 && !is_over(tcp, p)) {
        uv_run(&tcp->loop, UV_RUN_NOWAIT);
        release_broken(tcp);
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec * 2 < PAUSE_MAX_NS ? pause.tv_nsec * 2 : PAUSE_MAX_NS;
    }
}

static void close_handle(uv_handle_t *handle, void *arg) {
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* Closes the loop; false if some of its handles are not closed yet. */
static bool close_loop(gcoll_tcp *tcp) {
    gcoll_fork_hold();
    bool closed = uv_loop_close(&tcp->loop) != UV_EBUSY;
    if (closed)
        gcoll_descriptor_leave(&tcp->loop_descriptor);
    gcoll_fork_release();
    return closed;
}

void gcoll_tcp_destroy(gcoll_tcp *tcp) {
    gcoll_tcp_drop_spare(tcp);
    gcoll_tcp_stop_listening(tcp);
    for (uint32_t i = 0; tcp->pairs && i < tcp->size; i++)
        gcoll_tcp_pair_destroy(tcp->pairs[i]);
    if (tcp->loop.data == tcp) {                 /* the loop exists */
        uv_walk(&tcp->loop, close_handle, NULL); /* those inside tcp */
        while (!close_loop(tcp))
            uv_run(&tcp->loop, UV_RUN_NOWAIT);
    }
    free(tcp->pairs);
    free(tcp->hot_bytes);
    free(tcp);
}

void gcoll_tcp_close(gcoll_endpoint *endpoint, int64_t limit_ms) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    const int64_t now = gcoll_now_ms();
    parting p = {.limit_ms = gcoll_tcp_bounded(limit_ms), .is_close = true, .left = UINT64_MAX};
    if (!endpoint)
        return;
    p.may_last = !tcp->leaving; /* after an abort no peer needs our data */
    p.until_ms = now + p.limit_ms;
    p.last_ms = now + gcoll_tcp_bounded(MOVING_LIMITS * p.limit_ms);
    forget_messages(tcp);
    gcoll_tcp_stop_listening(tcp);
    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->pairs[i])
            say_goodbye(tcp->pairs[i]);
    drain(tcp, &p);
    await_acknowledgement(tcp, &p);
    gcoll_tcp_destroy(tcp);
}

/* Destroys the endpoint in a forked child, where its descriptors lead nowhere (gcoll/base/fork.h). The loop
 * first gets an epoll instance of its own, which libuv needs to close it. */
void gcoll_tcp_abandon(gcoll_endpoint *endpoint) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    if (uv_loop_fork(&tcp->loop) == 0) /* else leak it: libuv cannot close the loop */
        gcoll_tcp_destroy(tcp);
}
