/* algorithms/allreduce/allreduce_recursive.c - allreduce: the upper half of the ranks sends to the lower
 * half, and so on.
 *
 * In each step the ranks from 2^k on send what they have to the rank 2^k below them, and are done; k counts
 * down until rank 0 has the sum. Then k counts up, and the sum takes the same way back.
 *
 * Source: Peking University, parallel and distributed computing, lab 1, Allreduce (2021), section 2.3,
 * algorithm
 * 1. (Its first loop lets a rank send again that has sent before; its figure does not.)
 *
 * Steps: 2L, L = ceil(log2 P). Elements on the way: 2L n, in and then out of rank 0, which reduces L n.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"
#include "algorithms/shared/load.h"

static void recursive_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, rank = problem->rank, levels = gcoll_log2_ceil(size);
    const uint64_t n = problem->count;
    gcoll_ref sum = gcoll_in(0, 0);
    for (uint32_t k = levels; k-- > 0;) {
        const uint32_t half = UINT32_C(1) << k;
        if (rank >= half && rank - half < half) {
            gcoll_plan_send(b, rank - half, sum, n);
        } else if (rank < half && half < size - rank) {
            gcoll_plan_recv_reduce(b, rank + half, gcoll_out(0, 0), sum, n);
            sum = gcoll_out(0, 0);
        }
        gcoll_plan_round(b);
    }
    if (size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), sum, n);
    for (uint32_t k = 0; k < levels; k++) {
        const uint32_t half = UINT32_C(1) << k;
        if (rank >= half && rank - half < half)
            gcoll_plan_recv(b, rank - half, gcoll_out(0, 0), n);
        else if (rank < half && half < size - rank)
            gcoll_plan_send(b, rank + half, gcoll_out(0, 0), n);
        gcoll_plan_round(b);
    }
}

static uint32_t recursive_claims(const gcoll_problem *problem) {
    uint32_t claims = GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem);
    return problem->size == 2 ? claims | GCOLL_CLAIM_ORDERED
                              : claims; /* with more ranks, 0 + 2^k are not neighbours */
}

static void recursive_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double n = (double)problem->count, levels = gcoll_log2_ceil(problem->size);
    *cost = (gcoll_cost){2 * levels, 2 * levels * n, levels * n, 0};
}

static void recursive_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, 1, 0);
}

const gcoll_algorithm gcoll_allreduce_recursive_algorithm = {
    .name = "recursive",
    .collective = GCOLL_ALLREDUCE,
    .summary = "the upper half sends to the lower half until rank 0 is left, and back; 2 ceil(log2 P) steps",
    .source = "Peking University lab 1 (2021), section 2.3",
    .plan = recursive_plan,
    .claims = recursive_claims,
    .cost = recursive_cost,
    .load = recursive_load,
    .takes_codec = true,
};
