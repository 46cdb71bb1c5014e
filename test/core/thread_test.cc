// test/core/thread_test.cc - tests of contexts with a progress thread: operations progress while no thread
// calls gcoll, and calls stay correct.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"

#include <algorithm>

namespace {

using namespace collective_support;
using namespace gcoll_test;

class Threads : public testing::TestWithParam<const char *> {
  protected:
    static Job job(uint32_t size) { return threaded(job_on(GetParam(), size)); }
};

gcoll_status add_and_count(void *dst, const void *a, const void *b, uint64_t count, gcoll_type, void *arg) {
    for (uint64_t i = 0; i < count; i++)
        static_cast<int64_t *>(dst)[i] =
            static_cast<const int64_t *>(a)[i] + static_cast<const int64_t *>(b)[i];
    static_cast<std::atomic<uint32_t> *>(arg)->fetch_add(static_cast<uint32_t>(count));
    return GCOLL_OK;
}

// A ring reduces each element size - 1 times, each time after a message. All this happens while every rank
// only looks at a counter.
TEST_P(Threads, MoveWhatIsInFlightWhileNobodyCalls) {
    constexpr uint32_t kRanks = 4;
    std::atomic<uint32_t> reduced{0};
    run_threads(job(kRanks), [&](uint32_t rank, gcoll_context *context) {
        for (uint64_t count : {uint64_t{100}, uint64_t{100000}}) {
            gcoll_user_op op = {add_and_count, &reduced, 1, 0};
            gcoll_allreduce_options options = by("ring");
            options.user_op = &op;
            std::vector<int64_t> data(count);
            for (uint64_t i = 0; i < count; i++)
                data[i] = static_cast<int64_t>(i * (rank + 1));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            reduced = 0;
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            gcoll_request *request = nullptr;
            ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data.data(), count, GCOLL_INT64,
                                                  GCOLL_USER, &options, &request));
            EXPECT_TRUE(await(reduced, static_cast<uint32_t>(count) * (kRanks - 1)));
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            for (uint64_t i = 0; i < count; i++)
                ASSERT_EQ(data[i], static_cast<int64_t>(i * 10));
        }
    });
}

// Blocking, started and persistent calls and messages, with and without pauses between them.
TEST_P(Threads, CallsOfAllKindsStayRight) {
    constexpr uint32_t kRanks = 3;
    run_threads(job(kRanks), [](uint32_t rank, gcoll_context *context) {
        gcoll_context *other = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &other));
        std::vector<int64_t> kept(30);
        gcoll_operation *operation = nullptr;
        ASSERT_GCOLL_OK(gcoll_allreduce_create(other, nullptr, kept.data(), 30, GCOLL_INT64, GCOLL_SUM,
                                               nullptr, &operation));
        gcoll_pair *next = nullptr, *last = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_pair(context, (rank + 1) % kRanks, &next));
        ASSERT_GCOLL_OK(gcoll_context_pair(context, (rank + kRanks - 1) % kRanks, &last));
        for (uint64_t round = 0; round < 60; round++) {
            const uint64_t count = round % 7 == 0 ? 50000 : 20;
            std::vector<int64_t> sum(count, rank + 1), mine(count, rank), all(count * kRanks),
                token(count, rank), got(count);
            std::fill(kept.begin(), kept.end(), static_cast<int64_t>(round + rank));
            gcoll_request *requests[4] = {};
            ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, sum.data(), count, GCOLL_INT64, GCOLL_SUM,
                                                  nullptr, &requests[0]));
            ASSERT_GCOLL_OK(gcoll_operation_start(operation));
            ASSERT_GCOLL_OK(gcoll_allgather_start(context, mine.data(), all.data(), count, GCOLL_INT64,
                                                  nullptr, &requests[1]));
            ASSERT_GCOLL_OK(gcoll_pair_recv_start(last, 3, got.data(), count * 8, &requests[2]));
            ASSERT_GCOLL_OK(gcoll_pair_send_start(next, 3, token.data(), count * 8, &requests[3]));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            for (int left = 4; left > 0; left--) {
                uint32_t index = 0;
                ASSERT_GCOLL_OK(gcoll_wait_any(requests, 4, &index));
                ASSERT_GCOLL_OK(gcoll_request_wait(&requests[index]));
            }
            for (int done = 0; !done;)
                ASSERT_GCOLL_OK(gcoll_operation_test(operation, &done));
            uint64_t wrong = 0;
            for (uint64_t i = 0; i < count; i++) {
                wrong += sum[i] != 6 || got[i] != (rank + kRanks - 1) % kRanks;
                for (uint32_t r = 0; r < kRanks; r++)
                    wrong += all[r * count + i] != r;
            }
            for (int64_t value : kept)
                wrong += value != static_cast<int64_t>(3 * round + 3);
            ASSERT_EQ(wrong, 0u) << "round " << round;
        }
        gcoll_operation_destroy(operation);
        gcoll_context_destroy(other);
        EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
    });
}

// A rank leaves with work in flight. The other ranks, none of which waits in a call, get the error with its
// reason.
TEST_P(Threads, FailuresAreTheSame) {
    std::atomic<uint32_t> ready{0}; // have begun what rank 1 will break
    run_threads(job(3), [&ready](uint32_t rank, gcoll_context *context) {
        std::vector<int64_t> data(100000, rank);
        gcoll_request *request = nullptr;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == 1) {
            uint8_t byte;
            gcoll_pair *pair = nullptr;
            EXPECT_TRUE(await(ready, 2));
            EXPECT_GCOLL_OK(gcoll_context_pair(context, 0, &pair));
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 0, &byte, 1, &request));
            return; // destroyed with a request in flight
        }
        EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data.data(), data.size(), GCOLL_INT64,
                                              GCOLL_SUM, nullptr, &request));
        ready++;
        int64_t begun = now_ms();
        while (gcoll_context_health(context) == GCOLL_OK && now_ms() - begun < 10000)
            std::this_thread::yield(); // health makes no progress
        EXPECT_EQ(gcoll_context_culprit(context), 1);
        gcoll_status status = gcoll_request_wait(&request);
        EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
        EXPECT_EQ(request, nullptr);
        EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_PEER);
    });
}

TEST_P(Threads, AbortIsHeardOfWithoutACall) {
    Group group(job(2));
    int64_t one = 1, two = 2;
    gcoll_request *requests[2] = {};
    std::thread others([&] { EXPECT_GCOLL_OK(gcoll_barrier(group[1], nullptr)); });
    EXPECT_GCOLL_OK(gcoll_barrier(group[0], nullptr)); // they are connected
    others.join();
    gcoll_pair *there = nullptr, *back = nullptr;
    EXPECT_GCOLL_OK(gcoll_context_pair(group[0], 1, &there));
    EXPECT_GCOLL_OK(gcoll_context_pair(group[1], 0, &back));
    EXPECT_GCOLL_OK(gcoll_pair_recv_start(there, 0, &one, sizeof one, &requests[0]));
    EXPECT_GCOLL_OK(gcoll_pair_recv_start(back, 0, &two, sizeof two, &requests[1]));
    gcoll_context_abort(group[0], "enough");
    int64_t begun = now_ms();
    while (gcoll_context_health(group[1]) == GCOLL_OK && now_ms() - begun < 10000)
        std::this_thread::yield();
    EXPECT_EQ(gcoll_request_wait(&requests[1]), GCOLL_ERR_ABORTED);
    EXPECT_NE(std::string(gcoll_last_error()).find("enough"), std::string::npos) << gcoll_last_error();
    EXPECT_EQ(gcoll_request_wait(&requests[0]), GCOLL_ERR_ABORTED);
}

TEST_P(Threads, ComeAndGo) {
    for (int repeat = 0; repeat < 10; repeat++)
        run_threads(
            job(2),
            [repeat](uint32_t, gcoll_context *context) {
                if (repeat % 2)
                    EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            });
}

INSTANTIATE_TEST_SUITE_P(Transports, Threads, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

} // namespace
