// Queue pairs of ibverbs that break: both ends are told what happened, soon. Needs a device.
#include "test/transport/ibverbs_support.h"
#include "test/transport/transport_harness.h"

extern "C" {
#include "transport/ibverbs/pair.h"
}

using namespace harness;

namespace {

constexpr uint64_t kLarge = 1 << 20;
constexpr auto kSoon = std::chrono::seconds(8); // half a second where processors are not emulated

gcoll_ib_pair *pair_of(gcoll_ib *ib, uint32_t rank) {
    return static_cast<gcoll_ib_pair *>(gcoll_session_lane_state(gcoll_net_session(ib->net, rank)));
}

// Two ranks whose queue pairs stand, and which wait for a large message of one another.
class Two : public harness::Group {
  public:
    Two() : Group(&gcoll_transport_ibverbs, 2) {
        connect(0, 1);
        for (uint32_t r = 0; r < 2; r++) {
            (*this)[r].send(1 - r, 99, 0, 8);
            (*this)[r].receive(1 - r, 99, 0, 8);
        }
        EXPECT_TRUE(turn_until_done());
        for (uint32_t r = 0; r < 2; r++)
            (*this)[r].receive(1 - r, 1, 0, kLarge);
    }
    void push(uint32_t rank, ibv_qp_state state) {
        gcoll_endpoint *endpoint = (*this)[rank].endpoint;
        gcoll_ib *ib = gcoll_ib_of(gcoll_net_port(endpoint, &gcoll_lane_ibverbs));
        ibv_qp_attr attributes = {};
        attributes.qp_state = state;
        ASSERT_EQ(ib->verbs.modify_qp(pair_of(ib, 1 - rank)->qp, &attributes, IBV_QP_STATE), 0);
    }
    // This rank is told once, of the other one, in these words.
    void expect_failed(uint32_t rank, const char *words) {
        const auto &failed = (*this)[rank].failed;
        ASSERT_EQ(failed.size(), 1u) << "rank " << rank;
        EXPECT_EQ(failed[0].peer, 1 - rank);
        EXPECT_EQ(failed[0].status, GCOLL_ERR_PEER);
        EXPECT_NE(failed[0].text.find(words), std::string::npos) << failed[0].text;
    }
};

class IbverbsFailure : public ibverbs_support::NeedsDevice {};

TEST_F(IbverbsFailure, AQueuePairInErrorIsToldOfOnBothSides) {
    Two two;
    const auto begun = Clock::now();
    two.push(0, IBV_QPS_ERR);
    for (uint32_t r = 0; r < 2; r++)
        two[r].send(1 - r, 1, 0, kLarge);
    EXPECT_TRUE(two.turn([&] { return !two[0].failed.empty() && !two[1].failed.empty(); }));
    EXPECT_LT(Clock::now() - begun, kSoon);
    two.expect_failed(0, "lost its queue pair");
    two.expect_failed(1, "does not acknowledge (retry exceeded");
    EXPECT_EQ(two[0].done, 2u) << "the first messages, and nothing since";
    EXPECT_EQ(two[1].done, 2u);
}

// As when its wire is cut: no answer comes, and its process lives.
TEST_F(IbverbsFailure, APeerThatIsSilentOnTheWire) {
    Two two;
    const auto begun = Clock::now();
    two.push(1, IBV_QPS_RESET);
    two[0].send(1, 1, 0, kLarge);
    EXPECT_TRUE(two.turn([&] { return !two[0].failed.empty(); }));
    EXPECT_LT(Clock::now() - begun, kSoon);
    two.expect_failed(0, "sent 7 times)");
}

// Two pairs of three ranks go on.
TEST_F(IbverbsFailure, OtherPairsGoOn) {
    harness::Group three(&gcoll_transport_ibverbs, 3);
    for (uint32_t r = 0; r < 3; r++) {
        three.connect(three[r]);
        three[r].send((r + 1) % 3, 1, 0, 8);
        three[r].receive((r + 2) % 3, 1, 0, 8);
    }
    EXPECT_TRUE(three.turn_until_done());
    gcoll_ib *ib = gcoll_ib_of(gcoll_net_port(three[0].endpoint, &gcoll_lane_ibverbs));
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ib->verbs.modify_qp(pair_of(ib, 1)->qp, &attributes, IBV_QP_STATE), 0);
    EXPECT_TRUE(three.turn([&] { return !three[0].failed.empty(); }));
    EXPECT_EQ(three[0].failed[0].peer, 1u);
    for (uint32_t r = 0; r < 2; r++) {
        three[r].send(2, 2, 0, kLarge);
        three[2].receive(r, 2, 0, kLarge);
    }
    EXPECT_TRUE(three.turn_until_done());
    three[2].check();
    EXPECT_TRUE(three[2].failed.empty());
}

} // namespace
