/* algorithms/bcube.h - the shape of a bcube, for its planner and its cost. */
#ifndef GCOLL_BCUBE_H
#define GCOLL_BCUBE_H

#include "algorithms/fold.h"

#define GCOLL_CUBE_MAX_STEPS 20 /* log2 of GCOLL_MAX_RANKS */

/* Who takes part, and how many stand in a group in each step. */
typedef struct gcoll_cube {
    uint32_t places, steps, radix[GCOLL_CUBE_MAX_STEPS]; /* never rising */
} gcoll_cube;

gcoll_cube gcoll_cube_of(const gcoll_problem *problem);
/* Elements that come in at once, at most. */
uint64_t gcoll_cube_inbox(const gcoll_cube *c, uint64_t n);

extern const gcoll_option gcoll_bcube_options[];
uint32_t gcoll_bcube_claims(const gcoll_problem *problem);
void gcoll_bcube_cost(const gcoll_problem *problem, gcoll_cost *cost);
void gcoll_bcube_load(const gcoll_problem *problem, gcoll_load *load);

#endif
