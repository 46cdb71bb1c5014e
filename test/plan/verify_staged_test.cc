// test/plan/verify_staged_test.cc - the verifier against plans written by hand whose buffers lie in the
// memory of devices.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "test/plan/verify_jobs.h"

namespace verify_test {
namespace {

constexpr uint32_t kHost = GCOLL_HOST_MEMORY;
constexpr uint32_t kFirst = GCOLL_DEVICE_MEMORY(0), kSecond = GCOLL_DEVICE_MEMORY(1);

enum Step : uint32_t { kFold, kIn, kSend, kRecv, kReduce, kOut, kSpread };

// exchange(), of two buffers each, all on device 0: fold, copy to the host, exchange there, reduce, copy
// back, spread.
Job staged(uint64_t count = 4) {
    Job job = make_job(GCOLL_ALLREDUCE, 2, count, true, 2);
    for (uint32_t r = 0; r < 2; r++) {
        Plan &plan = job[r];
        plan.out_memory = {kFirst, kFirst};
        plan.scratch = 2 * count;
        plan.fold(gcoll_out(0, 0), gcoll_out(0, 0), {0, 1}, count);
        plan.copy(gcoll_scratch(0), gcoll_out(0, 0), count, {kFold});
        plan.send(1 - r, gcoll_scratch(0), count, {kIn});
        plan.recv(1 - r, gcoll_scratch(count), count);
        if (r == 0)
            plan.reduce(gcoll_scratch(0), gcoll_scratch(0), gcoll_scratch(count), count, {kIn, kSend, kRecv});
        else
            plan.reduce(gcoll_scratch(0), gcoll_scratch(count), gcoll_scratch(0), count, {kIn, kSend, kRecv});
        plan.copy(gcoll_out(0, 0), gcoll_scratch(0), count, {kIn, kReduce});
        plan.copy(gcoll_out(1, 0), gcoll_out(0, 0), count, {kFold, kOut});
    }
    return job;
}

TEST(VerifyStaged, AcceptsAndCounts) {
    gcoll_verify_report report{};
    Job job = staged();
    job[1].out_memory = {kSecond, kSecond}; // ranks may differ
    EXPECT_EQ(verdict(job, &report), "");
    EXPECT_EQ(report.claims, uint32_t{GCOLL_CLAIM_ALL & ~GCOLL_CLAIM_LEFT}); // (0+1)+(2+3)
    EXPECT_EQ(report.copied_in_max, 4u);
    EXPECT_EQ(report.copied_out_max, 4u);
    EXPECT_EQ(report.folded_max, 4u);
    EXPECT_EQ(report.reduced_max, 4u);
    EXPECT_EQ(report.scratch_max, 8u);
    job[0].out_memory = {}; // by mistake: a fold is done by a device
    EXPECT_REJECTED(job, "rank 0, step 0 (fold of 2, 4 elements): a fold is done by a device, but the result "
                         "is in host memory");
}

TEST(VerifyStaged, TheReportHasTheBusiestRank) {
    gcoll_verify_report report{};
    Job job = exchange(3);
    EXPECT_EQ(verdict(job, &report), "");
    EXPECT_EQ(report.copied_in_max + report.copied_out_max + report.folded_max, 0u);
    job = staged(3);
    job[0] = make_job(GCOLL_ALLREDUCE, 2, 3)[0];
    job[0].scratch = 3; // rank 0 is that of exchange(): one buffer, in host memory
    uint32_t sent = job[0].send(1, gcoll_out(0, 0), 3), got = job[0].recv(1, gcoll_scratch(0), 3);
    job[0].reduce(gcoll_out(0, 0), gcoll_out(0, 0), gcoll_scratch(0), 3, {sent, got});
    EXPECT_EQ(verdict(job, &report), "");
    EXPECT_EQ(report.copied_in_max, 3u);
    EXPECT_EQ(report.folded_max, 3u);
}

TEST(VerifyStaged, TheHostReachesNoDevice) {
    Job job = staged();
    job[1].steps[kSend].a = gcoll_out(0, 0);
    EXPECT_REJECTED(job, "rank 1, step 2 (send to 0, 4 elements): touches the memory of device 0, which the "
                         "host cannot reach");
    job = staged();
    job[0].steps[kRecv].dst = gcoll_out(1, 0);
    EXPECT_REJECTED(job, "rank 0, step 3 (recv from 1, 4 elements): touches the memory of device 0");
    job = staged();
    job[0].out_memory = {kFirst, kSecond};
    job[0].problem.staging.local = GCOLL_LOCAL_PEER;
    job[0].steps[kReduce].b = gcoll_out(1, 0);
    EXPECT_REJECTED(job, "rank 0, step 4 (reduce, 4 elements): touches the memory of device 1");
    job = staged();
    job[0].steps[kReduce].dst = gcoll_out(0, 0);
    EXPECT_REJECTED(job, "rank 0, step 4 (reduce, 4 elements): touches the memory of device 0");
    job = chain(2, 4);
    job[1].in_memory = {kSecond};
    EXPECT_REJECTED(job, "rank 1, step 0 (recv and reduce from 0, 4 elements): touches the memory of device "
                         "1, which the host cannot reach");
    job = chain(2, 4);
    job[1].out_memory = {kFirst};
    EXPECT_REJECTED(job,
                    "rank 1, step 0 (recv and reduce from 0, 4 elements): touches the memory of device 0");
}

TEST(VerifyStaged, DevicesReachEachOtherOnlyAsPeers) {
    Job job = staged();
    job[0].out_memory = {kFirst, kSecond};
    EXPECT_REJECTED(job,
                    "rank 0, step 0 (fold of 2, 4 elements): device 0 reads the memory of device 1, which "
                    "the plan's staging does not say they can");
    job[0].problem.staging.local = GCOLL_LOCAL_PEER;
    EXPECT_EQ(verdict(job), "");
    job[0].out_memory = {kFirst, kHost};
    EXPECT_REJECTED(job, "rank 0, step 0 (fold of 2, 4 elements): reads host memory, which device 0 cannot "
                         "reach");
    job = staged(); // the copy at the end
    job[0].out_memory = {kFirst, kSecond};
    job[0].drop(kFold);
    EXPECT_REJECTED(job, "rank 0, step 5 (copy, 4 elements): device 1 reads the memory of device 0");
}

TEST(VerifyStaged, OnceIsEnough) {
    Job job = staged();
    job[0].insert_after(kIn, job[0].steps[kIn]);
    EXPECT_REJECTED(job, "rank 0, step 2 (copy, 4 elements): copies OUT[0] element 0 to the host, as step 1 "
                         "(copy, 4 elements) does: once is enough");
    job = staged();
    gcoll_step again = job[0].steps[kOut];
    again.count = 1;
    again.a.offset = again.dst.offset = 3;
    job[0].insert_after(kOut, again);
    EXPECT_REJECTED(job,
                    "rank 0, step 6 (copy, 1 element): copies OUT[0] element 3 to its device, as step 5");
    job = staged(); // from the host to both, in place of within the device: that is allowed, once each
    job[0].steps[kSpread].a = gcoll_scratch(0);
    job[0].next[kReduce].push_back(kSpread);
    EXPECT_EQ(verdict(job), "");
}

TEST(VerifyStaged, FoldsHaveOperands) {
    Job job = staged();
    job[0].set_operands(kFold, {0});
    EXPECT_REJECTED(job, "rank 0, step 0 (fold of 1, 4 elements): a fold has at least 2 operands");
    job[0].set_operands(kFold, {0, 2});
    EXPECT_REJECTED(job, "rank 0, step 0 (fold of 2, 4 elements): touches OUT[2], but there are 2 of them");
    job[0].set_operands(kFold, {0, 0});
    EXPECT_REJECTED(job,
                    "rank 0, step 0 (fold of 2, 4 elements): the contribution of rank 0, buffer 0, comes "
                    "in twice");
    job[0].set_operands(kFold, {0, 1, 0});
    EXPECT_REJECTED(job,
                    "rank 0, step 0 (fold of 3, 4 elements): the contribution of rank 0, buffer 0, comes "
                    "in twice");
    job[0].set_operands(kFold, {1, 0}); // order is all that it spoils
    gcoll_verify_report report{};
    EXPECT_EQ(verdict(job, &report), "");
    EXPECT_EQ(report.claims & GCOLL_CLAIM_ORDERED, 0u);
    job[0].steps[kFold].first_operand = static_cast<uint32_t>(job[0].operands.size()) - 1;
    EXPECT_REJECTED(job, "rank 0, step 0 (fold of 2, 4 elements): its operands lie outside the plan's");
    job[0].steps[kFold].first_operand = UINT32_MAX;
    EXPECT_REJECTED(job, "rank 0, step 0 (fold of 2, 4 elements): its operands lie outside the plan's");
    job = staged();
    job[0].steps[kFold].count = 0;
    EXPECT_REJECTED(job, "rank 0, step 0 (fold of 2, 0 elements): has no elements");
    job = staged();
    job[0].steps[kFold].a.offset = 1;
    EXPECT_REJECTED(job,
                    "rank 0, step 0 (fold of 2, 4 elements): reads 4 elements at OUT[0] offset 1, out of "
                    "bounds: it has 4");
    job = staged();
    job[0].steps[kFold].count = 3;
    job[0].steps[kFold].a.offset = 1;
    EXPECT_REJECTED(job, "rank 0, step 0 (fold of 2, 3 elements): writes elements that it reads elsewhere");
}

TEST(VerifyStaged, WhatIsMissing) {
    Job job = staged();
    job[0].drop(kFold);
    EXPECT_REJECTED(job, "in the end OUT[0] element 0 lacks the contribution of rank 0, buffer 1");
    job = staged();
    job[0].drop(kIn);
    EXPECT_REJECTED(job, "reads SCRATCH element 0, which holds no data at that time");
    job = staged();
    job[1].drop(kOut);
    EXPECT_REJECTED(job, "rank 1: in the end OUT[0] element 0 lacks the contribution of rank 0, buffer 0");
    job = staged();
    job[1].drop(kSpread);
    EXPECT_REJECTED(job, "rank 1: in the end OUT[1] element 0 lacks the contribution of rank 0, buffer 0");
}

TEST(VerifyStaged, WhatDoesNotWait) {
    const struct {
        uint32_t from, to;
        const char *text;
    } edges[] = {{kFold, kIn, "step 1 (copy, 4 elements): races with step 0 (fold of 2, 4 elements)"},
                 {kIn, kSend, "step 2 (send to 1, 4 elements): races with step 1 (copy, 4 elements)"},
                 {kReduce, kOut, "step 5 (copy, 4 elements): races with step 4 (reduce, 4 elements)"},
                 {kOut, kSpread, "step 6 (copy, 4 elements): races with step 5 (copy, 4 elements)"}};
    for (const auto &edge : edges) {
        Job job = staged();
        std::vector<uint32_t> &list = job[0].next[edge.from];
        ASSERT_NE(std::find(list.begin(), list.end(), edge.to), list.end());
        list.erase(std::find(list.begin(), list.end(), edge.to));
        EXPECT_REJECTED(job, edge.text);
        EXPECT_TRUE(has_race(job));
    }
}

// Readers of a fold's operands are noticed when one of them is overwritten: the last operand as well.
TEST(VerifyStaged, FoldsReadAllTheirOperands) {
    for (uint16_t victim = 0; victim < 5; victim++) {
        Job job = make_job(GCOLL_ALLREDUCE, 1, 2, false, 5);
        job[0].in_memory = job[0].out_memory = std::vector<uint32_t>(5, kSecond);
        uint32_t sum = job[0].fold(gcoll_out(0, 0), gcoll_in(0, 0), {0, 1, 2, 3, 4}, 2);
        for (uint16_t k = 1; k < 5; k++)
            job[0].copy(gcoll_out(k, 0), gcoll_out(0, 0), 2, {sum});
        EXPECT_EQ(verdict(job), "");
        job[0].problem.in_place = true;
        job[0].in_memory.clear();
        job[0].steps[sum].a.space = GCOLL_OUT;
        EXPECT_EQ(verdict(job), "");
        if (victim == 0)
            continue;
        job[0].next[sum].erase(job[0].next[sum].begin() + victim - 1);
        EXPECT_REJECTED(job, "races with step 0 (fold of 5, 2 elements)");
    }
}

// Fields of a fold and of copies at random: nothing may crash (the sanitizers watch), and what is accepted
// must work.
TEST(VerifyStaged, Rubbish) {
    std::mt19937_64 random(12);
    auto any = [&]() -> uint64_t {
        const uint64_t some[] = {0, 1, 2, 3, 4, 5, 65535, UINT32_MAX - 1, UINT32_MAX, UINT64_MAX};
        return some[random() % (sizeof some / sizeof some[0])];
    };
    int accepted = 0;
    for (int i = 0; i < 5000; i++) {
        const Job job = staged();
        Flat flat(job);
        for (uint64_t changes = 1 + random() % 2; changes > 0; changes--) {
            gcoll_plan &plan = flat.plan(random() % 2);
            gcoll_step &step = plan.steps[random() % 2 * (random() % 7)];
            const uint64_t value = any();
            switch (random() % 8) {
            case 0:
                step.kind = static_cast<uint8_t>(value);
                break;
            case 1:
                step.operand_count = static_cast<uint32_t>(value);
                break;
            case 2:
                step.first_operand = static_cast<uint32_t>(value);
                break;
            case 3:
                step.a.space = static_cast<uint16_t>(value);
                break;
            case 4:
                step.a.index = static_cast<uint16_t>(value); // of no meaning in a fold
                break;
            case 5:
                step.dst.space = static_cast<uint16_t>(value);
                break;
            case 6:
                plan.operands[random() % 2] = static_cast<uint16_t>(value);
                break;
            default:
                plan.operand_count = static_cast<uint32_t>(value % 3);
                break;
            }
        }
        if (flat.verify() != GCOLL_OK)
            continue;
        Job found;
        for (uint32_t r = 0; r < 2; r++)
            found.push_back(Plan::of(flat.plan(r)));
        EXPECT_TRUE(execute(found, 3, Buffering::some).right);
        EXPECT_FALSE(strays(found));
        accepted++;
    }
    EXPECT_GT(accepted, 100);
    EXPECT_LT(accepted, 4000);
}

} // namespace
} // namespace verify_test
