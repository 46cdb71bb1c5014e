// What rows of the table say that they cost, against what the simulator finds, with one port.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "simulate_support.h"

namespace gcoll_test {
namespace {

// Simulated over formula, by what is charged for: alpha, beta or gamma alone, and all three.
struct Bounds {
    double low, high;
};
struct Exception {
    gcoll_collective collective;
    const char *name;
    Bounds alpha, beta, gamma, all;
};

constexpr Bounds kExact{0.999, 1.001};
constexpr Bounds kHidden{0.85,
                         1.001}; // reductions hide behind messages, which a formula that adds up does not see

// Rows whose formula leaves something out; all others are exact.
const Exception exceptions[] = {
    {GCOLL_ALLREDUCE, "ring_chunked", kExact, kExact, kExact, kHidden},
    {GCOLL_ALLREDUCE, "segmented_ring", kExact, kExact, kExact, kHidden},
    {GCOLL_ALLREDUCE, "sorted_linear_tree", kExact, kExact, kExact, kHidden},
    {GCOLL_ALLREDUCE, "circle", kExact, kExact, kExact, {0.98, 1.001}},
    // What the first of a group sends on need not hold up the next exchange; the formula is that of strict
    // rounds.
    {GCOLL_ALLREDUCE, "butterfly", {0.6, 1.001}, {0.6, 1.001}, kExact, {0.65, 1.001}},
    // Blocks of unequal sizes wait for one another, by what is ready first.
    {GCOLL_ALLREDUCE, "halving_doubling", {0.9, 1.1}, {0.999, 1.2}, kExact, {0.999, 1.3}},
    {GCOLL_REDUCE_SCATTER, "halving_doubling", {0.999, 1.15}, kExact, kExact, {0.94, 1.06}},
    // What is gathered by some overlaps what others still reduce.
    {GCOLL_REDUCE, "reduce_scatter_gather", {0.85, 1.001}, {0.88, 1.001}, kExact, {0.9, 1.001}},
};

// Rows that stage buffers in device memory, of which these have none, are what their names begin with.
const Exception *Find(const gcoll_algorithm &a) {
    const std::string name = a.name, staged = "cuda_";
    for (const Exception &e : exceptions)
        if (e.collective == a.collective &&
            (name == e.name || (a.staging && name.rfind(staged + e.name, 0) == 0)))
            return &e;
    return nullptr;
}

std::string Name(const gcoll_algorithm &a) {
    return std::string(gcoll_collective_name(a.collective)) + "_" + a.name;
}

std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++)
        if (!(*row)->staging) // else its cost is another row's
            names.push_back(Name(**row));
    return names;
}

const gcoll_algorithm &Row(const std::string &name) {
    const gcoll_algorithm *const *row = gcoll_algorithms;
    while (Name(**row) != name)
        row++;
    return **row;
}

class Cost : public testing::TestWithParam<std::string> {};

TEST_P(Cost, IsWhatTheSimulatorFinds) {
    const gcoll_algorithm &a = Row(GetParam());
    const char *const names[] = {"alpha", "beta", "gamma", "all"};
    const gcoll_simulate_options charged[] = {Options(1e-6, 0), Options(0, 1e-9), Options(0, 0, 1e-9),
                                              Options(1e-6, 1e-9, 3e-10)};
    const Exception none{a.collective, a.name, kExact, kExact, kExact, kExact};
    const Exception &e = Find(a) ? *Find(a) : none;
    const Bounds bounds[] = {e.alpha, e.beta, e.gamma, e.all};
    struct Found {
        double lowest = 1, highest = 1;
        uint32_t low_size = 0, high_size = 0;
    } found[4];
    for (uint32_t size = 2; size <= 64; size += size == 33 ? 31 : 1)
        for (uint64_t chunk : {840u, 84000u}) {
            gcoll_problem problem = Problem(a.collective, 0, size, size * chunk);
            problem.count = a.collective == GCOLL_BARRIER ? 0 : problem.count;
            SetFallbacks(&problem, &a);
            if (a.applies && a.applies(&problem) != GCOLL_OK)
                continue;
            std::vector<Plan> plans = CreateAll(a, problem);
            gcoll_cost cost;
            a.cost(&problem, &cost);
            for (int k = 0; k < 4; k++) {
                Simulation run = Simulate(plans, charged[k]);
                ASSERT_TRUE(run) << "P=" << size << ": " << gcoll_last_error();
                double formula = cost.steps * charged[k].network.alpha + cost.sent * charged[k].network.beta +
                                 cost.reduced * charged[k].gamma;
                ASSERT_EQ(formula == 0, run->time == 0) << names[k] << " at P=" << size;
                double ratio = formula == 0 ? 1 : run->time / formula;
                if (ratio < found[k].lowest)
                    found[k].lowest = ratio, found[k].low_size = size;
                if (ratio > found[k].highest)
                    found[k].highest = ratio, found[k].high_size = size;
            }
        }
    for (int k = 0; k < 4; k++) {
        EXPECT_GE(found[k].lowest, bounds[k].low) << names[k] << " at P=" << found[k].low_size;
        EXPECT_LE(found[k].highest, bounds[k].high) << names[k] << " at P=" << found[k].high_size;
    }
}

std::string AsItIs(const testing::TestParamInfo<std::string> &row) {
    return row.param;
}

INSTANTIATE_TEST_SUITE_P(Table, Cost, testing::ValuesIn(Names()), AsItIs);

} // namespace
} // namespace gcoll_test
