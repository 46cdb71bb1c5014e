/* algorithms/group_butterfly.h - who holds what in the group butterfly, for its planner and its cost. */
#ifndef GCOLL_GROUP_BUTTERFLY_H
#define GCOLL_GROUP_BUTTERFLY_H

#include "algorithms/planners.h"

#define GCOLL_GROUP_MAX_STEPS 20 /* log2 of GCOLL_MAX_RANKS */

typedef struct gcoll_group_pattern {
    gcoll_builder *b; /* NULL: only counted */
    uint64_t n;
    uint32_t rank, size, steps, r;
    uint32_t results;                               /* finished placements that the reduction ends with */
    uint32_t placements[GCOLL_GROUP_MAX_STEPS + 1]; /* in use before step i; 1 after the last */
} gcoll_group_pattern;

extern const gcoll_option gcoll_group_butterfly_options[];
uint32_t gcoll_group_butterfly_claims(const gcoll_problem *problem);
void gcoll_group_butterfly_cost(const gcoll_problem *problem, gcoll_cost *cost);

gcoll_group_pattern gcoll_group_pattern_make(const gcoll_problem *problem, gcoll_builder *b);

static inline uint32_t gcoll_group_min(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Placements sent in step i, from ceil(N/2) on. */
static inline uint32_t gcoll_group_sent(const gcoll_group_pattern *p, uint32_t i) {
    return gcoll_group_min(p->size, p->placements[i] / 2 + p->results - 1);
}

/* Placements 1, 2, ... whose partial sums go on after step i. */
static inline uint32_t gcoll_group_passing(const gcoll_group_pattern *p, uint32_t i) {
    return i + 1 == p->steps ? 0 : gcoll_group_min(p->size, p->placements[i + 1] + p->results - 2);
}

#endif
