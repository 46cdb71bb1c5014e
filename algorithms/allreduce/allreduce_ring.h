/* algorithms/allreduce/allreduce_ring.h - the order of ranks on the ring, and the position at which each
 * segment starts. */
#ifndef GCOLL_RING_H
#define GCOLL_RING_H

#include "algorithms/planners.h"

typedef enum gcoll_ring_order {
    GCOLL_RING_BY_RANK,
    GCOLL_RING_TOUR,
    GCOLL_RING_CHAIN,
    GCOLL_RING_PRE_REDUCED
} gcoll_ring_order;

/* A position of the ring, and the segment with the same number. */
typedef struct gcoll_ring_seat {
    int64_t arrival_ns;
    uint32_t rank;
    uint32_t
        lead; /* of the position: its first segment is this many beyond its own number (k in the paper) */
    uint32_t start; /* of the segment: the position at which it starts (sp in the paper); never falls */
} gcoll_ring_seat;

/* problem->size seats, for free(); NULL: out of memory. */
gcoll_ring_seat *gcoll_ring_seats(const gcoll_problem *problem, gcoll_ring_order order);

/* Computes `start` from the leads, which are size - 1 - i at most at position i and never less than at the
 * next one. */
void gcoll_ring_find_starts(gcoll_ring_seat *seats, uint32_t size);

/* Plans the part of problem->rank. At least two ranks. */
void gcoll_ring_walk(const gcoll_problem *problem, gcoll_builder *b, const gcoll_ring_seat *seats);

#endif
