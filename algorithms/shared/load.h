/* algorithms/shared/load.h - the load (messages, bytes and reductions of all ranks together) of algorithms on
 * a tree, and of algorithms with surplus ranks. */
#ifndef GCOLL_ALGORITHMS_LOAD_H
#define GCOLL_ALGORITHMS_LOAD_H

#include "algorithms/planners.h"

/* The vector crosses each of the P-1 edges of a tree, in `parts` messages: once, or up and down for an
 * allreduce. On the way up it is reduced. hops 0: as many as steps. */
static inline gcoll_load gcoll_load_tree(const gcoll_problem *problem, double parts, double hops) {
    const double edges = problem->size - 1.0, n = (double)problem->count;
    const double ways = problem->collective == GCOLL_ALLREDUCE ? 2 : 1;
    const bool reduces = problem->collective == GCOLL_ALLREDUCE || problem->collective == GCOLL_REDUCE;
    return (gcoll_load){.hops = hops,
                        .messages = ways * edges * parts,
                        .sent = ways * edges * n,
                        .reduced = reduces ? edges * n : 0};
}

/* An allreduce among `places` ranks, each of which has the load `each`. The surplus ranks (surplus.h) send
 * their vector before it and receive the result after it. */
static inline gcoll_load gcoll_load_with_surplus(const gcoll_problem *problem, double places,
                                                 gcoll_load each) {
    const double surplus = problem->size - places, n = (double)problem->count;
    return (gcoll_load){.hops = each.hops + (surplus > 0 ? 2 : 0),
                        .messages = places * each.messages + 2 * surplus,
                        .sent = places * each.sent + 2 * surplus * n,
                        .reduced = places * each.reduced + surplus * n};
}

#endif
