/* algorithms/reduce/reduce_spread.c - reduce: every rank reduces a block by the wanted tree, and sends it to
 * the root.
 *
 * A reduce-scatter in one step (shared/spread.h), then a gather straight to the root. With one owner, the
 * root reduces all, for short vectors.
 *
 * Source: see shared/spread.c.
 *
 * Steps: 2, of P-1 messages each. Elements: a rank sends n, the root receives 2(P-1)/P n. Reduced: (P-1)/P n.
 *
 * Restrictions: none. Scratch: half the vector by pairs, (P-2)/P n by left; a block more, not at the root. */
#include "algorithms/shared/spread.h"

static const gcoll_option options[] = {GCOLL_SPREAD_OWNERS, {NULL, NULL, 0, 0, 0, NULL, false}};

static void spread_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t rank = problem->rank, root = problem->root;
    const uint64_t own = gcoll_spread_count(problem, rank);
    const gcoll_ref result =
        rank == root ? gcoll_out(0, gcoll_spread_begin(problem, rank)) : gcoll_plan_scratch(b, own);
    gcoll_spread_plan(problem, b, result);
    gcoll_plan_round(b);
    if (rank != root)
        gcoll_plan_send(b, root, result, own);
    for (uint32_t from = 0; from < problem->size && rank == root; from++)
        if (from != root)
            gcoll_plan_recv(b, from, gcoll_out(0, gcoll_spread_begin(problem, from)),
                            gcoll_spread_count(problem, from));
}

/* The root's port is the busiest. */
static void spread_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const double others = gcoll_spread_owners(problem) - 1.0, block = gcoll_spread_largest(problem);
    *cost = gcoll_spread_cost(problem);
    cost->steps += others;
    cost->sent += others * block;
}

static void spread_load(const gcoll_problem *problem, gcoll_load *load) {
    const double owners = gcoll_spread_owners(problem);
    *load = gcoll_spread_load(problem);
    load->hops += owners > 1 ? 1 : 0;
    load->messages += owners - 1;
    load->sent += (owners - 1) / owners * (double)problem->count;
}

const gcoll_algorithm gcoll_reduce_spread_algorithm = {
    .name = "spread",
    .collective = GCOLL_REDUCE,
    .summary = "each rank gets all of its block, reduces it by the wanted tree, and sends it to the root",
    .source = "Thakur, Rabenseifner and Gropp 2005; the tree is our own",
    .options = options,
    .plan = spread_plan,
    .claims = gcoll_spread_claims,
    .cost = spread_cost,
    .load = spread_load,
    .takes_order = true,
};
