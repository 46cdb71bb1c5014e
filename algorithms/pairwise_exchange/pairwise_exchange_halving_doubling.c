/* algorithms/pairwise_exchange/pairwise_exchange_halving_doubling.c - swaps equal chunks with the partners of
 * halving and doubling.
 *
 * The vector is cut in C chunks; chunk c is swapped with the rank whose number differs in bit c, and copied
 * where there is no such rank. For benchmarks: the traffic of the reduce-scatter of halving_doubling, but
 * without reduction and with messages of one size.
 *
 * Source: Gloo, docs/algorithms.md, pairwise_exchange.
 *
 * Steps: C, or ceil(log2 P) if that is less.
 *
 * Elements sent: n/C a step. Reduced: none.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"

static void halving_doubling_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t chunks = gcoll_problem_exchanges(problem);
    if (chunks == 0) /* one rank */
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
    for (uint32_t c = 0; c < chunks; c++) {
        uint64_t begin = gcoll_chunk_begin(problem->count, chunks, c);
        uint64_t count = gcoll_chunk_count(problem->count, chunks, c);
        uint32_t peer = problem->rank ^ (UINT32_C(1) << c);
        if (peer < problem->size) {
            gcoll_plan_send(b, peer, gcoll_in(0, begin), count);
            gcoll_plan_recv(b, peer, gcoll_out(0, begin), count);
        } else {
            gcoll_plan_copy(b, gcoll_out(0, begin), gcoll_in(0, begin), count);
        }
        gcoll_plan_round(b);
    }
}

static void halving_doubling_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    uint32_t chunks = gcoll_problem_exchanges(problem), log = gcoll_log2_ceil(problem->size);
    uint32_t steps = chunks < log ? chunks : log; /* of rank 0; no rank has a partner beyond */
    *cost = (gcoll_cost){steps, steps ? (double)gcoll_chunk_begin(problem->count, chunks, steps) : 0, 0, 0};
}

const gcoll_algorithm gcoll_pairwise_exchange_halving_doubling_algorithm = {
    .name = "halving_doubling",
    .collective = GCOLL_PAIRWISE_EXCHANGE,
    .summary = "equal chunks are swapped with the partners of halving_doubling; for benchmarks",
    .source = "Gloo, docs/algorithms.md, pairwise_exchange",
    .plan = halving_doubling_plan,
    .cost = halving_doubling_cost,
};
