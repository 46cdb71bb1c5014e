/* tools/output.h - where results are written. */
#ifndef GCOLL_TOOL_OUTPUT_H
#define GCOLL_TOOL_OUTPUT_H

#include <stdio.h>

#include "tools/options.h"

/* --output or standard output; NULL: it has been said. */
FILE *tool_open_output(const tool_options *options);
/* False: it could not be written, which has been said. */
bool tool_close_output(const tool_options *options, FILE *file);

#endif
