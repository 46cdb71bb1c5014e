/* algorithms/allreduce/allreduce_ring_full.c - allreduce: whole vectors travel round a ring of ranks.
 *
 * Each rank sends its vector to its right neighbour. It adds what it receives from the left to its own
 * result, and sends it on, until every vector has visited every rank.
 *
 * Source: Gloo, docs/algorithms.md, allreduce_ring.
 *
 * Steps: P-1. Elements sent and reduced by each rank: (P-1) n.
 *
 * Restrictions: each rank adds up from itself backwards, so results are not rank-identical for P > 2.
 * Scratch: n elements for P = 2, else 2n: one vector comes in while the one before it goes on. */
#include "algorithms/shared/hosts.h"

static void ring_full_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, left = (problem->rank + size - 1) % size,
                   right = (problem->rank + 1) % size;
    const uint64_t n = problem->count;
    if (size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), n);
    gcoll_ref coming = gcoll_in(0, 0), sum = gcoll_in(0, 0);
    for (uint32_t step = 0; step + 1 < size; step++) {
        const gcoll_ref going = coming;
        coming = step < 2 ? gcoll_plan_scratch(b, n) : gcoll_scratch(step % 2 * n);
        gcoll_plan_send(b, right, going, n);
        gcoll_plan_recv(b, left, coming, n);
        gcoll_plan_reduce(b, gcoll_out(0, 0), sum, coming, n);
        sum = gcoll_out(0, 0);
        gcoll_plan_round(b);
    }
}

static uint32_t ring_full_claims(const gcoll_problem *problem) {
    return gcoll_trivial_claims(problem) | (problem->size == 2 ? GCOLL_CLAIM_RANK_IDENTICAL : 0);
}

static void ring_full_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double n = (double)problem->count, hops = problem->size - 1;
    *cost = (gcoll_cost){hops, hops * n, hops * n, (hops < 2 ? hops : 2) * n};
}

const gcoll_algorithm gcoll_allreduce_ring_full_algorithm = {
    .name = "ring_full",
    .collective = GCOLL_ALLREDUCE,
    .summary = "whole vectors circle round a ring; P-1 steps, most bytes",
    .source = "Gloo, docs/algorithms.md, allreduce_ring",
    .plan = ring_full_plan,
    .claims = ring_full_claims,
    .cost = ring_full_cost,
    .load = gcoll_ring_load,
};
