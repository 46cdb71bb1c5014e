/* algorithms/shared/tour.h - the order of ranks along a ring: a tour, or the order of ranks. */
#ifndef GCOLL_ALGORITHMS_TOUR_H
#define GCOLL_ALGORITHMS_TOUR_H

#include "algorithms/planners.h"

/* The rank at a position of a ring along the tour; NULL: in the order of ranks. */
static inline uint32_t gcoll_tour_at(const uint32_t *tour, uint32_t position) {
    return tour ? tour[position] : position;
}

/* A ring, and where this rank stands. */
typedef struct gcoll_tour {
    const uint32_t *ranks; /* by position; NULL: in the order of ranks */
    uint32_t size, position;
} gcoll_tour;

/* The rank `distance` positions above or below this one; distance: at most size. */
static inline uint32_t gcoll_tour_above(const gcoll_tour *tour, uint32_t distance) {
    return gcoll_tour_at(tour->ranks, (tour->position + distance) % tour->size);
}
static inline uint32_t gcoll_tour_below(const gcoll_tour *tour, uint32_t distance) {
    return gcoll_tour_above(tour, tour->size - distance);
}

/* A ring in the order of ranks, and one along the problem's tour; without a tour both are the same. */
static inline gcoll_tour gcoll_tour_by_rank(const gcoll_problem *problem) {
    return (gcoll_tour){NULL, problem->size, problem->rank};
}
static inline gcoll_tour gcoll_tour_of(const gcoll_problem *problem) {
    gcoll_tour tour = {problem->tour, problem->size, problem->rank};
    if (tour.ranks)
        for (tour.position = 0; tour.ranks[tour.position] != problem->rank;)
            tour.position++;
    return tour;
}

#endif
