// test/core/pair_test.cc - tests of pairs: tagged messages between two ranks, and algorithms that an
// application builds from them.
#include "test/kit/calls.h"

#include <cstring>
#include <string>

namespace {

using namespace gcoll_test;

std::vector<uint8_t> message_of(uint64_t message, uint64_t bytes) {
    std::vector<uint8_t> data(bytes);
    fill_by_period(data, [&](uint64_t i) { return static_cast<uint8_t>((message * 131 + i) % kPeriod); });
    return data;
}

class Pairs : public testing::TestWithParam<const char *> {};

TEST_P(Pairs, SizesFromNothingToMegabytes) {
    const std::vector<uint64_t> sizes = {0,    1,     3,      63,     64,     65,     4095,
                                         4096, 65536, 262143, 262144, 262145, 4194304};
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        gcoll_pair *pair = pair_to(context, 1 - rank);
        for (uint64_t bytes : sizes) {
            std::vector<uint8_t> data =
                rank == 0 ? message_of(bytes, bytes) : std::vector<uint8_t>(bytes + 1, 7);
            if (rank == 0) {
                EXPECT_GCOLL_OK(gcoll_pair_send(pair, 5, bytes ? data.data() : nullptr, bytes));
                continue;
            }
            EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 5, bytes ? data.data() : nullptr, bytes));
            EXPECT_EQ(data.back(), 7) << "beyond the end";
            data.pop_back();
            EXPECT_TRUE(data == message_of(bytes, bytes)) << bytes;
        }
    });
}

// The i-th send of a tag matches the i-th receive of it, whatever the order of the tags.
void tags_out_of_order(uint32_t rank, gcoll_context *context, uint64_t unit) {
    constexpr uint32_t kTags = 40, kRepeats = 5;
    gcoll_pair *pair = pair_to(context, 1 - rank);
    std::vector<std::vector<uint8_t>> data;
    std::vector<gcoll_request *> requests;
    for (uint32_t i = 0; i < kTags * kRepeats; i++) {
        uint32_t tag = rank == 0 ? i % kTags : kTags - 1 - i % kTags; // repeats stay in order
        uint32_t repeat = i / kTags;
        uint64_t id = tag * 1000 + repeat, bytes = unit * (id % 97);
        data.push_back(rank == 0 ? message_of(id, bytes) : std::vector<uint8_t>(bytes));
        gcoll_request *request = nullptr;
        if (rank == 0) {
            EXPECT_GCOLL_OK(
                gcoll_pair_send_start(pair, tag * 0x9000001u, data.back().data(), bytes, &request));
        } else {
            EXPECT_GCOLL_OK(
                gcoll_pair_recv_start(pair, tag * 0x9000001u, data.back().data(), bytes, &request));
        }
        requests.push_back(request);
    }
    for (size_t i = requests.size(); i-- > 0;)
        EXPECT_GCOLL_OK(gcoll_request_wait(&requests[i]));
    for (uint32_t i = 0; rank == 1 && i < kTags * kRepeats; i++) {
        uint64_t id = (kTags - 1 - i % kTags) * 1000 + i / kTags;
        EXPECT_TRUE(data[i] == message_of(id, unit * (id % 97))) << i;
    }
}

TEST_P(Pairs, TagsOutOfOrder) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            tags_out_of_order(rank, context, 1);
            tags_out_of_order(rank, context, 500);
            tags_out_of_order(rank, context, 9000);
        });
}

TEST_P(Pairs, TagsOutOfOrderWithTinyPools) {
    run_threads(
        with_tiny_pools(job_on(GetParam(), 2)),
        [](uint32_t rank, gcoll_context *context) {
            tags_out_of_order(rank, context, 1);
            tags_out_of_order(rank, context, 300);
        });
}

TEST_P(Pairs, AllToAllByHand) {
    constexpr uint32_t kRanks = 6;
    run_threads(kRanks, GetParam(), [](uint32_t rank, gcoll_context *context) {
        for (uint64_t bytes : {8u, 5000u, 600000u}) {
            std::vector<std::vector<uint8_t>> out(kRanks), in(kRanks, std::vector<uint8_t>(bytes));
            std::vector<gcoll_request *> requests;
            for (uint32_t step = 1; step < kRanks; step++) {
                uint32_t to = (rank + step) % kRanks, from = (rank + kRanks - step) % kRanks;
                gcoll_request *request = nullptr;
                out[to] = message_of(rank * kRanks + to, bytes);
                EXPECT_GCOLL_OK(
                    gcoll_pair_recv_start(pair_to(context, from), 1, in[from].data(), bytes, &request));
                requests.push_back(request);
                EXPECT_GCOLL_OK(
                    gcoll_pair_send_start(pair_to(context, to), 1, out[to].data(), bytes, &request));
                requests.push_back(request);
            }
            while (!requests.empty()) { // by test, and from the end
                int done = 0;
                ASSERT_GCOLL_OK(gcoll_request_test(&requests.back(), &done));
                if (done)
                    requests.pop_back();
            }
            for (uint32_t from = 0; from < kRanks; from++)
                if (from != rank)
                    EXPECT_TRUE(in[from] == message_of(from * kRanks + rank, bytes))
                        << from << " to " << rank;
        }
    });
}

TEST_P(Pairs, RingAllreduceByHandAmongCollectives) {
    constexpr uint32_t kRanks = 5;
    constexpr uint64_t kChunk = 10000;
    run_threads(kRanks, GetParam(), [](uint32_t rank, gcoll_context *context) {
        gcoll_pair *next = pair_to(context, (rank + 1) % kRanks),
                   *last = pair_to(context, (rank + kRanks - 1) % kRanks);
        std::vector<int64_t> data(kRanks * kChunk), got(kChunk), check(1, rank);
        for (uint64_t i = 0; i < data.size(); i++)
            data[i] = static_cast<int64_t>(i * (rank + 1));
        for (uint32_t step = 0; step < 2 * (kRanks - 1); step++) {
            uint32_t out = (rank + 2 * kRanks - step) % kRanks, in = (rank + 2 * kRanks - step - 1) % kRanks;
            gcoll_request *request = nullptr;
            ASSERT_GCOLL_OK(gcoll_pair_send_start(next, 9, &data[out * kChunk], kChunk * 8, &request));
            ASSERT_GCOLL_OK(gcoll_pair_recv(last, 9, got.data(), kChunk * 8));
            ASSERT_GCOLL_OK(gcoll_request_wait(&request));
            for (uint64_t i = 0; i < kChunk; i++)
                data[in * kChunk + i] = step < kRanks - 1 ? data[in * kChunk + i] + got[i] : got[i];
            ASSERT_GCOLL_OK(
                gcoll_allreduce(context, nullptr, check.data(), 1, GCOLL_INT64, GCOLL_MAX, nullptr));
        }
        for (uint64_t i = 0; i < data.size(); i++)
            ASSERT_EQ(data[i], static_cast<int64_t>(i * 15)) << i; // 1 + 2 + 3 + 4 + 5
        EXPECT_EQ(check[0], 4);
    });
}

TEST_P(Pairs, BadArgumentsBreakNothing) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            gcoll_pair *pair = nullptr;
            gcoll_request *request = nullptr;
            EXPECT_EQ(gcoll_context_pair(context, rank, &pair), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_pair(context, 2, &pair), GCOLL_ERR_INVALID);
            EXPECT_NE(std::string(gcoll_last_error()).find("peer"), std::string::npos);
            EXPECT_EQ(pair, nullptr);
            EXPECT_EQ(gcoll_context_pair(context, 1 - rank, nullptr), GCOLL_ERR_INVALID);
            pair = pair_to(context, 1 - rank);
            EXPECT_EQ(pair, pair_to(context, 1 - rank)) << "there is one";
            EXPECT_EQ(gcoll_pair_send(pair, 0, nullptr, 1), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_pair_recv_start(pair, 0, nullptr, 0, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_pair_send(nullptr, 0, &request, 1), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_request_wait(nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

TEST_P(Pairs, RequestsLeftInFlightBreakTheContextCleanly) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            std::vector<uint8_t> data(100);
            gcoll_request *request = nullptr;
            gcoll_pair *pair = pair_to(context, 1 - rank);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            if (rank == 0) {
                EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 0, data.data(), data.size(), &request));
                return; // destroyed with the request in flight
            }
            gcoll_status status = gcoll_pair_recv(pair, 0, data.data(), data.size());
            EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
            EXPECT_EQ(gcoll_context_culprit(context), 0);
        });
}

// The last messages of a rank that has left are still received. A receive of a message that it never sent
// fails.
TEST_P(Pairs, WhatWasSentBeforeLeavingArrives) {
    std::atomic<uint32_t> left{0};
    bool buffered = std::string(GetParam()) == "tcp"; // inproc holds nothing back: its sender waits
    Watchdog watchdog(60);
    Group group(job_on(GetParam(), 2));
    std::thread sender([&] {
        uint64_t word = 4711;
        EXPECT_GCOLL_OK(gcoll_barrier(group[0], nullptr));
        EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(group[0], 1), 0, &word, sizeof word));
        group.leave(0);
        left = 1;
    });
    uint64_t word = 0;
    EXPECT_GCOLL_OK(gcoll_barrier(group[1], nullptr));
    if (buffered)
        EXPECT_TRUE(await(left, 1));
    EXPECT_GCOLL_OK(gcoll_pair_recv(pair_to(group[1], 0), 0, &word, sizeof word));
    EXPECT_EQ(word, 4711u);
    sender.join();
    int64_t before = now_ms();
    gcoll_status status = gcoll_pair_recv(pair_to(group[1], 0), 0, &word, sizeof word);
    EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
    EXPECT_NE(std::string(gcoll_last_error()).find("rank 0 left the job"), std::string::npos)
        << gcoll_last_error();
    EXPECT_LT(now_ms() - before, 5000) << "long before the timeout";
}

INSTANTIATE_TEST_SUITE_P(Transports, Pairs, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

// A view of the job's store that delays rank 0. Rank 0 has joined, and looks for rank 1 just after rank 1 has
// closed its listener, and again before rank 1 has removed its address.
struct SlowLeave {
    gcoll_store *base = nullptr;
    static std::atomic<uint32_t> leaving, asked, joined;

    static gcoll_status set(void *self, const char *key, const void *value, size_t bytes) {
        return gcoll_store_set(static_cast<SlowLeave *>(self)->base, key, value, bytes);
    }
    static gcoll_status get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
        bool matters = joined > 0 && strstr(key, "/addr.1") != nullptr;
        if (matters && !await(leaving, 1))
            return GCOLL_ERR_TIMEOUT;
        gcoll_status status =
            gcoll_store_get(static_cast<SlowLeave *>(self)->base, key, value, capacity, bytes);
        asked += matters;
        return status;
    }
    static gcoll_status wait(void *self, const char *key, int64_t timeout_ms) {
        return gcoll_store_wait(static_cast<SlowLeave *>(self)->base, key, timeout_ms);
    }
    static gcoll_status add(void *self, const char *key, int64_t delta, int64_t *value) {
        return gcoll_store_add(static_cast<SlowLeave *>(self)->base, key, delta, value);
    }
    static gcoll_status remove(void *self, const char *key) {
        if (strstr(key, "/addr.1") != nullptr) {
            leaving = 1;
            EXPECT_TRUE(await(asked, 2));
        }
        return gcoll_store_remove(static_cast<SlowLeave *>(self)->base, key);
    }
};
std::atomic<uint32_t> SlowLeave::leaving{0}, SlowLeave::asked{0}, SlowLeave::joined{0};

TEST(Leaving, IsPassedOverByWhoWaitsForAnyOfSeveral) {
    gcoll_store_ops ops = {sizeof ops,      "slow",         SlowLeave::set,    SlowLeave::get,
                           SlowLeave::wait, SlowLeave::add, SlowLeave::remove, nullptr,
                           nullptr,         nullptr,        nullptr,           nullptr};
    SlowLeave::leaving = SlowLeave::asked = SlowLeave::joined = 0;
    SlowLeave slow[3];
    gcoll_store *stores[3] = {};
    Job job;
    job.size = 3;
    job.transport = "tcp";
    job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        slow[rank].base = options->store;
        EXPECT_GCOLL_OK(gcoll_store_create(&ops, &slow[rank], &stores[rank]));
        options->store = stores[rank];
    };
    run_threads(job, [](uint32_t rank, gcoll_context *context) {
        const uint32_t peers[2] = {1, 2};
        uint32_t source = 9;
        uint64_t data = 33;
        if (rank == 0) {
            SlowLeave::joined = 1;
            EXPECT_GCOLL_OK(gcoll_context_recv_any(context, peers, 2, 1, &data, sizeof data, &source));
            EXPECT_EQ(source, 2u);
        } else if (rank == 2) {
            EXPECT_TRUE(await(SlowLeave::asked, 2));
            EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(context, 0), 1, &data, sizeof data));
        }
    });
    for (gcoll_store *store : stores)
        gcoll_store_destroy(store);
}

} // namespace
