/* transport/ibverbs/absent.c - stands in for the transport in a build without the headers of rdma-core. */
#include <string.h>

#include "transport/ibverbs/counters.h"

static gcoll_status absent_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                                gcoll_endpoint **endpoint) {
    (void)options;
    (void)events;
    (void)endpoint;
    return gcoll_error(
        GCOLL_ERR_UNSUPPORTED,
        "transport 'ibverbs': this gcoll was built without it (GCOLL_IBVERBS, libibverbs-dev)");
}

void gcoll_ib_get_counters(gcoll_endpoint *endpoint, gcoll_ib_counters *counters) {
    (void)endpoint;
    memset(counters, 0, sizeof *counters);
}

static void absent_list(gcoll_device_fn fn, void *arg) {
    gcoll_device none = {.transport = "ibverbs",
                         .name = "",
                         .gid_index = -1,
                         .address = "",
                         .kind = "",
                         .state = "this gcoll was built without it (GCOLL_IBVERBS, libibverbs-dev)"};
    fn(arg, &none);
}

/* Nothing else is called, as there is no endpoint. */
const gcoll_transport gcoll_transport_ibverbs = {.name = "ibverbs", .list = absent_list, .open = absent_open};
