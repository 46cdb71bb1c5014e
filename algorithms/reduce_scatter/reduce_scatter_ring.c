/* algorithms/reduce_scatter/reduce_scatter_ring.c - reduce-scatter and reduce: blocks travel once round a
 * ring; `ring` of both, and `tour_ring` of reduce-scatter.
 *
 * Block b starts at the rank after b on the ring and is added to at each of P-1 hops, the last of which takes
 * it to rank b. The ring goes by the order of ranks, or along the problem's tour.
 * Every rank sends and receives one block a step. For a reduce, all ranks then send their blocks, P-th
 * parts of the vector, to the root.
 *
 * Source: P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, J.
 * Parallel Distrib. Comput. 69 (2009), section 3, the first half; for reduce with a linear gather.
 *
 * Steps: P-1; reduce 2(P-1). Elements sent: (P-1)/P n; reduce 2(P-1)/P n, on the way that ends at the root.
 * Reduced: (P-1)/P n. With unequal blocks P times the largest one stands for n.
 *
 * Restrictions: none. Scratch: up to two of the largest blocks; none on the root of a reduce. */
#include "algorithms/shared/hosts.h"
#include "algorithms/shared/tour.h"

/* A partial sum is sent on while the next one is received, so they alternate between two slots of scratch.
 * Exceptions: the first is in IN, the last of a reduce-scatter is in OUT, and at the root of a reduce all are
 * in OUT. */
static uint32_t slots_of(const gcoll_problem *problem) {
    uint32_t sums = problem->size - 1;
    if (sums > 0 && problem->collective == GCOLL_REDUCE_SCATTER)
        sums--;
    return sums < 2 ? sums : 2;
}

static bool at_root(const gcoll_problem *problem) {
    return problem->collective == GCOLL_REDUCE && problem->rank == problem->root;
}

/* Returns where the sum of this rank's own block is. */
static gcoll_ref circle(const gcoll_problem *problem, gcoll_builder *b, const gcoll_tour *tour) {
    const uint32_t size = problem->size, previous = gcoll_tour_below(tour, 1);
    const uint64_t largest = gcoll_largest_block(problem);
    const uint32_t slots = at_root(problem) ? 0 : slots_of(problem);
    const gcoll_ref scratch = gcoll_plan_scratch(b, slots * largest);
    gcoll_ref partial = gcoll_in(0, gcoll_block_begin(problem, previous));
    for (uint32_t step = 1; step < size; step++) {
        const uint32_t sent = gcoll_tour_below(tour, step), received = gcoll_tour_below(tour, step + 1);
        uint64_t begin = gcoll_block_begin(problem, received), count = gcoll_block_count(problem, received);
        gcoll_plan_send(b, gcoll_tour_above(tour, 1), partial, gcoll_block_count(problem, sent));
        if (at_root(problem))
            partial = gcoll_out(0, begin);
        else if (step + 1 == size && problem->collective == GCOLL_REDUCE_SCATTER)
            partial = gcoll_out(0, 0);
        else
            partial = gcoll_ref_add(scratch, step % slots * largest);
        if (problem->rank == 0) /* the received sum is of ranks after this one */
            gcoll_plan_recv_reduce(b, previous, partial, gcoll_in(0, begin), count);
        else
            gcoll_plan_recv_reduce_left(b, previous, partial, gcoll_in(0, begin), count);
        gcoll_plan_round(b);
    }
    return partial;
}

static void scatter(const gcoll_problem *problem, gcoll_builder *b, const gcoll_tour *tour) {
    circle(problem, b, tour);
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
}

static void reduce_scatter_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    const gcoll_tour tour = gcoll_tour_by_rank(problem);
    scatter(problem, builder, &tour);
}

static void tour_plan(const gcoll_problem *problem, gcoll_builder *builder) {
    const gcoll_tour tour = gcoll_tour_of(problem);
    scatter(problem, builder, &tour);
}

static void reduce_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const gcoll_tour tour = gcoll_tour_by_rank(problem);
    gcoll_ref own = circle(problem, b, &tour);
    if (!at_root(problem)) {
        gcoll_plan_send(b, problem->root, own, gcoll_block_count(problem, problem->rank));
        return;
    }
    for (uint32_t distance = 1; distance < problem->size; distance++) {
        uint32_t from = gcoll_rank_below(problem, distance);
        gcoll_plan_recv(b, from, gcoll_out(0, gcoll_block_begin(problem, from)),
                        gcoll_block_count(problem, from));
    }
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
}

static uint32_t ring_claims(const gcoll_problem *problem) {
    /* The sum of block b begins with rank b + 1, so it goes round the end of the ranks; two have no middle.
     */
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem) |
           (problem->size == 2 ? GCOLL_CLAIM_ORDERED : 0);
}

static void ring_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1, block = (double)gcoll_largest_block(problem);
    double ways = problem->collective == GCOLL_REDUCE ? 2 : 1;
    *cost = (gcoll_cost){ways * hops, ways * hops * block, hops * block, slots_of(problem) * block};
}

const gcoll_algorithm gcoll_reduce_scatter_ring_algorithm = {
    .name = "ring",
    .collective = GCOLL_REDUCE_SCATTER,
    .summary = "blocks travel round a ring to where they belong; fewest bytes, P-1 steps",
    .source = "Patarasuk and Yuan 2009, section 3",
    .plan = reduce_scatter_plan,
    .claims = ring_claims,
    .cost = ring_cost,
    .load = gcoll_ring_load,
    .takes_codec = true,
};

const gcoll_algorithm gcoll_reduce_scatter_tour_ring_algorithm = {
    .name = "tour_ring",
    .collective = GCOLL_REDUCE_SCATTER,
    .summary = "ring along a tour of the ranks that was searched on a measured network",
    .source = "Patarasuk and Yuan 2009, section 3; the tour: docs/network.md",
    .plan = tour_plan,
    .claims = ring_claims,
    .cost = ring_cost,
    .load = gcoll_tour_load,
    .uses_tour = true,
    .takes_codec = true,
};

const gcoll_algorithm gcoll_reduce_ring_algorithm = {
    .name = "ring",
    .collective = GCOLL_REDUCE,
    .summary = "P-th parts travel round a ring, then to the root; 2(P-1) steps for 2n elements",
    .source = "Patarasuk and Yuan 2009, section 3, with a linear gather",
    .plan = reduce_plan,
    .claims = ring_claims,
    .cost = ring_cost,
    .takes_codec = true,
};
