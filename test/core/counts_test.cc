// test/core/counts_test.cc - limits of what the hot path costs, in counts that do not depend on timing:
// allocations, bytes copied, and bytes and calls of sockets.
//
// One thread drives all ranks, one after the other, so each receive is posted before its message is read. In
// the blocking form, each rank has a thread, and messages wait for their receives. So the counts are the same
// in every run.
#include "test/kit/harness.h"

#include <pthread.h>

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "test/core/counts_calls.h"

namespace {

using gcoll_test::Group;
using gcoll_test::Job;
using gcoll_test::Watchdog;

constexpr int kWarm = 20, kRuns = 50;
constexpr uint64_t kNear = 64; // bytes that need no memory of their own when they come before their receive
// Allocations by two ranks when they run in threads. When one rank is ahead of the other for the first time,
// at any run, each allocates once: a block of early fingerprints, and the first chunk and buckets of slots
// for messages without a receive (transport/match.c). These are kept, so there are far fewer than runs.
constexpr int kTables = 8;
constexpr uint64_t kHeaderBytes = 64; // of the first message of a run: a header and a fingerprint
constexpr gcoll_type kType = GCOLL_FLOAT32;
constexpr int kTurns = 10000000;

// ---- Collectives, in the three forms.

struct Buffers {
    std::vector<float> in, out;
};

struct Collective {
    const char *name;
    gcoll_status (*block)(gcoll_context *, Buffers *, uint64_t count);
    gcoll_status (*start)(gcoll_context *, Buffers *, uint64_t count, gcoll_request **);
    gcoll_status (*create)(gcoll_context *, Buffers *, uint64_t count, gcoll_operation **);
    // Payload that all ranks together receive at least, by count and number of ranks.
    uint64_t (*payload)(uint64_t count, uint64_t size);
    bool copies_own; // its own block from input to output
};

// A collective's arguments, written with c (context), in, out and n (count), without the options.
#define COLLECTIVE(NAME, COPIES_OWN, PAYLOAD, ...)                                                           \
    {                                                                                                        \
#NAME,                                                                                                  \
     [](gcoll_context *c, Buffers *b, uint64_t n) {                                                          \
         float *in = b->in.data(), *out = b->out.data();                                                     \
         (void)in, (void)out, (void)n;                                                                       \
         return gcoll_##NAME(__VA_ARGS__, nullptr);                                                             \
     },                                                                                                      \
     [](gcoll_context *c, Buffers *b, uint64_t n, gcoll_request **made) {                                    \
         float *in = b->in.data(), *out = b->out.data();                                                     \
         (void)in, (void)out, (void)n;                                                                       \
         return gcoll_##NAME##_start(__VA_ARGS__, nullptr, made);                                               \
     },                                                                                                      \
     [](gcoll_context *c, Buffers *b, uint64_t n, gcoll_operation **made) {                                  \
         float *in = b->in.data(), *out = b->out.data();                                                     \
         (void)in, (void)out, (void)n;                                                                       \
         return gcoll_##NAME##_create(__VA_ARGS__, nullptr, made);                                              \
     },                                                                                                      \
     [](uint64_t n, uint64_t size) -> uint64_t { return (void)n, (void)size, (PAYLOAD) * sizeof(float); }, \
         COPIES_OWN    \
    }

// In place, in three buffers side by side, of which no message of the whole vector keeps clear.
struct Thirds {
    Thirds(float *data, uint64_t n)
        : at{data, data + n / 3, data + 2 * (n / 3)}, counts{n / 3, n / 3, n - 2 * (n / 3)} {}
    void *at[3];
    uint64_t counts[3];
};

const Collective kCollectives[] = {
    COLLECTIVE(allreduce, false, 2 * (size - 1) * n, c, in, out, n, kType, GCOLL_SUM),
    COLLECTIVE(reduce_scatter, false, (size - 1) * n * size, c, in, out, n, kType, GCOLL_SUM),
    COLLECTIVE(broadcast, false, (size - 1) * n, c, out, n, kType, 0),
    COLLECTIVE(allgather, true, size *(size - 1) * n, c, in, out, n, kType),
    COLLECTIVE(alltoall, true, size *(size - 1) * n, c, in, out, n, kType),
    COLLECTIVE(barrier, false, uint64_t{0}, c),
    COLLECTIVE(allreduce_list, false, 2 * (size - 1) * n, c, nullptr, Thirds(out, n).at,
               Thirds(out, n).counts, 3, kType, GCOLL_SUM),
};

enum class Form { kBlocking, kStarted, kPersistent };

struct Case {
    const Collective *what;
    Form form;
    uint64_t count;
    Job job;
};

std::vector<Buffers> buffers_of(const Case &c) {
    std::vector<Buffers> all(c.job.size);
    for (Buffers &b : all) {
        b.in.assign(c.count * c.job.size, 1);
        b.out.assign(c.count * c.job.size, 0);
    }
    return all;
}

// ---- Runs.

// Runs all ranks in this thread. Returns false on the first failure. Allocates nothing itself.
bool run_started(const Case &c, Group &group, std::vector<Buffers> &buffers,
                 std::vector<gcoll_request *> &requests, int runs) {
    const uint32_t size = c.job.size;
    for (int run = 0; run < runs; run++) {
        for (uint32_t rank = 0; rank < size; rank++)
            if (c.what->start(group[rank], &buffers[rank], c.count, &requests[rank]) != GCOLL_OK)
                return false;
        uint32_t left = size;
        for (int turn = 0; left > 0 && turn < kTurns; turn++) {
            const uint32_t rank = static_cast<uint32_t>(turn) % size;
            int done = 0;
            if (requests[rank] && gcoll_request_test(&requests[rank], &done) != GCOLL_OK)
                return false;
            left -= done ? 1 : 0;
        }
        if (left > 0)
            return false;
    }
    return true;
}

bool run_persistent(const Case &c, std::vector<gcoll_operation *> &operations, std::vector<int> &ended,
                    int runs) {
    const uint32_t size = c.job.size;
    for (int run = 0; run < runs; run++) {
        for (uint32_t rank = 0; rank < size; rank++) {
            ended[rank] = 0;
            if (gcoll_operation_start(operations[rank]) != GCOLL_OK)
                return false;
        }
        uint32_t left = size;
        for (int turn = 0; left > 0 && turn < kTurns; turn++) {
            const uint32_t rank = static_cast<uint32_t>(turn) % size;
            if (ended[rank])
                continue;
            if (gcoll_operation_test(operations[rank], &ended[rank]) != GCOLL_OK)
                return false;
            left -= ended[rank] ? 1 : 0;
        }
        if (left > 0)
            return false;
    }
    return true;
}

counts count_started(const Case &c) {
    counts result{};
    Group group(c.job);
    std::vector<Buffers> buffers = buffers_of(c);
    std::vector<gcoll_request *> requests(c.job.size);
    EXPECT_TRUE(run_started(c, group, buffers, requests, kWarm)) << gcoll_last_error();
    counts_take_part(1);
    counts_begin();
    bool right = run_started(c, group, buffers, requests, kRuns);
    counts_end(&result);
    EXPECT_TRUE(right) << gcoll_last_error();
    return result;
}

counts count_persistent(const Case &c) {
    counts result{};
    Group group(c.job);
    std::vector<Buffers> buffers = buffers_of(c);
    std::vector<gcoll_operation *> operations(c.job.size);
    std::vector<int> ended(c.job.size);
    for (uint32_t rank = 0; rank < c.job.size; rank++)
        EXPECT_GCOLL_OK(c.what->create(group[rank], &buffers[rank], c.count, &operations[rank]));
    EXPECT_TRUE(run_persistent(c, operations, ended, kWarm)) << gcoll_last_error();
    counts_take_part(1);
    counts_begin();
    bool right = run_persistent(c, operations, ended, kRuns);
    counts_end(&result);
    EXPECT_TRUE(right) << gcoll_last_error();
    for (gcoll_operation *operation : operations)
        gcoll_operation_destroy(operation);
    return result;
}

counts count_blocking(const Case &c) {
    counts result{};
    std::vector<Buffers> buffers = buffers_of(c);
    pthread_barrier_t together;
    pthread_barrier_init(&together, nullptr, c.job.size);
    gcoll_test::run_threads(c.job, [&](uint32_t rank, gcoll_context *context) {
        gcoll_status status = GCOLL_OK;
        for (int run = 0; run < kWarm && status == GCOLL_OK; run++)
            status = c.what->block(context, &buffers[rank], c.count);
        counts_take_part(1); // and not the thread that watches
        pthread_barrier_wait(&together);
        if (rank == 0)
            counts_begin();
        pthread_barrier_wait(&together);
        for (int run = 0; run < kRuns && status == GCOLL_OK; run++)
            status = c.what->block(context, &buffers[rank], c.count);
        pthread_barrier_wait(&together);
        if (rank == 0)
            counts_end(&result);
        pthread_barrier_wait(&together);
        EXPECT_GCOLL_OK(status);
    });
    pthread_barrier_destroy(&together);
    return result;
}

counts count(const Case &c) {
    Watchdog watchdog(60);
    if (c.form == Form::kBlocking)
        return count_blocking(c);
    return c.form == Form::kStarted ? count_started(c) : count_persistent(c);
}

Case case_of(const Collective *what, Form form, const char *transport, uint64_t bytes, uint32_t size = 2) {
    Case c{what, form, bytes / sizeof(float), {}};
    c.job.size = size;
    c.job.transport = transport;
    if (form == Form::kBlocking &&
        bytes > kNear) // no larger message comes before its receive, however the threads run
        c.job.adjust = [](uint32_t, gcoll_context_options *options) { options->eager_bytes = 1; };
    return c;
}

void print(const counts &got) {
    printf("%" PRIu64 " bytes sent in %" PRIu64 " calls, %" PRIu64 " received in %" PRIu64 ", %" PRIu64
           " calls in vain, %" PRIu64 " bytes copied\n",
           got.sent_bytes, got.sends, got.received_bytes, got.receives, got.refused, got.copied_bytes);
}

// ---- Every collective, form and transport.

using Parameter = std::tuple<int, int, const char *, int>;

class Counts : public testing::TestWithParam<Parameter> {
  protected:
    void SetUp() override {
        if (!counts_available)
            GTEST_SKIP() << "malloc and memcpy are the sanitizer's in this build";
    }
    const Collective *what() { return &kCollectives[std::get<0>(GetParam())]; }
    Form form() { return static_cast<Form>(std::get<1>(GetParam())); }
    const char *transport() { return std::get<2>(GetParam()); }
    uint64_t bytes() { return static_cast<uint64_t>(std::get<3>(GetParam())); }
};

std::string name_of(const testing::TestParamInfo<Parameter> &p) {
    const char *const forms[] = {"blocking", "started", "persistent"};
    std::string transport = std::get<2>(p.param);
    std::replace_if(
        transport.begin(), transport.end(), [](char c) { return !isalnum(c); }, '_');
    return std::string(kCollectives[std::get<0>(p.param)].name) + "_" + forms[std::get<1>(p.param)] + "_" +
           transport + "_" + std::to_string(std::get<3>(p.param));
}

// One thread drives the ranks over sockets, with granted messages and with small ones.
class Copies : public Counts {};
class Calls : public Counts {};

INSTANTIATE_TEST_SUITE_P(All, Copies,
                         testing::Combine(testing::Range(0, 5), testing::Range(1, 3), testing::Values("tcp"),
                                          testing::Values(1 << 20)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, Calls,
                         testing::Combine(testing::Range(0, 7), testing::Range(1, 3), testing::Values("tcp"),
                                          testing::Values(4, 4096)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, Counts,
                         testing::Combine(testing::Range(0, 7), testing::Range(0, 3),
                                          testing::Values("tcp", "inproc"),
                                          testing::Values(4, 4096, 1 << 20)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Striped, Counts,
                         testing::Combine(testing::Range(0, 5), testing::Range(0, 3),
                                          testing::Values("tcp:connections=2"), testing::Values(1 << 20)),
                         name_of);

// The engine and the transports allocate only for something new: a shape, a connection, or a message without
// a receive.
TEST_P(Counts, NothingIsAllocated) {
    counts got = count(case_of(what(), form(), transport(), bytes()));
    const uint64_t allowed = form() == Form::kBlocking ? kTables : 0;
    EXPECT_LE(got.allocations, allowed);
    EXPECT_LE(got.releases, allowed);
}

// Payload goes from the sender's memory to the socket, and from the socket to its place, or is reduced while
// it is in cache. Only the start of a message that came behind another message's end is copied.
TEST_P(Copies, NoByteIsCopiedInUserSpace) {
    const Case c = case_of(what(), form(), transport(), bytes());
    counts got = count(c);
    const uint64_t payload = kRuns * c.what->payload(c.count, c.job.size);
    print(got);
    const uint64_t own = c.what->copies_own ? kRuns * c.job.size * c.count * sizeof(float) : 0;
    EXPECT_LE(got.copied_bytes, own + payload / 100);
    EXPECT_EQ(got.sent_bytes, got.received_bytes);
    EXPECT_GE(got.sent_bytes, payload);
    EXPECT_LE(got.sent_bytes, payload + payload / 1000);
}

// A small message takes one system call on each side.
TEST_P(Calls, SmallMessagesAreOneCallEach) {
    const Case c = case_of(what(), form(), transport(), bytes());
    counts got = count(c);
    print(got);
    const uint64_t messages = kRuns * (std::string(what()->name) == "broadcast" ? 1 : 2);
    EXPECT_EQ(got.sends, messages);
    EXPECT_EQ(got.receives, messages);
    EXPECT_LE(got.refused, messages / 10) << "no call only to learn that there is nothing more";
    EXPECT_EQ(got.sent_bytes, got.received_bytes);
    EXPECT_LE(got.sent_bytes, kRuns * c.what->payload(c.count, c.job.size) + messages * kHeaderBytes);
}

} // namespace
