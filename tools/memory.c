/* tools/memory.c - buffers in the memory of devices. */
#include <stdlib.h>
#include <string.h>

#include "tools/memory.h"

/* Whether buffers lie in device memory. By default they do for rows with a staging of their own. */
static bool is_on_devices(const tool_options *o, const gcoll_algorithm *a) {
    return o->memory == TOOL_MEMORY_BY_ROW ? a->staging != NULL : o->memory == TOOL_DEVICE_MEMORY;
}

bool tool_memory_fits(const tool_options *o, const gcoll_algorithm *a) {
    const bool stages = o->local_given || o->whole;
    if ((o->devices > 0 || stages) && !is_on_devices(o, a))
        cli_complain("%s: there are no buffers in device memory; give --memory device",
                     o->devices > 0   ? "--devices"
                     : o->local_given ? "--local-reduction"
                                      : "--whole");
    else if (stages && a->staging)
        cli_complain("%s: %s says by itself how it stages; allowed for all others",
                     o->local_given ? "--local-reduction" : "--whole", a->name);
    else
        return true;
    return false;
}

/* The first buffers on the first device, and so on. */
void tool_place_buffers(const tool_options *o, const gcoll_algorithm *a, gcoll_problem *p, uint32_t *memory) {
    const uint32_t devices = o->devices ? o->devices : 1;
    if (!is_on_devices(o, a))
        return;
    for (uint32_t k = 0; k < p->buffers; k++)
        memory[k] = GCOLL_DEVICE_MEMORY((uint32_t)((uint64_t)k * devices / p->buffers));
    p->in_memory = p->out_memory = memory;
    p->staging.local = o->local;
    p->staging.whole = o->whole;
}
