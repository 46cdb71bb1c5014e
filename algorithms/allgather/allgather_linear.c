/* algorithms/allgather/allgather_linear.c - allgather: every rank sends its block to every other, all at
 * once.
 *
 * No message waits for another, so the network orders the traffic. Each rank begins with the rank above it,
 * so that the ranks do not all send to the same one.
 *
 * Source: the linear (or "spread") algorithm of the MPI libraries; J. Proficz, J. Supercomput. 74 (2018),
 * table 1, lists it.
 *
 * Steps: one if a rank has P-1 ports. With one port, P-1 messages one after the other; the cost assumes one
 * port.
 *
 * Elements sent: P-1 times one's own block. Reduced: none.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"

static void linear_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint64_t own = gcoll_block_count(problem, problem->rank);
    for (uint32_t distance = 1; distance < problem->size; distance++) {
        uint32_t from = gcoll_rank_below(problem, distance);
        gcoll_plan_send(b, gcoll_rank_above(problem, distance), gcoll_in(0, 0), own);
        gcoll_plan_recv(b, from, gcoll_out(0, gcoll_block_begin(problem, from)),
                        gcoll_block_count(problem, from));
    }
    gcoll_plan_copy(b, gcoll_out(0, gcoll_block_begin(problem, problem->rank)), gcoll_in(0, 0), own);
}

static void linear_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double peers = problem->size - 1;
    *cost = (gcoll_cost){peers, peers * (double)gcoll_largest_block(problem), 0, 0};
}

static void linear_load(const gcoll_problem *problem, gcoll_load *load) {
    const double peers = problem->size - 1.0;
    *load =
        (gcoll_load){.hops = 1, .messages = problem->size * peers, .sent = peers * (double)problem->count};
}

const gcoll_algorithm gcoll_allgather_linear_algorithm = {
    .name = "linear",
    .collective = GCOLL_ALLGATHER,
    .summary = "everybody sends to everybody, all at once",
    .source = "MPI libraries; Proficz 2018, table 1",
    .plan = linear_plan,
    .cost = linear_cost,
    .load = linear_load,
    .takes_codec = true,
};
