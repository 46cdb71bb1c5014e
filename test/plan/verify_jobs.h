// test/plan/verify_jobs.h - right plans written by hand, to start from.
#ifndef GCOLL_TEST_VERIFY_JOBS_H
#define GCOLL_TEST_VERIFY_JOBS_H

#include <gtest/gtest.h>

#include "test/plan/verify_support.h"

namespace verify_test {

#define EXPECT_REJECTED(job, text) EXPECT_PRED_FORMAT2(rejected, job, text)

inline ::testing::AssertionResult rejected(const char *, const char *, const Job &job,
                                           const std::string &text) {
    gcoll_verify_report report{};
    report.sent_total = 4711;
    std::string found = verdict(job, &report);
    if (report.sent_total != 4711)
        return ::testing::AssertionFailure() << "the report was written in spite of an error";
    if (found.find(text) != std::string::npos)
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "found \"" << found << "\", expected \"" << text << "\"";
}

// Two ranks send each other all they have and add it up, in place by way of scratch.
inline Job exchange(uint64_t count = 4) {
    Job job = make_job(GCOLL_ALLREDUCE, 2, count);
    for (uint32_t r = 0; r < 2; r++) {
        Plan &plan = job[r];
        plan.scratch = count;
        uint32_t sent = plan.send(1 - r, gcoll_out(0, 0), count);
        uint32_t got = plan.recv(1 - r, gcoll_scratch(0), count);
        if (r == 0)
            plan.reduce(gcoll_out(0, 0), gcoll_out(0, 0), gcoll_scratch(0), count, {sent, got});
        else
            plan.reduce(gcoll_out(0, 0), gcoll_scratch(0), gcoll_out(0, 0), count, {sent, got});
    }
    return job;
}

// A chain up and down, out of place, in rank order: rank 0 sends to 1, ..., the last sends all back.
inline Job chain(uint32_t size, uint64_t count, bool received_first = true) {
    Job job = make_job(GCOLL_ALLREDUCE, size, count, false);
    for (uint32_t r = 0; r < size; r++) {
        Plan &plan = job[r];
        std::vector<uint32_t> after;
        if (r > 0)
            after = {plan.recv_reduce(r - 1, gcoll_out(0, 0), gcoll_in(0, 0), count, {}, received_first)};
        if (r + 1 < size) {
            after = {plan.send(r + 1, r > 0 ? gcoll_out(0, 0) : gcoll_in(0, 0), count, after)};
            after = {plan.recv(r + 1, gcoll_out(0, 0), count, after)};
        }
        if (r > 0)
            plan.send(r - 1, gcoll_out(0, 0), count, after);
    }
    return job;
}

// Three ranks, each adding up all that it gets, starting with its own or in order of ranks.
inline Job all_to_all(bool own_first) {
    const uint32_t size = 3;
    Job job = make_job(GCOLL_ALLREDUCE, size, 6, false);
    for (uint32_t r = 0; r < size; r++) {
        Plan &plan = job[r];
        plan.scratch = 6 * size;
        std::vector<uint32_t> got;
        for (uint32_t d = 1; d < size; d++) {
            uint32_t peer = (r + d) % size;
            plan.send(peer, gcoll_in(0, 0), 6);
            got.push_back(plan.recv(peer, gcoll_scratch(6 * peer), 6));
        }
        auto operand = [&](uint32_t i) {
            uint32_t from = own_first ? (r + i) % size : i;
            return from == r ? gcoll_in(0, 0) : gcoll_scratch(6 * from);
        };
        uint32_t first = plan.reduce(gcoll_out(0, 0), operand(0), operand(1), 6, got);
        plan.reduce(gcoll_out(0, 0), gcoll_out(0, 0), operand(2), 6, {first});
    }
    return job;
}

} // namespace verify_test

#endif
