// The two examples of J. Proficz, Improving all-reduce collective operations for imbalanced process arrival
// patterns, J. Supercomput. 74 (2018), figures 6 and 8: four ranks, four segments, each of which takes tau
// from rank to rank. Here tau is 1 s and the numbers are by hand. docs/arrival-patterns.md says what holds
// and why.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "test/plan/simulate_support.h"

extern "C" {
#include "algorithms/allreduce/allreduce_ring.h"
}

namespace gcoll_test {
namespace {

using Times = std::vector<double>;

struct Outcome {
    Times finish;
    double last, mean_elapsed;
};

// A segment is a byte. Planners are told who is late, unless it is a surprise.
Outcome Simulated(const gcoll_algorithm &algorithm, const Times &late, bool surprise = false) {
    const uint32_t size = static_cast<uint32_t>(late.size());
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, size);
    std::vector<int64_t> arrival_ns;
    for (double seconds : late)
        arrival_ns.push_back(static_cast<int64_t>(1e9 * seconds));
    problem.arrival_ns = surprise ? nullptr : arrival_ns.data();
    problem.segment_ns = 1000000000;
    gcoll_simulate_options options = Options(0, 1);
    options.arrival = late.data();
    Simulation run = Simulate(CreateAll(algorithm, problem), options);
    EXPECT_TRUE(run) << gcoll_last_error();
    return {Times(run->finish, run->finish + size), run->time, run->mean_elapsed};
}

void Expect(const Outcome &run, const Times &finish, double late_by) {
    ASSERT_EQ(run.finish.size(), finish.size());
    for (size_t r = 0; r < finish.size(); r++)
        EXPECT_NEAR(run.finish[r], finish[r], 1e-9) << "rank " << r;
    EXPECT_NEAR(run.last, *std::max_element(finish.begin(), finish.end()), 1e-9);
    EXPECT_NEAR(run.mean_elapsed,
                (std::accumulate(finish.begin(), finish.end(), 0.) - late_by) / double(finish.size()), 1e-9);
}

// Figure 6: rank 0 is late by 4 tau. In rank order segment s leaves it in [4+s, 5+s], is complete on rank 3
// at 7+s and there again at 8+s, 9+s and 10+s on ranks 0, 1 and 2. A rank is done when it has passed on the
// last segment. With rank 0 in the last place, where all of segment 0 waits for it, it is complete at 5+s.
TEST(Proficz, SortedLinearTreeIsTwoTauAheadOfTheLinearTree) {
    const gcoll_algorithm &tree = *Algorithm("sorted_linear_tree");
    const Outcome unsorted = Simulated(tree, {4, 0, 0, 0}, true), sorted = Simulated(tree, {4, 0, 0, 0});
    Expect(unsorted, {12, 13, 13, 11}, 4);
    Expect(sorted, {9, 10, 11, 11}, 4);
    EXPECT_NEAR(unsorted.last - sorted.last, 2, 1e-9);
    EXPECT_NEAR(unsorted.mean_elapsed - sorted.mean_elapsed, 2, 1e-9);
}

// Figure 8: rank 0 is late by 2 tau. In the ring its segment makes 6 hops from 2 on, and so do the others
// that wait for it. In the pre-reduced ring it has passed on all it ever will at 7, one tau earlier.
TEST(Proficz, PreReducedRingIsOneTauAheadOfTheRingForTheLateRank) {
    const Outcome ring = Simulated(*Algorithm("ring"), {2, 0, 0, 0});
    const Outcome reduced = Simulated(*Algorithm("pre_reduced_ring"), {2, 0, 0, 0});
    Expect(ring, {8, 8, 8, 8}, 2);
    Expect(reduced, {7, 8, 8, 8}, 2);
    EXPECT_NEAR(ring.mean_elapsed - reduced.mean_elapsed, 1 / 4., 1e-9);
}

// Figure 7 gives the last position and the one before it no lead, so the last segment starts at the last
// position, not before its rank is there, and makes 2(P-1) hops: whatever the model, if a hop takes tau,
// nothing ends earlier than in the ring. What is gained is gained by ranks that are done before the last hop.
TEST(Proficz, NoPreReducedRingEndsBeforeTheRingThatWaitsForOne) {
    for (uint32_t size : {2u, 3u, 4u, 7u, 16u})
        for (double late_by : {1., 2., 5., 40.}) {
            Times late(size);
            late[size / 2] = late_by;
            const Outcome ring = Simulated(*Algorithm("ring"), late);
            const Outcome reduced = Simulated(*Algorithm("pre_reduced_ring"), late);
            EXPECT_NEAR(ring.last, late_by + 2 * (size - 1), 1e-9);
            EXPECT_GE(reduced.last, ring.last - 1e-9) << size << " ranks, late by " << late_by;
            EXPECT_LE(reduced.mean_elapsed, ring.mean_elapsed + 1e-9);
        }
}

// arrival_ns is position * 4 + lead.
void PlanAny(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_ring_seat seats[4] = {};
    for (uint32_t r = 0; r < 4; r++) {
        seats[problem->arrival_ns[r] / 4].rank = r;
        seats[problem->arrival_ns[r] / 4].lead = uint32_t(problem->arrival_ns[r] % 4);
    }
    gcoll_ring_find_starts(seats, 4);
    gcoll_ring_walk(problem, b, seats);
}

// The late rank has something to add to each of four segments and sends them to one neighbour, from 2 on, the
// last one by 6; two more hops bring that one to the other two.
TEST(Proficz, NoRingOfFourEndsBeforeEightNorHasALesserMean) {
    gcoll_algorithm any{};
    any.name = "any";
    any.collective = GCOLL_ALLREDUCE;
    any.plan = PlanAny;
    std::vector<uint32_t> order = {0, 1, 2, 3};
    double least_last = 1e9, least_mean = 1e9;
    const Times late = {2, 0, 0, 0};
    gcoll_simulate_options options = Options(0, 1);
    options.arrival = late.data();
    do
        for (int falls = 0; falls < 8; falls++) {
            int64_t seats[4];
            for (int i = 3, lead = 0; i >= 0; lead += i > 0 ? falls >> (i - 1) & 1 : 0, i--)
                seats[order[i]] = 4 * i + lead;
            gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 4, 4);
            problem.arrival_ns = seats;
            Simulation run = Simulate(CreateAll(any, problem), options);
            ASSERT_TRUE(run) << gcoll_last_error();
            least_last = std::min(least_last, run->time);
            least_mean = std::min(least_mean, run->mean_elapsed);
        }
    while (std::next_permutation(order.begin(), order.end()));
    EXPECT_NEAR(least_last, 8, 1e-9);
    EXPECT_NEAR(least_mean, 7.25, 1e-9);
}

} // namespace
} // namespace gcoll_test
