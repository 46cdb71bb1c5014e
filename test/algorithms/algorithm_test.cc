// test/algorithms/algorithm_test.cc - the planners against a naive run of all ranks: results, claims, steps,
// bytes, costs, choices.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "test/kit/allreduce_oracle.h"
#include "test/kit/plan_rounds.h"

namespace gcoll_test {
namespace {

// A partial result: what it sums to, how it was put together (up to a+b = b+a), and the ranks it covers in
// order.
struct Partial {
    uint64_t sum = 0, tree = 0;
    int64_t low = 1, high = -1; // low > high: not one stretch of ranks in order
    bool operator==(const Partial &o) const {
        return sum == o.sum && tree == o.tree && low == o.low && high == o.high;
    }
};

uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

Partial Combine(const Partial &a, const Partial &b) {
    Partial r;
    r.sum = a.sum + b.sum;
    r.tree = Mix(a.tree + b.tree + 0x9e3779b97f4a7c15u);
    if (a.low <= a.high && b.low <= b.high && a.high + 1 == b.low) {
        r.low = a.low;
        r.high = b.high;
    }
    return r;
}

Partial Leaf(uint32_t rank, uint64_t element) {
    Partial p;
    p.sum = Mix(1000003 * (rank + 1) + element);
    p.tree = Mix(p.sum + 1);
    p.low = p.high = rank;
    return p;
}

uint32_t Log2Ceil(uint32_t p) {
    uint32_t l = 0;
    for (uint64_t k = 1; k < p; k *= 2)
        l++;
    return l;
}

// Runs an allreduce and compares results and claims with what they must be.
void CheckAllreduce(const std::string &algorithm, const gcoll_problem &problem, uint32_t seed) {
    SCOPED_TRACE(algorithm + " P=" + std::to_string(problem.size) + " n=" + std::to_string(problem.count) +
                 " r=" + std::to_string(problem.option[0]) + " in_place=" + std::to_string(problem.in_place) +
                 " segment=" + std::to_string(problem.segment));
    std::vector<Plan> plans = CreateAll(algorithm, problem);
    for (const Plan &plan : plans)
        ASSERT_TRUE(plan) << gcoll_last_error();
    Runner<Partial> run(plans, seed);
    run.op = Combine;
    for (uint32_t rank = 0; rank < problem.size; rank++)
        for (uint64_t e = 0; e < problem.count; e++)
            (problem.in_place ? run.out : run.in)[rank][0][e] = Leaf(rank, e);
    ASSERT_TRUE(run.Run()) << run.error;
    bool identical = true, ordered = true;
    for (uint64_t e = 0; e < problem.count; e++) {
        uint64_t sum = 0;
        for (uint32_t rank = 0; rank < problem.size; rank++)
            sum += Leaf(rank, e).sum;
        for (uint32_t rank = 0; rank < problem.size; rank++) {
            const Partial &got = run.out[rank][0][e];
            ASSERT_EQ(sum, got.sum) << "rank " << rank << " element " << e;
            identical &= got.tree == run.out[0][0][e].tree;
            ordered &= got.low == 0 && got.high == problem.size - 1;
        }
    }
    uint32_t claims = gcoll_algorithm_claims(Algorithm(algorithm, problem.collective), &problem);
    EXPECT_EQ(identical, (claims & GCOLL_CLAIM_RANK_IDENTICAL) != 0);
    EXPECT_EQ(ordered, (claims & GCOLL_CLAIM_ORDERED) != 0);
}

std::vector<uint64_t> Counts(uint32_t size) {
    return {0, 1, size - 1, size, 3 * size + 1};
}

TEST(GroupButterfly, ResultsAndClaimsForEveryPAndR) {
    for (uint32_t size = 1; size <= 40; size++)
        for (uint32_t r = 0; r <= Log2Ceil(size); r++)
            for (uint64_t count : Counts(size)) {
                gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, count);
                problem.option[0] = r;
                problem.in_place = (size + r + count) % 2;
                CheckAllreduce("group_butterfly", problem, size * 64 + r);
                if (HasFatalFailure())
                    return;
            }
}

TEST(GroupButterfly, InPlaceAndOutOfPlace) {
    for (uint32_t size : {2, 3, 4, 6, 7, 8, 11, 12, 13, 24})
        for (uint32_t r = 0; r <= Log2Ceil(size); r++)
            for (bool in_place : {false, true}) {
                gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, 2 * size + 1);
                problem.option[0] = r;
                problem.in_place = in_place;
                CheckAllreduce("group_butterfly", problem, 7);
                problem.segment = 2;
                CheckAllreduce("group_butterfly", problem, 8);
            }
}

TEST(GroupButterfly, StepsAndChunksAsPublished) {
    struct {
        uint32_t size, r, steps, sent;
    } cases[] = {{7, 0, 6, 12},     {7, 1, 5, 14},     {7, 2, 4, 18},   {7, 3, 3, 21},
                 {127, 0, 14, 252}, {127, 4, 10, 342}, {127, 7, 7, 889}};
    for (auto c : cases) {
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, c.size / 2, c.size, c.size); // a chunk is an element
        problem.option[0] = c.r;
        Plan plan = Create("group_butterfly", problem);
        ASSERT_TRUE(plan);
        EXPECT_EQ(c.steps, plan->rounds);
        EXPECT_EQ(c.sent, Count(*plan).sent) << "P=" << c.size << " r=" << c.r;
    }
}

TEST(GroupButterfly, BoundsOfThePaper) {
    for (uint32_t size = 2; size <= 128; size++) {
        const uint64_t log = Log2Ceil(size);
        for (uint32_t r = 0; r <= log; r++) {
            SCOPED_TRACE("P=" + std::to_string(size) + " r=" + std::to_string(r));
            gcoll_problem problem = Problem(GCOLL_ALLREDUCE, size - 1, size, size);
            problem.option[0] = r;
            Plan plan = Create("group_butterfly", problem);
            ASSERT_TRUE(plan);
            Totals totals = Count(*plan);
            EXPECT_EQ(2 * log - r, plan->rounds);
            EXPECT_LE(totals.sent, 2 * (size - 1) + ((1u << r) - 1) * (log - 1));
            if (log > 1) // two ranks and one step: each reduces all it has
                EXPECT_LE(totals.reduced, size - 1 + ((1u << r) - 1) * (2 * log - 2));
            if (r == 0) {
                EXPECT_EQ(2 * (size - 1), totals.sent);
                EXPECT_EQ(size - 1, totals.reduced);
                EXPECT_EQ(0u, plan->scratch);
            }
            if (r == log && log > 1) {
                EXPECT_EQ(size * log, totals.sent);
                EXPECT_LE(totals.reduced, size * (2 * log - 2));
            }
        }
    }
}

TEST(GroupButterfly, PlanIsLogarithmic) {
    for (uint32_t size : {1024u, 99991u, 1000000u, 1048576u})
        for (uint32_t r = 0; r <= Log2Ceil(size); r++) {
            gcoll_problem problem = Problem(GCOLL_ALLREDUCE, size / 3, size, UINT64_C(1) << 32);
            problem.option[0] = r;
            Plan plan = Create("group_butterfly", problem);
            ASSERT_TRUE(plan) << gcoll_last_error();
            EXPECT_LE(plan->step_count,
                      8 * 2 * Log2Ceil(size)); // two pieces of send, receive and two reductions
            EXPECT_EQ(2 * Log2Ceil(size) - r, plan->rounds);
        }
}

TEST(Ring, ResultsAndClaims) {
    for (uint32_t size = 1; size <= 24; size++)
        for (uint64_t count : Counts(size))
            for (const char *name : {"ring", "sorted_linear_tree"}) {
                gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, count);
                problem.in_place = (size + count) % 2;
                CheckAllreduce(name, problem, size);
                problem.in_place = !problem.in_place;
                problem.segment = 2;
                CheckAllreduce(name, problem, size + 1);
            }
}

TEST(Ring, EachLinkCarriesOneMessageARound) {
    for (const char *name : {"ring", "sorted_linear_tree"})
        for (uint32_t size : {2u, 3u, 5u, 8u, 17u}) {
            gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, size, 2 * size);
            for (const Plan &plan : CreateAll(name, problem)) {
                std::vector<uint32_t> sends(plan->rounds), receives(plan->rounds);
                for (uint32_t i = 0; i < plan->step_count; i++)
                    (plan->steps[i].kind == GCOLL_STEP_SEND ? sends : receives)[plan->steps[i].round]++;
                for (uint32_t round = 0; round < plan->rounds; round++) {
                    EXPECT_LE(sends[round], 1u);
                    EXPECT_LE(receives[round], 1u);
                }
            }
        }
}

const gcoll_algorithm *const first_rows[] = {
    Algorithm("ring", GCOLL_ALLREDUCE), Algorithm("group_butterfly", GCOLL_ALLREDUCE),
    Algorithm("sorted_linear_tree", GCOLL_ALLREDUCE), Algorithm("binomial", GCOLL_BROADCAST),
    Algorithm("dissemination", GCOLL_BARRIER)};

// A message belongs to one round, whichever end one asks.
TEST(Planners, BothEndsAgreeOnRounds) {
    for (const gcoll_algorithm *a : first_rows)
        for (uint32_t size : {2u, 3u, 6u, 7u, 16u, 21u}) {
            gcoll_problem problem = Problem(a->collective, 0, size, a->collective == GCOLL_BARRIER ? 0 : 100);
            problem.root = a->collective == GCOLL_BROADCAST ? 1 : 0;
            std::vector<Plan> plans = CreateAll(*a, problem);
            const MessageRounds rounds = RoundsOfMessages(plans);
            EXPECT_FALSE(rounds.sent.empty());
            EXPECT_EQ(rounds.sent, rounds.received) << a->name << " P=" << size;
        }
}

TEST(Planners, CostFormulasAreExact) {
    for (const gcoll_algorithm *a : first_rows)
        for (uint32_t size = 1; size <= 33; size++) {
            bool has_r = std::string(a->name) == "group_butterfly";
            for (uint32_t r = 0; r <= (has_r ? Log2Ceil(size) : 0); r++) {
                SCOPED_TRACE(std::string(a->name) + " P=" + std::to_string(size) + " r=" + std::to_string(r));
                gcoll_problem problem =
                    Problem(a->collective, 0, size, a->collective == GCOLL_BARRIER ? 0 : 4 * size);
                problem.option[0] = r;
                Totals most;
                uint32_t rounds = 0;
                for (const Plan &plan : CreateAll(*a, problem)) {
                    Totals t = Count(*plan);
                    most.sent = std::max(most.sent, t.sent);
                    most.reduced = std::max(most.reduced, t.reduced);
                    rounds = std::max(rounds, size == 1 ? 0 : plan->rounds);
                }
                gcoll_cost cost;
                a->cost(&problem, &cost);
                EXPECT_DOUBLE_EQ(double(rounds), cost.steps);
                if (std::string(a->name) == "sorted_linear_tree")
                    continue; // its elements are those on the way of its last segment
                EXPECT_DOUBLE_EQ(double(most.sent), cost.sent);
                EXPECT_DOUBLE_EQ(double(most.reduced), cost.reduced);
            }
        }
}

TEST(Binomial, EveryRootReachesEverybody) {
    for (uint32_t size = 1; size <= 20; size++)
        for (uint32_t root = 0; root < size; root++)
            for (bool in_place : {false, true}) {
                gcoll_problem problem = Problem(GCOLL_BROADCAST, 0, size, 5);
                problem.root = root;
                problem.in_place = in_place;
                problem.segment = root % 3;
                std::vector<Plan> plans = CreateAll("binomial", problem);
                Runner<int64_t> run(plans, size);
                for (int64_t e = 0; e < 5; e++)
                    (in_place ? run.out : run.in)[root][0][e] = 100 + e;
                ASSERT_TRUE(run.Run()) << run.error;
                for (uint32_t rank = 0; rank < size; rank++)
                    for (int64_t e = 0; e < 5; e++)
                        ASSERT_EQ(100 + e, run.out[rank][0][e])
                            << "P=" << size << " root=" << root << " rank=" << rank;
            }
}

// What a rank knows when it leaves, if each message tells all that its sender knew when it was sent: a rank
// has sent a round's signal before it knows what comes in by that round, under the window alone.
TEST(Dissemination, NobodyLeavesBeforeEverybodyIsThere) {
    for (uint32_t size = 1; size <= 70; size++) {
        std::vector<Plan> plans = CreateAll("dissemination", Problem(GCOLL_BARRIER, 0, size, 0));
        std::vector<std::vector<bool>> knows(size, std::vector<bool>(size, false));
        uint32_t rounds = Log2Ceil(size);
        for (uint32_t rank = 0; rank < size; rank++)
            knows[rank][rank] = true;
        for (uint32_t round = 0; round < rounds; round++) {
            auto before = knows;
            for (uint32_t rank = 0; rank < size; rank++)
                for (uint32_t i = 0; i < plans[rank]->step_count; i++) {
                    const gcoll_step &s = plans[rank]->steps[i];
                    if (s.round == round && s.kind == GCOLL_STEP_RECV)
                        for (uint32_t k = 0; k < size; k++)
                            knows[rank][k] = knows[rank][k] || before[s.peer][k];
                }
        }
        for (uint32_t rank = 0; rank < size; rank++) {
            EXPECT_EQ(0u, plans[rank]->window);
            EXPECT_EQ(rounds, plans[rank]->rounds);
            EXPECT_EQ(size, std::count(knows[rank].begin(), knows[rank].end(), true)) << "P=" << size;
        }
        Runner<int> run(plans, size);
        EXPECT_TRUE(run.Run()) << run.error;
    }
}

TEST(Planners, ErrorsNameWhatIsWrong) {
    gcoll_plan *plan = nullptr;
    gcoll_problem problem = Problem(GCOLL_BROADCAST, 0, 4, 10);
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(nullptr, &problem, &plan));
    EXPECT_STREQ("gcoll_plan_create: algorithm is NULL", gcoll_last_error());
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("ring"), nullptr, &plan));
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("ring"), &problem, nullptr));
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("ring"), &problem, &plan));
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "broadcast")) << gcoll_last_error();
    problem = Problem(GCOLL_ALLREDUCE, 0, 4, 10);
    problem.option[0] = 21;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("group_butterfly"), &problem, &plan));
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "-1 to 20")) << gcoll_last_error();
    problem = Problem(GCOLL_ALLREDUCE, 4, 4, 10);
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("ring"), &problem, &plan));
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "rank is 4")) << gcoll_last_error();
    problem = Problem(GCOLL_BARRIER, 0, 4, 0);
    problem.average = true;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("dissemination"), &problem, &plan));
    problem = Problem(GCOLL_ALLREDUCE, 0, 4, 10);
    problem.buffers = GCOLL_MAX_BUFFERS + 1;
    EXPECT_EQ(GCOLL_ERR_INVALID, gcoll_plan_create(Algorithm("ring"), &problem, &plan));
    EXPECT_EQ(nullptr, plan);
}

} // namespace
} // namespace gcoll_test
