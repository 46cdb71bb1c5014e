// Algorithms that go by the order of arrival: who is done when, by hand, and 1000 random patterns proved. A
// vector takes 1 s from rank to rank, a quarter of it 0.25 s.
#include <gtest/gtest.h>

#include <random>

#include "test/plan/simulate_support.h"

namespace gcoll_test {
namespace {

using Times = std::vector<double>;

class Patterns : public testing::Test {
  protected:
    gcoll_problem problem_{};
    std::vector<int64_t> arrival_ns_;

    void Arrive(gcoll_collective collective, const Times &late) {
        problem_ = Problem(collective, 0, static_cast<uint32_t>(late.size()), late.size());
        arrival_ns_.clear();
        for (double seconds : late)
            arrival_ns_.push_back(static_cast<int64_t>(1e9 * seconds));
        problem_.arrival_ns = arrival_ns_.data();
        problem_.segment_ns = static_cast<int64_t>(1e9 / double(late.size()));
    }

    void Expect(const char *name, gcoll_collective collective, const Times &late, const Times &finish) {
        Arrive(collective, late);
        const gcoll_algorithm *algorithm = Algorithm(name, collective);
        ASSERT_NE(algorithm, nullptr);
        gcoll_simulate_options options = Options(0, 1 / double(late.size()));
        options.arrival = late.data();
        Simulation run = Simulate(CreateAll(*algorithm, problem_), options);
        ASSERT_TRUE(run) << gcoll_last_error();
        for (size_t r = 0; r < finish.size(); r++)
            EXPECT_NEAR(run->finish[r], finish[r], 1e-9) << "rank " << r;
    }
};

// 0 to 1, then 0 to 3; the latter was busy last, so it waits for rank 2, and the root is gone.
TEST_F(Patterns, BroadcastServesTheLatestLast) {
    Expect("arrival_tree", GCOLL_BROADCAST, {0, 0, 10, 0}, {2, 1, 11, 11});
}

// Each waits for the next one only.
TEST_F(Patterns, BroadcastToOneAfterTheOtherIsAChain) {
    Expect("arrival_tree", GCOLL_BROADCAST, {0, 10, 20, 30}, {11, 21, 31, 31});
}

// All wait for the root, and then it is a binomial tree.
TEST_F(Patterns, BroadcastFromALateRoot) {
    Expect("arrival_tree", GCOLL_BROADCAST, {10, 0, 0, 0}, {12, 12, 12, 12});
}

// 2 and 3 send to the root and are gone; rank 1 sends to it when it comes.
TEST_F(Patterns, ReduceJoinsTheLatestLast) {
    Expect("arrival_tree", GCOLL_REDUCE, {0, 10, 0, 0}, {11, 11, 1, 2});
}

// Rank 1 sends to 2, 2 to 3; what they have come to waits for the root.
TEST_F(Patterns, ReduceToALateRoot) {
    Expect("arrival_tree", GCOLL_REDUCE, {10, 0, 2, 4}, {11, 3, 5, 11});
}

// 0, 2 and 3 are a ring, long done. Rank 1 sends its block to 2 and then to 0, 2 to 3; it gets the three
// others from 3.
TEST_F(Patterns, AllgatherLetsTheLatestJoin) {
    Expect("arrival_ring", GCOLL_ALLGATHER, {0, 10, 0, 0}, {10.5, 10.75, 10.5, 10.75});
    Expect("ring", GCOLL_ALLGATHER, {0, 10, 0, 0}, {10.75, 10.75, 10.75, 10.75});
}

// Who is late by less than a ring takes has its place in it.
TEST_F(Patterns, AllgatherIsTheRingIfNobodyIsLateEnough) {
    Expect("arrival_ring", GCOLL_ALLGATHER, {0, 0.4, 0, 0}, {1.15, 1.15, 1.15, 1.15});
}

// Four ranks, one late by 2 s, a segment takes 1/4 s. By the paper's formula the leads are 2 1 0 0, from the
// first position on: one segment starts at the late rank and goes twice round from its arrival. With ahead=1
// they are 3 2 1 0, which is a chain: the late rank takes in four segments and passes them on one after the
// other.
TEST_F(Patterns, AheadByOneNoSegmentStartsAtTheLateRank) {
    const gcoll_algorithm &ring = *Algorithm("pre_reduced_ring");
    const Times late = {2, 0, 0, 0};
    Arrive(GCOLL_ALLREDUCE, late);
    gcoll_simulate_options options = Options(0, 0.25);
    options.arrival = late.data();
    const std::vector<Plan> paper = CreateAll(ring, problem_);
    problem_.option[0] = 1;
    const std::vector<Plan> ahead = CreateAll(ring, problem_);
    const std::vector<Plan> chain = CreateAll(*Algorithm("sorted_linear_tree"), problem_);
    const Simulation one = Simulate(ahead, options), same = Simulate(chain, options);
    EXPECT_NEAR(Simulate(paper, options)->time, 2 + 6 * 0.25, 1e-9);
    for (int r = 0; r < 4; r++)
        EXPECT_NEAR(one->finish[r], same->finish[r], 1e-9) << r;
    EXPECT_NEAR(one->finish[0], 2 + 5 * 0.25, 1e-9); // in four, and the last one out
    EXPECT_NEAR(one->time, 2 + 7 * 0.25, 1e-9);
    problem_.arrival_ns = nullptr; // nobody is late: it is the ring
    EXPECT_NEAR(Simulate(CreateAll(ring, problem_), Options(0, 0.25))->mean_elapsed, 6 * 0.25, 1e-9);
}

// Why group_butterfly has no order of its own: wherever the late rank stands, everybody is done as long after
// it as all take that come together. So no other place could be better.
TEST_F(Patterns, WhereTheLateRankStandsMakesNoDifferenceToTheButterfly) {
    const gcoll_algorithm &butterfly = *Algorithm("group_butterfly");
    for (uint32_t size : {4u, 6u, 7u, 8u, 16u})
        for (int64_t r : {0, 1, 4})
            for (uint32_t late_rank = 0; late_rank < size; late_rank++) {
                Times late(size);
                Arrive(GCOLL_ALLREDUCE, late);
                SetFallbacks(&problem_, &butterfly);
                problem_.option[0] = r;
                const std::vector<Plan> plans = CreateAll(butterfly, problem_);
                gcoll_simulate_options options = Options(0.01, 1 / double(size));
                const double together = Simulate(plans, options)->time;
                late[late_rank] = 10;
                options.arrival = late.data();
                Simulation run = Simulate(plans, options);
                for (uint32_t k = 0; k < size; k++)
                    EXPECT_NEAR(run->finish[k], 10 + together, 1e-9)
                        << "rank " << k << " of " << size << ", r=" << r << ", late: " << late_rank;
            }
}

// Every row that looks at arrivals makes plans that prove, and claims no more than they hold, whoever is late
// and whatever is said of segments.
TEST_F(Patterns, AThousandRandomOnesAreProved) {
    const std::pair<const char *, gcoll_collective> rows[] = {{"sorted_linear_tree", GCOLL_ALLREDUCE},
                                                              {"pre_reduced_ring", GCOLL_ALLREDUCE},
                                                              {"arrival_tree", GCOLL_BROADCAST},
                                                              {"arrival_tree", GCOLL_REDUCE},
                                                              {"arrival_ring", GCOLL_ALLGATHER}};
    std::mt19937_64 random(7);
    for (int pattern = 0; pattern < 1000 && !HasFailure(); pattern++) {
        const auto &row = rows[pattern % 5];
        const gcoll_algorithm &algorithm = *Algorithm(row.first, row.second);
        const uint32_t size = 1 + uint32_t(random() % 14);
        Times late(size);
        Arrive(row.second, late);
        const uint64_t shift = random() % 64;
        for (int64_t &ns : arrival_ns_) // negative and far apart, too
            ns = static_cast<int64_t>(random() << shift);
        problem_.segment_ns = static_cast<int64_t>(random() >> (random() % 64));
        problem_.root = row.second == GCOLL_ALLGATHER || row.second == GCOLL_ALLREDUCE ? 0 : random() % size;
        problem_.count = random() % 40;
        if (algorithm.options && pattern % 2)
            problem_.option[0] = algorithm.options[0].max;
        std::vector<Plan> plans = CreateAll(algorithm, problem_);
        std::vector<const gcoll_plan *> all;
        for (const Plan &plan : plans)
            all.push_back(plan.get());
        gcoll_verify_report report;
        ASSERT_EQ(gcoll_verify(all.data(), size, &report), GCOLL_OK)
            << algorithm.name << " of " << size << ": " << gcoll_last_error();
        EXPECT_EQ(gcoll_algorithm_claims(&algorithm, &problem_) & ~report.claims, 0u) << algorithm.name;
        gcoll_cost cost;
        algorithm.cost(&problem_, &cost);
        EXPECT_GE(cost.steps, report.steps) << algorithm.name << " of " << size;
    }
}

} // namespace
} // namespace gcoll_test
