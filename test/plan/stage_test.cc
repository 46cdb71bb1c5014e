// The staging pass by hand: what is copied when, where several buffers are reduced, and what is refused. That
// staged plans are right is for verify_staging_test.cc, over a grid.
#include <gtest/gtest.h>

#include "test/kit/plan_runner.h"

namespace gcoll_test {
namespace {

constexpr uint32_t kHost = GCOLL_HOST_MEMORY, kFirst = GCOLL_DEVICE_MEMORY(0),
                   kSecond = GCOLL_DEVICE_MEMORY(1);

struct Memories {
    std::vector<uint32_t> in, out;
    void In(gcoll_problem *problem) const {
        problem->buffers = static_cast<uint32_t>(out.size());
        problem->in_memory = in.data();
        problem->out_memory = out.data();
    }
};

// "copy", "fold", ... and what they touch: D0 is device 0, H the host.
std::string Place(const gcoll_problem &problem, gcoll_ref ref) {
    const uint32_t memory = gcoll_problem_memory(&problem, ref);
    const std::string where = memory == kHost ? "H" : "D" + std::to_string(memory - 1);
    const char *const names[] = {".in", ".out", ""};
    return where + names[ref.space] + (ref.space == GCOLL_SCRATCH ? "" : std::to_string(ref.index));
}

std::string Text(const gcoll_plan &plan, const gcoll_step &s) {
    const gcoll_problem &p = plan.problem;
    const std::string count = " " + std::to_string(s.count);
    switch (s.kind) {
    case GCOLL_STEP_SEND:
        return "send " + Place(p, s.a) + count;
    case GCOLL_STEP_RECV:
        return "recv " + Place(p, s.dst) + count;
    case GCOLL_STEP_RECV_REDUCE:
        return "recv+ " + Place(p, s.dst) + count;
    case GCOLL_STEP_REDUCE:
        return "reduce " + Place(p, s.dst) + " " + Place(p, s.a) + " " + Place(p, s.b) + count;
    case GCOLL_STEP_DIVIDE:
        return "divide " + Place(p, s.dst) + count;
    case GCOLL_STEP_COPY:
        return s.count == 0 ? "fence" : "copy " + Place(p, s.dst) + " " + Place(p, s.a) + count;
    default: {
        std::string text = "fold " + Place(p, s.dst);
        gcoll_ref operand = s.a;
        for (uint32_t i = 0; i < s.operand_count; i++) {
            operand.index = plan.operands[s.first_operand + i];
            text += " " + Place(p, operand);
        }
        return text + count;
    }
    }
}

std::vector<std::string> StepsOf(const std::string &algorithm, const gcoll_problem &problem) {
    const Plan plan = Create(algorithm, problem);
    std::vector<std::string> steps;
    if (!plan)
        return {gcoll_last_error()};
    for (uint32_t i = 0; i < plan->step_count; i++)
        steps.push_back(Text(*plan, plan->steps[i]));
    return steps;
}

using Steps = std::vector<std::string>;

TEST(Stage, EachChunkOfARingIsCopiedBeforeItsFirstUseAndAfterItsLast) {
    const Memories memories = {{kFirst}, {kFirst}};
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 2, 10);
    problem.in_place = true;
    memories.In(&problem);
    EXPECT_EQ((Steps{"copy H D0.out0 5", "copy H D0.out0 5", "send H 5", "recv+ H 5", "send H 5", "recv H 5",
                     "copy D0.out0 H 5", "copy D0.out0 H 5"}),
              StepsOf("ring", problem));
}

TEST(Stage, AsAWholeThereIsAFenceBeforeAndAfterTheMessages) {
    const Memories memories = {{kFirst}, {kFirst}};
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 2, 10);
    problem.staging.whole = true;
    memories.In(&problem);
    const Steps steps = StepsOf("ring", problem);
    ASSERT_GE(steps.size(), 4u);
    EXPECT_EQ("copy H D0.in0 10", steps[0]);
    EXPECT_EQ("fence", steps[1]);
    EXPECT_EQ("fence", steps[steps.size() - 2]);
    EXPECT_EQ("copy D0.out0 H 10", steps.back());
    EXPECT_EQ(2, std::count(steps.begin(), steps.end(), "fence"));
}

// recursive_doubling of two ranks: one message each way, of all elements.
Steps OfThree(gcoll_local local, const Memories &memories) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 2, 10);
    problem.staging.local = local;
    memories.In(&problem);
    return StepsOf("recursive_doubling", problem);
}

TEST(Stage, ADeviceReducesItsBuffersAndPassesTheResultOn) {
    EXPECT_EQ(
        (Steps{"fold D0.out0 D0.in0 D0.in1 D0.in2 10", "copy H D0.out0 10", "send H 10", "recv H 10",
               "reduce H H H 10", "copy D0.out0 H 10", "copy D0.out1 D0.out0 10", "copy D0.out2 D0.out0 10"}),
        OfThree(GCOLL_LOCAL_DEVICE, {{kFirst, kFirst, kFirst}, {kFirst, kFirst, kFirst}}));
}

TEST(Stage, TheHostReducesWhatItIsToldTo) {
    EXPECT_EQ((Steps{"copy H D0.in0 10", "copy H D0.in1 10", "copy H D0.in2 10", "reduce H H H 10",
                     "reduce H H H 10", "send H 10", "recv H 10", "reduce H H H 10", "copy D0.out0 H 10",
                     "copy D0.out1 H 10", "copy D0.out2 H 10"}),
              OfThree(GCOLL_LOCAL_HOST, {{kFirst, kFirst, kFirst}, {kFirst, kFirst, kFirst}}));
}

TEST(Stage, TheHostReducesWhatSeveralDevicesHaveComeTo) {
    EXPECT_EQ((Steps{"fold D0.out0 D0.in0 D0.in2 10", "copy H D0.out0 10", "copy H D1.in1 10",
                     "reduce H H H 10", "send H 10", "recv H 10", "reduce H H H 10", "copy D0.out0 H 10",
                     "copy D1.out1 H 10", "copy D0.out2 D0.out0 10"}),
              OfThree(GCOLL_LOCAL_DEVICE, {{kFirst, kSecond, kFirst}, {kFirst, kSecond, kFirst}}));
}

TEST(Stage, APeerReadsTheOthersMemory) {
    EXPECT_EQ(
        (Steps{"fold D0.out0 D0.in0 D1.in1 D0.in2 10", "copy H D0.out0 10", "send H 10", "recv H 10",
               "reduce H H H 10", "copy D0.out0 H 10", "copy D1.out1 D0.out0 10", "copy D0.out2 D0.out0 10"}),
        OfThree(GCOLL_LOCAL_PEER, {{kFirst, kSecond, kFirst}, {kFirst, kSecond, kFirst}}));
}

TEST(Stage, BuffersInHostMemoryTakePartWithoutACopy) {
    EXPECT_EQ((Steps{"copy H D0.in1 10", "reduce H.out0 H.in0 H.in2 10", "reduce H.out0 H.out0 H 10",
                     "send H.out0 10", "recv H 10", "reduce H.out0 H.out0 H 10", "copy D0.out1 H.out0 10",
                     "copy H.out2 H.out0 10"}),
              OfThree(GCOLL_LOCAL_DEVICE, {{kHost, kFirst, kHost}, {kHost, kFirst, kHost}}));
}

TEST(Stage, OneRankByItselfLeavesAllOnItsDevice) {
    const Memories memories = {{kFirst, kFirst}, {kFirst, kFirst}};
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 1, 10);
    problem.average = true;
    memories.In(&problem);
    EXPECT_EQ((Steps{"fold D0.out0 D0.in0 D0.in1 10", "divide D0.out0 10", "copy D0.out1 D0.out0 10"}),
              StepsOf("ring", problem));
    const Plan plan = Create("ring", problem);
    EXPECT_EQ(0u, plan->scratch);
    EXPECT_EQ(2u, plan->divisor);
}

TEST(Stage, ARootReadsItsFirstBufferOnceAndWritesTheOthersOnly) {
    const Memories memories = {{kFirst, kFirst, kSecond}, {kFirst, kFirst, kSecond}};
    gcoll_problem problem = Problem(GCOLL_BROADCAST, 0, 3, 10);
    problem.in_place = true;
    memories.In(&problem);
    EXPECT_EQ((Steps{"copy H D0.out0 10", "send H 10", "send H 10", "copy D0.out1 D0.out0 10",
                     "copy D1.out2 H 10"}),
              StepsOf("one_to_all", problem));
}

TEST(Stage, WhatLiesOnTheHostIsUsedWhereItIs) {
    const Memories memories = {{kHost}, {kFirst}};
    gcoll_problem problem = Problem(GCOLL_ALLGATHER, 1, 2, 10);
    memories.In(&problem);
    for (const std::string &step : StepsOf("ring", problem)) {
        EXPECT_NE(0u, step.find("copy H D")) << step; // nothing is to be read from the device
        if (step.find("send") == 0)
            EXPECT_EQ("send H.in0 5", step);
    }
}

// A round may begin when the one before it is done: a copy that stood in the round that needs it would not
// begin before that.
TEST(Stage, CopiesStandOneRoundAheadAndOneBehind) {
    const Memories memories = {{kFirst}, {kFirst}};
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 5, 16, 160);
    memories.In(&problem);
    problem.option[0] = 8;
    const Plan plan = Create("tree_pipelined", problem);
    ASSERT_TRUE(plan);
    EXPECT_LT(plan->window, plan->rounds);
    uint32_t ahead = 0, behind = 0;
    for (uint32_t i = 0; i < plan->step_count; i++)
        for (uint32_t k = 0; k < plan->steps[i].successors; k++) {
            const gcoll_step &step = plan->steps[i],
                             &next = plan->steps[plan->successors[step.first_successor + k]];
            const bool loads = step.kind == GCOLL_STEP_COPY && step.dst.space == GCOLL_SCRATCH;
            const bool unloads = next.kind == GCOLL_STEP_COPY && next.a.space == GCOLL_SCRATCH;
            if (loads && next.round > plan->steps[0].round) {
                EXPECT_LT(step.round, next.round);
                ahead++;
            }
            if (unloads && step.round + 1 < plan->rounds) {
                EXPECT_LT(step.round, next.round);
                behind++;
            }
        }
    EXPECT_GT(ahead, 0u);
    EXPECT_GT(behind, 0u);
}

TEST(Stage, ScratchIsBounded) {
    for (uint32_t buffers : {1u, 2u, 5u}) {
        const std::vector<uint32_t> memory(buffers, kFirst);
        const Memories memories = {memory, memory};
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 4, 100);
        problem.staging.local = GCOLL_LOCAL_HOST;
        memories.In(&problem);
        EXPECT_EQ(100u * buffers, gcoll_staging_bound(&problem));
        EXPECT_EQ(100u * buffers, Create("ring", problem)->scratch);
        problem.staging.local = GCOLL_LOCAL_DEVICE;
        EXPECT_EQ(100u, Create("ring", problem)->scratch);
    }
}

TEST(Stage, WhatCannotBeSoIsRefusedWithTheReason) {
    EXPECT_NE(std::string::npos, OfThree(GCOLL_LOCAL_PEER, {{kFirst, kHost, kFirst}, {kFirst, kHost, kFirst}})
                                     .at(0)
                                     .find("buffer 1 lies in host memory"));
    EXPECT_NE(std::string::npos,
              OfThree(GCOLL_LOCAL_DEVICE, {{kFirst, kFirst, kFirst}, {kHost, kHost, kHost}})
                  .at(0)
                  .find("no output lies there"));
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 2, UINT64_MAX / 2);
    const Memories many = {{kFirst, kFirst, kFirst, kFirst}, {kFirst, kFirst, kFirst, kFirst}};
    many.In(&problem);
    problem.staging.local = GCOLL_LOCAL_HOST;
    gcoll_plan *plan = nullptr;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("ring"), &problem, &plan));
    problem.count = 10;
    const Memories wrong = {{GCOLL_MAX_DEVICES + 1}, {kHost}};
    wrong.In(&problem);
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("ring"), &problem, &plan));
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "in_memory[0] is 1025"));
    const Memories torn = {{kFirst}, {kSecond}};
    torn.In(&problem);
    problem.in_place = true;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("ring"), &problem, &plan));
    problem.in_place = false;
    problem.staging.local = GCOLL_LOCAL_COUNT;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("ring"), &problem, &plan));
}

TEST(Stage, RowsThatSayHowAreStagedSo) {
    const Memories memories = {{kFirst, kFirst}, {kFirst, kFirst}};
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 2, 10);
    memories.In(&problem);
    problem.staging.local = GCOLL_LOCAL_DEVICE; // which these rows do not ask
    const Steps ring = StepsOf("cuda_ring", problem);
    EXPECT_EQ((Steps{"copy H D0.in0 10", "copy H D0.in1 10", "reduce H H H 10", "fence"}),
              Steps(ring.begin(), ring.begin() + 4));
    problem.staging.local = GCOLL_LOCAL_PEER;
    EXPECT_EQ("fold D0.out0 D0.in0 D0.in1 10", StepsOf("cuda_halving_doubling", problem).at(0));
    const Steps pipelined = StepsOf("cuda_halving_doubling_pipelined", problem);
    EXPECT_EQ("fold D0.out0 D0.in0 D0.in1 5", pipelined.at(0)); // the half that is sent first
    EXPECT_EQ(0, std::count(pipelined.begin(), pipelined.end(), "fence"));
    problem.in_memory = problem.out_memory = nullptr;
    problem.buffers = 1;
    EXPECT_EQ(StepsOf("ring_full", problem), StepsOf("cuda_ring", problem)); // nothing to stage
}

} // namespace
} // namespace gcoll_test
