/* algorithms/barrier/barrier_all_to_one.c - barrier: all ranks signal rank 0, which signals all.
 *
 * Fewest messages: 2(P-1) in all, two for each rank but rank 0.
 *
 * Source: Gloo, docs/algorithms.md, barrier_all_to_one.
 *
 * Steps: 2, each of P-1 empty messages at the port of rank 0.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"

static void all_to_one_plan(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_plan_window(b, 0); /* signals carry no data, so only rounds order them */
    if (problem->rank != 0) {
        gcoll_plan_signal(b, 0);
        gcoll_plan_round(b);
        gcoll_plan_await(b, 0);
        return;
    }
    for (uint32_t rank = 1; rank < problem->size; rank++)
        gcoll_plan_await(b, rank);
    gcoll_plan_round(b);
    for (uint32_t rank = 1; rank < problem->size; rank++)
        gcoll_plan_signal(b, rank);
}

static void all_to_one_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    *cost = (gcoll_cost){2.0 * (problem->size - 1), 0, 0, 0}; /* one after the other at the port of rank 0 */
}

static void all_to_one_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = (gcoll_load){.hops = 2, .messages = 2 * (problem->size - 1.0)};
}

const gcoll_algorithm gcoll_barrier_all_to_one_algorithm = {
    .name = "all_to_one",
    .collective = GCOLL_BARRIER,
    .summary = "all signal rank 0, which then signals all; two steps, fewest messages",
    .source = "Gloo, docs/algorithms.md, barrier_all_to_one",
    .plan = all_to_one_plan,
    .cost = all_to_one_cost,
    .load = all_to_one_load,
};
