// test/core/grow_test.cc - newcomers join a job that runs. Ranks are processes, which really die.
//
// Environment: GCOLL_TEST_ROUNDS is the number of rounds in which a rank is killed and a newcomer comes.
#include "test/kit/descriptors.h"
#include "test/kit/harness.h"
#include "test/kit/sanitizer.h"
#include "test/kit/setting.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

namespace {

using gcoll_test::await;
using gcoll_test::Folder;
using gcoll_test::Job;
using gcoll_test::Processes;
using gcoll_test::setting;
using gcoll_test::Shared;
using gcoll_test::told;
using Flag = std::atomic<uint32_t>;

constexpr const char *kName = "growing";
constexpr int64_t kLimit = 30000;

Job job_of(uint32_t size) {
    Job job;
    job.size = size;
    job.name = kName;
    job.timeout_ms = kLimit;
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->recovery = 1; };
    return job;
}

gcoll_store *open_store(const Folder &folder) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
    return store;
}

gcoll_status try_join(gcoll_store *store, int64_t timeout_ms, gcoll_context **context,
                      const char *job = kName) {
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.store = store;
    options.job = job;
    options.same = GCOLL_SAME_NOWHERE;
    options.transport = gcoll_test::process_transport();
    options.timeout_ms = timeout_ms;
    return gcoll_context_join(&options, context);
}

gcoll_status grow(gcoll_context *context, gcoll_store *store, gcoll_context **grown, uint32_t most = 0,
                  const char *job = kName) {
    gcoll_grow_options options;
    gcoll_grow_options_init(&options);
    options.store = store;
    options.job = job;
    options.most = most;
    return gcoll_context_grow(context, &options, grown);
}

// Sums are exact, and `auto` chooses: of a few elements and of many.
gcoll_status sum(gcoll_context *context, uint32_t round) {
    const uint32_t rank = gcoll_context_rank(context), size = gcoll_context_size(context);
    for (size_t count : {size_t{3}, size_t{20000}}) {
        std::vector<double> data(count, rank + 100.0 * round), result(count, -1);
        const double expected = size * (size - 1) / 2.0 + 100.0 * round * size;
        const gcoll_status status =
            gcoll_allreduce(context, data.data(), result.data(), count, GCOLL_FLOAT64, GCOLL_SUM, nullptr);
        if (status != GCOLL_OK)
            return status;
        EXPECT_EQ(result, std::vector<double>(count, expected));
    }
    return GCOLL_OK;
}

struct Board {
    Flag round, joined, waiting, done[8], size[8], descriptors[8];
};

// Grows until the context has `size` ranks, in the place of `context`.
bool grow_to(gcoll_context *&context, gcoll_store *store, uint32_t size) {
    const int64_t end_ms = gcoll_test::now_ms() + kLimit;
    uint32_t last = 0; // at least once: `context` may be broken
    while (last != size && gcoll_test::now_ms() < end_ms) {
        gcoll_context *grown = nullptr;
        const gcoll_status status = grow(context, store, &grown);
        EXPECT_GCOLL_OK(status);
        if (status != GCOLL_OK)
            return false;
        if (!grown)
            continue;
        for (uint32_t rank = 0; rank < gcoll_context_size(grown); rank++) {
            const uint32_t before = gcoll_context_parent_rank(grown, rank);
            EXPECT_TRUE(before == UINT32_MAX || before >= rank);
        }
        gcoll_context_destroy(context);
        context = grown;
        last = gcoll_context_size(context);
    }
    EXPECT_EQ(last, size);
    return last == size;
}

int be_inside(const Folder &folder, uint32_t rank, uint32_t before, uint32_t after) {
    gcoll_store *store = open_store(folder);
    gcoll_context *context = gcoll_test::join(store, job_of(before), rank);
    if (!context)
        return gcoll_test::kFailed;
    EXPECT_GCOLL_OK(sum(context, 1));
    if (grow_to(context, store, after)) {
        EXPECT_EQ(gcoll_context_rank(context), rank);
        EXPECT_GCOLL_OK(sum(context, 2));
    }
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    return 0;
}

// may_break: another rank may die after it is in.
int be_newcomer(const Folder &folder, bool may_break = false) {
    gcoll_store *store = open_store(folder);
    gcoll_context *context = nullptr;
    EXPECT_GCOLL_OK(try_join(store, kLimit, &context));
    if (!context)
        return gcoll_test::kFailed;
    const gcoll_status status = sum(context, 2);
    EXPECT_TRUE(status == GCOLL_OK || (may_break && status == GCOLL_ERR_PEER)) << told(status);
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    return 0;
}

class Newcomers : public testing::TestWithParam<uint32_t> {};

TEST_P(Newcomers, OneJoins) {
    Folder folder;
    const uint32_t size = GetParam();
    Processes all(size + 1, [&](uint32_t rank) {
        return rank < size ? be_inside(folder, rank, size, size + 1) : be_newcomer(folder);
    });
    all.expect_success(kLimit);
    EXPECT_EQ(folder.files(), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Sizes, Newcomers, testing::Values(1, 2, 4));

// All that wait come in by one call, while there is room.
TEST(Grow, ManyAtOnce) {
    Folder folder;
    Processes newcomers(6, [&](uint32_t) {
        gcoll_store *store = open_store(folder);
        gcoll_context *context = nullptr;
        EXPECT_GCOLL_OK(try_join(store, kLimit, &context));
        if (context && gcoll_context_size(context) == 6) { // the first four; then come two more
            EXPECT_GCOLL_OK(sum(context, 1));
            grow_to(context, store, 8);
        }
        EXPECT_GCOLL_OK(context ? sum(context, 2) : GCOLL_OK);
        gcoll_context_destroy(context);
        gcoll_store_destroy(store);
        return 0;
    });
    const int64_t end_ms = gcoll_test::now_ms() + kLimit;
    while (folder.files().size() < 6 && gcoll_test::now_ms() < end_ms)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Processes inside(2, [&](uint32_t rank) {
        gcoll_store *store = open_store(folder);
        gcoll_context *context = gcoll_test::join(store, job_of(2), rank), *grown = nullptr;
        EXPECT_GCOLL_OK(grow(context, store, &grown, 4));
        if (!grown)
            return gcoll_test::kFailed;
        EXPECT_EQ(gcoll_context_size(grown), 6U);
        EXPECT_EQ(gcoll_context_parent_rank(grown, 1), 1U);
        EXPECT_EQ(gcoll_context_parent_rank(grown, 2), UINT32_MAX);
        gcoll_context_destroy(context);
        EXPECT_GCOLL_OK(sum(grown, 1));
        grow_to(grown, store, 8);
        EXPECT_GCOLL_OK(sum(grown, 2));
        gcoll_context_destroy(grown);
        gcoll_store_destroy(store);
        return 0;
    });
    inside.expect_success(kLimit);
    newcomers.expect_success(kLimit);
    EXPECT_EQ(folder.files(), std::vector<std::string>());
}

// ---- Nobody, and bad input ------------------------------------------------------------------------------

TEST(Grow, WithoutNewcomersNothingChanges) {
    gcoll_test::run_processes(
        2, kLimit,
        [](uint32_t rank, gcoll_store *store) {
            gcoll_context *context = gcoll_test::join(store, job_of(2), rank);
            for (int i = 0; i < 10; i++) {
                gcoll_context *grown = nullptr;
                EXPECT_GCOLL_OK(grow(context, store, &grown));
                EXPECT_EQ(grown, nullptr);
                EXPECT_GCOLL_OK(sum(context, 1));
            }
            gcoll_context_destroy(context);
            return 0;
        });
}

TEST(Grow, NamesWhatIsWrong) {
    gcoll_test::run_processes(
        1, kLimit,
        [](uint32_t, gcoll_store *store) {
            gcoll_context *context = gcoll_test::join(store, job_of(1), 0), *other = nullptr;
            EXPECT_EQ(grow(context, nullptr, &other), GCOLL_ERR_INVALID);
            EXPECT_NE(strstr(gcoll_last_error(), "options.store"), nullptr);
            EXPECT_EQ(grow(context, store, &other, 17), GCOLL_ERR_INVALID);
            EXPECT_NE(strstr(gcoll_last_error(), "options.most"), nullptr);
            EXPECT_EQ(grow(context, store, &other, 0, "a/b"), GCOLL_ERR_INVALID);
            EXPECT_NE(strstr(gcoll_last_error(), "options.job"), nullptr);
            EXPECT_EQ(try_join(nullptr, 100, &other), GCOLL_ERR_INVALID);
            EXPECT_EQ(try_join(store, 100, &other, "a/b"), GCOLL_ERR_INVALID);
            EXPECT_EQ(try_join(store, 300, &other, "another"), GCOLL_ERR_TIMEOUT);
            EXPECT_NE(strstr(gcoll_last_error(), "was not admitted"), nullptr) << gcoll_last_error();
            EXPECT_EQ(other, nullptr);
            gcoll_context_destroy(context);
            return 0;
        });
}

// A newcomer whose options do not fit is told, and keeps nobody from growing with another one.
TEST(Grow, ANewcomerThatDoesNotFitIsTold) {
    Folder folder;
    Processes all(4, [&](uint32_t rank) {
        if (rank < 2)
            return be_inside(folder, rank, 2, 3);
        if (rank == 3)
            return be_newcomer(folder);
        gcoll_store *store = open_store(folder);
        gcoll_context *context = nullptr;
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        options.store = store;
        options.job = kName;
        options.transport = "tcp";
        options.checksum = 1;
        options.timeout_ms = kLimit;
        EXPECT_EQ(gcoll_context_join(&options, &context), GCOLL_ERR_MISMATCH);
        EXPECT_NE(strstr(gcoll_last_error(), "options.checksum: is 1 on rank"), nullptr)
            << gcoll_last_error();
        gcoll_store_destroy(store);
        return 0;
    });
    all.expect_success(kLimit);
    EXPECT_EQ(folder.files(), std::vector<std::string>());
}

// What stands in the store is nobody's, or no place at all.
TEST(Grow, StrangePlacesAreFreed) {
    gcoll_test::run_processes(
        2, kLimit,
        [](uint32_t rank, gcoll_store *store) {
            gcoll_context *context = gcoll_test::join(store, job_of(2), rank), *grown = nullptr;
            const std::string at = std::string("gcoll/") + kName + "/grow/place.";
            if (rank == 0) {
                EXPECT_GCOLL_OK(gcoll_store_set(store, (at + "0").c_str(), "\n\n", 2));
                EXPECT_GCOLL_OK(
                    gcoll_store_set(store, (at + "3").c_str(), std::string(5000, 'x').data(), 5000));
                EXPECT_GCOLL_OK(
                    gcoll_store_set(store, (at + "5").c_str(), "0123456789abcdef", 16)); // is dead
            }
            EXPECT_GCOLL_OK(grow(context, store, &grown));
            EXPECT_EQ(grown, nullptr);
            EXPECT_GCOLL_OK(sum(context, 1));
            gcoll_context_destroy(context);
            return 0;
        });
}

gcoll_status fail(void *, const char *, void *, size_t, size_t *) {
    return gcoll_store_error(GCOLL_ERR_IO, "the store is out of order");
}

// Only rank 0 asks it, and all ranks get the error.
TEST(Grow, AStoreThatFailsFailsAll) {
    gcoll_test::run_processes(
        3, kLimit,
        [](uint32_t rank, gcoll_store *store) {
            gcoll_store_ops ops = {};
            ops.struct_size = sizeof ops;
            ops.name = "broken";
            ops.set = [](void *, const char *, const void *, size_t) { return GCOLL_ERR_IO; };
            ops.get = fail;
            ops.wait = [](void *, const char *, int64_t) { return GCOLL_ERR_IO; };
            ops.add = [](void *, const char *, int64_t, int64_t *) { return GCOLL_ERR_IO; };
            ops.remove = [](void *, const char *) { return GCOLL_ERR_IO; };
            gcoll_store *broken = nullptr;
            EXPECT_GCOLL_OK(gcoll_store_create(&ops, nullptr, &broken));
            gcoll_context *context = gcoll_test::join(store, job_of(3), rank), *grown = nullptr;
            EXPECT_EQ(grow(context, broken, &grown), GCOLL_ERR_IO) << gcoll_last_error();
            EXPECT_NE(strstr(gcoll_last_error(), "out of order"), nullptr) << gcoll_last_error();
            EXPECT_GCOLL_OK(grow(context, store, &grown)); // may be tried again
            EXPECT_GCOLL_OK(sum(context, 1));
            gcoll_context_destroy(context);
            gcoll_store_destroy(broken);
            return 0;
        });
}

// ---- Deaths ---------------------------------------------------------------------------------------------

// Of four ranks the last is killed, and a newcomer comes: again and again, in one life of the other three.
TEST(Grow, TheKilledAreReplaced) {
    const uint32_t rounds = setting("GCOLL_TEST_ROUNDS", gcoll_test::repeats(20, 10)), size = 4;
    Folder folder;
    Shared<Board> board;
    const auto life = [&](uint32_t number, gcoll_context *context, gcoll_store *store) {
        for (uint32_t round = 1; context; round++) {
            if (sum(context, round) == GCOLL_OK && gcoll_context_rank(context) == size - 1) {
                board->round++;
                for (;;)
                    pause(); // to be killed
            }
            const auto open = static_cast<uint32_t>(gcoll_test::open_descriptors());
            if (round == 2)
                board->descriptors[number] = open;
            else if (round > 2) // a connection that ends may last for a moment
                EXPECT_LE(open, board->descriptors[number] + 4) << "round " << round;
            if (round > rounds)
                break;
            EXPECT_NE(gcoll_barrier(context, nullptr), GCOLL_OK);
            if (!grow_to(context, store, size))
                break;
            board->done[number] = round;
        }
        gcoll_context_destroy(context);
        gcoll_store_destroy(store);
        return 0;
    };
    Processes ranks(size, [&](uint32_t rank) {
        gcoll_store *store = open_store(folder);
        return life(rank, gcoll_test::join(store, job_of(size), rank), store);
    });
    std::unique_ptr<Processes> newcomer;
    for (uint32_t round = 1; round <= rounds + 1 && !HasFailure(); round++) {
        ASSERT_TRUE(await(board->round, round, kLimit)) << "round " << round;
        if (newcomer)
            newcomer->signal(0, SIGKILL);
        else
            ranks.signal(size - 1, SIGKILL);
        if (round > rounds)
            break;
        newcomer = std::make_unique<Processes>(1, [&](uint32_t) {
            gcoll_store *store = open_store(folder);
            gcoll_context *context = nullptr;
            EXPECT_GCOLL_OK(try_join(store, kLimit, &context));
            if (context) {
                EXPECT_GCOLL_OK(sum(context, round + 1));
                board->round++;
                for (;;)
                    pause();
            }
            return gcoll_test::kFailed;
        });
    }
    for (uint32_t rank = 0; rank < size - 1; rank++)
        EXPECT_EQ(ranks.wait(rank, kLimit).code, 0) << "rank " << rank;
    for (const std::string &file : folder.files())
        for (const char *part : {"place", "in.", "ends", "table"})
            EXPECT_EQ(file.find(part), std::string::npos) << file;
}

// Someone dies at any moment of a grow, and the others come to an end with the newcomer that stays.
void die_meanwhile(bool leader, uint32_t delay_us) {
    Folder folder;
    Shared<Board> board;
    const uint32_t before = 3, after = leader ? 3 : 4;
    Processes newcomers(leader ? 1 : 2, [&](uint32_t) { return be_newcomer(folder, true); });
    Processes ranks(before, [&](uint32_t rank) {
        gcoll_store *store = open_store(folder);
        gcoll_context *context = gcoll_test::join(store, job_of(before), rank);
        board->joined++;
        await(board->round, 1, kLimit);
        for (int i = 0; i < 200 && context; i++) {
            gcoll_context *next = nullptr;
            gcoll_status status = grow(context, store, &next);
            uint64_t well = 1;
            if (status != GCOLL_OK) {
                ADD_FAILURE() << told(status);
                break;
            }
            if (!next) { // the newcomers are not there yet
                i--;
                continue;
            }
            gcoll_context_destroy(context);
            context = next;
            // The other one may have died right afterwards.
            well = sum(context, 2) == GCOLL_OK && gcoll_context_size(context) >= after;
            if (gcoll_context_agree(context, &well, nullptr, 0) != GCOLL_OK || well)
                break;
            if (gcoll_context_size(context) > 1 &&
                gcoll_context_shrink(context, nullptr, &next) == GCOLL_OK) {
                gcoll_context_destroy(context);
                context = next;
            }
            break;
        }
        gcoll_context_destroy(context);
        gcoll_store_destroy(store);
        return 0;
    });
    ASSERT_TRUE(await(board->joined, before, kLimit));
    board->round = 1;
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    if (leader)
        ranks.signal(0, SIGKILL);
    else
        newcomers.signal(0, SIGKILL);
    for (uint32_t rank = leader ? 1 : 0; rank < before; rank++)
        EXPECT_EQ(ranks.wait(rank, kLimit).code, 0) << "rank " << rank;
    // A newcomer may have come in before the death, whose context has broken then.
    EXPECT_EQ(newcomers.wait(leader ? 0 : 1, kLimit).code, 0);
}

TEST(Grow, TheLeaderDies) {
    for (uint32_t i = 0; i < setting("GCOLL_TEST_DEATHS", gcoll_test::repeats(12, 6)) && !HasFailure(); i++) {
        SCOPED_TRACE("delay " + std::to_string(i * 700));
        die_meanwhile(true, i * 700);
    }
}

TEST(Grow, ANewcomerDies) {
    for (uint32_t i = 0; i < setting("GCOLL_TEST_DEATHS", gcoll_test::repeats(12, 6)) && !HasFailure(); i++) {
        SCOPED_TRACE("delay " + std::to_string(i * 700));
        die_meanwhile(false, i * 700);
    }
}

} // namespace
