/* transport/lanes.c - the lanes of this build, the best first. */
#include "transport/lane.h"

const gcoll_lane *const gcoll_lanes[] = {&gcoll_lane_ibverbs, &gcoll_lane_tcp, NULL};
