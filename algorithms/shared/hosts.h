/* algorithms/shared/hosts.h - which messages of common patterns stay within hosts, for cost formulas. Without
 * `node` all formulas say that none does. */
#ifndef GCOLL_ALGORITHMS_HOSTS_H
#define GCOLL_ALGORITHMS_HOSTS_H

#include "algorithms/planners.h"
#include "algorithms/shared/tour.h"

/* The part of the ranks that send to another host when each rank sends to the next one along the tour; NULL:
 * in the order of ranks. */
static inline double gcoll_ring_crossing(const gcoll_problem *problem, const uint32_t *tour) {
    const uint32_t size = problem->size;
    uint32_t crossing = 0;
    for (uint32_t i = 0; problem->node && i < size; i++)
        crossing +=
            problem->node[gcoll_tour_at(tour, i)] != problem->node[gcoll_tour_at(tour, (i + 1) % size)];
    return (double)crossing / size;
}

/* The load of algorithms in which each rank sends to the next one only. All messages count as messages
 * between hosts, since every hop of a ring waits for the slowest one. */
static inline void gcoll_ring_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = (gcoll_load){.crossing = gcoll_ring_crossing(problem, NULL)};
}
static inline void gcoll_tour_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = (gcoll_load){.crossing = gcoll_ring_crossing(problem, problem->tour)};
}

/* Whether ranks whose numbers differ in this bit only share a host, all over the job. */
static inline bool gcoll_bit_is_within(const gcoll_problem *problem, uint32_t bit) {
    for (uint32_t rank = 0; problem->node && rank < problem->size; rank++)
        if ((rank ^ bit) < problem->size && problem->node[rank] != problem->node[rank ^ bit])
            return false;
    return problem->node;
}

/* The part of halving, and of doubling back, that stays within hosts: in step i ranks swap that differ in bit
 * i only, n/2 elements first and then half as many in each step. */
static inline void gcoll_halving_within(const gcoll_problem *problem, gcoll_load *load) {
    for (uint32_t i = 0; i < gcoll_log2_floor(problem->size); i++) {
        if (!gcoll_bit_is_within(problem, UINT32_C(1) << i))
            continue;
        load->within_steps += 2;
        load->within_hops += 2;
        load->within_sent += (double)problem->count / (double)(UINT32_C(1) << i);
    }
}

#endif
