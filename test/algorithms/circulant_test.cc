// test/algorithms/circulant_test.cc - lists of skips, and the reductions and gatherings along them.
#include <algorithm>
#include <array>
#include <set>

#include "test/kit/allreduce_oracle.h"

extern "C" {
#include "algorithms/shared/circulant.h"
}

namespace gcoll_test {
namespace {

const gcoll_algorithm &Circulant() {
    return *Algorithm("circulant", GCOLL_ALLREDUCE);
}

gcoll_problem SkipProblem(uint32_t size, uint64_t count, uint32_t max_skip) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, count);
    problem.option[0] = max_skip;
    return problem;
}

// What leaves a rank, in order.
using Send = std::array<uint64_t, 4>; // round, peer, offset, count
std::vector<Send> Sends(const gcoll_plan &plan) {
    std::vector<Send> sends;
    for (uint32_t i = 0; i < plan.step_count; i++)
        if (plan.steps[i].kind == GCOLL_STEP_SEND)
            sends.push_back(
                {plan.steps[i].round, plan.steps[i].peer, plan.steps[i].a.offset, plan.steps[i].count});
    return sends;
}

// The fewest steps from N placements to one, over all lists with skips of no more than `limit`.
uint32_t FewestSteps(uint32_t size, uint32_t limit) {
    std::vector<uint32_t> fewest(size + 1, 0);
    for (uint32_t n = 2; n <= size; n++) {
        fewest[n] = UINT32_MAX;
        for (uint32_t skip = 1; skip <= n / 2 && skip <= limit; skip++)
            fewest[n] = std::min(fewest[n], fewest[n - skip] + 1);
    }
    return fewest[size];
}

TEST(Circulant, ListsAreLegalAndShortest) {
    for (uint32_t size = 1; size <= 150; size++)
        for (uint32_t limit = 0; limit <= size + 1; limit++) {
            gcoll_problem problem = SkipProblem(size, size, limit);
            gcoll_circulant c = gcoll_circulant_make(&problem, limit);
            EXPECT_EQ(size, gcoll_circulant_placements(&c, 0));
            EXPECT_EQ(1u, gcoll_circulant_placements(&c, c.steps));
            for (uint32_t i = 0; i < c.steps; i++) {
                uint32_t n = gcoll_circulant_placements(&c, i), kept = gcoll_circulant_placements(&c, i + 1);
                EXPECT_LT(kept, n);
                EXPECT_GE(kept, (n + 1) / 2);
                EXPECT_LE(n - kept, limit == 0 ? size : limit);
            }
            EXPECT_EQ(FewestSteps(size, limit == 0 ? size : limit), c.steps) << size << " by " << limit;
        }
}

TEST(Circulant, SumsForEveryPAndLimit) {
    for (uint32_t size = 1; size <= 24; size++)
        for (uint32_t limit = 0; limit <= size / 2 + 1; limit++)
            for (uint64_t count :
                 {uint64_t(0), uint64_t(1), uint64_t(size - 1), 4 * uint64_t(size), 3 * uint64_t(size) + 1})
                for (bool in_place : {false, true}) {
                    SCOPED_TRACE("P=" + std::to_string(size) + " max_skip=" + std::to_string(limit) +
                                 " n=" + std::to_string(count) + (in_place ? " in place" : ""));
                    gcoll_problem problem = SkipProblem(size, count, limit);
                    problem.in_place = in_place;
                    gcoll_verify_report found{};
                    ProveAllreduce(Circulant(), problem, count == 4 * size, &found);
                    if (count == 4 * size && !HasFailure()) {
                        ExpectCost(Circulant(), problem, found);
                        EXPECT_EQ(2 * (size - 1) * 4u, found.sent_max);
                        EXPECT_EQ((size - 1) * 4u, found.reduced_max);
                        EXPECT_EQ(0u, found.scratch_max);
                    }
                    if (HasFailure())
                        return;
                }
}

TEST(Circulant, NoMessageIsLongerThanAllowed) {
    for (uint32_t size : {5u, 16u, 31u, 100u, 127u})
        for (uint32_t limit = 1; limit < size; limit++)
            for (const Plan &plan : CreateAll(Circulant(), SkipProblem(size, 3 * size, limit)))
                EXPECT_LE(Count(*plan).longest, 3 * limit);
}

TEST(Circulant, OneEndIsTheRing) {
    for (uint32_t size = 2; size <= 20; size++) {
        std::vector<Plan> plans = CreateAll(Circulant(), SkipProblem(size, size, 1));
        for (uint32_t rank = 0; rank < size; rank++) {
            std::vector<Send> sends = Sends(*plans[rank]);
            ASSERT_EQ(2 * (size - 1), sends.size());
            for (uint32_t i = 0; i < sends.size(); i++) {
                // Down the ring while sums travel, up while results do; chunks follow one another.
                uint32_t step = i % (size - 1);
                bool down = i < size - 1;
                uint64_t peer = (rank + (down ? size - 1 : 1)) % size;
                uint64_t chunk = (rank + (down ? 1 + step : size - step)) % size;
                EXPECT_EQ((Send{i, peer, chunk, 1}), sends[i]) << "P=" << size << " rank " << rank;
            }
        }
    }
}

TEST(Circulant, TheOtherEndIsTheGroupButterfly) {
    const gcoll_algorithm &butterfly = *Algorithm("group_butterfly", GCOLL_ALLREDUCE);
    for (uint32_t size = 1; size <= 64; size++) {
        gcoll_problem problem = SkipProblem(size, 5 * size, 0); // no limit, and r = 0 with the cyclic group
        std::vector<Plan> circulant = CreateAll(Circulant(), problem), other = CreateAll(butterfly, problem);
        for (uint32_t rank = 0; rank < size; rank++)
            EXPECT_EQ(Sends(*other[rank]), Sends(*circulant[rank])) << "P=" << size << " rank " << rank;
    }
}

// ---- Blocks --------------------------------------------------------------------------------------------

std::vector<uint64_t> Offsets(uint32_t size, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<uint64_t> offsets = {0};
    for (uint32_t i = 0; i < size; i++)
        offsets.push_back(offsets.back() + (random() % 3 == 0 ? 0 : random() % 7));
    return offsets;
}

// A reduce-scatter and an allgather of uneven blocks, many of them empty, run one after the other on data.
void RunBlocks(uint32_t size, uint32_t limit, const std::vector<uint64_t> &offsets, bool in_place) {
    gcoll_problem problem = Problem(GCOLL_REDUCE_SCATTER, 0, size, offsets.back());
    problem.option[0] = limit;
    problem.offsets = offsets.data();
    std::vector<Plan> scatter = CreateAll("circulant", problem);
    problem.collective = GCOLL_ALLGATHER;
    problem.in_place = in_place;
    std::vector<Plan> gather = CreateAll("circulant", problem);
    Runner<uint64_t> first(scatter, size), second(gather, limit);
    first.op = std::plus<uint64_t>();
    gcoll_circulant c = gcoll_circulant_make(&problem, limit);
    for (uint32_t rank = 0; rank < size; rank++) {
        EXPECT_LE(double(scatter[rank]->scratch), gcoll_circulant_scratch(&c));
        for (uint64_t e = 0; e < problem.count; e++)
            first.in[rank][0][e] = Value(rank, e);
    }
    ASSERT_TRUE(first.Run()) << first.error;
    for (uint32_t rank = 0; rank < size; rank++)
        for (uint64_t e = offsets[rank]; e < offsets[rank + 1]; e++)
            (in_place ? second.out[rank][0][e] : second.in[rank][0][e - offsets[rank]]) =
                first.out[rank][0][e - offsets[rank]];
    ASSERT_TRUE(second.Run()) << second.error;
    for (uint64_t e = 0; e < problem.count; e++) {
        uint64_t sum = 0;
        for (uint32_t rank = 0; rank < size; rank++)
            sum += Value(rank, e);
        for (uint32_t rank = 0; rank < size; rank++)
            ASSERT_EQ(sum, second.out[rank][0][e]) << "rank " << rank << " element " << e;
    }
}

TEST(CirculantPhases, UnevenBlocks) {
    for (uint32_t size = 1; size <= 20; size++)
        for (uint32_t limit : {0u, 1u, 2u, 3u, 5u})
            for (uint32_t seed = 0; seed < 4; seed++)
                for (bool in_place : {false, true}) {
                    SCOPED_TRACE("P=" + std::to_string(size) + " max_skip=" + std::to_string(limit) +
                                 " seed=" + std::to_string(seed));
                    RunBlocks(size, limit, Offsets(size, seed), in_place);
                    if (HasFailure())
                        return;
                }
}

TEST(CirculantPhases, ScratchIsExactForEqualBlocks) {
    for (uint32_t size = 1; size <= 40; size++)
        for (uint32_t limit : {0u, 1u, 4u}) {
            gcoll_problem problem = Problem(GCOLL_REDUCE_SCATTER, 0, size, 3 * size);
            problem.option[0] = limit;
            gcoll_circulant c = gcoll_circulant_make(&problem, limit);
            for (const Plan &plan : CreateAll("circulant", problem))
                EXPECT_DOUBLE_EQ(double(plan->scratch), gcoll_circulant_scratch(&c));
        }
}

// No count of elements is too large for the arithmetic of places.
TEST(CirculantPhases, CountsUpToTheLargestNumber) {
    for (gcoll_collective collective : {GCOLL_ALLREDUCE, GCOLL_REDUCE_SCATTER, GCOLL_ALLGATHER})
        for (uint64_t count : {UINT64_MAX / 2, UINT64_MAX / 2 + 1, UINT64_MAX - 1, UINT64_MAX})
            for (uint32_t size = 1; size <= 9; size++) {
                SCOPED_TRACE("P=" + std::to_string(size) + " n=" + std::to_string(count));
                gcoll_problem problem = Problem(collective, 0, size, count);
                const std::vector<Plan> plans = CreateAll("circulant", problem);
                std::vector<const gcoll_plan *> all;
                for (const Plan &plan : plans)
                    all.push_back(plan.get());
                gcoll_verify_report report;
                ASSERT_EQ(GCOLL_OK, gcoll_verify(all.data(), size, &report)) << gcoll_last_error();
                gcoll_cost cost;
                Algorithm("circulant", collective)->cost(&problem, &cost);
                EXPECT_DOUBLE_EQ(cost.scratch, double(report.scratch_max));
            }
}

} // namespace
} // namespace gcoll_test
