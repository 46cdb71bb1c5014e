/*
 * transport/tcp/progress.c - polling, spinning, blocking, and calling back.
 *
 * One poll writes pending output and reads directly from the pairs with posted receives (if they are few).
 * Now and then it lets libuv look at everything else: listeners, quiet pairs, timers, wakes. Readiness is
 * level-triggered, so data that arrives between the last poll and blocking is not missed.
 */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "transport/tcp/connect.h"
#include "transport/tcp/pair.h"

/* Pairs to read directly: a read that finds nothing costs about a third of one epoll_wait for all sockets. */
#define HOT_MAX 3
/* Polls between two looks at everything: some twenty microseconds, of which a look takes one. */
#define POLLS_PER_LOOK 64
/* Successful direct reads without a sleep before the sockets are taken out of epoll. Taking a socket out and
 * putting it back, two calls of epoll_ctl, cost about as much as five reads gain. */
#define STREAK    64
#define NS_PER_US INT64_C(1000)
#define US_PER_MS INT64_C(1000)

void gcoll_tcp_complete(gcoll_tcp *tcp, gcoll_message *message) {
    gcoll_message_push(&tcp->completed, message);
}

void gcoll_tcp_report_completed(gcoll_tcp *tcp) {
    while (tcp->completed.first) {
        gcoll_message *message = gcoll_message_pop(&tcp->completed);
        tcp->moved = true;
        message->done(message);
    }
}

static void set_verdict(gcoll_tcp_pair *pair, gcoll_status status) {
    gcoll_tcp *tcp = pair->tcp;
    pair->verdict = status;
    if (pair->in_verdicts)
        return; /* a departure, not reported yet, that turned out to be a failure */
    pair->in_verdicts = true;
    pair->next_verdict = NULL;
    if (tcp->last_verdict)
        tcp->last_verdict->next_verdict = pair;
    else
        tcp->verdicts = pair;
    tcp->last_verdict = pair;
}

void gcoll_tcp_fail(gcoll_tcp_pair *pair, gcoll_status status, const char *format, ...) {
    /* Errors in the messages of a departed peer still matter to the caller. */
    bool still_matters = status == GCOLL_ERR_MISMATCH || status == GCOLL_ERR_INTERNAL;
    if (pair->state == GCOLL_TCP_FAILED || (pair->state == GCOLL_TCP_DEPARTED && !still_matters))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(pair->verdict_text, sizeof pair->verdict_text, format, arguments);
    va_end(arguments);
    pair->state = GCOLL_TCP_FAILED;
    set_verdict(pair, status);
}

void gcoll_tcp_problem(gcoll_tcp *tcp, gcoll_status status, const char *format, ...) {
    if (tcp->problem != GCOLL_OK)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(tcp->problem_text, sizeof tcp->problem_text, format, arguments);
    va_end(arguments);
    tcp->problem = status;
    tcp->moved = true; /* ends a wait */
}

void gcoll_tcp_depart(gcoll_tcp_pair *pair) {
    if (pair->state == GCOLL_TCP_CONNECTED) {
        pair->state = GCOLL_TCP_DEPARTED;
        set_verdict(pair, GCOLL_OK);
    }
}

void gcoll_tcp_make_hot(gcoll_tcp_pair *pair) {
    if (!pair->in_hot && pair->state == GCOLL_TCP_CONNECTED) {
        pair->in_hot = true;
        pair->next_hot = pair->tcp->hot;
        pair->tcp->hot = pair;
        pair->tcp->hot_count++;
    }
}

static void announce(gcoll_tcp_pair *pair) {
    const gcoll_events *events = &pair->tcp->events;
    if (pair->tcp->leaving)
        return;
    if (pair->told && pair->verdict == GCOLL_ERR_PEER)
        return; /* it sent the cause before it closed */
    pair->tcp->moved = true;
    if (pair->verdict == GCOLL_OK) {
        if (events->departed)
            events->departed(events->arg, pair->rank);
    } else if (pair->changed && events->changed) {
        events->changed(events->arg, pair->rank, pair->verdict_text);
    } else if (events->failed) {
        events->failed(events->arg, pair->rank, pair->verdict, pair->verdict_text);
    }
}

/* Reports completed messages and broken pairs. Messages that completed before a pair broke come before the
 * break. */
static void report(gcoll_tcp *tcp) {
    for (;;) {
        gcoll_tcp_pair *pair = tcp->verdicts;
        gcoll_tcp_report_completed(tcp);
        if (!pair)
            return;
        tcp->verdicts = pair->next_verdict;
        if (!tcp->verdicts)
            tcp->last_verdict = NULL;
        pair->in_verdicts = false;
        gcoll_tcp_pair_release(pair);
        announce(pair);
    }
}

/* Reads a socket directly, and after a streak of successes takes it out of epoll. While it is in epoll, each
 * arrival costs a notification of 0.2 us, over loopback in the sender's call, although this thread reads the
 * socket anyway. */
static void read_directly(gcoll_tcp *tcp, gcoll_tcp_pair *pair) {
    if (!gcoll_tcp_read(pair, GCOLL_TCP_READ_BUDGET) || ++tcp->streak < STREAK)
        return;
    if (pair->state == GCOLL_TCP_CONNECTED && !pair->socket->unwatched && !pair->socket->wants_write)
        gcoll_tcp_socket_unwatch(pair->socket);
}

/* Reads from the pairs with posted receives; drops the others from the list. */
static void read_hot(gcoll_tcp *tcp) {
    gcoll_tcp_pair **at = &tcp->hot;
    while (*at) {
        gcoll_tcp_pair *pair = *at;
        if (pair->posted > 0 && pair->state == GCOLL_TCP_CONNECTED) {
            if (tcp->hot_count <= HOT_MAX)
                read_directly(tcp, pair);
            at = &pair->next_hot;
        } else {
            *at = pair->next_hot;
            pair->in_hot = false;
            tcp->hot_count--;
        }
    }
}

/* Puts sockets that are no longer read directly back into epoll. */
static void watch_the_others(gcoll_tcp *tcp) {
    gcoll_tcp_socket *socket = tcp->unwatched;
    while (socket) {
        gcoll_tcp_socket *next = socket->next_unwatched;
        if (!socket->pair->in_hot || tcp->hot_count > HOT_MAX) {
            gcoll_tcp_socket_poll(socket);
            tcp->streak = 0;
        }
        socket = next;
    }
}

static void look(gcoll_tcp *tcp) {
    tcp->polls = 0;
    watch_the_others(tcp);
    uv_run(&tcp->loop, UV_RUN_NOWAIT);
}

/* Whether libuv should poll now. With few waiting pairs it polls only now and then. */
static bool is_time_to_look(gcoll_tcp *tcp) {
    if (!tcp->hot)
        return !tcp->moved || ++tcp->polls >= POLLS_PER_LOOK;
    return tcp->hot_count > HOT_MAX || ++tcp->polls >= POLLS_PER_LOOK;
}

static void poll_once(gcoll_tcp *tcp) {
    tcp->busy = false;
    if (tcp->outputs)
        gcoll_tcp_flush_all(tcp);
    read_hot(tcp);
    report(tcp);
    if (is_time_to_look(tcp)) {
        look(tcp);
        report(tcp);
    }
    if (tcp->outputs) {
        gcoll_tcp_flush_all(tcp);
        report(tcp);
    }
}

static void on_alarm(uv_timer_t *alarm) {
    (void)alarm;
}

/* Makes libuv also wait until sockets with pending output are writable. */
static void poll_for_writing(gcoll_tcp *tcp) {
    for (gcoll_tcp_pair *pair = tcp->outputs; pair; pair = pair->next_output) {
        gcoll_tcp_socket *socket = pair->socket;
        if (socket && !socket->wants_write && gcoll_tcp_has_output(pair)) {
            socket->wants_write = true;
            gcoll_tcp_socket_poll(socket);
        }
    }
}

void gcoll_tcp_block(gcoll_tcp *tcp, int64_t wait_us) {
    gcoll_tcp_watch_all(tcp);
    poll_for_writing(tcp);
    uv_update_time(&tcp->loop);
    /* The alarm repeats: libuv also runs timers before it polls. If this thread was delayed until the alarm
     * expired, a single alarm would be consumed there, and the poll would never end. */
    uv_timer_start(&tcp->alarm, on_alarm, (uint64_t)((wait_us + US_PER_MS - 1) / US_PER_MS), 1);
    tcp->polls = 0;
    tcp->busy = false;
    uv_run(&tcp->loop, UV_RUN_ONCE);
    uv_timer_stop(&tcp->alarm);
}

/* The same, until a caller wakes the endpoint. */
static void sleep_once(gcoll_tcp *tcp, int64_t wait_us) {
    __atomic_store_n(&tcp->asleep, true, __ATOMIC_SEQ_CST);
    gcoll_tcp_block(tcp, __atomic_load_n(&tcp->woken, __ATOMIC_SEQ_CST) ? 0 : wait_us);
    __atomic_store_n(&tcp->asleep, false, __ATOMIC_RELAXED);
}

/* Yields or naps before the next poll. A nap is ended by the clock, not by a peer's send: a wake-up by the
 * peer could move this thread to the peer's core. */
static void pause_once(gcoll_tcp *tcp, gcoll_patience_step step, int64_t now) {
    const struct timespec shortest = {.tv_sec = 0, .tv_nsec = 1};
    if (step == GCOLL_PATIENCE_YIELD) {
        sched_yield();
        gcoll_patience_yielded(&tcp->patience, gcoll_now_ns() - now);
    } else if (step == GCOLL_PATIENCE_NAP) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &shortest, NULL);
    }
}

/* Waits until something was reported, a caller woke the endpoint, or the time is over. */
static void wait_for_report(gcoll_tcp *tcp, int64_t wait_us) {
    int64_t begun = gcoll_now_ns();
    int64_t idle_since = begun;
    int64_t now = begun;
    gcoll_patience_begin(&tcp->patience);
    while (!tcp->moved && !__atomic_load_n(&tcp->woken, __ATOMIC_RELAXED) && !tcp->side.seen) {
        int64_t left_us = wait_us - (now - begun) / NS_PER_US;
        gcoll_patience_step step = GCOLL_PATIENCE_POLL;
        if (left_us <= 0)
            return;
        if (tcp->busy)
            idle_since = now;
        else
            step = gcoll_patience_next(&tcp->patience, now - idle_since);
        if (step == GCOLL_PATIENCE_SLEEP) {
            sleep_once(tcp, left_us);
            report(tcp);
            gcoll_tcp_flush_all(tcp); /* answers to what was read */
        } else {
            pause_once(tcp, step, now);
            poll_once(tcp);
        }
        if (tcp->moved)
            return;
        now = gcoll_now_ns();
    }
}

gcoll_status gcoll_tcp_progress(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    tcp->moved = false;
    poll_once(tcp);
    if (!tcp->moved && wait_us > 0 && tcp->problem == GCOLL_OK) {
        wait_for_report(tcp, gcoll_tcp_bounded(wait_us));
        tcp->side.woken = gcoll_tcp_take_wake(tcp);
        gcoll_tcp_flush_all(tcp);
    }
    tcp->curious = false;
    *moved = tcp->moved;
    return tcp->problem == GCOLL_OK || tcp->leaving ? GCOLL_OK
                                                    : gcoll_error(tcp->problem, "%s", tcp->problem_text);
}

void gcoll_tcp_wake(gcoll_endpoint *endpoint) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    __atomic_store_n(&tcp->woken, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&tcp->asleep, __ATOMIC_SEQ_CST))
        uv_async_send(&tcp->waker);
}
