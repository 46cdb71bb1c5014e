// test/core/recovery_test.cc - going on after a failure: the ranks that are left agree, make a context of
// their own, and repeat what failed. Ranks are processes, which really die and stop.
//
// Environment: GCOLL_TEST_KILLS is the number of jobs in which ranks are killed, GCOLL_TEST_STOPS that of
// jobs in which one is stopped.
#include "test/kit/descriptors.h"
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
#include <set>
#include <string>
#include <thread>

namespace {

using gcoll_test::await;
using gcoll_test::Folder;
using gcoll_test::Job;
using gcoll_test::now_ms;
using gcoll_test::Processes;
using gcoll_test::run_threads;
using gcoll_test::setting;
using gcoll_test::Shared;
using gcoll_test::told;
using Flag = std::atomic<uint32_t>;

constexpr uint32_t kMost = 8;
constexpr int64_t kStopMs = 5000; // the timeout of contexts of which a rank is stopped
const int64_t kPatienceMs = setting("GCOLL_TEST_PATIENCE_MS", 15000);

int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

void log_line(void *arg, gcoll_log_level, const char *text) {
    fprintf(stderr, "%lld rank %u: %s\n", static_cast<long long>(now_us()),
            static_cast<unsigned>(reinterpret_cast<uintptr_t>(arg)), text);
}

Job job_of(uint32_t size, int64_t timeout_ms) {
    Job job;
    job.size = size;
    job.name = "recovering";
    job.timeout_ms = timeout_ms;
    job.adjust = [](uint32_t rank, gcoll_context_options *options) {
        options->recovery = 1;
        options->log = getenv("GCOLL_TEST_LOG") ? log_line : nullptr;
        options->log_arg = reinterpret_cast<void *>(uintptr_t{rank});
    };
    return job;
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

// ---- Without real deaths --------------------------------------------------------------------------------

class Agreeing : public testing::TestWithParam<const char *> {
  protected:
    Job job(uint32_t size, int64_t timeout_ms = 20000) {
        Job made = job_of(size, timeout_ms);
        made.transport = GetParam();
        return made;
    }
};

INSTANTIATE_TEST_SUITE_P(Transports, Agreeing, gcoll_test::transports(),
                         [](const auto &place) { return std::string(place.param); });

std::vector<uint32_t> failed_of(gcoll_context *context) {
    std::vector<uint32_t> ranks(kMost);
    uint32_t count = 0;
    EXPECT_GCOLL_OK(gcoll_context_failed(context, ranks.data(), kMost, &count));
    ranks.resize(count);
    return ranks;
}

TEST_P(Agreeing, GivesTheAndAndTheMinimumAndFindsNobodyGone) {
    for (uint32_t size : {1u, 2u, 3u, 5u, 8u})
        run_threads(
            job(size),
            [&](uint32_t rank, gcoll_context *context) {
                for (uint64_t i = 0; i < 50; i++) {
                    uint64_t bits = ~(uint64_t{1} << (rank + i) % 64), completed = 0, expected = UINT64_MAX;
                    for (uint32_t other = 0; other < size; other++)
                        expected &= ~(uint64_t{1} << (other + i) % 64);
                    EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, &completed, 0));
                    EXPECT_EQ(bits, expected);
                    EXPECT_EQ(completed, gcoll_context_completed(context));
                    EXPECT_TRUE(failed_of(context).empty());
                    const uint64_t before = gcoll_context_completed(context);
                    EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                    EXPECT_EQ(gcoll_context_completed(context), before + 1);
                }
            });
}

// Many agreements in which ranks do not wait for one another: messages of a later one may come in an earlier
// one.
TEST_P(Agreeing, AgainAndAgain) {
    const int times = gcoll_test::is_sanitized() ? 200 : 2000;
    run_threads(job(4), [&](uint32_t rank, gcoll_context *context) {
        for (int i = 0; i < times; i++) {
            uint64_t bits = rank == static_cast<uint32_t>(i) % 4 ? 1 : 3;
            ASSERT_EQ(gcoll_context_agree(context, &bits, nullptr, 0), GCOLL_OK) << gcoll_last_error();
            ASSERT_EQ(bits, 1u);
        }
    });
}

// A context that all ranks still have can be shrunk, too, whole or broken, and so can what comes of it.
TEST_P(Agreeing, AllWhoAreLeftAreInTheNewContext) {
    for (uint32_t size : {1u, 2u, 5u})
        run_threads(
            job(size),
            [&](uint32_t rank, gcoll_context *context) {
                gcoll_context *contexts[4] = {context};
                for (int i = 0; i < 3; i++) {
                    uint64_t bits = 1;
                    EXPECT_GCOLL_OK(
                        gcoll_context_agree(contexts[i], &bits, nullptr, 0)); // all are done with it
                    if (rank == 0 && i > 0)
                        gcoll_context_abort(contexts[i], "enough");
                    ASSERT_GCOLL_OK(gcoll_context_shrink(contexts[i], nullptr, &contexts[i + 1]));
                    EXPECT_EQ(gcoll_context_size(contexts[i + 1]), size);
                    EXPECT_EQ(gcoll_context_rank(contexts[i + 1]), rank);
                    EXPECT_GCOLL_OK(gcoll_context_health(contexts[i + 1]));
                    EXPECT_GCOLL_OK(sum(contexts[i + 1], Members(size), rank, 1, 1000));
                }
                for (int i = 1; i < 4; i++)
                    gcoll_context_destroy(contexts[i]);
            });
}

// A rank that destroys its context is gone. The others keep their order, and know its number.
TEST_P(Agreeing, ThoseWhoLeaveAreGone) {
    run_threads(
        job(5),
        [&](uint32_t rank, gcoll_context *context) {
            gcoll_context *half = nullptr, *shrunk = nullptr;
            EXPECT_GCOLL_OK(gcoll_context_duplicate(context, &half)); // the harness destroys the other one
            if (rank == 0 || rank == 3) {
                gcoll_context_destroy(half);
                return;
            }
            uint64_t bits = rank;
            EXPECT_GCOLL_OK(gcoll_context_agree(half, &bits, nullptr, 0));
            EXPECT_EQ(bits, 1u & 2u & 4u);
            EXPECT_EQ(failed_of(half), (std::vector<uint32_t>{0, 3}));
            EXPECT_EQ(gcoll_barrier(half, nullptr), GCOLL_ERR_PEER) << "it waits for nobody who is gone";
            EXPECT_LE(gcoll_context_culprit(half), 3);
            uint32_t count = 0, one = 99;
            EXPECT_GCOLL_OK(gcoll_context_failed(half, &one, 1, &count));
            EXPECT_EQ(count, 2u);
            EXPECT_EQ(one, 0u);
            ASSERT_GCOLL_OK(gcoll_context_shrink(half, nullptr, &shrunk));
            ASSERT_EQ(gcoll_context_size(shrunk), 3u);
            const uint32_t expected[] = {1, 2, 4};
            for (uint32_t i = 0; i < 3; i++)
                EXPECT_EQ(gcoll_context_parent_rank(shrunk, i), expected[i]);
            Members members(5);
            members.follow(shrunk);
            EXPECT_EQ(sum(shrunk, members, rank, 1, 10), GCOLL_OK);
            gcoll_context_destroy(half);
            EXPECT_EQ(sum(shrunk, members, rank, 2, 10), GCOLL_OK);
            gcoll_context_destroy(shrunk);
        });
}

TEST_P(Agreeing, OnlyIfMoreThanHalfAreLeft) {
    for (uint32_t leavers : {1u, 2u, 3u})
        run_threads(
            job(4),
            [&](uint32_t rank, gcoll_context *context) {
                gcoll_context *half = nullptr, *shrunk = nullptr;
                EXPECT_GCOLL_OK(gcoll_context_duplicate(context, &half));
                if (rank < leavers) {
                    gcoll_context_destroy(half);
                    return;
                }
                gcoll_shrink_options options;
                gcoll_shrink_options_init(&options);
                options.majority = 1;
                const gcoll_status status = gcoll_context_shrink(half, &options, &shrunk);
                if (leavers == 1) {
                    EXPECT_GCOLL_OK(status);
                    EXPECT_EQ(gcoll_context_size(shrunk), 3u);
                } else {
                    EXPECT_EQ(status, GCOLL_ERR_PEER);
                    EXPECT_NE(strstr(gcoll_last_error(), "of 4 ranks are left"), nullptr)
                        << gcoll_last_error();
                    EXPECT_EQ(shrunk, nullptr);
                }
                gcoll_context_destroy(shrunk);
                gcoll_context_destroy(half);
            });
}

// Splits have councils of their own.
TEST_P(Agreeing, PartsOfAContextByThemselves) {
    run_threads(
        job(6),
        [&](uint32_t rank, gcoll_context *context) {
            gcoll_context *part = nullptr, *shrunk = nullptr;
            EXPECT_GCOLL_OK(gcoll_context_split(context, static_cast<int32_t>(rank % 2), 0, &part));
            if (rank / 2 == rank % 2) { // rank 0 leaves the even ones, rank 3 the odd ones
                gcoll_context_destroy(part);
                part = nullptr;
            } else {
                ASSERT_GCOLL_OK(gcoll_context_shrink(part, nullptr, &shrunk));
                EXPECT_EQ(gcoll_context_size(shrunk), 2u);
                EXPECT_GCOLL_OK(gcoll_barrier(shrunk, nullptr));
            }
            gcoll_context_destroy(shrunk);
            gcoll_context_destroy(part);
            uint64_t bits = 3;
            EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, nullptr, 0));
            EXPECT_EQ(bits, 3u);
        });
}

// Ranks in different calls all find out, and can go on.
TEST_P(Agreeing, DifferentCallsAreAMismatch) {
    run_threads(
        job(3),
        [&](uint32_t rank, gcoll_context *context) {
            uint64_t bits = 5;
            gcoll_context *shrunk = nullptr;
            const gcoll_status status = rank == 1 ? gcoll_context_shrink(context, nullptr, &shrunk)
                                                  : gcoll_context_agree(context, &bits, nullptr, 0);
            EXPECT_EQ(status, GCOLL_ERR_MISMATCH);
            EXPECT_STREQ(gcoll_last_error(),
                         "rank 0 calls gcoll_context_agree, and rank 1 calls gcoll_context_shrink");
            EXPECT_EQ(bits, 5u);
            EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, nullptr, 0));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

// The number of completed operations counts those only that all before have completed, too.
TEST_P(Agreeing, WhatWasCompletedIsTheMinimum) {
    Flag checked{0};
    run_threads(job(3), [&](uint32_t rank, gcoll_context *context) {
        const uint64_t before = gcoll_context_completed(context);
        for (int i = 0; i < 3; i++)
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        uint64_t bits = 0, completed = 0;
        EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, nullptr, 0)); // all are through
        if (rank == 0)
            gcoll_context_abort(context, "enough");
        EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
        EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, &completed, 0));
        EXPECT_EQ(completed, before + 3);
        EXPECT_TRUE(failed_of(context).empty()) << "a rank that aborts is not gone";
        checked++;
        EXPECT_TRUE(await(checked, 3)); // before any leaves
    });
}

// The others give up a rank that is late, but lives and comes to the agreement.
TEST_P(Agreeing, ALateRankThatComesIsNotGone) {
    Flag given_up{0}, checked{0};
    Job late = job(3);
    late.timeout_ms = 1000;
    run_threads(late, [&](uint32_t rank, gcoll_context *context) {
        uint64_t bits = 1;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == 1)
            EXPECT_TRUE(await(given_up, 2));
        else {
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_TIMEOUT);
            EXPECT_EQ(gcoll_context_culprit(context), 1);
            EXPECT_EQ(failed_of(context), std::vector<uint32_t>{1}) << "as far as is known";
            given_up++;
        }
        EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, nullptr, 5000));
        EXPECT_TRUE(failed_of(context).empty()) << "it is in the agreement";
        gcoll_context *shrunk = nullptr;
        EXPECT_GCOLL_OK(gcoll_context_shrink(context, nullptr, &shrunk));
        EXPECT_EQ(gcoll_context_size(shrunk), 3u);
        EXPECT_TRUE(failed_of(context).empty());
        checked++;
        EXPECT_TRUE(await(checked, 3)); // before any leaves
        gcoll_context_destroy(shrunk);
    });
}

// The context of one rank breaks before the ranks have met on it, so nobody can be told. They hear of it when
// they connect to that rank, which waits for them in an agreement; or else it would count them as gone, as
// they are in a collective for longer than it waits.
TEST_P(Agreeing, WhoConnectsToARankThatWaitsLearnsTheCause) {
    Flag broken{0}, checked{0};
    run_threads(job(3, 3000), [&](uint32_t rank, gcoll_context *context) {
        gcoll_context *fresh = nullptr, *shrunk = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_shrink(context, nullptr, &fresh));
        if (rank == 1) {
            gcoll_context_abort(fresh, "enough");
            EXPECT_EQ(gcoll_barrier(fresh, nullptr), GCOLL_ERR_ABORTED);
            broken++;
        } else {
            EXPECT_TRUE(await(broken, 1));
            usleep(300000);
            EXPECT_EQ(gcoll_barrier(fresh, nullptr), GCOLL_ERR_ABORTED);
            EXPECT_NE(strstr(gcoll_last_error(), "rank 1 aborted: enough"), nullptr) << gcoll_last_error();
        }
        uint64_t bits = 1;
        EXPECT_GCOLL_OK(gcoll_context_agree(fresh, &bits, nullptr, 0));
        EXPECT_TRUE(failed_of(fresh).empty());
        EXPECT_GCOLL_OK(gcoll_context_shrink(fresh, nullptr, &shrunk));
        EXPECT_EQ(gcoll_context_size(shrunk), 3u);
        checked++;
        EXPECT_TRUE(await(checked, 3)); // before any leaves
        gcoll_context_destroy(shrunk);
        gcoll_context_destroy(fresh);
    });
}

// One rank waits on a new context for another, which does not come, and is connected to nobody. The third has
// seen the context break, and waits in an agreement for the first, which it tells.
TEST_P(Agreeing, WhoWaitsForAnotherIsToldByTheRankThatWaitsForIt) {
    Flag heard{0}, checked{0};
    run_threads(job(3), [&](uint32_t rank, gcoll_context *context) {
        const uint32_t other = 1;
        uint32_t source = 0;
        char byte = 0;
        gcoll_context *fresh = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_shrink(context, nullptr, &fresh));
        if (rank == 0) {
            const int64_t begun_ms = now_ms();
            EXPECT_EQ(gcoll_context_recv_any(fresh, &other, 1, 1, &byte, 1, &source), GCOLL_ERR_ABORTED);
            EXPECT_LT(now_ms() - begun_ms, 5000);
            heard++;
        } else if (rank == 1)
            EXPECT_TRUE(await(heard, 1, 30000));
        else
            gcoll_context_abort(fresh, "enough");
        uint64_t bits = 1;
        EXPECT_GCOLL_OK(gcoll_context_agree(fresh, &bits, nullptr, 0));
        EXPECT_TRUE(failed_of(fresh).empty());
        checked++;
        EXPECT_TRUE(await(checked, 3)); // before any leaves
        gcoll_context_destroy(fresh);
    });
}

// A rank does not come for so long that the others go on without it, before it has used the context. When it
// comes, they are not there any more, and yet it is told, and does not go on by itself.
TEST_P(Agreeing, WhoComesFirstWhenTheOthersHaveGoneIsTold) {
    Flag gone{0}, checked{0};
    run_threads(job(3, 1000), [&](uint32_t rank, gcoll_context *context) {
        gcoll_context *fresh = nullptr, *shrunk = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_shrink(context, nullptr, &fresh));
        if (rank == 2)
            EXPECT_TRUE(await(gone, 2, 20000));
        EXPECT_NE(gcoll_barrier(fresh, nullptr), GCOLL_OK);
        EXPECT_EQ(gcoll_context_shrink(fresh, nullptr, &shrunk), rank == 2 ? GCOLL_ERR_PEER : GCOLL_OK);
        gcoll_context_destroy(fresh);
        gone++;
        EXPECT_EQ(gcoll_context_size(shrunk), rank == 2 ? 0u : 2u);
        checked++;
        EXPECT_TRUE(await(checked, 3, 20000)); // before any leaves
        gcoll_context_destroy(shrunk);
    });
}

TEST_P(Agreeing, WithoutATimeLimit) {
    run_threads(
        job(3),
        [&](uint32_t rank, gcoll_context *context) {
            uint64_t bits = 3;
            usleep(20000 * rank);
            EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, nullptr, -1));
            EXPECT_EQ(bits, 3u);
        });
}

TEST(AgreeingInput, IsChecked) {
    uint64_t bits = 1;
    uint32_t count = 0, rank = 0;
    gcoll_context *shrunk = nullptr;
    EXPECT_EQ(gcoll_context_agree(nullptr, &bits, nullptr, 0), GCOLL_ERR_INVALID);
    EXPECT_STREQ(gcoll_last_error(), "context: is NULL");
    EXPECT_EQ(gcoll_context_shrink(nullptr, nullptr, &shrunk), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_context_failed(nullptr, &rank, 1, &count), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_context_completed(nullptr), 0u);
    Job job = job_of(2, 20000);
    run_threads(job, [&](uint32_t, gcoll_context *context) {
        uint64_t own = 7;
        uint32_t found = 9;
        gcoll_context *none = nullptr;
        EXPECT_EQ(gcoll_context_agree(context, nullptr, nullptr, 0), GCOLL_ERR_INVALID);
        EXPECT_STREQ(gcoll_last_error(), "bits: is NULL");
        EXPECT_EQ(gcoll_context_agree(context, &own, nullptr, -2), GCOLL_ERR_INVALID);
        EXPECT_NE(strstr(gcoll_last_error(), "timeout_ms: is -2"), nullptr) << gcoll_last_error();
        EXPECT_EQ(gcoll_context_failed(context, nullptr, 1, &found), GCOLL_ERR_INVALID);
        EXPECT_STREQ(gcoll_last_error(), "ranks: is NULL");
        EXPECT_EQ(gcoll_context_failed(context, &found, 1, nullptr), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_context_shrink(context, nullptr, nullptr), GCOLL_ERR_INVALID);
        gcoll_shrink_options options;
        gcoll_shrink_options_init(&options);
        options.majority = 2;
        EXPECT_EQ(gcoll_context_shrink(context, &options, &none), GCOLL_ERR_INVALID);
        EXPECT_STREQ(gcoll_last_error(), "options.majority: is 2; allowed are 0 and 1");
        options.majority = 0;
        options.timeout_ms = -7;
        EXPECT_EQ(gcoll_context_shrink(context, &options, &none), GCOLL_ERR_INVALID);
        options.struct_size = 3;
        EXPECT_EQ(gcoll_context_shrink(context, &options, &none), GCOLL_ERR_INVALID);
        EXPECT_EQ(own, 7u);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // nothing is broken
    });
    job.adjust = nullptr;
    run_threads(job, [&](uint32_t, gcoll_context *context) {
        uint64_t own = 7;
        gcoll_context *none = nullptr;
        EXPECT_EQ(gcoll_context_agree(context, &own, nullptr, 0), GCOLL_ERR_UNSUPPORTED);
        EXPECT_STREQ(gcoll_last_error(),
                     "the context was created without options.recovery; it must be 1 on every rank when the "
                     "context is created");
        EXPECT_EQ(gcoll_context_shrink(context, nullptr, &none), GCOLL_ERR_UNSUPPORTED);
        EXPECT_TRUE(failed_of(context).empty());
    });
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.recovery = options.share = 1;
    EXPECT_EQ(gcoll_context_create(&options, &shrunk), GCOLL_ERR_INVALID);
    EXPECT_STREQ(gcoll_last_error(), "options.recovery: is 1, and options.share 1; allowed is one of them");
    options.recovery = 2;
    EXPECT_EQ(gcoll_context_create(&options, &shrunk), GCOLL_ERR_INVALID);
}

TEST(AgreeingInput, ARankWithoutTheOptionIsAMismatchThatNamesIt) {
    gcoll_store *store = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
    const auto body = [&](uint32_t rank) {
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        options.rank = rank;
        options.size = 2;
        options.store = store;
        options.transport = "tcp";
        options.tuning = "default";
        options.recovery = rank == 0;
        gcoll_context *context = nullptr;
        const gcoll_status status = gcoll_context_create(&options, &context);
        if (rank == 0) {
            EXPECT_EQ(status, GCOLL_ERR_MISMATCH);
            EXPECT_NE(strstr(gcoll_last_error(), "options.recovery, which must be the same on all"), nullptr)
                << gcoll_last_error();
        } else {
            ASSERT_GCOLL_OK(status);
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_MISMATCH);
        }
        gcoll_context_destroy(context);
    };
    std::thread other(body, 1u);
    body(0);
    other.join();
    gcoll_store_destroy(store);
}

// A forked child has no part in it, and what it destroys no peer notices.
TEST(AgreeingInput, AChildHasNoPart) {
    gcoll_test::run_processes(
        2, 20000,
        [](uint32_t rank, gcoll_store *store) {
            gcoll_context *context = gcoll_test::join(store, job_of(2, 20000), rank), *shrunk = nullptr;
            uint64_t bits = 1;
            EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, nullptr, 0));
            gcoll_test::in_child([&] {
                uint32_t count = 0;
                EXPECT_EQ(gcoll_context_agree(context, &bits, nullptr, 0), GCOLL_ERR_STATE);
                EXPECT_EQ(gcoll_context_shrink(context, nullptr, &shrunk), GCOLL_ERR_STATE);
                EXPECT_EQ(gcoll_context_failed(context, nullptr, 0, &count), GCOLL_ERR_STATE);
                gcoll_context_destroy(context);
            });
            EXPECT_GCOLL_OK(gcoll_context_shrink(context, nullptr, &shrunk));
            EXPECT_EQ(gcoll_context_size(shrunk), 2u);
            EXPECT_EQ(sum(shrunk, Members(2), rank, 1, 10), GCOLL_OK);
            gcoll_context_destroy(shrunk);
            gcoll_context_destroy(context);
            return 0;
        });
}

// 100 times shrunk, a job of threads holds no more descriptors than at first.
TEST(AgreeingDescriptors, DoNotGrow) {
    run_threads(
        [] {
            Job job = job_of(3, 20000);
            job.transport = "tcp";
            return job;
        }(),
        [&](uint32_t rank, gcoll_context *context) {
            gcoll_context *now = nullptr;
            size_t first = 0;
            EXPECT_GCOLL_OK(gcoll_context_shrink(context, nullptr, &now));
            for (int i = 0; i < 100; i++) {
                gcoll_context *next = nullptr;
                ASSERT_GCOLL_OK(gcoll_context_shrink(now, nullptr, &next));
                gcoll_context_destroy(now);
                now = next;
                EXPECT_EQ(sum(now, Members(3), rank, 1, 10), GCOLL_OK);
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // none is in the middle of it
                if (i == 1)
                    first = gcoll_test::open_descriptors();
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            }
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            if (rank == 0)
                EXPECT_LT(gcoll_test::open_descriptors(), first + 10); // some connect or accept just now
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            gcoll_context_destroy(now);
        });
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
    Job job = job_of(size, 20000);
    if (random() % 2) { // so few ports that those of the dead soon belong to new contexts
        const uint16_t first = static_cast<uint16_t>(20000 + random() % 10000);
        job.adjust = [first, size, adjust = job.adjust](uint32_t rank, gcoll_context_options *options) {
            adjust(rank, options);
            options->port_min = first;
            options->port_max = static_cast<uint16_t>(first + 8 * size);
        };
    }
    Folder folder;
    Shared<Board> board;
    Processes ranks(size, [&](uint32_t rank) { return work(*board, folder, rank, job, count); });
    ASSERT_TRUE(await(board->joined, size, kPatienceMs));
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
            const int64_t end_ms = now_ms() + kPatienceMs;
            while (board->left[rank] != size - victims && now_ms() < end_ms)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            EXPECT_EQ(board->left[rank].load(), size - victims) << "of rank " << rank;
            const uint32_t rounds = board->rounds[rank];
            EXPECT_TRUE(await(board->rounds[rank], rounds + 1, kPatienceMs));
            slowest_us = std::max(slowest_us, board->recovered_us[rank] - killed_us);
        }
    statistics.us.push_back(slowest_us);
    board->stop = 1;
    for (uint32_t rank = 0; rank < size; rank++)
        if (!gone.count(rank))
            EXPECT_EQ(ranks.wait(rank, kPatienceMs).code, 0) << "rank " << rank << ": " << board->text[rank];
}

TEST(Recovery, SurvivorsGoOn) {
    const uint32_t jobs = setting("GCOLL_TEST_KILLS", gcoll_test::repeats(20, 8));
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

// ---- What it costs --------------------------------------------------------------------------------------

// Prints medians, of rank 0, which leads.
TEST(Recovery, Costs) {
    constexpr int kTimes = 50;
    for (uint32_t size : {2u, 4u, 8u})
        gcoll_test::run_processes(size, 60000, [&](uint32_t rank, gcoll_store *store) {
            gcoll_context *context = gcoll_test::join(store, job_of(size, 20000), rank);
            std::vector<int64_t> agree_us, shrink_us;
            for (int i = 0; i < kTimes; i++) {
                uint64_t bits = 1;
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                const int64_t begun = now_us();
                EXPECT_GCOLL_OK(gcoll_context_agree(context, &bits, nullptr, 0));
                const int64_t agreed = now_us();
                gcoll_context *shrunk = nullptr;
                EXPECT_GCOLL_OK(gcoll_context_shrink(context, nullptr, &shrunk));
                EXPECT_GCOLL_OK(gcoll_barrier(shrunk, nullptr)); // it makes its connections
                shrink_us.push_back(now_us() - agreed);
                agree_us.push_back(agreed - begun);
                gcoll_context_destroy(shrunk);
            }
            std::sort(agree_us.begin(), agree_us.end());
            std::sort(shrink_us.begin(), shrink_us.end());
            if (rank == 0)
                printf("%u ranks over %s, us: an agreement %lld, a shrink and a barrier in the new context "
                       "%lld\n",
                       size, gcoll_test::process_transport(), static_cast<long long>(agree_us[kTimes / 2]),
                       static_cast<long long>(shrink_us[kTimes / 2]));
            gcoll_context_destroy(context);
            return 0;
        });
}

// ---- Stopped --------------------------------------------------------------------------------------------

// A rank that is stopped for so long that the others go on without it is told so, and disturbs nobody.
TEST(Recovery, AStoppedRankIsLeftOutAndTold) {
    const uint32_t stops = setting("GCOLL_TEST_STOPS", 2);
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
        EXPECT_EQ(ranks.wait(victim, 2 * kPatienceMs).code, 1);
        EXPECT_EQ(board->last_status[victim], GCOLL_ERR_PEER) << board->text[victim];
        EXPECT_NE(strstr(board->text[victim], "left out"), nullptr) << board->text[victim];
        const uint32_t other = victim ? 0 : 1, rounds = board->rounds[other];
        EXPECT_TRUE(await(board->rounds[other], rounds + 10)) << "the others are disturbed";
        board->stop = 1;
        for (uint32_t rank = 0; rank < size; rank++)
            if (rank != victim) {
                EXPECT_EQ(ranks.wait(rank, kPatienceMs).code, 0)
                    << "rank " << rank << ": " << board->text[rank];
                EXPECT_EQ(board->left[rank].load(), size - 1);
            }
    }
}

} // namespace
