// Queue pairs of ibverbs that break: both ends are told what happened, soon. Needs a device.
#include "test/transport/endpoint_options.h"
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

// ---- Before the lane stands -----------------------------------------------------------------------------

const gcoll_lane_row *row_of(const std::string &name) {
    const gcoll_lane_row *row = gcoll_lane_rows;
    while (row->name && name != row->name)
        row++;
    return row;
}

// Two ranks that have tcp to fall back on, and whose devices repeat packets for ever.
struct Proving {
    Proving() {
        for (uint32_t r = 0; r < 2; r++) {
            gcoll_lane_choice lanes[2] = {};
            lanes[0].lane = row_of("ibverbs");
            lanes[1].lane = row_of("tcp");
            gcoll_ibverbs_options ibverbs;
            gcoll_ibverbs_options_init(&ibverbs);
            ibverbs.retry_count = 7;
            gcoll_endpoint_options options = harness::options_of(r, 2);
            options.lanes = lanes;
            options.lane_count = 2;
            options.ibverbs = &ibverbs;
            ranks.push_back(std::make_unique<Rank>(&gcoll_transport_ibverbs, options));
        }
        gcoll_transport_ibverbs.connect(ranks[0]->endpoint, 1, ranks[1]->address().c_str());
        for (uint32_t r = 0; r < 2; r++)
            for (uint32_t i = 0; i < 3; i++) {
                ranks[r]->send(1 - r, 1, i, 100 * i);
                ranks[r]->receive(1 - r, 1, i, 100 * i);
            }
    }
    template <class Condition> bool turn(Condition condition) {
        const auto limit = Clock::now() + kPatience;
        while (!condition() && Clock::now() < limit)
            for (auto &rank : ranks)
                rank->progress(0);
        return condition();
    }
    gcoll_ib *ib(uint32_t r) { return gcoll_ib_of(gcoll_net_port(ranks[r]->endpoint, &gcoll_lane_ibverbs)); }
    std::string lane(uint32_t r) {
        char text[512];
        gcoll_transport_ibverbs.explain(ranks[r]->endpoint, 1 - r, text, sizeof text);
        return text;
    }
    bool all_done() {
        return ranks[0]->done == ranks[0]->messages.size() && ranks[1]->done == ranks[1]->messages.size();
    }
    std::vector<std::unique_ptr<Rank>> ranks;
};

// The receiver of a proof checks that it fills a packet.
TEST_F(IbverbsFailure, AProofThatArrivesLetsTheLaneStand) {
    Proving two;
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    for (uint32_t r = 0; r < 2; r++) {
        EXPECT_EQ(two.lane(r), "ibverbs");
        EXPECT_GE(pair_of(two.ib(r), 1 - r)->packet_bytes, 256u);
        EXPECT_EQ(two.ib(r)->proof_count, 0u);
        two.ranks[r]->check();
    }
}

TEST_F(IbverbsFailure, AProofWithoutAnAnswerIsGivenUp) {
    Proving two;
    const gcoll_ib_pair *deaf = nullptr;
    ASSERT_TRUE(two.turn([&] {
        const gcoll_session *session = gcoll_net_session(two.ib(1)->net, 0);
        deaf = session ? pair_of(two.ib(1), 0) : nullptr;
        return deaf && deaf->is_ready;
    }));
    // Rank 1 has just said that its queue pair receives, and rank 0 has not heard it yet.
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_RESET;
    ASSERT_EQ(two.ib(1)->verbs.modify_qp(deaf->qp, &attributes, IBV_QP_STATE), 0);
    const auto begun = Clock::now();
    ASSERT_TRUE(two.ranks[0]->until([&] { return two.lane(0) != "ibverbs, not yet"; }));
    EXPECT_GE(Clock::now() - begun, std::chrono::milliseconds(GCOLL_IB_PROOF_MS - 500));
    EXPECT_LT(Clock::now() - begun, std::chrono::milliseconds(GCOLL_IB_PROOF_MS) + kSoon);
    EXPECT_EQ(two.lane(0).find("tcp (ibverbs: does not acknowledge a packet of "), 0u) << two.lane(0);
    EXPECT_TRUE(two.turn([&] { return two.all_done(); }));
    EXPECT_EQ(two.lane(1).substr(0, 4), "tcp ");
    for (auto &rank : two.ranks) {
        EXPECT_TRUE(rank->failed.empty()) << rank->failed[0].text;
        rank->check();
    }
}

TEST_F(IbverbsFailure, AQueuePairThatBreaksBeforeItStandsIsLeft) {
    Proving two;
    const gcoll_ib_pair *pair = nullptr;
    const auto limit = Clock::now() + kPatience;
    for (; Clock::now() < limit; two.ranks[1]->progress(0)) {
        two.ranks[0]->progress(0);
        const gcoll_session *session = gcoll_net_session(two.ib(0)->net, 1);
        pair = session ? pair_of(two.ib(0), 1) : nullptr;
        if (pair && pair->is_ready)
            break; // before rank 1 can prove itself
    }
    ASSERT_TRUE(pair && pair->is_ready && !pair->stands);
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(two.ib(0)->verbs.modify_qp(pair->qp, &attributes, IBV_QP_STATE), 0);
    EXPECT_TRUE(two.turn([&] { return two.all_done(); }));
    EXPECT_EQ(two.lane(0), "tcp (ibverbs: lost its queue pair before it could be used)");
    EXPECT_EQ(two.lane(1).substr(0, 4), "tcp ");
    for (auto &rank : two.ranks) {
        EXPECT_TRUE(rank->failed.empty()) << rank->failed[0].text;
        rank->check();
    }
}

} // namespace
