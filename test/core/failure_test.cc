// test/core/failure_test.cc - tests with ranks that die, stop, stay away or leave: the other ranks learn in
// time which rank it was, and end cleanly. Ranks are processes.
//
// Environment: GCOLL_TEST_RANKS is the number of ranks (4 or 5), GCOLL_TEST_ELEMENTS the size of a reduction,
// and GCOLL_TEST_KILLS the number of kills. GCOLL_TEST_TOLD_MS is the time in which the other ranks must
// know, for slow machines.
#include "test/kit/harness.h"
#include "test/kit/sanitizer.h"
#include "test/kit/setting.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

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
using gcoll_test::Processes;
using gcoll_test::setting;
using gcoll_test::Shared;
using gcoll_test::told;
using Flag = std::atomic<uint32_t>;

constexpr uint32_t kMostRanks = 5;
const uint32_t kRanks = std::clamp(setting("GCOLL_TEST_RANKS", kMostRanks), 4u, kMostRanks);
const int64_t kToldMs = setting("GCOLL_TEST_TOLD_MS", 1000); // from a death to everybody's error
// The timeout of contexts whose ranks stop or stay away; it limits the start of the ranks, too.
const int64_t kStopMs = kToldMs > 1000 ? 5000 : 2000;
constexpr int64_t kDestroyMs = 2000; // "at most about a second", on a busy machine
const uint64_t kCount = setting("GCOLL_TEST_ELEMENTS", 1000000);

// The error that a rank got, and when.
struct Report {
    std::atomic<int> done;
    int status, again, health;
    int64_t culprit, told_ms, destroy_ms;
    char text[512], text_again[512];
};

struct Board {
    Flag joined, go;
    Flag rounds[kMostRanks];
    Report reports[kMostRanks];
};

Job job_of(int64_t timeout_ms) {
    Job job;
    job.size = kRanks;
    job.name = "failing";
    job.transport = "tcp";
    job.timeout_ms = timeout_ms;
    return job;
}

// After a first failure: expects the same cause again, then destroys the context and measures the time.
void file_report(Report &report, gcoll_context *context, gcoll_status status) {
    report.told_ms = now_ms();
    report.status = status;
    snprintf(report.text, sizeof report.text, "%s", gcoll_last_error());
    report.culprit = gcoll_context_culprit(context);
    report.again = gcoll_barrier(context, nullptr);
    snprintf(report.text_again, sizeof report.text_again, "%s", gcoll_last_error());
    report.health = gcoll_context_health(context);
    int64_t before = now_ms();
    gcoll_context_destroy(context);
    report.destroy_ms = now_ms() - before;
    report.done = 1;
}

// Makes large allreduces until one fails. `enough` ends the loop early for a rank that leaves or stays away.
int work(Board &board, const Folder &folder, uint32_t rank, const Job &job, uint32_t enough,
         const std::function<void(gcoll_context *)> &then) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
    gcoll_context *context = gcoll_test::join(store, job, rank);
    if (!context)
        return gcoll_test::kFailed;
    board.joined++;
    std::vector<float> data(kCount, 0);
    gcoll_status status = GCOLL_OK;
    for (uint32_t round = 0; status == GCOLL_OK && round < enough; round++) {
        status = gcoll_allreduce(context, nullptr, data.data(), kCount, GCOLL_FLOAT32, GCOLL_SUM, nullptr);
        board.rounds[rank]++;
    }
    if (status == GCOLL_OK)
        then(context);
    else
        file_report(board.reports[rank], context, status);
    gcoll_store_destroy(store);
    return 0;
}

void nothing(gcoll_context *) {}

void expect_report(const Report &report, uint32_t rank, uint32_t victim, gcoll_status status) {
    std::string name = "rank " + std::to_string(victim);
    EXPECT_EQ(report.done.load(), 1) << "rank " << rank << " told nothing";
    EXPECT_EQ(report.status, status) << "rank " << rank << ": " << report.text;
    EXPECT_EQ(report.culprit, victim) << "rank " << rank << ": " << report.text;
    EXPECT_NE(std::string(report.text).find(name), std::string::npos) << report.text;
    EXPECT_TRUE(strstr(report.text, "allreduce #") || strstr(report.text, "operation #") ||
                strstr(report.text, "first operation"))
        << report.text;
    EXPECT_EQ(report.again, report.status) << "rank " << rank << ": the cause stays";
    EXPECT_EQ(report.health, report.status);
    EXPECT_STREQ(report.text_again, report.text);
    EXPECT_LT(report.destroy_ms, kDestroyMs) << "rank " << rank;
}

// ---- Killed ---------------------------------------------------------------------------------------------

int64_t kill_one(uint32_t victim, uint32_t rounds, uint32_t microseconds) {
    Folder folder;
    Shared<Board> board;
    Processes ranks(kRanks, [&](uint32_t rank) {
        return work(*board, folder, rank, job_of(20000), UINT32_MAX, nothing);
    });
    EXPECT_TRUE(await(board->joined, kRanks));
    EXPECT_TRUE(await(board->rounds[victim], rounds, 30000));
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    int64_t killed = now_ms(), slowest = 0;
    ranks.signal(victim, SIGKILL);
    ranks.expect_success(10000, victim);
    EXPECT_EQ(ranks.wait(victim, 1000).signal, SIGKILL);
    for (uint32_t rank = 0; rank < kRanks; rank++) {
        if (rank == victim)
            continue;
        expect_report(board->reports[rank], rank, victim, GCOLL_ERR_PEER);
        slowest = std::max(slowest, board->reports[rank].told_ms - killed);
    }
    EXPECT_LT(slowest, kToldMs) << "from the death of rank " << victim << " to the last error";
    return slowest;
}

TEST(Killed, TheOthersNameIt) {
    const uint32_t kills = setting("GCOLL_TEST_KILLS", gcoll_test::repeats(20, 8));
    std::random_device device;
    uint32_t seed = device();
    std::mt19937 random(seed);
    std::vector<int64_t> latencies;
    for (uint32_t i = 0; i < kills && !HasFailure(); i++) {
        uint32_t victim = random() % kRanks, rounds = random() % 4, microseconds = random() % 20000;
        SCOPED_TRACE("kill " + std::to_string(i) + " of seed " + std::to_string(seed) + ": rank " +
                     std::to_string(victim) + " after " + std::to_string(rounds) + " rounds and " +
                     std::to_string(microseconds) + " us");
        latencies.push_back(kill_one(victim, rounds, microseconds));
    }
    std::sort(latencies.begin(), latencies.end());
    auto at = [&](double part) {
        return static_cast<long long>(
            latencies[static_cast<size_t>(part * static_cast<double>(latencies.size() - 1))]);
    };
    printf("%zu kills, ms until the last survivor was told: min %lld, median %lld, p90 %lld, max %lld\n",
           latencies.size(), at(0), at(0.5), at(0.9), at(1));
}

// ---- Stopped ----------------------------------------------------------------------------------------------

TEST(Stopped, TheOthersNameItWhenTimeIsOut) {
    const int64_t kTimeout = kStopMs;
    for (uint32_t victim : {0u, 3u}) {
        Folder folder;
        Shared<Board> board;
        Processes ranks(kRanks, [&](uint32_t rank) {
            return work(*board, folder, rank, job_of(kTimeout), UINT32_MAX, nothing);
        });
        EXPECT_TRUE(await(board->rounds[victim], 2, 20000));
        int64_t stopped = now_ms();
        ranks.signal(victim, SIGSTOP);
        for (uint32_t rank = 0; rank < kRanks; rank++) {
            if (rank == victim)
                continue;
            EXPECT_EQ(ranks.wait(rank, 10000).code, 0) << "rank " << rank;
            const Report &report = board->reports[rank];
            expect_report(report, rank, victim, GCOLL_ERR_TIMEOUT);
            EXPECT_GE(report.told_ms - stopped, kTimeout * 3 / 4) << "rank " << rank;
            EXPECT_LE(report.told_ms - stopped, kTimeout * 5 / 4 + 500)
                << "rank " << rank << ": " << report.text;
        }
        ranks.signal(victim, SIGCONT); // it finds out what it missed
        EXPECT_EQ(ranks.wait(victim, 10000).code, 0);
        EXPECT_NE(board->reports[victim].status, GCOLL_OK);
        EXPECT_EQ(board->reports[victim].again, board->reports[victim].status);
    }
}

// In a ring, each rank waits for its neighbours only. Each form of a call must name the stopped rank.
TEST(Stopped, IsNamedInEachFormOfACall) {
    const int64_t kTimeout = kToldMs > 1000 ? kStopMs : 1000;
    constexpr uint32_t kVictim = 2;
    for (int form = 0; form < 3; form++) {
        SCOPED_TRACE(form == 0 ? "blocking" : form == 1 ? "started" : "persistent");
        Folder folder;
        Shared<Board> board;
        Processes ranks(4, [&](uint32_t rank) {
            gcoll_store *store = nullptr;
            EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
            Job job = job_of(kTimeout);
            job.size = 4;
            gcoll_context *context = gcoll_test::join(store, job, rank);
            std::vector<float> data(kCount, 0);
            gcoll_allreduce_options options;
            gcoll_allreduce_options_init(&options);
            options.algorithm = "ring";
            gcoll_operation *operation = nullptr;
            gcoll_status status = gcoll_allreduce_create(context, nullptr, data.data(), kCount, GCOLL_FLOAT32,
                                                         GCOLL_SUM, &options, &operation);
            while (status == GCOLL_OK) {
                if (form == 0) {
                    status = gcoll_allreduce(context, nullptr, data.data(), kCount, GCOLL_FLOAT32, GCOLL_SUM,
                                             &options);
                } else if (form == 1) {
                    gcoll_request *request = nullptr;
                    status = gcoll_allreduce_start(context, nullptr, data.data(), kCount, GCOLL_FLOAT32,
                                                   GCOLL_SUM, &options, &request);
                    status = status == GCOLL_OK ? gcoll_request_wait(&request) : status;
                } else {
                    status = gcoll_operation_run(operation);
                }
                board->rounds[rank]++;
            }
            gcoll_operation_destroy(operation);
            file_report(board->reports[rank], context, status);
            gcoll_store_destroy(store);
            return 0;
        });
        EXPECT_TRUE(await(board->rounds[kVictim], 2, 20000));
        int64_t stopped = now_ms();
        ranks.signal(kVictim, SIGSTOP);
        for (uint32_t rank : {0u, 1u, 3u}) {
            EXPECT_EQ(ranks.wait(rank, 10000).code, 0) << "rank " << rank;
            expect_report(board->reports[rank], rank, kVictim, GCOLL_ERR_TIMEOUT);
            EXPECT_LE(board->reports[rank].told_ms - stopped, kTimeout * 5 / 4 + 500) << "rank " << rank;
        }
    }
}

TEST(Stopped, AShortStopIsNoFailure) {
    Folder folder;
    Shared<Board> board;
    Processes ranks(kRanks, [&](uint32_t rank) {
        return work(*board, folder, rank, job_of(5000), gcoll_test::repeats(40, 20),
                    [](gcoll_context *context) { gcoll_context_destroy(context); });
    });
    EXPECT_TRUE(await(board->rounds[2], 2, 20000));
    for (int repeat = 0; repeat < 3; repeat++) {
        ranks.signal(2, SIGSTOP);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ranks.signal(2, SIGCONT);
    }
    ranks.expect_success(30000);
}

// ---- Elsewhere --------------------------------------------------------------------------------------------

TEST(Absent, ARankThatNeverCallsIsNamed) {
    const int64_t kTimeout = kStopMs;
    constexpr uint32_t kBusy = 2;
    Folder folder;
    Shared<Board> board;
    Processes ranks(kRanks, [&](uint32_t rank) {
        return work(*board, folder, rank, job_of(kTimeout), rank == kBusy ? 3 : UINT32_MAX,
                    [&](gcoll_context *context) {
                        EXPECT_TRUE(await(board->go, 1, 20000)); // busy elsewhere
                        float word = 0;
                        gcoll_status status =
                            gcoll_allreduce(context, nullptr, &word, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr);
                        EXPECT_NE(status, GCOLL_OK);
                        file_report(board->reports[kBusy], context, status);
                    });
    });
    EXPECT_TRUE(await(board->rounds[kBusy], 3, 20000));
    int64_t left = now_ms();
    for (uint32_t rank = 0; rank < kRanks; rank++) {
        if (rank == kBusy)
            continue;
        EXPECT_EQ(ranks.wait(rank, 10000).code, 0) << "rank " << rank;
        expect_report(board->reports[rank], rank, kBusy, GCOLL_ERR_TIMEOUT);
        EXPECT_LE(board->reports[rank].told_ms - left, kTimeout * 5 / 4 + 500);
    }
    board->go = 1;
    EXPECT_EQ(ranks.wait(kBusy, 10000).code, 0);
    EXPECT_EQ(board->reports[kBusy].done.load(), 1);
}

TEST(Absent, ARankThatLeavesEarlyIsNamed) {
    for (uint32_t leaver : {0u, kRanks - 1}) {
        Folder folder;
        Shared<Board> board;
        Processes ranks(kRanks, [&](uint32_t rank) {
            return work(*board, folder, rank, job_of(20000), rank == leaver ? 2 : UINT32_MAX,
                        [](gcoll_context *context) { gcoll_context_destroy(context); });
        });
        EXPECT_TRUE(await(board->rounds[leaver], 2, 20000));
        int64_t left = now_ms();
        ranks.expect_success(10000);
        for (uint32_t rank = 0; rank < kRanks; rank++) {
            if (rank == leaver)
                continue;
            expect_report(board->reports[rank], rank, leaver, GCOLL_ERR_PEER);
            EXPECT_NE(std::string(board->reports[rank].text).find("left the job"), std::string::npos)
                << board->reports[rank].text;
            EXPECT_LT(board->reports[rank].told_ms - left, 3000);
        }
    }
}

TEST(Absent, ARankThatExitsWithoutAWordIsNamed) {
    Folder folder;
    Shared<Board> board;
    constexpr uint32_t kGone = 1;
    Processes ranks(kRanks, [&](uint32_t rank) {
        return work(*board, folder, rank, job_of(20000), rank == kGone ? 2 : UINT32_MAX,
                    [](gcoll_context *) { _exit(0); });
    });
    int64_t start = now_ms();
    ranks.expect_success(20000);
    for (uint32_t rank = 0; rank < kRanks; rank++)
        if (rank != kGone)
            expect_report(board->reports[rank], rank, kGone, GCOLL_ERR_PEER);
    EXPECT_LT(now_ms() - start, 20000);
}

// ---- Before anything is connected -------------------------------------------------------------------------

TEST(Killed, BetweenJoiningAndTheFirstCall) {
    Folder folder;
    Shared<Board> board;
    constexpr uint32_t kGone = 3;
    Processes ranks(kRanks, [&](uint32_t rank) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
        gcoll_context *context = gcoll_test::join(store, job_of(20000), rank);
        board->joined++;
        EXPECT_TRUE(await(board->go, 1));
        float word = 1;
        gcoll_status status = gcoll_allreduce(context, nullptr, &word, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr);
        EXPECT_NE(status, GCOLL_OK);
        file_report(board->reports[rank], context, status);
        gcoll_store_destroy(store);
        return 0;
    });
    EXPECT_TRUE(await(board->joined, kRanks));
    ranks.signal(kGone, SIGKILL);
    ranks.wait(kGone, 5000);
    int64_t start = now_ms();
    board->go = 1;
    ranks.expect_success(10000, kGone);
    for (uint32_t rank = 0; rank < kRanks; rank++) {
        if (rank == kGone)
            continue;
        expect_report(board->reports[rank], rank, kGone, GCOLL_ERR_PEER);
        EXPECT_LT(board->reports[rank].told_ms - start, 3000);
    }
}

} // namespace
