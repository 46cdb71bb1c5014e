/*
 * gcoll/call/choose.c - selects the algorithm of a call, and lists all candidates for gcoll_context_explain.
 *
 * Each rank selects by itself, and all must select the same. So the choice must not use the rank, whether
 * the call is in place, how many buffers there are, where they lie, or block sizes
 * that each rank has for itself (gcoll_call_has_own_blocks).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/call/call.h"
#include "gcoll/context/hooks.h"
#include "gcoll/live/live.h"
#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/tuning/tuning.h"

/* Room for the names of all algorithms that build a tree. */
#define TREES_BYTES 512

/* The block size assumed for calls whose ranks know different block sizes. */
#define GUESSED_BLOCK_BYTES UINT64_C(65536)

void gcoll_call_name(gcoll_call *call, const char *algorithm) {
    memset(call->algorithm, 0, sizeof call->algorithm);
    snprintf(call->algorithm, sizeof call->algorithm, "%s", algorithm);
}

gcoll_call gcoll_call_alike(const gcoll_call *call) {
    gcoll_call alike = {0};
    alike.collective = call->collective;
    alike.type = call->type;
    alike.element_bytes = call->element_bytes;
    alike.op = call->op;
    alike.root = call->root;
    alike.needs = call->needs;
    alike.commutative = call->commutative;
    alike.count = call->count;
    alike.memory_limit = call->memory_limit;
    alike.blocks_hash = call->blocks_hash;
    alike.codec = call->codec;
    alike.codec.seed = 0; /* decides nothing */
    return alike;
}

gcoll_problem gcoll_call_problem(const gcoll_context *context, const gcoll_call *call,
                                 const gcoll_blocks *blocks) {
    const gcoll_collective collective = (gcoll_collective)call->collective;
    return (gcoll_problem){.collective = collective,
                           .rank = context->rank,
                           .size = context->size,
                           .root = call->root,
                           .exchanges = call->exchanges,
                           .buffers = call->buffers,
                           .in_place = call->in_place != 0,
                           .average = (call->op == GCOLL_AVG || call->postscale != 0) &&
                                      gcoll_collective_reduces(collective),
                           .count = call->count,
                           .offsets = blocks->offsets,
                           .recv_offsets = blocks->recv_offsets,
                           .in_memory = blocks->in_memory,
                           .out_memory = blocks->out_memory,
                           .order = gcoll_call_order(call),
                           .tour = gcoll_basis_tour(context->basis),
                           .codec = call->codec,
                           .staging = {.local = (gcoll_local)call->local, .direct = call->direct != 0}};
}

/* ---- The problem as all ranks see it ------------------------------------------------------ */

/* Copies the problem without what differs between ranks. *guessed holds the assumed offsets of a call whose
 * ranks know different blocks, or is NULL; the caller frees it. */
static gcoll_status make_common(const gcoll_call *call, const gcoll_problem *problem, gcoll_problem *common,
                                uint64_t **guessed) {
    *common = *problem;
    *guessed = NULL;
    common->rank = 0;
    common->in_place = false;
    common->buffers = gcoll_call_counts_buffers(call) ? call->buffers : 1;
    common->in_memory = common->out_memory = NULL;
    if (!gcoll_call_has_own_blocks(call))
        return GCOLL_OK;
    uint64_t *offsets = malloc((problem->size + (size_t)1) * sizeof *offsets);
    if (!offsets)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "counts: no memory for the blocks of %u ranks",
                           problem->size);
    for (uint32_t rank = 0; rank <= problem->size; rank++)
        offsets[rank] = rank * (GUESSED_BLOCK_BYTES / call->element_bytes);
    common->offsets = *guessed = offsets;
    common->recv_offsets = problem->recv_offsets ? offsets : NULL;
    common->count = offsets[problem->size];
    return GCOLL_OK;
}

/* What the selection uses besides the problem. */
struct rates {
    gcoll_needs needs;
    gcoll_cost_parameters cost;
    gcoll_sharing sharing; /* `needs` points to it */
};

static void set_rates(const gcoll_context *context, const gcoll_call *call, size_t type_bytes,
                      struct rates *rates) {
    uint64_t limit = call->memory_limit / type_bytes;
    if (call->memory_limit > 0 && limit == 0)
        limit = 1; /* 0 would mean no limit; a need for one element is refused once the plan is known */
    gcoll_basis_numbers(context->basis, gcoll_call_is_fixed(call), &rates->cost, &rates->sharing);
    rates->needs = (gcoll_needs){.claims = call->needs,
                                 .scratch_limit = limit,
                                 .sharing = &rates->sharing,
                                 .levels = gcoll_basis_levels(context->basis, gcoll_call_is_fixed(call))};
}

/* ---- Choosing ----------------------------------------------------------------------------- */

/* Names the algorithms that build the wanted tree, with their options as they are when not given. */
static gcoll_status refuse_tree(const gcoll_context *context, const gcoll_call *call,
                                const gcoll_choice *choice, const gcoll_problem *common) {
    const gcoll_algorithm *a;
    char names[TREES_BYTES];
    gcoll_text said = {names, sizeof names, 0};
    names[0] = '\0';
    for (uint32_t k = 0; (a = gcoll_registry_at(&context->calls->registry, common->collective, k)); k++) {
        gcoll_problem problem = *common;
        for (uint32_t i = 0; a->options && a->options[i].name; i++)
            problem.option[i] = a->options[i].fallback;
        if ((!a->applies || a->applies(&problem) == GCOLL_OK) &&
            (call->needs & ~gcoll_algorithm_claims(a, &problem)) == 0)
            gcoll_text_add(&said, ", %s", a->name);
    }
    return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                       "algorithm: %s does not build the tree of options.order, %s, for %u ranks%s; allowed "
                       "are auto%s",
                       choice->algorithm->name, gcoll_order_name(gcoll_call_order(call)), common->size,
                       common->buffers > 1 ? " of several buffers" : "", names);
}

static gcoll_status check_claims(const gcoll_context *context, const gcoll_call *call,
                                 const gcoll_choice *choice, const gcoll_problem *common) {
    const uint32_t claims = gcoll_algorithm_claims(choice->algorithm, common);
    const uint32_t lacking = call->needs & ~claims;
    if (claims & GCOLL_CLAIM_UNKNOWN)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "algorithm: no memory to judge %s", choice->algorithm->name);
    if (lacking & (GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT))
        return refuse_tree(context, call, choice, common);
    if (lacking & GCOLL_CLAIM_ORDERED)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "algorithm: %s does not keep rank order, which an operation that does not commute needs; "
            "take auto",
            choice->algorithm->name);
    if (lacking & GCOLL_CLAIM_RANK_IDENTICAL)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "algorithm: results of %s with these options may differ between ranks in the last bits; take "
            "auto or another one, or give up that they are the same by options.same = GCOLL_SAME_NOWHERE",
            choice->algorithm->name);
    if (lacking & GCOLL_CLAIM_RUN_IDENTICAL)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "algorithm: results of %s may differ from run to run in the last bits; take auto or another one, "
            "or give up that they are the same by options.same = GCOLL_SAME_ON_RANKS or _NOWHERE",
            choice->algorithm->name);
    return GCOLL_OK;
}

static gcoll_status check_scratch(const gcoll_call *call, const gcoll_choice *choice, size_t type_bytes,
                                  const gcoll_problem *common) {
    gcoll_cost cost = {0};
    if (call->memory_limit == 0)
        return GCOLL_OK;
    choice->algorithm->cost(common, &cost);
    if (gcoll_cost_is_unknown(&cost))
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "algorithm: no memory to judge %s", choice->algorithm->name);
    if (cost.scratch * (double)type_bytes <= (double)call->memory_limit)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                       "algorithm: %s needs %.0f bytes of scratch, but options.memory_limit_bytes is %llu",
                       choice->algorithm->name, cost.scratch * (double)type_bytes,
                       (unsigned long long)call->memory_limit);
}

/* Looks for a rule of the tuning file that fits the shape and whose algorithm can be used. If there is
 * none, *rule is NULL and *choice is not set. */
static gcoll_status look_up(const gcoll_context *context, const gcoll_problem *common, size_t type_bytes,
                            const struct rates *rates, gcoll_choice *choice, const gcoll_tuning_rule **rule) {
    const gcoll_tuning_rule *found =
        gcoll_basis_rule_for(context->basis, common->collective, common->count * type_bytes);
    *rule = NULL;
    if (!found || gcoll_codec_is_set(&common->codec)) /* rules were measured without one */
        return GCOLL_OK;
    gcoll_status status = gcoll_tuning_take(found, &context->calls->registry, common, type_bytes,
                                            &rates->needs, &rates->cost, choice);
    *rule = status == GCOLL_OK ? found : NULL;
    return status == GCOLL_ERR_NOT_FOUND ? GCOLL_OK : status;
}

/* Finds which ranks share a host, if the algorithm uses that. It costs one store look-up for each rank,
 * so it is done only when needed. A call without elements is left out: no rank waits in it, so a peer may
 * have finished it, left, and removed its record from the store. */
static gcoll_status find_hosts(gcoll_context *context, const gcoll_algorithm *algorithm,
                               gcoll_problem *problem, gcoll_problem *common) {
    gcoll_note cause;
    uint32_t missing;
    const uint32_t *node;
    if (!algorithm->uses_node || common->count == 0)
        return GCOLL_OK;
    gcoll_status status = gcoll_rendezvous_hosts(context, &node, &missing, &cause);
    problem->node = common->node = node;
    return missing == GCOLL_NO_RANK ? status : gcoll_peer_is_missing(context, missing, status, &cause);
}

/* Applies the tuning rule for the problem. If there is none, *rule is NULL and *choice is unchanged. If
 * the rule's algorithm uses hosts, look it up again with the hosts known: that is how it was measured. */
static gcoll_status apply_rule(gcoll_context *context, const struct rates *rates, size_t type_bytes,
                               gcoll_problem *problem, gcoll_problem *common, gcoll_choice *choice,
                               const gcoll_tuning_rule **rule) {
    gcoll_choice found = {0};
    gcoll_status status = look_up(context, common, type_bytes, rates, &found, rule);
    if (*rule && found.algorithm->uses_node) {
        status = find_hosts(context, found.algorithm, problem, common);
        if (status == GCOLL_OK)
            status = look_up(context, common, type_bytes, rates, &found, rule);
    }
    if (status == GCOLL_OK && *rule)
        *choice = found;
    return status;
}

/* Selects by cost. With two levels of cost the hosts are known, and costs depend on them. Only an algorithm
 * that uses them plans with them, so that the plans of all others are the same whether they are named or
 * chosen. */
static gcoll_status choose_by_cost(gcoll_context *context, const struct rates *rates, size_t type_bytes,
                                   gcoll_problem *problem, gcoll_problem *common, gcoll_choice *choice,
                                   gcoll_considered_fn considered, void *arg) {
    const uint32_t *node = NULL;
    uint32_t missing;
    gcoll_note cause;
    gcoll_status status = GCOLL_OK;
    if (rates->needs.levels && common->count > 0)
        status = gcoll_rendezvous_hosts(context, &node, &missing, &cause);
    common->node = node;
    if (status == GCOLL_OK)
        status = gcoll_choose(&context->calls->registry, common, type_bytes, &rates->needs, &rates->cost,
                              choice, considered, arg);
    if (status != GCOLL_OK || !choice->algorithm->uses_node)
        common->node = NULL;
    problem->node = common->node;
    return status;
}

/* Selects by a rule of the tuning file or, without one, by cost. */
static gcoll_status choose_unnamed(gcoll_context *context, const struct rates *rates, size_t type_bytes,
                                   gcoll_problem *problem, gcoll_problem *common, gcoll_choice *choice) {
    const gcoll_tuning_rule *rule;
    gcoll_status status = apply_rule(context, rates, type_bytes, problem, common, choice, &rule);
    if (status != GCOLL_OK || rule)
        return status;
    return choose_by_cost(context, rates, type_bytes, problem, common, choice, NULL, NULL);
}

/* A rank that knows only its own block can move no other: blocks go straight between the root and each rank.
 */
static gcoll_status choose_linear(gcoll_context *context, gcoll_collective collective, gcoll_choice *choice) {
    if (!choice->algorithm)
        return gcoll_choice_parse(&context->calls->registry, "linear", collective, choice);
    if (strcmp(choice->algorithm->name, "linear") == 0)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                       "algorithm: %s needs the counts of all ranks on each of them; with "
                       "options.counts_at_root, allowed are auto and linear",
                       choice->algorithm->name);
}

static void set_choice(gcoll_problem *problem, const gcoll_choice *choice, size_t type_bytes) {
    memcpy(problem->option, choice->option, sizeof problem->option);
    problem->segment = choice->segment_bytes / type_bytes;
    if (choice->segment_bytes > 0 && problem->segment == 0)
        problem->segment = 1; /* a segment has at least one element */
}

static gcoll_status choose_common(gcoll_context *context, const gcoll_call *call, gcoll_problem *problem,
                                  gcoll_problem *common, gcoll_choice *choice, uint64_t *mark,
                                  double *seconds) {
    const size_t type_bytes = call->element_bytes;
    struct rates rates;
    const char *text = call->algorithm[0] ? call->algorithm : NULL;
    gcoll_status status = gcoll_choice_parse(&context->calls->registry, text, problem->collective, choice);
    if (status == GCOLL_OK && call->counts_at_root)
        status = choose_linear(context, problem->collective, choice);
    if (status != GCOLL_OK)
        return status;
    set_rates(context, call, type_bytes, &rates);
    *mark = 0;
    if (!choice->algorithm && call->arrival > 0)
        context->hooks->choose(context, problem, common, choice, mark);
    if (!choice->algorithm) {
        status = choose_unnamed(context, &rates, type_bytes, problem, common, choice);
    } else {
        memcpy(common->option, choice->option, sizeof common->option);
        status = find_hosts(context, choice->algorithm, problem, common);
        if (status == GCOLL_OK)
            status = gcoll_choice_resolve(common, type_bytes, &rates.needs, &rates.cost, choice);
    }
    if (status != GCOLL_OK)
        return status;
    memcpy(common->option, choice->option, sizeof common->option);
    set_choice(problem, choice, type_bytes);

    if (choice->algorithm->uses_tour && !common->tour)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "algorithm: %s goes along a tour, and this context has none; allowed with a line 'tour' in a "
            "tuning file for its transport, ranks and local",
            choice->algorithm->name);
    /* `claims` and `cost` are only defined if `applies` accepts the problem. */
    if (choice->algorithm->applies)
        status = choice->algorithm->applies(common);
    if (status == GCOLL_OK)
        status = gcoll_codec_applies(choice->algorithm, common);
    if (status == GCOLL_OK)
        status = check_claims(context, call, choice, common);
    if (status != GCOLL_OK)
        return status;
    *seconds = gcoll_algorithm_seconds(choice->algorithm, common, type_bytes, &rates.needs, &rates.cost);
    return check_scratch(call, choice, type_bytes, common);
}

gcoll_status gcoll_call_choose(gcoll_context *context, const gcoll_call *call, gcoll_problem *problem,
                               gcoll_choice *choice, uint64_t *mark, double *seconds) {
    gcoll_problem common;
    uint64_t *guessed;
    gcoll_status status = make_common(call, problem, &common, &guessed);
    if (status == GCOLL_OK)
        status = choose_common(context, call, problem, &common, choice, mark, seconds);
    free(guessed);
    return status;
}

/* ---- Explaining --------------------------------------------------------------------------- */

#define CANDIDATES_FIRST 16
#define BASIS_BYTES      768
/* Scratch that any call may take. */
#define FRUGAL_BYTES 65536
/* Candidates that are listed for what they send, for their steps, for the messages of all ranks together, and
 * for a tour that was searched; and how alike the numbers may be. */
#define EXTREMES 4
#define ALIKE    0.01
#define SAME     1e-9 /* what rounding leaves of equal numbers */
/* Ranks, at most, of which one may be connected with all others for a trial. */
#define SECOND_RANKS 64

struct explanation {
    gcoll_candidate *candidates;
    size_t count, capacity;
    bool short_of_memory;
    gcoll_text said;
};

static void note_candidate(void *arg, const gcoll_candidate *candidate) {
    struct explanation *e = arg;
    if (e->count == e->capacity) {
        size_t capacity = e->capacity ? 2 * e->capacity : CANDIDATES_FIRST;
        gcoll_candidate *more = realloc(e->candidates, capacity * sizeof *more);
        if (!more) {
            e->short_of_memory = true;
            return;
        }
        e->candidates = more;
        e->capacity = capacity;
    }
    e->candidates[e->count++] = *candidate;
}

/* Usable candidates first, the cheapest first; the others in the order of the table. */
static bool comes_before(const gcoll_candidate *a, const gcoll_candidate *b) {
    if (a->status != GCOLL_OK || b->status != GCOLL_OK)
        return a->status == GCOLL_OK && b->status != GCOLL_OK;
    return a->seconds < b->seconds;
}

static void sort(gcoll_candidate *candidates, size_t count) {
    for (size_t i = 1; i < count; i++) /* a stable sort of a few */
        for (size_t k = i; k > 0 && comes_before(&candidates[k], &candidates[k - 1]); k--) {
            gcoll_candidate swap = candidates[k];
            candidates[k] = candidates[k - 1];
            candidates[k - 1] = swap;
        }
}

/* Lists all candidates and finds the choice of auto, by the rule of a tuning file or by cost. */
static gcoll_status judge_all(gcoll_context *context, const gcoll_call *call, gcoll_problem *problem,
                              struct explanation *e, gcoll_choice *choice, const gcoll_tuning_rule **rule) {
    const size_t type_bytes = call->element_bytes;
    struct rates rates;
    set_rates(context, call, type_bytes, &rates);
    gcoll_problem common = *problem;
    *rule = NULL;
    gcoll_status status =
        choose_by_cost(context, &rates, type_bytes, problem, &common, choice, note_candidate, e);
    if (status == GCOLL_OK)
        status = apply_rule(context, &rates, type_bytes, problem, &common, choice, rule);
    if (e->short_of_memory)
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %zu algorithms", e->count);
    return status;
}

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
    uint32_t room, count;
};

/* What cost never takes may need a connection to each rank. */
static bool can_be_tried(const struct list *list, const gcoll_candidate *candidate) {
    return candidate->status == GCOLL_OK && candidate->seconds < HUGE_VAL &&
           is_frugal(list->call, candidate) && (!candidate->is_second || list->problem->size <= SECOND_RANKS);
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

/* *plan: what rank 0 does, or NULL if the algorithm refuses. Errors: NO_MEMORY. */
static gcoll_status plan_of(const struct list *list, const gcoll_candidate *candidate, gcoll_plan **plan) {
    gcoll_problem problem = *list->problem;
    set_choice(&problem, &candidate->choice, list->call->element_bytes);
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
    gcoll_status status = plan_of(list, a, &left);
    if (status == GCOLL_OK)
        status = plan_of(list, b, &right);
    *same = left && right && gcoll_plan_equals(left, right);
    gcoll_plan_destroy(left);
    gcoll_plan_destroy(right);
    return status;
}

/* Puts the choice of auto first, and the others behind it in their order. A tuning file may name a variant
 * that is none of them. */
static void put_first(struct explanation *e, const char *choice) {
    char text[GCOLL_ALGORITHM_TEXT_MAX];
    for (size_t i = 0; i < e->count; i++) {
        const gcoll_candidate found = e->candidates[i];
        gcoll_choice_format(&found.choice, text, sizeof text);
        if (strcmp(text, choice) != 0)
            continue;
        memmove(&e->candidates[1], &e->candidates[0], i * sizeof *e->candidates);
        e->candidates[0] = found;
        return;
    }
}

/* Drops the candidates that cannot be tried, and those whose plan one before them has. */
static gcoll_status drop_others(const struct list *list, struct explanation *e) {
    size_t kept = 0;
    for (size_t i = 0; i < e->count; i++) {
        bool drops = !can_be_tried(list, &e->candidates[i]);
        for (size_t k = 0; k < kept && !drops; k++) {
            const gcoll_status status = compare_plans(list, &e->candidates[k], &e->candidates[i], &drops);
            if (status != GCOLL_OK)
                return status;
        }
        if (!drops)
            e->candidates[kept++] = e->candidates[i];
    }
    e->count = kept;
    return GCOLL_OK;
}

/* The choice of auto is there already, but its numbers are not known until it is found among the others. */
static void add_to(struct list *list, const gcoll_candidate *candidate) {
    uint32_t at = 0;
    if (list->count == list->room)
        return;
    gcoll_choice_format(&candidate->choice, list->texts[list->count], GCOLL_ALGORITHM_TEXT_MAX);
    while (strcmp(list->texts[at], list->texts[list->count]) != 0)
        at++;
    list->seconds[at] = candidate->seconds;
    list->sent[at] = candidate->cost.sent * list->call->element_bytes;
    list->count += at == list->count;
}

/* Adds the candidates in their order, until `room` are listed. Where no difference between hosts is known,
 * those that make one come only with `all`. */
static void add_until(struct list *list, const struct explanation *e, uint32_t room, bool all) {
    for (size_t i = 0; i < e->count && list->count < room; i++)
        if (all || list->has_levels || !e->candidates[i].choice.algorithm->uses_node)
            add_to(list, &e->candidates[i]);
}

/* Adds the candidate of which `number` is least, and of these the fastest. */
static void add_least(struct list *list, const struct explanation *e,
                      double (*number)(const gcoll_candidate *)) {
    const gcoll_candidate *found = NULL;
    for (size_t i = 0; i < e->count; i++)
        if (!found || number(&e->candidates[i]) < number(found) * (1 - ALIKE))
            found = &e->candidates[i];
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
static void add_tour(struct list *list, const struct explanation *e) {
    for (size_t i = 0; i < e->count; i++)
        if (e->candidates[i].choice.algorithm->uses_tour)
            add_to(list, &e->candidates[i]);
}

gcoll_status gcoll_call_candidates(gcoll_context *context, const gcoll_call *call, const gcoll_blocks *blocks,
                                   char (*texts)[GCOLL_ALGORITHM_TEXT_MAX], double *seconds, double *sent,
                                   uint32_t room, uint32_t *count) {
    gcoll_problem problem = gcoll_call_problem(context, call, blocks);
    problem.rank = 0;
    problem.buffers = 1;
    problem.in_memory = problem.out_memory = NULL;
    struct explanation e = {0};
    gcoll_choice choice = {0};
    const gcoll_tuning_rule *rule;
    struct list list = {.call = call,
                        .problem = &problem,
                        .has_levels = gcoll_basis_levels(context->basis, gcoll_call_is_fixed(call)) != NULL,
                        .texts = texts,
                        .seconds = seconds,
                        .sent = sent,
                        .room = room};
    gcoll_status status = judge_all(context, call, &problem, &e, &choice, &rule);
    if (status == GCOLL_OK) {
        sort(e.candidates, e.count);
        gcoll_choice_format(&choice, texts[0], GCOLL_ALGORITHM_TEXT_MAX);
        list.count = 1;
        put_first(&e, texts[0]);
        seconds[0] = e.candidates[0].seconds; /* stay if a tuning file names a variant that is not listed */
        sent[0] = e.candidates[0].cost.sent * call->element_bytes;
        status = drop_others(&list, &e);
    }
    if (status == GCOLL_OK) {
        add_until(&list, &e, room - EXTREMES, false);
        add_least(&list, &e, sent_by);
        add_least(&list, &e, steps_of);
        add_least(&list, &e, messages_of);
        add_tour(&list, &e);
        add_until(&list, &e, room, false);
        add_until(&list, &e, room, true);
    }
    *count = list.count;
    free(e.candidates);
    return status;
}

/* Says where the result has the same bits, whichever algorithm is taken. */
static void describe_sameness(struct explanation *e, const gcoll_call *call) {
    static const char *const words[] = {
        [GCOLL_SAME_ON_RANKS] = "the same bits on every rank (options.same: on ranks)",
        [GCOLL_SAME_IN_RUNS] = "the same bits on every rank and in every run (options.same: in runs)",
        [GCOLL_SAME_NOWHERE] = "bits may differ between ranks and runs (options.same: nowhere)"};
    const gcoll_collective collective = (gcoll_collective)call->collective;
    if (!gcoll_collective_reduces(collective))
        return;
    const bool on_one = collective != GCOLL_ALLREDUCE;
    const char *text = words[gcoll_call_same(call)];
    if (!gcoll_order_matters((gcoll_type)call->type, (gcoll_op)call->op))
        text = "the same bits in any order of evaluation";
    else if (gcoll_call_order(call) == GCOLL_ORDER_PAIRS)
        text = "the same bits for every size, algorithm, transport and run (options.order: pairs)";
    else if (gcoll_call_order(call) == GCOLL_ORDER_LEFT)
        text = "the same bits for every size, algorithm, transport and run (options.order: left)";
    else if (on_one && !gcoll_call_is_fixed(call))
        text = "each element is on one rank; bits may differ between runs";
    else if (on_one)
        text = "each element is on one rank, with the same bits in every run (options.same: in runs)";
    gcoll_text_add(&e->said, "result: %s\n", text);
}

/* The algorithm that the next call takes. */
static void name_choice(gcoll_context *context, const gcoll_call *call, const gcoll_choice *choice,
                        char *name, size_t bytes) {
    gcoll_taught taught = {0};
    if (context->learner)
        context->learner->enter(context, call, &(gcoll_blocks){0}, 0, GCOLL_FORM_NONE, &taught);
    if (taught.algorithm)
        snprintf(name, bytes, "%s", taught.algorithm);
    else
        gcoll_choice_format(choice, name, bytes);
}

static void describe(struct explanation *e, const gcoll_call *call, gcoll_context *context,
                     const gcoll_choice *choice, const gcoll_tuning_rule *rule, gcoll_status status) {
    char name[GCOLL_ALGORITHM_TEXT_MAX], basis[BASIS_BYTES], codec[GCOLL_CODEC_TEXT_MAX];
    const bool has_codec = gcoll_codec_is_set(&call->codec);
    name_choice(context, call, choice, name, sizeof name);
    gcoll_codec_format(&call->codec, codec);
    gcoll_text_add(&e->said, "%s of %llu %s%s%s by %u ranks: %s\n",
                   gcoll_collective_name((gcoll_collective)call->collective), (unsigned long long)call->count,
                   gcoll_type_name((gcoll_type)call->type), has_codec ? " as " : "", has_codec ? codec : "",
                   context->size, status == GCOLL_OK ? name : gcoll_last_error());
    sort(e->candidates, e->count);
    for (size_t i = 0; i < e->count; i++) {
        const gcoll_candidate *candidate = &e->candidates[i];
        gcoll_choice_format(&candidate->choice, name, sizeof name);
        if (candidate->status != GCOLL_OK) {
            gcoll_text_add(&e->said, "  %-28s no: %s\n", name, candidate->reason);
            continue;
        }
        gcoll_text_add(&e->said, "  %-28s %10.1f us  turns %.0f, sent %.0f, reduced %.0f, scratch %.0f", name,
                       candidate->seconds * 1e6, candidate->cost.steps, candidate->cost.sent,
                       candidate->cost.reduced, candidate->cost.scratch);
        if (candidate->load.within_steps > 0)
            gcoll_text_add(&e->said, "; within hosts: turns %.0f, sent %.0f", candidate->load.within_steps,
                           candidate->load.within_sent);
        gcoll_text_add(&e->said, "%s\n", candidate->is_second ? "; not chosen by cost" : "");
    }
    gcoll_basis_describe(context, rule, gcoll_call_is_fixed(call), basis, sizeof basis);
    describe_sameness(e, call);
    gcoll_text_add(&e->said, "%s", basis);
    if (context->learner)
        context->learner->explain(context, call, &e->said);
}

gcoll_status gcoll_context_explain(gcoll_context *context, gcoll_collective collective, uint64_t count,
                                   gcoll_type type, gcoll_op op, uint32_t root,
                                   const gcoll_collective_options *options, char *text, size_t bytes) {
    gcoll_call call = {0};
    if (!context || !text || bytes == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s",
                           context ? "text: is NULL or of 0 bytes" : "context: is NULL");
    gcoll_status status = gcoll_enter(context); /* apply_rule may look up hosts in the store */
    if (status != GCOLL_OK)
        return status;
    status = gcoll_arguments_shape(&call, context, collective, count, type, op, root, options);
    if (status != GCOLL_OK) {
        gcoll_leave(context);
        return status;
    }
    gcoll_problem problem = gcoll_call_problem(context, &call, &(gcoll_blocks){0});
    problem.rank = 0;
    gcoll_choice choice = {0};
    struct explanation e = {.said = {text, bytes, 0}};
    const gcoll_tuning_rule *rule;
    text[0] = '\0';
    status = judge_all(context, &call, &problem, &e, &choice, &rule);
    if (!e.short_of_memory)
        describe(&e, &call, context, &choice, rule, status);
    free(e.candidates);
    gcoll_leave(context);
    return status == GCOLL_ERR_UNSUPPORTED ? GCOLL_OK : status; /* the text contains the reason */
}

gcoll_status gcoll_context_register(gcoll_context *context, const gcoll_algorithm *algorithm) {
    if (!context)
        return gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_registry_add(&context->calls->registry, algorithm);
    gcoll_leave(context);
    return status;
}
