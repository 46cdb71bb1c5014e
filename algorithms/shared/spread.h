/* algorithms/shared/spread.h - a reduce-scatter in one step, by any tree.
 *
 * Every rank sends each other rank the block that this one is to reduce. A rank so has all contributions to
 * its own block, and combines them by the tree that the problem's `order` names: that of pairs, if it names
 * none. Several buffers of a rank are leaves of the tree. Before it sends, a rank combines those leaves that
 * make up a subtree, so it sends few subtrees instead of all buffers. */
#ifndef GCOLL_ALGORITHMS_SPREAD_H
#define GCOLL_ALGORITHMS_SPREAD_H

#include "algorithms/planners.h"

/* Option 0 of allreduce and reduce. The planner takes all ranks if it gets GCOLL_BY_COST. */
#define GCOLL_SPREAD_OWNERS                                                                                  \
    {                                                                                                        \
        "owners", "ranks that reduce a part each, from the root on; all if there are fewer; -1: by cost",    \
            GCOLL_BY_COST, GCOLL_BY_COST, GCOLL_MAX_RANKS, NULL, true                                        \
    }

/* How many ranks have a block to reduce; where that of rank r begins, and how many elements it has. */
uint32_t gcoll_spread_owners(const gcoll_problem *problem);
uint64_t gcoll_spread_begin(const gcoll_problem *problem, uint32_t r);
uint64_t gcoll_spread_count(const gcoll_problem *problem, uint32_t r);
/* Elements of the largest block. */
double gcoll_spread_largest(const gcoll_problem *problem);

/* Plans it; this rank's block ends at `result`, in OUT or in scratch. With one rank, that is the result. */
void gcoll_spread_plan(const gcoll_problem *problem, gcoll_builder *b, gcoll_ref result);

/* Copies OUT[0] to the other outputs, where the planner serves all buffers of the process. */
void gcoll_spread_copies(const gcoll_problem *problem, gcoll_builder *b);

/* GCOLL_CLAIM_* of an algorithm that combines by it only. */
uint32_t gcoll_spread_claims(const gcoll_problem *problem);

/* Cost and load of the reduce-scatter alone. With several buffers, turns, elements and scratch are upper
 * bounds. */
gcoll_cost gcoll_spread_cost(const gcoll_problem *problem);
gcoll_load gcoll_spread_load(const gcoll_problem *problem);

#endif
