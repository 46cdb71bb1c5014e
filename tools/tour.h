/* tools/tour.h - the travelling salesman: a short way through all places and back. */
#ifndef GCOLL_TOOL_TOUR_H
#define GCOLL_TOOL_TOUR_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The length of the tour that visits the places in this order and returns to the first. length[a * size + b]:
 * from place a to place b, which may differ from the way back. */
double tool_tour_length(const double *length, uint32_t size, const uint32_t *order);

/* Searches for a short tour, at least 1 of `tries`: the first from the given order, which holds each of
 * `size` places once, some from the nearest neighbour of the last place, the others from changes of the best
 * one. The lengths are finite and not negative. Replaces the order by the best one found, which begins with
 * place 0 and is no longer than the given one. The same input and seed give the same result. Takes about
 * size^2 steps, times at most size, for each sweep of a try. False: out of memory. */
bool tool_tour_search(const double *length, uint32_t size, uint32_t tries, uint64_t seed, uint32_t *order);

#ifdef __cplusplus
}
#endif

#endif
