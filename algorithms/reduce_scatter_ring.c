/* algorithms/reduce_scatter_ring.c - blocks travel once round a ring and end where they belong.
 *
 * Block b starts at rank b + 1 and is reduced into at each of P-1 hops, the last of which takes it to rank b.
 * Every rank sends and receives one block a step.
 *
 * Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, J.
 * Parallel Distrib. Comput. 69 (2009), section 3, the first half.
 *
 * Steps: P-1. Elements sent and reduced: (P-1)/P n; with unequal blocks, on the way of the largest one,
 * (P-1) times its size.
 *
 * Restrictions: none. Scratch for P > 2: one block or, for P > 3, two, of the largest size. */
#include "algorithms/blocks.h"

/* What came in goes on while the next comes in, so partial sums take turns in two slots. */
static uint32_t slots_of(uint32_t size) {
    return size <= 2 ? 0 : size == 3 ? 1 : 2;
}

static void ring_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, slots = slots_of(size);
    const uint32_t previous = gcoll_rank_below(problem, 1), next = gcoll_rank_above(problem, 1);
    const uint64_t largest = gcoll_largest_block(problem);
    const gcoll_ref scratch = gcoll_plan_scratch(b, slots * largest);
    gcoll_ref partial = gcoll_in(0, gcoll_block_begin(problem, previous));
    if (size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
    for (uint32_t step = 1; step < size; step++) {
        uint32_t sent = gcoll_rank_below(problem, step), received = gcoll_rank_below(problem, step + 1);
        gcoll_ref own = gcoll_in(0, gcoll_block_begin(problem, received));
        gcoll_ref sum = step + 1 == size ? gcoll_out(0, 0) : gcoll_ref_add(scratch, step % slots * largest);
        uint64_t count = gcoll_block_count(problem, received);
        gcoll_plan_send(b, next, partial, gcoll_block_count(problem, sent));
        if (problem->rank == 0) /* what comes in is of ranks after this one */
            gcoll_plan_recv_reduce(b, previous, sum, own, count);
        else
            gcoll_plan_recv_reduce_left(b, previous, sum, own, count);
        gcoll_plan_round(b);
        partial = sum;
    }
}

static uint32_t ring_claims(const gcoll_problem *problem) {
    /* The sum of block b begins with rank b + 1, so it goes round the end of the ranks; two have no middle.
     */
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem) |
           (problem->size == 2 ? GCOLL_CLAIM_ORDERED : 0);
}

static void ring_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1, block = (double)gcoll_largest_block(problem);
    *cost = (gcoll_cost){hops, hops * block, hops * block, slots_of(problem->size) * block};
}

const gcoll_algorithm gcoll_reduce_scatter_ring_algorithm = {
    .name = "ring",
    .collective = GCOLL_REDUCE_SCATTER,
    .summary = "blocks travel round a ring to where they belong; fewest bytes, P-1 steps",
    .source = "Patarasuk and Yuan 2009, section 3",
    .plan = ring_plan,
    .claims = ring_claims,
    .cost = ring_cost,
};
