/* tools/simulate.h - plans in virtual time. */
#ifndef GCOLL_TOOL_SIMULATE_H
#define GCOLL_TOOL_SIMULATE_H

#include "gcoll/simulate.h"
#include "tools/job.h"

/* With events, if asked. NULL: it has been said. */
gcoll_simulation *tool_run_job(const tool_options *options, const tool_job *job, bool timeline);
typedef struct tool_time {
    double seconds, own; /* until the last rank is done; a rank's own, on average. < 0: does not apply, and by
                          * formula nothing is known of `own` */
} tool_time;

/* What a shape takes, by simulation or --by formula. False: it has been said. */
bool tool_time_job(const tool_options *options, const tool_shape *shape, tool_time *time);

#endif
