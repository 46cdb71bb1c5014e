// test/plan/verify_test.cc - the verifier against plans written by hand: right ones, and one for each thing
// that can be wrong with their structure, messages, dependencies and rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "test/plan/verify_jobs.h"

namespace verify_test {
namespace {

TEST(Verify, AcceptsExchange) {
    gcoll_verify_report report;
    EXPECT_EQ(verdict(exchange(), &report), "");
    EXPECT_EQ(report.steps, 1u);
    EXPECT_EQ(report.sent_max, 4u);
    EXPECT_EQ(report.sent_total, 8u);
    EXPECT_EQ(report.reduced_max, 4u);
    EXPECT_EQ(report.scratch_max, 4u);
    EXPECT_EQ(report.messages_max, 1u);
    EXPECT_TRUE((report.claims & GCOLL_CLAIM_RANK_IDENTICAL));
    EXPECT_TRUE((report.claims & GCOLL_CLAIM_ORDERED));
}

TEST(Verify, AcceptsChain) {
    for (uint32_t size : {1u, 2u, 3u, 7u, 70u}) {
        Job job = chain(size, 5);
        if (size == 1)
            job[0].copy(gcoll_out(0, 0), gcoll_in(0, 0), 5);
        gcoll_verify_report report;
        EXPECT_EQ(verdict(job, &report), "");
        EXPECT_EQ(report.steps, 2 * (size - 1));
        EXPECT_EQ(report.sent_max, size == 1 ? 0 : size == 2 ? 5 : 10u);
        EXPECT_EQ(report.sent_total, 10 * (size - 1));
        EXPECT_TRUE((report.claims & GCOLL_CLAIM_ORDERED));
        EXPECT_TRUE((report.claims & GCOLL_CLAIM_RANK_IDENTICAL));
    }
}

TEST(Verify, InPlaceTheRestOfTheInputIsKept) {
    const auto scatter =
        [](uint32_t spoiled) { // each rank sends the other's block; one writes where it may not
            Job job = make_job(GCOLL_REDUCE_SCATTER, 2, 6);
            for (uint32_t r = 0; r < 2; r++) {
                const gcoll_ref mine = gcoll_out(0, 3 * r), other = gcoll_out(0, 3 * (1 - r));
                const uint32_t sent = job[r].send(1 - r, other, 3);
                const uint32_t got = job[r].recv_reduce(1 - r, mine, mine, 3);
                if (r == spoiled)
                    job[r].copy(gcoll_out(0, r ? 1 : 4), gcoll_out(0, 3 * r), 1, {sent, got});
            }
            return job;
        };
    EXPECT_EQ(verdict(scatter(2)), "");
    EXPECT_REJECTED(scatter(0), "rank 0: in the end IN[0] element 4 has changed; in place only block 0");
    EXPECT_REJECTED(scatter(1), "rank 1: in the end IN[0] element 1 has changed; in place only block 1");
    EXPECT_TRUE(execute(scatter(2), 1, Buffering::all).right);
    EXPECT_FALSE(execute(scatter(0), 1, Buffering::all).right) << "as the oracle finds";

    Job job = make_job(GCOLL_SCATTER, 2, 6); // the root's block is in its place
    job[0].send(1, gcoll_out(0, 3), 3);
    job[1].problem.in_place = false;
    job[1].recv(0, gcoll_out(0, 0), 3);
    EXPECT_EQ(verdict(job), "");
    job[0].copy(gcoll_out(0, 5), gcoll_out(0, 0), 1, {0});
    EXPECT_REJECTED(job, "rank 0: in the end IN[0] element 5 has changed");
}

TEST(Verify, KnowsOrder) {
    gcoll_verify_report report;
    EXPECT_EQ(verdict(chain(3, 5, false), &report), "");
    EXPECT_FALSE((report.claims & GCOLL_CLAIM_ORDERED));
    EXPECT_TRUE((report.claims & GCOLL_CLAIM_RANK_IDENTICAL));

    Job job = exchange();
    std::swap(job[1].steps[2].a, job[1].steps[2].b); // rank 1 adds up 1 + 0
    EXPECT_EQ(verdict(job, &report), "");
    EXPECT_FALSE((report.claims & GCOLL_CLAIM_ORDERED));
    EXPECT_TRUE((report.claims & GCOLL_CLAIM_RANK_IDENTICAL)) << "one addition commutes";
}

TEST(Verify, KnowsWhetherRanksAgree) {
    gcoll_verify_report report;
    EXPECT_EQ(verdict(all_to_all(true), &report), "");
    EXPECT_FALSE((report.claims & GCOLL_CLAIM_RANK_IDENTICAL));
    EXPECT_FALSE((report.claims & GCOLL_CLAIM_ORDERED));
    EXPECT_EQ(report.steps, 1u);
    EXPECT_EQ(verdict(all_to_all(false), &report), "");
    EXPECT_TRUE((report.claims & GCOLL_CLAIM_RANK_IDENTICAL));
    EXPECT_TRUE((report.claims & GCOLL_CLAIM_ORDERED));
}

TEST(Verify, AcceptsDifferentBuffers) {
    Job job = exchange();
    job[1].problem.buffers = 2; // its second input is added last, and gets the result too
    job[1].steps.clear();
    job[1].next.clear();
    Plan &plan = job[1];
    uint32_t local = plan.reduce(gcoll_out(0, 0), gcoll_in(0, 0), gcoll_in(1, 0), 4);
    uint32_t sent = plan.send(0, gcoll_out(0, 0), 4, {local});
    uint32_t got = plan.recv(0, gcoll_scratch(0), 4);
    uint32_t sum = plan.reduce(gcoll_out(0, 0), gcoll_scratch(0), gcoll_out(0, 0), 4, {sent, got});
    Job lacking = job;
    plan.copy(gcoll_out(1, 0), gcoll_out(0, 0), 4, {local, sum});
    gcoll_verify_report report;
    EXPECT_EQ(verdict(job, &report), "");
    EXPECT_TRUE((report.claims & GCOLL_CLAIM_ORDERED));
    EXPECT_REJECTED(lacking,
                    "rank 1: in the end OUT[1] element 0 lacks the contribution of rank 0, buffer 0");
}

// ---- Structure -----------------------------------------------------------------------------------------

TEST(VerifyStructure, Arguments) {
    const gcoll_plan *none[1] = {nullptr};
    EXPECT_EQ(gcoll_verify(nullptr, 1, nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_verify(none, 0, nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_verify(none, 1, nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_verify(none, GCOLL_MAX_RANKS + 1, nullptr), GCOLL_ERR_INVALID);
}

TEST(VerifyStructure, Problems) {
    auto with = [](void (*change)(gcoll_problem &)) {
        Job job = exchange();
        change(job[1].problem);
        return job;
    };
    EXPECT_REJECTED(with([](gcoll_problem &p) { p.size = 3; }), "rank 1: the plan's size is 3");
    EXPECT_REJECTED(with([](gcoll_problem &p) { p.rank = 0; }), "rank 1: the plan's rank is 0");
    EXPECT_REJECTED(with([](gcoll_problem &p) { p.count = 5; }), "rank 1: the plan's count is 5");
    EXPECT_REJECTED(with([](gcoll_problem &p) { p.root = 1; }), "rank 1: the plan's problem: root is 1");
    EXPECT_REJECTED(with([](gcoll_problem &p) { p.average = true; }), "rank 1: the plan's average is 1");
    EXPECT_REJECTED(with([](gcoll_problem &p) { p.buffers = 0; }),
                    "rank 1: the plan's problem: buffers is 0");
    EXPECT_REJECTED(with([](gcoll_problem &p) { p.collective = GCOLL_BROADCAST; }), "rank 0 has another");
    Job job = exchange();
    job[0].problem.root = job[1].problem.root = 2;
    EXPECT_REJECTED(job, "rank 0: the plan's problem: root is 2");
}

TEST(VerifyStructure, Steps) {
    auto with = [](uint32_t step, void (*change)(gcoll_step &)) {
        Job job = exchange();
        change(job[1].steps[step]);
        return job;
    };
    EXPECT_REJECTED(with(
                        2, [](gcoll_step &s) { s.kind = GCOLL_STEP_KIND_COUNT; }),
                    "its kind is unknown");
    EXPECT_REJECTED(with(
                        0, [](gcoll_step &s) { s.round = 1; }),
                    "rank 1, step 1 (recv from 0, 4 elements): its round 0");
    EXPECT_REJECTED(with(
                        0, [](gcoll_step &s) { s.peer = 1; }),
                    "step 0 (send to 1, 4 elements): the peer");
    EXPECT_REJECTED(with(
                        0, [](gcoll_step &s) { s.peer = 2; }),
                    "step 0 (send to 2, 4 elements): the peer");
    EXPECT_REJECTED(with(
                        2, [](gcoll_step &s) { s.count = 0; }),
                    "step 2 (reduce, 0 elements): has no elements");
    EXPECT_REJECTED(with(
                        2, [](gcoll_step &s) { s.count = 5; }),
                    "out of bounds");
    EXPECT_REJECTED(with(
                        0, [](gcoll_step &s) { s.a.offset = 1; }),
                    "out of bounds");
    EXPECT_REJECTED(with(
                        0, [](gcoll_step &s) { s.a.offset = UINT64_MAX - 1; }),
                    "out of bounds");
    EXPECT_REJECTED(with(
                        1, [](gcoll_step &s) { s.dst.offset = UINT64_MAX; }),
                    "out of bounds");
    EXPECT_REJECTED(with(
                        1, [](gcoll_step &s) { s.count = UINT64_MAX; }),
                    "out of bounds");
    EXPECT_REJECTED(with(
                        1, [](gcoll_step &s) { s.dst.index = 1; }),
                    "touches SCRATCH[1], but there are 1");
    EXPECT_REJECTED(with(
                        0, [](gcoll_step &s) { s.a.index = 1; }),
                    "touches OUT[1], but there are 1");
    EXPECT_REJECTED(with(0, [](gcoll_step &s) { s.a.space = 3; }), "space 3");
    EXPECT_REJECTED(with(2,
                         [](gcoll_step &s) {
                             s.count = 3, s.a.offset = 1;
                             s.b.offset = 1;
                         }),
                    "reads elsewhere");
    Job job = chain(2, 5);
    job[1].steps[0].dst = gcoll_in(0, 0);
    EXPECT_REJECTED(job, "rank 1, step 0 (recv and reduce from 0, 5 elements): writes the input IN[0]");
    job = exchange();
    job[0].copy(gcoll_out(0, 0), gcoll_out(0, 0), 4, {2});
    EXPECT_REJECTED(job, "reads elsewhere");
}

TEST(VerifyStructure, Edges) {
    auto with = [](void (*change)(gcoll_plan &)) {
        Flat flat(exchange());
        change(flat.plan(1));
        return flat.verify() == GCOLL_OK ? "" : std::string(gcoll_last_error());
    };
    auto has = [](const std::string &text, const char *part) { return text.find(part) != std::string::npos; };
    EXPECT_EQ(with([](gcoll_plan &) {}), "");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.steps[2].dependencies = 1; }), "waits for 1 steps, but 2");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.successors[1] = 1; }), "successor 1 is no later step");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.successors[1] = 0; }), "successor 0 is no later step");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.successors[0] = 3; }), "successor 3 is no later step");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.steps[2].first_successor = 3; }), "outside");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.steps[1].successors = UINT32_MAX; }), "outside");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.steps[1].successors = 0, p.steps[2].dependencies = 1; }),
                 "fewer");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.steps[2].first_successor = 0, p.steps[2].successors = 1; }),
                 "have 3");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.rounds = 0; }), "number of rounds is 0");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.steps = nullptr; }), "no steps");
    EXPECT_PRED2(has, with([](gcoll_plan &p) { p.successors = nullptr; }), "no successors");
}

// Fields at random: nothing may crash (the sanitizers watch), and what is accepted must work.
TEST(VerifyStructure, Rubbish) {
    std::mt19937_64 random(11);
    auto any = [&]() -> uint64_t {
        const uint64_t some[] = {
            0, 1, 2, 3, 4, 5, 7, 255, 65535, UINT32_MAX - 1, UINT32_MAX, UINT64_MAX - 3, UINT64_MAX};
        return some[random() % (sizeof some / sizeof some[0])];
    };
    int accepted = 0;
    for (int i = 0; i < 20000; i++) {
        Flat flat(i % 2 ? chain(3, 5) : all_to_all(true));
        for (uint64_t changes = 1 + random() % 3; changes > 0; changes--) {
            gcoll_plan &plan = flat.plan(random() % 3);
            gcoll_step &step = plan.steps[random() % 2];
            switch (random() % 16) {
            case 0:
                step.kind = static_cast<uint8_t>(any());
                break;
            case 1:
                step.received_first = !step.received_first;
                break;
            case 2:
                step.peer = static_cast<uint32_t>(any());
                break;
            case 3:
                step.message = static_cast<uint32_t>(any());
                break;
            case 4:
                step.round = static_cast<uint32_t>(any());
                break;
            case 5:
                step.dependencies = static_cast<uint32_t>(any());
                break;
            case 6:
                step.first_successor = static_cast<uint32_t>(any());
                break;
            case 7:
                step.successors = static_cast<uint32_t>(any());
                break;
            case 8:
                step.count = any();
                break;
            case 9:
                step.dst.offset = any();
                break;
            case 10:
                step.a.offset = any();
                break;
            case 11:
                step.a.space = static_cast<uint16_t>(any());
                break;
            case 12:
                step.dst.index = static_cast<uint16_t>(any());
                break;
            case 13:
                plan.scratch = any();
                break;
            case 14:
                plan.window = static_cast<uint32_t>(any());
                break;
            default:
                plan.problem.buffers = static_cast<uint32_t>(any());
                break;
            }
        }
        if (flat.verify() != GCOLL_OK)
            continue;
        Job job;
        for (uint32_t r = 0; r < 3; r++) {
            job.push_back(Plan::of(flat.plan(r)));
            job[r].scratch = std::min<uint64_t>(job[r].scratch, 18); // more than any step touches
        }
        EXPECT_TRUE(execute(job, 3, Buffering::some).right);
        accepted++;
    }
    EXPECT_GT(accepted, 100);
    EXPECT_LT(accepted, 10000);
}

// ---- Messages ------------------------------------------------------------------------------------------

TEST(VerifyMessages, Partners) {
    Job job = exchange();
    job[1].steps[0].count = 3;
    EXPECT_REJECTED(job, "rank 0, step 1 (recv from 1, 4 elements): partner (rank 1, step 0) sends 3");
    job = exchange();
    job[1].drop(0);
    EXPECT_REJECTED(job, "rank 0, step 1 (recv from 1, 4 elements): no partner: it is message 0 there, and "
                         "rank 1 sends only 0");
    job = exchange();
    job[1].drop(1);
    EXPECT_REJECTED(job, "rank 0, step 0 (send to 1, 4 elements): no partner");
    job = exchange();
    job[1].steps[0].message = 1;
    EXPECT_REJECTED(job, "rank 1, step 0 (send to 0, 4 elements): is message 1 there by its number");
    job = exchange();
    job[0].send(1, gcoll_out(0, 0), 1, {2});
    job[1].recv(0, gcoll_out(0, 0), 1, {2});
    EXPECT_EQ(verdict(job), "");
    job[0].steps[3].message = 0;
    EXPECT_REJECTED(job, "rank 0, step 3 (send to 1, 1 element): is message 0 there by its number, but 1");
}

// ---- Races -----------------------------------------------------------------------------------------------

TEST(VerifyRaces, EveryKind) {
    Job job = exchange();
    job[1].next[0].clear();
    EXPECT_REJECTED(job,
                    "rank 1, step 2 (reduce, 4 elements): races with step 0 (send to 0, 4 elements): both "
                    "touch OUT[0] element 0 and this one does not wait for that");
    job = exchange();
    job[1].next[1].clear();
    EXPECT_REJECTED(job, "races with step 1 (recv from 0, 4 elements): both touch SCRATCH element 0");
    job = chain(2, 5);
    job[0].recv(1, gcoll_out(0, 3), 2);
    job[1].send(0, gcoll_out(0, 3), 2, {0});
    EXPECT_REJECTED(job,
                    "rank 0, step 2 (recv from 1, 2 elements): races with step 1 (recv from 1, 5 elements): "
                    "both touch OUT[0] element 3");
}

TEST(VerifyRaces, InputsAreOutputsInPlace) {
    Job job = exchange();
    job[0].steps[0].a = gcoll_in(0, 0);
    EXPECT_EQ(verdict(job), "");
    job[0].next[0].clear();
    EXPECT_REJECTED(job, "rank 0, step 2 (reduce, 4 elements): races with step 0");
}

TEST(VerifyRaces, ReadersMayMeet) {
    Job job = exchange(); // all send again what nobody changes any more
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t i = 0; i < 3; i++)
            job[r].send(1 - r, gcoll_out(0, i), 2, {2});
        for (uint32_t i = 0; i < 3; i++)
            job[r].recv(1 - r, gcoll_scratch(0), 2, {2 + (i ? 3 + i : 0)});
    }
    EXPECT_EQ(verdict(job), "");
    for (uint32_t i = 3; i < 6; i++) { // but then nobody may write without waiting for each of them
        Job bad = job;
        std::vector<uint32_t> others;
        for (uint32_t k = 3; k < 6; k++)
            if (k != i)
                others.push_back(k);
        others.push_back(8);
        bad[0].recv(1, gcoll_out(0, 0), 4, others);
        bad[1].send(0, gcoll_out(0, 0), 4, {2});
        EXPECT_REJECTED(bad,
                        "rank 0, step 9 (recv from 1, 4 elements): races with step " + std::to_string(i));
        bad[0].next[i].push_back(9);
        EXPECT_EQ(verdict(bad), "");
    }
}

// One rank that moves a pebble through scratch n times, each step waiting for the one before.
Job pebble(uint32_t n) {
    Job job = make_job(GCOLL_ALLREDUCE, 1, 1);
    Plan &plan = job[0];
    plan.scratch = n;
    for (uint32_t i = 0; i < n; i++) {
        gcoll_step step{};
        step.kind = GCOLL_STEP_COPY;
        step.count = 1;
        step.dst = gcoll_scratch(i);
        step.a = i ? gcoll_scratch(i - 1) : gcoll_in(0, 0);
        plan.steps.push_back(step);
        plan.next.emplace_back();
        if (i > 0)
            plan.next[i - 1].push_back(i);
    }
    return job;
}

TEST(VerifyRaces, LongPlans) {
    const uint32_t n = 40000; // longer than the race check looks at in one go
    Job job = pebble(n);
    job[0].steps.push_back(job[0].steps[1]); // scratch 1 is written again: all between must be waited for
    job[0].next.emplace_back();
    job[0].next[n - 1].push_back(n);
    auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(verdict(job), "");
    auto taken = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(std::chrono::duration<double>(taken).count(), 5.0);
    for (uint32_t cut : {1023u, 1024u, 20000u, n - 1}) {
        Job bad = job;
        bad[0].next[cut].clear();
        EXPECT_REJECTED(bad, "races with step");
    }
    job[0].next[n - 1].clear(); // not by the chain, but directly: by the reader of scratch 1
    job[0].next[2].push_back(n);
    EXPECT_EQ(verdict(job), "");
    job[0].next[2].pop_back();
    job[0].next[1].push_back(n); // the first writer does not do
    EXPECT_REJECTED(job, "rank 0, step 40000 (copy, 1 element): races with step 2 (copy, 1 element)");
}

// ---- Deadlock -------------------------------------------------------------------------------------------

TEST(VerifyDeadlock, SendsThatWaitForEachOther) {
    Job job = exchange();
    for (Plan &plan : job)
        plan.next[0].push_back(1); // first send, then receive: a transport that buffers would let it pass
    EXPECT_REJECTED(job,
                    "rank 0, step 0 (send to 1, 4 elements): deadlock: it waits for rank 1; there step 1 "
                    "(recv from 0, 4 elements) waits for step 0 (send to 0, 4 elements), which waits for "
                    "rank 0; there step 1");
    job[1].next[0].erase(job[1].next[0].begin() + 1);
    EXPECT_EQ(verdict(job), "");
}

TEST(VerifyDeadlock, Windows) {
    Job job = exchange();
    for (Plan &plan : job) {
        plan.steps[1].round = 1;
        plan.steps[2].round = 2;
        plan.window = 1;
    }
    EXPECT_EQ(verdict(job), "");
    for (Plan &plan : job)
        plan.window = 0;
    EXPECT_REJECTED(
        job, "rank 0, step 0 (send to 1, 4 elements): deadlock: it waits for rank 1; there step 1 (recv "
             "from 0, 4 elements) of round 1 waits, as the window is 0, for step 0 (send to 0, 4 "
             "elements) of round 0");
    job[1].window = GCOLL_WINDOW_UNBOUNDED;
    EXPECT_EQ(verdict(job), "");
    for (Plan &plan : job) { // rounds count by their numbers, gaps included, up to the greatest
        plan.window = UINT32_MAX - 1;
        plan.steps[1].round = UINT32_MAX - 2;
        plan.steps[2].round = UINT32_MAX - 1;
    }
    EXPECT_EQ(verdict(job), "");
    for (Plan &plan : job)
        plan.window = UINT32_MAX - 3;
    EXPECT_REJECTED(job, "deadlock");
}

TEST(VerifyDeadlock, WindowsOrderMessages) {
    Job job = exchange();
    gcoll_verify_report report;
    for (uint32_t r = 0; r < 2; r++) { // a second exchange, which only its round holds back
        job[r].send(1 - r, gcoll_out(0, 0), 0);
        job[r].recv(1 - r, gcoll_out(0, 0), 0);
        job[r].steps[3].round = job[r].steps[4].round = 1;
    }
    EXPECT_EQ(verdict(job, &report), "");
    EXPECT_EQ(report.steps, 1u);
    for (Plan &plan : job)
        plan.window = 0;
    EXPECT_EQ(verdict(job, &report), "");
    EXPECT_EQ(report.steps, 2u);
}

} // namespace
} // namespace verify_test
