/* tools/compare.h - what `gcoll_plan compare` found. */
#ifndef GCOLL_PLAN_TOOL_COMPARE_H
#define GCOLL_PLAN_TOOL_COMPARE_H

#include "tools/simulate.h"
#include "tools/verify.h"

typedef struct tool_point {
    uint32_t ranks;
    uint64_t bytes;
} tool_point;

typedef struct tool_comparison {
    const tool_options *options;
    tool_targets targets;
    tool_point *points;
    size_t point_count;
    tool_time *times;   /* by point, then target */
    char (*names)[256]; /* as times: with the options that were found by cost */
} tool_comparison;

/* Whether --plot can be written; nothing is left behind. False: it has been said. */
bool tool_plot_may_be_written(const char *path);
/* By gnuplot, into --plot. False: it has been said. */
bool tool_plot(const tool_comparison *comparison);

#endif
