/* algorithms/allgather/allgather_ring.c - allgather: every block travels once round a ring; `ring` and
 * `tour_ring`.
 *
 * In each step a rank sends to the next one on the ring the block that it received last, beginning with its
 * own, and receives the next one from the rank before it. The ring goes by the order of ranks, or along the
 * problem's tour.
 *
 * Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, J.
 * Parallel Distrib. Comput. 69 (2009), section 3, the second half.
 *
 * Steps: P-1. Elements sent: (P-1)/P n; with unequal blocks, on the way of the largest one, (P-1) times its
 * size.
 *
 * Restrictions: none. */
#include "algorithms/shared/hosts.h"
#include "algorithms/shared/tour.h"

static void plan_ring(const gcoll_problem *problem, gcoll_builder *b, const gcoll_tour *tour) {
    const uint32_t previous = gcoll_tour_below(tour, 1), next = gcoll_tour_above(tour, 1);
    gcoll_ref last = gcoll_in(0, 0);
    for (uint32_t step = 1; step < problem->size; step++) {
        const uint32_t sent = gcoll_tour_below(tour, step - 1), received = gcoll_tour_below(tour, step);
        gcoll_ref to = gcoll_out(0, gcoll_block_begin(problem, received));
        gcoll_plan_send(b, next, last, gcoll_block_count(problem, sent));
        gcoll_plan_recv(b, previous, to, gcoll_block_count(problem, received));
        gcoll_plan_round(b);
        last = to;
    }
    /* Last: other ranks wait for the messages, but none for this copy. */
    gcoll_plan_copy(b, gcoll_out(0, gcoll_block_begin(problem, problem->rank)), gcoll_in(0, 0),
                    gcoll_block_count(problem, problem->rank));
}

static void ring_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    const gcoll_tour tour = gcoll_tour_by_rank(problem);
    plan_ring(problem, builder, &tour);
}

static void tour_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    const gcoll_tour tour = gcoll_tour_of(problem);
    plan_ring(problem, builder, &tour);
}

static void ring_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1;
    *cost = (gcoll_cost){hops, hops * (double)gcoll_largest_block(problem), 0, 0};
}

const gcoll_algorithm gcoll_allgather_ring_algorithm = {
    .name = "ring",
    .collective = GCOLL_ALLGATHER,
    .summary = "every block travels round a ring; fewest bytes, P-1 steps",
    .source = "Patarasuk and Yuan 2009, section 3",
    .plan = ring_plan,
    .cost = ring_cost,
    .load = gcoll_ring_load,
    .takes_codec = true,
};

const gcoll_algorithm gcoll_allgather_tour_ring_algorithm = {
    .name = "tour_ring",
    .collective = GCOLL_ALLGATHER,
    .summary = "ring along a tour of the ranks that was searched on a measured network",
    .source = "Patarasuk and Yuan 2009, section 3; the tour: docs/network.md",
    .plan = tour_plan,
    .cost = ring_cost,
    .load = gcoll_tour_load,
    .uses_tour = true,
    .takes_codec = true,
};
