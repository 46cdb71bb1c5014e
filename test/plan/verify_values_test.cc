// test/plan/verify_values_test.cc - the verifier against plans written by hand that compute or spread the
// wrong thing.
#include <gtest/gtest.h>

#include <random>

#include "test/plan/verify_jobs.h"

namespace verify_test {
namespace {

// ---- Values --------------------------------------------------------------------------------------------

TEST(VerifyValues, MissingAndTwice) {
    Job job = exchange();
    job[1].drop(2);
    EXPECT_REJECTED(job, "rank 1: in the end OUT[0] element 0 lacks the contribution of rank 0, buffer 0");
    job = exchange();
    job[1].steps[2].count = 3;
    EXPECT_REJECTED(job, "rank 1: in the end OUT[0] element 3 lacks the contribution of rank 0, buffer 0");
    job = exchange();
    job[1].insert_after(2, job[1].steps[2]);
    EXPECT_REJECTED(
        job, "rank 1, step 3 (reduce, 4 elements): the contribution of rank 0, buffer 0, comes in twice");
    job = all_to_all(false);
    job[2].steps.pop_back();
    job[2].next.pop_back();
    job[2].next[4].clear();
    EXPECT_REJECTED(job, "rank 2: in the end OUT[0] element 0 lacks the contribution of rank 2, buffer 0");
}

TEST(VerifyValues, Positions) {
    Job job = exchange();
    for (uint32_t r = 0; r < 2; r++) // the halves change places, on both sides alike
        job[r].steps[1].count = 2, job[r].steps[0].count = 2;
    for (uint32_t r = 0; r < 2; r++) {
        job[r].steps[0].a.offset = 2;
        job[r].steps[2].count = 2;
    }
    EXPECT_REJECTED(job, "step 2 (reduce, 2 elements): combines element 2 of the vector with element 0");
    job = chain(2, 4);
    job[0].steps[1].count = job[1].steps[1].count = 1;
    job[1].steps[1].a.offset = 1;
    EXPECT_REJECTED(job, "rank 0: in the end OUT[0] element 0 holds what belongs to element 1");
    job[0].steps[1].dst.offset = 1;
    EXPECT_REJECTED(job, "rank 0: in the end OUT[0] element 0 was never written");
    job = chain(2, 1000); // all but one, one too far
    job[0].steps[1].count = job[1].steps[1].count = 999;
    job[0].steps[1].dst.offset = 1;
    job[0].recv(1, gcoll_out(0, 0), 1);
    job[1].send(0, gcoll_out(0, 0), 1, {0});
    EXPECT_REJECTED(job, "rank 0: in the end OUT[0] element 1 holds what belongs to element 0");
    job[1].steps[1].a.offset = 1;
    EXPECT_EQ(verdict(job), "");
}

TEST(VerifyValues, Uninitialised) {
    Job job = chain(2, 5);
    job[0].steps[0].a = gcoll_out(0, 0);
    EXPECT_REJECTED(job,
                    "rank 0, step 0 (send to 1, 5 elements): reads OUT[0] element 0, which holds no data");
    job = exchange();
    job[0].steps[1].count = job[1].steps[0].count = 3;
    EXPECT_REJECTED(job, "rank 0, step 2 (reduce, 4 elements): reads SCRATCH element 3, which holds no data");
    job = exchange();
    job[0].scratch = 5;
    job[0].copy(gcoll_scratch(0), gcoll_scratch(4), 1, {2});
    EXPECT_REJECTED(job, "rank 0, step 3 (copy, 1 element): reads SCRATCH element 4");
}

TEST(VerifyValues, Averages) {
    Job job = exchange();
    for (Plan &plan : job) {
        plan.problem.average = true;
        plan.divisor = 2;
    }
    EXPECT_REJECTED(job, "rank 0: in the end OUT[0] element 0 is not divided");
    for (Plan &plan : job)
        plan.divide(gcoll_out(0, 0), 4, {2});
    EXPECT_EQ(verdict(job), "");
    Job bad = job;
    bad[1].divisor = 3;
    EXPECT_REJECTED(bad, "rank 1: the plan of an average divides by 3, not by the 2");
    bad = job;
    bad[1].steps[3].count = 3;
    EXPECT_REJECTED(bad, "rank 1: in the end OUT[0] element 3 is not divided");
    bad = job;
    bad[1].insert_after(3, bad[1].steps[3]);
    EXPECT_REJECTED(bad, "rank 1, step 4 (divide, 4 elements): divides a value that is already divided");
    bad = exchange();
    bad[1].divide(gcoll_out(0, 0), 4, {2});
    EXPECT_REJECTED(bad, "rank 1, step 3 (divide, 4 elements): divides, but this is no average");
    bad = job;
    bad[0].steps[3].dst = gcoll_scratch(0);
    bad[0].next[2].clear();
    EXPECT_REJECTED(bad, "rank 0, step 3 (divide, 4 elements): "); // races; and once it waits, is no sum:
    bad[0].next[2] = {3};
    EXPECT_REJECTED(
        bad, "rank 0, step 3 (divide, 4 elements): divides a sum that lacks the contribution of rank 0");
    bad = job; // each divides first and adds then
    for (Plan &plan : bad)
        std::swap(plan.steps[2], plan.steps[3]);
    EXPECT_REJECTED(bad, "divides a sum that lacks");
}

TEST(VerifyValues, AverageOfOne) {
    Job job = make_job(GCOLL_ALLREDUCE, 1, 3); // dividing by 1 may be left out
    job[0].problem.average = true;
    EXPECT_EQ(verdict(job), "");
    job[0].divide(gcoll_out(0, 0), 3);
    EXPECT_EQ(verdict(job), "");
    job[0].problem.average = false;
    EXPECT_REJECTED(job, "this is no average");
}

TEST(VerifyValues, Empty) {
    Job job = make_job(GCOLL_ALLREDUCE, 3, 0);
    gcoll_verify_report report;
    EXPECT_EQ(verdict(job, &report), "");
    EXPECT_TRUE((report.claims & GCOLL_CLAIM_RANK_IDENTICAL) && (report.claims & GCOLL_CLAIM_ORDERED));
    EXPECT_EQ(report.steps, 0u);
}

// ---- Other collectives -----------------------------------------------------------------------------------

TEST(VerifyBroadcast, Star) {
    for (bool in_place : {true, false}) {
        Job job = make_job(GCOLL_BROADCAST, 3, 4, in_place, 2);
        for (uint32_t r = 0; r < 3; r++) {
            Plan &plan = job[r];
            plan.problem.root = 1;
            if (r == 1) {
                plan.send(0, gcoll_in(0, 0), 4);
                plan.send(2, gcoll_in(0, 0), 4);
                if (!in_place)
                    plan.copy(gcoll_out(0, 0), gcoll_in(0, 0), 4);
                plan.copy(gcoll_out(1, 0), gcoll_in(0, 0), 4);
            } else {
                uint32_t got = plan.recv(1, gcoll_out(0, 0), 4);
                plan.copy(gcoll_out(1, 0), gcoll_out(0, 0), 4, {got});
            }
        }
        gcoll_verify_report report;
        EXPECT_EQ(verdict(job, &report), "");
        EXPECT_EQ(report.steps, 1u);
        EXPECT_EQ(report.sent_max, 8u);
        Job bad = job;
        bad[1].steps[0].a.index = 1;
        bad[1].drop(in_place ? 2 : 3);
        EXPECT_REJECTED(bad, "rank 1, step 0 (send to 0, 4 elements): reads " +
                                 std::string(in_place ? "OUT" : "IN") + "[1] element 0, which holds no data");
        bad = job;
        bad[2].drop(1);
        EXPECT_REJECTED(bad, "rank 2: in the end OUT[1] element 0 was never written");
        for (Plan &plan : job)
            plan.problem.root = 0;
        EXPECT_REJECTED(job, "holds no data");
    }
}

Job dissemination(uint32_t size, bool dependencies, uint32_t window) {
    Job job = make_job(GCOLL_BARRIER, size, 0);
    for (uint32_t r = 0; r < size; r++) {
        Plan &plan = job[r];
        plan.window = window;
        std::vector<uint32_t> after;
        for (uint32_t d = 1, round = 0; d < size; d *= 2, round++) {
            uint32_t sent = plan.send((r + d) % size, gcoll_in(0, 0), 0, after);
            uint32_t got = plan.recv((r + size - d) % size, gcoll_in(0, 0), 0, after);
            plan.steps[sent].round = plan.steps[got].round = round;
            if (dependencies)
                after = {sent, got};
        }
    }
    return job;
}

TEST(VerifyBarrier, Dissemination) {
    for (uint32_t size : {1u, 2u, 3u, 5u, 8u, 65u, 130u}) {
        uint32_t rounds = 0;
        while ((1u << rounds) < size)
            rounds++;
        gcoll_verify_report report;
        EXPECT_EQ(verdict(dissemination(size, true, GCOLL_WINDOW_UNBOUNDED), &report), "");
        EXPECT_EQ(report.steps, rounds);
        EXPECT_EQ(verdict(dissemination(size, false, 0), &report), "") << "strict rounds order it as well";
        EXPECT_EQ(report.steps, rounds);
        if (size > 3) { // of three, each hears of both others directly
            EXPECT_REJECTED(dissemination(size, false, GCOLL_WINDOW_UNBOUNDED),
                            "may leave the barrier before");
            EXPECT_REJECTED(dissemination(size, false, 1), "may leave the barrier before");
        }
    }
}

TEST(VerifyBarrier, BufferedSendsTellNothing) {
    Job job = make_job(GCOLL_BARRIER, 2, 0); // rank 0 leaves when its send is gone, be rank 1 there or not
    job[0].send(1, gcoll_in(0, 0), 0);
    job[1].recv(0, gcoll_in(0, 0), 0);
    EXPECT_REJECTED(job, "rank 0: may leave the barrier before rank 1 has entered it");
    job[1].send(0, gcoll_in(0, 0), 0);
    job[0].recv(1, gcoll_in(0, 0), 0);
    EXPECT_EQ(verdict(job), "");
}

TEST(VerifyBarrier, AgreesWithExecution) {
    std::mt19937 random(7);
    int held = 0, broken = 0;
    for (int i = 0; i < 400; i++) { // dissemination without some of its edges, and with windows
        Job job = dissemination(4 + i % 4, true, i % 3 ? GCOLL_WINDOW_UNBOUNDED : random() % 3);
        for (int k = 0; k < i % 3; k++) {
            Plan &plan = job[random() % job.size()];
            auto &list = plan.next[random() % plan.next.size()];
            if (!list.empty())
                list.erase(list.begin() + static_cast<long>(random() % list.size()));
        }
        bool holds = barrier_holds(job);
        (holds ? held : broken)++;
        EXPECT_EQ(verdict(job) == "", holds) << i;
    }
    EXPECT_GT(held, 50);
    EXPECT_GT(broken, 30);
}

} // namespace
} // namespace verify_test
