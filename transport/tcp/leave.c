/*
 * transport/tcp/leave.c - abort and close.
 *
 * Both forget all messages first. One frame a pair may have been cut by the kernel: without its rest the peer
 * could not parse what follows, and a rest of zeros could complete a message there with wrong bytes. So the
 * rest is sent from user memory while abort or close runs (the caller's thread is in here, so the
 * memory stands); if the time does not suffice, the connection is closed instead, and no byte is read later.
 *
 * While they write they also read and throw away, so that two ranks that leave at once do not block one
 * another.
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
/* The pause between two looks at whether the peers' kernels have everything: grows to about 1 ms. */
#define PAUSE_FIRST_NS 20000
#define PAUSE_MAX_NS   1000000
/* The longest that a close takes while bytes arrive, in multiples of its limit. */
#define MOVING_LIMITS 30
/* What arrives slowly may pause for so long: a lost segment is sent again after 200 ms, then 400. */
#define MOVING_MS 1000

/* How long leaving may take. */
typedef struct parting {
    int64_t limit_ms, until_ms;
    bool may_last; /* longer than limit_ms, while bytes arrive: a slow network is no reason to cut them off */
    uint64_t left; /* bytes that had not arrived when something last had */
    int64_t last_ms; /* the end in any case */
} parting;

/* No done, no event and no access to user memory from now on, but for the rests of cut frames. */
static void forget_messages(gcoll_tcp *tcp) {
    tcp->leaving = true;
    gcoll_tcp_watch_all(tcp);
    gcoll_message_queue_clear(&tcp->completed);
    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->pairs[i])
            gcoll_tcp_pair_drop(tcp->pairs[i]);
}

/* Pairs that broke. */
static void release_broken(gcoll_tcp *tcp) {
    while (tcp->verdicts) {
        gcoll_tcp_pair *pair = tcp->verdicts;
        tcp->verdicts = pair->next_verdict;
        pair->in_verdicts = false;
        gcoll_tcp_pair_release(pair);
    }
    tcp->last_verdict = NULL;
}

/* A peer that aborted needs nothing from us, and may not be reading any more. */
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

/* Bytes that we wrote and a peer's kernel lacks. */
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

/* Writes and throws away what comes, until everything is written or time is over. */
static void drain(gcoll_tcp *tcp, parting *p) {
    for (;;) {
        gcoll_tcp_flush_all(tcp);
        release_broken(tcp);
        if (!has_unsent(tcp) || is_over(tcp, p))
            return;
        gcoll_tcp_block(tcp, WAIT_STEP_US);
    }
}

/* No user memory may be needed after the call. */
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
    /* Peers that are just connecting should hear of it too; but that one of them does not answer may be why
     * we abort. */
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
    if (pair->state == GCOLL_TCP_CONNECTED)
        gcoll_tcp_send_control(pair, GCOLL_WIRE_GOODBYE, 0, 0);
    gcoll_tcp_dial_end(pair);
    gcoll_tcp_link_drop(pair->reserve);
}

/* A probe that comes from now on gets no answer: what is written behind the end is refused. */
static void end_stream(gcoll_tcp_pair *pair) {
    if (!pair->socket || gcoll_tcp_has_output(pair))
        return;
    pair->output.ended = true;
    shutdown(pair->socket->fd, SHUT_WR);
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

/* False if handles of it are still to be closed. */
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
    if (tcp->loop.data == tcp) {                 /* it was made */
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
    parting p = {.limit_ms = gcoll_tcp_bounded(limit_ms), .left = UINT64_MAX};
    if (!endpoint)
        return;
    p.may_last = !tcp->leaving; /* after an abort nobody needs anything of ours */
    p.until_ms = now + p.limit_ms;
    p.last_ms = now + gcoll_tcp_bounded(MOVING_LIMITS * p.limit_ms);
    forget_messages(tcp);
    gcoll_tcp_stop_listening(tcp);
    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->pairs[i])
            say_goodbye(tcp->pairs[i]);
    drain(tcp, &p);
    for (uint32_t i = 0; i < tcp->size; i++)
        if (tcp->pairs[i])
            end_stream(tcp->pairs[i]);
    await_acknowledgement(tcp, &p);
    gcoll_tcp_destroy(tcp);
}

/* What is closed here are descriptors that lead nowhere (gcoll/base/fork.h). The loop gets an epoll instance
 * of its own first, as libuv takes it for broken without one. */
void gcoll_tcp_abandon(gcoll_endpoint *endpoint) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    if (uv_loop_fork(&tcp->loop) == 0) /* else it stays, as libuv can do nothing with it */
        gcoll_tcp_destroy(tcp);
}
