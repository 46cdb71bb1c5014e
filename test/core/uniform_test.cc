// test/core/uniform_test.cc - options.uniform: a call succeeds on all ranks that are left, or fails on all.
//
// Environment: GCOLL_TEST_UNIFORM_KILLS is the number of jobs in which ranks are killed. GCOLL_TEST_UNIFORM=0
// makes these calls without the option, and counts how often ranks then differ. GCOLL_TEST_LOOPS is the
// number of times that costs are measured.
#include "test/kit/calls.h"
#include "test/kit/sanitizer.h"
#include "test/kit/setting.h"

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <string>

namespace {

using namespace gcoll_test;
using Flag = std::atomic<uint32_t>;

Job recovering(const char *transport, uint32_t size, int64_t timeout_ms = 20000) {
    Job job = job_on(transport, size, timeout_ms);
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->recovery = 1; };
    return job;
}

gcoll_allreduce_options uniform(bool is_set = true) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.uniform = is_set ? 1 : 0;
    options.keep_input = 1;
    return options;
}

gcoll_status barrier(gcoll_context *context, bool is_uniform = true) {
    gcoll_barrier_options options;
    gcoll_barrier_options_init(&options);
    options.uniform = is_uniform ? 1 : 0;
    return gcoll_barrier(context, &options);
}

class Uniform : public testing::TestWithParam<const char *> {};

TEST_P(Uniform, CallsThatSucceed) {
    for (uint32_t size = 1; size <= 5; size++)
        run_threads(
            recovering(GetParam(), size),
            [size](uint32_t rank, gcoll_context *context) {
                const gcoll_allreduce_options options = uniform();
                gcoll_broadcast_options broadcast;
                gcoll_broadcast_options_init(&broadcast);
                broadcast.uniform = 1;
                gcoll_collective_options gather;
                gcoll_collective_options_init(&gather);
                gather.uniform = 1;
                for (uint32_t round = 0; round < 3; round++) {
                    std::vector<uint64_t> data(17, rank + round), all(size);
                    EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_UINT64,
                                                    GCOLL_SUM, &options));
                    EXPECT_EQ(data, std::vector<uint64_t>(17, size * round + size * (size - 1) / 2));
                    EXPECT_GCOLL_OK(barrier(context));
                    uint64_t word = rank == size - 1 ? 42 + round : 0;
                    EXPECT_GCOLL_OK(gcoll_broadcast(context, &word, 1, GCOLL_UINT64, size - 1, &broadcast));
                    EXPECT_EQ(word, 42 + round);
                    word += rank;
                    EXPECT_GCOLL_OK(gcoll_allgather(context, &word, all.data(), 1, GCOLL_UINT64, &gather));
                    for (uint32_t r = 0; r < size; r++)
                        EXPECT_EQ(all[r], 42 + round + r);
                    EXPECT_EQ(sum_of(context, 1), size); // without the option, in between
                }
            });
}

gcoll_status refuse(void *, const void *, const void *, uint64_t, gcoll_type, void *) {
    return GCOLL_ERR_ABORTED;
}

gcoll_status add(void *out, const void *a, const void *b, uint64_t count, gcoll_type, void *) {
    for (uint64_t i = 0; i < count; i++)
        static_cast<uint64_t *>(out)[i] =
            static_cast<const uint64_t *>(a)[i] + static_cast<const uint64_t *>(b)[i];
    return GCOLL_OK;
}

// The root's reduction fails. A rank that has only sent is done by then, and must hear of it. All go on.
TEST_P(Uniform, ARankThatIsDoneHearsOfTheFailure) {
    constexpr uint32_t kRanks = 3;
    std::atomic<int> heard{0};
    run_threads(recovering(GetParam(), kRanks), [&](uint32_t rank, gcoll_context *context) {
        gcoll_user_op op = {};
        op.reduce = rank == 0 ? refuse : add;
        op.commutative = 1;
        gcoll_collective_options options;
        gcoll_collective_options_init(&options);
        options.uniform = 1;
        options.user_op = &op;
        EXPECT_GCOLL_OK(barrier(context));
        uint64_t word = rank, sum = 77;
        const gcoll_status status =
            gcoll_reduce(context, &word, &sum, 1, GCOLL_UINT64, GCOLL_USER, 0, &options);
        EXPECT_NE(status, GCOLL_OK) << "rank " << rank;
        EXPECT_TRUE(says("options.user_op failed")) << gcoll_last_error();
        heard += says("options.uniform: the call succeeded on rank");
        EXPECT_NE(gcoll_context_health(context), GCOLL_OK) << "rank " << rank;
        EXPECT_NE(gcoll_barrier(context, nullptr), GCOLL_OK);
        gcoll_context *next = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_shrink(context, nullptr, &next));
        EXPECT_EQ(gcoll_context_size(next), kRanks);
        EXPECT_GCOLL_OK(barrier(next));
        EXPECT_EQ(sum_of(next, 1), kRanks);
        gcoll_context_destroy(next);
    });
    if (std::string(GetParam()) == "tcp") // small messages are on their way before the failure
        EXPECT_GT(heard.load(), 0);
}

// A rank whose context is broken when it calls takes part in the agreement; the root of a broadcast is done.
TEST_P(Uniform, ARankOnABrokenContextTakesPart) {
    constexpr uint32_t kRanks = 3;
    run_threads(recovering(GetParam(), kRanks), [&](uint32_t rank, gcoll_context *context) {
        gcoll_broadcast_options options;
        gcoll_broadcast_options_init(&options);
        options.uniform = 1;
        EXPECT_GCOLL_OK(barrier(context));
        uint64_t word = rank;
        if (rank == 2)
            gcoll_context_abort(context, "for a test");
        const gcoll_status status = gcoll_broadcast(context, &word, 1, GCOLL_UINT64, 0, &options);
        EXPECT_TRUE(status == GCOLL_ERR_ABORTED || status == GCOLL_ERR_PEER) << told(status);
        EXPECT_TRUE(says("for a test")) << gcoll_last_error();
        uint64_t bits = 7;
        EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, nullptr, 0));
        EXPECT_EQ(bits, 7u);
    });
}

TEST_P(Uniform, OtherAgreementsAreAMismatch) {
    run_threads(
        recovering(GetParam(), 2),
        [&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(barrier(context));
            gcoll_context_abort(context, "for a test");
            uint64_t bits = 1;
            if (rank == 0) {
                EXPECT_EQ(barrier(context), GCOLL_ERR_ABORTED);
                return;
            }
            EXPECT_EQ(gcoll_context_agree(context, &bits, nullptr, 0), GCOLL_ERR_MISMATCH);
            EXPECT_TRUE(
                says("rank 0 makes a call with options.uniform, and rank 1 calls gcoll_context_agree"))
                << gcoll_last_error();
        });
}

TEST_P(Uniform, AllRanksMustAskForIt) {
    run_threads(
        recovering(GetParam(), 2, 3000),
        [&](uint32_t rank, gcoll_context *context) {
            EXPECT_EQ(barrier(context, rank == 0), GCOLL_ERR_MISMATCH);
            EXPECT_TRUE(says("options.uniform: rank")) << gcoll_last_error();
        });
}

TEST_P(Uniform, IsRefusedWhereItCannotBe) {
    run_threads(job_on(GetParam(), 2), [&](uint32_t, gcoll_context *context) {
        EXPECT_EQ(barrier(context), GCOLL_ERR_UNSUPPORTED);
        EXPECT_TRUE(says("options.recovery")) << gcoll_last_error();
        EXPECT_GCOLL_OK(barrier(context, false));
    });
    run_threads(recovering(GetParam(), 2), [&](uint32_t rank, gcoll_context *context) {
        gcoll_allreduce_options options = uniform();
        std::vector<uint64_t> data(3, rank);
        gcoll_request *request = nullptr;
        gcoll_operation *operation = nullptr;
        EXPECT_EQ(gcoll_allreduce_start(context, nullptr, data.data(), 3, GCOLL_UINT64, GCOLL_SUM, &options,
                                        &request),
                  GCOLL_ERR_UNSUPPORTED);
        EXPECT_TRUE(says("options.uniform")) << gcoll_last_error();
        EXPECT_EQ(gcoll_allreduce_create(context, nullptr, data.data(), 3, GCOLL_UINT64, GCOLL_SUM, &options,
                                         &operation),
                  GCOLL_ERR_UNSUPPORTED);
        options.uniform = -1;
        EXPECT_EQ(gcoll_allreduce(context, nullptr, data.data(), 3, GCOLL_UINT64, GCOLL_SUM, &options),
                  GCOLL_ERR_INVALID);
        options.uniform = 1; // arguments that are refused are no result of the call
        options.algorithm = "none";
        EXPECT_EQ(gcoll_allreduce(context, nullptr, data.data(), 3, GCOLL_UINT64, GCOLL_SUM, &options),
                  GCOLL_ERR_INVALID);
        EXPECT_GCOLL_OK(barrier(context));
    });
}

INSTANTIATE_TEST_SUITE_P(Over, Uniform, transports(),
                         [](const auto &param) { return std::string(param.param); });

// ---- Killed ---------------------------------------------------------------------------------------------

constexpr uint32_t kMost = 6, kCalls = 20000;

struct Board {
    Flag joined, stop;
    Flag calls[kMost]; // that have ended
    uint8_t results[kMost]
                   [kCalls]; // 1: success; 2: failure; 3: failure, and the rank's own part had succeeded
    char text[kMost][512];
};

// Sums in place until told to stop, and after a failure goes on by its result alone. Element 0 counts the
// ranks that were told to stop. So all make the same calls, unless they differ in a result.
int work(Board &board, const Folder &folder, uint32_t rank, uint32_t size, uint64_t count, bool is_uniform) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
    Job job = recovering(process_transport(), size, 5000);
    job.name = "uniform";
    gcoll_context *context = join(store, job, rank);
    if (!context)
        return kFailed;
    std::vector<uint32_t> members(size);
    for (uint32_t r = 0; r < size; r++)
        members[r] = r;
    board.joined++;
    const gcoll_allreduce_options options = uniform(is_uniform);
    std::vector<double> data(count);
    int code = 0;
    bool again = false;
    uint32_t round = 0;
    for (uint32_t call = 0; call < kCalls; call++) {
        if (!again) {
            std::fill(data.begin(), data.end(), rank + 10.0 * round);
            data[0] = board.stop ? 1 : 0;
        }
        const std::vector<double> input = data;
        const gcoll_status status =
            gcoll_allreduce(context, nullptr, data.data(), count, GCOLL_FLOAT64, GCOLL_SUM, &options);
        const bool was_done = status == GCOLL_ERR_PEER && says("options.uniform: the call succeeded");
        board.results[rank][call] = status == GCOLL_OK ? 1 : was_done ? 3 : 2;
        board.calls[rank] = call + 1;
        again = status != GCOLL_OK;
        if (status == GCOLL_OK) {
            double expected = 0;
            for (uint32_t member : members)
                expected += member + 10.0 * round;
            EXPECT_TRUE(std::all_of(data.begin() + 1, data.end(), [&](double x) { return x == expected; }))
                << "round " << round << " has " << data[1] << ", not " << expected;
            round++;
            if (data[0] > 0)
                break;
            continue;
        }
        EXPECT_TRUE(data == input) << "call " << call << " did not restore its input";
        gcoll_context *next = nullptr;
        snprintf(board.text[rank], sizeof board.text[rank], "%s", gcoll_last_error());
        if (gcoll_context_shrink(context, nullptr, &next) != GCOLL_OK) {
            snprintf(board.text[rank], sizeof board.text[rank], "%s", gcoll_last_error());
            code = 1;
            break;
        }
        std::vector<uint32_t> left;
        for (uint32_t r = 0; r < gcoll_context_size(next); r++)
            left.push_back(members[gcoll_context_parent_rank(next, r)]);
        members = left;
        gcoll_context_destroy(context);
        context = next;
    }
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    return code;
}

struct Seen {
    uint32_t failures = 0, done = 0, differ = 0;
};

void kill_some(std::mt19937 &random, bool is_uniform, Seen &seen) {
    const uint32_t size = 3 + random() % (kMost - 2), victims = 1 + random() % (size - 2);
    const uint64_t count = random() % 3 ? 2 + random() % 200 : 2 + random() % 60000;
    Folder folder;
    Shared<Board> board;
    Processes ranks(size, [&](uint32_t rank) { return work(*board, folder, rank, size, count, is_uniform); });
    ASSERT_TRUE(await(board->joined, size));
    std::set<uint32_t> gone;
    while (gone.size() < victims) {
        const uint32_t victim = random() % size;
        if (!gone.insert(victim).second)
            continue;
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
        ranks.signal(victim, SIGKILL);
    }
    uint32_t first = 0;
    while (gone.count(first))
        first++;
    if (is_uniform)
        EXPECT_TRUE(await(board->calls[first], board->calls[first] + 5, 15000));
    board->stop = 1;
    for (uint32_t rank = 0; rank < size; rank++)
        if (!gone.count(rank)) {
            const Outcome outcome = ranks.wait(rank, 15000);
            if (is_uniform)
                EXPECT_EQ(outcome.code, 0) << "rank " << rank << ": " << board->text[rank];
        }
    // The oracle: the results of the ranks that are left, call by call.
    uint32_t calls = board->calls[first];
    for (uint32_t rank = first; rank < size; rank++)
        if (!gone.count(rank) && is_uniform)
            EXPECT_EQ(board->calls[rank].load(), calls) << "rank " << rank;
    for (uint32_t call = 0; call < calls; call++) {
        uint32_t good = 0, bad = 0;
        for (uint32_t rank = 0; rank < size; rank++)
            if (!gone.count(rank) && call < board->calls[rank]) {
                good += board->results[rank][call] == 1;
                bad += board->results[rank][call] > 1;
                seen.done += board->results[rank][call] == 3;
            }
        seen.failures += bad > 0;
        if (good > 0 && bad > 0) {
            seen.differ++;
            break; // from now on they are in different calls
        }
    }
}

TEST(UniformKilled, RanksThatAreLeftDoNotDiffer) {
    const bool is_uniform = setting("GCOLL_TEST_UNIFORM", 1) != 0;
    const uint32_t jobs = setting("GCOLL_TEST_UNIFORM_KILLS", gcoll_test::repeats(40, 10));
    const uint32_t seed = setting("GCOLL_TEST_SEED", std::random_device()());
    std::mt19937 random(seed);
    Seen seen;
    for (uint32_t i = 0; i < jobs && !HasFailure(); i++) {
        SCOPED_TRACE("job " + std::to_string(i) + " of seed " + std::to_string(seed));
        kill_some(random, is_uniform, seen);
        EXPECT_TRUE(!is_uniform || seen.differ == 0) << "a call succeeded on one rank, and failed on another";
    }
    printf(
        "%u jobs with kills, %u calls failed, in %u a rank's own part had succeeded; ranks differed in %u\n",
        jobs, seen.failures, seen.done, seen.differ);
}

// ---- What they cost -------------------------------------------------------------------------------------

// Prints us a call of an allreduce in place of 2 processes, medians of loops on rank 0. The columns take
// turns.
TEST(Uniform, Costs) {
    const uint32_t loops = setting("GCOLL_TEST_LOOPS", 5);
    run_processes(2, 60000, [&](uint32_t rank, gcoll_store *store) {
        gcoll_context *context = join(store, recovering(process_transport(), 2), rank);
        for (const uint64_t bytes : {1u << 10, 64u << 10, 4u << 20}) {
            const uint32_t calls = bytes < 1 << 20 ? 200 : 10;
            std::vector<float> data(bytes / sizeof(float));
            std::vector<double> us[3];
            for (uint32_t loop = 0; loop < loops; loop++)
                for (int column = 0; column < 3; column++) {
                    gcoll_allreduce_options options = uniform(column == 2);
                    options.keep_input = column == 1;
                    EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                    const auto begun = std::chrono::steady_clock::now();
                    for (uint32_t call = 0; call < calls; call++)
                        EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, data.data(), data.size(),
                                                        GCOLL_FLOAT32, GCOLL_SUM, &options));
                    const std::chrono::duration<double, std::micro> took =
                        std::chrono::steady_clock::now() - begun;
                    us[column].push_back(took.count() / calls);
                }
            for (std::vector<double> &column : us)
                std::sort(column.begin(), column.end());
            if (rank == 0)
                printf("%s, %llu bytes, us a call: %.1f, with keep_input %.1f, with uniform %.1f\n",
                       process_transport(), static_cast<unsigned long long>(bytes), us[0][loops / 2],
                       us[1][loops / 2], us[2][loops / 2]);
        }
        gcoll_context_destroy(context);
        return 0;
    });
}

} // namespace
