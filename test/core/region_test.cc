// test/core/region_test.cc - tests of regions: puts, gets and notifications over every transport, and misuse
// that breaks a context.
#include "test/kit/harness.h"

#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>

extern "C" {
#include "test/core/region_peek.h"
}

namespace {

using gcoll_test::fill_by_period;
using gcoll_test::Group;
using gcoll_test::Job;
using gcoll_test::kPeriod;
using gcoll_test::run_threads;
using gcoll_test::transports;

using Keys = std::vector<gcoll_region_key>;

gcoll_region *region_of(gcoll_context *context, std::vector<uint8_t> &memory) {
    gcoll_region *region = nullptr;
    EXPECT_GCOLL_OK(gcoll_region_create(context, memory.data(), memory.size(), &region));
    return region;
}

// Gives every rank the keys of all ranks.
Keys exchange(gcoll_context *context, gcoll_region *region) {
    gcoll_region_key own = {};
    Keys keys(gcoll_context_size(context));
    EXPECT_GCOLL_OK(gcoll_region_export(region, &own));
    EXPECT_GCOLL_OK(gcoll_allgather(context, &own, keys.data(), sizeof own, GCOLL_UINT8, nullptr));
    return keys;
}

void barrier(gcoll_context *context) {
    EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
}

std::vector<uint8_t> bytes_of(uint32_t from, uint32_t to, uint64_t bytes) {
    std::vector<uint8_t> data(bytes);
    fill_by_period(data, [&](uint64_t i) {
        return static_cast<uint8_t>((from * 57 + to * 101 + i * 13 + 1) % kPeriod);
    });
    return data;
}

// Expects that a call returned this status, with a text that has these words.
void expect_error(gcoll_status got, gcoll_status wanted, const char *words) {
    EXPECT_EQ(got, wanted) << gcoll_last_error();
    EXPECT_NE(std::string(gcoll_last_error()).find(words), std::string::npos) << gcoll_last_error();
}

class Regions : public testing::TestWithParam<const char *> {};

// Each rank puts into the regions of all ranks, its own too, at a place of its own. Gets read it back.
TEST_P(Regions, EveryRankPutsToAndGetsFromEvery) {
    for (uint32_t ranks : {1u, 2u, 5u})
        run_threads(
            ranks, GetParam(),
            [&](uint32_t rank, gcoll_context *context) {
                for (uint64_t bytes : {1u, 63u, 64u, 4096u, 65537u, 300000u}) {
                    std::vector<uint8_t> memory(bytes * ranks, 0xee);
                    gcoll_region *region = region_of(context, memory);
                    Keys keys = exchange(context, region);
                    std::vector<std::vector<uint8_t>> data(ranks, std::vector<uint8_t>(bytes));
                    std::vector<gcoll_request *> requests(ranks);
                    for (uint32_t to = 0; to < ranks; to++) {
                        data[to] = bytes_of(rank, to, bytes);
                        EXPECT_GCOLL_OK(gcoll_put_start(context, &keys[to], rank * bytes, data[to].data(),
                                                        bytes, GCOLL_PUT_NOTIFY, &requests[to]));
                    }
                    for (gcoll_request *&request : requests)
                        EXPECT_GCOLL_OK(gcoll_request_wait(&request));
                    EXPECT_GCOLL_OK(gcoll_region_wait(region, ranks));
                    for (uint32_t from = 0; from < ranks; from++)
                        ASSERT_EQ(memcmp(&memory[from * bytes], bytes_of(from, rank, bytes).data(), bytes), 0)
                            << from;
                    barrier(context);
                    for (uint32_t owner = 0; owner < ranks; owner++) {
                        std::vector<uint8_t> got(bytes + 1, 0x77);
                        const uint32_t from = (rank + 1) % ranks;
                        EXPECT_GCOLL_OK(gcoll_get(context, &keys[owner], from * bytes, got.data(), bytes));
                        ASSERT_EQ(memcmp(got.data(), bytes_of(from, owner, bytes).data(), bytes), 0) << owner;
                        EXPECT_EQ(got[bytes], 0x77) << "beyond the end";
                    }
                    uint64_t notified = 0;
                    EXPECT_GCOLL_OK(gcoll_region_notified(region, &notified));
                    EXPECT_EQ(notified, ranks);
                    barrier(context);
                    gcoll_region_destroy(region);
                }
            });
}

// Each rank has a key of each region that is for it alone.
TEST_P(Regions, KeysForOneRankAreOfUseToIt) {
    run_threads(
        3, GetParam(),
        [&](uint32_t rank, gcoll_context *context) {
            std::vector<uint8_t> memory(3000, 0xee);
            gcoll_region *region = region_of(context, memory);
            Keys mine(3), keys(3);
            for (uint32_t to = 0; to < 3; to++)
                EXPECT_GCOLL_OK(gcoll_region_export_to(region, to, &mine[to]));
            EXPECT_NE(memcmp(&mine[0], &mine[1], sizeof mine[0]), 0);
            expect_error(gcoll_region_export_to(region, 3, &mine[0]), GCOLL_ERR_INVALID,
                         "rank: is 3; allowed are 0 to 2");
            EXPECT_GCOLL_OK(
                gcoll_alltoall(context, mine.data(), keys.data(), sizeof mine[0], GCOLL_UINT8, nullptr));
            for (uint32_t to = 0; to < 3; to++) {
                const std::vector<uint8_t> data = bytes_of(rank, to, 1000);
                EXPECT_GCOLL_OK(
                    gcoll_put(context, &keys[to], rank * 1000, data.data(), data.size(), GCOLL_PUT_NOTIFY));
            }
            EXPECT_GCOLL_OK(gcoll_region_wait(region, 3));
            for (uint32_t from = 0; from < 3; from++)
                EXPECT_EQ(memcmp(&memory[from * 1000], bytes_of(from, rank, 1000).data(), 1000), 0) << from;
            barrier(context);
            gcoll_region_destroy(region);
        });
}

// Whoever uses the key of another rank is named, and reads and writes nothing.
TEST_P(Regions, AKeyForAnotherRankIsRefused) {
    for (const bool is_put : {true, false})
        run_threads(
            3, GetParam(),
            [&](uint32_t rank, gcoll_context *context) {
                std::vector<uint8_t> memory(100, 0xee), data(100, 0x11);
                gcoll_region *region = region_of(context, memory);
                gcoll_region_key key = {};
                EXPECT_GCOLL_OK(gcoll_region_export_to(region, 1, &key));
                // The others may still be in it when rank 2 has gone on.
                gcoll_status status = gcoll_broadcast(context, &key, sizeof key, GCOLL_UINT8, 0, nullptr);
                if (rank == 2) {
                    EXPECT_GCOLL_OK(status);
                    status = is_put ? gcoll_put(context, &key, 0, data.data(), 100, 0)
                                    : gcoll_get(context, &key, 0, data.data(), 100);
                    EXPECT_NE(status, GCOLL_OK);
                    EXPECT_EQ(data, std::vector<uint8_t>(100, 0x11));
                } else {
                    status = status == GCOLL_OK ? gcoll_barrier(context, nullptr) : status;
                    EXPECT_EQ(status, GCOLL_ERR_PROTOCOL);
                }
                EXPECT_NE(std::string(gcoll_last_error()).find("or has not exposed to it"), std::string::npos)
                    << gcoll_last_error();
                EXPECT_EQ(memory, std::vector<uint8_t>(100, 0xee));
                gcoll_region_destroy(region);
            });
}

// More accesses than the windows of both ends hold, of two sizes, in both directions at once.
TEST_P(Regions, ManyInFlight) {
    constexpr uint32_t kAccesses = 1000;
    run_threads(2, GetParam(), [](uint32_t rank, gcoll_context *context) {
        for (uint64_t bytes : {8u, 20000u}) {
            std::vector<uint8_t> memory(kAccesses * bytes), got(kAccesses * bytes);
            std::vector<uint8_t> data = bytes_of(rank, 1 - rank, kAccesses * bytes);
            gcoll_region *region = region_of(context, memory);
            Keys keys = exchange(context, region);
            std::vector<gcoll_request *> requests(kAccesses);
            for (uint32_t i = 0; i < kAccesses; i++)
                EXPECT_GCOLL_OK(gcoll_put_start(context, &keys[1 - rank], i * bytes, &data[i * bytes], bytes,
                                                i % 2, &requests[i]));
            for (uint32_t i = kAccesses; i-- > 0;)
                EXPECT_GCOLL_OK(gcoll_request_wait(&requests[i]));
            EXPECT_GCOLL_OK(gcoll_region_wait(region, kAccesses / 2));
            barrier(context);
            for (uint32_t i = 0; i < kAccesses; i++)
                EXPECT_GCOLL_OK(gcoll_get_start(context, &keys[1 - rank], i * bytes, &got[i * bytes], bytes,
                                                &requests[i]));
            for (gcoll_request *&request : requests)
                EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            EXPECT_TRUE(got == data) << "what was put comes back";
            uint64_t notified = 0;
            EXPECT_GCOLL_OK(gcoll_region_notified(region, &notified));
            EXPECT_EQ(notified, kAccesses / 2);
            barrier(context);
            gcoll_region_destroy(region);
        }
    });
}

// All accesses are over before the barrier, so the owner may destroy the region after it, though it has not
// heard yet that the last answer is gone: it serves in a call of its own, and then nothing but a barrier
// moves messages.
TEST_P(Regions, DestroyedAtOnceAfterABarrier) {
    std::atomic<uint32_t> ended{0}; // rounds whose get is over
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        gcoll_pair *pair = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_pair(context, 1 - rank, &pair));
        for (uint32_t round = 1; round <= 40; round++) {
            std::vector<uint8_t> memory(8), got(8);
            gcoll_region *region = region_of(context, memory);
            Keys keys = exchange(context, region);
            int32_t word = 0;
            gcoll_request *request = nullptr;
            if (rank == 0) {
                ASSERT_GCOLL_OK(gcoll_get_start(context, &keys[1], 0, got.data(), got.size(), &request));
                ASSERT_GCOLL_OK(gcoll_request_wait(&request));
                ended = round;
            } else {
                ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair, 1, &word, sizeof word, &request));
                const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
                while (ended < round && std::chrono::steady_clock::now() < until) {
                    int done = 0;
                    ASSERT_GCOLL_OK(gcoll_request_test(&request, &done));
                    for (int i = 0; i < 20 && ended < round; i++)
                        std::this_thread::sleep_for(std::chrono::microseconds(10));
                }
                std::this_thread::sleep_for(std::chrono::microseconds(100)); // the barrier's message is there
            }
            barrier(context);
            gcoll_region_destroy(region);
            if (rank == 0)
                ASSERT_GCOLL_OK(gcoll_pair_send(pair, 1, &word, sizeof word));
            else
                ASSERT_GCOLL_OK(gcoll_request_wait(&request));
        }
    });
}

// Accesses run beside collectives and tagged messages. A put of no bytes notifies.
TEST_P(Regions, BesideCollectives) {
    run_threads(
        3, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            std::vector<uint8_t> memory(3 * 100000);
            gcoll_region *region = region_of(context, memory);
            Keys keys = exchange(context, region);
            std::vector<uint8_t> data(100000, static_cast<uint8_t>(rank + 1));
            std::vector<float> sum(50000);
            for (int turn = 0; turn < 10; turn++) {
                gcoll_request *put = nullptr, *notice = nullptr, *reduce = nullptr;
                std::fill(sum.begin(), sum.end(), 1.0f);
                EXPECT_GCOLL_OK(gcoll_put_start(context, &keys[(rank + 1) % 3], rank * data.size(),
                                                data.data(), data.size(), 0, &put));
                EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, sum.data(), sum.size(), GCOLL_FLOAT32,
                                                      GCOLL_SUM, nullptr, &reduce));
                EXPECT_GCOLL_OK(gcoll_request_wait(&put));
                EXPECT_GCOLL_OK(gcoll_put_start(context, &keys[(rank + 1) % 3], 0, nullptr, 0,
                                                GCOLL_PUT_NOTIFY, &notice));
                EXPECT_GCOLL_OK(gcoll_region_wait(region, static_cast<uint64_t>(turn) + 1));
                const uint32_t from = (rank + 2) % 3;
                EXPECT_EQ(memory[from * data.size() + 99999], from + 1);
                EXPECT_GCOLL_OK(gcoll_request_wait(&notice));
                EXPECT_GCOLL_OK(gcoll_request_wait(&reduce));
                EXPECT_EQ(sum.back(), 3.0f);
            }
            barrier(context);
            gcoll_region_destroy(region);
        });
}

// With a progress thread the owner need not call gcoll.
TEST(RegionsProgress, TheOwnerComputes) {
    Job job;
    job.size = 2;
    job.transport = "tcp";
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->progress_thread = 1; };
    std::atomic<bool> seen{false};
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        std::vector<uint8_t> memory(1 << 20);
        gcoll_region *region = region_of(context, memory);
        Keys keys = exchange(context, region);
        if (rank == 0) {
            std::vector<uint8_t> data(1 << 20, 5), back(1 << 20);
            EXPECT_GCOLL_OK(gcoll_put(context, &keys[1], 0, data.data(), data.size(), 0));
            EXPECT_GCOLL_OK(gcoll_get(context, &keys[1], 0, back.data(), back.size()));
            EXPECT_TRUE(back == data);
            seen = true;
        } else {
            const int64_t start = gcoll_test::now_ms();
            while (!seen && gcoll_test::now_ms() - start < 15000)
                std::this_thread::yield();
            EXPECT_TRUE(seen) << "nobody but this rank's own thread could serve";
        }
        barrier(context);
        gcoll_region_destroy(region);
    });
}

TEST(RegionErrors, NameTheArgument) {
    run_threads(
        2, "inproc",
        [](uint32_t rank, gcoll_context *context) {
            std::vector<uint8_t> memory(100);
            uint8_t data[8] = {};
            gcoll_region *region = nullptr;
            gcoll_request *request = nullptr;
            uint64_t count;
            expect_error(gcoll_region_create(context, nullptr, 1, &region), GCOLL_ERR_INVALID, "data");
            expect_error(gcoll_region_create(context, memory.data(), 0, &region), GCOLL_ERR_INVALID,
                         "bytes: is 0");
            EXPECT_EQ(gcoll_region_create(context, memory.data(), UINT64_MAX, &region), GCOLL_ERR_INVALID);
            region = region_of(context, memory);
            Keys keys = exchange(context, region);
            const gcoll_region_key &key = keys[1 - rank];
            EXPECT_EQ(gcoll_put(context, nullptr, 0, data, 8, 0), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_put(context, &key, 0, nullptr, 8, 0), GCOLL_ERR_INVALID);
            expect_error(gcoll_put(context, &key, 0, data, 8, 6), GCOLL_ERR_INVALID, "flags");
            expect_error(gcoll_put(context, &key, 93, data, 8, 0), GCOLL_ERR_INVALID,
                         "93 and 8; the region of rank");
            EXPECT_EQ(gcoll_get(context, &key, UINT64_MAX, data, 8), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_get(context, &key, 0, data, UINT64_MAX), GCOLL_ERR_INVALID);
            gcoll_region_key wrong = key;
            wrong.bytes[0] ^= 1;
            EXPECT_EQ(gcoll_get_start(context, &wrong, 0, data, 8, &request), GCOLL_ERR_INVALID);
            wrong = key;
            wrong.bytes[8] ^= 1;
            expect_error(gcoll_get_start(context, &wrong, 0, data, 8, &request), GCOLL_ERR_INVALID,
                         "another context");
            wrong = keys[rank];
            wrong.bytes[41] ^= 1; // 256 more bytes than there are
            expect_error(gcoll_put(context, &wrong, 93, data, 8, 0), GCOLL_ERR_INVALID, "more bytes");
            EXPECT_EQ(gcoll_region_notified(region, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_region_notified(nullptr, &count), GCOLL_ERR_INVALID);
            EXPECT_GCOLL_OK(gcoll_context_health(context));
            barrier(context);
            gcoll_region_destroy(region);
            gcoll_region_destroy(nullptr);
        });
}

TEST(RegionErrors, WaitingInVainBreaksNothing) {
    Job job;
    job.size = 2;
    job.timeout_ms = 300;
    run_threads(job, [](uint32_t, gcoll_context *context) {
        std::vector<uint8_t> memory(8);
        gcoll_region *region = region_of(context, memory);
        expect_error(gcoll_region_wait(region, 2), GCOLL_ERR_TIMEOUT, "0 of 2");
        EXPECT_GCOLL_OK(gcoll_context_health(context));
        gcoll_region_destroy(region);
    });
}

TEST(RegionErrors, AloneNobodyElseNotifies) {
    run_threads(
        1, "inproc",
        [](uint32_t, gcoll_context *context) {
            std::vector<uint8_t> memory(8);
            gcoll_region *region = region_of(context, memory);
            EXPECT_EQ(gcoll_region_wait(region, 1), GCOLL_ERR_STATE);
            gcoll_region_destroy(region);
        });
}

// A key is used after its region was destroyed. Both sides get an error that names the user.
TEST_P(Regions, OneThatIsGone) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            std::vector<uint8_t> memory(64);
            uint8_t data[8] = {};
            gcoll_region *region = region_of(context, memory);
            Keys keys = exchange(context, region);
            gcoll_region_destroy(region);
            barrier(context);
            const gcoll_status status =
                rank == 0 ? gcoll_get(context, &keys[1], 0, data, 8) : gcoll_barrier(context, nullptr);
            if (std::string("ibverbs") == GetParam()) { // the device sees it, and not the owner
                expect_error(status, GCOLL_ERR_PEER, "remote access error");
                EXPECT_EQ(gcoll_context_culprit(context), 1);
                return;
            }
            expect_error(status, GCOLL_ERR_PROTOCOL, "rank 0 gets from a region that rank 1 does not have");
            EXPECT_EQ(gcoll_context_culprit(context), 0);
        });
}

// Kills a rank that puts, or a rank whose region is put into. The other rank names it. Ranks are processes.
TEST(RegionFailure, AKilledRankIsNamed) {
    for (uint32_t victim : {0u, 1u}) {
        gcoll_test::Folder folder;
        gcoll_test::Shared<std::atomic<uint32_t>> puts;
        gcoll_test::Processes ranks(2, [&](uint32_t rank) {
            gcoll_store *store = nullptr;
            EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
            Job job;
            job.size = 2;
            job.transport = "tcp";
            job.timeout_ms = 15000;
            gcoll_context *context = gcoll_test::join(store, job, rank);
            if (!context)
                return gcoll_test::kFailed;
            std::vector<uint8_t> memory(4 << 20), data(4 << 20, 9);
            gcoll_region *region = region_of(context, memory);
            Keys keys = exchange(context, region);
            gcoll_status status = GCOLL_OK;
            for (uint64_t turn = 1; status == GCOLL_OK; turn++) {
                status = rank == 0
                             ? gcoll_put(context, &keys[1], 0, data.data(), data.size(), GCOLL_PUT_NOTIFY)
                             : gcoll_region_wait(region, turn);
                (*puts)++;
            }
            EXPECT_EQ(status, GCOLL_ERR_PEER) << gcoll_last_error();
            EXPECT_EQ(gcoll_context_culprit(context), static_cast<int64_t>(victim)) << gcoll_last_error();
            gcoll_region_destroy(region);
            gcoll_context_destroy(context);
            gcoll_store_destroy(store);
            return 0;
        });
        EXPECT_TRUE(gcoll_test::await(*puts, 20));
        ranks.signal(victim, SIGKILL);
        ranks.expect_success(10000, victim);
    }
}

// The region may outlive the context, by mistake.
TEST(RegionErrors, OneWhoseContextIsGone) {
    Job job;
    job.size = 2;
    std::vector<uint8_t> memory(64);
    gcoll_region *region = nullptr;
    {
        Group group(job);
        region = region_of(group[0], memory);
    }
    uint64_t count;
    EXPECT_EQ(gcoll_region_notified(region, &count), GCOLL_ERR_STATE);
    EXPECT_EQ(gcoll_region_wait(region, 1), GCOLL_ERR_STATE);
    gcoll_region_destroy(region);
}

INSTANTIATE_TEST_SUITE_P(Transports, Regions, transports(),
                         [](const auto &given) { return std::string(given.param); });

// Which way an access goes depends on the endpoint's state, which another thread may be changing: it is
// looked at once this call has claimed the context.
TEST(RegionCalls, AskTheTransportInsideTheCall) {
    region_asked asked = {};
    run_threads(2, "tcp", [&](uint32_t rank, gcoll_context *context) {
        if (rank == 0)
            region_watch(context, &asked);
        std::vector<uint8_t> memory(64, 7);
        gcoll_region *region = region_of(context, memory);
        Keys keys = exchange(context, region);
        if (rank == 0) {
            std::vector<uint8_t> got(8, 0);
            EXPECT_GCOLL_OK(gcoll_get(context, &keys[0], 0, got.data(), got.size()));
            EXPECT_EQ(got, std::vector<uint8_t>(8, 7));
            gcoll_request *request = nullptr;
            EXPECT_GCOLL_OK(gcoll_put_start(context, &keys[0], 8, got.data(), got.size(), 0, &request));
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        }
        barrier(context);
        gcoll_region_destroy(region);
    });
    EXPECT_EQ(asked.inside, 2u);
    EXPECT_EQ(asked.outside, 0u);
}

} // namespace
