/* algorithms/ring.h - who sits where on the ring, and which segment starts where. */
#ifndef GCOLL_RING_H
#define GCOLL_RING_H

#include "algorithms/planners.h"

typedef enum gcoll_ring_order {
    GCOLL_RING_BY_RANK,
    GCOLL_RING_CHAIN,
    GCOLL_RING_PRE_REDUCED
} gcoll_ring_order;

/* One position of the ring, and one segment. */
typedef struct gcoll_ring_seat {
    int64_t arrival_ns;
    uint32_t rank;
    uint32_t lead;  /* of the position: its first segment is this many beyond its own (k in the paper) */
    uint32_t start; /* of the segment with this number: the position where it starts (sp); never falls */
} gcoll_ring_seat;

/* problem->size seats, for free(); NULL: out of memory. */
gcoll_ring_seat *gcoll_ring_seats(const gcoll_problem *problem, gcoll_ring_order order);

/* Fills in `start` from the leads: size - 1 - i at most at position i, none less than that of the next
 * position. */
void gcoll_ring_find_starts(gcoll_ring_seat *seats, uint32_t size);

/* What problem->rank, which sits somewhere, does. At least two ranks. */
void gcoll_ring_walk(const gcoll_problem *problem, gcoll_builder *b, const gcoll_ring_seat *seats);

#endif
