/*
 * gcoll/run/runs.c - the life of a run: obtained, begun, in flight, and returned to the cache.
 *
 * A blocking or started call reuses the idle run of its plan, so a repeated call allocates nothing. Very
 * large runs are not kept: keeping one for every shape would cost more memory than allocating it again costs
 * time.
 */
#include <stdio.h>

#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/run/engine.h"
#include "gcoll/run/request.h"

#define KEEP_LOOKS 16 /* operations between two checks whether keys in the store need renewal */
#define KEPT_BYTES                                                                                           \
    (UINT64_C(4) << 20) /* larger runs are freed: moving their data takes far longer than an allocation */

/* ---- Obtaining a run ---------------------------------------------------------------------- */

static gcoll_status obtain(gcoll_context *context, const gcoll_call *call, const gcoll_arguments *arguments,
                           bool is_own, gcoll_run **out) {
    gcoll_cache_entry *entry;
    gcoll_status status = gcoll_cache_get(context, call, &arguments->blocks, &entry);
    if (status != GCOLL_OK)
        return status;
    gcoll_run *run = is_own ? NULL : gcoll_cache_take_idle(entry);
    if (!run)
        status = gcoll_run_create(context, entry, &run);
    gcoll_cache_put(entry); /* the run holds its own reference */
    if (status != GCOLL_OK)
        return status;
    gcoll_buffers multiple;
    const gcoll_buffers *buffers = &arguments->buffers;
    run->scales = arguments->factors[0] != 0;
    if (run->scales) {
        status = gcoll_scale_bind(run, arguments, &multiple);
        buffers = &multiple;
    }
    if (status == GCOLL_OK)
        status = gcoll_run_bind(run, buffers, arguments->user_op);
    run->keeps = arguments->keep_input && arguments->was_in_place;
    run->taught = arguments->taught;
    if (status == GCOLL_OK && run->keeps)
        status = gcoll_keep_bind(run, buffers);
    if (status == GCOLL_OK && (is_own || gcoll_problem_is_direct(&entry->plan->problem)))
        status = gcoll_run_attach(run, buffers);
    if (status != GCOLL_OK) {
        gcoll_run_return(run);
        return status;
    }
    *out = run;
    return GCOLL_OK;
}

gcoll_status gcoll_run_learn(gcoll_context *context, gcoll_arguments *arguments, gcoll_form form) {
    gcoll_taught taught = {0};
    if (!context->learner)
        return GCOLL_OK;
    const gcoll_status status = context->learner->enter(context, &arguments->call, &arguments->blocks,
                                                        arguments->timeout_ms, form, &taught);
    if (taught.algorithm)
        gcoll_call_name(&arguments->call, taught.algorithm);
    arguments->taught = taught.token;
    arguments->undecided_call = taught.undecided_call;
    return status;
}

gcoll_status gcoll_run_obtain(gcoll_context *context, const gcoll_arguments *arguments, bool is_own,
                              gcoll_run **out) {
    gcoll_status status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = obtain(context, &arguments->call, arguments, is_own, out);
    if (status == GCOLL_OK || !gcoll_memory_gives_way(context, &arguments->call, status))
        return status;
    gcoll_call staged = arguments->call;
    staged.direct = 0;
    return obtain(context, &staged, arguments, is_own, out);
}

void gcoll_run_return(gcoll_run *run) {
    gcoll_run_drop(run);
    if (run->holds && !gcoll_run_is_finished(run))
        gcoll_keep_restore(run);
    run->holds = false;
    gcoll_run_detach(run);
    if (gcoll_run_memory_bytes(run) > KEPT_BYTES || !gcoll_cache_keep_idle(run->entry, run))
        gcoll_run_destroy(run);
}

/* ---- In flight ---------------------------------------------------------------------------- */

gcoll_status gcoll_run_begin(gcoll_run *run, uint64_t entered) {
    gcoll_context *context = run->context;
    gcoll_runs *runs = context->runs;
    gcoll_status status = gcoll_run_check_buffers(run);
    if (status == GCOLL_OK && run->work)
        status = gcoll_device_work_start(run);
    if (status != GCOLL_OK)
        return status;
    if (run->keeps)
        gcoll_keep_take(run);
    if (run->scales)
        gcoll_scale_input(run);
    run->sequence = ++runs->sequence;
    run->in_flight = true;
    run->next = NULL;
    gcoll_run **tail = &runs->first;
    while (*tail)
        tail = &(*tail)->next;
    *tail = run;
    gcoll_live_due(context, &gcoll_run_activity);
    if (context->endpoint) {
        if (run->sequence % KEEP_LOOKS == 0) {
            gcoll_rendezvous_keep_if_due(context);
            if (run->sequence == KEEP_LOOKS &&
                context->record) /* by now ranks have met: a first reader sees lanes */
                gcoll_record_ask(context);
            gcoll_record_heed(context);
        }
        gcoll_watch_publish(context, run->sequence);
        gcoll_opening_begin(context, run->sequence, run->entry);
    }
    run->begun = gcoll_record_time(context);
    if (run->taught && !run->is_counted)
        context->learner->begins(context, run->taught);
    if (gcoll_taught_is_timed(run->taught))
        run->timed_ns = gcoll_now_ns();
    gcoll_run_start(run);
    if (gcoll_run_is_finished(run))
        gcoll_live_ended(context);
    else
        gcoll_progress_flush(context);
    gcoll_record_begin(context, run->sequence, entered, run->begun, &run->entry->record,
                       gcoll_run_is_finished(run)); /* the flush may have ended it */
    return GCOLL_OK;
}

static const gcoll_step *find_blocked_step(const gcoll_run *run, uint32_t peer);

/* The operation has ended without success. */
static void note_fall(const gcoll_run *run) {
    gcoll_runs *runs = run->context->runs;
    const gcoll_step *step = find_blocked_step(run, run->context->health.cause.culprit);
    gcoll_record_fail(run->context, run->sequence, &run->entry->record, step ? step->round : 0,
                      step ? step->peer : GCOLL_NO_RANK);
    if (runs->fallen == 0 || run->sequence < runs->fallen)
        runs->fallen = run->sequence;
}

void gcoll_run_drop(gcoll_run *run) {
    if (!run->in_flight)
        return;
    run->in_flight = false;
    if (!gcoll_run_is_finished(run))
        note_fall(run);
    if (run->work)
        gcoll_device_work_end(run);
    gcoll_run **link = &run->context->runs->first;
    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
}

gcoll_status gcoll_run_result(gcoll_context *context, gcoll_run *run, gcoll_status status) {
    const bool is_finished = gcoll_run_is_finished(run);
    gcoll_run_drop(run);
    if (is_finished && (!context->health.broken || !gcoll_opening_mismatched(context, run->sequence)))
        return GCOLL_OK;                     /* even if the context broke afterwards */
    if (is_finished && status == GCOLL_OK) { /* its fingerprint did not match */
        gcoll_record_take_back(context, &run->entry->record);
        note_fall(run);
    }
    if (status == GCOLL_OK)
        status = gcoll_context_settle(context);
    if (status != GCOLL_OK && run->holds)
        gcoll_keep_restore(run);
    return status;
}

uint64_t gcoll_runs_completed(const gcoll_context *context) {
    const gcoll_runs *runs = context->runs;
    uint64_t end = runs->fallen != 0 ? runs->fallen : runs->sequence + 1;
    for (const gcoll_run *run = runs->first; run; run = run->next)
        if (run->sequence < end && !gcoll_run_is_finished(run))
            end = run->sequence;
    return end - 1;
}

const gcoll_cache_entry *gcoll_run_entry(const gcoll_run *run) {
    return run->entry;
}

void gcoll_run_each_waited(const gcoll_run *run, gcoll_waited_fn fn, void *arg) {
    for (uint32_t i = 0; i < run->plan->step_count; i++)
        if (run->steps[i].posted && !fn(arg, run->plan->steps[i].peer))
            return;
}

/* ---- The activity's table ----------------------------------------------------------------- */

static void advance(gcoll_context *context) {
    gcoll_run *run = context->runs->first;
    if (!run)
        gcoll_live_not_due(context, &gcoll_run_activity);
    while (run && !context->health.broken) {
        gcoll_run *next = run->next;
        if (gcoll_run_has_ready(run))
            gcoll_run_advance(run);
        if (gcoll_run_is_finished(run)) {
            gcoll_run_drop(run);
            gcoll_live_ended(context);
            if (run->tells)
                gcoll_request_tell(run->tells, GCOLL_OK);
        }
        run = next;
    }
}

static void each_waited(gcoll_context *context, gcoll_waited_fn fn, void *arg) {
    for (const gcoll_run *run = context->runs->first; run; run = run->next)
        gcoll_run_each_waited(run, fn, arg);
}

static bool waits_for(const gcoll_run *run, uint32_t peer) {
    for (uint32_t i = 0; i < run->plan->step_count; i++)
        if (run->steps[i].posted && run->plan->steps[i].peer == peer)
            return true;
    return false;
}

static bool needs(const gcoll_context *context, uint32_t peer) {
    for (const gcoll_run *run = context->runs->first; run; run = run->next)
        if (waits_for(run, peer))
            return true;
    return false;
}

/* The oldest run that waits for the peer; if there is none, the oldest unfinished run. */
static const gcoll_run *find_waiting(const gcoll_context *context, uint32_t peer) {
    const gcoll_run *oldest = NULL;
    for (const gcoll_run *run = context->runs->first; run; run = run->next) {
        if (waits_for(run, peer))
            return run;
        if (!oldest && !gcoll_run_is_finished(run))
            oldest = run;
    }
    return oldest;
}

/* The first step in flight that involves the peer, else the first step in flight; NULL if there is none. */
static const gcoll_step *find_blocked_step(const gcoll_run *run, uint32_t peer) {
    const gcoll_step *found = NULL;
    for (uint32_t i = 0; i < run->plan->step_count; i++) {
        if (!run->steps[i].posted)
            continue;
        if (run->plan->steps[i].peer == peer)
            return &run->plan->steps[i];
        if (!found)
            found = &run->plan->steps[i];
    }
    return found;
}

void gcoll_run_name(const gcoll_run *run, const gcoll_step *step, char *text, size_t size) {
    const int used = snprintf(text, size, "%s #%llu, %s",
                              gcoll_collective_name((gcoll_collective)run->entry->call.collective),
                              (unsigned long long)run->sequence, run->entry->algorithm);
    if (step && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", step %u of %u", step->round + 1, run->plan->rounds);
}

static void name(const gcoll_context *context, uint32_t peer, char *text, size_t size) {
    const gcoll_run *run = find_waiting(context, peer);
    const gcoll_members *members = context->runs->members;
    if (members) {
        snprintf(text, size, "group of %u ranks, tag %u", members->count, members->tag);
        return;
    }
    if (!run && context->runs->sequence == 0) {
        snprintf(text, size, "before the first operation");
        return;
    }
    if (!run) {
        snprintf(text, size, "after operation #%llu", (unsigned long long)context->runs->sequence);
        return;
    }
    gcoll_run_name(run, find_blocked_step(run, peer), text, size);
}

/* Tells the recorder what the oldest run waits for. */
static void note_wait(gcoll_context *context) {
    const gcoll_run *run = context->runs->first;
    gcoll_record_wait wait = {0};
    while (run && gcoll_run_is_finished(run))
        run = run->next;
    if (!run) {
        gcoll_record_wait_over(context);
        return;
    }
    wait.number = run->sequence;
    wait.rounds = run->plan->rounds;
    for (uint32_t i = 0; i < run->plan->step_count && wait.peers <= GCOLL_RECORD_PEERS; i++) {
        const gcoll_step *step = &run->plan->steps[i];
        bool is_named = !run->steps[i].posted;
        for (uint32_t k = 0; k < wait.peers && !is_named; k++)
            is_named = wait.peer[k] == step->peer;
        if (is_named)
            continue;
        if (wait.peers == 0)
            wait.round = step->round;
        if (wait.peers < GCOLL_RECORD_PEERS)
            wait.peer[wait.peers] = step->peer;
        wait.peers++;
    }
    gcoll_record_wait_for(context, &wait);
}

static const uint8_t *concern(const gcoll_context *context, uint64_t *stream) {
    const gcoll_run *run = context->runs->first;
    while (run && gcoll_run_is_finished(run))
        run = run->next;
    if (!run)
        return NULL;
    *stream = run->sequence;
    return run->entry->fingerprint.bytes;
}

/* Has no in_flight function: each run has a request, which counts as in flight. */
const gcoll_activity gcoll_run_activity = {
    .order = 3,
    .advance = advance,
    .each_waited = each_waited,
    .needs = needs,
    .name = name,
    .concern = concern,
    .note_wait = note_wait,
};

/* ---- Life --------------------------------------------------------------------------------- */

gcoll_status gcoll_runs_create(gcoll_context *context) {
    return gcoll_openings_create(context);
}

void gcoll_runs_stop(gcoll_context *context) {
    gcoll_requests_tell_all(context);
    while (context->runs->first)
        gcoll_run_drop(context->runs->first);
}

void gcoll_runs_orphan(gcoll_context *context) {
    gcoll_operations_orphan(context);
    gcoll_requests_free(context);
}

void gcoll_runs_free(gcoll_context *context) {
    gcoll_openings_free(context);
    gcoll_pairs_free(context);
    gcoll_roll_free(context);
}

/* Drops the device work of all runs: they end as if no device step had begun. */
void gcoll_runs_forget_devices(gcoll_context *context) {
    for (gcoll_run *run = context->runs->first; run; run = run->next)
        gcoll_device_work_forget(run);
}
