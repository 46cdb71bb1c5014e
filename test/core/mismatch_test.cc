// test/core/mismatch_test.cc - tests of what ranks are told about calls that do not match, aborts, and
// strangers at the port. Ranks are threads.
#include "test/kit/calls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string>
#include <tuple>

namespace {

using namespace gcoll_test;

// ---- Calls that do not match ----------------------------------------------------------------------------

using Call = std::function<gcoll_status(gcoll_context *, void *buffer)>;

struct Mismatch {
    const char *name;
    Call most, odd;
    const char *most_word, *odd_word; // of the two descriptions
};

Call allreduce_call(uint64_t count, gcoll_type type, gcoll_op op, const char *algorithm) {
    return [=](gcoll_context *context, void *buffer) {
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.algorithm = algorithm;
        return gcoll_allreduce(context, nullptr, buffer, count, type, op, &options);
    };
}

Call broadcast_call(uint64_t count, uint32_t root) {
    return [=](gcoll_context *context, void *buffer) {
        return gcoll_broadcast(context, buffer, count, GCOLL_FLOAT32, root, nullptr);
    };
}

// Input in the first half of the buffer, output in the second.
Call allgather_call(uint64_t count) {
    return [=](gcoll_context *context, void *buffer) {
        return gcoll_allgather(context, buffer, static_cast<float *>(buffer) + 500000, count, GCOLL_FLOAT32,
                               nullptr);
    };
}

Call gather_v_call(const std::vector<uint64_t> &counts, uint32_t root) {
    return [=](gcoll_context *context, void *buffer) {
        return gcoll_gather_v(context, buffer, static_cast<float *>(buffer) + 500000, counts.data(),
                              GCOLL_FLOAT32, root, nullptr);
    };
}

Call reduce_scatter_v_call(const std::vector<uint64_t> &counts) {
    return [=](gcoll_context *context, void *buffer) {
        return gcoll_reduce_scatter_v(context, buffer, static_cast<float *>(buffer) + 500000, counts.data(),
                                      GCOLL_FLOAT32, GCOLL_SUM, nullptr);
    };
}

Call alltoall_call(uint64_t count, bool by_counts) {
    return [=](gcoll_context *context, void *buffer) {
        const std::vector<uint64_t> counts(4, count);
        float *in = static_cast<float *>(buffer), *out = in + 500000;
        return by_counts
                   ? gcoll_alltoall_v(context, in, out, counts.data(), counts.data(), GCOLL_FLOAT32, nullptr)
                   : gcoll_alltoall(context, in, out, count, GCOLL_FLOAT32, nullptr);
    };
}

// A list of buffers side by side, in place.
Call list_call(const std::vector<uint64_t> &counts) {
    return [=](gcoll_context *context, void *buffer) {
        std::vector<void *> buffers;
        uint64_t at = 0;
        for (const uint64_t count : counts) {
            buffers.push_back(static_cast<float *>(buffer) + at);
            at += count;
        }
        return gcoll_allreduce_list(context, nullptr, buffers.data(), counts.data(),
                                    static_cast<uint32_t>(counts.size()), GCOLL_FLOAT32, GCOLL_SUM, nullptr);
    };
}

// Of as many bytes, in elements of a size of their own.
Call element_call(uint64_t bytes, uint32_t element_bytes) {
    return [=](gcoll_context *context, void *buffer) {
        const gcoll_user_op op = {
            [](void *, const void *, const void *, uint64_t, gcoll_type, void *) { return GCOLL_OK; },
            nullptr, 1, element_bytes};
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.user_op = &op;
        return gcoll_allreduce(context, nullptr, buffer, bytes / element_bytes, GCOLL_UINT8, GCOLL_USER,
                               &options);
    };
}

// Each rank has 3 elements for the root; only the root says how many others have.
Call root_counts_call(uint32_t root) {
    return [=](gcoll_context *context, void *buffer) {
        const std::vector<uint64_t> counts(4, 3);
        gcoll_collective_options options;
        gcoll_collective_options_init(&options);
        options.counts_at_root = 1;
        return gcoll_gather_v(context, buffer, static_cast<float *>(buffer) + 500000, counts.data(),
                              GCOLL_FLOAT32, root, &options);
    };
}

Call exchange_call(uint32_t exchanges) {
    return [=](gcoll_context *context, void *buffer) {
        return gcoll_pairwise_exchange(context, buffer, static_cast<float *>(buffer) + 500000, 64,
                                       GCOLL_FLOAT32, exchanges, nullptr);
    };
}

gcoll_status barrier_call(gcoll_context *context, void *) {
    return gcoll_barrier(context, nullptr);
}

const std::vector<Mismatch> &mismatches() {
    static const std::vector<Mismatch> all = {
        {"count", allreduce_call(100, GCOLL_FLOAT32, GCOLL_SUM, "ring"),
         allreduce_call(101, GCOLL_FLOAT32, GCOLL_SUM, "ring"), "100 float32", "101 float32"},
        {"large_count", allreduce_call(900000, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
         allreduce_call(900001, GCOLL_FLOAT32, GCOLL_SUM, nullptr), "900000 float32", "900001 float32"},
        {"type_of_equal_size", allreduce_call(64, GCOLL_FLOAT32, GCOLL_SUM, "ring"),
         allreduce_call(64, GCOLL_INT32, GCOLL_SUM, "ring"), "64 float32", "64 int32"},
        {"operation", allreduce_call(64, GCOLL_FLOAT32, GCOLL_SUM, "ring"),
         allreduce_call(64, GCOLL_FLOAT32, GCOLL_MAX, "ring"), "sum", "max"},
        {"algorithm", allreduce_call(64, GCOLL_FLOAT32, GCOLL_SUM, "ring"),
         allreduce_call(64, GCOLL_FLOAT32, GCOLL_SUM, "sorted_linear_tree"), "by ring",
         "by sorted_linear_tree"},
        {"options", allreduce_call(64, GCOLL_FLOAT32, GCOLL_SUM, "group_butterfly:r=0"),
         allreduce_call(64, GCOLL_FLOAT32, GCOLL_SUM, "group_butterfly:r=1"), "group_butterfly",
         "options differ"},
        {"root", broadcast_call(64, 0), broadcast_call(64, 1), "from rank 0", "from rank 1"},
        {"collective", allreduce_call(64, GCOLL_FLOAT32, GCOLL_SUM, nullptr), broadcast_call(64, 0),
         "allreduce", "broadcast"},
        {"block", allgather_call(7), allgather_call(8), "allgather of 7 float32 a rank",
         "allgather of 8 float32 a rank"},
        {"blocks", gather_v_call({1, 2, 3, 4}, 1), gather_v_call({1, 2, 4, 3}, 1),
         "gather_v of 10 float32 to rank 1", "counts of single ranks differ"},
        {"blocks_or_block", reduce_scatter_v_call({5, 5, 5, 5}), reduce_scatter_v_call({5, 5, 5, 6}),
         "reduce_scatter of 5 float32 a rank, sum, by", "reduce_scatter_v of 21 float32, sum, by"},
        {"form", alltoall_call(3, false), alltoall_call(3, true), "alltoall of 3 float32 a rank",
         "alltoall_v of float32"},
        {"exchanges", exchange_call(1), exchange_call(2), "in 1 exchanges", "in 2 exchanges"},
        {"list", list_call({3, 2, 1}), list_call({3, 3}), "allreduce_list of 6 float32 in 3 buffers",
         "allreduce_list of 6 float32 in 2 buffers"},
        {"counts_of_list", list_call({3, 2, 1}), list_call({3, 1, 2}), "6 float32 in 3 buffers",
         "counts of single buffers differ"},
        {"list_or_vector", list_call({3, 3}), allreduce_call(6, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
         "allreduce_list of 6 float32 in 2 buffers", "allreduce of 6 float32, sum"},
        {"elements", element_call(96, 12), element_call(96, 24), "8 elements of 12 bytes, user",
         "4 elements of 24 bytes, user"},
        {"counts_at_root", root_counts_call(1), gather_v_call({3, 3, 3, 4}, 1),
         "gather_v of float32 with counts at the root to rank 1", "gather_v of 13 float32 to rank 1"},
        {"barrier", allreduce_call(1, GCOLL_UINT8, GCOLL_SUM, nullptr), barrier_call, "allreduce", "barrier"},
    };
    return all;
}

using MismatchParam = std::tuple<size_t, const char *>;
class Mismatches : public testing::TestWithParam<MismatchParam> {};

TEST_P(Mismatches, EveryRankIsToldBothSides) {
    auto [index, transport] = GetParam();
    const Mismatch &mismatch = mismatches()[index];
    Job job;
    job.size = 4;
    job.transport = transport;
    job.timeout_ms = 8000; // ranks that only wait for one another find out after an eighth of it
    for (uint32_t odd : {0u, 2u})
        run_threads(job, [&mismatch, odd](uint32_t rank, gcoll_context *context) {
            std::vector<double> buffer(1000000);
            // The call itself may end before the other ranks' calls are known. A barrier after it fails.
            gcoll_status status = (rank == odd ? mismatch.odd : mismatch.most)(context, buffer.data());
            if (status == GCOLL_OK)
                status = gcoll_barrier(context, nullptr);
            std::string text = gcoll_last_error();
            EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
            EXPECT_NE(text.find(mismatch.most_word), std::string::npos) << text;
            EXPECT_NE(text.find(mismatch.odd_word), std::string::npos) << text;
            EXPECT_NE(text.find("rank " + std::to_string(odd)), std::string::npos) << text;
            EXPECT_EQ(gcoll_context_culprit(context), -1); // two differ, and nobody knows which is wrong
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_MISMATCH);
            EXPECT_EQ(gcoll_last_error(), text);
        });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Mismatches, testing::Combine(testing::Range<size_t>(0, 19), transports()),
                         [](const testing::TestParamInfo<MismatchParam> &row) {
                             return std::string(mismatches()[std::get<0>(row.param)].name) + "_" +
                                    std::get<1>(row.param);
                         });

class Aborts : public testing::TestWithParam<const char *> {};

// The differing call arrives together with its data. The receive is complete, but the call must not succeed.
TEST_P(Aborts, DataOfAnotherTypeIsNeverReturnedAsSuccess) {
    for (int repeat = 0; repeat < 10; repeat++) {
        run_threads(
            2, GetParam(),
            [](uint32_t rank, gcoll_context *context) {
                int32_t word = 1;
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                gcoll_type type = rank == 0 ? GCOLL_FLOAT32 : GCOLL_INT32;
                gcoll_status status = gcoll_broadcast(context, &word, 1, type, 0, nullptr);
                if (rank == 1)
                    EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
            });
    }
}

// The differing call is not the first of several in flight.
TEST_P(Aborts, NorIsThatOfSeveralInFlight) {
    std::atomic<uint32_t> begun{0};
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        int32_t words[4] = {1, 1, 1, 1};
        gcoll_request *requests[4] = {};
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == 0)
            EXPECT_TRUE(await(begun, 1)); // so that the other has begun them all
        const gcoll_type type = rank == 0 ? GCOLL_FLOAT32 : GCOLL_INT32;
        for (int i = 0; i < 4; i++)
            EXPECT_GCOLL_OK(gcoll_broadcast_start(context, &words[i], 1, type, 0, nullptr, &requests[i]));
        begun++;
        for (int i = 3; i >= 0; i--) {
            gcoll_status status = gcoll_request_wait(&requests[i]);
            if (rank == 1)
                EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
        }
    });
}

// Small messages, and messages in segments, may fit the expected size, or meet no receive at all. The
// difference must still be found.
TEST_P(Aborts, WhatAlltoallSendsIsWhatIsExpected) {
    const std::pair<uint64_t, uint64_t> pairs[] = {{5, 0}, {100, 90}, {90, 100}}; // sent, expected
    for (const auto &pair : pairs) {
        run_threads(
            2, GetParam(),
            [&](uint32_t rank, gcoll_context *context) {
                std::vector<int32_t> in(100, 1), out(100);
                uint64_t sent[2] = {0, 0}, expected[2] = {0, 0};
                if (rank == 0)
                    sent[1] = pair.first;
                else
                    expected[0] = pair.second;
                gcoll_collective_options options;
                gcoll_collective_options_init(&options);
                options.algorithm = "linear:segment=40";
                gcoll_status status =
                    gcoll_alltoall_v(context, in.data(), out.data(), sent, expected, GCOLL_INT32, &options);
                if (rank == 1 && pair.second > 0)
                    EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
                for (int i = 0; i < 3 && status == GCOLL_OK; i++) // who expects nothing hears of it later
                    status = gcoll_barrier(context, nullptr);
                EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
                const std::string text = gcoll_last_error();
                const std::string what = "rank 0 sends " + std::to_string(pair.first) +
                                         " elements to rank 1, whose recv_counts[0] is " +
                                         std::to_string(pair.second);
                EXPECT_NE(text.find(what), std::string::npos) << text;
            });
    }
}

TEST(MismatchTable, IsAllTested) {
    EXPECT_EQ(mismatches().size(), 19u);
}

// ---- Abort ----------------------------------------------------------------------------------------------

TEST_P(Aborts, FromAnotherThreadWakesAllRanks) {
    for (int repeat = 0; repeat < 5; repeat++) {
        std::atomic<int64_t> aborted{0};
        std::atomic<uint32_t> through{0};
        run_threads(4, GetParam(), [&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            through++;
            EXPECT_TRUE(await(through, 4)); // an abort may overtake the end of a call
            std::thread helper;
            gcoll_pair *pair = nullptr;
            gcoll_status status;
            uint8_t byte;
            if (rank == 2) { // waits for what never comes, like the others for it
                EXPECT_GCOLL_OK(gcoll_context_pair(context, 3, &pair));
                helper = std::thread([&] {
                    std::this_thread::sleep_for(
                        std::chrono::milliseconds(20)); // likely to be waiting by then
                    aborted = now_ms();
                    gcoll_context_abort(context, "the user lost patience");
                });
                status = gcoll_pair_recv(pair, 0, &byte, 1);
                helper.join();
            } else {
                status = gcoll_barrier(context, nullptr);
            }
            EXPECT_LT(now_ms() - aborted.load(), 1000);
            EXPECT_EQ(status, GCOLL_ERR_ABORTED) << told(status);
            std::string text = gcoll_last_error();
            EXPECT_NE(text.find("the user lost patience"), std::string::npos) << text;
            EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
            EXPECT_EQ(gcoll_context_culprit(context), 2);
            gcoll_context_abort(context, "again"); // changes nothing
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
            EXPECT_EQ(gcoll_last_error(), text);
        });
    }
}

TEST_P(Aborts, ReasonsOfAnyKind) {
    const std::string endless(5000, 'y');
    const char *reasons[] = {nullptr, "", endless.c_str(), "two\nlines %s %n"};
    for (const char *reason : reasons) {
        std::atomic<uint32_t> through{0};
        run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            through++;
            EXPECT_TRUE(await(through, 2));
            if (rank == 0)
                gcoll_context_abort(context, reason);
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
            EXPECT_NE(std::string(gcoll_last_error()).find("rank 0 aborted"), std::string::npos);
            EXPECT_LT(strlen(gcoll_last_error()), 300u);
        });
    }
    gcoll_context_abort(nullptr, "nothing happens");
}

// A reason may read like a report. Ranks 0 and 2 have no connection: rank 1 passes the cause on as it is.
TEST_P(Aborts, TheRankThatReportsIsNamedOnce) {
    Job job = job_on(GetParam(), 3);
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->tuning = "default"; };
    std::atomic<uint32_t> met{0};
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        uint8_t byte = 0;
        gcoll_pair *before = nullptr, *after = nullptr;
        if (rank > 0) {
            EXPECT_GCOLL_OK(gcoll_context_pair(context, rank - 1, &before));
            EXPECT_GCOLL_OK(gcoll_pair_recv(before, 0, &byte, 1));
        }
        if (rank < 2) {
            EXPECT_GCOLL_OK(gcoll_context_pair(context, rank + 1, &after));
            EXPECT_GCOLL_OK(gcoll_pair_send(after, 0, &byte, 1));
        }
        met++;
        EXPECT_TRUE(await(met, 3));
        if (rank == 0)
            gcoll_context_abort(context, "stop (reported by rank 7)");
        EXPECT_EQ(rank == 0 ? gcoll_pair_send(after, 1, &byte, 1) : gcoll_pair_recv(before, 1, &byte, 1),
                  GCOLL_ERR_ABORTED);
        EXPECT_EQ(std::string(gcoll_last_error()), std::string("rank 0 aborted: stop (reported by rank 7)") +
                                                       (rank == 0 ? "" : " (reported by rank 0)"));
    });
}

TEST_P(Aborts, RightBeforeTheEndReachesTheOthers) {
    std::atomic<uint32_t> through{0};
    run_threads(3, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        through++;
        EXPECT_TRUE(await(through, 3)); // an abort may overtake the end of a call
        if (rank == 0) {
            gcoll_context_abort(context, "gone with a bang");
            return; // no call notices it before destroy
        }
        gcoll_status status = gcoll_barrier(context, nullptr);
        EXPECT_EQ(status, GCOLL_ERR_ABORTED) << told(status);
        EXPECT_NE(std::string(gcoll_last_error()).find("with a bang"), std::string::npos)
            << gcoll_last_error();
    });
}

INSTANTIATE_TEST_SUITE_P(Transports, Aborts, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

// ---- Strangers --------------------------------------------------------------------------------------------

// A view of a memory store that remembers the addresses that it has seen.
struct Spy {
    gcoll_store *base = nullptr;
    std::mutex lock;
    std::vector<uint16_t> ports;

    static Spy *of(void *self) { return static_cast<Spy *>(self); }
    static gcoll_status set(void *self, const char *key, const void *value, size_t bytes) {
        if (strstr(key, "/addr.")) {
            std::string text(static_cast<const char *>(value), bytes);
            size_t at = text.find("port=");
            std::lock_guard<std::mutex> guard(of(self)->lock);
            if (at != std::string::npos)
                of(self)->ports.push_back(static_cast<uint16_t>(std::stoi(text.substr(at + 5))));
        }
        return gcoll_store_set(of(self)->base, key, value, bytes);
    }
    static gcoll_status get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
        return gcoll_store_get(of(self)->base, key, value, capacity, bytes);
    }
    static gcoll_status wait(void *self, const char *key, int64_t timeout_ms) {
        return gcoll_store_wait(of(self)->base, key, timeout_ms);
    }
    static gcoll_status add(void *self, const char *key, int64_t delta, int64_t *value) {
        return gcoll_store_add(of(self)->base, key, delta, value);
    }
    static gcoll_status remove(void *self, const char *key) {
        return gcoll_store_remove(of(self)->base, key);
    }
};

// Connects to a port of this host, and sends `words`, which may be empty.
int intrude(uint16_t port, const std::string &words) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address), 0) << strerror(errno);
    send(fd, words.data(), words.size(), MSG_NOSIGNAL);
    return fd;
}

TEST(Strangers, DisturbNobody) {
    constexpr uint32_t kRanks = 3;
    Watchdog watchdog(60);
    Spy spy;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&spy.base));
    gcoll_store_ops ops = {sizeof ops,  "spy",   Spy::set, Spy::get, Spy::wait, Spy::add,
                           Spy::remove, nullptr, nullptr,  nullptr,  nullptr,   nullptr};
    gcoll_store *stores[kRanks] = {};
    std::atomic<uint32_t> joined{0}, intruded{0};
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; rank++) {
        ASSERT_GCOLL_OK(gcoll_store_create(&ops, &spy, &stores[rank]));
        threads.emplace_back([&, rank] {
            Job job;
            job.size = kRanks;
            gcoll_context *context = join(stores[rank], job, rank);
            joined++;
            // Some strangers come before the first connection, some while the job runs.
            for (uint32_t round = 0; context && round < 2000; round++) {
                std::vector<float> data(100, 1);
                ASSERT_GCOLL_OK(sum_floats(context, data));
                ASSERT_EQ(data[50], 3.0f);
                if (round == 0 || round == 1000)
                    EXPECT_TRUE(await(intruded, round / 1000 + 1));
            }
            gcoll_context_destroy(context);
        });
    }
    EXPECT_TRUE(await(joined, kRanks));
    std::vector<int> fds;
    const std::string zeros(100000, '\0'), half_hello = "gcollHI",
                                           http = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    EXPECT_EQ(spy.ports.size(), kRanks);
    for (int wave = 0; wave < 2; wave++) {
        for (uint16_t port : spy.ports)
            for (const std::string &words : {std::string(), http, zeros, half_hello, std::string(64, '\xff')})
                for (int repeat = 0; repeat < 15; repeat++)
                    fds.push_back(intrude(port, words));
        intruded++;
    }
    for (std::thread &thread : threads)
        thread.join();
    for (int fd : fds)
        close(fd);
    for (gcoll_store *store : stores)
        gcoll_store_destroy(store);
    gcoll_store_destroy(spy.base);
}

} // namespace
