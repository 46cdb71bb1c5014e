/* algorithms/shared/by_arrival.h - helpers of planners that use expected arrival times. Times are in ns since
 * the first arrival. */
#ifndef GCOLL_BY_ARRIVAL_H
#define GCOLL_BY_ARRIVAL_H

#include "algorithms/planners.h"

/* A rank, and when it is ready for something. */
typedef struct gcoll_ready {
    uint64_t when;
    uint32_t rank;
} gcoll_ready;

/* All ranks sorted by arrival, then by number; for free(). NULL: out of memory. */
gcoll_ready *gcoll_by_arrival(const gcoll_problem *problem);

/* Whether no arrivals are given, or all ranks arrive within the time of a segment, so that sorting them is
 * not worth it. */
bool gcoll_arrive_together(const gcoll_problem *problem);

/* The time to send and reduce a segment, at least 1, and the whole vector. */
uint64_t gcoll_segment_time(const gcoll_problem *problem);
uint64_t gcoll_vector_time(const gcoll_problem *problem);

/* a + b, at most UINT64_MAX. */
static inline uint64_t gcoll_later(uint64_t a, uint64_t b) {
    return a + b < a ? UINT64_MAX : a + b;
}

/* A heap of ranks: the one that is ready first comes first, of several the one with the lowest number. The
 * caller has room for all. */
typedef struct gcoll_ready_heap {
    gcoll_ready *at;
    uint32_t count;
} gcoll_ready_heap;

void gcoll_ready_put(gcoll_ready_heap *heap, gcoll_ready ready);
gcoll_ready gcoll_ready_take(gcoll_ready_heap *heap); /* there is one */

/* An edge of a tree, and the round in which the vector crosses it: a rank has one edge a round. */
typedef struct gcoll_tree_edge {
    uint32_t above, below; /* above is nearer to the root */
    uint32_t round;
} gcoll_tree_edge;

/* Adds an edge in the first round in which both ranks are free. free_from, by rank: its first free round; is
 * advanced. */
static inline gcoll_tree_edge gcoll_tree_join(uint32_t *free_from, uint32_t above, uint32_t below) {
    const uint32_t round = free_from[above] > free_from[below] ? free_from[above] : free_from[below];
    free_from[above] = free_from[below] = round + 1;
    return (gcoll_tree_edge){above, below, round};
}

/* The number of rounds. */
static inline uint32_t gcoll_tree_rounds(const gcoll_tree_edge *edges, uint32_t count) {
    uint32_t rounds = 0;
    for (uint32_t i = 0; i < count; i++)
        rounds = edges[i].round + 1 > rounds ? edges[i].round + 1 : rounds;
    return rounds;
}

#endif
