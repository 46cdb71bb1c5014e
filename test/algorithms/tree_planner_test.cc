// test/algorithms/tree_planner_test.cc - allreduce along trees, chains and stars: who sends what to whom, in
// which order it is added up, and how many steps that takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "test/kit/plan_runner.h"

extern "C" {
#include "algorithms/shared/tree.h"
#include "gcoll/simulate.h"
}

namespace gcoll_test {
namespace {

using Peers = std::vector<uint32_t>;

gcoll_problem Allreduce(uint32_t size, uint64_t count, int64_t option = 1) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, count);
    problem.option[0] = option;
    return problem;
}

gcoll_cost Cost(const std::string &name, const gcoll_problem &problem) {
    gcoll_cost cost{};
    Algorithm(name, GCOLL_ALLREDUCE)->cost(&problem, &cost);
    return cost;
}

gcoll_verify_report Verify(const std::string &name, const gcoll_problem &problem) {
    SCOPED_TRACE(name + " P=" + std::to_string(problem.size) + " parts=" + std::to_string(problem.option[0]));
    std::vector<Plan> plans = CreateAll(name, problem);
    std::vector<const gcoll_plan *> all;
    for (const Plan &plan : plans)
        all.push_back(plan.get());
    gcoll_verify_report report{};
    EXPECT_EQ(GCOLL_OK, gcoll_verify(all.data(), problem.size, &report)) << gcoll_last_error();
    return report;
}

// Whom a rank sends to, in order.
Peers SendsTo(const gcoll_plan &plan) {
    Peers peers;
    for (uint32_t i = 0; i < plan.step_count; i++)
        if (plan.steps[i].kind == GCOLL_STEP_SEND)
            peers.push_back(plan.steps[i].peer);
    return peers;
}

uint64_t ElementsSent(const gcoll_plan &plan) {
    uint64_t sent = 0;
    for (uint32_t i = 0; i < plan.step_count; i++)
        sent += plan.steps[i].kind == GCOLL_STEP_SEND ? plan.steps[i].count : 0;
    return sent;
}

// ---- Shapes ----------------------------------------------------------------------------------------------

TEST(Tree, IsNumberedInPostOrder) {
    for (uint32_t size = 1; size <= 200; size++) {
        const uint32_t begin = 1000, end = begin + size;
        std::vector<uint32_t> below(size, 1), first(size); // of each subtree: ranks, and the lowest
        uint32_t roots = 0;
        for (uint32_t rank = begin; rank < end; rank++) { // children stand before their parents
            gcoll_tree_place at = gcoll_tree_find(begin, end, rank);
            uint32_t next = rank;
            for (uint32_t child : {at.right, at.left}) {
                if (child == GCOLL_TREE_NOBODY)
                    continue;
                ASSERT_EQ(next - 1, child) << "subtrees stand side by side, before their root";
                ASSERT_EQ(rank, gcoll_tree_find(begin, end, child).parent);
                ASSERT_EQ(at.depth + 1, gcoll_tree_find(begin, end, child).depth);
                below[rank - begin] += below[child - begin];
                next = first[child - begin];
            }
            first[rank - begin] = next;
            EXPECT_LE(std::ldexp(1, static_cast<int>(at.depth)), size) << "balanced";
            roots += at.parent == GCOLL_TREE_NOBODY;
        }
        EXPECT_EQ(1u, roots);
        EXPECT_EQ(size, below[size - 1]);
    }
}

TEST(Tree, PartsAreNoMoreThanElements) {
    EXPECT_EQ(1u, gcoll_tree_parts(0, 8));
    EXPECT_EQ(3u, gcoll_tree_parts(3, 8));
    EXPECT_EQ(8u, gcoll_tree_parts(1000, 8));
    EXPECT_EQ(1u, gcoll_tree_parts(1000, GCOLL_BY_COST));
    EXPECT_EQ(64u, gcoll_tree_parts(1 << 20, GCOLL_BY_COST));
    EXPECT_EQ(static_cast<uint32_t>(GCOLL_TREE_MAX_PARTS),
              gcoll_tree_parts(UINT64_C(1) << 40, GCOLL_BY_COST));
}

// ---- Order -----------------------------------------------------------------------------------------------

// Strings that are put side by side: the result tells the order.
void ExpectOrder(const std::string &name, uint32_t size, int64_t option, const std::vector<uint32_t> &order) {
    SCOPED_TRACE(name + " P=" + std::to_string(size) + " option=" + std::to_string(option));
    for (bool in_place : {false, true}) {
        gcoll_problem problem = Allreduce(size, 5, option);
        problem.in_place = in_place;
        std::vector<Plan> plans = CreateAll(name, problem);
        Runner<std::string> run(plans, size);
        run.op = [](const std::string &a, const std::string &b) { return a + b; };
        std::string expected;
        for (uint32_t rank : order)
            expected += std::to_string(rank) + " ";
        for (uint32_t rank = 0; rank < size; rank++)
            std::fill((in_place ? run.out : run.in)[rank][0].begin(),
                      (in_place ? run.out : run.in)[rank][0].end(), std::to_string(rank) + " ");
        ASSERT_TRUE(run.Run()) << run.error;
        for (uint32_t rank = 0; rank < size; rank++)
            for (const std::string &got : run.out[rank][0])
                ASSERT_EQ(expected, got) << "on rank " << rank;
    }
}

TEST(TreePlanners, KeepTheOrderOfRanks) {
    for (uint32_t size : {1, 2, 3, 4, 5, 6, 7, 8, 11, 14, 17, 30}) {
        std::vector<uint32_t> order(size);
        std::iota(order.begin(), order.end(), 0);
        for (const char *name : {"dual_root", "tree_pipelined", "star", "circle"})
            for (int64_t parts : {1, 2, 5})
                ExpectOrder(name, size, parts, order);
        ExpectOrder("butterfly", size, 0, order);
        ExpectOrder("butterfly", size, 1, order);
    }
}

TEST(Recursive, AddsUpTheUpperHalfFirst) {
    ExpectOrder("recursive", 2, 0, {0, 1});
    ExpectOrder("recursive", 6, 0, {0, 4, 2, 1, 5, 3});
    ExpectOrder("recursive", 8, 0, {0, 4, 2, 6, 1, 5, 3, 7});
}

// ---- Steps -----------------------------------------------------------------------------------------------

TEST(DualRoot, ThreeStepsABlock) {
    for (uint32_t height = 1; height <= 4; height++) {
        const uint32_t size = 2 * ((2u << height) - 1); // two full trees
        for (uint32_t blocks : {1, 2, 3, 8, 40}) {
            gcoll_problem problem = Allreduce(size, 80 * 3, blocks);
            gcoll_verify_report report = Verify("dual_root", problem);
            // Two steps a level up, the swap, two a level down.
            EXPECT_EQ(4 * height + 1 + 3 * (blocks - 1), report.steps);
            EXPECT_EQ(3 * problem.count, report.sent_max);
            EXPECT_EQ(3 * problem.count, report.reduced_max);
            EXPECT_EQ(3 * blocks, report.messages_max);
            EXPECT_EQ(problem.count / blocks, report.scratch_max);
        }
    }
}

TEST(DualRoot, RanksInTheMiddleSendThreeTimesTheVectorAndLeavesOnce) {
    std::vector<Plan> plans = CreateAll("dual_root", Allreduce(14, 12, 4));
    // Trees 0 1 2 | 3 4 5 | 6 and 7 8 9 | 10 11 12 | 13.
    const std::vector<uint64_t> times = {1, 1, 3, 1, 1, 3, 3, 1, 1, 3, 1, 1, 3, 3};
    for (uint32_t rank = 0; rank < 14; rank++)
        EXPECT_EQ(12 * times[rank], ElementsSent(*plans[rank])) << "rank " << rank;
}

TEST(TreePipelined, FourStepsABlock) {
    for (uint32_t height = 1; height <= 5; height++) {
        const uint32_t size = (2u << height) - 1;
        for (uint32_t blocks : {1, 2, 3, 8, 40}) {
            gcoll_problem problem = Allreduce(size, 80 * 3, blocks);
            gcoll_verify_report report = Verify("tree_pipelined", problem);
            EXPECT_EQ(4 * height + 4 * (blocks - 1), report.steps);
            EXPECT_EQ((height > 1 ? 3 : 2) * problem.count, report.sent_max);
            EXPECT_EQ(2 * problem.count, report.reduced_max);
            EXPECT_EQ(0u, report.scratch_max);
        }
    }
}

TEST(TreePlanners, CostsCountTheStepsOfEveryShape) {
    for (const char *name : {"dual_root", "tree_pipelined", "circle"})
        for (uint32_t size = 1; size <= 48; size++)
            for (uint32_t parts : {1, 2, 5, 16}) {
                gcoll_problem problem = Allreduce(size, 80, parts);
                gcoll_cost cost = Cost(name, problem);
                ASSERT_EQ(Verify(name, problem).steps, cost.steps)
                    << name << " P=" << size << " parts=" << parts;
                EXPECT_DOUBLE_EQ(cost.steps * 80 / parts, cost.sent);
            }
}

TEST(Star, AllGoesThroughRankZero) {
    for (uint32_t size : {2, 3, 5, 8})
        for (uint32_t slices : {1, 2, 5}) {
            gcoll_problem problem = Allreduce(size, 20, slices);
            gcoll_verify_report report = Verify("star", problem);
            // Rank 0 takes what comes one by one; what it sends at the end leaves all at once but for its
            // port.
            EXPECT_EQ(slices * (size - 1) + 1, report.steps);
            EXPECT_EQ((size - 1) * 20u, report.sent_max);
            EXPECT_EQ((size - 1) * 20u, report.reduced_max);
            EXPECT_EQ((size - 1) * slices, report.messages_max);
            EXPECT_EQ((slices + 1.0) * (size - 1), Cost("star", problem).steps);
            std::vector<Plan> plans = CreateAll("star", problem);
            for (uint32_t rank = 1; rank < size; rank++)
                EXPECT_EQ(Peers(slices, 0), SendsTo(*plans[rank]));
        }
}

TEST(Circle, UpTheChainAndDownAgain) {
    const uint32_t size = 5, slices = 4;
    gcoll_problem problem = Allreduce(size, 20, slices);
    std::vector<Plan> plans = CreateAll("circle", problem);
    for (uint32_t rank = 0; rank < size; rank++) {
        Peers peers = SendsTo(*plans[rank]);
        EXPECT_EQ(rank + 1 < size ? slices : 0, std::count(peers.begin(), peers.end(), rank + 1));
        EXPECT_EQ(rank > 0 ? slices : 0, std::count(peers.begin(), peers.end(), rank - 1));
        EXPECT_EQ(rank == 0 || rank == size - 1 ? 20u : 40u, ElementsSent(*plans[rank]));
    }
    gcoll_verify_report report = Verify("circle", problem);
    EXPECT_EQ(2 * slices + 2 * size - 3, report.steps);
    EXPECT_EQ(20u, report.reduced_max);
    EXPECT_EQ(2 * (size - 1), Verify("circle", Allreduce(size, 20, 1)).steps);
}

TEST(Recursive, SendsAsInTheFigure) {
    std::vector<Plan> plans = CreateAll("recursive", Allreduce(6, 4));
    const std::vector<Peers> expected = {{1, 2, 4}, {0, 3, 5}, {0}, {1}, {0}, {1}};
    for (uint32_t rank = 0; rank < 6; rank++)
        EXPECT_EQ(expected[rank], SendsTo(*plans[rank])) << "rank " << rank;
    for (uint32_t size : {2, 4, 8, 32}) {
        gcoll_verify_report report = Verify("recursive", Allreduce(size, 4));
        EXPECT_EQ(2 * gcoll_log2_ceil(size), report.steps);
        EXPECT_EQ(4 * gcoll_log2_ceil(size), report.reduced_max);
    }
}

TEST(Butterfly, FillsInForRanksThatDoNotExist) {
    std::vector<Plan> six = CreateAll("butterfly", Allreduce(6, 4, 0));
    const std::vector<Peers> of_six = {{1, 2, 4, 3, 2}, {0, 3, 5}, {3, 0}, {2, 1}, {5, 0}, {4, 1}};
    for (uint32_t rank = 0; rank < 6; rank++)
        EXPECT_EQ(of_six[rank], SendsTo(*six[rank])) << "rank " << rank;
    std::vector<Plan> seven = CreateAll("butterfly", Allreduce(7, 4, 0));
    const std::vector<Peers> of_seven = {{1, 2, 4, 3}, {0, 3, 5}, {3, 0, 6}, {2, 1},
                                         {5, 6, 5, 0}, {4, 1},    {4, 2}};
    for (uint32_t rank = 0; rank < 7; rank++)
        EXPECT_EQ(of_seven[rank], SendsTo(*seven[rank])) << "rank " << rank;
}

TEST(Butterfly, HalvedTakesHalfTheSums) {
    for (uint32_t levels = 1; levels <= 5; levels++) {
        gcoll_verify_report whole = Verify("butterfly", Allreduce(1u << levels, 8, 0));
        gcoll_verify_report halved = Verify("butterfly", Allreduce(1u << levels, 8, 1));
        EXPECT_EQ(levels, whole.steps);
        EXPECT_EQ(2 * levels, halved.steps);
        EXPECT_EQ(8 * levels, whole.sent_max);
        EXPECT_EQ(8 * levels, halved.sent_max);
        EXPECT_EQ(8 * levels, whole.reduced_max);
        EXPECT_EQ(4 * levels, halved.reduced_max);
        EXPECT_EQ(8u, whole.scratch_max);
        EXPECT_EQ(0u, halved.scratch_max);
    }
}

// ---- Time
// --------------------------------------------------------------------------------------------------

// Of the plans as they are, or with another window; one port each.
double Simulate(const std::string &name, const gcoll_problem &problem, double alpha, double beta,
                const uint32_t *window = nullptr, double gamma = 0) {
    std::vector<Plan> plans = CreateAll(name, problem);
    std::vector<const gcoll_plan *> all;
    for (Plan &plan : plans) {
        if (window)
            plan->window = *window;
        all.push_back(plan.get());
    }
    gcoll_simulate_options options;
    gcoll_simulate_options_init(&options);
    options.network.alpha = alpha;
    options.network.beta = beta;
    options.gamma = gamma;
    gcoll_simulation *simulation = nullptr;
    EXPECT_EQ(GCOLL_OK, gcoll_simulate(all.data(), problem.size, &options, &simulation))
        << gcoll_last_error();
    double time = simulation ? simulation->time : 0;
    gcoll_simulation_destroy(simulation);
    return time;
}

TEST(DualRoot, TimeTendsToThreeTimesTheVectorAndOfOneTreeToFour) {
    const double once = 1e-9 * 60000;
    for (uint32_t size : {14, 30, 41}) {
        const uint32_t depth = 4 * gcoll_log2_ceil(size);
        for (uint32_t blocks : {30, 300}) {
            gcoll_problem problem = Allreduce(size, 60000, blocks);
            double dual = Simulate("dual_root", problem, 0, 1e-9) / once;
            double single = Simulate("tree_pipelined", problem, 0, 1e-9) / once;
            EXPECT_GE(dual, 3.0);
            EXPECT_LE(dual, 3.0 + 1.0 * depth / blocks);
            EXPECT_GE(single, 4.0);
            EXPECT_LE(single, 4.0 + 1.0 * depth / blocks);
        }
    }
}

TEST(DualRoot, RoundsPay) {
    gcoll_problem problem = Allreduce(30, 60000, 60);
    const uint32_t unbounded = GCOLL_WINDOW_UNBOUNDED;
    EXPECT_LT(1.25 * Simulate("dual_root", problem, 0, 1e-9),
              Simulate("dual_root", problem, 0, 1e-9, &unbounded));
}

TEST(TreePlanners, CostsAreTheTimeWithOnePort) {
    const char *const names[] = {"dual_root", "tree_pipelined", "star", "circle", "recursive"};
    for (const char *name : names)
        for (uint32_t size = 2; size <= 33; size++)
            for (uint32_t parts : {1, 3, 20}) {
                gcoll_problem problem = Allreduce(size, 6000, parts);
                gcoll_cost cost = Cost(name, problem);
                SCOPED_TRACE(std::string(name) + " P=" + std::to_string(size) +
                             " parts=" + std::to_string(parts));
                EXPECT_NEAR(1, Simulate(name, problem, 1e-6, 1e-9) / (1e-6 * cost.steps + 1e-9 * cost.sent),
                            1e-6);
                EXPECT_NEAR(1, Simulate(name, problem, 0, 0, nullptr, 1e-9) / (1e-9 * cost.reduced), 1e-6);
            }
    for (uint32_t size = 2; size <= 33; size++) {
        gcoll_problem problem = Allreduce(size, 6000, 1); // in halves
        gcoll_cost cost = Cost("butterfly", problem);
        EXPECT_NEAR(1, Simulate("butterfly", problem, 1e-6, 1e-9) / (1e-6 * cost.steps + 1e-9 * cost.sent),
                    1e-6)
            << "P=" << size;
        problem.option[0] = 0;
        cost = Cost("butterfly", problem);
        EXPECT_LE(Simulate("butterfly", problem, 1e-6, 1e-9),
                  (1e-6 * cost.steps + 1e-9 * cost.sent) * 1.000001);
    }
}

// ---- Choosing the number of parts
// --------------------------------------------------------------------------

// With s steps for the first block and t for each later one the best number is sqrt(beta m (s - t) / (alpha
// t)).
void ExpectBestParts(const std::string &name, uint32_t size, double first, double later) {
    const gcoll_cost_parameters parameters = {1e-5, 1e-9, 0};
    const gcoll_needs needs{};
    gcoll_problem problem = Allreduce(size, 1 << 22, GCOLL_BY_COST);
    gcoll_choice choice{};
    choice.algorithm = Algorithm(name, GCOLL_ALLREDUCE);
    choice.option[0] = GCOLL_BY_COST;
    gcoll_choice_resolve(&problem, 4, &needs, &parameters, &choice);
    double best = std::sqrt(1e-9 * 4 * (1 << 22) * (first - later) / (1e-5 * later));
    EXPECT_LE(best / 1.5, choice.option[0]) << name;
    EXPECT_GE(best * 1.5, choice.option[0]) << name;
}

TEST(TreePlanners, PartsAreChosenByCost) {
    ExpectBestParts("dual_root", 62, 17, 3);
    ExpectBestParts("tree_pipelined", 63, 20, 4);
    ExpectBestParts("circle", 20, 38, 2);
    ExpectBestParts("star", 9, 16, 8);
}

} // namespace
} // namespace gcoll_test
