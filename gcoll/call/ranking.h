/* gcoll/call/ranking.h - all algorithms that could serve a call, for those who explain and those who try
 * them. */
#ifndef GCOLL_CALL_RANKING_H
#define GCOLL_CALL_RANKING_H

#include "gcoll/call/call.h"
#include "gcoll/tuning/tuning.h"

/* Those that can be used come first, the cheapest first; then the others, in the order of the table. */
typedef struct gcoll_ranking {
    gcoll_candidate *candidates; /* free() */
    size_t count, capacity;
    bool short_of_memory; /* candidates are missing */
} gcoll_ranking;

/* Fills an empty ranking, also if no algorithm serves. *choice: what auto takes, by the rule of a tuning file
 * or, with *rule NULL, by cost. If a chosen algorithm depends on hosts, problem->node is set. Errors: those
 * of gcoll_choose, and NO_MEMORY. */
gcoll_status gcoll_call_rank(gcoll_context *context, const gcoll_call *call, gcoll_problem *problem,
                             gcoll_ranking *ranking, gcoll_choice *choice, const gcoll_tuning_rule **rule);
/* Sets the options and the segment of a problem to those of a choice. */
void gcoll_call_set_choice(gcoll_problem *problem, const gcoll_choice *choice, size_t type_bytes);

#endif
