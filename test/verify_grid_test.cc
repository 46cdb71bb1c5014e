// test/verify_grid_test.cc - proves every algorithm of the table over a grid of ranks, counts and options,
// and holds it to its published numbers and to its own claims.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "algorithms/algorithms.h"
}

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool small_grid = true; // ten times slower
#else
constexpr bool small_grid = false;
#endif

uint32_t log2_ceil(uint32_t size) {
    uint32_t log = 0;
    while ((uint64_t{1} << log) < size)
        log++;
    return log;
}

int option_index(const gcoll_algorithm &algorithm, const char *name) {
    for (int i = 0; algorithm.options && algorithm.options[i].name; i++)
        if (!std::strcmp(algorithm.options[i].name, name))
            return i;
    return -1;
}

const gcoll_algorithm &find(const char *name) {
    const gcoll_algorithm *const *row = gcoll_algorithms;
    while (std::strcmp((*row)->name, name) != 0)
        row++;
    return **row;
}

std::string describe(const gcoll_algorithm &algorithm, const gcoll_problem &p) {
    std::string text = std::string(algorithm.name) + " P=" + std::to_string(p.size) +
                       " n=" + std::to_string(p.count) + (p.in_place ? " in place" : "") +
                       " buffers=" + std::to_string(p.buffers) + (p.average ? " average" : "") +
                       " segment=" + std::to_string(p.segment) + " root=" + std::to_string(p.root);
    for (int i = 0; algorithm.options && algorithm.options[i].name; i++)
        text += std::string(" ") + algorithm.options[i].name + "=" + std::to_string(p.option[i]);
    return text;
}

// The plans of all ranks.
class Plans {
  public:
    Plans(const gcoll_algorithm &algorithm, gcoll_problem problem) {
        for (problem.rank = 0; problem.rank < problem.size; problem.rank++) {
            gcoll_plan *plan = nullptr;
            status_ = gcoll_plan_create(&algorithm, &problem, &plan);
            if (status_ != GCOLL_OK)
                return;
            plans_.push_back(plan);
        }
    }
    Plans(const Plans &) = delete;
    Plans &operator=(const Plans &) = delete;
    ~Plans() {
        for (gcoll_plan *plan : plans_)
            gcoll_plan_destroy(plan);
    }
    gcoll_status verify(gcoll_verify_report *report) const {
        if (status_ != GCOLL_OK)
            return status_;
        return gcoll_verify(plans_.data(), static_cast<uint32_t>(plans_.size()), report);
    }
    uint64_t largest_step() const {
        uint64_t most = 0;
        for (const gcoll_plan *plan : plans_)
            for (uint32_t i = 0; i < plan->step_count; i++)
                most = std::max(most, plan->steps[i].count);
        return most;
    }

  private:
    gcoll_status status_ = GCOLL_OK;
    std::vector<gcoll_plan *> plans_;
};

// All settings of the options that matter for P: every r up to ceil(log2 P), every word, else the fallback.
std::vector<std::vector<int64_t>> settings(const gcoll_algorithm &algorithm, uint32_t size) {
    std::vector<std::vector<int64_t>> made{{}};
    for (int i = 0; algorithm.options && algorithm.options[i].name; i++) {
        const gcoll_option &option = algorithm.options[i];
        int64_t first = option.fallback, last = option.fallback;
        if (option.words)
            for (first = 0, last = -1; option.words[last + 1]; last++) {
            }
        else if (!std::strcmp(option.name, "r"))
            first = 0, last = log2_ceil(size);
        std::vector<std::vector<int64_t>> longer;
        for (const auto &prefix : made)
            for (int64_t value = first; value <= last; value++) {
                longer.push_back(prefix);
                longer.back().push_back(value);
            }
        made = longer;
    }
    return made;
}

void check(const gcoll_algorithm &algorithm, const gcoll_problem &problem) {
    gcoll_verify_report report;
    Plans plans(algorithm, problem);
    ASSERT_EQ(plans.verify(&report), GCOLL_OK) << describe(algorithm, problem) << ": " << gcoll_last_error();
    uint32_t claims = gcoll_algorithm_claims(&algorithm, &problem);
    bool identical = claims & GCOLL_CLAIM_RANK_IDENTICAL, ordered = claims & GCOLL_CLAIM_ORDERED;
    if (problem.count >= problem.size) {
        EXPECT_EQ(identical, (report.claims & GCOLL_CLAIM_RANK_IDENTICAL) != 0)
            << describe(algorithm, problem);
        EXPECT_EQ(ordered, (report.claims & GCOLL_CLAIM_ORDERED) != 0) << describe(algorithm, problem);
    } else {
        EXPECT_TRUE(!identical || (report.claims & GCOLL_CLAIM_RANK_IDENTICAL))
            << describe(algorithm, problem);
        EXPECT_TRUE(!ordered || (report.claims & GCOLL_CLAIM_ORDERED)) << describe(algorithm, problem);
    }
    if (problem.segment > 0) {
        EXPECT_LE(plans.largest_step(), problem.segment) << describe(algorithm, problem);
    }
}

// Counts and buffers for one P and setting of options.
void check_shapes(const gcoll_algorithm &algorithm, gcoll_problem problem) {
    uint64_t size = problem.size;
    std::set<uint64_t> counts{0, 1, size - 1, size, 3 * size + 1, 1000};
    bool extras = size <= 9 || size == 13 || size == 32;
    for (uint64_t count : counts) {
        problem.count = count;
        for (int shape = 0; shape < 4 && !::testing::Test::HasFatalFailure(); shape++) {
            problem.in_place = shape & 1;
            problem.buffers = shape & 2 ? 3 : 1;
            check(algorithm, problem);
            if (!extras || (count != 3 * size + 1 && count != size))
                continue;
            bool averages = problem.collective == GCOLL_ALLREDUCE;
            for (uint64_t segment : {uint64_t{0}, uint64_t{1}, uint64_t{2}, (count + 2) / 3, count + 1}) {
                for (problem.average = false;; problem.average = true) {
                    problem.segment = segment;
                    check(algorithm, problem);
                    if (problem.average || !averages)
                        break;
                }
                problem.average = false;
            }
            problem.segment = 0;
        }
    }
}

void check_size(const gcoll_algorithm &algorithm, uint32_t size) {
    for (const std::vector<int64_t> &setting : settings(algorithm, size)) {
        gcoll_problem problem{};
        problem.collective = algorithm.collective;
        problem.size = size;
        problem.buffers = 1;
        problem.in_place = true;
        std::copy(setting.begin(), setting.end(), problem.option);
        if (algorithm.applies && algorithm.applies(&problem) != GCOLL_OK)
            continue;
        if (algorithm.collective == GCOLL_BARRIER) {
            check(algorithm, problem);
            continue;
        }
        std::set<uint32_t> roots{0};
        if (algorithm.collective == GCOLL_BROADCAST)
            roots = {0, size / 2, size - 1};
        for (uint32_t root : roots) {
            problem.root = root;
            check_shapes(algorithm, problem);
        }
    }
}

struct Cell {
    const gcoll_algorithm *algorithm;
    uint32_t first, last; // ranks
};

std::vector<Cell> cells() {
    std::vector<Cell> made;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++) {
        if ((*row)->collective > GCOLL_BARRIER)
            continue;
        if (small_grid) {
            for (auto [first, last] : {std::pair{1u, 8u}, {9u, 13u}, {16u, 17u}, {33u, 33u}})
                made.push_back({*row, first, last});
            continue;
        }
        for (auto [first, last] :
             {std::pair{1u, 32u}, {33u, 48u}, {49u, 64u}, {127u, 127u}, {128u, 128u}, {251u, 251u}})
            made.push_back({*row, first, last});
    }
    return made;
}

class Grid : public ::testing::TestWithParam<Cell> {};

TEST_P(Grid, Verifies) {
    for (uint32_t size = GetParam().first; size <= GetParam().last && !HasFatalFailure(); size++)
        check_size(*GetParam().algorithm, size);
}

INSTANTIATE_TEST_SUITE_P(All, Grid, ::testing::ValuesIn(cells()), [](const auto &cell) {
    return std::string(cell.param.algorithm->name) + "_" + std::to_string(cell.param.first) + "_" +
           std::to_string(cell.param.last);
});

// ---- Published numbers: with P elements, elements are chunks ---------------------------------------------

gcoll_verify_report measure(const char *name, uint32_t size, int64_t r, bool in_place, uint64_t chunk = 1) {
    gcoll_problem problem{};
    const gcoll_algorithm &algorithm = find(name);
    problem.collective = algorithm.collective;
    problem.size = size;
    problem.buffers = 1;
    problem.in_place = in_place;
    problem.count = size * chunk;
    int index = option_index(algorithm, "r");
    if (index >= 0)
        problem.option[index] = r;
    gcoll_verify_report report{};
    Plans plans(algorithm, problem);
    EXPECT_EQ(plans.verify(&report), GCOLL_OK) << describe(algorithm, problem) << ": " << gcoll_last_error();

    gcoll_cost cost{};
    algorithm.cost(&problem, &cost);
    EXPECT_GE(cost.steps, report.steps) << describe(algorithm, problem);
    EXPECT_DOUBLE_EQ(cost.sent, static_cast<double>(report.sent_max)) << describe(algorithm, problem);
    EXPECT_DOUBLE_EQ(cost.reduced, static_cast<double>(report.reduced_max)) << describe(algorithm, problem);
    return report;
}

double cost_steps(const char *name, uint32_t size, int64_t r) {
    gcoll_problem problem{};
    const gcoll_algorithm &algorithm = find(name);
    gcoll_cost cost{};
    problem.size = size;
    problem.buffers = 1;
    problem.count = size;
    if (option_index(algorithm, "r") >= 0)
        problem.option[option_index(algorithm, "r")] = r;
    algorithm.cost(&problem, &cost);
    return cost.steps;
}

std::vector<uint32_t> sizes() {
    std::vector<uint32_t> made;
    for (uint32_t size = 1; size <= (small_grid ? 20 : 64); size++)
        made.push_back(size);
    made.insert(made.end(), {127, 128});
    if (!small_grid)
        made.push_back(251);
    return made;
}

TEST(Figures, Ring) {
    for (uint32_t size : sizes()) {
        for (bool in_place : {true, false}) {
            gcoll_verify_report report = measure("ring", size, 0, in_place, 3);
            EXPECT_EQ(cost_steps("ring", size, 0), 2 * (size - 1)) << size;
            EXPECT_EQ(report.steps, 2 * (size - 1)) << size;
            EXPECT_EQ(report.sent_max, 6 * (size - 1)) << size;
            EXPECT_EQ(report.reduced_max, 3 * (size - 1)) << size;
        }
    }
}

TEST(Figures, SortedLinearTree) {
    for (uint32_t size : sizes()) {
        gcoll_verify_report report = measure("sorted_linear_tree", size, 0, true);
        EXPECT_EQ(report.steps, 2 * (size - 1)) << "the way of one segment; the last starts P-1 later";
        EXPECT_EQ(cost_steps("sorted_linear_tree", size, 0), 3 * (size - 1)) << size;
        EXPECT_EQ(report.reduced_max, size > 1 ? size : 0u) << size;
        EXPECT_EQ(report.sent_max, size > 2 ? 2 * size : size > 1 ? size : 0u) << size;
        EXPECT_TRUE((report.claims & GCOLL_CLAIM_ORDERED)) << size;
    }
}

TEST(Figures, GroupButterfly) {
    for (uint32_t size : sizes()) {
        uint32_t L = log2_ceil(size);
        for (uint32_t r = 0; r <= L; r++) {
            for (bool in_place : {true, false}) {
                gcoll_verify_report report = measure("group_butterfly", size, r, in_place);
                uint64_t spare = ((uint64_t{1} << r) - 1) * (L > 0 ? L - 1 : 0);
                SCOPED_TRACE("P=" + std::to_string(size) + " r=" + std::to_string(r));
                EXPECT_EQ(report.steps, 2 * L - r);
                EXPECT_EQ(cost_steps("group_butterfly", size, r), 2 * L - r);
                if (r < L) {
                    EXPECT_LE(report.sent_max, 2 * (size - 1) + spare);
                    EXPECT_LE(report.reduced_max, size - 1 + 2 * spare);
                }
                if (r == 0) {
                    EXPECT_EQ(report.sent_max, 2 * (size - 1));
                    EXPECT_EQ(report.reduced_max, size - 1);
                    EXPECT_TRUE((report.claims & GCOLL_CLAIM_RANK_IDENTICAL));
                }
                if (r == L && L > 0) {
                    EXPECT_EQ(report.sent_max, uint64_t{size} * L);
                }
                if (r == L && L > 1) {
                    EXPECT_LE(report.reduced_max, uint64_t{size} * (2 * L - 2));
                }
            }
        }
    }
}

TEST(Figures, GroupButterflyByThePaper) {
    struct Row {
        uint32_t size, r, steps;
        uint64_t sent;
    };
    for (const Row &row : {Row{7, 0, 6, 12},
                           {7, 1, 5, 14},
                           {7, 2, 4, 18},
                           {7, 3, 3, 21},
                           {127, 0, 14, 252},
                           {127, 4, 10, 342},
                           {127, 7, 7, 889}}) {
        gcoll_verify_report report = measure("group_butterfly", row.size, row.r, true);
        EXPECT_EQ(report.steps, row.steps) << row.size << " " << row.r;
        EXPECT_EQ(report.sent_max, row.sent) << row.size << " " << row.r;
    }
}

TEST(Figures, BinomialAndDissemination) {
    for (uint32_t size : sizes()) {
        gcoll_verify_report report = measure("binomial", size, 0, true);
        uint32_t depth = 0; // to rank i in as many hops as i has ones
        for (uint32_t i = 0; i < size; i++)
            depth = std::max(depth, static_cast<uint32_t>(__builtin_popcount(i)));
        EXPECT_EQ(report.steps, depth) << size;
        EXPECT_EQ(report.sent_total, uint64_t{size} * (size - 1)) << "each but the root gets it once";

        gcoll_problem problem{};
        problem.collective = GCOLL_BARRIER;
        problem.size = size;
        problem.buffers = 1;
        problem.in_place = true;
        Plans plans(find("dissemination"), problem);
        EXPECT_EQ(plans.verify(&report), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(report.steps, log2_ceil(size)) << size;
        EXPECT_EQ(report.messages_max, log2_ceil(size)) << size;
    }
}

} // namespace
