/* algorithms/blocks.h - what planners of blocks and chunks share. */
#ifndef GCOLL_BLOCKS_H
#define GCOLL_BLOCKS_H

#include "algorithms/planners.h"

/* How often size > 0 can be halved before it is 1: log2 of the largest power of two that is no more. */
static inline uint32_t gcoll_log2_floor(uint32_t size) {
    uint32_t log = 0;
    for (uint32_t rest = size; rest > 1; rest /= 2)
        log++;
    return log;
}

/* The largest of `parts` chunks of n elements. */
static inline uint64_t gcoll_largest_chunk(uint64_t n, uint32_t parts) {
    return n / parts + (n % parts != 0);
}

/* The largest block of a problem whose blocks are the same on every rank. */
static inline uint64_t gcoll_largest_block(const gcoll_problem *problem) {
    if (problem->offsets == NULL)
        return gcoll_largest_chunk(problem->count, problem->size);
    uint64_t largest = 0;
    for (uint32_t r = 0; r < problem->size; r++)
        if (gcoll_block_count(problem, r) > largest)
            largest = gcoll_block_count(problem, r);
    return largest;
}

/* The rank `distance` (at most size) above or below this one on the ring of all ranks. */
static inline uint32_t gcoll_rank_above(const gcoll_problem *problem, uint32_t distance) {
    return (problem->rank + distance) % problem->size;
}
static inline uint32_t gcoll_rank_below(const gcoll_problem *problem, uint32_t distance) {
    return (problem->rank + problem->size - distance) % problem->size;
}

#endif
