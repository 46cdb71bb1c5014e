/*
 * gcoll/live/progress.c - makes progress with all work in flight, and waits for some of it.
 *
 * A waiting thread drives the transport itself. If several threads wait on a context with a driver, one of
 * them drives for all. Most waits end before the clock is read a second time; long ones are watched
 * (watch.c).
 */
#include "gcoll/accelerate/accelerate.h"
#include "gcoll/live/watch.h"
#include "gcoll/record/record.h"
#include "gcoll/rendezvous/rendezvous.h"

#define SLICE_US       100000 /* the longest sleep: bounds how late a deadline is noticed */
#define FIRST_SLICE_US 10000  /* the longest first and second sleep of a wait */
#define NOTE_MS        4      /* after so long a first sleep the recorder is told whom it is for */

/* Advances each kind of work that has something to do. */
static void advance(gcoll_context *context) {
    for (uint32_t due = context->live->due; due && !context->health.broken; due &= due - 1)
        context->live->activities[__builtin_ctz(due)]->advance(context);
    gcoll_progress_flush(context);
}

/* Drives transport and devices once. A device cannot wake a thread, so the thread does not sleep while a
 * device is busy. A single rank has no endpoint and waits for devices only. Returns whether there may be
 * more to advance. */
static bool drive(gcoll_context *context, int64_t wait_us) {
    const bool busy = gcoll_memory_is_busy(context->acceleration);
    bool moved = false;
    gcoll_status status = GCOLL_OK;
    if (context->endpoint)
        status = context->transport->progress(context->endpoint, busy ? 0 : wait_us, &moved);
    if (status != GCOLL_OK)
        gcoll_break_operation(context, status, context->rank, "rank %u: %s", context->rank,
                              gcoll_last_error());
    else if (busy && !moved && wait_us > 0)
        gcoll_memory_rest(context->acceleration);
    return moved || busy;
}

/* Drives, unless another thread does that for all; and lets others enter. */
static bool drive_shared(gcoll_context *context, int64_t wait_us, bool by_any) {
    gcoll_driver *driver = context->guard.driver;
    if (!driver)
        return drive(context, wait_us);
    if (!driver->lead(driver, &wait_us)) {
        driver->follow(driver, wait_us, by_any);
        return true;
    }
    const bool moved = drive(context, wait_us);
    driver->led(driver, moved);
    return moved;
}

static gcoll_status progress(gcoll_context *context, int64_t wait_us, bool shares) {
    gcoll_context_heed_abort(context);
    gcoll_record_heed(context);
    if (!context->health.broken) {
        advance(context);
        if (!context->health.broken &&
            (shares ? drive_shared(context, wait_us, true) : drive(context, wait_us)) &&
            !context->health.broken)
            advance(context);
        else if (wait_us > 0 && !context->health.broken)
            gcoll_live_note_wait(context);
        if (gcoll_peer_is_doubted(context) && !context->health.broken)
            gcoll_peer_settle_doubt(context, gcoll_now_ms());
    }
    return gcoll_context_settle(context);
}

gcoll_status gcoll_progress(gcoll_context *context, int64_t wait_us) {
    return progress(context, wait_us, false);
}

void gcoll_progress_once_a_tick(gcoll_context *context) {
    const int64_t now = gcoll_now_coarse_ms();
    if (now == context->live->progress_ms || context->health.broken)
        return;
    context->live->progress_ms = now;
    gcoll_progress(context, 0);
}

gcoll_status gcoll_progress_shared(gcoll_context *context, int64_t wait_us) {
    return progress(context, wait_us, true);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* The first sleep is short, as the limit begins after it; the second, as the recorder hears of the wait after
 * it. */
static int64_t sleep_us(const gcoll_context *context, const gcoll_watch *watch, int64_t now_ms, bool first) {
    const int64_t most_us = first ? FIRST_SLICE_US : SLICE_US;
    const int64_t doubt_ms = context->live->doubt_ms;
    int64_t next_ms = watch->next_probe_ms;
    if (doubt_ms != 0 && doubt_ms < next_ms)
        next_ms = doubt_ms;
    int64_t until = (next_ms - now_ms) * 1000 + 500;
    return until < 500 ? 500 : until < most_us ? until : most_us;
}

gcoll_status gcoll_progress_wait(gcoll_context *context, const gcoll_wait *wait) {
    int64_t now = gcoll_now_coarse_ms(); /* most waits are over before a clock that costs would be read */
    const int64_t entered = now;
    gcoll_watch watch = {.wait = wait,
                         .timeout_ms = wait->timeout_ms,
                         .used_ms = -GCOLL_WATCH_CLOCK_MS,
                         .age_ms = -GCOLL_WATCH_CLOCK_MS};
    context->live->watcher->limit_ms = gcoll_timeout_of(context, wait->timeout_ms);
    watch.next_probe_ms = now + gcoll_watch_interval_ms(context) / GCOLL_WATCH_FIRST_PART;
    bool is_noted = false;
    for (uint64_t pass = 0;; pass++) {
        gcoll_context_heed_abort(context);
        if (!context->health.broken)
            advance(context);
        if (context->health.broken || wait->done(wait->arg))
            break;
        if (pass > 0) { /* reading a clock costs time, and most waits are over by now */
            now = gcoll_now_coarse_ms();
            if (pass == 1) /* the coarse clock may be behind by any time: the limit would be over too early */
                watch.started_ms = watch.last_ms = gcoll_now_ms();
            if (now >= watch.next_probe_ms || gcoll_peer_is_doubted(context))
                now = gcoll_now_ms();
            if (gcoll_peer_is_doubted(context))
                gcoll_peer_settle_doubt(context, now);
            is_noted = pass > 1 || now - entered > NOTE_MS;
            if (is_noted) {
                gcoll_live_note_wait(context);
                gcoll_record_heed(context);
            }
            if (now >= watch.next_probe_ms && !context->health.broken) {
                context->live->watcher->limit_ms = gcoll_timeout_of(context, wait->timeout_ms);
                gcoll_watch_over(context, &watch, now);
            }
            if (context->guard.driver && !context->health.broken)
                gcoll_live_tend(context);
        }
        if (context->health.broken)
            continue;
        if (wait->shares)
            drive_shared(context, sleep_us(context, &watch, now, pass < 2), wait->by_any);
        else
            drive(context, sleep_us(context, &watch, now, pass < 2));
    }
    if (gcoll_rendezvous_is_due(context, now) && !context->health.broken)
        gcoll_rendezvous_keep(context);
    if (watch.probed)
        gcoll_watch_keep(context, &watch);
    gcoll_watch_end(context);
    if (is_noted && !context->health.broken)
        gcoll_record_wait_over(context);
    return gcoll_context_settle(context);
}
