/*
 * gcoll/run/held.c - started calls that wait for their turn.
 *
 * Which algorithm a call takes may be decided only when all ranks have told how long earlier calls took
 * (learn/site.c). A start does not wait for that: its call is held, with a copy of its arguments, and begins
 * as soon as the decision has come. All ranks begin their calls in the same order, so calls that are started
 * after it are held too. Calls that block wait until none is held.
 */
#include <stdio.h>
#include <stdlib.h>

#include "gcoll/run/engine.h"
#include "gcoll/run/request.h"

#define TEXT_BYTES 1024 /* of an error */

struct gcoll_held {
    gcoll_request *request;
    gcoll_run *run;     /* that begins; NULL: it is made from `saved` */
    gcoll_saved *saved; /* NULL: not needed */
    gcoll_taught taught;
    gcoll_held *next;
};

gcoll_status gcoll_held_add(gcoll_request *request, gcoll_run *run, const gcoll_arguments *arguments,
                            const gcoll_taught *taught) {
    gcoll_context *context = request->context;
    gcoll_runs *runs = context->runs;
    gcoll_held *held = calloc(1, sizeof *held);
    if (!held)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a call that is started");
    if (!run && arguments) {
        const gcoll_status status = gcoll_arguments_save(context, arguments, &held->saved);
        if (status != GCOLL_OK) {
            free(held);
            return status;
        }
    }
    held->request = request;
    held->run = run;
    request->run = NULL; /* a run that has not begun would count as finished */
    held->taught = *taught;
    if (!runs->held)
        runs->held_end = &runs->held;
    *runs->held_end = held;
    runs->held_end = &held->next;
    request->held = held;
    if (taught->token)
        context->learner->begins(context, taught->token);
    return GCOLL_OK;
}

const gcoll_taught *gcoll_held_first(const gcoll_context *context) {
    return context->runs->held ? &context->runs->held->taught : NULL;
}

/* Takes it out of the row. */
static void unlink_held(gcoll_runs *runs, gcoll_held *held) {
    gcoll_held **link = &runs->held;
    while (*link != held)
        link = &(*link)->next;
    *link = held->next;
    if (runs->held_end == &held->next)
        runs->held_end = link;
    held->request->held = NULL;
}

static void free_held(gcoll_held *held) {
    free(held->saved);
    free(held);
}

void gcoll_held_remove(gcoll_held *held) {
    gcoll_request *request = held->request;
    unlink_held(request->context->runs, held);
    if (request->kept) {
        request->run = held->run;
    } else if (held->run) {
        held->run->tells = NULL;
        gcoll_run_return(held->run);
    }
    free_held(held);
}

/* Begins a call whose turn has come. If that fails, it stays held: it must not count as finished. */
static gcoll_status begin(gcoll_held *held) {
    gcoll_request *request = held->request;
    gcoll_run *run = held->run;
    gcoll_status status = GCOLL_OK;
    if (request->kept) {
        request->run = run;
        status = gcoll_operation_take(request, &held->taught);
        held->run = run = request->run;
        request->run = NULL;
    } else if (!run) {
        gcoll_arguments *arguments = &held->saved->arguments;
        if (held->taught.algorithm)
            gcoll_call_name(&arguments->call, held->taught.algorithm);
        status = gcoll_run_obtain(request->context, arguments, false, &held->run);
        run = held->run;
    }
    if (status != GCOLL_OK)
        return status;
    run->taught = held->taught.token;
    run->waits = false;
    run->is_counted = true;
    if (request->tell)
        run->tells = request;
    status = gcoll_run_begin(run, 0);
    run->is_counted = false;
    if (status == GCOLL_OK)
        request->run = run;
    return status;
}

void gcoll_runs_release(gcoll_context *context) {
    gcoll_runs *runs = context->runs;
    gcoll_held *held;
    while ((held = runs->held) && !context->health.broken) {
        if (held->taught.undecided_call != 0 &&
            !context->learner->decided(context, held->taught.token, held->taught.undecided_call,
                                       &held->taught))
            return;
        const gcoll_status status = begin(held);
        if (status != GCOLL_OK) { /* the start has returned long ago, and the other ranks wait for this one */
            char text[TEXT_BYTES];
            snprintf(text, sizeof text, "%s", gcoll_last_error());
            gcoll_break(context, status, context->rank, "rank %u: %s", context->rank, text);
            return;
        }
        runs->held = held->next;
        held->request->held = NULL;
        free_held(held);
    }
}

/* ---- Waiting for all --------------------------------------------------------------------------- */

static bool none_is_held(const void *arg) {
    return !((const gcoll_context *)arg)->runs->held;
}

static void each_waited(const void *arg, gcoll_waited_fn fn, void *fn_arg) {
    gcoll_context *context = (gcoll_context *)(uintptr_t)arg;
    context->learner->each_waited(context, fn, fn_arg);
}

gcoll_status gcoll_held_await_all(gcoll_context *context, int64_t timeout_ms) {
    const gcoll_wait wait = {none_is_held, each_waited, context, .timeout_ms = timeout_ms, .is_behind = true};
    return gcoll_progress_wait(context, &wait);
}
