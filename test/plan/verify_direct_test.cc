// test/plan/verify_direct_test.cc - plans whose messages go from and to device memory, and who may have such.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "test/plan/verify_grid.h"

namespace verify_grid {
namespace {

std::vector<const gcoll_algorithm *> algorithms_that_move() {
    std::vector<const gcoll_algorithm *> made;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++)
        if (!gcoll_collective_reduces((*row)->collective) && (*row)->collective != GCOLL_BARRIER)
            made.push_back(*row);
    return made;
}

Operation direct_operation(const gcoll_algorithm &algorithm, uint32_t size, std::mt19937_64 &random) {
    static const uint64_t counts[] = {0, 1, 63, 1000};
    Operation operation(algorithm.collective, size, counts[random() % 4]);
    gcoll_problem &p = operation.problem;
    p.root = has_root(algorithm.collective) ? static_cast<uint32_t>(random() % size) : 0;
    operation.place = random() % 2 ? Place::mixed : Place::apart;
    p.buffers = has_buffers(algorithm.collective) ? 1 + static_cast<uint32_t>(random() % 3) : 1;
    p.segment = random() % 2 ? 7 : 0;
    p.staging.direct = true;
    const auto all = settings(algorithm, size);
    const auto &chosen = all[random() % all.size()];
    std::copy(chosen.begin(), chosen.end(), p.option);
    operation.use_layout(static_cast<Layout>(1 + random() % (layout_count - 1)));
    return operation;
}

class Direct : public ::testing::TestWithParam<const gcoll_algorithm *> {};

TEST_P(Direct, Verifies) {
    const gcoll_algorithm &algorithm = *GetParam();
    std::mt19937_64 random(4711);
    for (uint32_t size : {1, 2, 3, 4, 5, 7, 8, 16, 17})
        for (int i = 0; i < 20 && !HasFailure(); i++) {
            const Operation operation = direct_operation(algorithm, size, random);
            SCOPED_TRACE(operation.describe(algorithm));
            gcoll_problem problem = operation.of(0);
            if (algorithm.applies && algorithm.applies(&problem) != GCOLL_OK)
                continue;
            Plans plans(algorithm, operation);
            gcoll_verify_report report;
            ASSERT_EQ(plans.status(), GCOLL_OK) << gcoll_last_error();
            EXPECT_EQ(plans.verify(&report), GCOLL_OK) << gcoll_last_error();
        }
}

INSTANTIATE_TEST_SUITE_P(All, Direct, ::testing::ValuesIn(algorithms_that_move()), [](const auto &of) {
    return std::string(gcoll_collective_name(of.param->collective)) + "_" + of.param->name;
});

// Two ranks, a buffer each on a device: the plans of one collective.
struct Pair {
    Pair(gcoll_collective collective, const char *name, bool direct) {
        for (uint32_t rank = 0; rank < 2; rank++) {
            gcoll_problem problem = {};
            problem.collective = collective;
            problem.rank = rank;
            problem.size = 2;
            problem.buffers = 1;
            problem.count = 100;
            problem.in_memory = problem.out_memory = &memory;
            problem.staging.direct = direct;
            for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++)
                if ((*row)->collective == collective && strcmp((*row)->name, name) == 0) {
                    EXPECT_EQ(gcoll_plan_create(*row, &problem, &plans[rank]), GCOLL_OK)
                        << gcoll_last_error();
                }
        }
    }
    ~Pair() {
        gcoll_plan_destroy(plans[0]);
        gcoll_plan_destroy(plans[1]);
    }
    gcoll_status verify() {
        gcoll_verify_report report;
        return gcoll_verify(plans, 2, &report);
    }
    const uint32_t memory = GCOLL_DEVICE_MEMORY(3);
    gcoll_plan *plans[2] = {nullptr, nullptr};
};

TEST(DirectPlans, CopyNothingToTheHost) {
    Pair direct(GCOLL_ALLGATHER, "ring", true), staged(GCOLL_ALLGATHER, "ring", false);
    EXPECT_EQ(direct.plans[0]->scratch, 0u);
    EXPECT_GT(staged.plans[0]->scratch, 0u);
    EXPECT_EQ(direct.verify(), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(staged.verify(), GCOLL_OK) << gcoll_last_error();
}

TEST(DirectPlans, WithoutTheFlagNoMessageTouchesADevice) {
    Pair pair(GCOLL_ALLGATHER, "ring", true);
    pair.plans[1]->problem.staging.direct = false;
    EXPECT_NE(pair.verify(), GCOLL_OK);
    EXPECT_NE(strstr(gcoll_last_error(), "touches the memory of device 3"), nullptr) << gcoll_last_error();
}

TEST(DirectPlans, WhatReducesIsStagedAllTheSame) {
    Pair pair(GCOLL_ALLREDUCE, "ring", true);
    EXPECT_GE(pair.plans[0]->scratch, 100u);
    EXPECT_EQ(pair.verify(), GCOLL_OK) << gcoll_last_error();
}

} // namespace
} // namespace verify_grid
