/* tools/cli_plugin.h - shared objects of algorithms, as gcoll/plan.h describes them. */
#ifndef GCOLL_CLI_PLUGIN_H
#define GCOLL_CLI_PLUGIN_H

#include "gcoll/plan.h"

/* Opens one, which must be of this version of gcoll: its algorithms, ended by NULL, and what cli_unload
 * takes. NULL: has been said. */
const gcoll_algorithm *const *cli_load(const char *flag, const char *path, void **object);
void cli_unload(void *object);

#endif
