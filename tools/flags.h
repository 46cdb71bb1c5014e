/* tools/flags.h - the flags of gcoll_plan. */
#ifndef GCOLL_TOOL_FLAGS_H
#define GCOLL_TOOL_FLAGS_H

#include <stdio.h>

#include "tools/options.h"

/* argv[0] is the subcommand. False: it has been said what is wrong. */
bool tool_flags_parse(tool_options *options, uint32_t command, int argc, char **argv);
void tool_flags_print(FILE *file, uint32_t command);

#endif
