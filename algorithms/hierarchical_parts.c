/* algorithms/hierarchical_parts.c - the algorithms that hierarchical is composed of, and what they claim and
 * cost together. */
#include <math.h>

#include "algorithms/algorithms.h"
#include "algorithms/blocks.h"
#include "algorithms/hierarchical.h"

enum { OPTION_ACROSS, OPTION_WITHIN, OPTION_R };

/* Names of rows of allreduce, and of both reduce_scatter and allgather. */
static const char *const across_words[] = {
    "group_butterfly", "ring", "circulant", "recursive_doubling", "rabenseifner", "halving_doubling", NULL};
static const char *const within_words[] = {"circulant", "ring", NULL};
enum { ACROSS_GROUP_BUTTERFLY };

const gcoll_option gcoll_hierarchical_options[] = {
    {"across", "the allreduce across hosts", 0, 0, 0, across_words, false},
    {"within", "the reduce-scatter and allgather within hosts", 0, 0, 0, within_words, false},
    {"r", "of across=group_butterfly: steps saved, 0 (fewest bytes) to ceil(log2 hosts); -1: the cheapest",
     GCOLL_BY_COST, GCOLL_BY_COST, 20, NULL, false},
    {NULL, NULL, 0, 0, 0, NULL, false}};

static gcoll_hierarchy_part make_part(gcoll_collective collective, const char *name, uint32_t rank,
                                      uint32_t size, uint64_t n) {
    gcoll_hierarchy_part s = {
        gcoll_registry_find(NULL, collective, name),
        {.collective = collective, .rank = rank, .size = size, .buffers = 1, .count = n}};
    for (uint32_t i = 0; s.algorithm->options != NULL && s.algorithm->options[i].name != NULL; i++)
        s.problem.option[i] = s.algorithm->options[i].fallback;
    return s;
}

gcoll_hierarchy_part gcoll_hierarchy_within(const gcoll_hierarchy *h, gcoll_collective collective,
                                            uint32_t size) {
    const gcoll_problem *p = h->problem;
    gcoll_hierarchy_part s = make_part(collective, within_words[p->option[OPTION_WITHIN]],
                                       h->place < size ? h->place : 0, size, p->count);
    if (size > h->fewest) /* else the shares are the even blocks */
        s.problem.offsets = h->shares;
    return s;
}

gcoll_hierarchy_part gcoll_hierarchy_across(const gcoll_hierarchy *h, uint64_t count) {
    const int64_t *option = h->problem->option;
    gcoll_hierarchy_part s =
        make_part(GCOLL_ALLREDUCE, across_words[option[OPTION_ACROSS]], h->host, h->count, count);
    if (option[OPTION_ACROSS] == ACROSS_GROUP_BUTTERFLY)
        s.problem.option[0] = option[OPTION_R];
    return s;
}

static gcoll_cost cost_of(const gcoll_hierarchy_part *s) {
    gcoll_cost cost;
    s->algorithm->cost(&s->problem, &cost);
    return cost;
}

uint32_t gcoll_hierarchy_steps(const gcoll_hierarchy_part *s) {
    return (uint32_t)cost_of(s).steps;
}

/* ---- Claims and cost ------------------------------------------------------------------------------- */

/* What claims and cost look at. One host needs no lists, which would cost selection O(P) time. */
static gcoll_status measure(const gcoll_problem *problem, gcoll_hierarchy *h) {
    if (problem->node != NULL)
        return gcoll_hierarchy_make(problem, h);
    *h = (gcoll_hierarchy){.problem = problem,
                           .count = 1,
                           .fewest = problem->size,
                           .most = problem->size,
                           .place = problem->rank,
                           .in_rows = true};
    return GCOLL_OK;
}

/* An element is the tree of the hosts, with the tree of each host's ranks for a leaf. If hosts are uneven, no
 * more is claimed than that a share is added up once, although its order may come out well. */
static uint32_t claims_of(const gcoll_hierarchy *h) {
    gcoll_hierarchy_part scatter = gcoll_hierarchy_within(h, GCOLL_REDUCE_SCATTER, h->most);
    gcoll_hierarchy_part middle =
        gcoll_hierarchy_across(h, gcoll_largest_chunk(h->problem->count, h->fewest));
    uint32_t inner =
        h->most == 1 ? GCOLL_CLAIM_ALL : gcoll_algorithm_claims(scatter.algorithm, &scatter.problem);
    uint32_t outer =
        h->count == 1 ? GCOLL_CLAIM_ALL : gcoll_algorithm_claims(middle.algorithm, &middle.problem);
    uint32_t claims = outer & (GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_RUN_IDENTICAL);
    if (h->fewest < h->most || !h->in_rows)
        return claims;
    bool neighbours = h->most == 1 || h->count == 1 || gcoll_is_power_of_two(h->most);
    return claims | (inner & outer & (GCOLL_CLAIM_ORDERED | (neighbours ? GCOLL_CLAIM_P_INDEPENDENT : 0)));
}

uint32_t gcoll_hierarchical_claims(const gcoll_problem *problem) {
    gcoll_hierarchy h;
    uint32_t claims = gcoll_trivial_claims(problem);
    if (measure(problem, &h) != GCOLL_OK)
        return claims; /* what no plan can be made for needs no claims */
    claims |= claims_of(&h);
    gcoll_hierarchy_destroy(&h);
    return claims;
}

static void add(gcoll_cost *cost, const gcoll_hierarchy_part *s) {
    gcoll_cost part = cost_of(s);
    cost->steps += part.steps;
    cost->sent += part.sent;
    cost->reduced += part.reduced;
    cost->scratch += part.scratch;
}

/* Of a rank of the largest host, one after the other. Exact for even hosts; among uneven ones it is as much
 * as the rows say for uneven blocks, and no less scratch than any rank takes. */
void gcoll_hierarchical_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    gcoll_hierarchy h;
    *cost = (gcoll_cost){HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL}; /* out of memory: not to be chosen */
    if (measure(problem, &h) != GCOLL_OK)
        return;
    *cost = (gcoll_cost){0, 0, 0, 0};
    gcoll_hierarchy_part scatter = gcoll_hierarchy_within(&h, GCOLL_REDUCE_SCATTER, h.most);
    gcoll_hierarchy_part gather = gcoll_hierarchy_within(&h, GCOLL_ALLGATHER, h.most);
    gcoll_hierarchy_part middle = gcoll_hierarchy_across(&h, gcoll_largest_chunk(problem->count, h.fewest));
    if (h.most > 1)
        add(cost, &scatter);
    if (h.count > 1)
        add(cost, &middle);
    if (h.most > 1)
        add(cost, &gather);
    gcoll_hierarchy_destroy(&h);
}
