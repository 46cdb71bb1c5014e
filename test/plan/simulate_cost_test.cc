// What rows of the table say that they cost, against what the simulator finds, with one port.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "test/plan/simulate_support.h"

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
    // Blocks of unequal sizes wait for one another, by what is ready first.
    {GCOLL_ALLREDUCE, "halving_doubling", {0.79, 1.11}, {0.999, 1.27}, kExact, {0.97, 1.3}},
    // In which order a port takes what is ready at once depends on what reductions take.
    {GCOLL_ALLREDUCE, "butterfly", kExact, kExact, kExact, {0.64, 1.001}},
    {GCOLL_REDUCE_SCATTER, "halving_doubling", {0.999, 1.15}, kExact, kExact, {0.94, 1.06}},
    // Reductions overlap messages; whose, depends on which rank they are of.
    {GCOLL_ALLREDUCE, "spread", kExact, kExact, kExact, {0.9, 1.08}},
    {GCOLL_REDUCE, "spread", kExact, kExact, kExact, {0.88, 1.03}},
    {GCOLL_REDUCE_SCATTER, "spread", kExact, kExact, kExact, {0.82, 1.03}},
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

// What docs/algorithms.md says of formulas that are not exact where P is no power of two: a row an algorithm,
// of it the least and the most that the simulated time is of the formula's, by what is charged for.
struct Documented {
    std::string algorithm;
    std::vector<std::string> cells;
};

std::vector<Documented> Documentation() {
    std::vector<Documented> rows;
    std::ifstream file(ALGORITHMS_MD);
    bool inside = false;
    for (std::string line; std::getline(file, line);) {
        if (line.rfind("<!-- ", 0) == 0)
            inside = line == "<!-- formulas -->";
        if (!inside || line.rfind("| `", 0) != 0)
            continue;
        Documented row{line.substr(3, line.find('`', 3) - 3), {}};
        std::istringstream cells(line.substr(line.find('|', 1) + 1));
        for (std::string cell; std::getline(cells, cell, '|');)
            row.cells.push_back(cell.substr(1, cell.size() - 2));
        rows.push_back(row);
    }
    return rows;
}

bool IsDocumented(const gcoll_algorithm &a) {
    for (const Documented &row : Documentation())
        if (a.collective == GCOLL_ALLREDUCE && row.algorithm.substr(0, row.algorithm.find(':')) == a.name)
            return true;
    return false;
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
    for (uint32_t size = 2; size <= 64; size += size == 33 && !IsDocumented(a) ? 31 : 1)
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

std::string TwoDigits(double value) {
    char text[32];
    snprintf(text, sizeof text, "%.2f", value);
    return text;
}

// P from 3 to 64 that are no powers of two.
TEST(CostDocs, SayByHowMuchFormulasAreOff) {
    const gcoll_simulate_options charged[] = {Options(1e-6, 0), Options(0, 1e-9), Options(0, 0, 1e-9),
                                              Options(1e-6, 1e-9, 3e-10)};
    const std::vector<Documented> rows = Documentation();
    std::set<std::string> names;
    for (const Documented &row : rows) {
        SCOPED_TRACE(row.algorithm);
        names.insert(row.algorithm.substr(0, row.algorithm.find(':')));
        gcoll_choice choice;
        ASSERT_EQ(GCOLL_OK, gcoll_choice_parse(nullptr, row.algorithm.c_str(), GCOLL_ALLREDUCE, &choice));
        std::vector<std::string> found;
        for (const gcoll_simulate_options &by : charged) {
            double least = 1e9, most = 0;
            for (uint32_t size = 3; size < 64; size++) {
                if ((size & (size - 1)) == 0)
                    continue;
                gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, size * UINT64_C(840));
                memcpy(problem.option, choice.option, sizeof problem.option);
                gcoll_cost cost;
                choice.algorithm->cost(&problem, &cost);
                Simulation run = Simulate(CreateAll(*choice.algorithm, problem), by);
                ASSERT_TRUE(run) << gcoll_last_error();
                const double ratio = run->time / (cost.steps * by.network.alpha +
                                                  cost.sent * by.network.beta + cost.reduced * by.gamma);
                least = std::min(least, ratio);
                most = std::max(most, ratio);
            }
            found.push_back(TwoDigits(least) == TwoDigits(most)
                                ? TwoDigits(most)
                                : TwoDigits(least) + " to " + TwoDigits(most));
        }
        EXPECT_EQ(found, row.cells);
    }
    EXPECT_EQ(names, (std::set<std::string>{"butterfly", "halving_doubling", "bcube"}));
}

std::string AsItIs(const testing::TestParamInfo<std::string> &row) {
    return row.param;
}

INSTANTIATE_TEST_SUITE_P(Table, Cost, testing::ValuesIn(Names()), AsItIs);

} // namespace
} // namespace gcoll_test
