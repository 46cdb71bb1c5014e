/*
 * transport/ibverbs/progress.c - polling, waiting, calling back.
 *
 * A wait polls the completion queue, and now and then the side channel. A long wait sleeps in the side
 * channel's loop, which also watches the completion channel. Before it sleeps, it arms the queue and polls
 * once more, so that no completion is missed.
 */
#include <sched.h>
#include <time.h>

#include "transport/ibverbs/pair.h"
#include "transport/session/side.h"

#define NS_PER_US INT64_C(1000)
/* Polls of the queue between two polls of the side channel, which cost a system call. A call that does not
 * wait counts as several. */
#define POLLS_PER_LOOK 64
#define POLLS_PER_CALL 16
/* The longest sleep while an error is held back. */
#define DOUBT_SLEEP_US INT64_C(10000)

static bool is_time_to_look(gcoll_ib *ib) {
    return ib->meeting_count > 0 || ib->doubt_count > 0 || !ib->known || ++ib->polls >= POLLS_PER_LOOK;
}

static void poll_once(gcoll_ib *ib) {
    ib->busy = false;
    gcoll_ib_flush_all(ib);
    gcoll_ib_poll(ib);
    gcoll_ib_report(ib);
    if (is_time_to_look(ib)) {
        gcoll_ib_side_look(ib, 0);
        gcoll_ib_disarm(ib);
        gcoll_ib_report(ib);
    }
    if (ib->outputs) {
        gcoll_ib_flush_all(ib);
        gcoll_ib_report(ib);
    }
}

bool gcoll_ib_arm(gcoll_ib *ib) {
    if (!ib->armed)
        ib->armed = ibv_req_notify_cq(ib->cq, 0) == 0;
    return ib->armed;
}

void gcoll_ib_disarm(gcoll_ib *ib) {
    if (!gcoll_net_was_watched(ib->side))
        return;
    struct ibv_cq *cq;
    void *arg;
    while (ib->verbs.get_cq_event(ib->channel, &cq, &arg) == 0) {
        ib->verbs.ack_cq_events(cq, 1);
        ib->armed = false;
    }
}

static void sleep_once(gcoll_ib *ib, int64_t left_us) {
    ib->busy = false;
    gcoll_ib_arm(ib);
    gcoll_ib_poll(ib);
    gcoll_ib_report(ib);
    if (ib->moved || ib->busy || ib->problem != GCOLL_OK)
        return;
    if (ib->doubt_count > 0 && left_us > DOUBT_SLEEP_US)
        left_us = DOUBT_SLEEP_US;
    ib->counters.sleeps++;
    gcoll_ib_side_look(ib, left_us);
    gcoll_ib_disarm(ib);
    gcoll_ib_poll(ib);
    gcoll_ib_report(ib);
    gcoll_ib_flush_all(ib);
    gcoll_ib_report(ib);
}

static void pause_once(gcoll_ib *ib, gcoll_patience_step step, int64_t now) {
    const struct timespec shortest = {.tv_sec = 0, .tv_nsec = 1};
    if (step == GCOLL_PATIENCE_YIELD) {
        sched_yield();
        gcoll_patience_yielded(&ib->patience, gcoll_now_ns() - now);
    } else if (step == GCOLL_PATIENCE_NAP) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &shortest, NULL);
    }
}

/* Waits until something was reported, a caller woke the endpoint, or the time is over. */
static void wait_for_report(gcoll_ib *ib, int64_t wait_us) {
    int64_t begun = gcoll_now_ns();
    int64_t idle_since = begun;
    int64_t now = begun;
    gcoll_patience_begin(&ib->patience);
    while (!ib->moved && ib->problem == GCOLL_OK && !gcoll_net_was_woken(ib->side)) {
        int64_t left_us = wait_us - (now - begun) / NS_PER_US;
        gcoll_patience_step step = GCOLL_PATIENCE_POLL;
        if (left_us <= 0)
            return;
        if (ib->busy)
            idle_since = now;
        else
            step = gcoll_patience_next(&ib->patience, now - idle_since);
        if (step == GCOLL_PATIENCE_SLEEP) {
            sleep_once(ib, left_us);
        } else {
            pause_once(ib, step, now);
            poll_once(ib);
        }
        now = gcoll_now_ns();
    }
}

gcoll_status gcoll_ib_progress(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);
    ib->moved = false;
    ib->polls += wait_us > 0 ? 0 : POLLS_PER_CALL;
    poll_once(ib);
    if (!ib->moved && wait_us > 0) {
        wait_for_report(ib, wait_us);
        gcoll_ib_flush_all(ib);
    }
    ib->curious = false;
    *moved = ib->moved;
    return ib->problem == GCOLL_OK || ib->leaving ? GCOLL_OK
                                                  : gcoll_error(ib->problem, "%s", ib->problem_text);
}
