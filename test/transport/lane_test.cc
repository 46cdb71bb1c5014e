// test/transport/lane_test.cc - which lane two ranks take, and what a lane needs: by the one of pipe_lane.c.
//
// This program has the lanes pipe and tcp. It also holds the whole contract of transports against the lane
// pipe (transport_test.cc), as transport "pipe".
#include "test/transport/raw_peer.h"

extern "C" {
#include "transport/lane.h"
extern uint32_t pipe_lane_refuses;
}

using namespace harness;

namespace {

gcoll_status open_with(const std::vector<const char *> &names, const gcoll_endpoint_options *options,
                       const gcoll_events *events, gcoll_endpoint **endpoint) {
    std::vector<gcoll_lane_row> rows(names.size());
    std::vector<gcoll_lane_choice> lanes(names.size());
    for (size_t i = 0; i < names.size(); i++) {
        rows[i].name = names[i];
        lanes[i].lane = &rows[i];
    }
    gcoll_endpoint_options with = *options;
    with.lanes = lanes.data();
    with.lane_count = static_cast<uint32_t>(lanes.size());
    return gcoll_transport_tcp.open(&with, events, endpoint);
}

// What each rank offers in the test that runs; else pipe alone.
std::vector<std::vector<const char *>> offers;

gcoll_transport with_pipes() {
    gcoll_transport transport = gcoll_transport_tcp;
    transport.name = "pipe";
    transport.open = [](const gcoll_endpoint_options *options, const gcoll_events *events,
                        gcoll_endpoint **endpoint) {
        const std::vector<const char *> pipe = {"pipe"};
        return open_with(options->rank < offers.size() ? offers[options->rank] : pipe, options, events,
                         endpoint);
    };
    return transport;
}

const gcoll_transport pipe_transport = with_pipes();
const int tests_pipe = setenv("GCOLL_TEST_TRANSPORTS", "pipe", 0);

class Lanes : public testing::Test {
  protected:
    void SetUp() override {
        offers.clear();
        pipe_lane_refuses = 0;
    }
    void TearDown() override { SetUp(); }
};

std::string lane(Group &group, uint32_t rank, uint32_t peer) {
    char text[1024];
    pipe_transport.explain(group[rank].endpoint, peer, text, sizeof text);
    return text;
}

// Every rank sends messages of all sizes to every other.
void exchange(Group &group) {
    for (uint32_t r = 0; r < group.size(); r++)
        group.connect(group[r]);
    for (uint32_t r = 0; r < group.size(); r++)
        for (uint32_t peer = 0; peer < group.size(); peer++)
            for (uint32_t i = 0; peer != r && i < 12; i++) {
                group[r].send(peer, 5, i, i < 2 ? i : uint64_t{1} << (2 * i - 1));
                group[r].receive(peer, 5, i, i < 2 ? i : uint64_t{1} << (2 * i - 1));
            }
    EXPECT_TRUE(group.turn_until_done());
}

TEST_F(Lanes, TheLowerRanksOrderCounts) {
    offers = {{"pipe", "tcp"}, {"tcp", "pipe"}, {"tcp", "pipe"}};
    Group group(&pipe_transport, 3);
    exchange(group);
    EXPECT_EQ(lane(group, 0, 1), "pipe");
    EXPECT_EQ(lane(group, 1, 0), "pipe");
    EXPECT_EQ(lane(group, 1, 2), "tcp");
    EXPECT_EQ(lane(group, 2, 1), "tcp");
}

TEST_F(Lanes, AJobMayMixThem) {
    offers = {{"pipe", "tcp"}, {"tcp"}, {"pipe", "tcp"}, {"tcp", "pipe"}, {"pipe", "tcp"}};
    pipe_lane_refuses = 1U << 4;
    Group group(&pipe_transport, 5);
    exchange(group);
    EXPECT_EQ(lane(group, 0, 2), "pipe");
    EXPECT_EQ(lane(group, 0, 1), "tcp (pipe: the other rank does not offer it)");
    EXPECT_EQ(lane(group, 1, 0), "tcp");
    EXPECT_EQ(lane(group, 2, 3), "pipe");
    EXPECT_EQ(lane(group, 4, 0), "tcp (pipe: has no pipes today)");
    EXPECT_EQ(lane(group, 0, 4), "tcp (pipe: refused by the other rank: has no pipes today)");
}

TEST_F(Lanes, BothRefusing) {
    offers = {{"pipe", "tcp"}, {"pipe", "tcp"}};
    pipe_lane_refuses = 3;
    for (int i = 0; i < 20; i++) {
        Group group(&pipe_transport, 2);
        exchange(group);
        EXPECT_EQ(lane(group, 0, 1).substr(0, 3), "tcp");
    }
}

TEST_F(Lanes, WithoutACommonOneNobodyIsBlamed) {
    offers = {{"pipe"}, {"tcp"}};
    Group group(&pipe_transport, 2);
    group.connect(0, 1);
    for (uint32_t r = 0; r < 2; r++) {
        EXPECT_TRUE(group.turn([&] { return !group[r].failed.empty(); }));
        ASSERT_EQ(group[r].failed.size(), 1u);
        EXPECT_EQ(group[r].failed[0].status, GCOLL_ERR_MISMATCH);
    }
    EXPECT_EQ(group[0].failed[0].text, "offers transport tcp, and this rank pipe: none is the same");
    EXPECT_EQ(group[1].failed[0].text, "offers transport pipe, and this rank tcp: none is the same");
}

TEST_F(Lanes, TheLastOneRefusedFailsBoth) {
    offers = {{"pipe"}, {"pipe"}};
    pipe_lane_refuses = 1;
    Group group(&pipe_transport, 2);
    group.connect(0, 1);
    for (uint32_t r = 0; r < 2; r++)
        EXPECT_TRUE(group.turn([&] { return !group[r].failed.empty(); }));
    EXPECT_EQ(group[0].failed[0].text, "has no pipes today");
    EXPECT_EQ(group[1].failed[0].text,
              "cannot be reached by pipe (refused by the other rank: has no pipes today)");
}

} // namespace

extern "C" {
const gcoll_transport *const gcoll_transports[] = {&pipe_transport, nullptr};
}
