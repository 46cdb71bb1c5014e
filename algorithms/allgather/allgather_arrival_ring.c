/* algorithms/allgather/allgather_arrival_ring.c - allgather over a ring of the early ranks, which late ranks
 * join.
 *
 * The ranks are sorted by their expected arrival. The early ones form a ring. A rank is late if all before
 * it can finish before it comes. Each late rank gets all blocks so far from the rank before it in the
 * order, and sends its own block to all before it, down a binomial tree. So early ranks wait for nothing
 * but the blocks of the late ones.
 *
 * Source: the ring: P. Patarasuk and X. Yuan, J. Parallel Distrib. Comput. 69 (2009), section 3; asked for in
 * section 7 of J. Proficz, J. Supercomput. 74 (2018); how late ranks join is our own.
 *
 * Steps: P-1. Elements sent: (P-1)/P n if all arrive together, when it is the ring; everybody receives each
 * block once whoever is late. With unequal blocks, (P-1) times the largest.
 *
 * Restrictions: none. */
#include <stdlib.h>

#include "algorithms/planners.h"
#include "algorithms/shared/by_arrival.h"
#include "algorithms/shared/hosts.h"

typedef struct line {
    const gcoll_problem *problem;
    gcoll_builder *b;
    const gcoll_ready *order;
    uint32_t mine;
} line;

static uint32_t rank_at(const line *l, uint32_t position) {
    return l->order[position].rank;
}

/* The place in this rank's output of the block of the rank at this position. */
static gcoll_ref block_at(const line *l, uint32_t position) {
    const uint32_t rank = rank_at(l, position);
    return position == l->mine ? gcoll_in(0, 0) : gcoll_out(0, gcoll_block_begin(l->problem, rank));
}

static void send(const line *l, uint32_t to, uint32_t position) {
    gcoll_plan_send(l->b, rank_at(l, to), block_at(l, position),
                    gcoll_block_count(l->problem, rank_at(l, position)));
}

static void receive(const line *l, uint32_t from, uint32_t position) {
    gcoll_plan_recv(l->b, rank_at(l, from), block_at(l, position),
                    gcoll_block_count(l->problem, rank_at(l, position)));
}

/* The number of positions in the ring: up to the last rank that comes before those in front of it can be
 * done. */
static uint32_t ring_size(const gcoll_problem *problem, const gcoll_ready *order) {
    const uint64_t block = gcoll_segment_time(problem);
    uint32_t size = problem->size;
    while (size > 1) {
        const uint64_t hops = size > 2 ? size - 2 : 1, gap = order[size - 1].when - order[size - 2].when;
        if (gap / block < hops)
            break;
        size--;
    }
    return size;
}

static void plan_ring(const line *l, uint32_t size) {
    for (uint32_t step = 1; step < size; step++) {
        send(l, (l->mine + 1) % size, (l->mine + size - (step - 1)) % size);
        receive(l, (l->mine + size - 1) % size, (l->mine + size - step) % size);
        gcoll_plan_round(l->b);
    }
}

/* Sends the block of the rank at `late` to all before it; in the tree it is place 0, and position k - 1 is
 * place k. */
static void spread(const line *l, uint32_t late) {
    const uint32_t place = l->mine == late ? 0 : l->mine + 1;
    for (uint32_t level = gcoll_log2_ceil(late + 1); level-- > 0;) {
        const uint32_t half = UINT32_C(1) << level, within = place & (2 * half - 1);
        if (within == 0 && half <= late - place)
            send(l, place + half - 1, late);
        else if (within == half)
            receive(l, place == half ? late : place - half - 1, late);
        gcoll_plan_round(l->b);
    }
}

/* All before `late` in the order are done: it receives their blocks, and they its block. */
static void join(const line *l, uint32_t late) {
    if (l->mine < late)
        spread(l, late); /* before its receives: the others wait for its block */
    for (uint32_t i = 0; i < late; i++) {
        if (l->mine + 1 == late)
            send(l, late, i);
        else if (l->mine == late)
            receive(l, late - 1, i);
        gcoll_plan_round(l->b);
    }
    if (l->mine == late)
        spread(l, late);
}

static void ring_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const gcoll_ref own = gcoll_out(0, gcoll_block_begin(problem, problem->rank));
    gcoll_ready *order = gcoll_by_arrival(problem);
    line l = {problem, b, order, 0};
    if (!order) {
        gcoll_plan_refuse(b, GCOLL_ERR_NO_MEMORY, "arrival_ring: out of memory for %u ranks", problem->size);
        return;
    }
    while (order[l.mine].rank != problem->rank)
        l.mine++;
    const uint32_t size = gcoll_arrive_together(problem) ? problem->size : ring_size(problem, order);
    if (l.mine < size)
        plan_ring(&l, size);
    for (uint32_t late = size; late < problem->size; late++)
        if (l.mine <= late)
            join(&l, late);
    /* Last: other ranks wait for the messages, but none for this copy. */
    gcoll_plan_copy(b, own, gcoll_in(0, 0), gcoll_block_count(problem, problem->rank));
    free(order);
}

/* The cost as if all ranks arrived together: waiting for late ranks is not work. */
static void ring_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double hops = problem->size - 1;
    *cost = (gcoll_cost){hops, hops * (double)gcoll_largest_block(problem), 0, 0};
}

const gcoll_algorithm gcoll_allgather_arrival_ring_algorithm = {
    .name = "arrival_ring",
    .collective = GCOLL_ALLGATHER,
    .summary = "ring of the early ranks; the late join as they come, their blocks last",
    .source = "after Patarasuk and Yuan 2009, section 3; Proficz 2018, section 7",
    .plan = ring_plan,
    .cost = ring_cost,
    .load = gcoll_ring_load,
    .uses_arrival = true,
    .takes_codec = true,
};
