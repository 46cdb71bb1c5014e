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

#include "transport/tcp/tcp.h"

#define WAIT_STEP_US INT64_C(1000)
/* The pause between two looks at whether the peers' kernels have everything: grows to about 1 ms. */
#define PAUSE_FIRST_NS 20000
#define PAUSE_MAX_NS   1000000

/* No done, no event and no access to user memory from now on, but for the rests of cut frames. */
static void forget_messages(gcoll_tcp *tcp) {
    tcp->leaving = true;
    gcoll_tcp_watch_all(tcp);
    tcp->completed = tcp->last_completed = NULL;
    for (uint32_t i = 0; i < tcp->size; i++) {
        if (tcp->pairs[i] != NULL) {
            gcoll_tcp_pair_drop(tcp->pairs[i]);
        }
    }
}

/* Pairs that broke. */
static void release_broken(gcoll_tcp *tcp) {
    while (tcp->verdicts != NULL) {
        gcoll_tcp_pair *pair = tcp->verdicts;

        tcp->verdicts = pair->next_verdict;
        pair->in_verdicts = false;
        gcoll_tcp_pair_release(pair);
    }
    tcp->last_verdict = NULL;
}

/* A peer that aborted needs nothing from us, and may not be reading any more. */
static bool has_unsent(const gcoll_tcp *tcp) {
    for (const gcoll_tcp_pair *pair = tcp->outputs; pair != NULL; pair = pair->next_output) {
        if (pair->socket != NULL && !pair->told && gcoll_tcp_has_output(pair)) {
            return true;
        }
    }
    return false;
}

static bool is_dialing(const gcoll_tcp *tcp, uint32_t except) {
    for (uint32_t i = 0; i < tcp->size; i++) {
        if (tcp->pairs[i] != NULL && tcp->pairs[i]->state == GCOLL_TCP_DIALING && i != except) {
            return true;
        }
    }
    return false;
}

/* Writes and throws away what comes, until everything is written or it is until_ms. */
static void drain(gcoll_tcp *tcp, int64_t until_ms) {
    for (;;) {
        gcoll_tcp_flush_all(tcp);
        release_broken(tcp);
        if (!has_unsent(tcp) || gcoll_now_ms() >= until_ms) {
            return;
        }
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
        if (pair->state == GCOLL_TCP_CONNECTED) {
            pair->state = GCOLL_TCP_FAILED;
        }
    }
}

static void tell(gcoll_tcp_pair *pair, const gcoll_note *note) {
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES + GCOLL_NOTE_TEXT_MAX];

    if (pair->socket != NULL && !pair->told) {
        gcoll_tcp_append_control(pair, bytes, gcoll_wire_put_note(bytes, note));
    }
}

void gcoll_tcp_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    int64_t now = gcoll_now_ms();
    int64_t until_ms;

    if (tcp->leaving) {
        return;
    }
    limit_ms = gcoll_tcp_bounded(limit_ms);
    until_ms = now + limit_ms;
    forget_messages(tcp);
    tcp->note = *note;
    tcp->has_note = true;
    for (uint32_t i = 0; i < tcp->size; i++) {
        if (tcp->pairs[i] != NULL) {
            tell(tcp->pairs[i], note);
        }
    }
    drain(tcp, until_ms);
    /* Peers that are just connecting should hear of it too; but that one of them does not answer may be why
     * we abort. */
    while (is_dialing(tcp, note->culprit) && gcoll_now_ms() < now + limit_ms / 4) {
        gcoll_tcp_block(tcp, WAIT_STEP_US);
        drain(tcp, until_ms);
    }
    for (uint32_t i = 0; i < tcp->size; i++) {
        if (tcp->pairs[i] != NULL) {
            cut_off(tcp->pairs[i]);
        }
    }
}

/* ---- Closing --------------------------------------------------------------------------------------- */

static void say_goodbye(gcoll_tcp_pair *pair) {
    if (pair->state == GCOLL_TCP_CONNECTED) {
        gcoll_tcp_send_control(pair, GCOLL_WIRE_GOODBYE, 0, 0);
    }
    gcoll_tcp_dial_end(pair);
    gcoll_tcp_link_drop(pair->reserve);
}

/* Whether the peer's kernel lacks something that we wrote. */
static bool has_unacknowledged(const gcoll_tcp *tcp) {
    for (uint32_t i = 0; i < tcp->size; i++) {
        const gcoll_tcp_pair *pair = tcp->pairs[i];
        int bytes = 0;

        if (pair != NULL && pair->socket != NULL && !pair->told && !pair->output.dead &&
            ioctl(pair->socket->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0) {
            return true;
        }
    }
    return false;
}

static void end_stream(gcoll_tcp_pair *pair) {
    if (pair->socket != NULL && !gcoll_tcp_has_output(pair)) {
        shutdown(pair->socket->fd, SHUT_WR);
    }
}

static void await_acknowledgement(gcoll_tcp *tcp, int64_t until_ms) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = PAUSE_FIRST_NS};

    while (has_unacknowledged(tcp) && gcoll_now_ms() < until_ms) {
        uv_run(&tcp->loop, UV_RUN_NOWAIT);
        release_broken(tcp);
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec * 2 < PAUSE_MAX_NS ? pause.tv_nsec * 2 : PAUSE_MAX_NS;
    }
}

static void close_handle(uv_handle_t *handle, void *arg) {
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void gcoll_tcp_destroy(gcoll_tcp *tcp) {
    gcoll_tcp_stop_listening(tcp);
    for (uint32_t i = 0; tcp->pairs != NULL && i < tcp->size; i++) {
        gcoll_tcp_pair_destroy(tcp->pairs[i]);
    }
    if (tcp->loop.data == tcp) {                 /* it was made */
        uv_walk(&tcp->loop, close_handle, NULL); /* those inside tcp */
        while (uv_loop_close(&tcp->loop) == UV_EBUSY) {
            uv_run(&tcp->loop, UV_RUN_NOWAIT);
        }
    }
    free(tcp->pairs);
    free(tcp->hot_bytes);
    free(tcp);
}

void gcoll_tcp_close(gcoll_endpoint *endpoint, int64_t limit_ms) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    int64_t until_ms = gcoll_now_ms() + gcoll_tcp_bounded(limit_ms);

    if (endpoint == NULL) {
        return;
    }
    forget_messages(tcp);
    gcoll_tcp_stop_listening(tcp);
    for (uint32_t i = 0; i < tcp->size; i++) {
        if (tcp->pairs[i] != NULL) {
            say_goodbye(tcp->pairs[i]);
        }
    }
    drain(tcp, until_ms);
    for (uint32_t i = 0; i < tcp->size; i++) {
        if (tcp->pairs[i] != NULL) {
            end_stream(tcp->pairs[i]);
        }
    }
    await_acknowledgement(tcp, until_ms);
    gcoll_tcp_destroy(tcp);
}
