// test/plan/builder_test.cc - dependencies against a comparison of every pair of steps, message numbers,
// bounds, fences.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "test/kit/plan_runner.h"

// The linker sends the plan's allocations here (--wrap): the one that is told to fails.
static long allocations_until_failure = -1; // -1: none fails

static bool allocation_fails() {
    return allocations_until_failure >= 0 && allocations_until_failure-- == 0;
}

extern "C" {
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes) {
    return allocation_fails() ? nullptr : __real_malloc(bytes);
}
void *__wrap_calloc(size_t count, size_t bytes) {
    return allocation_fails() ? nullptr : __real_calloc(count, bytes);
}
void *__wrap_realloc(void *memory, size_t bytes) {
    return allocation_fails() ? nullptr : __real_realloc(memory, bytes);
}
}

namespace gcoll_test {
namespace {

constexpr uint64_t kCount = 40, kScratch = 24;
constexpr uint32_t kSize = 5;

// A builder, and the test's own record of what was emitted: who touches what.
struct Access {
    uint16_t space, index;
    uint64_t begin, end;
    bool write;
};

bool Conflict(const std::vector<Access> &a, const std::vector<Access> &b) {
    for (const Access &x : a)
        for (const Access &y : b)
            if (x.space == y.space && x.index == y.index && x.begin < y.end && y.begin < x.end &&
                (x.write || y.write))
                return true;
    return false;
}

gcoll_builder *Builder(gcoll_problem problem) {
    gcoll_builder *b = nullptr;
    EXPECT_EQ(GCOLL_OK, gcoll_builder_create(&problem, &b)) << gcoll_last_error();
    return b;
}

Plan Finish(gcoll_builder *b) {
    gcoll_plan *plan = nullptr;
    if (gcoll_builder_finish(b, &plan) != GCOLL_OK)
        return nullptr;
    return Plan(plan);
}

class Program {
  public:
    Program(gcoll_problem p, uint32_t seed) : problem(p), random(seed), builder(Builder(p)) {
        scratch = gcoll_plan_scratch(builder, kScratch);
    }

    void Emit() {
        uint32_t peer = 1 + Pick(kSize - 1);
        uint64_t count = 1 + Pick(8);
        gcoll_ref a = Place(count, false), x = Place(count, false), dst = Place(count, true);
        switch (Pick(7)) {
        case 0:
            gcoll_plan_send(builder, peer, a, count);
            Note({{a, false}}, count);
            break;
        case 1:
            gcoll_plan_recv(builder, peer, dst, count);
            Note({{dst, true}}, count);
            break;
        case 2:
            dst = Fit(dst, a, count);
            gcoll_plan_recv_reduce(builder, peer, dst, a, count);
            Note({{dst, true}, {a, false}}, count);
            break;
        case 3:
            dst = Fit(dst, a, count);
            if (Overlaps(dst, x, count) && !(Same(dst, x)))
                x = dst;
            gcoll_plan_reduce(builder, dst, a, x, count);
            Note({{dst, true}, {a, false}, {x, false}}, count);
            break;
        case 4:
            dst = Fit(dst, a, count);
            gcoll_plan_copy(builder, dst, a, count);
            if (!Same(dst, a))
                Note({{dst, true}, {a, false}}, count);
            break;
        case 5:
            gcoll_plan_divide(builder, dst, count);
            Note({{dst, true}}, count);
            break;
        default: // nothing: dropped, all of them
            gcoll_plan_send(builder, peer, a, 0);
            gcoll_plan_recv(builder, peer, dst, 0);
            gcoll_plan_reduce(builder, dst, a, x, 0);
            gcoll_plan_copy(builder, dst, a, 0);
        }
    }

    uint32_t Pick(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random); }

    gcoll_problem problem;
    std::mt19937 random;
    gcoll_builder *builder;
    std::vector<std::vector<Access>> accesses; // of each step

  private:
    gcoll_ref scratch;

    gcoll_ref Canonical(gcoll_ref r) const {
        if (problem.in_place && r.space == GCOLL_IN)
            r.space = GCOLL_OUT;
        return r;
    }
    bool Same(gcoll_ref a, gcoll_ref b) const {
        a = Canonical(a);
        b = Canonical(b);
        return a.space == b.space && a.index == b.index && a.offset == b.offset;
    }
    bool Overlaps(gcoll_ref a, gcoll_ref b, uint64_t count) const {
        a = Canonical(a);
        b = Canonical(b);
        return a.space == b.space && a.index == b.index && a.offset < b.offset + count &&
               b.offset < a.offset + count;
    }
    // Partial overlap is not allowed: then they are one.
    gcoll_ref Fit(gcoll_ref dst, gcoll_ref a, uint64_t count) const {
        if (!Overlaps(dst, a, count))
            return dst;
        a = Canonical(a);
        if (a.space == GCOLL_IN)
            a.space = GCOLL_OUT;
        return a;
    }
    gcoll_ref Place(uint64_t count, bool written) {
        uint32_t space = Pick(3);
        if (space == GCOLL_SCRATCH)
            return gcoll_ref_add(scratch, Pick(uint32_t(kScratch - count + 1)));
        gcoll_ref r = gcoll_out(Pick(problem.buffers), Pick(uint32_t(kCount - count + 1)));
        if (!written && space == GCOLL_IN)
            r.space = GCOLL_IN;
        return r;
    }
    void Note(std::vector<std::pair<gcoll_ref, bool>> refs, uint64_t count) {
        std::vector<Access> list;
        for (auto [ref, write] : refs) {
            ref = Canonical(ref);
            list.push_back({ref.space, ref.index, ref.offset, ref.offset + count, write});
        }
        accesses.push_back(list);
    }
};

gcoll_problem SmallProblem(uint32_t buffers, bool in_place) {
    gcoll_problem p = Problem(GCOLL_ALLREDUCE, 0, kSize, kCount);
    p.buffers = buffers;
    p.in_place = in_place;
    return p;
}

// Two steps that touch the same elements, one of them writing, are ordered; and no edge is without such a
// reason.
TEST(Builder, DependenciesOfRandomPrograms) {
    for (uint32_t seed = 0; seed < 300; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Program program(SmallProblem(1 + seed % 3, seed % 2), seed);
        for (uint32_t i = 0, length = 1 + program.Pick(120); i < length; i++)
            program.Emit();
        const auto &touched = program.accesses;
        Plan plan = Finish(program.builder);
        ASSERT_TRUE(plan) << gcoll_last_error();
        const uint32_t n = plan->step_count;
        ASSERT_EQ(touched.size(), n);
        std::vector<std::vector<bool>> after(
            n, std::vector<bool>(n, false)); // after[i][j]: j waits for i, in the end
        std::vector<uint32_t> waits(n, 0);
        uint32_t edges = 0;
        for (uint32_t i = n; i-- > 0;)
            for (uint32_t k = 0; k < plan->steps[i].successors; k++) {
                uint32_t j = plan->successors[plan->steps[i].first_successor + k];
                ASSERT_LT(i, j);
                ASSERT_LT(j, n);
                EXPECT_TRUE(Conflict(touched[i], touched[j])) << i << " -> " << j << " without reason";
                EXPECT_FALSE(k > 0 && plan->successors[plan->steps[i].first_successor + k - 1] == j)
                    << "twice";
                after[i][j] = true;
                for (uint32_t l = 0; l < n; l++)
                    after[i][l] = after[i][l] || after[j][l];
                waits[j]++;
                edges++;
            }
        EXPECT_EQ(plan->successor_count, edges);
        for (uint32_t j = 0; j < n; j++) {
            EXPECT_EQ(waits[j], plan->steps[j].dependencies);
            for (uint32_t i = 0; i < j; i++)
                EXPECT_TRUE(!Conflict(touched[i], touched[j]) || after[i][j])
                    << i << " and " << j << " unordered";
        }
    }
}

// Every cut and merge of the maps: many more spans than one block holds.
TEST(Builder, DependenciesOfManySpans) {
    constexpr uint32_t kSpans = 3000;
    std::mt19937 random(5);
    gcoll_builder *b = Builder(Problem(GCOLL_ALLREDUCE, 0, 2, kSpans));
    std::vector<int64_t> writer(kSpans, -1); // plain record, an element at a time
    std::vector<std::vector<uint32_t>> expected;
    for (uint32_t i = 0; i < 6000; i++) {
        uint64_t begin = random() % kSpans, count = 1 + random() % (i % 500 == 499 ? kSpans : 3);
        count = std::min(count, kSpans - begin);
        gcoll_plan_divide(b, gcoll_out(0, begin), count);
        std::vector<uint32_t> waits;
        for (uint64_t e = begin; e < begin + count; e++) {
            if (writer[e] >= 0)
                waits.push_back(uint32_t(writer[e]));
            writer[e] = i;
        }
        std::sort(waits.begin(), waits.end());
        waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
        expected.push_back(waits);
    }
    Plan plan = Finish(b);
    ASSERT_TRUE(plan);
    std::vector<std::vector<uint32_t>> got(plan->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++)
        for (uint32_t k = 0; k < plan->steps[i].successors; k++)
            got[plan->successors[plan->steps[i].first_successor + k]].push_back(i);
    EXPECT_EQ(expected, got);
}

TEST(Builder, MessagesAreNumberedByPeerAndDirection) {
    constexpr uint32_t kRanks = 5000;
    std::mt19937 random(1);
    gcoll_builder *b = Builder(Problem(GCOLL_ALLREDUCE, 17, kRanks, 10));
    std::map<std::pair<uint32_t, bool>, uint32_t> counted;
    std::vector<uint32_t> expected;
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t peer = i % 3 ? 18 + random() % 4 : uint32_t(random() % kRanks);
        if (peer == 17)
            peer = 0;
        bool sends = random() % 2;
        if (sends)
            gcoll_plan_signal(b, peer);
        else
            gcoll_plan_await(b, peer);
        expected.push_back(counted[{peer, sends}]++);
    }
    Plan plan = Finish(b);
    ASSERT_TRUE(plan) << gcoll_last_error();
    ASSERT_EQ(expected.size(), plan->step_count);
    for (uint32_t i = 0; i < plan->step_count; i++)
        ASSERT_EQ(expected[i], plan->steps[i].message) << i;
}

TEST(Builder, AFenceOrdersEverything) {
    for (uint32_t seed = 0; seed < 60; seed++) {
        Program program(SmallProblem(1, seed % 2), seed);
        std::vector<uint32_t> part; // of each emitted step: how many fences came before
        uint32_t fences = 0;
        for (uint32_t i = 0; i < 60; i++) {
            if (program.Pick(10) == 0) {
                gcoll_plan_fence(program.builder);
                gcoll_plan_fence(program.builder); // the second adds nothing
                fences++;
            }
            program.Emit();
            part.resize(program.accesses.size(), fences);
        }
        Plan plan = Finish(program.builder);
        ASSERT_TRUE(plan);
        const uint32_t n = plan->step_count;
        std::vector<std::vector<bool>> after(n, std::vector<bool>(n, false));
        for (uint32_t i = n; i-- > 0;)
            for (uint32_t k = 0; k < plan->steps[i].successors; k++) {
                uint32_t j = plan->successors[plan->steps[i].first_successor + k];
                after[i][j] = true;
                for (uint32_t l = 0; l < n; l++)
                    after[i][l] = after[i][l] || after[j][l];
            }
        std::vector<uint32_t> real;
        for (uint32_t i = 0; i < n; i++)
            if (plan->steps[i].count > 0)
                real.push_back(i);
        ASSERT_EQ(part.size(), real.size());
        for (size_t j = 0; j < real.size(); j++)
            for (size_t i = 0; i < j; i++)
                EXPECT_TRUE(after[real[i]][real[j]] ||
                            (part[i] == part[j] && !Conflict(program.accesses[i], program.accesses[j])))
                    << seed << ": " << real[i] << " " << real[j];
    }
}

// Steps wait for what gcoll_plan_after says, for nothing else, and none is dropped.
TEST(Builder, StatedStepsWaitForWhatIsSaid) {
    gcoll_builder *b = Builder(Problem(GCOLL_ALLREDUCE, 1, kSize, kCount));
    const uint32_t first[] = {0}, both[] = {0, 1}, twice[] = {2, 2};
    gcoll_plan_after(b, nullptr, 0);
    gcoll_plan_recv(b, 2, gcoll_out(0, 0), 4);
    gcoll_plan_after(b, nullptr, 0);
    gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), 4); // a race, which the builder leaves
    gcoll_plan_after(b, both, 2);
    gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_out(0, 0), 0); // only waits
    gcoll_plan_after(b, twice, 2);
    gcoll_plan_send(b, 3, gcoll_out(0, 0), 0); // a signal
    gcoll_plan_after(b, first, 1);
    gcoll_plan_reduce(b, gcoll_out(0, 8), gcoll_out(0, 0), gcoll_in(0, 0), 4);
    Plan plan = Finish(b);
    ASSERT_NE(plan, nullptr) << gcoll_last_error();
    ASSERT_EQ(plan->step_count, 5u);
    const std::set<std::pair<uint32_t, uint32_t>> want = {{0, 2}, {1, 2}, {2, 3}, {0, 4}};
    std::set<std::pair<uint32_t, uint32_t>> got;
    for (uint32_t i = 0; i < plan->step_count; i++)
        for (uint32_t k = 0; k < plan->steps[i].successors; k++)
            got.emplace(i, plan->successors[plan->steps[i].first_successor + k]);
    EXPECT_EQ(got, want);
    EXPECT_EQ(plan->steps[2].count, 0u);
    EXPECT_EQ(plan->steps[3].kind, GCOLL_STEP_SEND);
    // A pass finds out anew what waits for what; the step that only waits is gone.
    gcoll_plan *split = nullptr;
    ASSERT_EQ(gcoll_pass_split(plan.get(), 4, &split), GCOLL_OK) << gcoll_last_error();
    Plan owner(split);
    EXPECT_EQ(split->step_count, 4u);
    EXPECT_EQ(split->steps[1].dependencies, 1u); // the copy waits for the receive
}

TEST(Builder, StatedStepsMistakes) {
    const uint32_t later[] = {1};
    const struct {
        std::function<void(gcoll_builder *)> plan;
        const char *text;
    } rows[] = {
        {[&](gcoll_builder *b) { gcoll_plan_after(b, later, 1); },
         "step 0 is to wait for step 1; allowed are earlier"},
        {[](gcoll_builder *b) {
             gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), 4);
             gcoll_plan_after(b, nullptr, 0);
         },
         "gcoll_plan_after was called before step 1, and not before earlier ones"},
        {[](gcoll_builder *b) {
             gcoll_plan_after(b, nullptr, 0);
             gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), 4);
             gcoll_plan_copy(b, gcoll_out(0, 4), gcoll_in(0, 4), 4);
         },
         "step 1 (copy) of rank 1: gcoll_plan_after was called before earlier steps, and not before this "
         "one"},
        {[](gcoll_builder *b) {
             gcoll_plan_after(b, nullptr, 0);
             gcoll_plan_fence(b);
         },
         "a fence in a plan that calls gcoll_plan_after"},
    };
    for (const auto &row : rows) {
        gcoll_builder *b = Builder(Problem(GCOLL_ALLREDUCE, 1, kSize, kCount));
        row.plan(b);
        EXPECT_EQ(Finish(b), nullptr) << row.text;
        EXPECT_NE(std::string(gcoll_last_error()).find(row.text), std::string::npos) << gcoll_last_error();
    }
}

TEST(Builder, RoundsWindowScratchAndDroppedSteps) {
    gcoll_builder *b = Builder(Problem(GCOLL_ALLREDUCE, 0, 3, 10));
    EXPECT_EQ(0u, gcoll_plan_scratch(b, 7).offset);
    EXPECT_EQ(7u, gcoll_plan_scratch(b, 5).offset);
    gcoll_plan_copy(b, gcoll_out(0, 3), gcoll_out(0, 3), 4); // onto itself
    gcoll_plan_send(b, 1, gcoll_in(0, 0), 0);
    gcoll_plan_round(b);
    gcoll_plan_round(b);
    gcoll_plan_signal(b, 1);
    gcoll_plan_round(b);
    gcoll_plan_window(b, 2);
    Plan plan = Finish(b);
    ASSERT_TRUE(plan);
    EXPECT_EQ(12u, plan->scratch);
    EXPECT_EQ(1u, plan->step_count);
    EXPECT_EQ(2u, plan->steps[0].round);
    EXPECT_EQ(3u, plan->rounds);
    EXPECT_EQ(2u, plan->window);
    EXPECT_EQ(1u, plan->divisor);
    EXPECT_GE(gcoll_plan_memory_bytes(plan.get()), sizeof(gcoll_plan) + sizeof(gcoll_step));
    gcoll_plan_destroy(nullptr);
    gcoll_builder_destroy(nullptr);
}

TEST(Builder, InPlaceCopyIsDropped) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 1, 10);
    problem.in_place = true;
    Plan plan = Create("ring", problem);
    ASSERT_TRUE(plan);
    EXPECT_EQ(0u, plan->step_count);
    EXPECT_EQ(0u, plan->rounds);
}

using Mistake = std::function<void(gcoll_builder *)>;

// The first mistake is kept, whatever follows it and whatever fails elsewhere meanwhile.
TEST(Builder, MistakesStick) {
    const std::vector<std::pair<Mistake, const char *>> mistakes = {
        {[](gcoll_builder *b) { gcoll_plan_send(b, 0, gcoll_in(0, 0), 1); }, "peer is 0"}, // self
        {[](gcoll_builder *b) { gcoll_plan_send(b, 3, gcoll_in(0, 0), 1); }, "peer is 3 of 3"},
        {[](gcoll_builder *b) { gcoll_plan_await(b, 4); }, "peer is 4"},
        {[](gcoll_builder *b) { gcoll_plan_send(b, 1, gcoll_in(0, 8), 3); }, "8 + 3"},
        {[](gcoll_builder *b) { gcoll_plan_send(b, 1, gcoll_in(1, 0), 3); }, "IN[1]"},
        {[](gcoll_builder *b) { gcoll_plan_send(b, 1, gcoll_in(0, UINT64_MAX), 2); }, "outside"},
        {[](gcoll_builder *b) { gcoll_plan_send(b, 1, gcoll_in(0, 2), UINT64_MAX); }, "outside"},
        {[](gcoll_builder *b) { gcoll_plan_recv(b, 1, gcoll_in(0, 0), 1); }, "writes to IN"},
        {[](gcoll_builder *b) { gcoll_plan_recv(b, 1, gcoll_scratch(0), 1); }, "SCRATCH"},
        {[](gcoll_builder *b) { gcoll_plan_recv(b, 1, gcoll_ref_add(gcoll_plan_scratch(b, 4), 2), 3); },
         "SCRATCH"},
        {[](gcoll_builder *b) { gcoll_plan_divide(b, gcoll_out(0, 10), 1); }, "10 + 1"},
        {[](gcoll_builder *b) { gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 9), 2); }, "9 + 2"},
        {[](gcoll_builder *b) { gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_out(0, 1), 2); }, "overlaps"},
        {[](gcoll_builder *b) { gcoll_plan_reduce(b, gcoll_out(0, 0), gcoll_out(0, 0), gcoll_out(0, 4), 5); },
         "overlaps"},
        {[](gcoll_builder *b) { gcoll_plan_reduce(b, gcoll_out(0, 0), gcoll_out(0, 5), gcoll_in(0, 7), 5); },
         "7 + 5"},
        {[](gcoll_builder *b) { gcoll_plan_recv_reduce(b, 1, gcoll_out(0, 3), gcoll_out(0, 1), 3); },
         "overlaps"},
        {[](gcoll_builder *b) { gcoll_plan_scratch(b, 1), gcoll_plan_scratch(b, UINT64_MAX); }, "overflows"},
        {[](gcoll_builder *b) { gcoll_plan_round_at_least(b, UINT32_MAX); }, "too many rounds"},
        {[](gcoll_builder *b) { gcoll_plan_round_at_least(b, UINT32_MAX - 1), gcoll_plan_round(b); },
         "too many rounds"},
        {[](gcoll_builder *b) {
             gcoll_ref r = {7, 0, 0};
             gcoll_plan_send(b, 1, r, 1);
         },
         "space 7"},
    };
    for (const auto &[mistake, says] : mistakes) {
        gcoll_builder *b = Builder(Problem(GCOLL_ALLREDUCE, 0, 3, 10));
        gcoll_plan_signal(b, 1);
        mistake(b);
        gcoll_plan_send(b, 9, gcoll_in(0, 0), 1);
        gcoll_plan_fence(b);
        gcoll_plan_round(b);
        gcoll_error(GCOLL_ERR_IO, "something else");
        gcoll_plan *plan = nullptr;
        gcoll_status status = gcoll_builder_finish(b, &plan);
        EXPECT_TRUE(status == GCOLL_ERR_INTERNAL || status == GCOLL_ERR_INVALID) << says;
        EXPECT_EQ(nullptr, plan);
        EXPECT_NE(nullptr, strstr(gcoll_last_error(), says)) << says << ": " << gcoll_last_error();
    }
}

TEST(Builder, ProblemsAreChecked) {
    gcoll_problem good = Problem(GCOLL_BROADCAST, 1, 3, 10);
    gcoll_builder *b = nullptr;
    for (int i = 0; i < 6; i++) {
        gcoll_problem bad = good;
        i == 0 ? bad.size = 0 : i == 1 ? bad.size = GCOLL_MAX_RANKS + 1 : i == 2 ? bad.rank = 3 : bad.rank;
        i == 3   ? bad.root = 3
        : i == 4 ? bad.buffers = 0
        : i == 5 ? bad.buffers = GCOLL_MAX_BUFFERS + 1
                 : bad.root;
        EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_builder_create(&bad, &b)) << i;
    }
    EXPECT_EQ(nullptr, b);
}

// Whichever allocation fails: an error and no plan, or (where memory was only to be given back) the plan.
TEST(Builder, EveryAllocationMayFail) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 1, 100, 3000);
    problem.buffers = 3;
    problem.average = true;
    problem.segment = 7;
    problem.option[0] = 2;
    uint32_t failed = 0;
    for (long n = 0;; n++) {
        gcoll_plan *plan = nullptr;
        allocations_until_failure = n;
        gcoll_status status = gcoll_plan_create(Algorithm("group_butterfly"), &problem, &plan);
        bool ran_through = allocations_until_failure >= 0;
        allocations_until_failure = -1;
        Plan made(plan);
        if (ran_through) {
            EXPECT_EQ(GCOLL_OK, status);
            break;
        }
        EXPECT_EQ(status == GCOLL_OK, plan != nullptr);
        failed += status == GCOLL_ERR_NO_MEMORY;
        EXPECT_TRUE(status == GCOLL_OK || status == GCOLL_ERR_NO_MEMORY) << n;
    }
    EXPECT_GT(failed, 30u);
}

TEST(Print, OneLineAStep) {
    gcoll_builder *b = Builder(Problem(GCOLL_ALLREDUCE, 2, 4, 10));
    gcoll_ref scratch = gcoll_plan_scratch(b, 5);
    gcoll_plan_send(b, 1, gcoll_in(0, 0), 5);
    gcoll_plan_recv_reduce_left(b, 3, gcoll_out(0, 5), gcoll_in(0, 5), 5);
    gcoll_plan_round(b);
    gcoll_plan_recv(b, 0, scratch, 5);
    gcoll_plan_reduce(b, gcoll_out(0, 5), gcoll_out(0, 5), scratch, 5);
    gcoll_plan_fence(b);
    gcoll_plan_signal(b, 0);
    Plan plan = Finish(b);
    ASSERT_TRUE(plan);
    char *text = nullptr;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    ASSERT_NE(nullptr, file);
    gcoll_plan_print(plan.get(), file);
    fclose(file);
    EXPECT_STREQ(
        "allreduce of 10 elements, rank 2 of 4: 6 steps in 2 rounds, scratch 5 elements, window unbounded\n"
        "    0  round 0: send in0[0, 5) to rank 1 (message 0)\n"
        "    1  round 0: receive and reduce out0[5, 10) = received op in0[5, 10) from rank 3 (message 0)\n"
        "    2  round 1: receive scratch[0, 5) from rank 0 (message 0)\n"
        "    3  round 1: reduce out0[5, 10) = out0[5, 10) op scratch[0, 5), after 1 2\n"
        "    4  round 1: fence, after 0 3\n"
        "    5  round 1: signal to rank 0 (message 0), after 4\n",
        text);
    free(text);
}

// Near-linear in steps: ten times the segments must not take a hundred times as long. The bound leaves room
// for a busy machine, none for a quadratic builder.
TEST(Builder, LongPlansAreNearLinear) {
    auto seconds = [](uint64_t segment) {
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 5, 64, 6400000);
        problem.segment = segment;
        double best = 1e9;
        for (int i = 0; i < 3; i++) {
            auto start = std::chrono::steady_clock::now();
            Plan plan = Create("group_butterfly", problem);
            EXPECT_TRUE(plan) << gcoll_last_error();
            EXPECT_GT(plan ? plan->step_count : 0, 4 * 6400000u / 2 / segment);
            best = std::min(best,
                            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
        return best;
    };
    double few = seconds(1000), many = seconds(100);
    RecordProperty("seconds_few", std::to_string(few));
    RecordProperty("seconds_many", std::to_string(many));
    EXPECT_LT(many, 40 * few);
}

} // namespace
} // namespace gcoll_test
