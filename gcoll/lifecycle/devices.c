/* gcoll/lifecycle/devices.c - lists the transports, their options, and what they can use on this machine. */
#include <string.h>

#include "gcoll/base/base.h"
#include "gcoll/gcoll.h"
#include "gcoll/lifecycle/lifecycle.h"
#include "transport/lane.h"

gcoll_status gcoll_transport_at(uint32_t index, const char **name) {
    uint32_t count = 0;
    if (!name)
        return gcoll_error(GCOLL_ERR_INVALID, "name: is NULL");
    while (gcoll_transports[count])
        count++;
    if (index >= count)
        return gcoll_error(GCOLL_ERR_NOT_FOUND, "index: is %u; allowed are 0 to %u", index, count - 1);
    *name = gcoll_transports[index]->name;
    return GCOLL_OK;
}

gcoll_status gcoll_transport_parse(const char *text, const char **name) {
    gcoll_network network = {0};
    if (!name)
        return gcoll_error(GCOLL_ERR_INVALID, "name: is NULL");
    gcoll_status status = gcoll_network_find(&network, text, "transport");
    if (status != GCOLL_OK)
        return status;
    *name = network.transport->name;
    gcoll_network_free(&network);
    return GCOLL_OK;
}

gcoll_status gcoll_transport_options(const char *transport, gcoll_transport_option_fn fn, void *arg) {
    const gcoll_lane_row *lane = gcoll_lane_rows;
    char allowed[GCOLL_LANE_ALLOWED_MAX];
    if (!transport || !fn)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", transport ? "fn" : "transport");
    while (lane->name && strcmp(lane->name, transport) != 0)
        lane++;
    if (!lane->name)
        return gcoll_error(GCOLL_ERR_NOT_FOUND, "transport: is '%.40s'; gcoll_transport_at lists them",
                           transport);
    for (const gcoll_lane_option *o = lane->options; o && o->name; o++) {
        gcoll_lane_allowed(o, allowed);
        fn(arg, &(const gcoll_transport_option){.name = o->name,
                                                .allowed = allowed,
                                                .initial = o->initial,
                                                .help = o->help,
                                                .variable = o->variable ? o->variable : "",
                                                .field = o->field ? o->field : ""});
    }
    return GCOLL_OK;
}

gcoll_status gcoll_devices(gcoll_device_fn fn, void *arg) {
    if (!fn)
        return gcoll_error(GCOLL_ERR_INVALID, "fn: is NULL");
    for (const gcoll_lane_row *row = gcoll_lane_rows; row->name; row++)
        if (row->lane && row->lane->list)
            row->lane->list(fn, arg);
    return GCOLL_OK;
}
