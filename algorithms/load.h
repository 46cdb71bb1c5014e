/* algorithms/load.h - what all ranks do together, of algorithms that go along the edges of a tree, and of
 * such that fold. */
#ifndef GCOLL_ALGORITHMS_LOAD_H
#define GCOLL_ALGORITHMS_LOAD_H

#include "algorithms/planners.h"

/* The vector goes over each of the P-1 edges of a tree, in `parts` messages: one way, or up and down for an
 * allreduce; on the way up it is reduced. hops 0: as many as steps. */
static inline gcoll_load gcoll_load_tree(const gcoll_problem *problem, double parts, double hops) {
    const double edges = problem->size - 1.0, n = (double)problem->count;
    const double ways = problem->collective == GCOLL_ALLREDUCE ? 2 : 1;
    const bool reduces = problem->collective == GCOLL_ALLREDUCE || problem->collective == GCOLL_REDUCE;
    return (gcoll_load){.hops = hops,
                        .messages = ways * edges * parts,
                        .sent = ways * edges * n,
                        .reduced = reduces ? edges * n : 0};
}

/* An allreduce of `places` ranks, which do what `each` says; the others hand their vector to one of these
 * first, and get the result in the end. */
static inline gcoll_load gcoll_load_folded(const gcoll_problem *problem, double places, gcoll_load each) {
    const double folded = problem->size - places, n = (double)problem->count;
    return (gcoll_load){.hops = each.hops + (folded > 0 ? 2 : 0),
                        .messages = places * each.messages + 2 * folded,
                        .sent = places * each.sent + 2 * folded * n,
                        .reduced = places * each.reduced + folded * n};
}

#endif
