/* algorithms/alltoall/alltoall_pairwise.c - all-to-all, one partner at a time (`pairwise`) or all at once
 * (`linear`).
 *
 * In step i every rank sends to the rank i above it and receives from the rank i below it. `pairwise` does
 * one step after the other, so that large blocks do not meet at one port. `linear` starts all steps at
 * once, which hides the latency of messages.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), the section on all-to-all.
 *
 * Steps: P-1; `linear` needs fewer if ranks have several ports. With one port, P-1 messages are sent one
 * after the other; the cost assumes one port.
 *
 * Elements sent: n less one block. Reduced: none.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"

static void exchange(const gcoll_problem *problem, gcoll_builder *b, bool in_turn) {
    const uint32_t rank = problem->rank;
    for (uint32_t step = 1; step < problem->size; step++) {
        uint32_t to = gcoll_rank_above(problem, step), from = gcoll_rank_below(problem, step);
        gcoll_plan_send(b, to, gcoll_in(0, gcoll_block_begin(problem, to)), gcoll_block_count(problem, to));
        gcoll_plan_recv(b, from, gcoll_out(0, gcoll_recv_begin(problem, from)),
                        gcoll_recv_count(problem, from));
        if (in_turn)
            gcoll_plan_round(b);
    }
    gcoll_plan_copy(b, gcoll_out(0, gcoll_recv_begin(problem, rank)),
                    gcoll_in(0, gcoll_block_begin(problem, rank)), gcoll_block_count(problem, rank));
}

static void pairwise_plan(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_plan_window(b, 0);
    exchange(problem, b, true);
}

static void linear_plan(const gcoll_problem *problem, gcoll_builder *b) {
    exchange(problem, b, false);
}

/* With offsets a rank knows its own blocks only: an average of them stands for all. */
static void one_port_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double peers = problem->size - 1;
    double block = problem->offsets ? (double)problem->count / problem->size
                                    : (double)gcoll_largest_chunk(problem->count, problem->size);
    *cost = (gcoll_cost){peers, peers * block, 0, 0};
}

static void linear_load(const gcoll_problem *problem, gcoll_load *load) {
    const double size = problem->size, peers = size - 1;
    *load = (gcoll_load){.hops = 1, .messages = size * peers, .sent = peers * (double)problem->count};
}

const gcoll_algorithm gcoll_alltoall_pairwise_algorithm = {
    .name = "pairwise",
    .collective = GCOLL_ALLTOALL,
    .summary = "P-1 steps, each with one partner to send to and one to receive from",
    .source = "Thakur, Rabenseifner and Gropp 2005, all-to-all",
    .plan = pairwise_plan,
    .cost = one_port_cost,
};

const gcoll_algorithm gcoll_alltoall_linear_algorithm = {
    .name = "linear",
    .collective = GCOLL_ALLTOALL,
    .summary = "everybody sends to everybody, all at once",
    .source = "Thakur, Rabenseifner and Gropp 2005, all-to-all",
    .plan = linear_plan,
    .cost = one_port_cost,
    .load = linear_load,
};
