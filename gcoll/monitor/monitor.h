/*
 * gcoll/monitor/monitor.h - the interface of the monitor (options.monitor): it measures when ranks arrive at
 * their calls, and selects plans for ranks that arrive late.
 *
 * The rest of the core knows it only by hooks (context/hooks.h) and as an activity (live/live.h). The object
 * that is linked decides whether there is a monitor: monitor.c, or absent.c.
 */
#ifndef GCOLL_MONITOR_MONITOR_H
#define GCOLL_MONITOR_MONITOR_H

#include "gcoll/live/live.h"

typedef struct gcoll_monitor {
    const gcoll_activity *activity;
    /* Creates context->arrival and sets the hooks of the context. */
    gcoll_status (*create)(gcoll_context *context);
    /* Writes the statistics to standard error if GCOLL_ARRIVAL_STATS asks for it. Does nothing without a
     * monitor. */
    void (*print)(gcoll_context *context);
    /* Requires a closed endpoint. Does nothing without a monitor. */
    void (*destroy)(gcoll_context *context);
} gcoll_monitor;

extern const gcoll_monitor gcoll_monitor_linked;

#endif
