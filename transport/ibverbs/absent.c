/* transport/ibverbs/absent.c - stands in for the lane in a build without the headers of rdma-core. */
#include <string.h>

#include "transport/ibverbs/counters.h"
#include "transport/lane.h"

static const char *const reason = "this gcoll was built without it (GCOLL_IBVERBS, libibverbs-dev)";

static gcoll_status absent_open(gcoll_net *net, const gcoll_endpoint_options *options,
                                gcoll_lane_port **port) {
    (void)net;
    (void)options;
    (void)port;
    return gcoll_error(GCOLL_ERR_UNSUPPORTED, "transport 'ibverbs': %s", reason);
}

void gcoll_ib_get_counters(gcoll_endpoint *endpoint, gcoll_ib_counters *counters) {
    (void)endpoint;
    memset(counters, 0, sizeof *counters);
}

static void absent_list(gcoll_device_fn fn, void *arg) {
    gcoll_device none = {
        .transport = "ibverbs", .name = "", .gid_index = -1, .address = "", .kind = "", .state = reason};
    fn(arg, &none);
}

/* Nothing else is called, as there is no port. */
const gcoll_lane gcoll_lane_ibverbs = {.name = "ibverbs",
                                       .number = GCOLL_LANE_IBVERBS,
                                       .is_clear = true,
                                       .list = absent_list,
                                       .open = absent_open};
