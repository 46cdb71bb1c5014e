/* tools/compare.h - what `gcoll_plan compare` found. */
#ifndef GCOLL_PLAN_TOOL_COMPARE_H
#define GCOLL_PLAN_TOOL_COMPARE_H

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
    double *seconds;    /* by point, then target; below 0: does not apply there */
    char (*names)[256]; /* as seconds: with the options that were found by cost */
} tool_comparison;

/* By gnuplot, into --plot. False: it has been said. */
bool tool_plot(const tool_comparison *comparison);

#endif
