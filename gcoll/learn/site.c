/*
 * gcoll/learn/site.c - kinds of calls: which lesson holds for a call, and what it took.
 *
 * A site is a kind of call. All ranks make the same collective calls in the same order, so all count the
 * calls of a site alike. Calls that run a plan by arrival do not count; the monitor's announcements tell all
 * ranks which these are. A lesson (judge.h) names calls by these counts. A rank that comes to the first call
 * of a lesson which it does not know waits for it; a started call is held instead, and its start returns.
 * That is rare: the lesson is decided several calls before.
 *
 * A meeting is a call that no rank leaves before all have entered it, as an allreduce. A rank that blocks in
 * meetings is ahead of the others by one at most, so it may wait for a lesson. Other kinds are loose: the
 * root of a broadcast may be many calls ahead of the other ranks, and must not wait for them. So a lesson of
 * a loose kind begins after a meeting of another kind, the fence. A rank that does not know the lesson waits
 * for it at the fence, where it waits for all ranks in any case.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/context/hooks.h"
#include "gcoll/learn/learn_internal.h"
#include "gcoll/run/run.h"
#include "gcoll/tuning/tuning.h"

/* A kind that came less than GCOLL_LEARN_FROM times, and not among so many latest calls, is forgotten first.
 */
#define OLD_CALLS 1000

#define TOKEN_BITS 8 /* of a token: the sample; the site stands above it, counted from 1 */

_Static_assert(GCOLL_LEARN_SAMPLES < GCOLL_TAUGHT_UNTIMED && GCOLL_TAUGHT_UNTIMED < 1 << TOKEN_BITS,
               "a sample fits a token");

/* ---- Sites ---------------------------------------------------------------------------------- */

/* Whether no rank can leave the call before all have entered it. */
static bool is_meeting(const gcoll_call *call) {
    switch ((gcoll_collective)call->collective) {
    case GCOLL_BARRIER:
        return true;
    case GCOLL_ALLREDUCE:
        return call->count > 0;
    case GCOLL_ALLGATHER:
    case GCOLL_ALLTOALL:
    case GCOLL_REDUCE_SCATTER:
        return call->count > 0 && call->blocks_hash == 0; /* else a block may be empty */
    default:
        return false;
    }
}

/* Whether a rank may leave the call before others enter it, though each has a part in it. */
static bool is_loose(const gcoll_call *call) {
    return gcoll_collective_has_root((gcoll_collective)call->collective) && call->count > 0 &&
           call->blocks_hash == 0;
}

/* Whether auto chooses the algorithm by what can be measured, and every rank knows all that decides it. */
static bool is_learned(const gcoll_call *call) {
    return (is_meeting(call) || is_loose(call)) && gcoll_call_is_auto(call) && !gcoll_call_is_fixed(call) &&
           !gcoll_call_counts_buffers(call) && !gcoll_call_has_own_blocks(call) && call->arrival == 0;
}

static gcoll_learn_site *find(gcoll_learn *learn, const gcoll_call *call) {
    uint32_t at = learn->guess; /* usually the latest, or the one after it */
    for (uint32_t i = 0; i < learn->count; i++) {
        if (gcoll_call_is_alike(&learn->sites[at]->call, call)) {
            learn->guess = at;
            return learn->sites[at];
        }
        at = at + 1 < learn->count ? at + 1 : 0;
    }
    return NULL;
}

static gcoll_status no_memory(void) {
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory to learn which algorithm is fastest");
}

/* Makes room for a kind that is not known. The kind counts once its call begins: the call may yet be refused,
 * perhaps on this rank alone. */
static gcoll_status note_newcomer(gcoll_learn *learn, const gcoll_call *call) {
    if (!learn->newcomer)
        learn->newcomer = malloc(sizeof *learn->newcomer);
    if (!learn->newcomer)
        return no_memory();
    *learn->newcomer = (gcoll_learn_site){
        .call = gcoll_call_alike(call), .number = GCOLL_LEARN_SITES, .is_loose = is_loose(call)};
    return GCOLL_OK;
}

static bool is_old(const gcoll_learn *learn, const gcoll_learn_site *site) {
    return learn->calls - site->latest > OLD_CALLS;
}

/* Whether the first of two kinds should rather be forgotten. A kind that has not come for long goes before
 * all others, and the oldest of these first. Then goes the kind that has come the least often, and of these
 * the latest. So if more kinds come in turns than can be known, most of them are kept. */
static bool is_less_worth(const gcoll_learn *learn, const gcoll_learn_site *a, const gcoll_learn_site *b) {
    if (is_old(learn, a) || is_old(learn, b))
        return a->latest < b->latest;
    return a->pace.calls != b->pace.calls ? a->pace.calls < b->pace.calls : a->latest > b->latest;
}

/* The place of a new kind, the same on every rank; GCOLL_LEARN_SITES: there is none. */
static uint32_t place_of_newcomer(const gcoll_learn *learn) {
    uint32_t place = GCOLL_LEARN_SITES;
    if (learn->count < GCOLL_LEARN_SITES)
        return learn->count;
    for (uint32_t i = 0; i < learn->count; i++)
        if (!learn->sites[i]->is_known &&
            (place == GCOLL_LEARN_SITES || is_less_worth(learn, learn->sites[i], learn->sites[place])))
            place = i;
    return place;
}

/* Its first call has begun. */
static void place_newcomer(gcoll_learn *learn) {
    const uint32_t place = place_of_newcomer(learn);
    if (place == GCOLL_LEARN_SITES)
        return; /* it learns nothing */
    if (place < learn->count)
        free(learn->sites[place]);
    else
        learn->count++;
    learn->newcomer->number = place;
    learn->sites[place] = learn->newcomer;
    learn->newcomer = NULL;
}

/* Lists the candidates, and begins the first lesson. If there is one alone, the site has no study, on any
 * rank. */
static gcoll_status make_study(gcoll_learn *learn, gcoll_learn_site *site, const gcoll_blocks *blocks) {
    gcoll_study *study = calloc(1, sizeof *study);
    if (!study)
        return no_memory();
    uint32_t variants[GCOLL_LEARN_CANDIDATES];
    gcoll_status status =
        gcoll_call_candidates(learn->context, &site->call, blocks, study->texts, study->predicted,
                              study->sent, variants, GCOLL_LEARN_ALGORITHMS, &study->count);
    if (status == GCOLL_OK && study->count >= 2)
        status = gcoll_learn_open(learn, site, study);
    if (status != GCOLL_OK || study->count < 2) {
        free(study);
        return status;
    }
    study->lesson = gcoll_lesson_first();
    study->unsampled_from = study->next_sample = study->lesson.begin;
    gcoll_judge_begin(&study->judge, study->predicted, study->sent, variants, study->count);
    site->study = study;
    gcoll_learn_listen(learn, site);
    for (uint64_t call = 1; call < GCOLL_LEARN_FROM; call++)
        study->missing -= gcoll_lesson_sample(&study->lesson, call) != GCOLL_LEARN_NONE;
    return GCOLL_OK;
}

/* ---- Lessons -------------------------------------------------------------------------------- */

static bool has_lesson(const void *site) {
    const gcoll_study *study = ((const gcoll_learn_site *)site)->study;
    return study->has_next || study->is_closed;
}

static bool reach(void *context, uint32_t peer) {
    return gcoll_peer_need(context, peer, false);
}

static gcoll_status await(gcoll_learn *learn, const gcoll_learn_site *site, int64_t timeout_ms) {
    gcoll_context *context = learn->context;
    const gcoll_wait wait = {has_lesson, NULL, site, .timeout_ms = timeout_ms, .is_behind = true};
    learn->waits = site;
    gcoll_learn_each_waited(context, reach, context); /* who has left is told of at once */
    const gcoll_status status =
        context->health.broken ? gcoll_context_settle(context) : gcoll_progress_wait(context, &wait);
    learn->waits = NULL;
    return status;
}

/* Waits until it is known what comes after the lesson. A rank in whose report GCOLL_LEARN_CLOSES is set, or
 * will be, knows what rank 0 decides. */
static gcoll_status know_next(gcoll_learn *learn, gcoll_learn_site *site, int64_t timeout_ms) {
    gcoll_study *study = site->study;
    if (site->is_loose && learn->starts_meetings && !study->has_reported)
        study->flags |= GCOLL_LEARN_CLOSES;
    study->is_closed |= (study->flags & GCOLL_LEARN_CLOSES) != 0;
    return has_lesson(site) ? GCOLL_OK : await(learn, site, timeout_ms);
}

/* Requires that it is known. */
static void begin_next(gcoll_learn *learn, gcoll_learn_site *site) {
    gcoll_study *study = site->study;
    if (study->is_closed)
        return;
    study->lesson = study->next;
    study->has_next = false;
    if (site->is_loose)
        study->lesson.begin = site->pace.calls + 1;
    study->unsampled_from = study->next_sample = study->lesson.begin;
    gcoll_learn_listen(learn, site);
}

/* ---- Loose kinds ---------------------------------------------------------------------------- */

/* A call of a loose kind has begun. */
static void set_fence(gcoll_learn *learn, gcoll_learn_site *site) {
    const gcoll_study *study = site->study;
    if (!study || study->is_closed || site->pace.calls != study->lesson.begin + study->lesson.calls)
        return;
    site->fence = learn->meetings + GCOLL_LEARN_FENCE;
    learn->fenced++;
    for (uint32_t i = 0; i < learn->count; i++)
        learn->sites[i]->pace.until = 0; /* a meeting may be one at which a lesson begins */
}

/* Before a meeting, which may be refused yet: waits for the lessons that begin after it. */
static gcoll_status know_fenced(gcoll_learn *learn, int64_t timeout_ms) {
    gcoll_status status = GCOLL_OK;
    for (uint32_t i = 0; i < learn->count && status == GCOLL_OK; i++)
        if (learn->sites[i]->study && learn->sites[i]->fence == learn->meetings + 1)
            status = know_next(learn, learn->sites[i], timeout_ms);
    return status;
}

/* A meeting has begun. */
static void meet(gcoll_learn *learn) {
    learn->meetings++;
    for (uint32_t i = 0; i < learn->count && learn->fenced > 0; i++) {
        gcoll_learn_site *site = learn->sites[i];
        if (!site->study || site->fence == 0)
            continue;
        if (gcoll_learn_is_over(learn, site) && !site->study->has_reported)
            gcoll_live_due(learn->context, &gcoll_learn_activity);
        if (site->fence > learn->meetings)
            continue;
        site->fence = 0;
        learn->fenced--;
        begin_next(learn, site);
    }
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* The first candidate is auto's own. */
static const char *text_of(const gcoll_study *study, uint32_t candidate) {
    return candidate > 0 ? study->texts[candidate] : NULL;
}

gcoll_learn_site *gcoll_learn_site_of(const gcoll_learn *learn, uint32_t token) {
    const uint32_t number = (token >> TOKEN_BITS) - 1;
    return number < learn->count ? learn->sites[number] : learn->newcomer;
}

/* What a call takes, where its lesson is known. */
static void teach(const gcoll_learn_site *site, uint64_t number, gcoll_taught *taught) {
    gcoll_study *study = site->study;
    uint32_t candidate = study->lesson.usual, sample = GCOLL_LEARN_NONE;
    const bool tries = study->lesson.tried != 0;
    /* So most calls do without divisions. Calls that were held are taught after later ones of their kind. */
    if (!tries && (number < study->unsampled_from || number > study->next_sample)) {
        study->unsampled_from = number;
        study->next_sample = gcoll_lesson_next_sample(&study->lesson, number);
    }
    if (tries || number == study->next_sample) {
        candidate = gcoll_lesson_candidate(&study->lesson, number);
        sample = gcoll_lesson_sample(&study->lesson, number);
    }
    taught->algorithm = text_of(study, candidate);
    taught->is_settled = !tries;
    taught->token =
        (site->number + 1) << TOKEN_BITS | (sample != GCOLL_LEARN_NONE ? sample : GCOLL_TAUGHT_UNTIMED);
}

/* After `teach`: how long calls go on like this one. */
static void set_pace(const gcoll_learn *learn, gcoll_learn_site *site, gcoll_taught *taught) {
    const gcoll_study *study = site->study;
    const uint64_t end = gcoll_lesson_end(&study->lesson);
    if (site->is_loose)
        return;
    taught->pace = &site->pace;
    site->pace.algorithm = taught->algorithm;
    site->pace.until = study->lesson.tried != 0 || learn->fenced > 0 ? 0
                       : study->next_sample < end                    ? study->next_sample
                                                                     : end;
}

/* Whether a call of this number may find its lesson undecided. */
static bool is_beyond(const gcoll_learn_site *site, uint64_t number) {
    return !site->is_loose && !site->study->is_closed && number >= gcoll_lesson_end(&site->study->lesson);
}

/* A call of host memory may be held until its lesson is known (run/held.c). Work of a device takes its place
 * in the caller's stream when the call is started. */
static bool can_be_held(const gcoll_call *call, gcoll_form form) {
    return form == GCOLL_FORM_STARTED && call->places == 0;
}

/* Notes that calls are started. Those with device memory count as such before it happens, as their starts
 * cannot be held. */
static void note_form(gcoll_learn *learn, gcoll_learn_site *site, const gcoll_call *call, gcoll_form form) {
    gcoll_study *study = site->study;
    if (!study || study->has_reported)
        return;
    if (site->is_loose ? learn->starts_meetings : form == GCOLL_FORM_STARTED && call->places != 0)
        study->flags |= GCOLL_LEARN_CLOSES;
    else if (form == GCOLL_FORM_STARTED || call->places != 0)
        study->flags |= GCOLL_LEARN_STARTS;
}

static gcoll_status enter(gcoll_context *context, const gcoll_call *call, const gcoll_blocks *blocks,
                          int64_t timeout_ms, gcoll_form form, gcoll_taught *taught) {
    gcoll_learn *learn = context->learn;
    gcoll_status status = GCOLL_OK;
    *taught = (gcoll_taught){0};
    if (!is_learned(call))
        return GCOLL_OK;
    gcoll_learn_site *site = find(learn, call);
    if (form == GCOLL_FORM_NONE) {
        if (site && site->study)
            taught->algorithm = text_of(site->study, site->study->lesson.usual);
        return GCOLL_OK;
    }
    if (!site) {
        status = note_newcomer(learn, call);
        site = learn->newcomer;
    }
    if (status != GCOLL_OK)
        return status;
    const uint64_t number = site->pace.calls + 1;
    if (number == GCOLL_LEARN_FROM && !site->is_known) {
        status = make_study(learn, site, blocks);
        site->is_known = status == GCOLL_OK;
    }
    gcoll_study *study = site->study;
    if (status == GCOLL_OK && study && is_beyond(site, number)) {
        /* Calls that are held take what the present lesson says, and one behind them is held in any case. */
        const bool is_next = number == gcoll_lesson_end(&study->lesson) && !gcoll_held_first(context);
        if (can_be_held(call, form) && !(is_next && has_lesson(site)))
            taught->undecided_call = number;
        else
            status = know_next(learn, site, timeout_ms);
        if (status == GCOLL_OK && taught->undecided_call == 0)
            begin_next(learn, site);
    }
    learn->starts_meetings |= form == GCOLL_FORM_STARTED && !site->is_loose;
    if (status == GCOLL_OK && !site->is_loose && learn->fenced > 0)
        status = know_fenced(learn, timeout_ms);
    if (status != GCOLL_OK)
        return status;
    note_form(learn, site, call, form);
    taught->token = (site->number + 1) << TOKEN_BITS | GCOLL_TAUGHT_UNTIMED;
    if (study && taught->undecided_call == 0) {
        teach(site, number, taught);
        set_pace(learn, site, taught);
    }
    return GCOLL_OK;
}

static bool decided(gcoll_context *context, uint32_t token, uint64_t undecided_call, gcoll_taught *taught) {
    gcoll_learn *learn = context->learn;
    gcoll_learn_site *site = gcoll_learn_site_of(learn, token);
    if (is_beyond(site, undecided_call)) {
        if (!has_lesson(site))
            return false;
        begin_next(learn, site);
    }
    *taught = (gcoll_taught){0};
    teach(site, undecided_call, taught);
    return true;
}

static void begins(gcoll_context *context, uint32_t token) {
    gcoll_learn *learn = context->learn;
    gcoll_learn_site *site = gcoll_learn_site_of(learn, token);
    const gcoll_study *study = site->study;
    site->pace.calls++;
    site->latest = ++learn->calls;
    if (site == learn->newcomer)
        place_newcomer(learn);
    if (site->is_loose)
        set_fence(learn, site);
    else
        meet(learn);
    if (study && !study->has_reported && study->missing == 0)
        gcoll_live_due(context, &gcoll_learn_activity);
    if (study && is_beyond(site, site->pace.calls) && !has_lesson(site))
        gcoll_learn_each_waited(context, reach, context); /* who has left is told of at once */
}

static void took(gcoll_context *context, uint32_t token, int64_t ns) {
    gcoll_study *study = gcoll_learn_site_of(context->learn, token)->study;
    study->sums[token & GCOLL_TAUGHT_UNTIMED] += (double)ns;
    if (--study->missing == 0)
        gcoll_live_due(context, &gcoll_learn_activity);
}

/* Rank 0 has the times. If trials have just begun anew, they are those of the trials before. */
static void explain_times(const gcoll_study *study, gcoll_text *said) {
    for (uint32_t i = 0; i < study->count; i++)
        if (study->judge.candidates[i].last_ns > 0)
            gcoll_text_add(said, "%s%s %.1f us", i > 0 ? ", " : "; measured: ", study->texts[i],
                           study->judge.candidates[i].last_ns * 1e-3);
}

static void explain(const gcoll_context *context, const gcoll_call *call, gcoll_text *said) {
    const gcoll_learn_site *site = is_learned(call) ? find(context->learn, call) : NULL;
    if (!site || !site->study)
        return;
    const gcoll_study *study = site->study;
    gcoll_text_add(said, "learned from %llu calls: %s is %s", (unsigned long long)site->pace.calls,
                   study->texts[study->lesson.usual],
                   study->lesson.tried != 0 && !study->is_closed ? "usual, others are tried" : "kept");
    if (context->rank == 0)
        explain_times(study, said);
    gcoll_text_add(said, "\n");
}

static const gcoll_learner learner = {
    .teaches = is_learned,
    .enter = enter,
    .begins = begins,
    .decided = decided,
    .each_waited = gcoll_learn_each_waited,
    .took = took,
    .explain = explain,
};

/* ---- The activity's table -------------------------------------------------------------------- */

static bool has_work(const gcoll_context *context) {
    const gcoll_learn *learn = context->learn;
    for (uint32_t i = 0; learn && i < learn->count; i++) {
        const gcoll_study *study = learn->sites[i]->study;
        if (study && !study->is_told && study->missing == 0 &&
            (!learn->sites[i]->is_loose || study->has_reported ||
             gcoll_learn_is_over(learn, learn->sites[i])))
            return true; /* times or a lesson are on their way */
    }
    return false;
}

static bool is_waited(void *arg, uint32_t peer) {
    uint32_t *wanted = arg;
    if (*wanted != peer)
        return true;
    *wanted = GCOLL_NO_RANK;
    return false;
}

static bool needs(const gcoll_context *context, uint32_t peer) {
    uint32_t wanted = peer;
    gcoll_learn_each_waited((gcoll_context *)(uintptr_t)context, is_waited, &wanted);
    return wanted == GCOLL_NO_RANK;
}

static void say_name(const gcoll_context *context, uint32_t peer, char *text, size_t bytes) {
    const gcoll_learn *learn = context->learn;
    (void)peer;
    const gcoll_learn_site *site = learn ? gcoll_learn_awaited(learn) : NULL;
    if (site)
        snprintf(text, bytes, "before the next %s, learning which algorithm is fastest",
                 gcoll_collective_name((gcoll_collective)site->call.collective));
}

const gcoll_activity gcoll_learn_activity = {
    .order = 1,
    .advance = gcoll_learn_tend,
    .has_work = has_work,
    .each_waited = gcoll_learn_each_waited,
    .needs = needs,
    .name = say_name,
};

/* ---- Life ------------------------------------------------------------------------------------ */

gcoll_status gcoll_learn_create(gcoll_context *context) {
    if (context->size == 1 || !gcoll_basis_learns(context->basis))
        return GCOLL_OK;
    gcoll_learn *learn = calloc(1, sizeof *learn);
    if (!learn)
        return no_memory();
    learn->context = context;
    context->learn = learn;
    context->learner = &learner;
    gcoll_learn_place(learn);
    return GCOLL_OK;
}

void gcoll_learn_destroy(gcoll_context *context) {
    gcoll_learn *learn = context->learn;
    if (!learn)
        return;
    for (uint32_t i = 0; i < learn->count; i++) {
        if (learn->sites[i]->study)
            free(learn->sites[i]->study->memory);
        free(learn->sites[i]->study);
        free(learn->sites[i]);
    }
    free(learn->newcomer);
    free(learn);
    context->learn = NULL;
    context->learner = NULL;
}
