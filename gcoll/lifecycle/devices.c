/* gcoll/lifecycle/devices.c - lists the transports, and what they can use on this machine. */
#include "gcoll/base/base.h"
#include "gcoll/gcoll.h"
#include "transport/transport.h"

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

gcoll_status gcoll_devices(gcoll_device_fn fn, void *arg) {
    if (!fn)
        return gcoll_error(GCOLL_ERR_INVALID, "fn: is NULL");
    for (const gcoll_transport *const *at = gcoll_transports; *at; at++)
        if ((*at)->list)
            (*at)->list(fn, arg);
    return GCOLL_OK;
}
