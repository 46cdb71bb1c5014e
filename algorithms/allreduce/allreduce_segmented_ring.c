/* algorithms/allreduce/allreduce_segmented_ring.c - allreduce: a ring that reduces its chunks segment by
 * segment.
 *
 * Each of P chunks is cut in `segments`. Phase f reduces segment f of every chunk once round the ring,
 * while segments of the next phase are already in flight. Then whole chunks travel round.
 *
 * Source: Open MPI, ompi/mca/coll/base/coll_base_allreduce.c, ompi_coll_base_allreduce_intra_ring_segmented;
 * J. Proficz, Improving all-reduce collective operations for imbalanced process arrival patterns, J.
 * Supercomput. 74 (2018), table 1.
 *
 * Steps: (segments+1)(P-1). Elements sent by each rank: 2(P-1)/P n. Reduced: (P-1)/P n.
 *
 * Restrictions: none; of empty segments there are no messages. */
#include "algorithms/shared/hosts.h"

#define MAX_SEGMENTS 1024

static const gcoll_option options[] = {
    {"segments", "segments that each chunk is reduced in", 4, 1, MAX_SEGMENTS, NULL, false},
    {NULL, NULL, 0, 0, 0, NULL, false}};

typedef struct range {
    uint64_t begin, count;
} range;

/* Segment f of chunk c. */
static range segment_of(const gcoll_problem *problem, uint32_t c, uint32_t segments, uint32_t f) {
    const gcoll_problem chunk = {.count = gcoll_part_count(problem, problem->size, c),
                                 .codec = problem->codec};
    return (range){gcoll_part_begin(problem, problem->size, c) + gcoll_part_begin(&chunk, segments, f),
                   gcoll_part_count(&chunk, segments, f)};
}

static void segmented_ring_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, segments = (uint32_t)problem->option[0];
    const uint32_t left = (problem->rank + size - 1) % size, right = (problem->rank + 1) % size;
    if (size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
    for (uint32_t f = 0; f < segments; f++)
        for (uint32_t step = 0; step + 1 < size; step++) {
            range going = segment_of(problem, (problem->rank + size - step) % size, segments, f);
            range coming = segment_of(problem, (problem->rank + size - step - 1) % size, segments, f);
            gcoll_plan_send(b, right, step == 0 ? gcoll_in(0, going.begin) : gcoll_out(0, going.begin),
                            going.count);
            gcoll_plan_recv_reduce(b, left, gcoll_out(0, coming.begin), gcoll_in(0, coming.begin),
                                   coming.count);
            gcoll_plan_round(b);
        }
    for (uint32_t step = 0; step + 1 < size; step++) {
        range going = segment_of(problem, (problem->rank + size + 1 - step) % size, 1, 0);
        range coming = segment_of(problem, (problem->rank + size - step) % size, 1, 0);
        gcoll_plan_send(b, right, gcoll_out(0, going.begin), going.count);
        gcoll_plan_recv(b, left, gcoll_out(0, coming.begin), coming.count);
        gcoll_plan_round(b);
    }
}

static uint32_t segmented_ring_claims(const gcoll_problem *problem) {
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem); /* as the ring's */
}

/* All messages of a rank leave by one port. Neglected: a segment is reduced while others are in flight. */
static void segmented_ring_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1, chunk = (double)problem->count / problem->size;
    *cost = (gcoll_cost){((double)problem->option[0] + 1) * hops, 2 * hops * chunk, hops * chunk, 0};
}

const gcoll_algorithm gcoll_allreduce_segmented_ring_algorithm = {
    .name = "segmented_ring",
    .collective = GCOLL_ALLREDUCE,
    .summary = "ring whose chunks are reduced in segments; (segments+1)(P-1) steps",
    .source = "Open MPI, coll_base_allreduce.c, ring_segmented; Proficz 2018, table 1",
    .options = options,
    .plan = segmented_ring_plan,
    .claims = segmented_ring_claims,
    .cost = segmented_ring_cost,
    .load = gcoll_ring_load,
    .takes_codec = true,
};
