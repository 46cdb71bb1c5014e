// Barrier reports: who has called within a time limit.
#include "test/kit/harness.h"

#include <csignal>
#include <cstdlib>
#include <string>

namespace {

using gcoll_test::await;
using gcoll_test::Group;
using gcoll_test::Job;
using gcoll_test::run_threads;
using gcoll_test::told;
using gcoll_test::transports;

// Long enough for ranks that come; those that do not make a test wait for so long.
constexpr int64_t kLimitMs = 1500, kPlentyMs = 30000;

using List = std::vector<uint8_t>;

List report(gcoll_context *context, int64_t limit_ms) {
    List here(gcoll_context_size(context) + 1, 9);
    gcoll_status status = gcoll_barrier_report(context, limit_ms, here.data());
    EXPECT_EQ(status, GCOLL_OK) << told(status);
    EXPECT_EQ(here.back(), 9) << "beyond the end";
    here.pop_back();
    return here;
}

List all_but(uint32_t size, const std::vector<uint32_t> &absent) {
    List here(size, 1);
    for (uint32_t rank : absent)
        here[rank] = 0;
    return here;
}

class RollCalls : public testing::TestWithParam<const char *> {
  protected:
    static Job job(uint32_t size) {
        Job made;
        made.size = size;
        made.transport = GetParam();
        return made;
    }
};

TEST_P(RollCalls, WithAllHereAreABarrier) {
    for (uint32_t size : {1u, 2u, 3u, 5u}) {
        constexpr uint32_t kRounds = 4;
        std::atomic<uint32_t> entered[kRounds] = {};
        run_threads(job(size), [&](uint32_t, gcoll_context *context) {
            for (uint32_t round = 0; round < kRounds; round++) {
                entered[round]++;
                EXPECT_EQ(report(context, round % 2 ? 0 : -1), all_but(size, {}));
                EXPECT_EQ(entered[round], size);
            }
        });
    }
}

// Two of five come late: the others agree on who is absent, the late ones learn it, and the next report has
// all.
TEST_P(RollCalls, ListAllWhoAreAbsent) {
    constexpr uint32_t kRanks = 5;
    std::atomic<uint32_t> over{0};
    run_threads(job(kRanks), [&](uint32_t rank, gcoll_context *context) {
        const bool is_late = rank == 1 || rank == 4;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (is_late)
            EXPECT_TRUE(await(over, kRanks - 2, 20000));
        EXPECT_EQ(report(context, rank == 0 ? kLimitMs : kPlentyMs), all_but(kRanks, {1, 4}));
        over++;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // in which rank 0 answers those that are late
        EXPECT_EQ(report(context, kPlentyMs), all_but(kRanks, {}));
        EXPECT_GCOLL_OK(gcoll_context_health(context));
    });
}

// A rank that misses several reports has its own calls counted: it is late for each, and then in step again.
TEST_P(RollCalls, KeepStepWithARankThatMissesSeveral) {
    constexpr uint32_t kMissed = 3;
    std::atomic<uint32_t> over{0};
    Job tiny = job(3);
    tiny.adjust = [](uint32_t, gcoll_context_options *options) {
        options->eager_bytes = 1; // so that each list is granted
        options->eager_pool_bytes = 1024;
    };
    run_threads(tiny, [&](uint32_t rank, gcoll_context *context) {
        if (rank == 2)
            EXPECT_TRUE(await(over, 2, 20000));
        for (uint32_t i = 0; i < kMissed; i++)
            EXPECT_EQ(report(context, rank == 0 ? kLimitMs / 3 : kPlentyMs), all_but(3, {2})) << i;
        over++;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_EQ(report(context, kPlentyMs), all_but(3, {}));
    });
}

// Without rank 0 nobody knows of the others. When it comes, those that have called are here.
TEST_P(RollCalls, WithoutRank0KnowOnlyThemselves) {
    std::atomic<uint32_t> given_up{0};
    run_threads(job(3), [&](uint32_t rank, gcoll_context *context) {
        if (rank == 0) {
            EXPECT_TRUE(await(given_up, 2, 20000));
            EXPECT_EQ(report(context, kPlentyMs), all_but(3, {}));
        } else {
            List alone(3, 0);
            alone[rank] = 1;
            EXPECT_EQ(report(context, 50), alone);
            given_up++;
        }
        EXPECT_EQ(report(context, kPlentyMs), all_but(3, {})) << "the next one";
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    });
}

TEST_P(RollCalls, DoNotWaitForWhoHasLeft) {
    Group group(job(3));
    std::thread leaves([&] {
        EXPECT_GCOLL_OK(gcoll_barrier(group[1], nullptr));
        group.leave(1);
    });
    std::thread stays([&] {
        EXPECT_GCOLL_OK(gcoll_barrier(group[2], nullptr));
        EXPECT_EQ(report(group[2], kPlentyMs), all_but(3, {1}));
    });
    EXPECT_GCOLL_OK(gcoll_barrier(group[0], nullptr));
    const int64_t begun = gcoll_test::now_ms();
    EXPECT_EQ(report(group[0], kPlentyMs), all_but(3, {1}));
    EXPECT_LT(gcoll_test::now_ms() - begun, kPlentyMs - 5000);
    leaves.join();
    stays.join();
}

TEST_P(RollCalls, OfABrokenContextGiveTheCause) {
    std::atomic<uint32_t> calls{0};
    run_threads(job(3), [&](uint32_t rank, gcoll_context *context) {
        List here(3, 7);
        EXPECT_EQ(report(context, kPlentyMs), all_but(3, {})); // all know rank 0
        calls++;
        EXPECT_TRUE(await(calls, 3));
        if (rank == 2) {
            gcoll_context_abort(context, "enough");
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
        }
        for (int i = 0; i < 2; i++) {
            gcoll_status status = gcoll_barrier_report(context, kPlentyMs, here.data());
            EXPECT_EQ(status, GCOLL_ERR_ABORTED) << told(status);
        }
        EXPECT_EQ(here, List(3, 7));
        EXPECT_EQ(gcoll_context_culprit(context), 2);
    });
}

// Memory that fails once when it is told to.
struct Scarce {
    std::atomic<bool> fails{false};
    gcoll_allocator allocator = {allocate, release, this};
    static void *allocate(void *arg, size_t bytes, size_t alignment) {
        if (static_cast<Scarce *>(arg)->fails.exchange(false))
            return nullptr;
        return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    }
    static void release(void *, void *memory, size_t) { free(memory); }
};

// A call that fails for want of memory counts, as the other ranks count it: later reports are not shifted.
void count_what_failed(Job job, uint32_t who, bool is_first) {
    Scarce scarce;
    job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        if (rank == who)
            options->allocator = &scarce.allocator;
    };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        const uint32_t size = gcoll_context_size(context);
        List here(size, 7);
        if (!is_first)
            EXPECT_EQ(report(context, kPlentyMs), all_but(size, {}));
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == who)
            scarce.fails = true;
        gcoll_status status = gcoll_barrier_report(context, 50, here.data());
        EXPECT_EQ(status, rank == who ? GCOLL_ERR_NO_MEMORY : GCOLL_OK) << told(status);
        EXPECT_EQ(here == List(size, 7), rank == who);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_EQ(report(context, kLimitMs), all_but(size, {}));
    });
}

TEST_P(RollCalls, CountThoseThatRanOutOfMemory) {
    count_what_failed(job(3), 0, false); // a list
    count_what_failed(job(3), 0, true);  // what a rank makes for its first report
    count_what_failed(job(3), 2, true);
}

TEST_P(RollCalls, RefuseBadArguments) {
    run_threads(
        2, GetParam(),
        [](uint32_t, gcoll_context *context) {
            uint8_t here[2] = {7, 7};
            EXPECT_EQ(gcoll_barrier_report(nullptr, 1, here), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_barrier_report(context, 1, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_barrier_report(context, -2, here), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_barrier_report(context, INT64_C(86400001), here), GCOLL_ERR_INVALID);
            EXPECT_NE(std::string(gcoll_last_error()).find("timeout_ms"), std::string::npos)
                << gcoll_last_error();
            EXPECT_EQ(here[0] + here[1], 14);
            EXPECT_EQ(report(context, kPlentyMs), all_but(2, {}));
        });
}

// Among collectives, messages and other reports, in any order of arrival.
TEST(RollCallsShuffled, AreNotConfused) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
        Job job;
        job.size = 4;
        job.transport = "inproc";
        run_threads(job, [seed](uint32_t rank, gcoll_context *context) {
            for (uint32_t i = 0; i < 20; i++) {
                int64_t mine = rank + i, sum = 0;
                if ((seed + i) % 3 == 0)
                    EXPECT_GCOLL_OK(
                        gcoll_allreduce(context, &mine, &sum, 1, GCOLL_INT64, GCOLL_SUM, nullptr));
                EXPECT_EQ(report(context, kPlentyMs), all_but(4, {}));
            }
        });
    }
}

// A rank that dies breaks the context, as in any call: it was connected.
TEST(RollCallsOfProcesses, ReportADeath) {
    gcoll_test::Folder folder;
    gcoll_test::Shared<std::atomic<uint32_t>> ready;
    gcoll_test::Processes ranks(3, [&](uint32_t rank) {
        gcoll_store *store = nullptr;
        Job job;
        job.size = 3;
        if (gcoll_store_open(folder.url().c_str(), kPlentyMs, &store) != GCOLL_OK)
            return 1;
        gcoll_context *context = gcoll_test::join(store, job, rank);
        if (!context)
            return 2;
        EXPECT_EQ(report(context, kPlentyMs), all_but(3, {}));
        if (rank == 2) {
            raise(SIGKILL);
            return 3;
        }
        List here(3);
        gcoll_status status = GCOLL_OK;
        if (rank == 0)
            status = gcoll_barrier_report(context, kPlentyMs, here.data());
        EXPECT_TRUE(rank != 0 || status == GCOLL_ERR_PEER) << told(status);
        EXPECT_TRUE(rank != 0 || gcoll_context_culprit(context) == 2);
        gcoll_context_destroy(context);
        gcoll_store_destroy(store);
        return 0;
    });
    ranks.expect_success(60000, 2);
}

INSTANTIATE_TEST_SUITE_P(Transports, RollCalls, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

} // namespace
