/* tools/memory.c - buffers in the memory of devices: the flags about them, and where they lie. */
#include <stdlib.h>
#include <string.h>

#include "tools/plan_tool.h"

#define MOST_TIME 1e9

/* ---- Flags ----------------------------------------------------------------------------------------------
 */

bool tool_set_memory(tool_options *o, const char *flag, const char *text) {
    o->memory = strcmp(text, "device") == 0 ? TOOL_DEVICE_MEMORY : TOOL_HOST_MEMORY;
    return o->memory == TOOL_DEVICE_MEMORY || strcmp(text, "host") == 0 ||
           cli_bad(flag, text, "host, device");
}

bool tool_set_devices(tool_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, GCOLL_MAX_DEVICES, &o->devices);
}

bool tool_set_local(tool_options *o, const char *flag, const char *text) {
    static const char *const words[GCOLL_LOCAL_COUNT] = {"auto", "host", "device", "peer"};
    o->local_given = true;
    for (int i = 0; i < GCOLL_LOCAL_COUNT; i++)
        if (strcmp(text, words[i]) == 0) {
            o->local = (gcoll_local)i;
            return true;
        }
    return cli_bad(flag, text, "auto, host, device, peer");
}

bool tool_set_whole(tool_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->whole = true;
}

bool tool_set_device_alpha(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->device_alpha_us);
}

bool tool_set_device_in(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->device_in_ns);
}

bool tool_set_device_out(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->device_out_ns);
}

bool tool_set_device_within(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->device_within_ns);
}

/* ---- Where buffers lie ----------------------------------------------------------------------------------
 */

/* Rows that say how device memory is staged have their buffers there, unless it is said otherwise. */
static bool is_on_devices(const tool_options *o, const gcoll_algorithm *a) {
    return o->memory == TOOL_MEMORY_BY_ROW ? a->staging != NULL : o->memory == TOOL_DEVICE_MEMORY;
}

bool tool_memory_fits(const tool_options *o, const gcoll_algorithm *a) {
    const bool stages = o->local_given || o->whole;
    if ((o->devices > 0 || stages) && !is_on_devices(o, a))
        cli_complain("%s: there are no buffers in device memory; give --memory device",
                     o->devices > 0   ? "--devices"
                     : o->local_given ? "--local"
                                      : "--whole");
    else if (stages && a->staging != NULL)
        cli_complain("%s: %s says by itself how it stages; allowed for all others",
                     o->local_given ? "--local" : "--whole", a->name);
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
