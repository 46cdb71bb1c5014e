/*
 * transport/session/progress.c - polling, spinning, blocking, and calling back.
 *
 * One poll writes pending output and reads directly from the sessions with posted receives (if they are few).
 * Now and then it lets libuv look at everything else: listeners, quiet sessions, timers, wakes. Readiness is
 * level-triggered, so data that arrives between the last poll and blocking is not missed.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "transport/session/branch.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"

/* Pairs to read directly: a read that finds nothing costs about a third of one epoll_wait for all sockets. */
#define HOT_MAX 3
/* Polls between two looks at everything: some twenty microseconds, of which a look takes one. Those of lanes
 * take a quarter of the time of a read that finds nothing. */
#define POLLS_PER_LOOK 64
#define POLLS_OF_LANES 256
/* A call that does not wait counts as several, where a lane is polled. */
#define POLLS_PER_CALL 16
/* Polls of the lanes at the beginning of a wait: about a microsecond. */
#define NEIGHBOUR_POLLS 64
/* The longest sleep while some session is in doubt, and while some lane does not stand yet: both have time
 * limits, which no descriptor tells. */
#define DOUBT_SLEEP_US INT64_C(10000)
#define BEGUN_SLEEP_US INT64_C(100000)
/* Successful direct reads without a sleep before the sockets are taken out of epoll. Taking a socket out and
 * putting it back, two calls of epoll_ctl, cost about as much as five reads gain. */
#define STREAK    64
#define NS_PER_US INT64_C(1000)
#define US_PER_MS INT64_C(1000)

void gcoll_net_report_completed(gcoll_net *net) {
    while (net->completed.first) {
        gcoll_message *message = gcoll_message_pop(&net->completed);
        net->moved = true;
        message->done(message);
    }
}

static void set_verdict(gcoll_session *session, gcoll_status status) {
    gcoll_net *net = session->net;
    session->verdict = status;
    if (session->in_verdicts)
        return; /* a departure, not reported yet, that turned out to be a failure */
    session->in_verdicts = true;
    session->next_verdict = NULL;
    if (net->last_verdict)
        net->last_verdict->next_verdict = session;
    else
        net->verdicts = session;
    net->last_verdict = session;
}

void gcoll_session_fail(gcoll_session *session, gcoll_status status, const char *format, ...) {
    /* Errors in the messages of a departed peer still matter to the caller. */
    bool still_matters = status == GCOLL_ERR_MISMATCH || status == GCOLL_ERR_INTERNAL;
    if (session->state == GCOLL_SESSION_FAILED ||
        (session->state == GCOLL_SESSION_DEPARTED && !still_matters))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(session->verdict_text, sizeof session->verdict_text, format, arguments);
    va_end(arguments);
    gcoll_session_end_doubt(session);
    session->state = GCOLL_SESSION_FAILED;
    set_verdict(session, status);
}

void gcoll_net_problem(gcoll_net *net, gcoll_status status, const char *format, ...) {
    if (net->problem != GCOLL_OK)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(net->problem_text, sizeof net->problem_text, format, arguments);
    va_end(arguments);
    net->problem = status;
    net->moved = true; /* ends a wait */
}

void gcoll_session_depart(gcoll_session *session) {
    gcoll_session_catch_up(session);
    if (session->state != GCOLL_SESSION_CONNECTED)
        return;
    session->goes = false;
    if (gcoll_session_awaits_rest(session)) {
        session->output.dead = true; /* it reads nothing any more, and its end has been read */
        session->socket->deaf = true;
        session->socket->wants_write = false;
        gcoll_socket_poll(session->socket);
        return;
    }
    gcoll_session_end_doubt(session);
    session->state = GCOLL_SESSION_DEPARTED;
    set_verdict(session, GCOLL_OK);
}

/* Whether what somebody waits for comes by the session's own connection. */
static bool is_read(const gcoll_session *session) {
    return session->lane.is_stream || !session->lane.stands;
}

void gcoll_session_make_hot(gcoll_session *session) {
    if (!session->in_hot && session->state == GCOLL_SESSION_CONNECTED && is_read(session)) {
        session->in_hot = true;
        session->next_hot = session->net->hot;
        session->net->hot = session;
        session->net->hot_count++;
    }
}

static void announce(gcoll_session *session) {
    const gcoll_events *events = &session->net->events;
    if (session->net->leaving)
        return;
    const bool is_told = session->told && session->verdict == GCOLL_ERR_PEER;
    gcoll_branches_announce(session, is_told);
    if (is_told || session->is_gone)
        return; /* it sent the cause before it closed, or has departed already */
    session->net->moved = true;
    if (session->verdict == GCOLL_OK) {
        if (events->departed)
            events->departed(events->arg, session->rank);
    } else if (session->changed && events->changed) {
        events->changed(events->arg, session->rank, session->verdict_text);
    } else if (events->failed) {
        events->failed(events->arg, session->rank, session->verdict, session->verdict_text);
    }
}

/* Reports completed messages and broken sessions. Messages that completed before a session broke come before
 * the break. */
static void report(gcoll_net *net) {
    for (;;) {
        gcoll_session *session = net->verdicts;
        gcoll_net_report_completed(net);
        if (net->faults)
            gcoll_branches_report(net);
        if (!session)
            return;
        net->verdicts = session->next_verdict;
        if (!net->verdicts)
            net->last_verdict = NULL;
        session->in_verdicts = false;
        gcoll_session_release(session);
        announce(session);
    }
}

/* Reads a socket directly, and after a streak of successes takes it out of epoll. While it is in epoll, each
 * arrival costs a notification of 0.2 us, over loopback in the sender's call, although this thread reads the
 * socket anyway. */
static void read_directly(gcoll_net *net, gcoll_session *session) {
    if (!gcoll_session_read(session, GCOLL_SESSION_READ_BUDGET) || ++net->streak < STREAK)
        return;
    if (session->state == GCOLL_SESSION_CONNECTED && !session->socket->unwatched &&
        !session->socket->wants_write)
        gcoll_socket_unwatch(session->socket);
}

/* Reads from the sessions with posted receives; drops the others from the list. */
static void read_hot(gcoll_net *net) {
    gcoll_session **at = &net->hot;
    while (*at) {
        gcoll_session *session = *at;
        if (session->posted > 0 && session->state == GCOLL_SESSION_CONNECTED && is_read(session)) {
            if (net->hot_count <= HOT_MAX)
                read_directly(net, session);
            at = &session->next_hot;
        } else {
            *at = session->next_hot;
            session->in_hot = false;
            net->hot_count--;
        }
    }
}

/* Puts sockets that are no longer read directly back into epoll. */
static void watch_the_others(gcoll_net *net) {
    gcoll_socket *socket = net->unwatched;
    while (socket) {
        gcoll_socket *next = socket->next_unwatched;
        if (!socket->session->in_hot || net->hot_count > HOT_MAX) {
            gcoll_socket_poll(socket);
            net->streak = 0;
        }
        socket = next;
    }
}

/* Makes the event loop when it is first needed. */
static bool has_started(gcoll_net *net) {
    const gcoll_status status = gcoll_net_start(net);
    if (status != GCOLL_OK)
        gcoll_net_problem(net, status, "%s", gcoll_last_error());
    return gcoll_net_has_loop(net);
}

static void look(gcoll_net *net) {
    net->polls = 0;
    net->is_late = false;
    if (!has_started(net))
        return;
    watch_the_others(net);
    uv_run(&net->loop, UV_RUN_NOWAIT);
    if (net->doubt_count > 0)
        gcoll_net_settle_doubts(net);
}

/* Whether libuv should poll now. With few waiting sessions it polls only now and then. */
static bool is_time_to_look(gcoll_net *net) {
    if ((net->begun_count | net->doubt_count) != 0 || net->is_late)
        return true;
    if (!net->hot && !net->polls_lanes)
        return !net->moved || ++net->polls >= POLLS_PER_LOOK;
    return net->hot_count > HOT_MAX || ++net->polls >= (net->hot ? POLLS_PER_LOOK : POLLS_OF_LANES);
}

static void poll_once(gcoll_net *net) {
    net->busy = false;
    if (net->outputs)
        gcoll_net_flush_all(net);
    read_hot(net);
    report(net);
    if (is_time_to_look(net)) {
        look(net);
        report(net);
    }
    if (net->outputs) {
        gcoll_net_flush_all(net);
        report(net);
    }
    if (net->polls_lanes) {
        gcoll_net_flush_lanes(net);
        if (gcoll_net_poll_lanes(net)) {
            report(net);
            gcoll_net_flush_lanes(net);
        }
    }
}

static void on_alarm(uv_timer_t *alarm) {
    (void)alarm;
}

/* Makes libuv also wait until sockets with pending output are writable. */
static void poll_for_writing(gcoll_net *net) {
    for (gcoll_session *session = net->outputs; session; session = session->next_output) {
        gcoll_socket *socket = session->socket;
        if (socket && !socket->wants_write && gcoll_session_has_output(session)) {
            socket->wants_write = true;
            gcoll_socket_poll(socket);
        }
    }
}

void gcoll_net_block(gcoll_net *net, int64_t wait_us) {
    if (!has_started(net))
        return;
    gcoll_net_watch_all(net);
    poll_for_writing(net);
    uv_update_time(&net->loop);
    /* The alarm repeats: libuv also runs timers before it polls. If this thread was delayed until the alarm
     * expired, a single alarm would be consumed there, and the poll would never end. */
    uv_timer_start(&net->alarm, on_alarm, (uint64_t)((wait_us + US_PER_MS - 1) / US_PER_MS), 1);
    net->polls = 0;
    net->is_late = false;
    net->busy = false;
    uv_run(&net->loop, UV_RUN_ONCE);
    uv_timer_stop(&net->alarm);
}

/* The same, until a caller wakes the endpoint. */
static void sleep_once(gcoll_net *net, int64_t wait_us) {
    if (!has_started(net))
        return; /* and the waker with it, which others ring once they see that this thread sleeps */
    if (net->completed.first || net->verdicts)
        return; /* a flush has written the rest of a message, or failed, of which nobody has heard yet */
    if (net->polls_lanes) {
        gcoll_net_arm_lanes(net);
        if (gcoll_net_poll_lanes(net))
            return; /* something came before they were armed */
    }
    if (net->begun_count > 0 && wait_us > BEGUN_SLEEP_US)
        wait_us = BEGUN_SLEEP_US;
    if (net->doubt_count > 0 && wait_us > DOUBT_SLEEP_US)
        wait_us = DOUBT_SLEEP_US;
    const int64_t begun = gcoll_now_ns();
    __atomic_store_n(&net->asleep, true, __ATOMIC_SEQ_CST);
    gcoll_net_block(net, __atomic_load_n(&net->woken, __ATOMIC_SEQ_CST) ? 0 : wait_us);
    __atomic_store_n(&net->asleep, false, __ATOMIC_RELAXED);
    net->sleeps++;
    net->asleep_ns += (uint64_t)(gcoll_now_ns() - begun);
    if (net->doubt_count > 0)
        gcoll_net_settle_doubts(net);
}

/* Yields or naps before the next poll. A nap is ended by the clock, not by a peer's send: a wake-up by the
 * peer could move this thread to the peer's core. */
static void pause_once(gcoll_net *net, gcoll_patience_step step, int64_t now) {
    const struct timespec shortest = {.tv_sec = 0, .tv_nsec = 1};
    if (step == GCOLL_PATIENCE_YIELD) {
        sched_yield();
        gcoll_patience_yielded(&net->patience, gcoll_now_ns() - now);
    } else if (step == GCOLL_PATIENCE_NAP) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &shortest, NULL);
    }
}

/* Polls the lanes a few times without a look at anything else, not even at the clock: within a host an answer
 * takes less time than that. Returns whether the wait is over. */
static bool wait_for_neighbour(gcoll_net *net) {
    if (!net->polls_lanes || !gcoll_patience_has_core(&net->patience))
        return false;
    for (uint32_t i = 0; i < NEIGHBOUR_POLLS; i++) {
        if (gcoll_net_poll_lanes(net)) {
            report(net);
            if (!net->moved)
                gcoll_net_flush_lanes(net);
        }
        if (net->moved || __atomic_load_n(&net->woken, __ATOMIC_RELAXED))
            return true;
        if (net->is_late) /* a poll may read a piece of a message, and that may take long */
            return false;
    }
    return false;
}

/* Waits until something was reported, a caller woke the endpoint, or the time is over. */
static void wait_for_report(gcoll_net *net, int64_t wait_us) {
    if (wait_for_neighbour(net))
        return;
    int64_t begun = gcoll_now_ns();
    int64_t idle_since = begun;
    int64_t now = begun;
    gcoll_patience_begin(&net->patience);
    while (!net->moved && !__atomic_load_n(&net->woken, __ATOMIC_RELAXED)) {
        int64_t left_us = wait_us - (now - begun) / NS_PER_US;
        gcoll_patience_step step = GCOLL_PATIENCE_POLL;
        if (left_us <= 0)
            return;
        if (net->busy)
            idle_since = now;
        else
            step = gcoll_patience_next(&net->patience, now - idle_since);
        if (step == GCOLL_PATIENCE_SLEEP) {
            sleep_once(net, left_us);
            report(net);
            gcoll_net_flush_all(net); /* answers to what was read */
            if (net->polls_lanes)
                gcoll_net_flush_lanes(net);
        } else {
            pause_once(net, step, now);
            poll_once(net);
        }
        if (net->moved)
            return;
        now = gcoll_now_ns();
    }
}

/* A call that does not wait looks at everything if none has for a tick of the clock: calls may be far apart,
 * and peers wait for answers to their probes. */
void gcoll_net_look_in_time(gcoll_net *net) {
    const int64_t now_ms = gcoll_now_coarse_ms();
    if (now_ms != net->timed_ms)
        net->is_late = true;
    net->timed_ms = now_ms;
}

bool gcoll_net_is_late(const gcoll_net *net) {
    return net->is_late;
}

gcoll_status gcoll_net_progress(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved) {
    gcoll_net *net = gcoll_net_of(endpoint);
    net->moved = false;
    if (wait_us <= 0 && net->polls_lanes)
        gcoll_net_look_in_time(net);
    poll_once(net);
    if (!net->moved && wait_us > 0 && net->problem == GCOLL_OK) {
        wait_for_report(net, gcoll_net_bounded(wait_us));
        gcoll_net_take_wake(net);
        gcoll_net_flush(endpoint);
    } else if (net->polls_lanes) {
        net->polls += POLLS_PER_CALL;
    }
    net->curious = false;
    *moved = net->moved;
    return net->problem == GCOLL_OK || net->leaving ? GCOLL_OK
                                                    : gcoll_error(net->problem, "%s", net->problem_text);
}

void gcoll_net_wake(gcoll_endpoint *endpoint) {
    gcoll_net *net = gcoll_net_of(endpoint);
    __atomic_store_n(&net->woken, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&net->asleep, __ATOMIC_SEQ_CST))
        uv_async_send(&net->waker);
}
