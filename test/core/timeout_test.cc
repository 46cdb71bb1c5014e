// test/core/timeout_test.cc - tests of time limits: of requests that are tested, of single operations, and of
// waits that only look; and of receives that are cancelled.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"

#include <functional>

#include "gcoll/memory.h"

namespace {

using namespace collective_support;
using namespace gcoll_test;

constexpr int64_t kShortMs = 300;
constexpr int64_t kMiddleMs = 1000; // of contexts that first have to connect
constexpr int64_t kLongMs = 20000;  // of contexts; what took this long was not cut off by a short timeout
constexpr int64_t kSoonMs = 10000;

class Timeouts : public testing::TestWithParam<const char *> {
  protected:
    static Job job(uint32_t size, int64_t timeout_ms) { return job_on(GetParam(), size, timeout_ms); }
};

template <class Options> Options with_timeout(void (*init)(Options *), int64_t timeout_ms) {
    Options options;
    init(&options);
    options.timeout_ms = timeout_ms;
    return options;
}

// ---- How an operation is waited for --------------------------------------------------------------------

enum Way { kBlocking, kWaited, kAny, kTested, kLookedFor, kRun, kRunTested, kWays };

using Start = std::function<gcoll_status(gcoll_request **)>;

gcoll_status end_request(gcoll_request *request, Way way) {
    gcoll_status status = GCOLL_OK;
    uint32_t index = 0;
    int done = 0;
    switch (way) {
    case kAny:
        status = gcoll_wait_any(&request, 1, &index);
        EXPECT_EQ(gcoll_request_wait(&request), status);
        return status;
    case kTested:
        while (status == GCOLL_OK && !done)
            status = gcoll_request_test(&request, &done);
        EXPECT_EQ(request, nullptr);
        return status;
    case kLookedFor:
        do
            status = gcoll_request_wait_for(&request, 20);
        while (status == GCOLL_ERR_TIMEOUT && request);
        EXPECT_EQ(request, nullptr);
        return status;
    default:
        return gcoll_request_wait(&request);
    }
}

gcoll_status reduce(gcoll_context *context, Way way, int64_t timeout_ms, int64_t *value) {
    const auto options = with_timeout(gcoll_allreduce_options_init, timeout_ms);
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_status status;
    int done = 0;
    if (way == kBlocking)
        return gcoll_allreduce(context, nullptr, value, 1, GCOLL_INT64, GCOLL_SUM, &options);
    if (way < kRun) {
        status =
            gcoll_allreduce_start(context, nullptr, value, 1, GCOLL_INT64, GCOLL_SUM, &options, &request);
        return status == GCOLL_OK ? end_request(request, way) : status;
    }
    status = gcoll_allreduce_create(context, nullptr, value, 1, GCOLL_INT64, GCOLL_SUM, &options, &operation);
    if (status != GCOLL_OK)
        return status;
    if (way == kRun) {
        status = gcoll_operation_run(operation);
    } else {
        status = gcoll_operation_start(operation);
        while (status == GCOLL_OK && !done)
            status = gcoll_operation_test(operation, &done);
    }
    gcoll_operation_destroy(operation);
    return status;
}

// Expects that a call times out and blames rank 1, which stays away.
void expect_timeout(const Job &job, const std::function<gcoll_status(gcoll_context *)> &call) {
    std::atomic<uint32_t> over{0};
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // connecting has the context's timeout
        if (rank == 0) {
            const int64_t begun = now_ms();
            gcoll_status status = call(context);
            const int64_t took = now_ms() - begun;
            EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
            EXPECT_GE(took, kShortMs);
            EXPECT_LT(took, kSoonMs);
            EXPECT_EQ(gcoll_context_culprit(context), 1);
            EXPECT_EQ(gcoll_context_health(context), GCOLL_ERR_TIMEOUT) << "it breaks the context";
            over = 1;
        } else {
            EXPECT_TRUE(await(over, 1, 30000));
        }
    });
}

TEST_P(Timeouts, OfAnOperationHoldHoweverItIsWaitedFor) {
    for (int way = kBlocking; way < kWays; way++) {
        SCOPED_TRACE("way " + std::to_string(way));
        expect_timeout(job(2, kLongMs), [way](gcoll_context *context) {
            int64_t value = 1;
            return reduce(context, static_cast<Way>(way), kShortMs, &value);
        });
    }
}

// The request with more time is tested first each time.
TEST_P(Timeouts, AShortOneHoldsBesideOneWithoutAnEnd) {
    expect_timeout(
        job(2, kLongMs),
        [](gcoll_context *context) {
            gcoll_pair *pair = pair_to(context, 1);
            gcoll_request *endless = nullptr, *brief = nullptr;
            int64_t values[2] = {};
            int done = 0;
            gcoll_status status = GCOLL_OK;
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair, -1));
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 1, &values[0], sizeof values[0], &endless));
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair, kShortMs));
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 2, &values[1], sizeof values[1], &brief));
            while (status == GCOLL_OK && !done) {
                EXPECT_GCOLL_OK(gcoll_request_test(&endless, &done));
                status = gcoll_request_test(&brief, &done);
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
            EXPECT_EQ(gcoll_request_test(&endless, &done), status);
            return status;
        });
}

// A rank that computes between two tests does not count as waiting meanwhile, whatever its other requests
// allow.
TEST_P(Timeouts, AnAbsenceIsNoWait) {
    std::atomic<uint32_t> back{0};
    run_threads(job(2, kLongMs), [&](uint32_t rank, gcoll_context *context) {
        gcoll_pair *pair = pair_to(context, 1 - rank);
        int64_t values[2] = {};
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == 1) {
            EXPECT_TRUE(await(back, 1, 30000));
            EXPECT_GCOLL_OK(gcoll_pair_send(pair, 1, &values[0], sizeof values[0]));
            EXPECT_GCOLL_OK(gcoll_pair_send(pair, 2, &values[1], sizeof values[1]));
            return;
        }
        gcoll_request *requests[2] = {};
        int done[2] = {};
        for (uint32_t i = 0; i < 2; i++) {
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair, i == 0 ? -1 : kMiddleMs));
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, i + 1, &values[i], sizeof values[i], &requests[i]));
        }
        for (int round = 0; round < 2; round++) {
            for (uint32_t i = 0; i < 2; i++)
                EXPECT_GCOLL_OK(gcoll_request_test(&requests[i], &done[i]));
            std::this_thread::sleep_for(std::chrono::milliseconds(round == 0 ? 3 * kMiddleMs : 10));
        }
        for (uint32_t i = 0; i < 2; i++)
            EXPECT_GCOLL_OK(gcoll_request_test(&requests[i], &done[i]));
        back = 1;
        for (uint32_t i = 0; i < 2; i++)
            EXPECT_GCOLL_OK(gcoll_request_wait(&requests[i]));
    });
}

// A call takes longer than the timeout while its data move. It must not blame a rank for which only other
// requests wait.
TEST_P(Timeouts, WhoMayTakeForEverIsNotBlamedByOthers) {
    constexpr int kMessages = 24;
    std::atomic<uint32_t> over{0};
    run_threads(job(3, kMiddleMs), [&](uint32_t rank, gcoll_context *context) {
        int64_t value = 0;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair_to(context, rank == 0 ? 2 : 0), -1));
        if (rank == 1) {
            for (int i = 0; i < kMessages; i++) {
                EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(context, 0), 5, &value, sizeof value));
                std::this_thread::sleep_for(std::chrono::milliseconds(2 * kMiddleMs / kMessages));
            }
            EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(context, 0), 9, &value, sizeof value));
        } else if (rank == 2) {
            EXPECT_TRUE(await(over, 1, 30000));
            EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(context, 0), 1, &value, sizeof value));
        } else {
            gcoll_request *forever = nullptr, *messages[kMessages] = {};
            int64_t other = 0;
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair_to(context, 2), 1, &value, sizeof value, &forever));
            for (gcoll_request *&message : messages)
                EXPECT_GCOLL_OK(
                    gcoll_pair_recv_start(pair_to(context, 1), 5, &other, sizeof other, &message));
            EXPECT_GCOLL_OK(gcoll_pair_recv(pair_to(context, 1), 9, &other, sizeof other));
            over = 1;
            for (gcoll_request *&message : messages)
                EXPECT_GCOLL_OK(gcoll_request_wait(&message));
            EXPECT_GCOLL_OK(gcoll_request_wait(&forever));
        }
    });
}

TEST_P(Timeouts, OfTheContextHoldsForWhatIsTested) {
    for (Way way : {kTested, kLookedFor, kRunTested}) {
        SCOPED_TRACE("way " + std::to_string(way));
        expect_timeout(job(2, kMiddleMs), [way](gcoll_context *context) {
            int64_t value = 1;
            return reduce(context, way, 0, &value);
        });
    }
    expect_timeout(job(2, kMiddleMs), [](gcoll_context *context) {
        gcoll_request *request = nullptr;
        int64_t value = 0;
        EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair_to(context, 1), 3, &value, sizeof value, &request));
        return end_request(request, kTested);
    });
}

TEST_P(Timeouts, EveryCollectiveHasOne) {
    const auto general = with_timeout(gcoll_collective_options_init, kShortMs);
    const auto broadcast = with_timeout(gcoll_broadcast_options_init, kShortMs);
    const auto barrier = with_timeout(gcoll_barrier_options_init, kShortMs);
    const std::vector<std::function<gcoll_status(gcoll_context *)>> calls = {
        [&](gcoll_context *c) { return gcoll_barrier(c, &barrier); },
        [&](gcoll_context *c) {
            int64_t value = 0;
            return gcoll_broadcast(c, &value, 1, GCOLL_INT64, 1, &broadcast);
        },
        [&](gcoll_context *c) {
            int64_t in = 1, out[2] = {};
            return gcoll_allgather(c, &in, out, 1, GCOLL_INT64, &general);
        },
        [&](gcoll_context *c) {
            int64_t in = 1, out = 0;
            return gcoll_reduce(c, &in, &out, 1, GCOLL_INT64, GCOLL_SUM, 0, &general);
        },
        [&](gcoll_context *c) {
            gcoll_pair *pair = pair_to(c, 1);
            int64_t value = 0;
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair, kShortMs));
            return gcoll_pair_recv(pair, 1, &value, sizeof value);
        },
        [&](gcoll_context *c) {
            gcoll_pair *pair = pair_to(c, 1);
            std::vector<int64_t> large(1000000); // waits for its receive
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair, kShortMs));
            return gcoll_pair_send(pair, 1, large.data(), large.size() * 8);
        },
        [&](gcoll_context *c) {
            const uint32_t peer = 1;
            uint32_t source = 0;
            int64_t value = 0;
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair_to(c, 1), kShortMs));
            return gcoll_context_recv_any(c, &peer, 1, 1, &value, sizeof value, &source);
        },
        [&](gcoll_context *c) {
            gcoll_pair *pair = pair_to(c, 1);
            gcoll_request *request = nullptr;
            int64_t value = 0;
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair, kShortMs));
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 1, &value, sizeof value, &request));
            return end_request(request, kTested);
        },
    };
    for (size_t i = 0; i < calls.size(); i++) {
        SCOPED_TRACE("call " + std::to_string(i));
        expect_timeout(job(2, kLongMs), calls[i]);
    }
}

// A rank that tests names the rank that all wait for, like a rank that waits. Rank 0 hears of it from rank 1.
TEST_P(Timeouts, WhoTestsBlamesTheRightOne) {
    std::atomic<uint32_t> over{0};
    run_threads(job(3, kMiddleMs), [&](uint32_t rank, gcoll_context *context) {
        int64_t value = 0;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == 2) {
            EXPECT_TRUE(await(over, 2, 30000));
            return;
        }
        gcoll_request *request = nullptr;
        EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair_to(context, rank + 1), 1, &value, sizeof value, &request));
        gcoll_status status = end_request(request, kTested);
        EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
        EXPECT_EQ(gcoll_context_culprit(context), 2) << told(status);
        over++;
    });
}

// Rank 3 does not call, but its thread answers. In a ring each rank waits for the one before it. Only rank 0
// waits for rank 3; the others wait for a rank that waits itself, and must not blame it. On a busy machine a
// thread may get no processor for 800 ms.
TEST_P(Timeouts, ALateRankThatAnswersIsNamed) {
    for (int i = 0; i < 2; i++) {
        std::atomic<uint32_t> over{0};
        run_threads(threaded(job(4, 2400)), [&](uint32_t rank, gcoll_context *context) {
            std::vector<float> data(100, 1);
            EXPECT_GCOLL_OK(sum_floats(context, data, "ring")); // all are connected
            if (rank == 3) {
                EXPECT_TRUE(await(over, 3, 30000));
                return;
            }
            const gcoll_status status = sum_floats(context, data, "ring");
            EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
            EXPECT_EQ(gcoll_context_culprit(context), 3) << told(status);
            over++;
        });
    }
}

// ---- A reduction of the caller's that takes long --------------------------------------------------------

constexpr uint64_t kPieceCount = 1 << 16; // most elements that a transport hands over at once
constexpr int64_t kPieceMs = 60;          // and what they take, as do more

gcoll_status add_slowly(void *dst, const void *a, const void *b, uint64_t count, gcoll_type, void *is_slow) {
    for (uint64_t i = 0; i < count; i++)
        static_cast<int32_t *>(dst)[i] =
            static_cast<const int32_t *>(a)[i] + static_cast<const int32_t *>(b)[i];
    if (is_slow)
        std::this_thread::sleep_for(std::chrono::milliseconds(kPieceMs) * std::min(count, kPieceCount) /
                                    kPieceCount);
    return GCOLL_OK;
}

gcoll_status reduce_slowly(gcoll_context *context, Way way, bool is_slow, int32_t *data, uint64_t count,
                           const char *algorithm) {
    const gcoll_user_op op = {add_slowly, is_slow ? data : nullptr, 1, 0};
    gcoll_allreduce_options options = by(algorithm);
    options.user_op = &op;
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_status status;
    if (way == kBlocking)
        return gcoll_allreduce(context, nullptr, data, count, GCOLL_INT32, GCOLL_USER, &options);
    if (way < kRun) {
        status =
            gcoll_allreduce_start(context, nullptr, data, count, GCOLL_INT32, GCOLL_USER, &options, &request);
        return status == GCOLL_OK ? end_request(request, way) : status;
    }
    status =
        gcoll_allreduce_create(context, nullptr, data, count, GCOLL_INT32, GCOLL_USER, &options, &operation);
    if (status == GCOLL_OK)
        status = gcoll_operation_run(operation);
    gcoll_operation_destroy(operation);
    return status;
}

// Two ranks wait for rank `slow` for longer than their timeout. Between two pieces it answers, and data
// moves.
void expect_no_hang(const Job &job, Way way, uint32_t slow, uint64_t count, const char *algorithm) {
    SCOPED_TRACE(std::string(algorithm) + ", way " + std::to_string(way));
    std::atomic<int64_t> took{0};
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        void *memory = nullptr;
        ASSERT_GCOLL_OK(gcoll_memory_alloc(count * sizeof(int32_t), &memory));
        auto *data = static_cast<int32_t *>(memory);
        for (bool is_slow : {false, true}) { // in the first call peers map the memory
            std::fill_n(data, count, static_cast<int32_t>(rank + 1));
            const int64_t begun = now_ms();
            EXPECT_GCOLL_OK(reduce_slowly(context, way, is_slow && rank == slow, data, count, algorithm));
            took = now_ms() - begun;
            EXPECT_EQ(std::count(data, data + count, 6), static_cast<std::ptrdiff_t>(count));
        }
        EXPECT_GCOLL_OK(gcoll_memory_free(memory));
    });
    EXPECT_GT(took, job.timeout_ms * 5 / 4) << "too fast to show anything";
}

TEST_P(Timeouts, ASlowReductionIsNoHang) {
    constexpr uint64_t kCount = 30 * kPieceCount;
    expect_no_hang(job(3, kMiddleMs), kBlocking, 1, kCount * 3 / 2, "ring"); // of which it reduces two thirds
    expect_no_hang(job(3, kMiddleMs), kTested, 1, kCount, "recursive_doubling");
    expect_no_hang(job(3, kMiddleMs), kRun, 0, kCount / 2, "linear"); // for two ranks
}

// A timeout without an end, or longer than the context's: the call waits for a late rank.
TEST_P(Timeouts, MayBeLongerThanTheContexts) {
    const std::vector<std::pair<Way, int64_t>> cases = {{kBlocking, -1}, {kTested, -1}, {kRun, kLongMs}};
    for (const auto &each : cases)
        run_threads(job(2, kMiddleMs), [&](uint32_t rank, gcoll_context *context) {
            int64_t value = rank + 1;
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // connecting has the context's timeout
            if (rank == 1)                                    // beyond the context's
                std::this_thread::sleep_for(std::chrono::milliseconds(kMiddleMs * 3 / 2));
            gcoll_status status = reduce(context, each.first, each.second, &value);
            EXPECT_EQ(status, GCOLL_OK) << told(status) << ", way " << each.first;
            EXPECT_EQ(value, 3);
        });
}

// Each rank may have another timeout.
TEST_P(Timeouts, MayDifferBetweenRanks) {
    run_threads(
        job(2, kLongMs),
        [](uint32_t rank, gcoll_context *context) {
            for (int way = kBlocking; way < kWays; way++) {
                int64_t value = rank + 1;
                EXPECT_GCOLL_OK(reduce(context, static_cast<Way>(way), 1000 * (rank + 5), &value));
                EXPECT_EQ(value, 3);
            }
        });
}

TEST_P(Timeouts, OutsideTheLimitsAreRefused) {
    run_threads(job(1, kLongMs), [](uint32_t, gcoll_context *context) {
        for (int64_t wrong : {int64_t{-2}, INT64_MIN, int64_t{86400001}, INT64_MAX}) {
            const auto general = with_timeout(gcoll_collective_options_init, wrong);
            const auto broadcast = with_timeout(gcoll_broadcast_options_init, wrong);
            const auto barrier = with_timeout(gcoll_barrier_options_init, wrong);
            int64_t value = 1, out = 0;
            for (int way : {kBlocking, kWaited, kRun}) {
                EXPECT_EQ(reduce(context, static_cast<Way>(way), wrong, &value), GCOLL_ERR_INVALID);
                EXPECT_TRUE(says("options.timeout_ms")) << gcoll_last_error();
            }
            EXPECT_EQ(gcoll_broadcast(context, &value, 1, GCOLL_INT64, 0, &broadcast), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_barrier(context, &barrier), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_allgather(context, &value, &out, 1, GCOLL_INT64, &general), GCOLL_ERR_INVALID);
            EXPECT_TRUE(says("options.timeout_ms")) << gcoll_last_error();
        }
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    });
    run_threads(job(2, kLongMs), [](uint32_t rank, gcoll_context *context) {
        gcoll_pair *pair = pair_to(context, 1 - rank);
        EXPECT_EQ(gcoll_pair_set_timeout(nullptr, 1), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_pair_set_timeout(pair, -2), GCOLL_ERR_INVALID);
        EXPECT_TRUE(says("timeout_ms")) << gcoll_last_error();
        EXPECT_EQ(gcoll_pair_set_timeout(pair, 86400001), GCOLL_ERR_INVALID);
    });
}

// Callers without the new field: the library must not read beyond their struct.
TEST_P(Timeouts, OfEarlierCallersAreTheContexts) {
    run_threads(
        job(1, kLongMs),
        [](uint32_t, gcoll_context *context) {
            auto reduce_options = with_timeout(gcoll_allreduce_options_init, -7);
            auto general = with_timeout(gcoll_collective_options_init, -7);
            auto broadcast = with_timeout(gcoll_broadcast_options_init, -7);
            auto barrier = with_timeout(gcoll_barrier_options_init, -7);
            reduce_options.struct_size = offsetof(gcoll_allreduce_options, timeout_ms);
            general.struct_size = offsetof(gcoll_collective_options, timeout_ms);
            broadcast.struct_size = offsetof(gcoll_broadcast_options, timeout_ms);
            barrier.struct_size = offsetof(gcoll_barrier_options, timeout_ms);
            int64_t value = 1, out = 0;
            EXPECT_GCOLL_OK(
                gcoll_allreduce(context, nullptr, &value, 1, GCOLL_INT64, GCOLL_SUM, &reduce_options));
            EXPECT_GCOLL_OK(gcoll_allgather(context, &value, &out, 1, GCOLL_INT64, &general));
            EXPECT_GCOLL_OK(gcoll_broadcast(context, &value, 1, GCOLL_INT64, 0, &broadcast));
            EXPECT_GCOLL_OK(gcoll_barrier(context, &barrier));
        });
}

// ---- Looks with a limit ----------------------------------------------------------------------------------

TEST_P(Timeouts, ALookWithALimitEndsNothing) {
    std::atomic<uint32_t> looked{0};
    run_threads(job(2, kLongMs), [&](uint32_t rank, gcoll_context *context) {
        gcoll_pair *pair = pair_to(context, 1 - rank);
        int64_t value = 0;
        if (rank == 1) {
            EXPECT_TRUE(await(looked, 1));
            value = 42;
            EXPECT_GCOLL_OK(gcoll_pair_send(pair, 1, &value, sizeof value));
            return;
        }
        gcoll_request *request = nullptr;
        ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair, 1, &value, sizeof value, &request));
        for (int64_t limit : {0, 1, 50}) {
            const int64_t begun = now_ms();
            EXPECT_EQ(gcoll_request_wait_for(&request, limit), GCOLL_ERR_TIMEOUT);
            EXPECT_GE(now_ms() - begun, limit);
            EXPECT_NE(request, nullptr);
            EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
        }
        EXPECT_EQ(gcoll_request_wait_for(&request, -1), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_request_wait_for(&request, 86400001), GCOLL_ERR_INVALID);
        EXPECT_TRUE(says("wait_ms")) << gcoll_last_error();
        EXPECT_EQ(gcoll_request_wait_for(nullptr, 1), GCOLL_ERR_INVALID);
        looked = 1;
        EXPECT_GCOLL_OK(gcoll_request_wait_for(&request, kSoonMs));
        EXPECT_EQ(request, nullptr);
        EXPECT_EQ(value, 42);
        EXPECT_EQ(gcoll_request_wait_for(&request, 1), GCOLL_ERR_STATE);
    });
}

// ---- Taken back
// --------------------------------------------------------------------------------------------

class Cancels : public Timeouts {};

// Rank 0 cancels receives before rank 1 sends anything. All messages arrive, in order and once.
TEST_P(Cancels, TheNextReceiveTakesThePlace) {
    std::atomic<uint32_t> taken{0};
    run_threads(job(2, kLongMs), [&](uint32_t rank, gcoll_context *context) {
        gcoll_pair *pair = pair_to(context, 1 - rank);
        constexpr int kMessages = 6;
        if (rank == 1) {
            EXPECT_TRUE(await(taken, 1));
            for (int64_t i = 0; i < kMessages; i++)
                EXPECT_GCOLL_OK(gcoll_pair_send(pair, 4, &i, sizeof i));
            return;
        }
        int64_t got[kMessages];
        gcoll_request *requests[5] = {};
        for (int i = 0; i < 5; i++)
            ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair, 4, &got[i], sizeof got[i], &requests[i]));
        gcoll_request *copy = requests[1];
        for (int i : {3, 1, 4}) {
            EXPECT_GCOLL_OK(gcoll_request_cancel(&requests[i]));
            EXPECT_EQ(requests[i], nullptr);
        }
        EXPECT_EQ(gcoll_request_cancel(&requests[1]), GCOLL_ERR_STATE) << "twice";
        EXPECT_EQ(gcoll_request_wait(&copy), GCOLL_ERR_STATE) << "by a copy";
        taken = 1;
        for (int i : {1, 3, 4, 5}) // the places in order, and then what is new
            EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 4, &got[i], sizeof got[i]));
        EXPECT_GCOLL_OK(gcoll_request_wait(&requests[0]));
        EXPECT_GCOLL_OK(gcoll_request_wait(&requests[2]));
        for (int64_t i = 0; i < kMessages; i++)
            EXPECT_EQ(got[i], i);
    });
}

// The message of a cancelled receive is held, and a later receive of either kind gets it.
TEST_P(Cancels, WhatComesAfterwardsIsKept) {
    std::atomic<uint32_t> taken{0};
    run_threads(job(2, kLongMs), [&](uint32_t rank, gcoll_context *context) {
        gcoll_pair *pair = pair_to(context, 1 - rank);
        const uint32_t peer = 1;
        uint32_t source = 0;
        if (rank == 1) {
            EXPECT_TRUE(await(taken, 1));
            for (int64_t i = 0; i < 2; i++)
                EXPECT_GCOLL_OK(gcoll_pair_send(pair, 4, &i, sizeof i));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            return;
        }
        int64_t first = -1, second = -1;
        gcoll_request *request = nullptr;
        ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair, 4, &first, sizeof first, &request));
        EXPECT_GCOLL_OK(gcoll_request_cancel(&request));
        taken = 1;
        EXPECT_GCOLL_OK(gcoll_context_recv_any(context, &peer, 1, 4, &first, sizeof first, &source));
        EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 4, &second, sizeof second));
        EXPECT_EQ(first, 0);
        EXPECT_EQ(second, 1);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    });
}

// A cancelled receive does not touch its memory any more. A receive in its place may have another size.
TEST_P(Cancels, MemoryIsTheCallersAgain) {
    std::atomic<uint32_t> taken{0};
    run_threads(job(2, kLongMs), [&](uint32_t rank, gcoll_context *context) {
        gcoll_pair *pair = pair_to(context, 1 - rank);
        std::vector<int64_t> data(300, rank);
        if (rank == 1) {
            EXPECT_TRUE(await(taken, 1));
            EXPECT_GCOLL_OK(gcoll_pair_send(pair, 4, data.data(), data.size() * 8));
            return;
        }
        auto *memory = new int64_t[10];
        gcoll_request *request = nullptr;
        ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair, 4, memory, 80, &request));
        EXPECT_GCOLL_OK(gcoll_request_cancel(&request));
        delete[] memory;
        taken = 1;
        EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 4, data.data(), data.size() * 8));
        EXPECT_EQ(data, std::vector<int64_t>(300, 1));
    });
}

TEST_P(Cancels, WhatHasComeIsNotTakenBack) {
    run_threads(
        job(2, kLongMs),
        [](uint32_t rank, gcoll_context *context) {
            gcoll_pair *pair = pair_to(context, 1 - rank);
            int64_t value = rank;
            gcoll_request *request = nullptr;
            if (rank == 1) {
                EXPECT_GCOLL_OK(gcoll_pair_send(pair, 4, &value, sizeof value));
                EXPECT_GCOLL_OK(gcoll_pair_send(pair, 5, &value, sizeof value));
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                return;
            }
            ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair, 4, &value, sizeof value, &request));
            int64_t other = 0;
            EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 5, &other, sizeof other)); // so the first one is here
            EXPECT_EQ(gcoll_request_cancel(&request), GCOLL_ERR_STATE);
            EXPECT_TRUE(says("come")) << gcoll_last_error();
            ASSERT_NE(request, nullptr);
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            EXPECT_EQ(value, 1);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

// At any moment, either the receive is cancelled and the next one gets the message, or it gets the message
// itself.
TEST_P(Cancels, NothingIsLostOrDoubledInARace) {
    constexpr int64_t kMessages = 100;
    run_threads(job(2, kLongMs), [](uint32_t rank, gcoll_context *context) {
        gcoll_pair *pair = pair_to(context, 1 - rank);
        for (uint64_t count : {1, 1000, 50000}) { // eager, and such as wait for a grant
            std::vector<int64_t> data(count);
            const int64_t messages = count > 1000 ? kMessages / 10 : kMessages;
            for (int64_t i = 0; i < messages && !HasFailure(); i++) {
                gcoll_request *request = nullptr;
                std::fill(data.begin(), data.end(), rank == 1 ? i : -1);
                if (rank == 1) {
                    EXPECT_GCOLL_OK(gcoll_pair_send(pair, 4, data.data(), count * 8));
                    continue;
                }
                for (int tries = 0; tries < 3; tries++) {
                    ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair, 4, data.data(), count * 8, &request));
                    gcoll_status status = gcoll_request_cancel(&request);
                    if (status != GCOLL_OK) {
                        EXPECT_EQ(status, GCOLL_ERR_STATE) << told(status);
                        break;
                    }
                }
                if (request)
                    EXPECT_GCOLL_OK(gcoll_request_wait(&request));
                else
                    EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 4, data.data(), count * 8));
                EXPECT_EQ(data, std::vector<int64_t>(count, i));
            }
        }
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    });
}

TEST_P(Cancels, NothingElseIsTakenBack) {
    run_threads(
        job(2, kLongMs),
        [](uint32_t rank, gcoll_context *context) {
            gcoll_pair *pair = pair_to(context, 1 - rank);
            int64_t value = rank, got = -1;
            gcoll_request *request = nullptr;
            EXPECT_EQ(gcoll_request_cancel(nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_request_cancel(&request), GCOLL_ERR_STATE);
            ASSERT_GCOLL_OK(gcoll_barrier_start(context, nullptr, &request));
            EXPECT_EQ(gcoll_request_cancel(&request), GCOLL_ERR_STATE);
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            ASSERT_GCOLL_OK(gcoll_pair_send_start(pair, 1, &value, sizeof value, &request));
            EXPECT_EQ(gcoll_request_cancel(&request), GCOLL_ERR_STATE);
            EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 1, &got, sizeof got));
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            EXPECT_EQ(got, 1 - rank);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

// A cancel of a broken context returns the cause.
TEST_P(Cancels, OfABrokenContextGivesTheCause) {
    Group group(job(2, kLongMs));
    int64_t value = 0;
    gcoll_request *request = nullptr;
    ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair_to(group[0], 1), 4, &value, sizeof value, &request));
    gcoll_context_abort(group[0], "enough");
    EXPECT_EQ(gcoll_request_cancel(&request), GCOLL_ERR_ABORTED);
    EXPECT_EQ(request, nullptr);
}

const auto name = [](const testing::TestParamInfo<const char *> &row) { return std::string(row.param); };
INSTANTIATE_TEST_SUITE_P(Transports, Timeouts, transports(), name);
INSTANTIATE_TEST_SUITE_P(Transports, Cancels, transports(), name);

} // namespace
