/* algorithms/reduce_scatter/reduce_scatter_spread.c - reduce-scatter in one step: every rank gets all
 * contributions to its block, and reduces them by the wanted tree.
 *
 * Source: see shared/spread.c.
 *
 * Steps: 1, of P-1 messages. Elements sent: (P-1)/P n. Reduced: (P-1)/P n.
 *
 * Restrictions: none. Scratch: half the vector by pairs, (P-2)/P n by left; none for two ranks. */
#include "algorithms/shared/spread.h"

static void spread_plan(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_spread_plan(problem, b, gcoll_out(0, 0));
    gcoll_spread_copies(problem, b);
}

static void spread_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    *cost = gcoll_spread_cost(problem);
}

static void spread_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_spread_load(problem);
}

const gcoll_algorithm gcoll_reduce_scatter_spread_algorithm = {
    .name = "spread",
    .collective = GCOLL_REDUCE_SCATTER,
    .summary = "each rank gets all of its block, and reduces it by the wanted tree; one step",
    .source = "Thakur, Rabenseifner and Gropp 2005; the tree is our own",
    .plan = spread_plan,
    .claims = gcoll_spread_claims,
    .cost = spread_cost,
    .load = spread_load,
    .takes_order = true,
};
