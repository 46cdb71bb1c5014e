// test/algorithms/tour_planner_test.cc - rings along a tour: who sends to whom, by the tour alone; tours that
// are none; when selection knows of them. Their results are proved with random tours by verify_grid_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "test/kit/plan_runner.h"

namespace gcoll_test {
namespace {

const gcoll_collective kCollectives[] = {GCOLL_ALLREDUCE, GCOLL_REDUCE_SCATTER, GCOLL_ALLGATHER};

// What all ranks send, in the order of their steps.
struct Sent {
    uint32_t from, to;
    uint64_t count;
};

std::vector<Sent> SentBy(const std::string &name, const gcoll_problem &problem) {
    std::vector<Sent> sent;
    for (const Plan &plan : CreateAll(name, problem))
        for (uint32_t i = 0; plan && i < plan->step_count; i++)
            if (plan->steps[i].kind == GCOLL_STEP_SEND)
                sent.push_back({plan->problem.rank, plan->steps[i].peer, plan->steps[i].count});
    return sent;
}

TEST(Tour, RanksSendToTheNextOneOnIt) {
    std::mt19937 random(7);
    for (const gcoll_collective collective : kCollectives)
        for (const uint32_t size : {2u, 3u, 5u, 6u, 8u, 13u}) {
            SCOPED_TRACE(std::string(gcoll_collective_name(collective)) + " P=" + std::to_string(size));
            std::vector<uint32_t> tour(size), next(size);
            std::iota(tour.begin(), tour.end(), 0u);
            std::shuffle(tour.begin(), tour.end(), random);
            for (uint32_t i = 0; i < size; i++)
                next[tour[i]] = tour[(i + 1) % size];
            gcoll_problem problem = Problem(collective, 0, size, 3 * size + 1);
            problem.tour = tour.data();
            const uint32_t each = (collective == GCOLL_ALLREDUCE ? 2 : 1) * (size - 1);
            std::vector<uint32_t> messages(size);
            for (const Sent &message : SentBy("tour_ring", problem)) {
                EXPECT_EQ(message.to, next[message.from]);
                messages[message.from]++;
            }
            EXPECT_EQ(messages, std::vector<uint32_t>(size, each));
            for (const Sent &message : SentBy("ring", problem)) // does not look at it
                EXPECT_EQ(message.to, (message.from + 1) % size);
        }
}

TEST(Tour, WithoutOneTheRingGoesByRank) {
    for (const gcoll_collective collective : kCollectives) {
        const std::vector<Sent> sent = SentBy("tour_ring", Problem(collective, 0, 5, 20));
        EXPECT_FALSE(sent.empty());
        for (const Sent &message : sent)
            EXPECT_EQ(message.to, (message.from + 1) % 5);
    }
}

TEST(Tour, EachRankStandsInItOnce) {
    const struct {
        std::vector<uint32_t> tour;
        const char *says;
    } table[] = {{{0, 0, 1}, "tour[1] is 0, allowed is each of 0 to 2 once"},
                 {{2, 1, 3}, "tour[2] is 3, allowed is each of 0 to 2 once"},
                 {{UINT32_MAX, 1, 2}, "tour[0] is 4294967295"}};
    for (const auto &row : table)
        for (const gcoll_collective collective : kCollectives) {
            gcoll_problem problem = Problem(collective, 1, 3, 9);
            problem.tour = row.tour.data();
            gcoll_plan *plan = nullptr;
            EXPECT_EQ(gcoll_plan_create(Algorithm("tour_ring", collective), &problem, &plan),
                      GCOLL_ERR_INVALID);
            EXPECT_NE(std::string(gcoll_last_error()).find(row.says), std::string::npos)
                << gcoll_last_error();
            EXPECT_EQ(plan, nullptr);
        }
}

TEST(Tour, SelectionKnowsItsRing) {
    const gcoll_cost_parameters parameters = {1e-9, 1e-9, 1e-12};
    const gcoll_needs needs{};
    const std::vector<uint32_t> tour = {0, 2, 4, 1, 3};
    for (const bool has_tour : {false, true}) {
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 5, 1 << 20);
        problem.tour = has_tour ? tour.data() : nullptr;
        std::vector<std::string> seen;
        gcoll_choice choice{};
        ASSERT_EQ(gcoll_choose(
                      nullptr, &problem, 4, &needs, &parameters, &choice,
                      [](void *arg, const gcoll_candidate *candidate) {
                          static_cast<std::vector<std::string> *>(arg)->push_back(
                              candidate->choice.algorithm->name);
                      },
                      &seen),
                  GCOLL_OK);
        EXPECT_EQ(std::count(seen.begin(), seen.end(), "tour_ring"), has_tour ? 1 : 0);
        EXPECT_EQ(std::count(seen.begin(), seen.end(), "ring"), 1);
    }
}

// Four hosts of two ranks that are dealt out in turn: by rank, each message leaves its host.
TEST(Tour, ItsLoadIsThatOfItsLinks) {
    const std::vector<uint32_t> node = {0, 1, 2, 3, 0, 1, 2, 3}, tour = {0, 4, 5, 1, 2, 6, 7, 3};
    for (const gcoll_collective collective : kCollectives) {
        gcoll_problem problem = Problem(collective, 0, 8, 64);
        problem.node = node.data();
        problem.tour = tour.data();
        gcoll_load by_tour{}, by_rank{};
        Algorithm("tour_ring", collective)->load(&problem, &by_tour);
        Algorithm("ring", collective)->load(&problem, &by_rank);
        EXPECT_DOUBLE_EQ(by_tour.crossing, 0.5);
        EXPECT_DOUBLE_EQ(by_rank.crossing, 1);
    }
}

} // namespace
} // namespace gcoll_test
