/* algorithms/hierarchical.c - first within the hosts, then across them, then within again.
 *
 * M is the number of ranks of the smallest host. The ranks of a host reduce-scatter M shares to the first M
 * of them; those that stand at the same place of their hosts allreduce their share; the host gathers the
 * shares. So each share crosses between hosts once, and M ranks of a host send at the same time.
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
#include "algorithms/hierarchical.h"

#include "gcoll/plan/plan.h"

static void append(gcoll_builder *b, const gcoll_hierarchy_part *s, const uint32_t *ranks, gcoll_ref in,
                   gcoll_ref out) {
    gcoll_plan *plan = NULL;
    gcoll_status status = gcoll_plan_create(s->algorithm, &s->problem, &plan);
    if (status != GCOLL_OK) {
        gcoll_plan_refuse(b, status, "hierarchical: %s", gcoll_last_error());
        return;
    }
    gcoll_plan_append(b, plan, ranks, in, out);
    gcoll_plan_destroy(plan);
}

/* Appending begins the next round, unless there is no step yet. */
static void begin_round(gcoll_builder *b, uint32_t round, bool has_steps) {
    gcoll_plan_round_at_least(b, round - (has_steps && round > 0 ? 1 : 0));
}

static void plan_parts(const gcoll_hierarchy *h, gcoll_builder *b) {
    const uint32_t size = gcoll_host_size(h, h->host);
    const uint32_t *mates = h->ranks + h->begin[h->host];
    const uint64_t begin = h->shares[h->place], count = h->shares[h->place + 1] - begin;
    const gcoll_ref share = gcoll_out(0, begin);
    gcoll_hierarchy_part scatter = gcoll_hierarchy_within(h, GCOLL_REDUCE_SCATTER, size);
    gcoll_hierarchy_part longest = gcoll_hierarchy_within(h, GCOLL_REDUCE_SCATTER, h->most);
    gcoll_hierarchy_part gather = gcoll_hierarchy_within(h, GCOLL_ALLGATHER, size);
    gcoll_hierarchy_part across = gcoll_hierarchy_across(h, count);
    uint32_t first_across = gcoll_hierarchy_steps(&longest);
    if (size > 1 || h->count == 1)
        append(b, &scatter, mates, gcoll_in(0, 0), share);
    if (h->place < h->fewest && h->count > 1) {
        begin_round(b, first_across, size > 1);
        append(b, &across, h->peers, size > 1 ? share : gcoll_in(0, 0), share);
    }
    if (size > 1) {
        begin_round(b, first_across + gcoll_hierarchy_steps(&across), true);
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
    gcoll_plan_window(b, 0); /* as the parts ask for */
    plan_parts(&h, b);
    gcoll_hierarchy_destroy(&h);
}

const gcoll_algorithm gcoll_allreduce_hierarchical_algorithm = {
    .name = "hierarchical",
    .collective = GCOLL_ALLREDUCE,
    .summary = "within hosts, across them, within again: each share crosses between hosts once",
    .source = "composed of other algorithms; the pattern is that of two-level MPI libraries",
    .options = gcoll_hierarchical_options,
    .plan = hierarchical_plan,
    .claims = gcoll_hierarchical_claims,
    .cost = gcoll_hierarchical_cost,
    .uses_node = true,
};
