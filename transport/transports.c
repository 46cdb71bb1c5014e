/* transport/transports.c - the transports of this build, and the lanes that a text for options.transport may
 * name. A new lane needs a row here, its declaration and number in lane.h, and its sources in CMakeLists.txt.
 */
#include "transport/ibverbs/options.h"
#include "transport/lane.h"
#include "transport/shm/shm.h"
#include "transport/transport.h"

const gcoll_transport *const gcoll_transports[] = {&gcoll_transport_tcp, &gcoll_transport_inproc,
                                                   &gcoll_transport_shm, &gcoll_transport_ibverbs, NULL};

const gcoll_lane_row gcoll_lane_rows[] = {{"tcp", gcoll_tcp_options, &gcoll_lane_tcp},
                                          {"inproc", NULL, NULL},
                                          {"shm", gcoll_shm_options, &gcoll_lane_shm},
                                          {"ibverbs", gcoll_ib_lane_options, &gcoll_lane_ibverbs},
                                          {NULL, NULL, NULL}};
