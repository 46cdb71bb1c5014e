// The simulator against closed formulas, and against the rules that every timeline must obey.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "test/plan/simulate_support.h"

namespace gcoll_test {
namespace {

constexpr double kAlpha = 3e-6, kBeta = 7e-10, kGamma = 2e-10;

uint32_t Log2Ceil(uint32_t size) {
    uint32_t log = 0;
    while ((1u << log) < size)
        log++;
    return log;
}

// Picoseconds add up to a little rounding, of half a unit a message.
void ExpectSeconds(double expected, double found) {
    EXPECT_NEAR(expected, found, 1e-9 * expected + 1e-11);
}

// ---- Planners made up for one purpose: `plan` says what each rank does ------------------------------------

using PlanFn = void (*)(const gcoll_problem *, gcoll_builder *);

std::vector<Plan> PlansOf(PlanFn plan, uint32_t size, uint64_t count) {
    gcoll_algorithm algorithm{};
    algorithm.name = "made_up";
    algorithm.collective = GCOLL_ALLREDUCE;
    algorithm.plan = plan;
    return CreateAll(algorithm, Problem(GCOLL_ALLREDUCE, 0, size, count));
}

// Everybody sends all to rank 0.
void Fan(const gcoll_problem *p, gcoll_builder *b) {
    if (p->rank > 0)
        gcoll_plan_send(b, 0, gcoll_in(0, 0), p->count);
    for (uint32_t peer = 1; p->rank == 0 && peer < p->size; peer++)
        gcoll_plan_recv(b, peer, gcoll_plan_scratch(b, p->count), p->count);
}

// Rank 0 sends two halves to rank 1; with a window, one after the other.
void TwoHalves(const gcoll_problem *p, gcoll_builder *b) {
    for (uint64_t half = 0; half < 2; half++)
        if (p->rank == 0)
            gcoll_plan_send(b, 1, gcoll_in(0, half * p->count / 2), p->count / 2);
        else
            gcoll_plan_recv(b, 0, gcoll_out(0, half * p->count / 2), p->count / 2);
}

// Ranks of the lower half send all to those half the size above.
void AcrossHalves(const gcoll_problem *p, gcoll_builder *b) {
    uint32_t half = p->size / 2;
    if (p->rank < half)
        gcoll_plan_send(b, p->rank + half, gcoll_in(0, 0), p->count);
    else
        gcoll_plan_recv(b, p->rank - half, gcoll_out(0, 0), p->count);
}

// ---- Formulas ---------------------------------------------------------------------------------------

TEST(Simulate, RingTakesWhatThePaperSays) {
    for (uint32_t size : {1u, 2u, 3u, 7u, 8u, 33u, 100u})
        for (uint64_t chunk : {1u, 1000u, 1000000u}) {
            auto run = Simulate(CreateAll("ring", Problem(GCOLL_ALLREDUCE, 0, size, size * chunk)),
                                Options(kAlpha, kBeta, kGamma));
            ASSERT_TRUE(run) << gcoll_last_error();
            double u = double(chunk), hops = size - 1;
            ExpectSeconds(2 * hops * (kAlpha + kBeta * u) + hops * kGamma * u, run->time);
            for (uint32_t r = 0; r < size; r++) {
                EXPECT_EQ(2 * (size - 1) * chunk, run->sent_bytes[r]);
                EXPECT_EQ(2 * (size - 1) * chunk, run->received_bytes[r]);
            }
            ExpectSeconds(run->time, run->mean_elapsed);
        }
}

// The chunks that each step of the group butterfly moves, from its recurrence, restated: N placements fold
// onto ceil(N/2) until there are `results` complete ones; the steps are then taken back.
struct Butterfly {
    std::vector<uint32_t> sent; // by step
    uint32_t steps = 0, folds = 0;
};

Butterfly ButterflyOf(uint32_t size, uint32_t r) {
    std::vector<uint32_t> n{size};
    while (n.back() > 1)
        n.push_back((n.back() + 1) / 2);
    uint32_t log = uint32_t(n.size()) - 1, results = n[log - r];
    Butterfly b;
    for (uint32_t i = 0; i < log; i++) {
        uint32_t first = n[i + 1], last = n[i] + results - 2;
        b.sent.push_back(std::min(size, last - first + 1));
    }
    b.folds = log;
    for (uint32_t i = log - r; i-- > 0;)
        b.sent.push_back(n[i] / 2);
    b.steps = uint32_t(b.sent.size());
    return b;
}

// Round by round, as the paper counts. (As pure data flow the ranks drift apart and messages get in each
// other's way.)
std::vector<Plan> ButterflyPlans(uint32_t size, uint32_t r) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, size * UINT64_C(1000));
    problem.option[0] = r;
    std::vector<Plan> plans = CreateAll("group_butterfly", problem);
    for (Plan &plan : plans)
        plan->window = 0;
    return plans;
}

TEST(Simulate, GroupButterflyStepByStep) {
    for (uint32_t size = 2; size <= 70; size++)
        for (uint32_t r = 0; r <= Log2Ceil(size); r++) {
            SCOPED_TRACE("P=" + std::to_string(size) + " r=" + std::to_string(r));
            Butterfly b = ButterflyOf(size, r);
            double chunks = 0, folded = 0;
            for (uint32_t i = 0; i < b.steps; i++) {
                chunks += b.sent[i];
                folded += i < b.folds ? b.sent[i] : 0;
            }
            EXPECT_EQ(2 * Log2Ceil(size) - r, b.steps);
            auto plans = ButterflyPlans(size, r);
            auto run = Simulate(plans, Options(0, kBeta));
            ASSERT_TRUE(run) << gcoll_last_error();
            ExpectSeconds(kBeta * 1000 * chunks, run->time);
            for (uint32_t rank = 0; rank < size; rank++)
                EXPECT_EQ(chunks * 1000, double(run->sent_bytes[rank]));
            if (r == 0 || (size & (size - 1)) == 0)
                ExpectSeconds(kGamma * 1000 * folded, Simulate(plans, Options(0, 0, kGamma))->time);
            // A rank's chunks may lie in two ranges, at the end and the beginning: one message all the same.
            run = Simulate(plans, Options(kAlpha, kBeta));
            EXPECT_NEAR(run->time, b.steps * kAlpha + 1000 * kBeta * chunks, 1e-11 * b.steps);
        }
}

TEST(Simulate, PortsServeOneAfterTheOther) {
    const uint64_t m = 1000;
    for (uint32_t size : {2u, 3u, 6u, 9u})
        for (uint32_t ports : {1u, 2u, 3u, 100u})
            for (double latency : {0.0, kAlpha / 3, kAlpha}) {
                gcoll_simulate_options o = Options(kAlpha, kBeta);
                o.ports = ports;
                o.network.latency = latency;
                auto run = Simulate(PlansOf(Fan, size, m), o);
                ASSERT_TRUE(run) << gcoll_last_error();
                double turns = (size - 1 + ports - 1) / ports; // whole
                ExpectSeconds(latency + turns * (kAlpha - latency + kBeta * m), run->time);
                // Its sender is done when it has left.
                ExpectSeconds(kAlpha - latency + kBeta * m, run->finish[1]);
            }
}

TEST(Simulate, WhoeverIsReadyFirstIsServedFirst) {
    gcoll_simulate_options o = Options(1, 0);
    std::vector<double> arrival{0, 0.2, 0.1, 0};
    o.arrival = arrival.data();
    auto run = Simulate(PlansOf(Fan, 4, 1000), o);
    ASSERT_TRUE(run) << gcoll_last_error();
    for (uint32_t r = 1; r < 4; r++)
        ExpectSeconds(4 - r, run->finish[r]);
    // At one instant, in the order in which the receiver asked.
    auto plans = PlansOf(
        [](const gcoll_problem *p, gcoll_builder *b) {
            if (p->rank > 0)
                gcoll_plan_send(b, 0, gcoll_in(0, 0), p->count);
            for (uint32_t peer = p->size; p->rank == 0 && --peer > 0;)
                gcoll_plan_recv(b, peer, gcoll_plan_scratch(b, p->count), p->count);
        },
        4, 1000);
    o.arrival = nullptr;
    run = Simulate(plans, o);
    ASSERT_TRUE(run) << gcoll_last_error();
    for (uint32_t r = 1; r < 4; r++)
        ExpectSeconds(4 - r, run->finish[r]);
}

TEST(Simulate, ReductionsOfARankComeOneAfterTheOther) {
    auto plans = PlansOf(
        [](const gcoll_problem *p, gcoll_builder *b) {
            if (p->rank > 0)
                return gcoll_plan_send(b, 0, gcoll_in(0, 0), p->count);
            for (uint32_t peer = 1; peer < p->size; peer++) {
                gcoll_ref at = gcoll_plan_scratch(b, p->count);
                gcoll_plan_recv_reduce(b, peer, at, gcoll_in(0, 0), p->count);
            }
        },
        6, 1000);
    gcoll_simulate_options o = Options(kAlpha, kBeta, kGamma);
    o.ports = 5; // all come at once
    auto run = Simulate(plans, o);
    ASSERT_TRUE(run) << gcoll_last_error();
    ExpectSeconds(kAlpha + kBeta * 1000 + 5 * kGamma * 1000, run->time);
    std::vector<double> slow{3, 1, 1, 1, 1, 1};
    o.slowness = slow.data();
    run = Simulate(plans, o);
    ExpectSeconds(3 * (kAlpha + kBeta * 1000 + 5 * kGamma * 1000), run->time);
    o.network.latency = kAlpha / 2; // which a slow host does not make longer
    run = Simulate(plans, o);
    ExpectSeconds(kAlpha / 2 + 3 * (kAlpha / 2 + kBeta * 1000 + 5 * kGamma * 1000), run->time);
    EXPECT_EQ(1u, run->path[run->path_count - 1].peer) << "first posted, first served";
}

TEST(Simulate, LocalStepsTakeTheProcessor) {
    auto plans = PlansOf(
        [](const gcoll_problem *p, gcoll_builder *b) {
            gcoll_ref at = gcoll_plan_scratch(b, p->count);
            gcoll_plan_copy(b, at, gcoll_in(0, 0), p->count);
            gcoll_plan_reduce(b, gcoll_out(0, 0), gcoll_in(0, 0), at, p->count);
            gcoll_plan_fence(b);
            gcoll_plan_copy(b, gcoll_plan_scratch(b, p->count / 2), gcoll_in(0, 0), p->count / 2);
        },
        1, 1000);
    gcoll_simulate_options o = Options(kAlpha, kBeta, kGamma);
    o.type_bytes = 4;
    auto run = Simulate(plans, o);
    ASSERT_TRUE(run) << gcoll_last_error();
    ExpectSeconds(kGamma * 4000, run->time);
    o.copy = 5e-10;
    run = Simulate(plans, o);
    ExpectSeconds(kGamma * 4000 + o.copy * 6000, run->time);
}

// As in the engine, whose one thread does what is ready in its order: a message after a copy waits for it.
TEST(Simulate, LocalStepsHoldUpWhatIsReadyAfterThem) {
    static bool copy_first;
    for (bool first : {false, true}) {
        copy_first = first;
        auto plans = PlansOf(
            [](const gcoll_problem *p, gcoll_builder *b) {
                if (p->rank == 0 && copy_first)
                    gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), p->count);
                if (p->rank == 0)
                    gcoll_plan_send(b, 1, gcoll_in(0, 0), p->count);
                if (p->rank == 0 && !copy_first)
                    gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), p->count);
                if (p->rank == 1)
                    gcoll_plan_recv(b, 0, gcoll_out(0, 0), p->count);
            },
            2, 100);
        gcoll_simulate_options o = Options(1, 0);
        o.copy = 5;
        auto run = Simulate(plans, o);
        ASSERT_TRUE(run) << gcoll_last_error();
        ExpectSeconds(first ? 501 : 1, run->finish[1]);
        ExpectSeconds(first ? 501 : 500, run->finish[0]);
    }
}

// The same number of blocks either way: a block costs two trees at once three steps, one tree four.
TEST(Simulate, TwoTreesBeatOne) {
    for (uint32_t size : {14u, 30u, 62u}) {
        const uint64_t n = 1024000, blocks = 1024;
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, n);
        problem.option[0] = blocks;
        auto two = Simulate(CreateAll("dual_root", problem), Options(0, kBeta));
        auto one = Simulate(CreateAll("tree_pipelined", problem), Options(0, kBeta));
        ASSERT_TRUE(two && one) << gcoll_last_error();
        EXPECT_NEAR(3, two->time / (kBeta * n), 0.05);
        EXPECT_NEAR(4, one->time / (kBeta * n), 0.05);
    }
}

// ---- Arrival, early messages, windows -------------------------------------------------------------------

TEST(Simulate, ArrivalTimesDelayAndAreNotCounted) {
    auto plans = CreateAll("ring", Problem(GCOLL_ALLREDUCE, 0, 4, 4000));
    gcoll_simulate_options o = Options(kAlpha, kBeta);
    double together = Simulate(plans, o)->time;
    std::vector<double> all_late(4, 0.25);
    o.arrival = all_late.data();
    auto run = Simulate(plans, o);
    ExpectSeconds(0.25 + together, run->time);
    ExpectSeconds(together, run->mean_elapsed);
    EXPECT_EQ(GCOLL_SIMULATE_ARRIVAL, run->path[run->path_count - 1].kind);
    ExpectSeconds(0.25, run->path[run->path_count - 1].end);
    std::vector<double> one_late{0, 0, 0.25, 0};
    o.arrival = one_late.data();
    run = Simulate(plans, o);
    EXPECT_GT(run->time, 0.25 + together / 2);
    double elapsed = 0;
    for (uint32_t r = 0; r < 4; r++)
        elapsed += run->finish[r] - one_late[r];
    ExpectSeconds(elapsed / 4, run->mean_elapsed);
    EXPECT_EQ(2u, run->path[run->path_count - 1].rank);
}

TEST(Simulate, EarlyMessagesGoWithoutTheirReceiver) {
    auto plans = PlansOf(Fan, 2, 1000);
    std::vector<double> arrival{1.0, 0};
    gcoll_simulate_options o = Options(kAlpha, kBeta);
    o.copy = 5e-10;
    o.arrival = arrival.data();
    auto run = Simulate(plans, o);
    ASSERT_TRUE(run) << gcoll_last_error();
    ExpectSeconds(1 + kAlpha + kBeta * 1000, run->time);
    ExpectSeconds(1 + kAlpha + kBeta * 1000, run->finish[1]);
    o.eager_bytes = 999;
    ExpectSeconds(1 + kAlpha + kBeta * 1000, Simulate(plans, o)->time);
    o.eager_bytes = 1000;
    run = Simulate(plans, o);
    ExpectSeconds(1 + o.copy * 1000, run->time);
    ExpectSeconds(kAlpha + kBeta * 1000, run->finish[1]);
}

TEST(Simulate, WindowHoldsBackLaterRounds) {
    for (uint32_t window : {0u, 1u, 2u}) {
        static uint32_t given;
        given = window;
        // Rank 1's first message comes late; the second could come at once.
        auto plans = PlansOf(
            [](const gcoll_problem *p, gcoll_builder *b) {
                gcoll_plan_window(b, given);
                if (p->rank == 1)
                    gcoll_plan_recv(b, 2, gcoll_out(0, 0), 10);
                if (p->rank == 2)
                    gcoll_plan_send(b, 1, gcoll_in(0, 0), 10);
                gcoll_plan_round(b);
                if (p->rank == 1)
                    gcoll_plan_recv(b, 0, gcoll_out(0, 10), 10);
                if (p->rank == 0)
                    gcoll_plan_send(b, 1, gcoll_in(0, 0), 10);
            },
            3, 40);
        gcoll_simulate_options o = Options(1, 0);
        std::vector<double> arrival{0, 0, 100};
        o.arrival = arrival.data();
        auto run = Simulate(plans, o);
        ASSERT_TRUE(run) << gcoll_last_error();
        ExpectSeconds(window == 0 ? 102 : 1, run->finish[0]);
        ExpectSeconds(window == 0 ? 102 : 101, run->time);
    }
}

// ---- Two levels --------------------------------------------------------------------------------------

TEST(Simulate, NodesShareTheirPorts) {
    const uint64_t m = 1000;
    auto plans = PlansOf(AcrossHalves, 12, m);
    gcoll_simulate_options o = Options(kAlpha, kBeta);
    o.ranks_per_node = 6;
    const double one = kAlpha + kBeta * m;
    for (auto [ports, turns] : std::map<uint32_t, double>{{0, 1}, {1, 6}, {2, 3}, {4, 2}, {6, 1}, {7, 1}}) {
        o.node_ports = ports;
        auto run = Simulate(plans, o);
        ASSERT_TRUE(run) << gcoll_last_error();
        ExpectSeconds(turns * one, run->time);
        EXPECT_EQ(turns, run->path_count);
    }
    // The same, with numbers of hosts that count from nowhere.
    std::vector<uint32_t> node{9, 9, 9, 9, 9, 9, 7, 7, 7, 7, 7, 7};
    o.ranks_per_node = 0;
    o.node = node.data();
    o.node_ports = 1;
    ExpectSeconds(6 * one, Simulate(plans, o)->time);
    // Two senders and their receivers in each of three nodes: within them, messages are the host's.
    node = {5, 5, 0, 0, 3, 3, 5, 5, 0, 0, 3, 3};
    o.host = {kAlpha / 10, kBeta / 100, 0};
    ExpectSeconds(kAlpha / 10 + kBeta / 100 * m, Simulate(plans, o)->time);
}

// Messages within a node share its memory, whatever ranks they are of. Those between nodes do not need it.
TEST(Simulate, NodesShareTheirMemory) {
    const uint64_t m = 1000;
    auto plans = PlansOf(AcrossHalves, 12, m);
    gcoll_simulate_options o = Options(kAlpha, kBeta);
    o.host = {kAlpha / 10, kBeta / 100, 0};
    o.ranks_per_node = 12; // six messages in one node
    const double one = kAlpha / 10 + kBeta / 100 * m;
    for (auto [ports, turns] : std::map<uint32_t, double>{{0, 1}, {1, 6}, {2, 3}, {4, 2}, {6, 1}, {7, 1}}) {
        o.memory_ports = ports;
        auto run = Simulate(plans, o);
        ASSERT_TRUE(run) << gcoll_last_error();
        ExpectSeconds(turns * one, run->time);
        EXPECT_EQ(turns, run->path_count);
    }
    // With a latency, the port is held without it.
    o.memory_ports = 1;
    o.host.latency = kAlpha / 20;
    ExpectSeconds(6 * one - 5 * kAlpha / 20, Simulate(plans, o)->time);
    o.host.latency = 0;
    // Two messages in each of three nodes.
    std::vector<uint32_t> node{5, 5, 0, 0, 3, 3, 5, 5, 0, 0, 3, 3};
    o.ranks_per_node = 0;
    o.node = node.data();
    ExpectSeconds(2 * one, Simulate(plans, o)->time);
    o.node_ports = 1;
    ExpectSeconds(2 * one, Simulate(plans, o)->time);
    // Four between nodes A and B, by one port of each, and two within C, by its memory.
    node = {1, 1, 1, 1, 3, 3, 2, 2, 2, 2, 3, 3};
    o.host.beta = 10 * kBeta;
    ExpectSeconds(std::max(4 * (kAlpha + kBeta * m), 2 * (kAlpha / 10 + 10 * kBeta * m)),
                  Simulate(plans, o)->time);
}

// ---- Errors -------------------------------------------------------------------------------------------

void ExpectError(const Simulation &run, const std::vector<std::string> &parts) {
    EXPECT_FALSE(run);
    for (const std::string &part : parts)
        EXPECT_NE(nullptr, strstr(gcoll_last_error(), part.c_str())) << part << " in: " << gcoll_last_error();
}

TEST(Simulate, DeadlockNamesRankAndStep) {
    // Each rank sends before it receives into the same elements: nobody can begin.
    auto plans = PlansOf(
        [](const gcoll_problem *p, gcoll_builder *b) {
            uint32_t next = (p->rank + 1) % p->size, previous = (p->rank + p->size - 1) % p->size;
            gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), 8);
            gcoll_plan_send(b, next, gcoll_out(0, 0), 8);
            gcoll_plan_recv(b, previous, gcoll_out(0, 0), 8);
        },
        3, 8);
    gcoll_simulate_options o = Options(kAlpha, kBeta);
    ExpectError(Simulate(plans, o),
                {"rank 0, step 1 (send to 1, 8 elements)", "deadlock", "rank 1", "step 2"});
    o.eager_bytes = 8; // which lets the sends go
    EXPECT_TRUE(Simulate(plans, o)) << gcoll_last_error();
    o.eager_bytes = 7;
    EXPECT_FALSE(Simulate(plans, o));
}

TEST(Simulate, ErrorsNameWhatIsWrong) {
    auto plans = PlansOf(TwoHalves, 2, 1000);
    gcoll_simulate_options o = Options(-1, 0);
    ExpectError(Simulate(plans, o), {"network.alpha", "-1"});
    o = Options(1e-6, NAN);
    ExpectError(Simulate(plans, o), {"network.beta", "nan"});
    o = Options(1e-6, 0);
    o.host.latency = 1;
    ExpectError(Simulate(plans, o), {"host.latency"});
    o = Options(1e-6, 0);
    o.ports = 1025;
    ExpectError(Simulate(plans, o), {"options.ports", "1025", "1024"});
    o = Options(1e-6, 0);
    o.node_ports = 1;
    ExpectError(Simulate(plans, o), {"node_ports", "no nodes"});
    o = Options(1e-6, 0);
    o.memory_ports = 1;
    ExpectError(Simulate(plans, o), {"memory_ports", "no nodes"});
    o.memory_ports = 1025;
    ExpectError(Simulate(plans, o), {"memory_ports", "1025", "1024"});
    o = Options(1e-6, 0);
    std::vector<double> numbers{1, 0};
    o.slowness = numbers.data();
    ExpectError(Simulate(plans, o), {"slowness[1]", "0"});
    numbers = {0, -2};
    o = Options(1e-6, 0);
    o.arrival = numbers.data();
    ExpectError(Simulate(plans, o), {"arrival[1]", "-2"});
    o = Options(1e6, 0);
    EXPECT_TRUE(Simulate(plans, o)) << gcoll_last_error();
    o = Options(1e6, 1e5);
    ExpectError(Simulate(plans, o), {"rank 0", "step 0", "100 days"});
    o = Options(0, 8e6 / 500); // the second message, of 500 bytes too, is too much
    ExpectError(Simulate(plans, o), {"rank 0", "step 1", "100 days"});
    o = Options(1e300, 1e300);
    o.network.latency = 1e300;
    ExpectError(Simulate(plans, o), {"100 days"});
    o.struct_size = 3;
    ExpectError(Simulate(plans, o), {"gcoll_simulate_options_init"});
    std::swap(plans[0], plans[1]);
    ExpectError(Simulate(plans, Options(1, 1)), {"rank 0", "rank 1 of 2"});
    plans[1].reset();
    plans[0].reset();
    ExpectError(Simulate(plans, Options(1, 1)), {"rank 0", "no plan"});
}

// Where chunks go round the end of the vector, a message has two pieces. It has as many with segments that
// are never reached.
TEST(Simulate, SegmentsThatCutNothingCostNothing) {
    for (const char *name : {"circulant", "group_butterfly", "ring"})
        for (uint32_t size : {2u, 3u, 7u, 12u}) {
            gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, 100 * size);
            const gcoll_simulate_options o = Options(1e-6, 1e-9, 1e-10);
            Simulation whole = Simulate(CreateAll(name, problem), o);
            problem.segment = 100 * size;
            Simulation uncut = Simulate(CreateAll(name, problem), o);
            ASSERT_TRUE(whole && uncut) << gcoll_last_error();
            EXPECT_EQ(whole->time, uncut->time) << name << " P=" << size;
        }
}

TEST(Simulate, SegmentsPayAlphaEach) {
    gcoll_problem problem = Problem(GCOLL_BROADCAST, 0, 2, 1000);
    problem.segment = 100;
    Simulation run = Simulate(CreateAll("binomial", problem), Options(1e-6, 1e-9));
    ASSERT_TRUE(run) << gcoll_last_error();
    EXPECT_NEAR(10 * 1.1e-6, run->time, 1e-12);
}

TEST(Simulate, MessagesWithoutPartner) {
    auto plans = PlansOf(
        [](const gcoll_problem *p, gcoll_builder *b) {
            if (p->rank == 1)
                gcoll_plan_send(b, 0, gcoll_in(0, 0), 3);
        },
        2, 8);
    ExpectError(Simulate(plans, Options(1, 1)), {"rank 1, step 0", "no partner"});
}

} // namespace
} // namespace gcoll_test
