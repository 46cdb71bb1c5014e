/* algorithms/reduce/reduce_binomial.c - reduce up a binomial tree that keeps rank order for every root.
 *
 * Round l joins neighbouring ranges of 2^l ranks. The sum of a range is held by its lowest rank, or by the
 * root if the root is in the range. When two ranges join, the holder that does not hold the new range
 * sends. So each sum covers consecutive ranks, in order, without renumbering ranks from the root.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), the section on reduce; which rank holds a range is
 * our own.
 *
 * Steps: L = ceil(log2 P). Elements sent, and reduced: L n on the longest way, which ends at the root.
 *
 * Restrictions: none. Scratch: n on ranks other than the root that receive. */
#include "algorithms/planners.h"
#include "algorithms/shared/load.h"

/* The rank that holds the sum of the 2^level ranks from `base` on, a multiple of 2^level. */
static uint32_t holder(const gcoll_problem *problem, uint32_t base, uint32_t level) {
    return problem->root >> level == base >> level ? problem->root : base;
}

static void binomial_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t rank = problem->rank;
    const uint64_t n = problem->count;
    gcoll_ref sum = gcoll_in(0, 0), room = gcoll_out(0, 0);
    for (uint32_t level = 0; level < gcoll_log2_ceil(problem->size); level++) {
        uint32_t base = rank >> level << level, other = base ^ UINT32_C(1) << level;
        if (other < problem->size) {
            uint32_t stays = holder(problem, base < other ? base : other, level + 1);
            if (stays != rank) {
                gcoll_plan_send(b, stays, sum, n);
                return;
            }
            if (sum.space == GCOLL_IN && rank != problem->root)
                room = gcoll_plan_scratch(b, n);
            if (other < base)
                gcoll_plan_recv_reduce_left(b, holder(problem, other, level), room, sum, n);
            else
                gcoll_plan_recv_reduce(b, holder(problem, other, level), room, sum, n);
            sum = room;
        }
        gcoll_plan_round(b);
    }
    gcoll_plan_copy(b, gcoll_out(0, 0), sum, n); /* needed for one rank only; else the sum is there already */
}

static void binomial_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double n = (double)problem->count, rounds = gcoll_log2_ceil(problem->size);
    /* One of each pair of neighbours receives; only the root needs no scratch for it. */
    uint32_t pairs = problem->size / 2;
    bool scratch = pairs > (problem->root / 2 < pairs ? 1u : 0u);
    *cost = (gcoll_cost){rounds, rounds * n, rounds * n, scratch ? n : 0};
}

static void binomial_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, 1, 0);
}

const gcoll_algorithm gcoll_reduce_binomial_algorithm = {
    .name = "binomial",
    .collective = GCOLL_REDUCE,
    .summary = "binomial tree to the root, in rank order; ceil(log2 P) steps",
    .source = "Thakur, Rabenseifner and Gropp 2005, reduce",
    .plan = binomial_plan,
    .claims = gcoll_pairs_claims,
    .cost = binomial_cost,
    .load = binomial_load,
};
