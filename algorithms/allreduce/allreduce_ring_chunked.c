/* algorithms/allreduce/allreduce_ring_chunked.c - allreduce: the ring in 2P chunks, one in flight while
 * another is reduced.
 *
 * Rank r begins with chunks 2r and 2r+1. In the first phase it sends a chunk to its right neighbour and
 * reduces the one that it receives from the left, counting down; then rank r has two finished chunks. The
 * second phase sends the finished chunks round.
 *
 * Source: Gloo, docs/algorithms.md, allreduce_ring_chunked.
 *
 * Steps: 4(P-1); Gloo counts 4P. Elements sent by each rank: 2(P-1)/P n. Reduced: (P-1)/P n.
 *
 * Restrictions: none. */
#include "algorithms/shared/hosts.h"

static void ring_chunked_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, left = (problem->rank + size - 1) % size,
                   right = (problem->rank + 1) % size;
    const uint64_t n = problem->count;
    if (size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), n);
    for (uint32_t round = 0; round < 4 * (size - 1); round++) {
        const uint32_t step = round / 2, half = round % 2;
        uint32_t going = 2 * ((problem->rank + 2 * size - step) % size) + half;
        uint32_t coming = (going + 2 * size - 2) % (2 * size);
        uint64_t send_begin = gcoll_part_begin(problem, 2 * size, going),
                 begin = gcoll_part_begin(problem, 2 * size, coming),
                 count = gcoll_part_count(problem, 2 * size, coming);
        gcoll_plan_send(b, right, step == 0 ? gcoll_in(0, send_begin) : gcoll_out(0, send_begin),
                        gcoll_part_count(problem, 2 * size, going));
        if (step + 1 < size)
            gcoll_plan_recv_reduce(b, left, gcoll_out(0, begin), gcoll_in(0, begin), count);
        else
            gcoll_plan_recv(b, left, gcoll_out(0, begin), count);
        gcoll_plan_round(b);
    }
}

static uint32_t ring_chunked_claims(const gcoll_problem *problem) {
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem); /* as the ring's */
}

/* All messages of a rank leave by one port. Neglected: a chunk is reduced while the other is in flight. */
static void ring_chunked_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1, chunk = (double)problem->count / problem->size;
    *cost = (gcoll_cost){4 * hops, 2 * hops * chunk, hops * chunk, 0};
}

const gcoll_algorithm gcoll_allreduce_ring_chunked_algorithm = {
    .name = "ring_chunked",
    .collective = GCOLL_ALLREDUCE,
    .summary = "ring in 2P chunks, one in flight while the other is reduced; 4(P-1) steps",
    .source = "Gloo, docs/algorithms.md, allreduce_ring_chunked",
    .plan = ring_chunked_plan,
    .claims = ring_chunked_claims,
    .cost = ring_chunked_cost,
    .load = gcoll_ring_load,
    .takes_codec = true,
};
