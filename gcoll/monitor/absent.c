/* gcoll/monitor/absent.c - refuses options.monitor in a library that was linked without the monitor. */
#include "gcoll/monitor/monitor.h"

static gcoll_status create(gcoll_context *context) {
    (void)context;
    return gcoll_error(GCOLL_ERR_UNSUPPORTED, "options.monitor: this gcoll was built without it");
}

static void nothing(gcoll_context *context) {
    (void)context;
}

const gcoll_monitor gcoll_monitor_linked = {.create = create, .print = nothing, .destroy = nothing};
