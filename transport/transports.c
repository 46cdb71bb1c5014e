/* transport/transports.c - the transports and the lanes of this build, and what a text for options.transport
 * may name, with its options. */
#include "transport/ibverbs/options.h"
#include "transport/lane.h"
#include "transport/transport.h"

const gcoll_transport *const gcoll_transports[] = {&gcoll_transport_tcp, &gcoll_transport_inproc,
                                                   &gcoll_transport_ibverbs, NULL};

const gcoll_lane *const gcoll_lanes[] = {&gcoll_lane_ibverbs, &gcoll_lane_tcp, NULL};

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

const gcoll_lane_row gcoll_lane_rows[] = {
    {"tcp", tcp_options}, {"inproc", NULL}, {"ibverbs", gcoll_ib_lane_options}, {NULL, NULL}};
