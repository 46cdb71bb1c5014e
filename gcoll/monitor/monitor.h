/*
 * gcoll/monitor/monitor.h - the monitor of options.monitor: when ranks come to their calls, and what those do
 * about it.
 *
 * The rest of the core knows it by hooks (context/hooks.h) and as a kind of work (live/live.h) only. Which
 * monitor there is, decides the object that is linked: monitor.c, or absent.c.
 */
#ifndef GCOLL_MONITOR_MONITOR_H
#define GCOLL_MONITOR_MONITOR_H

#include "gcoll/live/live.h"

typedef struct gcoll_monitor {
    const gcoll_activity *activity;
    /* Sets the hooks of the context. */
    gcoll_status (*create)(gcoll_context *context);
    /* Writes what was seen to standard error, if the environment asks for it. Nothing if there is none. */
    void (*print)(gcoll_context *context);
    /* The endpoint must be closed. Nothing if there is none. */
    void (*destroy)(gcoll_context *context);
} gcoll_monitor;

extern const gcoll_monitor gcoll_monitor_linked;

#endif
