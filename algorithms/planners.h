/* algorithms/planners.h - for all planners: the rows of the table, and arithmetic of ranks, chunks and
 * blocks. */
#ifndef GCOLL_PLANNERS_H
#define GCOLL_PLANNERS_H

#include "gcoll/base/base.h"
#include "gcoll/plan.h"

/* Declares every row of the table; the file that defines one includes this. */
#define ROW(name) extern const gcoll_algorithm gcoll_##name##_algorithm;
#include "algorithms/table.h"
#undef ROW

/* ceil(log2(size)): the rounds until 1 has doubled to `size` or more. */
static inline uint32_t gcoll_log2_ceil(uint32_t size) {
    uint32_t log = 0;
    while (log < 32 && (UINT64_C(1) << log) < size)
        log++;
    return log;
}

static inline bool gcoll_is_power_of_two(uint32_t size) {
    return (size & (size - 1)) == 0;
}

/* floor(log2(size)), size > 0. */
static inline uint32_t gcoll_log2_floor(uint32_t size) {
    uint32_t log = 0;
    for (uint32_t rest = size; rest > 1; rest /= 2)
        log++;
    return log;
}

/* Elements of the largest of `parts` chunks of n elements. */
static inline uint64_t gcoll_largest_chunk(uint64_t n, uint32_t parts) {
    return n / parts + (n % parts != 0);
}

/* Elements of the largest block of a problem whose blocks are the same on every rank. */
static inline uint64_t gcoll_largest_block(const gcoll_problem *problem) {
    if (!problem->offsets)
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
