/* tools/output.h - where results are written. */
#ifndef GCOLL_TOOL_OUTPUT_H
#define GCOLL_TOOL_OUTPUT_H

#include <stdio.h>

#include "tools/options.h"

/* --output or standard output; NULL: it has been said. */
FILE *tool_open_output(const tool_options *options);
/* False: it could not be written, which has been said. */
bool tool_close_output(const tool_options *options, FILE *file);

/* About how long plans of so many ranks take, in the units of cli_progress. */
double tool_work_of(uint64_t ranks);
/* Begins the terminal's line of a command that goes over --ranks, with `cases` each, or 1 where that is 0. */
void tool_grid_begin(const char *name, const tool_options *options, size_t cases);

#endif
