/*
 * transport/session/leave.c - abort and close.
 *
 * Both first drop all messages. In each session the kernel may have taken a part of one frame. Without the
 * rest the peer could not parse the next frame, and a rest of zeros could complete a message with wrong
 * bytes. So the rest is sent from user memory while abort or close runs: the caller is inside this call, so
 * the memory is valid. If the time does not suffice, the connection is closed, and user memory is not read
 * later.
 *
 * While they write, they also read and discard, so that two ranks that leave at once do not block each other.
 */
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

#include "transport/session/branch.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"

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
static void forget_messages(gcoll_net *net) {
    net->leaving = net->discards = true;
    gcoll_net_watch_all(net);
    gcoll_message_queue_clear(&net->completed);
    for (uint32_t i = 0; i < net->size; i++)
        if (net->sessions[i]) {
            gcoll_session_drop(net->sessions[i]);
            if (net->sessions[i]->lane.awaits_rest)
                gcoll_session_depart(net->sessions[i]); /* nobody waits for the rest any more */
        }
}

/* Releases sessions that broke. */
static void release_broken(gcoll_net *net) {
    while (net->verdicts) {
        gcoll_session *session = net->verdicts;
        net->verdicts = session->next_verdict;
        session->in_verdicts = false;
        gcoll_session_release(session);
    }
    net->last_verdict = NULL;
}

/* Whether output is left to send. A peer that aborted needs none, and may no longer read. */
static bool has_unsent(const gcoll_net *net) {
    for (const gcoll_session *session = net->outputs; session; session = session->next_output)
        if (session->socket && !session->told && gcoll_session_has_output(session))
            return true;
    return false;
}

static bool is_dialing(const gcoll_net *net, uint32_t except) {
    for (uint32_t i = 0; i < net->size; i++)
        if (net->sessions[i] && net->sessions[i]->state == GCOLL_SESSION_DIALING && i != except)
            return true;
    return false;
}

/* The number of written bytes that the peer's kernel has not acknowledged. */
static uint64_t unacknowledged_by(const gcoll_session *session) {
    uint64_t bytes = 0;
    /* The alert of a failure of TLS counts: it tells the peer that nobody of the two is at fault. */
    const bool may_arrive =
        session->socket && (!session->output.dead || gcoll_socket_unsent(session->socket) > 0);
    return may_arrive && !session->told && gcoll_socket_unacknowledged(session->socket, &bytes) ? bytes : 0;
}

static uint64_t unacknowledged(const gcoll_net *net) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < net->size; i++)
        if (net->sessions[i])
            total += unacknowledged_by(net->sessions[i]);
    return total;
}

/* Whether leaving has taken as long as it may. */
static bool is_over(const gcoll_net *net, parting *p) {
    const int64_t now = gcoll_now_ms();
    if (p->may_last && now < p->last_ms) {
        const uint64_t left = unacknowledged(net);
        if (left < p->left) {
            p->left = left;
            p->until_ms = now + (p->limit_ms > MOVING_MS ? p->limit_ms : MOVING_MS);
        }
    }
    return now >= p->until_ms;
}

/* Ends the streams on which everything is written, at once: a peer learns that this rank left while others
 * still read. Later probes get no answer, as nothing can be written after the end. */
static void end_streams(gcoll_net *net) {
    for (uint32_t i = 0; i < net->size; i++) {
        gcoll_session *session = net->sessions[i];
        if (session && session->socket && !session->output.ended && !gcoll_session_has_output(session)) {
            session->output.ended = true;
            shutdown(session->socket->fd, SHUT_WR);
        }
    }
}

/* Ends the lanes' own connections to peers whose kernels have our goodbye. If their end came before it, this
 * rank would seem to have failed. */
static void finish_lanes(const gcoll_net *net) {
    for (uint32_t i = 0; i < net->size; i++) {
        gcoll_session *session = net->sessions[i];
        gcoll_session_lane *lane = session ? &session->lane : NULL;
        if (lane && lane->taken && lane->taken->lane->finish && !lane->finished && session->output.ended &&
            unacknowledged_by(session) == 0) {
            lane->finished = true;
            lane->taken->lane->finish(session);
        }
    }
}

/* Writes, and discards arriving data, until everything is written or time is over. */
static void drain(gcoll_net *net, parting *p) {
    for (;;) {
        gcoll_net_flush_all(net);
        if (p->is_close) {
            end_streams(net);
            finish_lanes(net);
        }
        release_broken(net);
        if (!has_unsent(net) || is_over(net, p))
            return;
        gcoll_net_block(net, WAIT_STEP_US);
    }
}

/* Closes a connection whose cut frame still needs user memory, as the memory is not valid after the call. */
static void cut_off(gcoll_session *session) {
    if (session->output.cut.payload_bytes > 0) {
        gcoll_socket_close(session->socket);
        session->socket = NULL;
        session->output.cut.payload_bytes = 0;
        session->output.cut.payload = NULL;
        if (session->state == GCOLL_SESSION_CONNECTED)
            session->state = GCOLL_SESSION_FAILED;
    }
}

static void tell(gcoll_session *session, const gcoll_note *note) {
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES + GCOLL_NOTE_TEXT_MAX];
    if (session->socket && !session->told)
        gcoll_session_append_control(session, bytes, gcoll_wire_put_note(bytes, note));
}

/* Tells peers whose messages go by another lane, before that lane forgets messages: it may have to break for
 * it, and they would notice that first. */
static void tell_beside(gcoll_net *net, const gcoll_note *note) {
    for (uint32_t i = 0; i < net->size; i++) {
        gcoll_session *session = net->sessions[i];
        if (session && !session->lane.is_stream) {
            tell(session, note);
            gcoll_session_write(session);
        }
    }
}

void gcoll_net_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms) {
    gcoll_net *net = gcoll_net_of(endpoint);
    int64_t now = gcoll_now_ms();
    parting p = {0};
    if (net->leaving)
        return;
    limit_ms = gcoll_net_bounded(limit_ms);
    p.until_ms = now + limit_ms;
    gcoll_branches_break(net, note);
    gcoll_net_drop_spare(net);
    net->leaving = net->discards = true;
    tell_beside(net, note);
    forget_messages(net);
    net->note = *note;
    net->has_note = true;
    for (uint32_t i = 0; i < net->size; i++)
        if (net->sessions[i] && net->sessions[i]->lane.is_stream)
            tell(net->sessions[i], note);
    drain(net, &p);
    /* Also tell peers that are just connecting, either way, but do not wait for the culprit: that it does not
     * answer may be the reason of the abort. */
    while ((is_dialing(net, note->culprit) || net->trusted_count > 0) &&
           gcoll_now_ms() < now + limit_ms / 4) {
        gcoll_net_block(net, WAIT_STEP_US);
        drain(net, &p);
    }
    for (uint32_t i = 0; i < net->size; i++)
        if (net->sessions[i])
            cut_off(net->sessions[i]);
}

/* ---- Closing --------------------------------------------------------------------------------------- */

static void say_goodbye(gcoll_session *session) {
    if (session->state == GCOLL_SESSION_CONNECTED) {
        gcoll_session_say_goodbye(session);
        session->output.last_frame = true;
    }
    gcoll_dial_end(session);
    gcoll_link_drop(session->reserve);
}

/* Counts what peers have acknowledged of what lanes beside the session's own connection have sent. */
static uint64_t taken_by_lanes(const gcoll_net *net) {
    gcoll_lane_sight sight = {0};
    uint64_t taken = 0;
    for (uint32_t i = 0; i < net->size; i++) {
        const gcoll_session *session = net->sessions[i];
        if (session && session->lane.stands && session->state == GCOLL_SESSION_CONNECTED &&
            session->lane.taken->lane->look) {
            session->lane.taken->lane->look(session, &sight);
            taken += sight.taken;
        }
    }
    return taken;
}

/* Lets what other lanes have sent arrive. */
static void leave_lanes(gcoll_net *net, parting *p) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = PAUSE_FIRST_NS};
    uint64_t before = taken_by_lanes(net);
    net->leaving = net->discards = true;
    for (uint32_t i = 0; i < net->size; i++) {
        gcoll_session *session = net->sessions[i];
        if (session && session->lane.stands && session->lane.taken->lane->leave)
            session->lane.taken->lane->leave(session);
    }
    for (bool waits = true; waits;) {
        gcoll_net_flush_lanes(net);
        const bool moved = gcoll_net_poll_lanes(net);
        gcoll_message_queue_clear(&net->completed);
        if (gcoll_net_has_loop(net))
            uv_run(&net->loop, UV_RUN_NOWAIT);
        release_broken(net);
        waits = false;
        const uint64_t taken = taken_by_lanes(net);
        const int64_t now = gcoll_now_ms();
        if (taken > before && p->may_last && now < p->last_ms)
            p->until_ms = now + (p->limit_ms > MOVING_MS ? p->limit_ms : MOVING_MS);
        before = taken;
        for (uint32_t i = 0; i < net->size; i++) {
            gcoll_session *session = net->sessions[i];
            const gcoll_net_lane *lane = session ? session->lane.taken : NULL;
            if (!lane || session->told || session->state != GCOLL_SESSION_CONNECTED ||
                session->lane.awaits_rest || !lane->lane->is_leaving || !lane->lane->is_leaving(session))
                continue;
            waits = now < p->until_ms; /* beyond it, the goodbye is said all the same */
        }
        if (waits && !moved)
            nanosleep(&pause, NULL);
    }
}

static void await_acknowledgement(gcoll_net *net, parting *p) {
    struct timespec pause = {.tv_sec = 0, .tv_nsec = PAUSE_FIRST_NS};
    while (unacknowledged(net) > 0 && !is_over(net, p)) {
        finish_lanes(net);
        uv_run(&net->loop, UV_RUN_NOWAIT);
        release_broken(net);
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
static bool close_loop(gcoll_net *net) {
    gcoll_fork_hold();
    bool closed = uv_loop_close(&net->loop) != UV_EBUSY;
    if (closed)
        gcoll_descriptor_leave(&net->loop_descriptor);
    gcoll_fork_release();
    return closed;
}

void gcoll_net_destroy(gcoll_net *net) {
    gcoll_net_drop_spare(net);
    gcoll_net_stop_listening(net);
    for (uint32_t i = 0; net->sessions && i < net->size; i++)
        gcoll_session_destroy(net->sessions[i]);
    gcoll_net_close_lanes(net);
    if (gcoll_net_has_loop(net)) {
        uv_walk(&net->loop, close_handle, NULL); /* those inside net */
        while (!close_loop(net))
            uv_run(&net->loop, UV_RUN_NOWAIT);
    }
    gcoll_forget_secret(net->secret, sizeof net->secret);
    gcoll_net_end_encryption(net);
    free(net->listeners);
    free(net->sessions);
    free(net->hot_bytes);
    free(net->passed_over);
    free(net);
}

void gcoll_net_close(gcoll_endpoint *endpoint, int64_t limit_ms) {
    gcoll_net *net = gcoll_net_of(endpoint);
    if (net && net->branches)
        gcoll_net_live_on(net, limit_ms);
    else if (net)
        gcoll_net_end(net, limit_ms);
}

void gcoll_net_end(gcoll_net *net, int64_t limit_ms) {
    const int64_t now = gcoll_now_ms();
    parting p = {.limit_ms = gcoll_net_bounded(limit_ms), .is_close = true, .left = UINT64_MAX};
    p.may_last = !net->leaving; /* after an abort no peer needs our data */
    p.until_ms = now + p.limit_ms;
    p.last_ms = now + gcoll_net_bounded(MOVING_LIMITS * p.limit_ms);
    if (net->polls_lanes && !net->leaving)
        leave_lanes(net, &p);
    forget_messages(net);
    gcoll_net_stop_listening(net);
    for (uint32_t i = 0; i < net->size; i++)
        if (net->sessions[i])
            say_goodbye(net->sessions[i]);
    drain(net, &p);
    await_acknowledgement(net, &p);
    gcoll_net_destroy(net);
}

/* Destroys the endpoint in a forked child, where its descriptors lead nowhere (gcoll/base/fork.h). The loop
 * first gets an epoll instance of its own, which libuv needs to close it. */
void gcoll_net_abandon(gcoll_endpoint *endpoint) {
    gcoll_net *net = gcoll_net_of(endpoint);
    net->is_gone = true;
    if (net->branches) { /* the last of them goes on */
        gcoll_net_forget_own(net);
        return;
    }
    gcoll_net_forget_lanes(net);
    if (!gcoll_net_has_loop(net) ||
        uv_loop_fork(&net->loop) == 0) /* else leak it: libuv cannot close the loop */
        gcoll_net_destroy(net);
}
