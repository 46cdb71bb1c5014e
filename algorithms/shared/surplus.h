/* algorithms/shared/surplus.h - surplus ranks: those beyond the number of ranks that an allreduce can use,
 * such as a power of two.
 *
 * A surplus rank adds its vector to that of a neighbour before the algorithm, and gets the result from the
 * neighbour after it. (Papers call this folding.) */
#ifndef GCOLL_SURPLUS_H
#define GCOLL_SURPLUS_H

#include "algorithms/planners.h"

/* The algorithm runs on `places`, numbered in rank order. Each of the first `pairs` places has two ranks: the
 * lower one is surplus, the upper one takes part. All other places have one. Sums keep rank order. */
typedef struct gcoll_surplus {
    uint32_t places, pairs;
    uint32_t place;  /* of this rank; a surplus rank has that of its neighbour */
    bool is_surplus; /* this rank does not take part */
} gcoll_surplus;

/* `places` is at least half of the ranks. */
gcoll_surplus gcoll_surplus_of(const gcoll_problem *problem, uint32_t places);

/* The rank that takes part in a place. */
static inline uint32_t gcoll_surplus_rank(const gcoll_surplus *surplus, uint32_t place) {
    return place < surplus->pairs ? 2 * place + 1 : place + surplus->pairs;
}

/* Surplus ranks send their vectors, in a round of its own if there are any. Returns where the vector of this
 * rank's place is then: IN or OUT. */
gcoll_ref gcoll_surplus_join(const gcoll_problem *problem, const gcoll_surplus *surplus, gcoll_builder *b);
/* Surplus ranks receive the result, after `rounds` rounds among the places. */
void gcoll_surplus_return(const gcoll_problem *problem, const gcoll_surplus *surplus, gcoll_builder *b,
                          uint32_t rounds);

/* What an algorithm may claim that uses the largest power of two of places and adds up neighbouring halves.
 */
uint32_t gcoll_surplus_claims(const gcoll_problem *problem);

#endif
