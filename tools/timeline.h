/* tools/timeline.h - a run in virtual time, as a Chrome trace. */
#ifndef GCOLL_TOOL_TIMELINE_H
#define GCOLL_TOOL_TIMELINE_H

#include "gcoll/simulate.h"
#include "tools/job.h"

/* Chrome trace JSON. */
bool tool_write_timeline(const char *path, const tool_job *job, const gcoll_simulation *simulation);

#endif
