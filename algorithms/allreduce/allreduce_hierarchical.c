/* algorithms/allreduce/allreduce_hierarchical.c - allreduce within hosts, then across hosts, then within
 * hosts again.
 *
 * M is the number of ranks of the smallest host. The ranks of each host reduce-scatter M shares to the
 * first M of them. The ranks with the same place on all hosts allreduce their share. Each host then gathers
 * the shares. So each share crosses between hosts once, and M ranks of a host send at the same time.
 *
 * Source: composed of other rows of the table; hosts are those of problem->node (NULL: one host), which may
 * be uneven and need not have consecutive ranks.
 *
 * Steps: with m ranks on a host and h hosts, those of a reduce-scatter and an allgather among m, and those of
 * an allreduce among h.
 *
 * Elements sent, for even hosts: 2n (m-1)/m within, what the allreduce of n/m sends across. Uneven ones send
 * up to n a step within the largest host.
 *
 * Restrictions: none. Scratch: that of the parts. */
#include <math.h>

#include "algorithms/algorithms.h"
#include "algorithms/allreduce/allreduce_hierarchical_hosts.h"
#include "algorithms/planners.h"
#include "algorithms/select/tuning_file.h"

/* ---- Parts --------------------------------------------------------------------------------------- */

enum { OPTION_ACROSS, OPTION_WITHIN, OPTION_R };

/* Names of algorithms across hosts (allreduce) and, below, within hosts (both reduce_scatter and allgather).
 */
static const char *const across_words[] = {
    "group_butterfly", "ring", "circulant", "recursive_doubling", "rabenseifner", "halving_doubling", NULL};
static const char *const within_words[] = {"circulant", "ring", NULL};
enum { ACROSS_GROUP_BUTTERFLY };

static const gcoll_option options[] = {
    {"across", "the allreduce across hosts", 0, 0, 0, across_words, false},
    {"within", "the reduce-scatter and allgather within hosts", 0, 0, 0, within_words, false},
    {"r", "of across=group_butterfly: steps saved, 0 (fewest bytes) to ceil(log2 hosts); -1: the cheapest",
     GCOLL_BY_COST, GCOLL_BY_COST, 20, NULL, false},
    {NULL, NULL, 0, 0, 0, NULL, false}};

/* An algorithm and its problem; valid as long as the hierarchy. */
typedef struct part {
    const gcoll_algorithm *algorithm;
    gcoll_problem problem;
} part;

static part make_part(gcoll_collective collective, const char *name, uint32_t rank, uint32_t size,
                      uint64_t n) {
    part s = {gcoll_registry_find(NULL, collective, name),
              {.collective = collective, .rank = rank, .size = size, .buffers = 1, .count = n}};
    for (uint32_t i = 0; s.algorithm->options && s.algorithm->options[i].name; i++)
        s.problem.option[i] = s.algorithm->options[i].fallback;
    return s;
}

/* A reduce_scatter or allgather among the ranks of a host with `size` ranks. */
static part part_within(const gcoll_hierarchy *h, gcoll_collective collective, uint32_t size) {
    const gcoll_problem *p = h->problem;
    part s = make_part(collective, within_words[p->option[OPTION_WITHIN]], h->place < size ? h->place : 0,
                       size, p->count);
    if (size > h->fewest) /* otherwise the shares are the default blocks */
        s.problem.offsets = h->shares;
    return s;
}

/* An allreduce of `count` elements among the ranks at the same place of all hosts. */
static part part_across(const gcoll_hierarchy *h, uint64_t count) {
    const int64_t *option = h->problem->option;
    part s = make_part(GCOLL_ALLREDUCE, across_words[option[OPTION_ACROSS]], h->host, h->count, count);
    if (option[OPTION_ACROSS] == ACROSS_GROUP_BUTTERFLY)
        s.problem.option[0] = option[OPTION_R];
    return s;
}

static gcoll_cost cost_of(const part *s) {
    gcoll_cost cost;
    s->algorithm->cost(&s->problem, &cost);
    return cost;
}

static uint32_t steps_of(const part *s) {
    return (uint32_t)cost_of(s).steps;
}

/* ---- Plan ---------------------------------------------------------------------------------------- */

static void append(gcoll_builder *b, const part *s, const uint32_t *ranks, gcoll_ref in, gcoll_ref out) {
    gcoll_plan *plan = NULL;
    gcoll_status status = gcoll_plan_create(s->algorithm, &s->problem, &plan);
    if (status != GCOLL_OK) {
        gcoll_plan_refuse(b, status, "hierarchical: %s", gcoll_last_error());
        return;
    }
    gcoll_plan_append(b, plan, ranks, in, out);
    gcoll_plan_destroy(plan);
}

/* Begins `round`: gcoll_plan_append begins a next round by itself, unless there is no step yet. */
static void begin_round(gcoll_builder *b, uint32_t round, bool has_steps) {
    gcoll_plan_round_at_least(b, round - (has_steps && round > 0 ? 1 : 0));
}

static void plan_parts(const gcoll_hierarchy *h, gcoll_builder *b) {
    const uint32_t size = gcoll_host_size(h, h->host);
    const uint32_t *mates = h->ranks + h->begin[h->host];
    const uint64_t begin = h->shares[h->place], count = h->shares[h->place + 1] - begin;
    const gcoll_ref share = gcoll_out(0, begin);
    part scatter = part_within(h, GCOLL_REDUCE_SCATTER, size);
    part longest = part_within(h, GCOLL_REDUCE_SCATTER, h->most);
    part gather = part_within(h, GCOLL_ALLGATHER, size);
    part across = part_across(h, count);
    uint32_t first_across = steps_of(&longest);
    if (size > 1 || h->count == 1)
        append(b, &scatter, mates, gcoll_in(0, 0), share);
    if (h->place < h->fewest && h->count > 1) {
        begin_round(b, first_across, size > 1);
        append(b, &across, h->peers, size > 1 ? share : gcoll_in(0, 0), share);
    }
    if (size > 1) {
        begin_round(b, first_across + steps_of(&across), true);
        append(b, &gather, mates, share, gcoll_out(0, 0));
    }
}

static void hierarchical_plan(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_hierarchy h;
    gcoll_status status = gcoll_hierarchy_make(problem, &h);
    if (status != GCOLL_OK) {
        gcoll_plan_refuse(b, status, "%s", gcoll_last_error());
        return;
    }
    gcoll_plan_window(b, 0); /* strict rounds, which the parts need */
    plan_parts(&h, b);
    gcoll_hierarchy_destroy(&h);
}

/* ---- Claims and cost ----------------------------------------------------------------------------- */

/* The hierarchy for claims and cost. One host needs no lists, which would cost selection O(P) time. */
static gcoll_status measure(const gcoll_problem *problem, gcoll_hierarchy *h) {
    if (problem->node)
        return gcoll_hierarchy_make(problem, h);
    *h = (gcoll_hierarchy){.problem = problem,
                           .count = 1,
                           .fewest = problem->size,
                           .most = problem->size,
                           .place = problem->rank,
                           .in_rows = true};
    return GCOLL_OK;
}

/* The claims. An element is added up by the tree across hosts, whose leaves are the trees within hosts. For
 * uneven hosts the only claim is that each share is added up once; its order may be right by chance. */
static uint32_t claims_of(const gcoll_hierarchy *h) {
    part scatter = part_within(h, GCOLL_REDUCE_SCATTER, h->most);
    part middle = part_across(h, gcoll_largest_chunk(h->problem->count, h->fewest));
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

static uint32_t hierarchical_claims(const gcoll_problem *problem) {
    gcoll_hierarchy h;
    uint32_t claims = gcoll_trivial_claims(problem);
    if (measure(problem, &h) != GCOLL_OK)
        return GCOLL_CLAIM_UNKNOWN;
    claims |= claims_of(&h);
    gcoll_hierarchy_destroy(&h);
    return claims;
}

static void add(gcoll_cost *cost, const part *s) {
    const gcoll_cost own = cost_of(s);
    cost->steps += own.steps;
    cost->sent += own.sent;
    cost->reduced += own.reduced;
    cost->scratch += own.scratch;
}

/* The cost of a rank of the largest host: its parts one after the other. Exact for even hosts. For uneven
 * hosts it is as exact as the parts' costs for uneven blocks; scratch is that of the rank that needs most. */
static void hierarchical_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    gcoll_hierarchy h;
    *cost = (gcoll_cost){NAN, NAN, NAN, NAN}; /* unknown for lack of memory */
    if (measure(problem, &h) != GCOLL_OK)
        return;
    *cost = (gcoll_cost){0, 0, 0, 0};
    part scatter = part_within(&h, GCOLL_REDUCE_SCATTER, h.most);
    part gather = part_within(&h, GCOLL_ALLGATHER, h.most);
    part middle = part_across(&h, gcoll_largest_chunk(problem->count, h.fewest));
    if (h.most > 1)
        add(cost, &scatter);
    if (h.count > 1)
        add(cost, &middle);
    if (h.most > 1)
        add(cost, &gather);
    gcoll_hierarchy_destroy(&h);
}

/* Adds a part's load of `times` groups of ranks that do the same. */
static gcoll_cost add_load(gcoll_load *load, const part *s, double times) {
    const gcoll_cost cost = cost_of(s);
    const gcoll_load own = gcoll_load_of(s->algorithm, &s->problem, &cost);
    load->hops += own.hops;
    load->messages += times * own.messages;
    load->sent += times * own.sent;
    load->reduced += times * own.reduced;
    return cost;
}

static void add_within(gcoll_load *load, const part *s, double hosts) {
    const double before = load->hops;
    const gcoll_cost cost = add_load(load, s, hosts);
    load->within_hops += load->hops - before;
    load->within_steps += cost.steps;
    load->within_sent += cost.sent;
}

/* As if all hosts were like the largest one. Without a map of hosts every message is within one, and the cost
 * says it all. */
static void hierarchical_load(const gcoll_problem *problem, gcoll_load *load) {
    gcoll_hierarchy h;
    *load = (gcoll_load){0};
    if (!problem->node)
        return;
    if (measure(problem, &h) != GCOLL_OK) {
        *load = (gcoll_load){.hops = NAN};
        return;
    }
    part scatter = part_within(&h, GCOLL_REDUCE_SCATTER, h.most);
    part gather = part_within(&h, GCOLL_ALLGATHER, h.most);
    part middle = part_across(&h, gcoll_largest_chunk(problem->count, h.fewest));
    if (h.most > 1) {
        add_within(load, &scatter, h.count);
        add_within(load, &gather, h.count);
    }
    if (h.count > 1)
        add_load(load, &middle, h.fewest);
    load->crossing = (double)h.fewest / h.most;
    gcoll_hierarchy_destroy(&h);
}

const gcoll_algorithm gcoll_allreduce_hierarchical_algorithm = {
    .name = "hierarchical",
    .collective = GCOLL_ALLREDUCE,
    .summary = "within hosts, across them, within again: each share crosses between hosts once",
    .source = "composed of other algorithms; the pattern is that of two-level MPI libraries",
    .options = options,
    .plan = hierarchical_plan,
    .claims = hierarchical_claims,
    .cost = hierarchical_cost,
    .load = hierarchical_load,
    .uses_node = true,
};
