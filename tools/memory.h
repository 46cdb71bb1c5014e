/* tools/memory.h - buffers in the memory of devices. */
#ifndef GCOLL_TOOL_MEMORY_H
#define GCOLL_TOOL_MEMORY_H

#include "tools/options.h"

/* False: the flags about devices mean nothing for this algorithm, which has been said. */
bool tool_memory_fits(const tool_options *options, const gcoll_algorithm *algorithm);
/* Where the buffers of every rank lie, into `memory`, an entry a buffer, and how they are staged. */
void tool_place_buffers(const tool_options *options, const gcoll_algorithm *algorithm, gcoll_problem *problem,
                        uint32_t *memory);

#endif
