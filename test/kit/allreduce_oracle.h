// test/kit/allreduce_oracle.h - checks the plans of an allreduce against plain sums, the verifier, and the
// claims of the algorithm.
#ifndef GCOLL_TEST_ALLREDUCE_ORACLE_H
#define GCOLL_TEST_ALLREDUCE_ORACLE_H

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "test/kit/plan_runner.h"

namespace gcoll_test {

// Elements that one rank's plan sends, receives and reduces.
struct Totals {
    uint64_t sent = 0, reduced = 0, longest = 0;
};

inline Totals Count(const gcoll_plan &plan) {
    Totals t;
    for (uint32_t i = 0; i < plan.step_count; i++) {
        const gcoll_step &s = plan.steps[i];
        if (s.kind == GCOLL_STEP_SEND) {
            t.sent += s.count;
            t.longest = std::max(t.longest, s.count);
        }
        t.reduced += s.kind == GCOLL_STEP_REDUCE || s.kind == GCOLL_STEP_RECV_REDUCE ? s.count : 0;
    }
    return t;
}

inline std::vector<const gcoll_plan *> Pointers(const std::vector<Plan> &plans) {
    std::vector<const gcoll_plan *> all;
    for (const Plan &plan : plans)
        all.push_back(plan.get());
    return all;
}

inline uint64_t Value(uint32_t rank, uint64_t element) {
    return (rank + 1) * UINT64_C(0x9e3779b97f4a7c15) + element * element * 31 + element;
}

// Expects that the verifier accepts the plans, that the data come out right, and that the claims are true.
// With `exact` the claims must be all that the verifier finds.
inline void ProveAllreduce(const gcoll_algorithm &algorithm, const gcoll_problem &problem, bool exact,
                           gcoll_verify_report *found = nullptr) {
    std::vector<Plan> plans = CreateAll(algorithm, problem);
    for (const Plan &plan : plans)
        ASSERT_TRUE(plan) << gcoll_last_error();
    gcoll_verify_report report;
    ASSERT_EQ(GCOLL_OK, gcoll_verify(Pointers(plans).data(), problem.size, &report)) << gcoll_last_error();
    if (found)
        *found = report;
    uint32_t claims = gcoll_algorithm_claims(&algorithm, &problem);
    EXPECT_EQ(0u, claims & ~report.claims) << claims << " claimed, found " << report.claims;
    gcoll_cost cost;
    algorithm.cost(&problem, &cost);
    EXPECT_GE(cost.scratch, double(report.scratch_max));
    if (exact) {
        EXPECT_EQ(report.claims, claims);
        EXPECT_DOUBLE_EQ(double(report.scratch_max), cost.scratch);
    }
    Runner<uint64_t> run(plans, problem.size);
    run.op = std::plus<uint64_t>();
    for (uint32_t rank = 0; rank < problem.size; rank++)
        for (uint64_t e = 0; e < problem.count; e++)
            (problem.in_place ? run.out : run.in)[rank][0][e] = Value(rank, e);
    ASSERT_TRUE(run.Run()) << run.error;
    for (uint64_t e = 0; e < problem.count; e++) {
        uint64_t sum = 0;
        for (uint32_t rank = 0; rank < problem.size; rank++)
            sum += Value(rank, e);
        for (uint32_t rank = 0; rank < problem.size; rank++)
            ASSERT_EQ(sum, run.out[rank][0][e]) << "rank " << rank << " element " << e;
    }
}

// Expects that the algorithm's cost is what each rank does. For algorithms whose ranks all send and reduce
// the same, one step after the other.
inline void ExpectCost(const gcoll_algorithm &algorithm, const gcoll_problem &problem,
                       const gcoll_verify_report &found) {
    gcoll_cost cost;
    algorithm.cost(&problem, &cost);
    EXPECT_LE(double(found.steps),
              cost.steps); // more if two messages at once share a port
    EXPECT_DOUBLE_EQ(double(found.sent_max), cost.sent);
    EXPECT_DOUBLE_EQ(double(found.reduced_max), cost.reduced);
}

} // namespace gcoll_test

#endif
