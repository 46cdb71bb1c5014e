/* transport/transports.c - the transports of this build. "auto" takes the first. And the lanes that a text
 * for options.transport may name, with their options. */
#include "transport/ibverbs/options.h"
#include "transport/lanes.h"
#include "transport/transport.h"

const gcoll_transport *const gcoll_transports[] = {&gcoll_transport_tcp, &gcoll_transport_inproc,
                                                   &gcoll_transport_ibverbs, NULL};

static const gcoll_lane_option tcp_options[] = {
    {.name = "eager_bytes",
     .form = GCOLL_LANE_SIZE,
     .least = 1,
     .most = INT64_C(1) << 30,
     .help = "messages up to this size are sent before the receiver asks",
     .initial = "256Ki"},
    {.name = "pool_bytes",
     .form = GCOLL_LANE_SIZE,
     .least = INT64_C(1) << 10,
     .most = INT64_C(1) << 31,
     .help = "most bytes held for one peer that no operation waits for yet",
     .initial = "4Mi"},
    {.name = NULL},
};

const gcoll_lane gcoll_lanes[] = {
    {"tcp", tcp_options}, {"inproc", NULL}, {"ibverbs", gcoll_ib_lane_options}, {NULL, NULL}};
