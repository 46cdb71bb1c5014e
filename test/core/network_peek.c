/* test/core/network_peek.c - looks into a context; see network_peek.h. */
#include "test/core/network_peek.h"

#include "gcoll/context/context.h"
#include "test/transport/lanes_text.h"
#include "transport/lane.h"

void network_look(const gcoll_context *context, network_seen *seen) {
    const gcoll_endpoint_options *endpoint = &context->settings.endpoint;
    seen->transport = context->transport->name;
    seen->interface = endpoint->interface;
    gcoll_lane_limits(endpoint, context->transport->name, &seen->eager_bytes, &seen->pool_bytes);
    seen->lane_count = endpoint->lane_count;
    seen->ibverbs = endpoint->ibverbs;
    write_lanes(endpoint->lanes, endpoint->lane_count, seen->lanes, sizeof seen->lanes);
}
