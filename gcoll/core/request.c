/*
 * gcoll/core/request.c - requests: what was begun, and how it is waited for.
 *
 * A request stands for a message of a pair or for a run of a collective. Its memory stays with the context
 * until that is destroyed, so a pointer to one that has ended is told apart from a live one as long as
 * nothing new has taken its place.
 */
#include <string.h>

#include "gcoll/core/core_internal.h"

static bool is_finished(const gcoll_request *request) {
    return request->run ? gcoll_run_finished(request->run) : request->done;
}

/* ---- Life --------------------------------------------------------------------------------- */

void gcoll_request_begin(gcoll_request *request) {
    gcoll_context *context = request->context;
    request->state = GCOLL_REQUEST_LIVE;
    request->link = &context->requests;
    request->next = context->requests;
    if (request->next)
        request->next->link = &request->next;
    context->requests = request;
}

gcoll_status gcoll_request_create(gcoll_context *context, gcoll_request **out) {
    gcoll_request *request = context->spare_requests;
    if (request)
        context->spare_requests = request->next;
    else
        request = gcoll_allocate(context, sizeof *request);
    if (!request)
        return GCOLL_ERR_NO_MEMORY;
    memset(request, 0, sizeof *request);
    request->context = context;
    gcoll_request_begin(request);
    *out = request;
    return GCOLL_OK;
}

void gcoll_request_end(gcoll_request *request) {
    gcoll_context *context = request->context;
    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
    request->state = GCOLL_REQUEST_IDLE;
    if (request->kept)
        return;
    if (request->run)
        gcoll_run_return(request->run);
    request->run = NULL;
    request->next = context->spare_requests;
    context->spare_requests = request;
}

void gcoll_requests_free(gcoll_context *context) {
    if (context->requests)
        gcoll_log(context, GCOLL_LOG_WARNING, "rank %u destroyed its context with requests that nobody ended",
                  context->rank);
    while (context->requests)
        gcoll_request_end(context->requests);
    while (context->spare_requests) {
        gcoll_request *request = context->spare_requests;
        context->spare_requests = request->next;
        gcoll_release(context, request, sizeof *request);
    }
}

bool gcoll_requests_in_flight(const gcoll_context *context) {
    for (const gcoll_request *request = context->requests; request; request = request->next)
        if (!is_finished(request))
            return true;
    return false;
}

/* ---- Ending them -------------------------------------------------------------------------- */

static bool finished(const void *arg) {
    return is_finished(arg);
}

/* What it came to, with the status of the context after it made progress. */
static gcoll_status end(gcoll_request **request, gcoll_status status) {
    gcoll_request *ended = *request;
    if (ended->run)
        status = gcoll_run_result(ended->context, ended->run, status);
    else if (ended->done)
        status = GCOLL_OK; /* it finished before the context broke */
    *request = NULL;
    gcoll_request_end(ended);
    return status;
}

static gcoll_status check(gcoll_request *const *request) {
    if (!request)
        return gcoll_error(GCOLL_ERR_INVALID, "request: is NULL");
    if (!*request)
        return gcoll_error(GCOLL_ERR_STATE, "request: has ended already, or was never begun");
    if (!(*request)->context)
        return gcoll_error(GCOLL_ERR_STATE, "request: its context was destroyed");
    if ((*request)->state != GCOLL_REQUEST_LIVE)
        return gcoll_error(GCOLL_ERR_STATE, "request: %s",
                           (*request)->kept ? "its operation was not started" : "has ended already");
    return GCOLL_OK;
}

gcoll_status gcoll_request_wait(gcoll_request **request) {
    gcoll_status status = check(request);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = (*request)->context;
    gcoll_enter(context);
    if (!is_finished(*request))
        status = gcoll_context_wait(context, finished, *request);
    status = end(request, status);
    gcoll_leave(context);
    return status;
}

static gcoll_status test(gcoll_request **request, int *done) {
    gcoll_status status = GCOLL_OK;
    if (!is_finished(*request))
        status = gcoll_context_poll((*request)->context);
    if (status == GCOLL_OK && !is_finished(*request)) {
        *done = 0;
        return GCOLL_OK;
    }
    status = end(request, status);
    if (status == GCOLL_OK)
        *done = 1;
    return status;
}

gcoll_status gcoll_request_test(gcoll_request **request, int *done) {
    gcoll_status status = check(request);
    if (status == GCOLL_OK && !done)
        status = gcoll_error(GCOLL_ERR_INVALID, "done: is NULL");
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = (*request)->context;
    gcoll_enter(context);
    status = test(request, done);
    gcoll_leave(context);
    return status;
}

/* ---- The first of several ----------------------------------------------------------------- */

struct several {
    gcoll_request *const *requests;
    uint32_t count;
};

static bool find_finished(const struct several *several, uint32_t *index) {
    for (uint32_t i = 0; i < several->count; i++)
        if (several->requests[i] && is_finished(several->requests[i])) {
            *index = i;
            return true;
        }
    return false;
}

static bool any_finished(const void *arg) {
    uint32_t index;
    return find_finished(arg, &index);
}

/* The context that all of them have. */
static gcoll_status common_context(const struct several *several, gcoll_context **context) {
    *context = NULL;
    for (uint32_t i = 0; i < several->count; i++) {
        if (!several->requests[i])
            continue;
        gcoll_status status = check(&several->requests[i]);
        if (status != GCOLL_OK)
            return gcoll_error(status, "requests[%u]: %s", i, gcoll_last_error());
        if (*context && several->requests[i]->context != *context)
            return gcoll_error(GCOLL_ERR_INVALID,
                               "requests[%u]: is of another context than those before it; allowed is one", i);
        *context = several->requests[i]->context;
    }
    return *context
               ? GCOLL_OK
               : gcoll_error(GCOLL_ERR_STATE, "requests: none of %u is to be waited for", several->count);
}

gcoll_status gcoll_wait_any(gcoll_request *const *requests, uint32_t count, uint32_t *index) {
    const struct several several = {requests, count};
    gcoll_context *context = NULL;
    if (!index || (!requests && count > 0))
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", index ? "requests" : "index");
    gcoll_status status = common_context(&several, &context);
    if (status != GCOLL_OK)
        return status;
    gcoll_enter(context);
    if (!find_finished(&several, index)) {
        status = gcoll_context_wait(context, any_finished, &several);
        if (find_finished(&several, index))
            status = GCOLL_OK;
    }
    gcoll_leave(context);
    return status;
}

/* ---- Whom they wait for ------------------------------------------------------------------- */

void gcoll_requests_each_waited(gcoll_context *context, bool (*fn)(void *arg, uint32_t peer), void *arg) {
    for (const gcoll_request *request = context->requests; request; request = request->next)
        if (!request->run && !request->done && !fn(arg, request->peer))
            return;
    if (gcoll_arrival_waits(context) && !fn(arg, 0))
        return;
    for (uint32_t i = 0; context->any && i < context->any->count; i++)
        if (!context->peers[context->any->peers[i]].departed && !fn(arg, context->any->peers[i]))
            return;
}

/* What comes from any of several comes as well when one of them has left. */
bool gcoll_requests_wait_for(const gcoll_context *context, uint32_t peer) {
    for (const gcoll_request *request = context->requests; request; request = request->next)
        if (!request->run && !request->done && request->peer == peer)
            return true;
    return peer == 0 && gcoll_arrival_waits(context);
}
