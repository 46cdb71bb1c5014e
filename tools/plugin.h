/* tools/plugin.h - algorithms from shared objects of the user's. */
#ifndef GCOLL_TOOL_PLUGIN_H
#define GCOLL_TOOL_PLUGIN_H

#include "tools/options.h"

/* Opens a shared object of algorithms and adds them to the registry. */
cli_reader tool_load; /* of the options */
void tool_unload(tool_options *options);

#endif
