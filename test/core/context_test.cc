// test/core/context_test.cc - tests of contexts: several at once, duplicates, options, memory and log.
#include "test/kit/calls.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

using namespace gcoll_test;

class Contexts : public testing::TestWithParam<const char *> {
  protected:
    static Job job(uint32_t size) { return job_on(GetParam(), size); }
};

TEST_P(Contexts, SayRankAndSize) {
    run_threads(
        3, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            EXPECT_EQ(gcoll_context_rank(context), rank);
            EXPECT_EQ(gcoll_context_size(context), 3u);
            EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
            EXPECT_EQ(gcoll_context_culprit(context), -1);
        });
}

// Four jobs of three ranks, each rank in its own thread, all at once.
TEST_P(Contexts, SeveralJobsAtOnce) {
    std::vector<std::thread> jobs;
    for (uint32_t number = 0; number < 4; number++)
        jobs.emplace_back([number] {
            run_threads(job(3), [number](uint32_t rank, gcoll_context *context) {
                for (uint64_t round = 0; round < 200; round++)
                    ASSERT_EQ(sum_of(context, number * 1000 + rank + round), 3 * (number * 1000 + round) + 3);
            });
        });
    for (std::thread &each : jobs)
        each.join();
}

// One store, several job names, and one thread that is a rank of all of them.
TEST_P(Contexts, OneThreadInSeveralJobsOfOneStore) {
    gcoll_store *store = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
    gcoll_hub *hubs[3] = {};
    for (gcoll_hub *&hub : hubs)
        ASSERT_GCOLL_OK(gcoll_hub_create(2, &hub));
    Watchdog watchdog(60);
    auto rank_main = [&](uint32_t rank) {
        gcoll_context *contexts[3] = {};
        const char *names[3] = {"a", "b", "c"};
        for (int k = 0; k < 3; k++) {
            Job each = job(2);
            each.name = names[k];
            gcoll_context_options options = options_of(each, rank, store, hubs[k]);
            EXPECT_GCOLL_OK(gcoll_context_create(&options, &contexts[k]));
        }
        for (uint64_t round = 0; round < 50; round++)
            for (uint64_t k = 0; k < 3; k++)
                EXPECT_EQ(sum_of(contexts[k], rank + k + round), 2 * (k + round) + 1);
        for (gcoll_context *context : contexts)
            gcoll_context_destroy(context);
    };
    std::thread other(rank_main, 1);
    rank_main(0);
    other.join();
    for (gcoll_hub *hub : hubs)
        gcoll_hub_destroy(hub);
    gcoll_store_destroy(store);
}

// ---- Duplicates -----------------------------------------------------------------------------------------

TEST_P(Contexts, DuplicateWorksBesideItsParent) {
    run_threads(
        job(4),
        [](uint32_t rank, gcoll_context *parent) {
            gcoll_context *child = nullptr, *grandchild = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(parent, &child));
            EXPECT_EQ(gcoll_context_rank(child), rank);
            EXPECT_EQ(gcoll_context_size(child), 4u);
            std::thread busy([child] { // the child in another thread, at the same time, out of step
                for (uint64_t round = 0; round < 300; round++)
                    ASSERT_EQ(sum_of(child, round), 4 * round);
            });
            for (uint64_t round = 0; round < 200; round++)
                ASSERT_EQ(sum_of(parent, round + rank), 4 * round + 6);
            busy.join();
            ASSERT_GCOLL_OK(gcoll_context_duplicate(child, &grandchild));
            EXPECT_EQ(sum_of(grandchild, 2), 8u);
            gcoll_context_destroy(child);
            EXPECT_EQ(sum_of(grandchild, 3), 12u);
            gcoll_context_destroy(grandchild);
            EXPECT_EQ(sum_of(parent, 1), 4u);
        });
}

TEST_P(Contexts, ParentMayGoFirst) {
    Group group(job(3));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 3; rank++)
        threads.emplace_back([&group, rank] {
            gcoll_context *child = nullptr;
            EXPECT_GCOLL_OK(gcoll_context_duplicate(group[rank], &child));
            group.leave(rank);
            for (uint64_t round = 0; child && round < 50; round++)
                EXPECT_EQ(sum_of(child, round), 3 * round);
            gcoll_context_destroy(child);
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST_P(Contexts, AbortOfADuplicateLeavesTheParentAlone) {
    run_threads(
        job(3),
        [](uint32_t rank, gcoll_context *parent) {
            gcoll_context *child = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(parent, &child));
            EXPECT_EQ(sum_of(child, 1), 3u);
            EXPECT_GCOLL_OK(gcoll_barrier(parent, nullptr)); // all are through with that
            if (rank == 1)
                gcoll_context_abort(child, "enough of this one");
            uint64_t word = 0;
            gcoll_status status = gcoll_allreduce(child, nullptr, &word, 1, GCOLL_UINT64, GCOLL_SUM, nullptr);
            EXPECT_EQ(status, GCOLL_ERR_ABORTED) << told(status);
            EXPECT_EQ(sum_of(parent, 5), 15u);
            gcoll_context *refused = nullptr;
            EXPECT_EQ(gcoll_context_duplicate(child, &refused), GCOLL_ERR_ABORTED);
            EXPECT_EQ(refused, nullptr);
            gcoll_context_destroy(child);
            EXPECT_EQ(sum_of(parent, 6), 18u);
        });
}

TEST(ContextsAlone, DuplicateOfOneRank) {
    Job job;
    Group group(job);
    gcoll_context *child = nullptr;
    ASSERT_GCOLL_OK(gcoll_context_duplicate(group[0], &child));
    group.leave(0);
    EXPECT_EQ(sum_of(child, 7), 7u);
    EXPECT_EQ(gcoll_context_duplicate(nullptr, &child), GCOLL_ERR_INVALID);
    gcoll_context_destroy(child);
    gcoll_context_destroy(nullptr);
}

// ---- Memory -----------------------------------------------------------------------------------------------

struct Ledger {
    std::mutex lock;
    std::map<void *, size_t> live;
    uint64_t calls = 0, misaligned = 0, wrong = 0;
    bool refuse = false;

    static void *allocate(void *arg, size_t bytes, size_t alignment) {
        auto *self = static_cast<Ledger *>(arg);
        std::lock_guard<std::mutex> guard(self->lock);
        if (self->refuse)
            return nullptr;
        void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        self->calls++;
        self->wrong += bytes == 0 || (alignment & (alignment - 1)) != 0;
        self->live[memory] = bytes;
        return memory;
    }
    static void release(void *arg, void *memory, size_t bytes) {
        auto *self = static_cast<Ledger *>(arg);
        std::lock_guard<std::mutex> guard(self->lock);
        auto found = self->live.find(memory);
        if (found == self->live.end() || found->second != bytes) {
            self->wrong++;
            return;
        }
        self->live.erase(found);
        free(memory);
    }
    uint64_t count() {
        std::lock_guard<std::mutex> guard(lock);
        return calls;
    }
};

TEST_P(Contexts, OwnAllocatorGetsEverythingBack) {
    Ledger ledgers[4];
    gcoll_allocator allocators[4];
    for (int rank = 0; rank < 4; rank++)
        allocators[rank] = {Ledger::allocate, Ledger::release, &ledgers[rank]};
    Job each = job(4);
    each.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        options->allocator = &allocators[rank];
    };
    run_threads(each, [](uint32_t rank, gcoll_context *context) {
        std::vector<float> data(10000, 1);
        gcoll_operation *operation = nullptr;
        for (uint64_t count = 1; count < 200; count++) { // more shapes than are kept
            ASSERT_GCOLL_OK(
                gcoll_allreduce(context, nullptr, data.data(), count, GCOLL_FLOAT32, GCOLL_MAX, nullptr));
        }
        ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32,
                                               GCOLL_SUM, nullptr, &operation));
        ASSERT_GCOLL_OK(gcoll_operation_run(operation));
        gcoll_operation_destroy(operation);
        gcoll_pair *pair = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_pair(context, rank ^ 1, &pair));
        for (uint32_t tag = 0; tag < 100; tag++) {
            gcoll_request *request = nullptr;
            uint32_t word = tag;
            ASSERT_GCOLL_OK(gcoll_pair_send_start(pair, tag, &rank, sizeof rank, &request));
            ASSERT_GCOLL_OK(gcoll_pair_recv(pair, tag, &word, sizeof word));
            ASSERT_GCOLL_OK(gcoll_request_wait(&request));
            EXPECT_EQ(word, rank ^ 1);
        }
        gcoll_context *child = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &child));
        sum_of(child, 1);
        gcoll_context_destroy(child);
    });
    for (Ledger &ledger : ledgers) {
        EXPECT_GT(ledger.calls, 0u);
        EXPECT_EQ(ledger.wrong, 0u);
        EXPECT_TRUE(ledger.live.empty()) << ledger.live.size() << " not released";
    }
}

// A peer that is ahead for the first time costs one block of memory, at any run. Nothing else is allocated.
TEST_P(Contexts, RepeatedCallsAllocateNothing) {
    Ledger ledgers[3];
    gcoll_allocator allocators[3];
    for (int rank = 0; rank < 3; rank++)
        allocators[rank] = {Ledger::allocate, Ledger::release, &ledgers[rank]};
    Job each = job(3);
    each.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        options->allocator = &allocators[rank];
    };
    run_threads(each, [&](uint32_t rank, gcoll_context *context) {
        std::vector<float> in(5000, 1), out(5000);
        gcoll_operation *operation = nullptr;
        ASSERT_GCOLL_OK(gcoll_allreduce_create(context, in.data(), out.data(), out.size(), GCOLL_FLOAT32,
                                               GCOLL_SUM, nullptr, &operation));
        uint64_t before = 0;
        for (int round = 0; round < 300; round++) {
            if (round == 2)
                before = ledgers[rank].count();
            ASSERT_GCOLL_OK(gcoll_operation_run(operation));
            ASSERT_GCOLL_OK(
                gcoll_allreduce(context, nullptr, out.data(), 100, GCOLL_FLOAT32, GCOLL_AVG, nullptr));
            ASSERT_GCOLL_OK(gcoll_broadcast(context, out.data(), 5000, GCOLL_FLOAT32, 1, nullptr));
            ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
        }
        EXPECT_LE(ledgers[rank].count() - before, 2u);
        gcoll_operation_destroy(operation);
    });
}

TEST(ContextsAlone, NoMemoryIsAnErrorAndNotAnEnd) {
    Ledger ledger;
    gcoll_allocator allocator = {Ledger::allocate, Ledger::release, &ledger};
    Job job;
    job.adjust = [&](uint32_t, gcoll_context_options *options) { options->allocator = &allocator; };
    {
        Group group(job);
        float data[8] = {};
        ledger.refuse = true;
        gcoll_operation *operation = nullptr;
        EXPECT_EQ(gcoll_allreduce(group[0], nullptr, data, 8, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                  GCOLL_ERR_NO_MEMORY);
        EXPECT_EQ(gcoll_barrier_create(group[0], nullptr, &operation), GCOLL_ERR_NO_MEMORY);
        ledger.refuse = false;
        EXPECT_GCOLL_OK(gcoll_allreduce(group[0], nullptr, data, 8, GCOLL_FLOAT32, GCOLL_SUM, nullptr));
        gcoll_context_options options = options_of(job, 0, nullptr, nullptr);
        gcoll_context *context = nullptr;
        ledger.refuse = true;
        EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_NO_MEMORY);
        EXPECT_EQ(context, nullptr);
        ledger.refuse = false;
    }
    EXPECT_TRUE(ledger.live.empty());
    EXPECT_EQ(ledger.wrong, 0u);
}

// ---- Log --------------------------------------------------------------------------------------------------

struct Lines {
    std::vector<std::pair<gcoll_log_level, std::string>> all;
    static void add(void *arg, gcoll_log_level level, const char *text) {
        static_cast<Lines *>(arg)->all.emplace_back(level, text);
    }
    bool has(gcoll_log_level level, const std::string &word) const {
        for (const auto &line : all)
            if (line.first == level && line.second.find(word) != std::string::npos)
                return true;
        return false;
    }
};

TEST_P(Contexts, LogTellsWhatHappened) {
    Lines lines[2];
    Job each = job(2);
    each.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        options->log = Lines::add;
        options->log_arg = &lines[rank];
    };
    std::atomic<uint32_t> all_through{0};
    run_threads(each, [&](uint32_t rank, gcoll_context *context) {
        sum_of(context, 1);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        all_through++;
        if (rank == 0) {
            EXPECT_TRUE(await(all_through, 2)); // an abort may overtake the end of a call
            gcoll_context_abort(context, "as a test");
        }
        EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
    });
    for (const Lines &each_rank : lines) {
        EXPECT_TRUE(each_rank.has(GCOLL_LOG_INFO, "joined"));
        EXPECT_TRUE(each_rank.has(GCOLL_LOG_INFO, "allreduce"));
        EXPECT_TRUE(each_rank.has(GCOLL_LOG_ERROR, "as a test"));
        for (const auto &line : each_rank.all)
            EXPECT_EQ(line.second.find('\n'), std::string::npos) << line.second;
    }
}

// ---- Leaving
// ------------------------------------------------------------------------------------------------

// Sends messages to one rank and receives from another. News of all other ranks must arrive meanwhile.
void chat(gcoll_context *context, uint32_t to, uint32_t from) {
    gcoll_pair *there = nullptr, *here = nullptr;
    gcoll_request *request = nullptr;
    EXPECT_GCOLL_OK(gcoll_context_pair(context, to, &there));
    EXPECT_GCOLL_OK(gcoll_context_pair(context, from, &here));
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t word = 0;
        ASSERT_GCOLL_OK(gcoll_pair_send_start(there, 7, &i, sizeof i, &request));
        ASSERT_GCOLL_OK(gcoll_pair_recv(here, 7, &word, sizeof word));
        ASSERT_GCOLL_OK(gcoll_request_wait(&request));
        EXPECT_EQ(word, i);
    }
}

// A call without elements waits for no rank. So the ranks may make it one after the other, and leave.
TEST_P(Contexts, EmptyCallsNeedNobody) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    for (const char *algorithm : {"hierarchical", "ring", "auto"}) {
        options.algorithm = algorithm;
        Group group(job(3));
        for (uint32_t rank = 0; rank < group.size(); rank++) {
            gcoll_status status =
                gcoll_allreduce(group[rank], nullptr, nullptr, 0, GCOLL_FLOAT32, GCOLL_SUM, &options);
            EXPECT_EQ(status, GCOLL_OK) << algorithm << ", rank " << rank << ": " << gcoll_last_error();
            group.leave(rank);
        }
    }
}

// The root of a broadcast may have left, with the others knowing it, before another rank asks for the data.
TEST_P(Contexts, RootMayLeaveAfterItsBroadcast) {
    constexpr uint32_t kRanks = 5;
    bool buffered = std::string(GetParam()) == "tcp";
    std::atomic<uint32_t> left{0};
    Watchdog watchdog(60);
    Group group(job(kRanks));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; rank++)
        threads.emplace_back([&, rank] {
            std::vector<uint32_t> data(1000, rank == 0 ? 77 : 0);
            EXPECT_GCOLL_OK(gcoll_barrier(group[rank], nullptr));
            if (rank != 0 && buffered) {
                EXPECT_TRUE(await(left, 1));
                chat(group[rank], rank % (kRanks - 1) + 1, (rank + kRanks - 3) % (kRanks - 1) + 1);
            }
            EXPECT_GCOLL_OK(gcoll_broadcast(group[rank], data.data(), data.size(), GCOLL_UINT32, 0, nullptr));
            if (rank == 0) {
                group.leave(0);
                left = 1;
            }
            for (uint32_t word : data)
                ASSERT_EQ(word, 77u) << "rank " << rank;
        });
    for (std::thread &thread : threads)
        thread.join();
}

// Each collective may be the last one: a rank that has finished leaves at once.
TEST_P(Contexts, LeavingRightAfterTheLastCall) {
    for (int repeat = 0; repeat < 20; repeat++)
        run_threads(
            job(5),
            [repeat](uint32_t rank, gcoll_context *context) {
                if (repeat % 3 == 0) {
                    EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                } else if (repeat % 3 == 1) {
                    EXPECT_EQ(sum_of(context, rank), 10u);
                } else {
                    uint32_t word = rank == 2 ? 9 : 0;
                    EXPECT_GCOLL_OK(gcoll_broadcast(context, &word, 1, GCOLL_UINT32, 2, nullptr));
                    EXPECT_EQ(word, 9u);
                }
            });
}

INSTANTIATE_TEST_SUITE_P(Transports, Contexts, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

// ---- Options
// ------------------------------------------------------------------------------------------------

void expect_refused(const gcoll_context_options &options, const char *word) {
    gcoll_context *context = nullptr;
    gcoll_status status = gcoll_context_create(&options, &context);
    EXPECT_EQ(status, GCOLL_ERR_INVALID) << word << ": " << told(status);
    EXPECT_NE(std::string(gcoll_last_error()).find(word), std::string::npos)
        << "'" << gcoll_last_error() << "' does not name " << word;
    EXPECT_EQ(context, nullptr);
    gcoll_context_destroy(context);
}

TEST(ContextOptions, BadOnesAreNamed) {
    gcoll_store *store = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
    gcoll_context_options good;
    gcoll_context_options_init(&good);
    EXPECT_EQ(good.struct_size, sizeof good);
    good.store = store;
    struct Bad {
        const char *word;
        std::function<void(gcoll_context_options &)> spoil;
    };
    const std::string long_job(65, 'j');
    gcoll_allocator half = {Ledger::allocate, nullptr, nullptr};
    const gcoll_cost_parameters backwards = {1e-6, -1e-9, 0}, endless = {HUGE_VAL, 0, 0};
    const std::vector<Bad> bad = {
        {"struct_size", [](gcoll_context_options &o) { o.struct_size = 0; }},
        {"silence_ms", [](gcoll_context_options &o) { o.silence_ms = -2; }},
        {"silence_ms", [](gcoll_context_options &o) { o.silence_ms = 499; }},
        {"silence_ms", [](gcoll_context_options &o) { o.silence_ms = 86400001; }},
        {"struct_size", [](gcoll_context_options &o) { o.struct_size = sizeof o + 8; }},
        {"size", [](gcoll_context_options &o) { o.size = 0; }},
        {"size", [](gcoll_context_options &o) { o.size = UINT32_MAX; }},
        {"rank", [](gcoll_context_options &o) { o.rank = o.size; }},
        {"store", [](gcoll_context_options &o) { o.size = 2, o.store = nullptr; }},
        {"timeout_ms", [](gcoll_context_options &o) { o.timeout_ms = -1; }},
        {"timeout_ms", [](gcoll_context_options &o) { o.timeout_ms = INT64_MAX; }},
        {"spin_us", [](gcoll_context_options &o) { o.spin_us = -2; }},
        {"port", [](gcoll_context_options &o) { o.port_min = 9, o.port_max = 8; }},
        {"port", [](gcoll_context_options &o) { o.port_max = 8; }},
        {"job", [](gcoll_context_options &o) { o.job = ""; }},
        {"job", [](gcoll_context_options &o) { o.job = "a/b"; }},
        {"job", [&](gcoll_context_options &o) { o.job = long_job.c_str(); }},
        {"transport", [](gcoll_context_options &o) { o.transport = "pigeon"; }},
        {"allocator", [&](gcoll_context_options &o) { o.allocator = &half; }},
        {"cost", [&](gcoll_context_options &o) { o.cost = &backwards; }},
        {"cost", [&](gcoll_context_options &o) { o.cost = &endless; }},
        {"options.monitor: is 9; allowed are 0 and 1", [](gcoll_context_options &o) { o.monitor = 9; }},
        {"options.progress_thread: is -3; allowed are 0 and 1",
         [](gcoll_context_options &o) { o.progress_thread = -3; }},
        {"options.accelerator_times: is 2; allowed are 0 and 1",
         [](gcoll_context_options &o) { o.accelerator_times = 2; }},
        {"options.checksum: is 2; allowed are 0 and 1", [](gcoll_context_options &o) { o.checksum = 2; }},
        {"options.eager_bytes: is 18446744073709551615; allowed are 0 (default) to 1073741824",
         [](gcoll_context_options &o) { o.eager_bytes = UINT64_MAX; }},
        {"options.eager_pool_bytes: is 1; allowed are 0 (default) and",
         [](gcoll_context_options &o) { o.size = 2, o.eager_pool_bytes = 1; }},
        {"options.hub: is NULL", [](gcoll_context_options &o) { o.size = 2, o.transport = "inproc"; }},
    };
    for (const Bad &each : bad) {
        gcoll_context_options options = good;
        each.spoil(options);
        expect_refused(options, each.word);
    }
    gcoll_context *context = nullptr;
    EXPECT_EQ(gcoll_context_create(nullptr, &context), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_context_create(&good, nullptr), GCOLL_ERR_INVALID);
    EXPECT_GCOLL_OK(gcoll_context_create(&good, &context));
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
}

// All ranks learn of one rank's failure at once and by name, not only after the timeout.
TEST(ContextOptions, ARankThatCannotListenIsNamedByAll) {
    gcoll_store *store = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
    Watchdog watchdog(60);
    Job job;
    job.size = 3;
    job.transport = "tcp";
    job.adjust = [](uint32_t rank, gcoll_context_options *options) {
        options->interface = rank == 1 ? "nosuchcard0" : nullptr;
    };
    std::vector<std::thread> threads;
    int64_t before = now_ms();
    for (uint32_t rank = 0; rank < 3; rank++)
        threads.emplace_back([&, rank] {
            gcoll_context_options options = options_of(job, rank, store, nullptr);
            gcoll_context *context = nullptr;
            gcoll_status status = gcoll_context_create(&options, &context);
            EXPECT_EQ(status, rank == 1 ? GCOLL_ERR_INVALID : GCOLL_ERR_PEER) << told(status);
            EXPECT_NE(std::string(gcoll_last_error()).find("nosuchcard0"), std::string::npos)
                << gcoll_last_error();
            if (rank != 1)
                EXPECT_NE(std::string(gcoll_last_error()).find("rank 1"), std::string::npos)
                    << gcoll_last_error();
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_LT(now_ms() - before, 10000);
    gcoll_store_destroy(store);
}

} // namespace
