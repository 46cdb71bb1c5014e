/* algorithms/allreduce/allreduce_hierarchical.c - allreduce within hosts, then across hosts, then within
 * hosts again.
 *
 * The vector is cut into M shares, and each host has M leaders, spread evenly over its ranks. The ranks of
 * each host reduce-scatter the shares to its leaders. The leaders of one share, one on each host, allreduce
 * it. Each host then gathers the shares. So each share crosses between hosts once, and M ranks of a host send
 * at the same time. M is at most the number of ranks of the smallest host. Fewer leaders send fewer messages
 * between hosts, and more bytes within them.
 *
 * Source: composed of other rows of the table; hosts are those of problem->node (NULL: one host), which may
 * be uneven and need not have consecutive ranks.
 *
 * Steps: with m ranks on a host and h hosts, those of a reduce-scatter and an allgather among m, and those of
 * an allreduce among h.
 *
 * Elements sent, for even hosts: 2n/M (M - 1 + log2(m/M)) within, if m and M are powers of two; what the
 * allreduce of n/M sends across. Uneven ones send up to n a step within the largest host.
 *
 * Restrictions: none. Scratch: that of the parts. */
#include <math.h>

#include "algorithms/algorithms.h"
#include "algorithms/allreduce/allreduce_hierarchical_hosts.h"
#include "algorithms/planners.h"
#include "algorithms/select/tuning_file.h"
#include "algorithms/shared/circulant.h"

/* ---- Parts --------------------------------------------------------------------------------------- */

enum { OPTION_ACROSS, OPTION_WITHIN, OPTION_R, OPTION_LEADERS };

/* Names of algorithms across hosts (allreduce) and, below, within hosts (both reduce_scatter and allgather).
 */
static const char *const across_words[] = {
    "group_butterfly", "ring", "circulant", "recursive_doubling", "rabenseifner", "halving_doubling", NULL};
static const char *const within_words[] = {"circulant", "ring", NULL};
enum { ACROSS_GROUP_BUTTERFLY };
enum { WITHIN_CIRCULANT };

static const gcoll_option options[] = {
    {"across", "the allreduce across hosts", 0, 0, 0, across_words, false},
    {"within", "the reduce-scatter and allgather within hosts", 0, 0, 0, within_words, false},
    {"r", "of across=group_butterfly: steps saved, 0 (fewest bytes) to ceil(log2 hosts); -1: the cheapest",
     GCOLL_BY_COST, GCOLL_BY_COST, 20, NULL, false},
    {"leaders",
     "ranks of each host that send to other hosts; 0, or more: all of the smallest; -1: the cheapest",
     GCOLL_BY_COST, GCOLL_BY_COST, 4096, NULL, true},
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
    if (size > h->leaders) /* otherwise the shares are the default blocks */
        s.problem.offsets = h->shares;
    return s;
}

/* An allreduce of a share of `count` elements among its leaders, one on each host. */
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
    if (h->is_leader && h->count > 1) {
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
    gcoll_status status = gcoll_hierarchy_make(problem, problem->option[OPTION_LEADERS], &h);
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
        return gcoll_hierarchy_make(problem, problem->option[OPTION_LEADERS], h);
    *h = (gcoll_hierarchy){.problem = problem,
                           .count = 1,
                           .fewest = problem->size,
                           .most = problem->size,
                           .leaders = problem->size,
                           .place = problem->rank,
                           .in_rows = true};
    return GCOLL_OK;
}

/* The claims. An element is added up by the tree across hosts, whose leaves are the trees within hosts. For
 * uneven hosts, and if some ranks are no leaders, the only claim is that each share is added up once; its
 * order may be right by chance. */
static uint32_t claims_of(const gcoll_hierarchy *h) {
    part scatter = part_within(h, GCOLL_REDUCE_SCATTER, h->most);
    part middle = part_across(h, gcoll_largest_chunk(h->problem->count, h->leaders));
    uint32_t inner =
        h->most == 1 ? GCOLL_CLAIM_ALL : gcoll_algorithm_claims(scatter.algorithm, &scatter.problem);
    uint32_t outer =
        h->count == 1 ? GCOLL_CLAIM_ALL : gcoll_algorithm_claims(middle.algorithm, &middle.problem);
    uint32_t claims = outer & (GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_RUN_IDENTICAL);
    if (h->leaders < h->most || !h->in_rows)
        return claims;
    const bool one_level = h->most == 1 || h->count == 1;
    return claims | (inner & outer &
                     (GCOLL_CLAIM_ORDERED | (one_level ? GCOLL_CLAIM_LEFT : 0) |
                      (one_level || gcoll_is_power_of_two(h->most) ? GCOLL_CLAIM_PAIRS : 0)));
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

/* A circulant within a host that has more ranks than leaders. Its row counts all blocks as large as the
 * largest, which is far too much. Of `skip` ranks in a row at most ceil(skip M/m) are leaders, and a step
 * with that skip carries their shares. */
static double carried(const gcoll_hierarchy *h, uint32_t skip, uint32_t size) {
    const double share = (double)gcoll_largest_chunk(h->problem->count, h->leaders);
    return fmin(ceil((double)skip * h->leaders / size) * share, (double)h->problem->count);
}

static uint32_t skip_of(const gcoll_circulant *c, uint32_t step) {
    return gcoll_circulant_placements(c, step) - gcoll_circulant_placements(c, step + 1);
}

/* Of the host that needs most, which may be a small one with an odd number of ranks. */
static double scratch_within(const gcoll_hierarchy *h) {
    double most = 0;
    for (uint32_t host = 0; host < h->count; host++) {
        const uint32_t size = gcoll_host_size(h, host);
        if (size > 2)
            most = fmax(most, carried(h, size - size / 2, size));
    }
    return most;
}

static bool has_fewer_leaders(const gcoll_hierarchy *h, uint32_t within) {
    return h->leaders < h->most && h->problem->option[OPTION_WITHIN] == within;
}

/* The part within the largest host. For a ring, its row says what it costs: the largest share is on its way
 * in every step. */
static gcoll_cost cost_within(const gcoll_hierarchy *h, const part *s) {
    gcoll_cost cost = cost_of(s);
    if (!has_fewer_leaders(h, WITHIN_CIRCULANT))
        return cost;
    const gcoll_circulant c = gcoll_circulant_make(&s->problem, 0);
    cost.sent = 0;
    for (uint32_t i = 0; i < c.steps; i++)
        cost.sent += carried(h, skip_of(&c, i), h->most);
    if (s->problem.collective == GCOLL_REDUCE_SCATTER) {
        cost.reduced = cost.sent;
        cost.scratch = scratch_within(h);
    }
    return cost;
}

/* The messages within the largest host. In a step of a circulant a rank sends if it has a share to send. */
static double messages_within(const gcoll_hierarchy *h, const part *s) {
    if (!has_fewer_leaders(h, WITHIN_CIRCULANT))
        return (h->most - 1.0) * h->leaders;
    const gcoll_circulant c = gcoll_circulant_make(&s->problem, 0);
    double messages = 0;
    for (uint32_t i = 0; i < c.steps; i++)
        messages += fmin(h->most, (double)skip_of(&c, i) * h->leaders);
    return messages;
}

/* The load of the part within all hosts, as if all were like the largest one. */
static gcoll_load load_within(const gcoll_hierarchy *h, const part *s, const gcoll_cost *cost) {
    gcoll_load load = gcoll_load_of(s->algorithm, &s->problem, cost);
    if (h->leaders < h->most) {
        load.messages = messages_within(h, s);
        load.sent = (h->most - 1.0) * (double)h->problem->count; /* all ranks but one send each share once */
        load.reduced = s->problem.collective == GCOLL_REDUCE_SCATTER ? load.sent : 0;
    }
    load.messages *= h->count;
    load.sent *= h->count;
    load.reduced *= h->count;
    return load;
}

static void add(gcoll_cost *cost, gcoll_cost own) {
    cost->steps += own.steps;
    cost->sent += own.sent;
    cost->reduced += own.reduced;
    cost->scratch += own.scratch;
}

/* The cost of a rank of the largest host: its parts one after the other. Exact for even hosts. For uneven
 * hosts, no step takes longer; scratch is that of the rank that needs most. */
static void hierarchical_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    gcoll_hierarchy h;
    *cost = (gcoll_cost){NAN, NAN, NAN, NAN}; /* unknown for lack of memory */
    if (measure(problem, &h) != GCOLL_OK)
        return;
    *cost = (gcoll_cost){0, 0, 0, 0};
    part scatter = part_within(&h, GCOLL_REDUCE_SCATTER, h.most);
    part gather = part_within(&h, GCOLL_ALLGATHER, h.most);
    part middle = part_across(&h, gcoll_largest_chunk(problem->count, h.leaders));
    if (h.most > 1)
        add(cost, cost_within(&h, &scatter));
    if (h.count > 1)
        add(cost, cost_of(&middle));
    if (h.most > 1)
        add(cost, cost_within(&h, &gather));
    gcoll_hierarchy_destroy(&h);
}

static void add_load(gcoll_load *load, gcoll_load own, double times) {
    load->hops += own.hops;
    load->messages += times * own.messages;
    load->sent += times * own.sent;
    load->reduced += times * own.reduced;
}

static void add_within(gcoll_load *load, const gcoll_hierarchy *h, const part *s) {
    const gcoll_cost cost = cost_within(h, s);
    const gcoll_load own = load_within(h, s, &cost);
    add_load(load, own, 1);
    load->within_hops += own.hops;
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
    part middle = part_across(&h, gcoll_largest_chunk(problem->count, h.leaders));
    if (h.most > 1) {
        add_within(load, &h, &scatter);
        add_within(load, &h, &gather);
    }
    if (h.count > 1) {
        const gcoll_cost cost = cost_of(&middle);
        add_load(load, gcoll_load_of(middle.algorithm, &middle.problem, &cost), h.leaders);
    }
    load->crossing = (double)h.leaders / h.most;
    gcoll_hierarchy_destroy(&h);
}

const gcoll_algorithm gcoll_allreduce_hierarchical_algorithm = {
    .name = "hierarchical",
    .collective = GCOLL_ALLREDUCE,
    .summary = "within hosts, across them by leaders, within again: each share crosses between hosts once",
    .source = "composed of other algorithms; the pattern is that of two-level MPI libraries",
    .options = options,
    .plan = hierarchical_plan,
    .claims = hierarchical_claims,
    .cost = hierarchical_cost,
    .load = hierarchical_load,
    .uses_node = true,
};
