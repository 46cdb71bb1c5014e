/*
 * gcoll/call/candidates.c - of all algorithms that can serve a call, those that learning tries.
 *
 * The model's order alone would not do: where the model errs, the best algorithm is often one that sends few
 * bytes or few messages, or takes few steps; and several names of one plan would take the places of others.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/call/call.h"
#include "gcoll/call/ranking.h"
#include "gcoll/tuning/tuning.h"

/* Scratch that any call may take. */
#define FRUGAL_BYTES 65536
/* Candidates that are listed for what they send, for their steps, for the messages of all ranks together, and
 * for a tour that was searched; and how alike the numbers may be. */
#define EXTREMES 4
#define ALIKE    0.01
#define SAME     1e-9 /* what rounding leaves of equal numbers */
/* An algorithm that cost never chooses is tried by so many ranks at most. */
#define TRIAL_RANKS 64
/* Segments that stay in a processor's cache, and how many a plan may have to be listed with them. */
#define SEGMENT_BYTES 262144
#define SEGMENTS_MOST 4096

/* Whether trying the algorithm takes no more memory than a program that makes the call can be expected to
 * have. */
static bool is_frugal(const gcoll_call *call, const gcoll_candidate *candidate) {
    const double vector = (double)call->count * call->element_bytes;
    return candidate->cost.scratch * call->element_bytes <= 2 * vector + FRUGAL_BYTES;
}

/* The candidates that are listed. */
struct list {
    const gcoll_call *call;
    const gcoll_problem *problem;
    bool has_levels; /* hosts and their costs are known */
    char (*texts)[GCOLL_ALGORITHM_TEXT_MAX];
    double *seconds, *sent;
    uint32_t *variants;
    uint32_t room, count;
};

/* Names the choice into GCOLL_ALGORITHM_TEXT_MAX bytes. False: a call cannot name it, as the text is longer.
 */
static bool name(const gcoll_choice *choice, char *text) {
    char whole[2 * GCOLL_ALGORITHM_TEXT_MAX];
    gcoll_choice_format(choice, whole, sizeof whole);
    const size_t length = strlen(whole);
    if (length >= GCOLL_ALGORITHM_TEXT_MAX)
        return false;
    memcpy(text, whole, length + 1);
    return true;
}

/* An algorithm that is for trials only may need a connection to each rank. */
static bool can_be_tried(const struct list *list, const gcoll_candidate *candidate) {
    char text[GCOLL_ALGORITHM_TEXT_MAX];
    return candidate->status == GCOLL_OK && candidate->seconds < HUGE_VAL && name(&candidate->choice, text) &&
           is_frugal(list->call, candidate) &&
           (!candidate->is_for_trials || list->problem->size <= TRIAL_RANKS);
}

static bool are_close(double a, double b) {
    return fabs(a - b) <= SAME * fmax(fabs(a), fabs(b));
}

static bool have_same_cost(const gcoll_candidate *a, const gcoll_candidate *b) {
    return are_close(a->cost.steps, b->cost.steps) && are_close(a->cost.sent, b->cost.sent) &&
           are_close(a->cost.reduced, b->cost.reduced) && are_close(a->cost.scratch, b->cost.scratch);
}

/* Plans that depend on hosts or on a tour may be alike on one rank only. */
static bool is_the_same_everywhere(const gcoll_candidate *candidate) {
    return !candidate->choice.algorithm->uses_node && !candidate->choice.algorithm->uses_tour;
}

/* *plan: what that rank does, or NULL if the algorithm refuses. Errors: NO_MEMORY. */
static gcoll_status plan_of(const struct list *list, const gcoll_candidate *candidate, uint32_t rank,
                            gcoll_plan **plan) {
    gcoll_problem problem = *list->problem;
    problem.rank = rank;
    gcoll_call_set_choice(&problem, &candidate->choice, list->call->element_bytes);
    *plan = NULL;
    return gcoll_plan_create(candidate->choice.algorithm, &problem, plan) == GCOLL_ERR_NO_MEMORY
               ? GCOLL_ERR_NO_MEMORY
               : GCOLL_OK;
}

/* *same: two candidates are one plan by two names, as recursive doubling has several where the number of
 * ranks is a power of two: rank 0 does the same, and the costs are the same. */
static gcoll_status compare_plans(const struct list *list, const gcoll_candidate *a, const gcoll_candidate *b,
                                  bool *same) {
    gcoll_plan *left = NULL, *right = NULL;
    *same = false;
    if (!have_same_cost(a, b) || !is_the_same_everywhere(a) || !is_the_same_everywhere(b))
        return GCOLL_OK;
    gcoll_status status = plan_of(list, a, 0, &left);
    if (status == GCOLL_OK)
        status = plan_of(list, b, 0, &right);
    *same = left && right && gcoll_plan_equals(left, right);
    gcoll_plan_destroy(left);
    gcoll_plan_destroy(right);
    return status;
}

/* Puts the choice of auto first, and the others behind it in their order. A tuning file may name a variant
 * that is none of them. */
static void put_first(gcoll_ranking *ranking, const char *choice) {
    char text[GCOLL_ALGORITHM_TEXT_MAX];
    for (size_t i = 0; i < ranking->count; i++) {
        const gcoll_candidate found = ranking->candidates[i];
        gcoll_choice_format(&found.choice, text, sizeof text);
        if (strcmp(text, choice) != 0)
            continue;
        memmove(&ranking->candidates[1], &ranking->candidates[0], i * sizeof *ranking->candidates);
        ranking->candidates[0] = found;
        return;
    }
}

/* Drops the candidates that cannot be tried, and those whose plan one before them has. */
static gcoll_status drop_others(const struct list *list, gcoll_ranking *ranking) {
    size_t kept = 0;
    for (size_t i = 0; i < ranking->count; i++) {
        bool drops = !can_be_tried(list, &ranking->candidates[i]);
        for (size_t k = 0; k < kept && !drops; k++) {
            const gcoll_status status =
                compare_plans(list, &ranking->candidates[k], &ranking->candidates[i], &drops);
            if (status != GCOLL_OK)
                return status;
        }
        if (!drops)
            ranking->candidates[kept++] = ranking->candidates[i];
    }
    ranking->count = kept;
    return GCOLL_OK;
}

/* Where the text is listed; list->count: nowhere. */
static uint32_t place_of(const struct list *list, const char *text) {
    uint32_t at = 0;
    while (at < list->count && strcmp(list->texts[at], text) != 0)
        at++;
    return at;
}

/* The choice of auto is there already, but its numbers are not known until it is found among the others. */
static void add_to(struct list *list, const gcoll_candidate *candidate) {
    if (list->count == list->room)
        return;
    gcoll_choice_format(&candidate->choice, list->texts[list->count], GCOLL_ALGORITHM_TEXT_MAX);
    const uint32_t at = place_of(list, list->texts[list->count]);
    list->seconds[at] = candidate->seconds;
    list->sent[at] = candidate->cost.sent * list->call->element_bytes;
    list->count += at == list->count;
}

/* Adds the candidates in their order, until `room` are listed. Where no difference between hosts is known,
 * those that make one come only with `all`. */
static void add_until(struct list *list, const gcoll_ranking *ranking, uint32_t room, bool all) {
    for (size_t i = 0; i < ranking->count && list->count < room; i++)
        if (all || list->has_levels || !ranking->candidates[i].choice.algorithm->uses_node)
            add_to(list, &ranking->candidates[i]);
}

/* Adds the candidate of which `number` is least, and of these the fastest. */
static void add_least(struct list *list, const gcoll_ranking *ranking,
                      double (*number)(const gcoll_candidate *)) {
    const gcoll_candidate *found = NULL;
    for (size_t i = 0; i < ranking->count; i++)
        if (!found || number(&ranking->candidates[i]) < number(found) * (1 - ALIKE))
            found = &ranking->candidates[i];
    if (found)
        add_to(list, found);
}

static double sent_by(const gcoll_candidate *candidate) {
    return candidate->cost.sent;
}

static double steps_of(const gcoll_candidate *candidate) {
    return candidate->cost.steps;
}

/* Where ranks share processors, each message takes its time from all of them. */
static double messages_of(const gcoll_candidate *candidate) {
    return candidate->load.messages;
}

/* The ring along the tour of the tuning file: the model, whose links are all alike, knows nothing in its
 * favour. */
static void add_tour(struct list *list, const gcoll_ranking *ranking) {
    for (size_t i = 0; i < ranking->count; i++)
        if (ranking->candidates[i].choice.algorithm->uses_tour)
            add_to(list, &ranking->candidates[i]);
}

/* Whether segments cut a message of the root, or of rank 0, into not too many. *cuts: false if not, or if the
 * algorithm refuses. Errors: NO_MEMORY. */
static gcoll_status find_cuts(const struct list *list, const gcoll_candidate *candidate, bool *cuts) {
    const uint64_t segment = SEGMENT_BYTES / list->call->element_bytes;
    uint64_t segments = 0, longest = 0;
    gcoll_plan *plan;
    const gcoll_collective collective = list->problem->collective;
    const uint32_t rank = gcoll_collective_has_root(collective) ? list->call->root : 0;
    const gcoll_status status = plan_of(list, candidate, rank, &plan);
    for (uint32_t i = 0; plan && segment > 0 && i < plan->step_count; i++) {
        segments += plan->steps[i].count / segment + 1;
        longest = plan->steps[i].count > longest ? plan->steps[i].count : longest;
    }
    *cuts = longest > segment && segments <= SEGMENTS_MOST;
    gcoll_plan_destroy(plan);
    return status;
}

/* Behind the algorithms that are listed, each once more with its messages cut into segments, where that makes
 * a difference. */
static gcoll_status add_variants(struct list *list, const gcoll_ranking *ranking) {
    const uint32_t algorithms = list->count;
    char text[GCOLL_ALGORITHM_TEXT_MAX];
    for (uint32_t i = 0; i < algorithms; i++)
        list->variants[i] = UINT32_MAX;
    const bool is_short = (double)list->call->count * list->call->element_bytes <= SEGMENT_BYTES;
    for (size_t k = 0; k < ranking->count && !is_short; k++) {
        gcoll_candidate cut = ranking->candidates[k];
        bool cuts = false;
        (void)name(&cut.choice, text); /* drop_others has left no other */
        const uint32_t of = place_of(list, text);
        if (of >= algorithms || cut.choice.segment_bytes > 0 || !is_the_same_everywhere(&cut))
            continue;
        const gcoll_status status = find_cuts(list, &cut, &cuts);
        if (status != GCOLL_OK)
            return status;
        cut.choice.segment_bytes = SEGMENT_BYTES;
        if (!cuts || !name(&cut.choice, text) ||
            place_of(list, text) < list->count) /* a tuning file may name it */
            continue;
        memcpy(list->texts[list->count], text, sizeof text);
        list->seconds[list->count] = list->seconds[of];
        list->sent[list->count] = list->sent[of];
        list->variants[list->count++] = of;
    }
    return GCOLL_OK;
}

gcoll_status gcoll_call_candidates(gcoll_context *context, const gcoll_call *call, const gcoll_blocks *blocks,
                                   char (*texts)[GCOLL_ALGORITHM_TEXT_MAX], double *seconds, double *sent,
                                   uint32_t *variants, uint32_t room, uint32_t *count) {
    gcoll_problem problem = gcoll_call_problem(context, call, blocks);
    problem.rank = 0;
    problem.buffers = 1;
    problem.in_memory = problem.out_memory = NULL;
    gcoll_ranking ranking = {0};
    gcoll_choice choice = {0};
    const gcoll_tuning_rule *rule;
    struct list list = {.call = call,
                        .problem = &problem,
                        .has_levels = gcoll_basis_levels(context->basis, gcoll_call_is_fixed(call)) != NULL,
                        .texts = texts,
                        .seconds = seconds,
                        .sent = sent,
                        .variants = variants,
                        .room = room};
    gcoll_status status = gcoll_call_rank(context, call, &problem, &ranking, &choice, &rule);
    if (status == GCOLL_OK) {
        gcoll_choice_format(&choice, texts[0], GCOLL_ALGORITHM_TEXT_MAX);
        list.count = 1;
        put_first(&ranking, texts[0]);
        seconds[0] =
            ranking.candidates[0].seconds; /* stay if a tuning file names a variant that is not listed */
        sent[0] = ranking.candidates[0].cost.sent * call->element_bytes;
        status = drop_others(&list, &ranking);
    }
    if (status == GCOLL_OK) {
        add_until(&list, &ranking, room - EXTREMES, false);
        add_least(&list, &ranking, sent_by);
        add_least(&list, &ranking, steps_of);
        add_least(&list, &ranking, messages_of);
        add_tour(&list, &ranking);
        add_until(&list, &ranking, room, false);
        add_until(&list, &ranking, room, true);
        status = add_variants(&list, &ranking);
    }
    *count = list.count;
    free(ranking.candidates);
    return status;
}
