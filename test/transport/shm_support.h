// test/transport/shm_support.h - looks into the shared memory of two ranks.
#ifndef GCOLL_SHM_SUPPORT_H
#define GCOLL_SHM_SUPPORT_H

#include "test/transport/transport_harness.h"

extern "C" {
#include "transport/session/session.h"
#include "transport/shm/shm.h"
}

namespace harness {

inline gcoll_shm_pair *pair_of(Rank &rank, uint32_t peer) {
    return static_cast<gcoll_shm_pair *>(
        gcoll_session_lane_state(gcoll_net_session(gcoll_net_of(rank.endpoint), peer)));
}

// Those that a process takes with its first endpoint.
inline void take_descriptors_of_process() {
    Group group(&gcoll_transport_tcp, 2);
    meet(group);
}

} // namespace harness

#endif
