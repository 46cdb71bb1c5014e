/*
 * gcoll/run/request.c - requests: handles of messages and collectives in flight, to wait for or to test.
 *
 * A request stands for a message of a pair or for a run of a collective. The context keeps its memory until
 * the context is destroyed. So a pointer to a request that has ended is recognised, unless a new request has
 * taken its place.
 *
 * On a context that has a driver, several threads may wait for requests, each for its own: while a thread
 * waits for a request, no other thread can end it. options.done of a collective is called as soon as a thread
 * that drives the context notices the end of its run, before the request is ended.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/run/engine.h"
#include "gcoll/run/request.h"

#define FREE_LOOKS 8    /* unsuccessful tests that do not read the clock */
#define SLICE_MS   100  /* the longest sleep while a request is waited for with a limit */
#define TEXT_BYTES 1024 /* of an error */
#define KEEP_MADE  16   /* messages begun between two checks whether keys in the store need renewal */

static inline bool is_finished(const gcoll_request *request) {
    return request->run ? gcoll_run_is_finished(request->run) : request->done;
}

static bool request_finished(const void *arg) {
    const gcoll_request *request = arg; /* a detached one may have ended while it was looked at */
    return request->state != GCOLL_REQUEST_LIVE || is_finished(request);
}

static void request_each_waited(const void *arg, gcoll_waited_fn fn, void *fn_arg) {
    const gcoll_request *request = arg;
    if (request->run)
        gcoll_run_each_waited(request->run, fn, fn_arg);
    else if (request->held)
        request->context->learner->each_waited(request->context, fn, fn_arg);
    else if (request->any)
        gcoll_any_each_waited(request, fn, fn_arg);
    else
        fn(fn_arg, request->peer);
}

static gcoll_wait wait_of(const gcoll_request *request) {
    return (gcoll_wait){request_finished,    request_each_waited, request,
                        request->timeout_ms, .shares = true,      .is_behind = request->held};
}

/* ---- Life --------------------------------------------------------------------------------- */

void gcoll_request_begin(gcoll_request *request) {
    gcoll_runs *runs = request->context->runs;
    request->state = GCOLL_REQUEST_LIVE;
    request->tested.looked_ms = request->tested.used_ms = request->tested.age_ms = 0;
    request->free_looks = 0;
    request->is_told = false;
    runs->tellers += request->tell != NULL;
    request->link = &runs->requests;
    request->next = runs->requests;
    if (request->next)
        request->next->link = &request->next;
    runs->requests = request;
}

gcoll_status gcoll_request_create(gcoll_context *context, uint32_t peer, gcoll_request **out) {
    gcoll_runs *runs = context->runs;
    gcoll_request *request = runs->spare_requests;
    if (request) {
        runs->spare_requests = request->next;
    } else {
        request = gcoll_allocate(context, sizeof *request);
        if (!request)
            return GCOLL_ERR_NO_MEMORY;
        request->context = context;
    }
    /* A thread that still has the pointer of an ended request reads its context before it enters. So that
     * field is written once. */
    const size_t kept = offsetof(gcoll_request, state);
    memset((char *)request + kept, 0, sizeof *request - kept);
    request->peer = peer;
    if (++runs->requests_made % KEEP_MADE == 0)
        gcoll_rendezvous_keep_if_due(context);
    gcoll_request_begin(request);
    *out = request;
    return GCOLL_OK;
}

void gcoll_request_set_done(gcoll_request *request) {
    request->done = true;
    gcoll_live_ended(request->context);
}

static inline void take_out(gcoll_request *request) {
    if (!request->run) {
        if (request->held)
            gcoll_held_remove(request->held);
        if (request->any)
            gcoll_any_remove(request);
    }
    request->context->runs->requests_ended++;
    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
    request->state = GCOLL_REQUEST_IDLE;
}

/* Puts an ended request on the list of spare ones. */
static void recycle(gcoll_request *request) {
    gcoll_runs *runs = request->context->runs;
    if (request->run) {
        request->run->tells = NULL;
        gcoll_run_return(request->run);
    }
    request->run = NULL;
    request->next = runs->spare_requests;
    runs->spare_requests = request;
}

void gcoll_request_end(gcoll_request *request) {
    take_out(request);
    if (!request->kept)
        recycle(request);
}

void gcoll_requests_free(gcoll_context *context) {
    gcoll_runs *runs = context->runs;
    if (runs->requests)
        gcoll_log(context, GCOLL_LOG_WARNING,
                  "rank %u destroyed its context with requests that were not ended", context->rank);
    while (runs->requests)
        gcoll_request_end(runs->requests);
    while (runs->spare_requests) {
        gcoll_request *request = runs->spare_requests;
        runs->spare_requests = request->next;
        gcoll_release(context, request, sizeof *request);
    }
}

/* ---- Telling how runs ended --------------------------------------------------------------- */

void gcoll_request_tell(gcoll_request *request, gcoll_status status) {
    if (request->is_told)
        return;
    request->is_told = true;
    request->context->runs->tellers--;
    if (status == GCOLL_OK) {
        request->tell(request->tell_arg, status, "");
    } else {
        char text[TEXT_BYTES];
        snprintf(text, sizeof text, "%s", gcoll_last_error());
        request->tell(request->tell_arg, status, text);
        gcoll_error(status, "%s", text); /* the callback may have had an error of its own */
    }
    gcoll_live_ended(request->context); /* the descriptor tells of what the callback has noted */
    if (request->is_detached)
        gcoll_request_end(request);
}

void gcoll_request_tells(gcoll_request *request, gcoll_done_fn tell, void *arg, bool is_detached) {
    request->tell = tell;
    request->tell_arg = arg;
    request->is_detached = is_detached;
    request->context->runs->tellers++;
    if (request->run)
        request->run->tells = request;
    gcoll_request_tell_if_finished(request);
}

void gcoll_request_tell_if_finished(gcoll_request *request) {
    if (request->tell && is_finished(request))
        gcoll_request_tell(request, GCOLL_OK);
}

/* How a collective has ended; `status` is that of the context's progress. */
static gcoll_status result(const gcoll_request *request, gcoll_status status) {
    if (request->run)
        return gcoll_run_result(request->context, request->run, status);
    return status == GCOLL_OK ? gcoll_context_settle(request->context) : status;
}

void gcoll_requests_tell_all(gcoll_context *context) {
    gcoll_request *next;
    if (context->runs->tellers == 0 || gcoll_is_forked(context))
        return;
    for (gcoll_request *request = context->runs->requests; request; request = next) {
        next = request->next;
        if (request->tell && !request->is_told)
            gcoll_request_tell(request, result(request, GCOLL_OK));
    }
}

/* ---- Ending requests ---------------------------------------------------------------------- */

void gcoll_requests_forget_received(gcoll_context *context) {
    context->runs->has_received = false;
}

/* The result of a receive whose message has come. */
static gcoll_status received(const gcoll_request *request) {
    gcoll_runs *runs = request->context->runs;
    if (!(request->message.stream & GCOLL_STREAM_MEMBERS)) {
        runs->has_received = true;
        runs->last_source = request->peer;
        runs->last_bytes = request->message.bytes;
    }
    if (request->message.bytes <= request->room)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_MISMATCH,
                       "bytes: is %llu, but rank %u sent a message of %llu with tag %u; it was dropped",
                       (unsigned long long)request->room, request->peer,
                       (unsigned long long)request->message.bytes, (uint32_t)request->message.stream);
}

/* Ends a request, and returns its result; `status` is that of the context's progress. */
static gcoll_status end(gcoll_request **request, gcoll_status status) {
    gcoll_request *ended = *request;
    if (ended->run || ended->held)
        status = result(ended, status);
    else if (ended->done) /* perhaps before the context broke */
        status = ended->receives_from ? received(ended) : GCOLL_OK;
    if (ended->tell)
        gcoll_request_tell(ended, status);
    *request = NULL;
    take_out(ended);
    if (!ended->kept)
        recycle(ended);
    return status;
}

/* Checks, before its context is entered, that the request has a context. */
static gcoll_status check(gcoll_request *const *request) {
    if (!request)
        return gcoll_error(GCOLL_ERR_INVALID, "request: is NULL");
    if (!*request)
        return gcoll_error(GCOLL_ERR_STATE, "request: has ended already, or was never begun");
    if (!(*request)->context)
        return gcoll_error(GCOLL_ERR_STATE, "request: its context was destroyed");
    return GCOLL_OK;
}

gcoll_status gcoll_request_check_free(const gcoll_request *request) {
    return request->is_waited ? gcoll_error(GCOLL_ERR_STATE, "request: another thread waits for it")
                              : GCOLL_OK;
}

static gcoll_status check_live(const gcoll_request *request) {
    if (request->state != GCOLL_REQUEST_LIVE)
        return gcoll_error(GCOLL_ERR_STATE, "request: %s",
                           request->kept ? "its operation was not started" : "has ended already");
    return gcoll_request_check_free(request);
}

/* Enters the context of a request that must be live. */
static gcoll_status enter(gcoll_request *const *request) {
    gcoll_status status = check(request);
    if (status == GCOLL_OK)
        status = gcoll_enter((*request)->context);
    if (status != GCOLL_OK)
        return status;
    status = check_live(*request);
    if (status != GCOLL_OK)
        gcoll_leave((*request)->context);
    return status;
}

gcoll_status gcoll_request_finish(gcoll_request **request) {
    gcoll_context *context = (*request)->context;
    gcoll_status status = GCOLL_OK;
    if (!is_finished(*request)) {
        const gcoll_wait wait = wait_of(*request);
        (*request)->is_waited = true;
        status = gcoll_progress_wait(context, &wait);
        (*request)->is_waited = false;
    } else {
        gcoll_progress_in_time(context);
    }
    return end(request, status);
}

gcoll_status gcoll_request_wait(gcoll_request **request) {
    gcoll_status status = enter(request);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = (*request)->context;
    status = gcoll_request_finish(request);
    gcoll_leave(context);
    return status;
}

/* Ends a request that has finished, or whose context is broken. */
static inline gcoll_status conclude(gcoll_request **request, gcoll_status status, int *done) {
    gcoll_watch_end((*request)->context);
    status = end(request, status);
    if (status == GCOLL_OK)
        *done = 1;
    return status;
}

/* Counts the time of a request that has not finished and is not being waited for. */
static gcoll_status watch(gcoll_request *request) {
    if (request->free_looks < FREE_LOOKS) { /* reading the clock costs time, and most requests finish soon */
        request->free_looks++;
        return GCOLL_OK;
    }
    const gcoll_wait wait = wait_of(request);
    const bool is_alone = request->context->runs->requests == request && !request->next;
    return gcoll_watch_look(request->context, &request->tested, &wait, is_alone);
}

/* Looks at a request after progress, whose status is `status`; ends it if it has finished or failed. */
static gcoll_status look(gcoll_request **request, gcoll_status status, int *done) {
    if (status == GCOLL_OK && !is_finished(*request))
        status = watch(*request);
    if (status == GCOLL_OK && !is_finished(*request)) {
        *done = 0;
        return GCOLL_OK;
    }
    return conclude(request, status, done);
}

gcoll_status gcoll_request_look(gcoll_request **request, int *done) {
    if (!is_finished(*request)) {
        const gcoll_status status = gcoll_progress((*request)->context, 0);
        if (status != GCOLL_OK || !is_finished(*request))
            return look(request, status, done);
    } else {
        gcoll_progress_in_time((*request)->context); /* it ended without any, perhaps like all before it */
    }
    return conclude(request, GCOLL_OK, done);
}

gcoll_status gcoll_request_test(gcoll_request **request, int *done) {
    gcoll_status status = check(request);
    if (status == GCOLL_OK && !done)
        status = gcoll_error(GCOLL_ERR_INVALID, "done: is NULL");
    if (status == GCOLL_OK)
        status = enter(request);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = (*request)->context;
    status = gcoll_request_look(request, done);
    gcoll_leave(context);
    return status;
}

/* Waits until the request has ended or the time is over; if it is over, returns GCOLL_OK with *done 0. */
static gcoll_status wait_for(gcoll_request **request, int64_t wait_ms, int *done) {
    gcoll_context *context = (*request)->context;
    const int64_t end_ms = gcoll_now_ms() + wait_ms;
    (*request)->free_looks = FREE_LOOKS;
    gcoll_status status = gcoll_request_look(request, done);
    while (status == GCOLL_OK && !*done) {
        gcoll_rendezvous_keep_if_due(context); /* a wait may outlast the keys' lifetime */
        const int64_t left_ms = end_ms - gcoll_now_ms();
        if (left_ms <= 0)
            break;
        (*request)->is_waited = true;
        status = gcoll_progress_shared(context, left_ms < SLICE_MS ? left_ms * 1000 : SLICE_MS * 1000);
        (*request)->is_waited = false;
        if (context->guard.driver && status == GCOLL_OK)
            gcoll_live_tend(context);
        status = look(request, status, done);
    }
    return status;
}

gcoll_status gcoll_request_wait_for(gcoll_request **request, int64_t wait_ms) {
    int done = 0;
    gcoll_status status = check(request);
    if (status == GCOLL_OK && (wait_ms < 0 || wait_ms > GCOLL_TIMEOUT_MAX_MS))
        status = gcoll_error(GCOLL_ERR_INVALID, "wait_ms: is %lld; allowed are 0 to %lld", (long long)wait_ms,
                             (long long)GCOLL_TIMEOUT_MAX_MS);
    if (status == GCOLL_OK)
        status = enter(request);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = (*request)->context;
    status = wait_for(request, wait_ms, &done);
    gcoll_leave(context);
    if (status == GCOLL_OK && !done)
        status = gcoll_error(GCOLL_ERR_TIMEOUT, "request: has not finished within %lld ms, and goes on",
                             (long long)wait_ms);
    return status;
}

static gcoll_status cancel(gcoll_request **request) {
    gcoll_request *cancelled = *request;
    if (!cancelled->receives_from && !cancelled->any)
        return gcoll_error(GCOLL_ERR_STATE,
                           "request: is not a receive from a pair; nothing else can be cancelled");
    if (cancelled->done)
        return gcoll_error(GCOLL_ERR_STATE, "request: its message has come from rank %u", cancelled->peer);
    gcoll_status status = gcoll_context_settle(cancelled->context);
    if (status != GCOLL_OK)
        return end(request, status);
    status = cancelled->any ? GCOLL_OK : gcoll_pair_cancel(cancelled);
    if (status != GCOLL_OK)
        return status;
    *request = NULL;
    gcoll_request_end(cancelled);
    return GCOLL_OK;
}

gcoll_status gcoll_request_cancel(gcoll_request **request) {
    gcoll_status status = enter(request);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = (*request)->context;
    status = cancel(request);
    gcoll_leave(context);
    return status;
}

/* ---- What a receive got ------------------------------------------------------------------- */

/* Enters the context of a receive whose message has come. */
static gcoll_status enter_received(gcoll_request *request) {
    gcoll_status status = enter(&request);
    if (status != GCOLL_OK)
        return status;
    if (!request->receives_from && !request->any)
        status = gcoll_error(GCOLL_ERR_STATE, "request: is not a receive from a pair");
    else if (!request->done)
        status = gcoll_error(GCOLL_ERR_STATE, "request: no message has come yet");
    if (status != GCOLL_OK)
        gcoll_leave(request->context);
    return status;
}

gcoll_status gcoll_request_source(gcoll_request *request, uint32_t *source) {
    if (!source)
        return gcoll_error(GCOLL_ERR_INVALID, "source: is NULL");
    gcoll_status status = enter_received(request);
    if (status != GCOLL_OK)
        return status;
    *source = request->peer;
    gcoll_leave(request->context);
    return GCOLL_OK;
}

gcoll_status gcoll_request_bytes(gcoll_request *request, uint64_t *bytes) {
    if (!bytes)
        return gcoll_error(GCOLL_ERR_INVALID, "bytes: is NULL");
    gcoll_status status = enter_received(request);
    if (status != GCOLL_OK)
        return status;
    *bytes = request->message.bytes;
    gcoll_leave(request->context);
    return GCOLL_OK;
}

gcoll_status gcoll_context_last_received(gcoll_context *context, uint32_t *source, uint64_t *bytes) {
    if (!context)
        return gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    const gcoll_runs *runs = context->runs;
    if (!runs->has_received)
        status = gcoll_error(GCOLL_ERR_STATE, "context: no receive from a pair has ended yet");
    if (status == GCOLL_OK && source)
        *source = runs->last_source;
    if (status == GCOLL_OK && bytes)
        *bytes = runs->last_bytes;
    gcoll_leave(context);
    return status;
}

/* ---- The first of several ----------------------------------------------------------------- */

struct several {
    gcoll_request *const *requests;
    uint32_t count;
    const gcoll_context *context;
};

static bool find_finished(const struct several *several, uint32_t *index) {
    for (uint32_t i = 0; i < several->count; i++)
        if (several->requests[i] && is_finished(several->requests[i])) {
            *index = i;
            return true;
        }
    return false;
}

/* Whether one has finished, or gcoll_context_wake is to end the wait. */
static bool any_finished(const void *arg) {
    const struct several *several = arg;
    uint32_t index;
    return atomic_load_explicit(&several->context->guard.woken, memory_order_relaxed) ||
           find_finished(several, &index);
}

/* While they are waited for, no other thread may end them. */
static void set_waited(const struct several *several, bool is_waited) {
    for (uint32_t i = 0; i < several->count; i++)
        if (several->requests[i])
            several->requests[i]->is_waited = is_waited;
}

/* Finds the context that all requests share. */
static gcoll_status find_common(const struct several *several, gcoll_context **context) {
    *context = NULL;
    for (uint32_t i = 0; i < several->count; i++) {
        if (!several->requests[i])
            continue;
        gcoll_status status = check(&several->requests[i]);
        if (status != GCOLL_OK)
            return gcoll_error(status, "requests[%u]: %s", i, gcoll_last_error());
        if (*context && several->requests[i]->context != *context)
            return gcoll_error(GCOLL_ERR_INVALID,
                               "requests[%u]: belongs to another context than the requests before it; "
                               "allowed is one context",
                               i);
        *context = several->requests[i]->context;
    }
    return *context ? GCOLL_OK
                    : gcoll_error(GCOLL_ERR_STATE,
                                  "requests: has no request among %u entries; allowed is at least one",
                                  several->count);
}

/* Enters the context that all requests share. */
static gcoll_status enter_common(const struct several *several, gcoll_context **context) {
    gcoll_status status = find_common(several, context);
    if (status == GCOLL_OK)
        status = gcoll_enter(*context);
    if (status != GCOLL_OK)
        return status;
    for (uint32_t i = 0; i < several->count && status == GCOLL_OK; i++) {
        status = several->requests[i] ? check_live(several->requests[i]) : GCOLL_OK;
        if (status != GCOLL_OK)
            status = gcoll_error(status, "requests[%u]: %s", i, gcoll_last_error());
    }
    if (status != GCOLL_OK)
        gcoll_leave(*context);
    return status;
}

/* The shortest timeout of the requests. */
static int64_t shortest_timeout(const gcoll_context *context, const struct several *several) {
    int64_t shortest = -1;
    for (uint32_t i = 0; i < several->count; i++)
        if (several->requests[i])
            shortest = gcoll_shorter_timeout(context, shortest, several->requests[i]->timeout_ms);
    return shortest;
}

/* Makes progress, and counts the time of each request as a test does. Without that, a thread that is woken
 * again and again would neither receive anything nor ever time out. */
static gcoll_status go_on(gcoll_context *context, const struct several *several) {
    gcoll_status status = gcoll_progress(context, 0);
    for (uint32_t i = 0; i < several->count && status == GCOLL_OK; i++)
        if (several->requests[i] && !is_finished(several->requests[i]))
            status = watch(several->requests[i]);
    return status;
}

/* The index of a finished one; GCOLL_WOKEN goes first, as it was asked for, unless the context is broken. */
static gcoll_status wait_for_any(gcoll_context *context, const struct several *several, uint32_t *index) {
    const gcoll_wait wait = {any_finished, NULL, several, shortest_timeout(context, several), .shares = true};
    gcoll_status status = GCOLL_OK;
    for (;;) {
        if (status == GCOLL_OK && gcoll_context_take_wake(context)) {
            status = go_on(context, several);
            if (status == GCOLL_OK)
                return GCOLL_WOKEN;
        }
        if (find_finished(several, index))
            return GCOLL_OK;
        if (status != GCOLL_OK)
            return status;
        set_waited(several, true);
        status = gcoll_progress_wait(context, &wait); /* and once more if another thread took the wake */
        set_waited(several, false);
    }
}

gcoll_status gcoll_wait_any(gcoll_request *const *requests, uint32_t count, uint32_t *index) {
    struct several several = {requests, count, NULL};
    gcoll_context *context = NULL;
    if (!index || (!requests && count > 0))
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", index ? "requests" : "index");
    gcoll_status status = enter_common(&several, &context);
    if (status != GCOLL_OK)
        return status;
    several.context = context;
    status = wait_for_any(context, &several, index);
    gcoll_leave(context);
    return status;
}

/* ---- The activity's table ----------------------------------------------------------------- */

static void each_waited(gcoll_context *context, gcoll_waited_fn fn, void *arg) {
    bool goes_on = true;
    for (const gcoll_request *request = context->runs->requests; request && goes_on; request = request->next)
        if (request->any)
            goes_on = gcoll_any_each_waited(request, fn, arg);
        else if (!request->run && !request->held && !request->done)
            goes_on = fn(arg, request->peer);
}

/* Whether a message needs this peer. A receive from any of several peers does not, and its request has no
 * peer: the others may still send. */
static bool needs(const gcoll_context *context, uint32_t peer) {
    for (const gcoll_request *request = context->runs->requests; request; request = request->next)
        if (!request->run && !request->done && request->peer == peer)
            return true;
    return false;
}

static bool is_any_in_flight(const gcoll_context *context) {
    for (const gcoll_request *request = context->runs->requests; request; request = request->next)
        if (!is_finished(request))
            return true;
    return false;
}

/* Watches over runs that have options.done, so that each of them ends. */
static void tend(gcoll_context *context) {
    gcoll_runs *runs = context->runs;
    const uint32_t ended = runs->requests_ended;
    if (runs->tellers == 0)
        return;
    for (gcoll_request *request = runs->requests; request; request = request->next) {
        if (!request->tell || request->is_told || request->is_waited || is_finished(request))
            continue;
        const gcoll_wait wait = wait_of(request);
        if (gcoll_watch_look(context, &request->tested, &wait, false) != GCOLL_OK ||
            runs->requests_ended != ended) /* the list may have changed */
            return;
    }
}

const gcoll_activity gcoll_request_activity = {
    .order = 4,
    .advance = gcoll_anys_advance,
    .in_flight = is_any_in_flight,
    .has_work = is_any_in_flight,
    .each_waited = each_waited,
    .needs = needs,
    .tend = tend,
};
