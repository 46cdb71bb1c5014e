/* algorithms/barrier/barrier_dissemination.c - barrier by dissemination.
 *
 * In round i each rank signals the rank 2^i above it, and waits for the rank 2^i below. A signal means that
 * the sender has arrived, and all ranks that it has heard of. After L rounds every rank has heard of all.
 *
 * Source: D. Hensgen, R. Finkel and U. Manber, Two algorithms for barrier synchronization, Int. J. Parallel
 * Program. 17 (1988), the dissemination barrier.
 *
 * Steps: L = ceil(log2 P), of empty messages.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"

static void dissemination_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, rank = problem->rank;
    gcoll_plan_window(b, 0); /* signals carry no data, so only rounds order them */
    for (uint32_t distance = 1; distance < size; distance *= 2) {
        gcoll_plan_signal(b, (rank + distance) % size);
        gcoll_plan_await(b, (rank + size - distance) % size);
        gcoll_plan_round(b);
    }
}

static void dissemination_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    *cost = (gcoll_cost){gcoll_log2_ceil(problem->size), 0, 0, 0};
}

const gcoll_algorithm gcoll_barrier_dissemination_algorithm = {
    .name = "dissemination",
    .collective = GCOLL_BARRIER,
    .summary = "each round doubles whom a rank has heard of; ceil(log2 P) steps",
    .source = "Hensgen, Finkel and Manber 1988, dissemination barrier",
    .plan = dissemination_plan,
    .cost = dissemination_cost,
};
