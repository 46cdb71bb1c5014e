/* algorithms/barrier/barrier_all_to_all.c - barrier: every rank signals every other.
 *
 * One step, in which each port sends and receives P-1 messages. For few ranks.
 *
 * Source: Gloo, docs/algorithms.md, barrier_all_to_all.
 *
 * Steps: 1, of P-1 empty messages.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"

static void all_to_all_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, rank = problem->rank;
    for (uint32_t i = 1; i < size; i++)
        gcoll_plan_signal(b, (rank + i) % size);
    for (uint32_t i = 1; i < size; i++)
        gcoll_plan_await(b, (rank + size - i) % size);
}

static void all_to_all_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    *cost = (gcoll_cost){problem->size - 1, 0, 0, 0}; /* one after the other at each port */
}

static void all_to_all_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = (gcoll_load){.hops = 1, .messages = problem->size * (problem->size - 1.0)};
}

const gcoll_algorithm gcoll_barrier_all_to_all_algorithm = {
    .name = "all_to_all",
    .collective = GCOLL_BARRIER,
    .summary = "every rank signals every other; one step, P-1 messages at each port",
    .source = "Gloo, docs/algorithms.md, barrier_all_to_all",
    .plan = all_to_all_plan,
    .cost = all_to_all_cost,
    .load = all_to_all_load,
};
