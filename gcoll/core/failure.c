/*
 * gcoll/core/failure.c - waiting, and what ends it.
 *
 * A context breaks once, for one cause. The cause is recorded where it is noticed (often inside an event of
 * the transport), and the peers are told when the transport can be called again. They pass it on, so that it
 * reaches ranks that have no connection to the one at fault.
 *
 * A rank that waits long asks those whom it waits for whether they are alive. Who does not answer is stuck,
 * and is named to whoever asks: so the name of a stopped rank runs down the chain of ranks that wait for one
 * another, and when time is out the right one is blamed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gcoll/core/core_internal.h"
#include "gcoll/core/rendezvous.h"

#define PROBES_PER_TIMEOUT 8      /* so that a suspect's name travels several hops before the deadline */
#define SLICE_US           100000 /* the longest sleep: bounds how late a deadline is noticed */
#define LONGEST_RUMOUR     6 /* hops that a suspect's name travels; more would let it go round in a circle */
#define TELL_LIMIT_MS      300 /* for telling peers of a failure; they normally read at once */

/* ---- Breaking ----------------------------------------------------------------------------- */

static void record(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *text) {
    context->broken = true;
    context->cause.status = (int32_t)status;
    context->cause.culprit = culprit;
    snprintf(context->cause.text, sizeof context->cause.text, "%.*s", (int)sizeof context->cause.text - 1,
             text);
    gcoll_log(context, GCOLL_LOG_ERROR, "%s", context->cause.text);
}

void gcoll_break(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *format, ...) {
    if (context->broken)
        return;
    char text[GCOLL_NOTE_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    record(context, status, culprit, text);
}

/* The oldest run that waits for peer, else the oldest unfinished one. */
static const gcoll_run *run_waiting_for(const gcoll_context *context, uint32_t peer) {
    const gcoll_run *oldest = NULL;
    for (const gcoll_run *run = context->runs; run; run = gcoll_run_next(run)) {
        if (gcoll_run_waits_for(run, peer))
            return run;
        if (!oldest && !gcoll_run_finished(run))
            oldest = run;
    }
    return oldest;
}

/* "allreduce #3, ring, step 2 of 8" */
static void name_operation(const gcoll_run *run, uint32_t peer, char *text, size_t size) {
    const gcoll_cache_entry *entry = gcoll_run_entry(run);
    uint32_t step;
    int used =
        snprintf(text, size, "%s #%llu, %s", gcoll_collective_name((gcoll_collective)entry->call.collective),
                 (unsigned long long)gcoll_run_sequence(run), entry->algorithm);
    if (used > 0 && (size_t)used < size && gcoll_run_blocked_step(run, peer, &step))
        snprintf(text + used, size - (size_t)used, ", step %u of %u", entry->plan->steps[step].round + 1,
                 entry->plan->rounds);
}

void gcoll_break_operation(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *format,
                           ...) {
    if (context->broken)
        return;
    char what[GCOLL_NOTE_TEXT_MAX], text[2 * GCOLL_NOTE_TEXT_MAX + 40]; /* both, and words between */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const gcoll_run *run = run_waiting_for(context, culprit);
    if (run) {
        char where[GCOLL_NOTE_TEXT_MAX];
        name_operation(run, culprit, where, sizeof where);
        snprintf(text, sizeof text, "%s: %s", where, what);
    } else if (context->sequence > 0) {
        snprintf(text, sizeof text, "after operation #%llu: %s", (unsigned long long)context->sequence, what);
    } else {
        snprintf(text, sizeof text, "before the first operation: %s", what);
    }
    record(context, status, culprit, text);
}

static void heed_abort(gcoll_context *context) {
    if (atomic_load_explicit(&context->abort_state, memory_order_acquire) == 2 && !context->broken)
        gcoll_break(context, GCOLL_ERR_ABORTED, context->rank, "rank %u aborted: %s", context->rank,
                    context->abort_reason);
}

gcoll_status gcoll_context_settle(gcoll_context *context) {
    heed_abort(context);
    if (!context->broken)
        return GCOLL_OK;
    if (!context->told) {
        context->told = true;
        if (context->endpoint)
            context->transport->abort(context->endpoint, &context->cause, TELL_LIMIT_MS);
        /* Who is not connected yet finds the cause where it looks for the address. Other causes are left
         * there on leaving, which is soon; a rank that was aborted may live on. */
        if (context->cause.status == GCOLL_ERR_ABORTED)
            gcoll_rendezvous_leave_cause(context);
    }
    return gcoll_error((gcoll_status)context->cause.status, "%s", context->cause.text);
}

void gcoll_context_abort(gcoll_context *context, const char *reason) {
    int free_state = 0;
    if (!context || !atomic_compare_exchange_strong(&context->abort_state, &free_state, 1))
        return;
    snprintf(context->abort_reason, sizeof context->abort_reason, "%.200s",
             reason ? reason : "no reason given");
    atomic_store_explicit(&context->abort_state, 2, memory_order_release);
    if (context->endpoint)
        context->transport->wake(context->endpoint);
}

static gcoll_status health(const gcoll_context *context) {
    if (!context->broken && atomic_load_explicit(&context->abort_state, memory_order_acquire) == 2)
        return gcoll_error(GCOLL_ERR_ABORTED, "rank %u aborted: %s", context->rank, context->abort_reason);
    if (!context->broken)
        return GCOLL_OK;
    return gcoll_error((gcoll_status)context->cause.status, "%s", context->cause.text);
}

gcoll_status gcoll_context_health(const gcoll_context *context) {
    gcoll_enter(context);
    gcoll_status status = health(context);
    gcoll_leave(context);
    return status;
}

int64_t gcoll_context_culprit(const gcoll_context *context) {
    gcoll_enter(context);
    bool known = context->broken && context->cause.culprit != GCOLL_NO_RANK;
    int64_t culprit = known ? (int64_t)context->cause.culprit : -1;
    gcoll_leave(context);
    return culprit;
}

/* ---- Watching over a long wait ------------------------------------------------------------ */

static bool ask(void *arg, uint32_t peer) {
    gcoll_context *context = arg;
    gcoll_peer *state = &context->peers[peer];
    if (state->asked != context->probe_round) {
        state->asked = context->probe_round;
        state->answered = false;
        context->transport->probe(context->endpoint, peer);
    }
    return true;
}

/* Answers carry three numbers: operations begun, hops of the rumour, and the rank believed stuck. */
#define SUSPECT_BITS 21 /* holds GCOLL_MAX_RANKS + 1 values */
#define HOP_BITS     3  /* holds LONGEST_RUMOUR */

void gcoll_publish_position(gcoll_context *context) {
    uint64_t suspect = context->suspect == GCOLL_NO_RANK ? 0 : (uint64_t)context->suspect + 1;
    uint64_t rumour = (uint64_t)context->suspect_hops << SUSPECT_BITS | suspect;
    context->transport->set_position(context->endpoint,
                                     context->sequence << (SUSPECT_BITS + HOP_BITS) | rumour);
}

/* Probes say in which operation this rank waits: who waits in a different one may never send anything that
 * would show it. */
static void publish_concern(gcoll_context *context) {
    const gcoll_run *run = context->runs;
    while (run && gcoll_run_finished(run))
        run = gcoll_run_next(run);
    context->transport->set_concern(context->endpoint, run ? gcoll_run_sequence(run) : 0,
                                    run ? gcoll_run_entry(run)->fingerprint.bytes : NULL);
}

void gcoll_peer_answered(void *arg, uint32_t peer, uint64_t position) {
    gcoll_context *context = arg;
    uint64_t suspect = position & ((UINT64_C(1) << SUSPECT_BITS) - 1);
    gcoll_peer *state = &context->peers[peer];
    state->answered = true;
    state->position = position >> (SUSPECT_BITS + HOP_BITS);
    state->suspect_hops = (uint32_t)(position >> SUSPECT_BITS) & ((1U << HOP_BITS) - 1);
    state->suspect = suspect == 0 || suspect > context->size ? GCOLL_NO_RANK : (uint32_t)suspect - 1;
    if (state->suspect != GCOLL_NO_RANK && state->suspect != context->rank)
        ask(context, state->suspect); /* it may have recovered, or be stuck only for the other */
}

struct suspicion {
    const gcoll_context *context;
    uint32_t waited;  /* a peer that is waited for */
    uint32_t silent;  /* one that does not answer */
    uint32_t hearsay; /* one that an answering peer says is stuck */
    uint32_t teller;  /* that peer */
};

/* Whether the one that `state` says is stuck can be taken for so: not this rank, nor one that answers it. */
static bool is_credible(const gcoll_context *context, const gcoll_peer *state) {
    if (state->suspect == GCOLL_NO_RANK || state->suspect == context->rank ||
        state->suspect_hops >= LONGEST_RUMOUR)
        return false;
    const gcoll_peer *named = &context->peers[state->suspect];
    return named->asked == context->probe_round && !named->answered;
}

static bool suspect_peer(void *arg, uint32_t peer) {
    struct suspicion *suspicion = arg;
    const gcoll_peer *state = &suspicion->context->peers[peer];
    suspicion->waited = peer;
    bool asked = state->asked == suspicion->context->probe_round;
    if (asked && !state->answered && suspicion->silent == GCOLL_NO_RANK)
        suspicion->silent = peer;
    if (asked && state->answered && suspicion->hearsay == GCOLL_NO_RANK &&
        is_credible(suspicion->context, state)) {
        suspicion->hearsay = state->suspect;
        suspicion->teller = peer;
    }
    return true;
}

static void each_waited(gcoll_context *context, bool (*fn)(void *, uint32_t), void *arg) {
    for (const gcoll_run *run = context->runs; run; run = gcoll_run_next(run))
        gcoll_run_each_waited(run, fn, arg);
    gcoll_requests_each_waited(context, fn, arg);
}

static struct suspicion find_suspects(gcoll_context *context) {
    struct suspicion suspicion = {context, GCOLL_NO_RANK, GCOLL_NO_RANK, GCOLL_NO_RANK, GCOLL_NO_RANK};
    each_waited(context, suspect_peer, &suspicion);
    return suspicion;
}

/* Who did not answer the last round of probes is suspected; then the next round is sent. */
static void probe_round(gcoll_context *context, bool first) {
    if (!first) {
        struct suspicion suspicion = find_suspects(context);
        bool by_hearsay = suspicion.silent == GCOLL_NO_RANK && suspicion.hearsay != GCOLL_NO_RANK;
        context->suspect = by_hearsay ? suspicion.hearsay : suspicion.silent;
        context->suspect_hops = by_hearsay ? context->peers[suspicion.teller].suspect_hops + 1 : 0;
    }
    gcoll_publish_position(context);
    publish_concern(context);
    context->probe_round++;
    each_waited(context, ask, context);
}

/* Rank 0 announces what a call does before it begins it. So if it had begun more than this rank when it last
 * answered, an interval ago, there is no announcement on its way: it did not make the call that this rank
 * waits in, or not in this form. */
static bool announces_nothing(const gcoll_context *context) {
    const gcoll_peer *first = &context->peers[0];
    return gcoll_arrival_waits(context) && first->asked == context->probe_round && first->answered &&
           first->position > context->sequence;
}

static void give_up(gcoll_context *context, int64_t waited_ms) {
    struct suspicion suspicion = find_suspects(context);
    if (suspicion.silent != GCOLL_NO_RANK)
        gcoll_break_operation(
            context, GCOLL_ERR_TIMEOUT, suspicion.silent,
            "timed out after %lld ms: rank %u does not answer (stopped, or not in a gcoll call)",
            (long long)waited_ms, suspicion.silent);
    else if (suspicion.hearsay != GCOLL_NO_RANK)
        gcoll_break_operation(context, GCOLL_ERR_TIMEOUT, suspicion.hearsay,
                              "timed out after %lld ms: rank %u waits for rank %u, which does not answer",
                              (long long)waited_ms, suspicion.teller, suspicion.hearsay);
}

static bool has_not_departed(void *arg, uint32_t peer) {
    struct suspicion *suspicion = arg;
    if (!suspicion->context->peers[peer].departed)
        return true;
    suspicion->waited = peer;
    return false;
}

/* What a rank that left had sent before is here by now, or was never sent. */
static void settle_doubt(gcoll_context *context) {
    struct suspicion suspicion = {.context = context, .waited = GCOLL_NO_RANK};
    context->doubt_ms = 0;
    each_waited(context, has_not_departed, &suspicion);
    if (suspicion.waited != GCOLL_NO_RANK)
        gcoll_break_operation(context, GCOLL_ERR_PEER, suspicion.waited, "rank %u left the job",
                              suspicion.waited);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

static void advance_all(gcoll_context *context) {
    if (context->arrival_calls)
        gcoll_arrival_tend(context);
    if (context->arrived)
        gcoll_accesses_serve(context);
    gcoll_run *run = context->runs;
    while (run && !context->broken) {
        gcoll_run *next = gcoll_run_next(run);
        gcoll_run_advance(run);
        if (gcoll_run_finished(run))
            gcoll_run_drop(run);
        run = next;
    }
    if (context->endpoint && !context->broken)
        context->transport->flush(context->endpoint);
}

/* Devices wake nobody, so while one of them is at work nobody sleeps for long. A rank by itself waits for
 * devices only. */
static void progress(gcoll_context *context, int64_t wait_us) {
    const bool busy = gcoll_memory_is_busy(context->acceleration);
    bool moved = false;
    gcoll_status status = GCOLL_OK;
    if (context->endpoint)
        status = context->transport->progress(context->endpoint, busy ? 0 : wait_us, &moved);
    if (status != GCOLL_OK)
        gcoll_break_operation(context, status, GCOLL_NO_RANK, "%s", gcoll_last_error());
    else if (busy && !moved && wait_us > 0)
        gcoll_memory_rest(context->acceleration);
}

gcoll_status gcoll_context_drive(gcoll_context *context, int64_t wait_us) {
    heed_abort(context);
    if (!context->broken)
        advance_all(context);
    if (!context->broken)
        progress(context, wait_us);
    if (!context->broken)
        advance_all(context);
    if (!context->broken && context->doubt_ms != 0 && gcoll_now_ms() >= context->doubt_ms)
        settle_doubt(context);
    return gcoll_context_settle(context);
}

gcoll_status gcoll_context_poll(gcoll_context *context) {
    return gcoll_context_drive(context, 0);
}

static int64_t probe_interval_ms(const gcoll_context *context) {
    return context->timeout_ms / PROBES_PER_TIMEOUT + 1;
}

struct watch {
    int64_t started_ms, next_probe_ms, probed_ms;
    bool probed;
};

/* A peer that does not answer is: a device may be at work all the time, for other operations. */
static bool device_is_to_blame(gcoll_context *context) {
    return gcoll_memory_is_busy(context->acceleration) &&
           (!context->endpoint || find_suspects(context).silent == GCOLL_NO_RANK);
}

static void watch_over(gcoll_context *context, struct watch *watch, int64_t now) {
    int64_t interval = probe_interval_ms(context);
    int64_t waited = now - watch->started_ms;
    if (waited >= context->timeout_ms && device_is_to_blame(context)) {
        gcoll_break_operation(context, GCOLL_ERR_TIMEOUT, context->rank,
                              "timed out after %lld ms: a device of rank %u has not done what it was given",
                              (long long)waited, context->rank);
        return;
    }
    if (!context->endpoint)
        return;
    if (context->doubt_ms != 0 && now >= context->doubt_ms)
        settle_doubt(context);
    /* Who was asked only just now, or not at all because this thread was held up, may still answer. */
    bool heard = watch->probed && now - watch->probed_ms >= interval / 2;
    if (!context->broken && waited >= context->timeout_ms && heard)
        give_up(context, waited);
    /* All answer, so somebody else knows better who is at fault: allow for its word to arrive. */
    if (!context->broken && waited >= context->timeout_ms + 2 * interval && heard) {
        struct suspicion suspicion = find_suspects(context);
        gcoll_break_operation(
            context, GCOLL_ERR_TIMEOUT, suspicion.waited,
            "timed out after %lld ms waiting for rank %u, which answers and has begun %llu operations",
            (long long)waited, suspicion.waited,
            suspicion.waited == GCOLL_NO_RANK
                ? 0ULL
                : (unsigned long long)context->peers[suspicion.waited].position);
    }
    if (!context->broken && watch->probed && now >= watch->next_probe_ms && announces_nothing(context))
        gcoll_break_operation(
            context, GCOLL_ERR_MISMATCH, 0,
            "the monitor: rank 0 has begun %llu operations, rank %u waits to begin #%llu; rank "
            "0 does not block in it, or names an algorithm, or calls something else",
            (unsigned long long)context->peers[0].position, context->rank,
            (unsigned long long)context->sequence + 1);
    if (!context->broken && now >= watch->next_probe_ms) {
        probe_round(context, !watch->probed);
        watch->probed = true;
        watch->next_probe_ms = now + interval;
        watch->probed_ms = now;
    }
}

static int64_t sleep_us(const gcoll_context *context, const struct watch *watch, int64_t now_ms) {
    int64_t next_ms = watch->next_probe_ms;
    if (context->doubt_ms != 0 && context->doubt_ms < next_ms)
        next_ms = context->doubt_ms;
    int64_t until = (next_ms - now_ms) * 1000 + 500;
    return until < 500 ? 500 : until < SLICE_US ? until : SLICE_US;
}

gcoll_status gcoll_context_wait(gcoll_context *context, bool (*done)(const void *arg), const void *arg) {
    int64_t now = gcoll_now_ms();
    struct watch watch = {now, now + probe_interval_ms(context), now, false};
    for (bool first = true;; first = false) {
        heed_abort(context);
        if (!context->broken)
            advance_all(context);
        if (context->broken || done(arg))
            break;
        if (!first) { /* most waits are over by now, without another look at the clock */
            now = gcoll_now_ms();
            watch_over(context, &watch, now);
        }
        if (!context->broken)
            progress(context, sleep_us(context, &watch, now));
    }
    if (context->suspect != GCOLL_NO_RANK) { /* what was true of this wait is not of the next */
        context->suspect = GCOLL_NO_RANK;
        gcoll_publish_position(context);
    }
    return gcoll_context_settle(context);
}

static bool run_finished(const void *arg) {
    return gcoll_run_finished(arg);
}

gcoll_status gcoll_context_wait_run(gcoll_context *context, const gcoll_run *run) {
    return gcoll_context_wait(context, run_finished, run);
}

gcoll_status gcoll_run_result(gcoll_context *context, gcoll_run *run, gcoll_status status) {
    bool is_valid =
        gcoll_run_finished(run) && !gcoll_fingerprint_mismatched(context, gcoll_run_sequence(run));
    gcoll_run_drop(run);
    if (is_valid) /* also if the context broke afterwards */
        return GCOLL_OK;
    return status != GCOLL_OK ? status : gcoll_context_settle(context);
}
