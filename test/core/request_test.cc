// test/core/request_test.cc - tests of requests: collectives and messages in flight at the same time, waiting
// for any of several, misuse, and receives from any rank.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"

#include <algorithm>

namespace {

using namespace collective_support;
using namespace gcoll_test;

int64_t word(uint32_t rank, uint64_t round, uint64_t i) {
    return static_cast<int64_t>(mix(rank * 31 + round * 1009 + i) % 1000);
}

class Requests : public testing::TestWithParam<const char *> {};

// ---- Several in flight ----------------------------------------------------------------------------------

constexpr uint64_t kCount = 300;

// Buffers of one round: for a sum, an allgather, a broadcast, and a message along the ring.
struct Round {
    std::vector<int64_t> sum, all, mine, out, in, token, got;
    std::vector<gcoll_request *> requests;

    void fill(uint32_t rank, uint32_t size, uint64_t round, uint64_t count) {
        sum.assign(count, 0);
        mine.assign(count, 0);
        for (uint64_t i = 0; i < count; i++)
            sum[i] = mine[i] = word(rank, round, i);
        all.assign(count * size, -1);
        out.resize(count * size);
        for (uint64_t i = 0; i < out.size(); i++)
            out[i] = word(rank, round + 500, i);
        in.assign(count * size, -1);
        token.assign(count, rank);
        got.assign(count, -1);
    }

    void start(uint32_t rank, uint32_t size, gcoll_context *c, uint64_t count) {
        requests.assign(5, nullptr);
        ASSERT_GCOLL_OK(gcoll_allreduce_start(c, nullptr, sum.data(), count, GCOLL_INT64, GCOLL_SUM, nullptr,
                                              &requests[0]));
        ASSERT_GCOLL_OK(
            gcoll_allgather_start(c, mine.data(), all.data(), count, GCOLL_INT64, nullptr, &requests[1]));
        ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair_to(c, (rank + size - 1) % size), 4, got.data(), count * 8,
                                              &requests[2]));
        ASSERT_GCOLL_OK(
            gcoll_pair_send_start(pair_to(c, (rank + 1) % size), 4, token.data(), count * 8, &requests[3]));
        ASSERT_GCOLL_OK(
            gcoll_alltoall_start(c, out.data(), in.data(), count, GCOLL_INT64, nullptr, &requests[4]));
    }

    void check(uint32_t rank, uint32_t size, uint64_t round, uint64_t count) {
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < count; i++) {
            int64_t want = 0;
            for (uint32_t r = 0; r < size; r++) {
                want += word(r, round, i);
                wrong += all[r * count + i] != word(r, round, i);
                wrong += in[r * count + i] != word(r, round + 500, rank * count + i);
            }
            wrong += sum[i] != want;
            wrong += got[i] != (rank + size - 1) % size;
        }
        EXPECT_EQ(wrong, 0u) << "round " << round << ", rank " << rank;
    }
};

void by_wait_any(Round &round) {
    for (size_t left = round.requests.size(); left > 0; left--) {
        uint32_t index = 99;
        ASSERT_GCOLL_OK(gcoll_wait_any(round.requests.data(), 5, &index));
        ASSERT_LT(index, 5u);
        ASSERT_NE(round.requests[index], nullptr);
        ASSERT_GCOLL_OK(gcoll_request_wait(&round.requests[index]));
        EXPECT_EQ(round.requests[index], nullptr);
    }
}

void by_test(Round &round) {
    for (size_t left = round.requests.size(); left > 0;)
        for (gcoll_request *&request : round.requests) {
            int done = 0;
            if (!request)
                continue;
            ASSERT_GCOLL_OK(gcoll_request_test(&request, &done));
            EXPECT_EQ(done == 1, request == nullptr);
            left -= done == 1;
        }
}

TEST_P(Requests, ManyKindsEndInAnyOrder) {
    run_threads(
        4, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            for (uint64_t count : {kCount, uint64_t{40000}})
                for (uint64_t round = 0; round < (count == kCount ? 30 : 3); round++) {
                    Round one, two; // both at once
                    one.fill(rank, 4, 2 * round, count);
                    two.fill(rank, 4, 2 * round + 1, count);
                    one.start(rank, 4, context, count);
                    two.start(rank, 4, context, count);
                    if ((round + rank) % 3 == 0)
                        by_wait_any(two);
                    else if ((round + rank) % 3 == 1)
                        by_test(two);
                    else
                        for (size_t i = 5; i-- > 0;)
                            ASSERT_GCOLL_OK(gcoll_request_wait(&two.requests[i]));
                    by_wait_any(one);
                    one.check(rank, 4, 2 * round, count);
                    two.check(rank, 4, 2 * round + 1, count);
                }
        });
}

TEST_P(Requests, OperationsStandInTheListToo) {
    run_threads(
        3, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            std::vector<int64_t> sum(50), mine(20), all(60);
            gcoll_operation *operation = nullptr;
            ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, sum.data(), 50, GCOLL_INT64, GCOLL_SUM,
                                                   nullptr, &operation));
            gcoll_request *kept = gcoll_operation_request(operation);
            EXPECT_EQ(gcoll_request_wait(&kept), GCOLL_ERR_STATE) << "not started";
            EXPECT_NE(kept, nullptr);
            for (uint64_t round = 0; round < 50; round++) {
                for (uint64_t i = 0; i < 50; i++)
                    sum[i] = word(rank, round, i);
                mine.assign(20, static_cast<int64_t>(rank + round));
                gcoll_request *requests[3] = {nullptr, gcoll_operation_request(operation), nullptr};
                ASSERT_GCOLL_OK(gcoll_operation_start(operation));
                ASSERT_GCOLL_OK(gcoll_allgather_start(context, mine.data(), all.data(), 20, GCOLL_INT64,
                                                      nullptr, &requests[2]));
                for (int left = 2; left > 0; left--) {
                    uint32_t index = 0;
                    ASSERT_GCOLL_OK(gcoll_wait_any(requests, 3, &index));
                    if (index == 1 && round % 2) {
                        ASSERT_GCOLL_OK(gcoll_operation_wait(operation));
                        requests[1] = nullptr;
                    } else {
                        ASSERT_GCOLL_OK(gcoll_request_wait(&requests[index]));
                    }
                }
                EXPECT_EQ(gcoll_operation_wait(operation), GCOLL_ERR_STATE) << "its request has ended";
                for (uint64_t i = 0; i < 50; i++)
                    EXPECT_EQ(sum[i], word(0, round, i) + word(1, round, i) + word(2, round, i));
                for (uint64_t i = 0; i < 60; i++)
                    EXPECT_EQ(all[i], static_cast<int64_t>(i / 20 + round));
            }
            gcoll_operation_destroy(operation);
            EXPECT_EQ(gcoll_operation_request(nullptr), nullptr);
        });
}

// Finds the request that is done, even if one before it cannot end.
TEST_P(Requests, TheOneThatIsDoneIsFound) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            uint8_t early = 0, late = 0;
            gcoll_pair *pair = pair_to(context, 1 - rank);
            if (rank == 1) {
                uint8_t data = 42;
                ASSERT_GCOLL_OK(gcoll_pair_send(pair, 2, &data, 1));
                ASSERT_GCOLL_OK(gcoll_pair_recv(pair, 3, &data, 1)); // rank 0 has found it
                ASSERT_GCOLL_OK(gcoll_pair_send(pair, 1, &data, 1));
                return;
            }
            gcoll_request *requests[2] = {nullptr, nullptr};
            uint32_t index = 7;
            ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair, 1, &late, 1, &requests[0]));
            ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair, 2, &early, 1, &requests[1]));
            ASSERT_GCOLL_OK(gcoll_wait_any(requests, 2, &index));
            EXPECT_EQ(index, 1u);
            EXPECT_EQ(early, 42);
            ASSERT_GCOLL_OK(gcoll_request_wait(&requests[1]));
            ASSERT_GCOLL_OK(gcoll_pair_send(pair, 3, &early, 1));
            ASSERT_GCOLL_OK(gcoll_wait_any(requests, 2, &index));
            EXPECT_EQ(index, 0u);
            ASSERT_GCOLL_OK(gcoll_request_wait(&requests[0]));
        });
}

// ---- Misuse ---------------------------------------------------------------------------------------------

TEST_P(Requests, MisuseIsNamedAndBreaksNothing) {
    run_threads(
        2, GetParam(),
        [](uint32_t, gcoll_context *context) {
            gcoll_request *request = nullptr, *copy = nullptr, *none[2] = {nullptr, nullptr};
            uint32_t index = 5;
            int done = 5;
            EXPECT_EQ(gcoll_request_wait(nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_request_wait(&request), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_request_test(&request, &done), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_wait_any(none, 2, &index), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_wait_any(none, 0, &index), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_wait_any(nullptr, 2, &index), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_barrier_start(context, nullptr, nullptr), GCOLL_ERR_INVALID);
            ASSERT_GCOLL_OK(gcoll_barrier_start(context, nullptr, &request));
            copy = request;
            EXPECT_EQ(gcoll_request_test(&request, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_wait_any(&request, 1, nullptr), GCOLL_ERR_INVALID);
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            EXPECT_EQ(gcoll_request_wait(&request), GCOLL_ERR_STATE) << "twice";
            EXPECT_EQ(gcoll_request_wait(&copy), GCOLL_ERR_STATE) << "twice, by a copy of the pointer";
            EXPECT_NE(std::string(gcoll_last_error()).find("ended"), std::string::npos) << gcoll_last_error();
            EXPECT_EQ(gcoll_wait_any(&copy, 1, &index), GCOLL_ERR_STATE);
            EXPECT_EQ(index, 5u);
            EXPECT_EQ(done, 5) << "outputs are written on success only";
            EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

TEST(RequestsOfTwo, ContextsAreNotWaitedForTogether) {
    Job job;
    job.size = 1;
    Group one(job), two(job);
    uint32_t index = 0;
    gcoll_request *requests[2] = {nullptr, nullptr};
    ASSERT_GCOLL_OK(gcoll_barrier_start(one[0], nullptr, &requests[0]));
    ASSERT_GCOLL_OK(gcoll_barrier_start(two[0], nullptr, &requests[1]));
    EXPECT_EQ(gcoll_wait_any(requests, 2, &index), GCOLL_ERR_INVALID);
    EXPECT_GCOLL_OK(gcoll_request_wait(&requests[0]));
    EXPECT_GCOLL_OK(gcoll_request_wait(&requests[1]));
}

TEST_P(Requests, LeftInFlightTheyBreakTheContextEverywhere) {
    std::atomic<uint32_t> ready{0}; // past the first barrier, which a break would end too
    run_threads(3, GetParam(), [&ready](uint32_t rank, gcoll_context *context) {
        int64_t mine = rank, all[3];
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        ready++;
        if (rank == 0) {
            gcoll_request *request = nullptr;
            EXPECT_TRUE(await(ready, 3));
            EXPECT_GCOLL_OK(gcoll_allgather_start(context, &mine, all, 1, GCOLL_INT64, nullptr, &request));
            return; // destroyed with the request in flight
        }
        gcoll_status status = gcoll_barrier(context, nullptr); // another call than rank 0's
        EXPECT_TRUE(status == GCOLL_ERR_PEER || status == GCOLL_ERR_MISMATCH) << told(status);
    });
}

// A forgotten request that has finished breaks nothing, but the log reports it.
TEST(RequestsForgotten, AreFreedAndTold) {
    std::atomic<uint32_t> told_requests{0}, told_operations{0};
    Job job;
    job.size = 1;
    std::atomic<uint32_t> *counters[2] = {&told_requests, &told_operations};
    job.adjust = [&](uint32_t, gcoll_context_options *options) {
        options->log_arg = counters;
        options->log = [](void *arg, gcoll_log_level level, const char *text) {
            auto **seen = static_cast<std::atomic<uint32_t> **>(arg);
            std::string line = text;
            EXPECT_NE(level, GCOLL_LOG_ERROR) << line;
            *seen[0] += level == GCOLL_LOG_WARNING && line.find("requests that were not ended") != line.npos;
            *seen[1] += level == GCOLL_LOG_WARNING && line.find("before its operations") != line.npos;
        };
    };
    Group group(job);
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    ASSERT_GCOLL_OK(gcoll_barrier_start(group[0], nullptr, &request));
    ASSERT_GCOLL_OK(gcoll_barrier_create(group[0], nullptr, &operation));
    group.leave(0);
    EXPECT_EQ(told_requests.load(), 1u);
    EXPECT_EQ(told_operations.load(), 1u);
    gcoll_operation_destroy(operation);
}

TEST(OperationsWithoutContext, CanOnlyBeDestroyed) {
    Job job;
    job.size = 2;
    Group group(job);
    float data = 1;
    int done = 0;
    gcoll_operation *operation = nullptr;
    ASSERT_GCOLL_OK(
        gcoll_allreduce_create(group[0], nullptr, &data, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr, &operation));
    gcoll_request *request = gcoll_operation_request(operation);
    group.leave(0);
    EXPECT_EQ(gcoll_operation_start(operation), GCOLL_ERR_STATE);
    EXPECT_EQ(gcoll_operation_wait(operation), GCOLL_ERR_STATE);
    EXPECT_EQ(gcoll_operation_test(operation, &done), GCOLL_ERR_STATE);
    EXPECT_EQ(gcoll_request_wait(&request), GCOLL_ERR_STATE);
    EXPECT_STREQ(gcoll_operation_algorithm(operation), "");
    gcoll_operation_destroy(operation);
}

// ---- Send and receive in one ----------------------------------------------------------------------------

TEST_P(Requests, SendAndReceiveAroundARing) {
    constexpr uint32_t kRanks = 5;
    run_threads(kRanks, GetParam(), [](uint32_t rank, gcoll_context *context) {
        gcoll_pair *next = pair_to(context, (rank + 1) % kRanks),
                   *last = pair_to(context, (rank + kRanks - 1) % kRanks);
        for (uint64_t count :
             {uint64_t{0}, uint64_t{1}, uint64_t{200000}}) { // the last ones wait for a receive
            std::vector<int64_t> out(count, rank), in(count);
            for (uint32_t step = 0; step < kRanks; step++) {
                ASSERT_GCOLL_OK(
                    gcoll_pair_sendrecv(next, 1, out.data(), count * 8, last, 1, in.data(), count * 8));
                out.swap(in);
            }
            EXPECT_TRUE(out == std::vector<int64_t>(count, rank)) << "once around";
        }
        EXPECT_EQ(gcoll_pair_sendrecv(nullptr, 1, nullptr, 0, last, 1, nullptr, 0), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_pair_sendrecv(next, 1, nullptr, 8, last, 1, nullptr, 0), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
    });
}

// ---- From any of several --------------------------------------------------------------------------------

// Each worker sends a sequence. The first rank receives from any, and checks the order of each sequence.
void work(uint32_t rank, gcoll_context *context, uint64_t messages, uint64_t count) {
    uint32_t size = gcoll_context_size(context);
    std::vector<int64_t> data(count);
    if (rank > 0) {
        for (uint64_t m = 0; m < messages * rank; m++) { // some send more
            std::fill(data.begin(), data.end(), word(rank, m, 0));
            ASSERT_GCOLL_OK(gcoll_pair_send(pair_to(context, 0), 8, data.data(), count * 8));
        }
        return;
    }
    std::vector<uint64_t> taken(size, 0);
    std::vector<uint32_t> peers;
    for (uint32_t peer = size - 1; peer > 0; peer--)
        peers.push_back(peer);
    while (!peers.empty()) {
        uint32_t source = 0;
        ASSERT_GCOLL_OK(gcoll_context_recv_any(context, peers.data(), static_cast<uint32_t>(peers.size()), 8,
                                               data.data(), count * 8, &source));
        ASSERT_TRUE(source > 0 && source < size);
        ASSERT_TRUE(data == std::vector<int64_t>(count, word(source, taken[source], 0))) << source;
        if (++taken[source] == messages * source)
            peers.erase(std::find(peers.begin(), peers.end(), source));
    }
}

TEST_P(Requests, FromAnyOfSeveral) {
    run_threads(
        5, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            work(rank, context, 50, 1);
            work(rank, context, 5, 60000);
        });
}

TEST_P(Requests, FromAnyOfSeveralWithTinyPools) {
    run_threads(
        with_tiny_pools(job_on(GetParam(), 4), 1024),
        [](uint32_t rank, gcoll_context *context) {
            // These messages fill the pool, and are received last.
            std::vector<gcoll_request *> requests(100);
            std::vector<int64_t> filler(100, rank), got(300, -1);
            for (size_t i = 0; rank > 0 && i < 100; i++)
                ASSERT_GCOLL_OK(gcoll_pair_send_start(pair_to(context, 0), 9, &filler[i], 8, &requests[i]));
            work(rank, context, 10, 1);
            for (size_t i = 0; rank > 0 && i < 100; i++)
                ASSERT_GCOLL_OK(gcoll_request_wait(&requests[i]));
            for (size_t i = 0; rank == 0 && i < 300; i++)
                ASSERT_GCOLL_OK(
                    gcoll_pair_recv(pair_to(context, static_cast<uint32_t>(i / 100 + 1)), 9, &got[i], 8));
            for (size_t i = 0; rank == 0 && i < 300; i++)
                EXPECT_EQ(got[i], static_cast<int64_t>(i / 100 + 1));
        });
}

// A receive from any skips ranks that have left, but gets their earlier messages. If no rank is left, it is
// an error.
TEST_P(Requests, WhoHasLeftIsPassedOver) {
    bool buffered = std::string(GetParam()) == "tcp"; // inproc holds nothing back: its sender waits
    Group group(job_on(GetParam(), 3));
    const uint32_t peers[2] = {1, 2};
    uint32_t source = 9;
    uint64_t got = 0;
    std::atomic<uint32_t> gone{0};
    std::thread second([&] {
        EXPECT_GCOLL_OK(gcoll_barrier(group[1], nullptr));
        group.leave(1); // has sent nothing
        gone = 1;
    });
    std::thread third([&] {
        uint64_t data = 33;
        EXPECT_GCOLL_OK(gcoll_barrier(group[2], nullptr));
        EXPECT_TRUE(await(gone, 1));
        EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(group[2], 0), 1, &data, sizeof data));
        EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(group[2], 0), 1, &data, sizeof data));
        group.leave(2);
        gone = 2;
    });
    EXPECT_GCOLL_OK(gcoll_barrier(group[0], nullptr));
    EXPECT_GCOLL_OK(gcoll_context_recv_any(group[0], peers, 2, 1, &got, sizeof got, &source));
    EXPECT_EQ(source, 2u);
    EXPECT_EQ(got, 33u);
    if (buffered)
        EXPECT_TRUE(await(gone, 2));
    source = 9;
    EXPECT_GCOLL_OK(gcoll_context_recv_any(group[0], peers, 2, 1, &got, sizeof got, &source));
    EXPECT_EQ(source, 2u) << "sent before it left";
    second.join();
    third.join();
    int64_t before = now_ms();
    gcoll_status status = gcoll_context_recv_any(group[0], peers, 2, 1, &got, sizeof got, &source);
    EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
    EXPECT_LT(now_ms() - before, 5000) << "long before the timeout";
}

TEST_P(Requests, FromAnyRefusesBadArguments) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            uint32_t source = 7, self = rank, beyond = 2, other = 1 - rank;
            uint8_t data = 0;
            EXPECT_EQ(gcoll_context_recv_any(nullptr, &other, 1, 0, &data, 1, &source), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any(context, nullptr, 1, 0, &data, 1, &source), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any(context, &other, 0, 0, &data, 1, &source), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any(context, &other, 1, 0, nullptr, 1, &source), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any(context, &other, 1, 0, &data, 1, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any(context, &self, 1, 0, &data, 1, &source), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any(context, &beyond, 1, 0, &data, 1, &source), GCOLL_ERR_INVALID);
            EXPECT_NE(std::string(gcoll_last_error()).find("peers[0]"), std::string::npos)
                << gcoll_last_error();
            EXPECT_EQ(source, 7u);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

INSTANTIATE_TEST_SUITE_P(Transports, Requests, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

} // namespace
