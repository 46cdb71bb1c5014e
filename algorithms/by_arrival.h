/* algorithms/by_arrival.h - what planners that go by the arrival of ranks share. Times are in ns since the
 * first arrival. */
#ifndef GCOLL_BY_ARRIVAL_H
#define GCOLL_BY_ARRIVAL_H

#include "algorithms/planners.h"

/* A rank, and when it is ready for something. */
typedef struct gcoll_ready {
    uint64_t when;
    uint32_t rank;
} gcoll_ready;

/* All ranks by their arrival, those that come together by their number; for free(). NULL: out of memory. */
gcoll_ready *gcoll_by_arrival(const gcoll_problem *problem);

/* Nobody says when ranks arrive, or all do within the time of a segment: not worth an order of its own. */
bool gcoll_arrive_together(const gcoll_problem *problem);

/* The time of a segment, at least 1, and of the whole vector. */
uint64_t gcoll_segment_time(const gcoll_problem *problem);
uint64_t gcoll_vector_time(const gcoll_problem *problem);

/* a + b, or the end of time. */
static inline uint64_t gcoll_later(uint64_t a, uint64_t b) {
    return a + b < a ? UINT64_MAX : a + b;
}

/* Who is ready first, of those that were put in; those that are ready together by their number. The caller
 * has room for all. */
typedef struct gcoll_ready_heap {
    gcoll_ready *at;
    uint32_t count;
} gcoll_ready_heap;

void gcoll_ready_put(gcoll_ready_heap *heap, gcoll_ready ready);
gcoll_ready gcoll_ready_take(gcoll_ready_heap *heap); /* there is one */

/* An edge of a tree, over which the vector goes in this round: each rank has one a round. */
typedef struct gcoll_tree_edge {
    uint32_t above, below; /* above is nearer to the root */
    uint32_t round;
} gcoll_tree_edge;

/* Adds an edge in the first round in which both ranks have none. free_from, by rank: the first round that is
 * free; it is advanced. */
static inline gcoll_tree_edge gcoll_tree_join(uint32_t *free_from, uint32_t above, uint32_t below) {
    const uint32_t round = free_from[above] > free_from[below] ? free_from[above] : free_from[below];
    free_from[above] = free_from[below] = round + 1;
    return (gcoll_tree_edge){above, below, round};
}

/* The most rounds of any edge. */
static inline uint32_t gcoll_tree_rounds(const gcoll_tree_edge *edges, uint32_t count) {
    uint32_t rounds = 0;
    for (uint32_t i = 0; i < count; i++)
        rounds = edges[i].round + 1 > rounds ? edges[i].round + 1 : rounds;
    return rounds;
}

#endif
