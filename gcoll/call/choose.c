/*
 * gcoll/call/choose.c - selects the algorithm of a call, and ranks all that could serve it.
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
#include "gcoll/call/ranking.h"
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

void gcoll_call_set_choice(gcoll_problem *problem, const gcoll_choice *choice, size_t type_bytes) {
    memcpy(problem->option, choice->option, sizeof problem->option);
    problem->segment = choice->segment_bytes / type_bytes;
    if (choice->segment_bytes > 0 && problem->segment == 0)
        problem->segment = 1; /* a segment has at least one element */
}

const char *gcoll_call_learned(gcoll_context *context, const gcoll_call *call) {
    gcoll_taught taught = {0};
    if (context->learner)
        context->learner->enter(context, call, &(gcoll_blocks){0}, 0, GCOLL_FORM_NONE, &taught);
    return taught.algorithm;
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
    gcoll_call_set_choice(problem, choice, type_bytes);

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

/* ---- Ranking ------------------------------------------------------------------------------ */

#define CANDIDATES_FIRST 16

static void note_candidate(void *arg, const gcoll_candidate *candidate) {
    gcoll_ranking *ranking = arg;
    if (ranking->count == ranking->capacity) {
        size_t capacity = ranking->capacity ? 2 * ranking->capacity : CANDIDATES_FIRST;
        gcoll_candidate *more = realloc(ranking->candidates, capacity * sizeof *more);
        if (!more) {
            ranking->short_of_memory = true;
            return;
        }
        ranking->candidates = more;
        ranking->capacity = capacity;
    }
    ranking->candidates[ranking->count++] = *candidate;
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

gcoll_status gcoll_call_rank(gcoll_context *context, const gcoll_call *call, gcoll_problem *problem,
                             gcoll_ranking *ranking, gcoll_choice *choice, const gcoll_tuning_rule **rule) {
    const size_t type_bytes = call->element_bytes;
    struct rates rates;
    set_rates(context, call, type_bytes, &rates);
    gcoll_problem common = *problem;
    *rule = NULL;
    gcoll_status status =
        choose_by_cost(context, &rates, type_bytes, problem, &common, choice, note_candidate, ranking);
    if (status == GCOLL_OK)
        status = apply_rule(context, &rates, type_bytes, problem, &common, choice, rule);
    if (ranking->short_of_memory)
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %zu algorithms", ranking->count);
    sort(ranking->candidates, ranking->count);
    return status;
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
