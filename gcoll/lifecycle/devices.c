/* gcoll/lifecycle/devices.c - lists the network devices of all transports. */
#include "gcoll/base/base.h"
#include "gcoll/gcoll.h"
#include "transport/transport.h"

gcoll_status gcoll_devices(gcoll_device_fn fn, void *arg) {
    if (!fn)
        return gcoll_error(GCOLL_ERR_INVALID, "fn: is NULL");
    for (const gcoll_transport *const *at = gcoll_transports; *at; at++)
        if ((*at)->list)
            (*at)->list(fn, arg);
    return GCOLL_OK;
}
