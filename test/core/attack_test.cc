// test/core/attack_test.cc - tests that kill or stop ranks at random moments of random collectives. No result
// may be wrong, and all other ranks must learn in time which rank was attacked. Ranks are processes.
//
// Environment: GCOLL_TEST_ATTACKS is the number of attacks of each kind (5). GCOLL_TEST_SEED repeats the
// attacks of an earlier run.
#include "test/kit/harness.h"
#include "test/kit/setting.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

namespace {

using gcoll_test::await;
using gcoll_test::Folder;
using gcoll_test::Job;
using gcoll_test::now_ms;
using gcoll_test::Outcome;
using gcoll_test::Processes;
using gcoll_test::setting;
using gcoll_test::Shared;

constexpr uint32_t kMostRanks = 8;
constexpr int64_t kDestroyMs = 3000; // "at most about a second", on a busy machine

struct Attack {
    uint32_t seed, size, victim, delay_us;
    int signal;
    int64_t timeout_ms;
};

// The error that a rank got.
struct Report {
    std::atomic<int> done;
    int status;
    int64_t culprit, told_ms, destroy_ms;
    uint64_t calls, wrong;
    char text[512];
};

struct Board {
    std::atomic<uint32_t> joined;
    Report reports[kMostRanks];
};

// ---- Calls whose results are known
// --------------------------------------------------------------------------

uint32_t mix(uint32_t a, uint32_t b) {
    uint32_t x = a * 0x9e3779b9u ^ b * 0x85ebca6bu;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    return x ^ x >> 13;
}

// Element j of a rank's input. Sums are exact, because they wrap.
uint32_t value(uint32_t rank, uint32_t call, uint64_t j) {
    return mix(rank, call) + static_cast<uint32_t>(j) * (2 * rank + 1);
}

uint32_t sum(uint32_t size, uint32_t call, uint64_t j) {
    uint32_t total = 0;
    for (uint32_t rank = 0; rank < size; rank++)
        total += value(rank, call, j);
    return total;
}

struct Call {
    uint32_t number, kind, form, root;
    uint64_t count;
};

Call make_call(uint32_t number, uint32_t size, std::mt19937 &random) {
    static const uint64_t counts[] = {0, 1, 13, 1000, 20000, 250000};
    Call call = {number, 0, 0, 0, 0};
    call.kind = random() % 6;
    call.form = random() % 3;
    call.root = random() % size;
    call.count = counts[random() % 6] / (call.kind == 0 || call.kind == 3 ? 1 : size);
    return call;
}

// Makes a call in the form that `call` names: blocking, started or persistent.
template <class Blocking, class Start, class Create>
gcoll_status in_form(uint32_t form, Blocking blocking, Start start, Create create) {
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_status status;
    switch (form) {
    case 0:
        return blocking();
    case 1:
        status = start(&request);
        return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
    default:
        status = create(&operation);
        if (status == GCOLL_OK)
            status = gcoll_operation_run(operation);
        gcoll_operation_destroy(operation);
        return status;
    }
}

// The options of any collective, with a time limit for the call and the others as they are.
class Within {
  public:
    explicit Within(int64_t timeout_ms) {
        gcoll_collective_options_init(&collective_);
        gcoll_allreduce_options_init(&allreduce_);
        gcoll_broadcast_options_init(&broadcast_);
        gcoll_barrier_options_init(&barrier_);
        collective_.timeout_ms = allreduce_.timeout_ms = timeout_ms;
        broadcast_.timeout_ms = barrier_.timeout_ms = timeout_ms;
    }
    operator const gcoll_collective_options *() const { return &collective_; }
    operator const gcoll_allreduce_options *() const { return &allreduce_; }
    operator const gcoll_broadcast_options *() const { return &broadcast_; }
    operator const gcoll_barrier_options *() const { return &barrier_; }

  private:
    gcoll_collective_options collective_;
    gcoll_allreduce_options allreduce_;
    gcoll_broadcast_options broadcast_;
    gcoll_barrier_options barrier_;
};

#define IN_FORM(name, ...)                                                                                   \
    in_form(                                                                                                 \
        call.form, [&] { return gcoll_##name(__VA_ARGS__, within); },                                        \
        [&](gcoll_request **request) { return gcoll_##name##_start(__VA_ARGS__, within, request); },         \
        [&](gcoll_operation **operation) { return gcoll_##name##_create(__VA_ARGS__, within, operation); })

// Makes the call. After a success, *wrong is the number of wrong elements.
gcoll_status make(gcoll_context *context, const Call &call, const Within &within, uint64_t *wrong) {
    const uint32_t rank = gcoll_context_rank(context), size = gcoll_context_size(context), n = call.number;
    const uint64_t count = call.count;
    std::vector<uint32_t> in(size * count), out(size * count, 0xdeadbeef);
    for (uint64_t j = 0; j < in.size(); j++)
        in[j] = value(rank, n, j);
    auto check = [&](gcoll_status status, uint64_t elements, auto expected) {
        for (uint64_t j = 0; status == GCOLL_OK && j < elements; j++)
            *wrong += out[j] != expected(j);
        return status;
    };
    switch (call.kind) {
    case 0:
        return check(IN_FORM(allreduce, context, in.data(), out.data(), count, GCOLL_UINT32, GCOLL_SUM),
                     count, [&](uint64_t j) { return sum(size, n, j); });
    case 1:
        return check(IN_FORM(reduce_scatter, context, in.data(), out.data(), count, GCOLL_UINT32, GCOLL_SUM),
                     count, [&](uint64_t j) { return sum(size, n, rank * count + j); });
    case 2:
        return check(IN_FORM(allgather, context, in.data(), out.data(), count, GCOLL_UINT32), size * count,
                     [&](uint64_t j) { return value(static_cast<uint32_t>(j / count), n, j % count); });
    case 3:
        if (rank == call.root)
            out = in;
        return check(IN_FORM(broadcast, context, out.data(), count, GCOLL_UINT32, call.root), count,
                     [&](uint64_t j) { return value(call.root, n, j); });
    case 4:
        return check(
            IN_FORM(alltoall, context, in.data(), out.data(), count, GCOLL_UINT32), size * count,
            [&](uint64_t j) { return value(static_cast<uint32_t>(j / count), n, rank * count + j % count); });
    default:
        return IN_FORM(barrier, context);
    }
}

// Makes calls until one fails.
int work(Board &board, const Folder &folder, const Attack &attack, uint32_t rank) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
    Job job;
    job.size = attack.size;
    job.name = "attacked";
    job.transport = "tcp";
    job.timeout_ms = 20000; // for joining: a busy machine is slow
    gcoll_context *context = gcoll_test::join(store, job, rank);
    if (!context)
        return gcoll_test::kFailed;
    Report &report = board.reports[rank];
    board.joined++;
    const Within within(attack.timeout_ms);
    std::mt19937 random(attack.seed);
    gcoll_status status = GCOLL_OK;
    while (status == GCOLL_OK) {
        Call call = make_call(static_cast<uint32_t>(report.calls++), attack.size, random);
        status = make(context, call, within, &report.wrong);
    }
    report.told_ms = now_ms();
    report.status = status;
    snprintf(report.text, sizeof report.text, "%s", gcoll_last_error());
    report.culprit = gcoll_context_culprit(context);
    gcoll_context_destroy(context);
    report.destroy_ms = now_ms() - report.told_ms;
    gcoll_store_destroy(store);
    report.done = 1;
    return 0;
}

// ---- Attacks
// ------------------------------------------------------------------------------------------------

// Runs a job with one attack. Returns the time until the last of the other ranks had its error.
int64_t run(const Attack &attack, int64_t limit_ms) {
    Folder folder;
    Shared<Board> board;
    Processes ranks(attack.size, [&](uint32_t rank) { return work(*board, folder, attack, rank); });
    EXPECT_TRUE(await(board->joined, attack.size, 20000));
    std::this_thread::sleep_for(std::chrono::microseconds(attack.delay_us));
    const int64_t begun = now_ms();
    int64_t last = begun;
    ranks.signal(attack.victim, attack.signal);
    for (uint32_t rank = 0; rank < attack.size; rank++) {
        if (rank == attack.victim)
            continue;
        const Outcome outcome = ranks.wait(rank, limit_ms);
        const Report &report = board->reports[rank];
        EXPECT_TRUE(outcome.ended) << "rank " << rank << " hangs after " << report.calls << " calls";
        EXPECT_EQ(report.done.load(), 1)
            << "rank " << rank << " ended with " << outcome.code << ", signal " << outcome.signal;
        EXPECT_EQ(report.wrong, 0u) << "rank " << rank;
        EXPECT_TRUE(report.status == GCOLL_ERR_PEER ||
                    (report.status == GCOLL_ERR_TIMEOUT && attack.signal == SIGSTOP))
            << "rank " << rank << ": " << report.status << ": " << report.text;
        EXPECT_EQ(report.culprit, attack.victim) << "rank " << rank << ": " << report.text;
        EXPECT_NE(std::string(report.text).find("rank " + std::to_string(attack.victim)), std::string::npos)
            << "rank " << rank << ": " << report.text;
        EXPECT_LT(report.destroy_ms, kDestroyMs) << "rank " << rank;
        last = std::max(last, report.told_ms);
    }
    ranks.signal(attack.victim, SIGKILL);
    EXPECT_TRUE(ranks.wait(attack.victim, 5000).ended);
    EXPECT_EQ(board->reports[attack.victim].wrong, 0u) << "the rank that was attacked";
    return last - begun;
}

void attack_often(int signal, int64_t timeout_ms, int64_t limit_ms) {
    const uint32_t attacks = setting("GCOLL_TEST_ATTACKS", 5);
    const uint32_t seed = setting("GCOLL_TEST_SEED", std::random_device()());
    std::mt19937 random(seed);
    std::vector<int64_t> times;
    for (uint32_t i = 0; i < attacks && !testing::Test::HasFailure(); i++) {
        Attack attack = {};
        attack.seed = random();
        attack.size = 4 + random() % 5;
        attack.victim = random() % attack.size;
        attack.delay_us = random() % 60000;
        attack.signal = signal;
        attack.timeout_ms = timeout_ms;
        SCOPED_TRACE("attack " + std::to_string(i) + " of GCOLL_TEST_SEED=" + std::to_string(seed) +
                     ": rank " + std::to_string(attack.victim) + " of " + std::to_string(attack.size) +
                     " after " + std::to_string(attack.delay_us) + " us");
        times.push_back(run(attack, limit_ms));
    }
    std::sort(times.begin(), times.end());
    if (!times.empty())
        printf("%zu attacks, ms until the last of the others was told: median %lld, most %lld\n",
               times.size(), static_cast<long long>(times[times.size() / 2]),
               static_cast<long long>(times.back()));
}

TEST(Attack, AKilledRankIsNamedByAllOthers) {
    attack_often(SIGKILL, 20000, 15000);
}

TEST(Attack, AStoppedRankIsNamedByAllOthers) {
    // A stopped peer that a rank has not met before does not take its connection: GCOLL_ERR_PEER.
    attack_often(SIGSTOP, 1500, 15000);
}

} // namespace
