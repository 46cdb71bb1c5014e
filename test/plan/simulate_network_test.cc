// Networks in which each pair of ranks has its own link: against times worked out by other means, and against
// the model of two levels, of which they are a generalisation.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "test/plan/simulate_support.h"

namespace gcoll_test {
namespace {

struct NetworkDeleter {
    void operator()(gcoll_network *network) const { gcoll_network_destroy(network); }
};
using Network = std::unique_ptr<gcoll_network, NetworkDeleter>;

// Null on error, which gcoll_last_error tells.
Network MakeNetwork(uint32_t ranks, const uint32_t *place, gcoll_simulate_link link) {
    gcoll_network *network = nullptr;
    return Network(gcoll_network_create(ranks, place, &link, &network) == GCOLL_OK ? network : nullptr);
}

void SetLink(const Network &network, uint32_t from, uint32_t to, gcoll_simulate_link link) {
    ASSERT_EQ(GCOLL_OK, gcoll_network_set(network.get(), from, to, &link)) << gcoll_last_error();
}

// The same to the bit: times, and what every port did when.
void ExpectSame(const Simulation &a, const Simulation &b) {
    ASSERT_TRUE(a && b) << gcoll_last_error();
    EXPECT_EQ(a->time, b->time);
    EXPECT_EQ(a->mean_elapsed, b->mean_elapsed);
    ASSERT_EQ(a->event_count, b->event_count);
    for (uint64_t i = 0; i < a->event_count; i++) {
        ASSERT_EQ(a->events[i].begin, b->events[i].begin) << i;
        ASSERT_EQ(a->events[i].end, b->events[i].end) << i;
        ASSERT_EQ(a->events[i].rank, b->events[i].rank) << i;
        ASSERT_EQ(a->events[i].step, b->events[i].step) << i;
    }
}

// Everybody sends `count` elements to rank 0, which asks for them in the order of ranks.
std::vector<Plan> AllToRankZero(uint32_t size, uint64_t count) {
    gcoll_algorithm algorithm{};
    algorithm.name = "all_to_rank_zero";
    algorithm.collective = GCOLL_ALLREDUCE;
    algorithm.plan = [](const gcoll_problem *p, gcoll_builder *b) {
        if (p->rank > 0)
            gcoll_plan_send(b, 0, gcoll_in(0, 0), p->count);
        for (uint32_t peer = 1; p->rank == 0 && peer < p->size; peer++)
            gcoll_plan_recv(b, peer, gcoll_plan_scratch(b, p->count), p->count);
    };
    return CreateAll(algorithm, Problem(GCOLL_ALLREDUCE, 0, size, count));
}

TEST(SimulateNetwork, LinksThatAreAlikeAreTheUniformModel) {
    for (const char *name :
         {"ring", "recursive_doubling", "group_butterfly", "dual_root", "halving_doubling"})
        for (uint32_t size : {2u, 5u, 8u, 13u})
            for (double latency : {0.0, 1e-6, 3e-6}) {
                gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, 3000);
                SetFallbacks(&problem, Algorithm(name, GCOLL_ALLREDUCE));
                auto plans = CreateAll(name, problem);
                gcoll_simulate_options o = Options(3e-6, 7e-10, 2e-10);
                o.network.latency = latency;
                o.timeline = true;
                Simulation uniform = Simulate(plans, o);
                Network network = MakeNetwork(size, nullptr, o.network);
                ASSERT_TRUE(network) << gcoll_last_error();
                o.network = {1, 1, 1}; // which no message takes any more
                o.links = network.get();
                ExpectSame(uniform, Simulate(plans, o));
            }
}

TEST(SimulateNetwork, HostsWithOneLinkEachAreTheModelOfTwoLevels) {
    std::mt19937 random(1);
    for (int trial = 0; trial < 60; trial++) {
        SCOPED_TRACE(trial);
        const uint32_t size = 2 + uint32_t(random() % 14), each = 1 + uint32_t(random() % 4);
        std::vector<uint32_t> node(size);
        for (uint32_t r = 0; r < size; r++)
            node[r] = random() % 2 ? r / each : (size - 1 - r) / each;
        const char *name = trial % 2 ? "ring" : "group_butterfly";
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, 2000);
        SetFallbacks(&problem, Algorithm(name, GCOLL_ALLREDUCE));
        auto plans = CreateAll(name, problem);
        gcoll_simulate_options o = Options(5e-6, 8e-10, 1e-10);
        o.network.latency = double(random() % 3) * 2.5e-6;
        o.host = {1e-6, 1e-10, double(random() % 3) * 0.5e-6};
        o.node = node.data();
        o.node_ports = uint32_t(random() % 3);
        o.memory_ports = uint32_t(random() % 3);
        o.timeline = true;
        Simulation levels = Simulate(plans, o);
        Network network = MakeNetwork(size, node.data(), o.network);
        for (uint32_t n = 0; n <= *std::max_element(node.begin(), node.end()); n++)
            SetLink(network, n, n, o.host);
        o.links = network.get();
        ExpectSame(levels, Simulate(plans, o));
    }
}

// In a ring a message starts when the one before it has left by the same link and the sum that it carries has
// come by the link before. So times follow from a recurrence over steps and links, without any plan.
TEST(SimulateNetwork, RingOfLinksThatDiffer) {
    std::mt19937 random(2);
    for (int trial = 0; trial < 40; trial++) {
        const uint32_t size = 2 + uint32_t(random() % 9);
        const uint64_t chunk = 500;
        Network network = MakeNetwork(size, nullptr, {1, 0, 0});
        std::vector<double> link(size);
        for (uint32_t r = 0; r < size; r++) {
            const double alpha = double(1 + random() % 20) * 1e-6, beta = double(random() % 50) * 1e-9;
            SetLink(network, r, (r + 1) % size, {alpha, beta, 0});
            link[r] = alpha + beta * double(chunk);
        }
        std::vector<double> end(size, 0), before;
        for (uint32_t step = 0; step < 2 * (size - 1); step++) {
            before = end;
            for (uint32_t r = 0; r < size; r++)
                end[r] = std::max(before[r], before[(r + size - 1) % size]) + link[r];
        }
        gcoll_simulate_options o = Options(1, 1);
        o.links = network.get();
        auto run = Simulate(CreateAll("ring", Problem(GCOLL_ALLREDUCE, 0, size, size * chunk)), o);
        ASSERT_TRUE(run) << gcoll_last_error();
        EXPECT_NEAR(*std::max_element(end.begin(), end.end()), run->time, 1e-10) << trial;
        for (uint32_t r = 0; r < size; r++)
            EXPECT_NEAR(std::max(end[r], end[(r + size - 1) % size]), run->finish[r], 1e-10) << r;
    }
}

// One receive port takes messages one after the other without a gap, whatever their latencies: each starts so
// early that it follows the one before.
TEST(SimulateNetwork, LatenciesThatDifferLeaveNoGap) {
    std::mt19937 random(3);
    for (int trial = 0; trial < 40; trial++) {
        const uint32_t size = 3 + uint32_t(random() % 8);
        const uint64_t bytes = 1000;
        Network network = MakeNetwork(size, nullptr, {1, 0, 0});
        std::vector<double> latency(size), hold(size), begin(size);
        double port = 0; // free from then on, at the receiver
        for (uint32_t r = 1; r < size; r++) {
            latency[r] = double(random() % 10) * 1e-7;
            const double overhead = double(random() % 5) * 1e-6, beta = double(2 + random() % 9) * 1e-9;
            SetLink(network, r, 0, {latency[r] + overhead, beta, latency[r]});
            hold[r] = overhead + beta * double(bytes);
            begin[r] = r == 1 ? 0 : port - latency[r];
            port = begin[r] + latency[r] + hold[r];
        }
        gcoll_simulate_options o = Options(1, 1);
        o.links = network.get();
        o.timeline = true;
        auto run = Simulate(AllToRankZero(size, bytes), o);
        ASSERT_TRUE(run) << gcoll_last_error();
        EXPECT_NEAR(port, run->time, 1e-10) << trial;
        for (uint64_t i = 0; i < run->event_count; i++)
            if (run->events[i].kind == GCOLL_SIMULATE_SEND)
                EXPECT_NEAR(begin[run->events[i].rank], run->events[i].begin, 1e-10) << run->events[i].rank;
    }
}

// Two hosts of two ranks; rank 0 sends to 2 and 1 to 3. By one port of the host the second waits for the
// first.
TEST(SimulateNetwork, HostsShareTheirPorts) {
    gcoll_algorithm algorithm{};
    algorithm.name = "two_across";
    algorithm.collective = GCOLL_ALLREDUCE;
    algorithm.plan = [](const gcoll_problem *p, gcoll_builder *b) {
        if (p->rank < 2)
            gcoll_plan_send(b, p->rank + 2, gcoll_in(0, 0), p->count);
        else
            gcoll_plan_recv(b, p->rank - 2, gcoll_out(0, 0), p->count);
    };
    auto plans = CreateAll(algorithm, Problem(GCOLL_ALLREDUCE, 0, 4, 1000));
    Network network = MakeNetwork(4, nullptr, {1, 1, 0});
    SetLink(network, 0, 2, {2e-6, 1e-9, 0});
    SetLink(network, 1, 3, {3e-6, 5e-9, 0});
    gcoll_simulate_options o = Options(1, 1);
    o.links = network.get();
    o.ranks_per_node = 2;
    auto apart = Simulate(plans, o);
    ASSERT_TRUE(apart) << gcoll_last_error();
    EXPECT_NEAR(8e-6, apart->time, 1e-12);
    o.node_ports = 1;
    auto shared = Simulate(plans, o);
    EXPECT_NEAR(3e-6, shared->finish[2], 1e-12);
    EXPECT_NEAR(11e-6, shared->finish[3], 1e-12);
    // The way back is another link.
    gcoll_simulate_link back;
    ASSERT_EQ(GCOLL_OK, gcoll_network_link(network.get(), 2, 0, &back));
    EXPECT_EQ(1, back.alpha);
}

TEST(SimulateNetwork, ErrorsNameWhatIsWrong) {
    const auto expect_said = [](const std::string &part) {
        EXPECT_NE(nullptr, strstr(gcoll_last_error(), part.c_str())) << part << " in: " << gcoll_last_error();
    };
    const uint32_t far[] = {0, GCOLL_NETWORK_MAX_PLACES};
    EXPECT_FALSE(MakeNetwork(0, nullptr, {1, 1, 0}));
    expect_said("ranks: is 0; allowed are 1 to 1048576");
    EXPECT_FALSE(MakeNetwork(GCOLL_MAX_RANKS + 1, nullptr, {1, 1, 0}));
    expect_said("ranks: is 1048577");
    EXPECT_FALSE(MakeNetwork(2, far, {1, 1, 0}));
    expect_said("place[1]: is 1024; allowed are 0 to 1023");
    EXPECT_FALSE(MakeNetwork(2, nullptr, {1, -1, 0}));
    expect_said("link.beta: is -1");
    EXPECT_FALSE(MakeNetwork(2, nullptr, {1, 1, 2}));
    expect_said("link.latency: is 2; it is a part of alpha, 1");
    gcoll_network *none = nullptr;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_network_create(2, nullptr, nullptr, &none));
    EXPECT_EQ(nullptr, none);

    Network network = MakeNetwork(2, nullptr, {1, 1, 0});
    gcoll_simulate_link link{1, 1, 0};
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_network_set(network.get(), 0, 2, &link));
    expect_said("to: is place 2; allowed are 0 to 1");
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_network_link(network.get(), 3, 0, &link));
    expect_said("sender: is rank 3; allowed are 0 to 1");
    link.alpha = NAN;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_network_set(network.get(), 0, 1, &link));
    expect_said("link.alpha: is nan");
    gcoll_simulate_options o = Options(1, 1);
    o.links = network.get();
    EXPECT_FALSE(Simulate(AllToRankZero(3, 10), o));
    expect_said("options.links: is of 2 ranks; there are plans of 3");
    EXPECT_TRUE(Simulate(AllToRankZero(2, 10), o)) << gcoll_last_error();
    gcoll_network_destroy(nullptr);
}

} // namespace
} // namespace gcoll_test
