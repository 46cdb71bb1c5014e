// test/core/recovery_test.cc - going on after a failure: the ranks that are left agree, make a context of
// their own, and repeat what failed. Ranks are processes, which really die and stop.
//
// Environment: GCOLL_TEST_KILLS is the number of jobs in which ranks are killed, GCOLL_TEST_STOPS that of
// jobs in which one is stopped.
#include "test/kit/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <string>

namespace {

using gcoll_test::await;
using gcoll_test::Folder;
using gcoll_test::Job;
using gcoll_test::now_ms;
using gcoll_test::Processes;
using gcoll_test::Shared;
using gcoll_test::told;
using Flag = std::atomic<uint32_t>;

uint32_t setting(const char *name, uint32_t usual) {
    const char *given = getenv(name);
    return given ? static_cast<uint32_t>(strtoul(given, nullptr, 10)) : usual;
}

constexpr uint32_t kMost = 8;
constexpr int64_t kStopMs = 1500; // the timeout of contexts of which a rank is stopped

Job job_of(uint32_t size, int64_t timeout_ms) {
    Job job;
    job.size = size;
    job.name = "recovering";
    job.timeout_ms = timeout_ms;
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->recovery = 1; };
    return job;
}

int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

struct Board {
    Flag joined, stop;
    Flag rounds[kMost];                       // right results
    std::atomic<int64_t> recovered_us[kMost]; // when its latest context had its first right result
    Flag shrinks[kMost];
    Flag left[kMost]; // ranks of its latest context
    int last_status[kMost];
    char text[kMost][512];
};

// Which ranks of the job are in a context.
struct Members {
    std::vector<uint32_t> ranks;
    explicit Members(uint32_t size) {
        for (uint32_t rank = 0; rank < size; rank++)
            ranks.push_back(rank);
    }
    void follow(gcoll_context *context) {
        std::vector<uint32_t> next;
        for (uint32_t rank = 0; rank < gcoll_context_size(context); rank++)
            next.push_back(ranks[gcoll_context_parent_rank(context, rank)]);
        ranks = next;
    }
};

// Sums over the members, which are exact: each rank gives its number and the round, in all elements.
gcoll_status sum(gcoll_context *context, const Members &members, uint32_t own, uint32_t round, size_t count) {
    std::vector<double> data(count, own + 100.0 * round), result(count, -1);
    double expected = 0;
    for (uint32_t member : members.ranks)
        expected += member + 100.0 * round;
    gcoll_status status =
        gcoll_allreduce(context, data.data(), result.data(), count, GCOLL_FLOAT64, GCOLL_SUM, nullptr);
    if (status == GCOLL_OK)
        for (size_t i = 0; i < count; i++)
            if (result[i] != expected) {
                ADD_FAILURE() << "element " << i << " is " << result[i] << ", not " << expected;
                break;
            }
    return status;
}

// Sums until told to stop. After a failure anywhere the ranks that are left go on without the others.
int work(Board &board, const Folder &folder, uint32_t rank, const Job &job, size_t count) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
    gcoll_context *context = gcoll_test::join(store, job, rank);
    if (!context)
        return gcoll_test::kFailed;
    board.joined++;
    Members members(job.size);
    int code = 0;
    bool is_new = false;
    for (uint32_t round = 0;; round++) {
        gcoll_status status = sum(context, members, rank, round, count);
        // Bit 0: all is well; bit 1: this rank was not told to stop.
        const uint64_t mine = (status == GCOLL_OK ? 1 : 0) | (board.stop ? 0 : 2);
        uint64_t bits = mine;
        status = gcoll_context_agree(context, &bits, nullptr, 0);
        gcoll_context *shrunk = nullptr;
        if (status == GCOLL_OK && !(bits & 1)) {
            round--; // it is repeated
            status = gcoll_context_shrink(context, nullptr, &shrunk);
        }
        if (status != GCOLL_OK) {
            board.last_status[rank] = status;
            snprintf(board.text[rank], sizeof board.text[rank], "%s", gcoll_last_error());
            code = 1;
            break;
        }
        if (shrunk) {
            members.follow(shrunk);
            gcoll_context_destroy(context);
            context = shrunk;
            board.shrinks[rank]++;
            board.left[rank] = static_cast<uint32_t>(members.ranks.size());
            is_new = true;
            continue;
        }
        if (is_new)
            board.recovered_us[rank] = now_us();
        is_new = false;
        board.rounds[rank]++;
        if (!(bits & 2))
            break;
    }
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    return code;
}

struct Statistics {
    std::vector<int64_t> us;
    void print(const char *what) {
        std::sort(us.begin(), us.end());
        auto at = [&](double part) {
            return static_cast<double>(us[static_cast<size_t>(part * static_cast<double>(us.size() - 1))]) /
                   1000;
        };
        if (!us.empty())
            printf("%zu %s, ms until the last right result: min %.1f, median %.1f, p90 %.1f, max %.1f\n",
                   us.size(), what, at(0), at(0.5), at(0.9), at(1));
    }
};

// ---- Killed ---------------------------------------------------------------------------------------------

void kill_some(std::mt19937 &random, Statistics &statistics) {
    const uint32_t size = 4 + random() % (kMost - 3), victims = 1 + random() % 3;
    const size_t count = random() % 2 ? 1 + random() % 100 : 1 + random() % 100000;
    Folder folder;
    Shared<Board> board;
    Processes ranks(size,
                    [&](uint32_t rank) { return work(*board, folder, rank, job_of(size, 20000), count); });
    ASSERT_TRUE(await(board->joined, size));
    std::set<uint32_t> gone;
    int64_t killed_us = 0, slowest_us = 0;
    while (gone.size() < victims) {
        const uint32_t victim = random() % size;
        if (!gone.insert(victim).second)
            continue;
        // Together, or during the agreement and the shrinking that the one before has caused.
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 3 ? random() % 5000 : 0));
        killed_us = now_us();
        ranks.signal(victim, SIGKILL);
    }
    for (uint32_t rank = 0; rank < size; rank++)
        if (!gone.count(rank)) {
            const int64_t end_ms = now_ms() + 15000;
            while (board->left[rank] != size - victims && now_ms() < end_ms)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            EXPECT_EQ(board->left[rank].load(), size - victims) << "of rank " << rank;
            const uint32_t rounds = board->rounds[rank];
            EXPECT_TRUE(await(board->rounds[rank], rounds + 1));
            slowest_us = std::max(slowest_us, board->recovered_us[rank] - killed_us);
        }
    statistics.us.push_back(slowest_us);
    board->stop = 1;
    for (uint32_t rank = 0; rank < size; rank++)
        if (!gone.count(rank))
            EXPECT_EQ(ranks.wait(rank, 15000).code, 0) << "rank " << rank << ": " << board->text[rank];
}

TEST(Recovery, SurvivorsGoOn) {
    const uint32_t jobs = setting("GCOLL_TEST_KILLS", 20);
    std::random_device device;
    const uint32_t seed = setting("GCOLL_TEST_SEED", device());
    std::mt19937 random(seed);
    Statistics statistics;
    for (uint32_t i = 0; i < jobs && !HasFailure(); i++) {
        SCOPED_TRACE("job " + std::to_string(i) + " of seed " + std::to_string(seed));
        kill_some(random, statistics);
    }
    statistics.print("jobs with kills");
}

// ---- Stopped --------------------------------------------------------------------------------------------

// A rank that is stopped for so long that the others go on without it is told so, and disturbs nobody.
TEST(Recovery, AStoppedRankIsLeftOutAndTold) {
    const uint32_t stops = setting("GCOLL_TEST_STOPS", 4);
    std::random_device device;
    const uint32_t seed = setting("GCOLL_TEST_SEED", device());
    std::mt19937 random(seed);
    for (uint32_t i = 0; i < stops && !HasFailure(); i++) {
        const uint32_t size = 3 + random() % 3, victim = random() % size, pause_us = random() % 5000;
        const bool is_early = random() % 2; // is woken as soon as the others go on, or only later
        SCOPED_TRACE("job " + std::to_string(i) + " of seed " + std::to_string(seed) + ": rank " +
                     std::to_string(victim) + " of " + std::to_string(size));
        Folder folder;
        Shared<Board> board;
        Processes ranks(
            size, [&](uint32_t rank) { return work(*board, folder, rank, job_of(size, kStopMs), 1000); });
        ASSERT_TRUE(await(board->rounds[victim], 3));
        std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
        ranks.signal(victim, SIGSTOP);
        for (uint32_t rank = 0; rank < size; rank++)
            if (rank != victim)
                EXPECT_TRUE(await(board->shrinks[rank], 1, 10 * kStopMs)) << "rank " << rank;
        if (!is_early)
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
        ranks.signal(victim, SIGCONT);
        EXPECT_EQ(ranks.wait(victim, 20000).code, 1);
        EXPECT_EQ(board->last_status[victim], GCOLL_ERR_PEER) << board->text[victim];
        EXPECT_NE(strstr(board->text[victim], "left out"), nullptr) << board->text[victim];
        const uint32_t other = victim ? 0 : 1, rounds = board->rounds[other];
        EXPECT_TRUE(await(board->rounds[other], rounds + 10)) << "the others are disturbed";
        board->stop = 1;
        for (uint32_t rank = 0; rank < size; rank++)
            if (rank != victim) {
                EXPECT_EQ(ranks.wait(rank, 15000).code, 0) << "rank " << rank << ": " << board->text[rank];
                EXPECT_EQ(board->left[rank].load(), size - 1);
            }
    }
}

} // namespace
