// test/plan/pass_test.cc - passes against plain sums: what a plan computes stays right when it is cut, given
// several buffers, averaged.
#include <gtest/gtest.h>

#include "test/kit/plan_runner.h"

namespace gcoll_test {
namespace {

int64_t Value(uint32_t rank, uint32_t buffer, uint64_t e) {
    return int64_t(rank * 7919 + buffer * 104729 + e * e * 31 + 17) % 1000003;
}

// What every buffer of every rank must hold.
std::vector<int64_t> Expected(const gcoll_problem &p) {
    std::vector<int64_t> sum(p.count, 0);
    for (uint64_t e = 0; e < p.count; e++) {
        if (p.collective == GCOLL_BROADCAST) {
            sum[e] = Value(p.root, 0, e);
            continue;
        }
        for (uint32_t rank = 0; rank < p.size; rank++)
            for (uint32_t k = 0; k < p.buffers; k++)
                sum[e] += Value(rank, k, e);
        if (p.average)
            sum[e] /= int64_t(p.size) * p.buffers;
    }
    return sum;
}

void Check(const std::string &algorithm, const gcoll_problem &problem, const std::vector<Plan> &plans,
           uint32_t seed) {
    SCOPED_TRACE(
        algorithm + " P=" + std::to_string(problem.size) + " n=" + std::to_string(problem.count) +
        " buffers=" + std::to_string(problem.buffers) + " segment=" + std::to_string(problem.segment) +
        " in_place=" + std::to_string(problem.in_place) + " average=" + std::to_string(problem.average));
    for (const Plan &plan : plans)
        ASSERT_TRUE(plan) << gcoll_last_error();
    Runner<int64_t> run(plans, seed);
    run.op = [](int64_t a, int64_t b) { return a + b; };
    run.divide = [](int64_t a, uint32_t by) { return a / by; };
    for (uint32_t rank = 0; rank < problem.size; rank++)
        for (uint32_t k = 0; k < problem.buffers; k++)
            for (uint64_t e = 0; e < problem.count; e++)
                (problem.in_place ? run.out : run.in)[rank][k][e] = Value(rank, k, e);
    ASSERT_TRUE(run.Run()) << run.error;
    std::vector<int64_t> expected = Expected(problem);
    for (uint32_t rank = 0; rank < problem.size; rank++)
        for (uint32_t k = 0; k < problem.buffers; k++) {
            gcoll_problem mine = problem;
            mine.rank = rank;
            // Of what a block is written to, the rest must still be as it was: in place the input.
            std::vector<int64_t> want = expected;
            if (problem.collective == GCOLL_REDUCE_SCATTER) {
                const uint64_t begin = gcoll_block_begin(&mine, rank), count = gcoll_block_count(&mine, rank);
                const uint64_t at = gcoll_problem_out_shift(&mine);
                for (uint64_t e = 0; e < problem.count; e++)
                    want[e] = e >= at && e < at + count ? expected[begin + e - at]
                              : problem.in_place        ? Value(rank, k, e)
                                                        : run.out[rank][k][e];
            }
            ASSERT_EQ(want, run.out[rank][k]) << "rank " << rank << " buffer " << k;
        }
}

TEST(Passes, ResultsOfEveryCombination) {
    uint32_t seed = 0;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++) {
        const gcoll_algorithm *a = *row;
        if (!gcoll_collective_takes_buffers(a->collective))
            continue;
        for (uint32_t size : {1u, 2u, 3u, 4u, 7u})
            for (uint64_t count : {0u, 1u, 5u, 29u})
                for (uint64_t segment : {0u, 1u, 3u, 29u, 100u})
                    for (uint32_t buffers : {1u, 2u, 4u}) {
                        gcoll_problem problem = Problem(a->collective, 0, size, count);
                        problem.root = a->collective == GCOLL_BROADCAST ? size / 2 : 0;
                        problem.segment = segment;
                        problem.buffers = buffers;
                        problem.in_place = ++seed % 2;
                        problem.average = a->collective != GCOLL_BROADCAST && seed % 3 == 0;
                        SetFallbacks(&problem, a);
                        if (a->options && std::string(a->options[0].name) == "r")
                            problem.option[0] = seed % 4;
                        Check(a->name, problem, CreateAll(*a, problem), seed);
                        if (HasFatalFailure())
                            return;
                    }
    }
}

// Ranks may differ in place and in how many buffers they have: messages are the same.
TEST(Passes, RanksMayDiffer) {
    for (const char *name : {"ring", "group_butterfly", "sorted_linear_tree"}) {
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 6, 25);
        problem.segment = 2;
        problem.option[0] = name[0] == 'g' ? 2 : 0;
        std::vector<Plan> plans;
        for (problem.rank = 0; problem.rank < problem.size; problem.rank++) {
            problem.buffers = 1 + problem.rank % 3;
            problem.in_place = problem.rank % 2;
            plans.push_back(Create(name, problem));
            ASSERT_TRUE(plans.back());
        }
        Runner<int64_t> run(plans, 3);
        run.op = [](int64_t a, int64_t b) { return a + b; };
        std::vector<int64_t> expected(problem.count, 0);
        for (uint32_t rank = 0; rank < problem.size; rank++)
            for (uint32_t k = 0; k < 1 + rank % 3; k++)
                for (uint64_t e = 0; e < problem.count; e++)
                    expected[e] += (rank % 2 ? run.out : run.in)[rank][k][e] = Value(rank, k, e);
        ASSERT_TRUE(run.Run()) << run.error;
        for (uint32_t rank = 0; rank < problem.size; rank++)
            for (uint32_t k = 0; k < 1 + rank % 3; k++)
                EXPECT_EQ(expected, run.out[rank][k]) << name;
    }
}

TEST(Split, CutsFromEachStepsOwnStart) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 2, 5, 103);
    problem.option[0] = 2;
    Plan whole = Create("group_butterfly", problem);
    gcoll_plan *made = nullptr;
    ASSERT_EQ(GCOLL_OK, gcoll_pass_split(whole.get(), 8, &made));
    Plan split(made);
    EXPECT_EQ(8u, split->problem.segment);
    EXPECT_EQ(whole->rounds, split->rounds);
    EXPECT_EQ(whole->scratch, split->scratch);
    EXPECT_EQ(whole->window, split->window);
    uint32_t next = 0;
    for (uint32_t i = 0; i < whole->step_count; i++) {
        const gcoll_step &s = whole->steps[i];
        for (uint64_t from = 0; from < s.count; from += 8, next++) {
            ASSERT_LT(next, split->step_count);
            const gcoll_step &t = split->steps[next];
            EXPECT_EQ(s.kind, t.kind);
            EXPECT_EQ(s.round, t.round);
            EXPECT_EQ(s.dst.offset + from, t.dst.offset);
            EXPECT_EQ(s.a.offset + from, t.a.offset);
            EXPECT_EQ(std::min<uint64_t>(8, s.count - from), t.count);
        }
    }
    EXPECT_EQ(next, split->step_count);
}

// What the split is for: of a chain, only the first segment has to be there before the next hop begins.
TEST(Split, SegmentsWaitForSegments) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 1, 4, 64);
    problem.segment = 4; // four segments a message
    Plan plan = Create("ring", problem);
    ASSERT_TRUE(plan);
    for (uint32_t i = 0; i < plan->step_count; i++)
        EXPECT_LE(plan->steps[i].dependencies, 1u);
}

TEST(Split, LocalStepsAreCutSideBySide) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 2, 20);
    problem.buffers = 3;
    problem.segment = 10;
    Plan plan = Create("ring", problem);
    ASSERT_TRUE(plan);
    const uint64_t offsets[] = {0, 0, 10, 10};
    for (uint32_t i = 0; i < 4; i++) {
        EXPECT_EQ(GCOLL_STEP_REDUCE, plan->steps[i].kind);
        EXPECT_EQ(offsets[i], plan->steps[i].dst.offset);
        EXPECT_EQ(1 + i % 2, plan->steps[i].b.index);
    }
}

// Steps that touch one another's elements at another offset must not change places.
TEST(Split, ShiftedLocalStepsKeepTheirOrder) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 1, 12);
    gcoll_builder *b = nullptr;
    ASSERT_EQ(GCOLL_OK, gcoll_builder_create(&problem, &b));
    gcoll_ref scratch = gcoll_plan_scratch(b, 12);
    gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), 8);
    gcoll_plan_copy(b, scratch, gcoll_out(0, 3), 8); // its first elements are not the first copied above
    gcoll_plan_copy(b, gcoll_out(0, 0), scratch, 8);
    gcoll_plan *plan = nullptr, *split = nullptr;
    ASSERT_EQ(GCOLL_OK, gcoll_builder_finish(b, &plan));
    for (uint64_t segment = 1; segment <= 9; segment++) {
        ASSERT_EQ(GCOLL_OK, gcoll_pass_split(plan, segment, &split));
        std::vector<Plan> plans;
        plans.emplace_back(split);
        Runner<int64_t> run(plans, uint32_t(segment));
        for (size_t e = 0; e < 12; e++)
            run.in[0][0][e] = int64_t(100 + e);
        ASSERT_TRUE(run.Run());
        for (size_t e = 0; e < 8; e++)
            EXPECT_EQ(e < 5 ? int64_t(103 + e) : 0, run.out[0][0][e]) << "segment " << segment;
    }
    gcoll_plan_destroy(plan);
}

TEST(Split, KeepsSignalsAndFences) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 2, 8);
    gcoll_builder *b = nullptr;
    ASSERT_EQ(GCOLL_OK, gcoll_builder_create(&problem, &b));
    gcoll_plan_send(b, 1, gcoll_in(0, 0), 8);
    gcoll_plan_signal(b, 1);
    gcoll_plan_fence(b);
    gcoll_plan_round(b);
    gcoll_plan_await(b, 1);
    gcoll_plan *plan = nullptr, *split = nullptr;
    ASSERT_EQ(GCOLL_OK, gcoll_builder_finish(b, &plan));
    ASSERT_EQ(GCOLL_OK, gcoll_pass_split(plan, 4, &split));
    ASSERT_EQ(5u, split->step_count);
    EXPECT_EQ(0u, split->steps[2].count);
    EXPECT_EQ(2u, split->steps[2].message);
    EXPECT_EQ(GCOLL_STEP_COPY, split->steps[3].kind);
    EXPECT_EQ(3u, split->steps[3].dependencies);
    EXPECT_EQ(1u, split->steps[4].dependencies);
    EXPECT_EQ(1u, split->steps[4].round);
    gcoll_plan_destroy(split);
    gcoll_plan_destroy(plan);
}

TEST(Passes, ArgumentsAreChecked) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 2, UINT64_C(1) << 40);
    Plan plan = Create("ring", problem);
    gcoll_plan *made = nullptr;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_pass_split(plan.get(), 0, &made));
    EXPECT_EQ(GCOLL_ERR_UNSUPPORTED, gcoll_pass_split(plan.get(), 1, &made));
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "larger")) << gcoll_last_error();
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_pass_buffers(plan.get(), 0, false, &made));
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_pass_buffers(plan.get(), GCOLL_MAX_BUFFERS + 1, false, &made));
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_pass_average(plan.get(), 0, &made));
    EXPECT_EQ(nullptr, made);
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_pass_buffers(plan.get(), 3, true, &made)); // planned out of place
    ASSERT_EQ(GCOLL_OK, gcoll_pass_buffers(plan.get(), 3, false, &made));
    Plan multi(made);
    gcoll_plan *again = nullptr;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_pass_buffers(multi.get(), 3, false, &again));
    EXPECT_EQ(nullptr, again);
}

TEST(Passes, HugeSegmentsDoNotOverflow) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 2, UINT64_MAX);
    problem.segment = UINT64_MAX / 3;
    Plan plan = Create("ring", problem);
    ASSERT_TRUE(plan) << gcoll_last_error();
    EXPECT_EQ(8u, plan->step_count); // halves in two segments each, sent and received twice
    problem.segment = UINT64_MAX;
    EXPECT_EQ(4u, Create("ring", problem)->step_count);
}

TEST(Passes, ProblemAndDivisorTellWhatWasDone) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 1, 3, 12);
    problem.average = true;
    problem.buffers = 2;
    problem.segment = 5;
    problem.in_place = true;
    Plan plan = Create("ring", problem);
    ASSERT_TRUE(plan);
    EXPECT_EQ(6u, plan->divisor);
    EXPECT_TRUE(plan->problem.average);
    EXPECT_TRUE(plan->problem.in_place);
    EXPECT_EQ(2u, plan->problem.buffers);
    EXPECT_EQ(5u, plan->problem.segment);
    EXPECT_EQ(1u, plan->problem.rank);
}

TEST(Chunks, AreThePublishedFormula) {
    for (uint32_t parts : {1u, 2u, 3u, 7u, 64u, 1000u})
        for (uint64_t n : {0u, 1u, 6u, 7u, 8u, 999u, 1001u, 123457u}) {
            uint64_t end = 0;
            for (uint32_t c = 0; c < parts; c++) {
                EXPECT_EQ(c * n / parts, gcoll_chunk_begin(n, parts, c));
                EXPECT_EQ(end, gcoll_chunk_begin(n, parts, c));
                end += gcoll_chunk_count(n, parts, c);
                EXPECT_LE(gcoll_chunk_count(n, parts, c), n / parts + 1);
            }
            EXPECT_EQ(n, end);
        }
    // No overflow where c * n has one.
    const uint64_t n = UINT64_MAX;
    const auto wide = static_cast<unsigned __int128>(n);
    for (uint32_t c : {0u, 1u, 500000u, GCOLL_MAX_RANKS})
        EXPECT_EQ(uint64_t(wide * c / GCOLL_MAX_RANKS), gcoll_chunk_begin(n, GCOLL_MAX_RANKS, c));
}

} // namespace
} // namespace gcoll_test
