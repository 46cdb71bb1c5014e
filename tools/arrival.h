/* tools/arrival.h - what `gcoll_plan arrival` finds out. */
#ifndef GCOLL_PLAN_TOOL_ARRIVAL_H
#define GCOLL_PLAN_TOOL_ARRIVAL_H

#include "tools/ring.h"

/* Seconds. */
typedef struct tool_lateness {
    double elapsed;   /* the mean over the ranks of exit minus own arrival */
    double from_mean; /* from the mean arrival until the last rank is done */
    double from_last; /* from the last arrival until then */
} tool_lateness;

/* Of a simulation with these arrivals (NULL: all at 0). */
tool_lateness tool_lateness_of(const gcoll_simulation *simulation, const double *arrival);

/* The ring of least mean elapsed for an allreduce like shape's: of all, if these are no more than
 * options->tries, else of as many as that, by local search from those that the planners make. *all is which.
 * False: it has been said. */
bool tool_search(const tool_options *options, const tool_shape *shape, tool_ring *best, bool *all,
                 tool_lateness *found);
/* How many rings tool_search tries: --tries, or all. */
uint64_t tool_search_tries(const tool_options *options, uint32_t size);

#endif
