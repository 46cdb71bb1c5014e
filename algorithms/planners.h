/* algorithms/planners.h - what planners share. */
#ifndef GCOLL_PLANNERS_H
#define GCOLL_PLANNERS_H

#include "gcoll/base/base.h"
#include "gcoll/plan.h"

/* Every row of the table, declared: the file that defines one includes this. */
#define ROW(name) extern const gcoll_algorithm gcoll_##name##_algorithm;
#include "algorithms/table.h"
#undef ROW

/* Rounds until 1 has doubled to `size` or more: ceil(log2(size)). */
static inline uint32_t gcoll_log2_ceil(uint32_t size) {
    uint32_t log = 0;
    while (log < 32 && (UINT64_C(1) << log) < size)
        log++;
    return log;
}

static inline bool gcoll_is_power_of_two(uint32_t size) {
    return (size & (size - 1)) == 0;
}

#endif
