// test/transport/shm_support.h - looks into the shared memory of two ranks.
#ifndef GCOLL_SHM_SUPPORT_H
#define GCOLL_SHM_SUPPORT_H

#include "test/transport/transport_harness.h"

extern "C" {
#include "transport/session/connect.h"
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

// shm with these options. For the endpoints that are opened while it lives.
class Lanes {
  public:
    explicit Lanes(const char *text) { text_ = text; }
    ~Lanes() { text_ = "shm"; }
    Lanes(const Lanes &) = delete;
    Lanes &operator=(const Lanes &) = delete;
    static const gcoll_transport *transport() {
        static const gcoll_transport made = [] {
            gcoll_transport transport = gcoll_transport_shm;
            transport.open = [](const gcoll_endpoint_options *options, const gcoll_events *events,
                                gcoll_endpoint **endpoint) {
                gcoll_lane_choice *lanes = nullptr;
                gcoll_endpoint_options with = *options;
                EXPECT_EQ(gcoll_lanes_parse(gcoll_lane_rows, "a test", text_, &lanes, &with.lane_count),
                          GCOLL_OK)
                    << gcoll_last_error();
                with.lanes = lanes;
                const gcoll_status status = gcoll_transport_shm.open(&with, events, endpoint);
                free(lanes);
                return status;
            };
            return transport;
        }();
        return &made;
    }

  private:
    static inline const char *text_ = "shm";
};

inline const gcoll_transport *shm() {
    return Lanes::transport();
}

} // namespace harness

#endif
