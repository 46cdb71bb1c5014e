// The monitor: that ranks agree on what they run, whoever is late, and what they are told of it.
#include "test/kit/variable.h"
#include "test/monitor/arrival_support.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <set>

namespace {

using namespace arrival_support;
using gcoll_test::run_threads;
using gcoll_test::told;

using Place = std::tuple<uint32_t, const char *>;
class Watched : public testing::TestWithParam<Place> {};

// The last rank computes longer than all others in each step: after a few calls it is known and heeded.
TEST_P(Watched, OneThatIsAlwaysLateIsHeeded) {
    const auto [size, transport] = GetParam();
    Agreement agreement;
    std::atomic<uint32_t> coming{0};
    run_threads(watched(size, transport), [&, size = size](uint32_t rank, gcoll_context *context) {
        for (uint32_t call = 0; call < 14; call++) {
            ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr)); // what was checked before counts for nobody
            if (rank + 1 == size) {
                ASSERT_TRUE(gcoll_test::await(coming, (size - 1) * (call + 1)));
                stay_away_us(15000);
            } else {
                coming++;
            }
            ASSERT_GCOLL_OK(sum(context, 100000, call));
        }
        std::vector<gcoll_rank_stats> ranks;
        const gcoll_site_stats seen = stats(context, 1, &ranks);
        agreement.add(common(seen));
        EXPECT_EQ(seen.calls, 14u);
        if (size < 8) // there is nothing to choose, or little to gain
            return;
        EXPECT_GT(seen.heeded, 0u) << seen.imbalance_us;
        EXPECT_TRUE(strcmp(seen.algorithm, "pre_reduced_ring") == 0 ||
                    strcmp(seen.algorithm, "sorted_linear_tree") == 0)
            << seen.algorithm;
        EXPECT_GT(ranks[size - 1].expected_us, ranks[0].expected_us);
        if (rank == 0) {
            EXPECT_GT(ranks[size - 1].last, 0u);
            EXPECT_GT(ranks[size - 1].mean_late_us, 5000);
            char one[2048] = "", all[16384] = "";
            EXPECT_GCOLL_OK(gcoll_arrival_site_text(context, 1, one, sizeof one));
            EXPECT_GCOLL_OK(gcoll_arrival_stats_text(context, all, sizeof all));
            EXPECT_EQ(strncmp(one, "allreduce of 100000 float32: 14 calls, ", 39), 0) << one;
            EXPECT_NE(std::string(one).find("\n    rank " + std::to_string(size - 1) + " "),
                      std::string::npos)
                << one;
            EXPECT_NE(std::string(all).find(one), std::string::npos) << all;
        }
    });
}

// Whoever is late differs from call to call, so plans come and go.
TEST_P(Watched, RanksAgreeWhoeverIsLate) {
    const auto [size, transport] = GetParam();
    Agreement agreement;
    run_threads(watched(size, transport), [&, size = size](uint32_t rank, gcoll_context *context) {
        for (uint32_t call = 0; call < 90; call++) {
            if (rank == call / 30 % size || collective_support::mix(call * 100 + rank) % 7 == 0)
                stay_away_us(2000);
            ASSERT_GCOLL_OK(sum(context, 5000 + 3 * (call % 2), call)); /* two sites */
        }
        agreement.add(common(stats(context, 0)) + "; " + common(stats(context, 1)));
    });
}

INSTANTIATE_TEST_SUITE_P(All, Watched,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8), gcoll_test::transports()));

// Ranks leave a broadcast or a reduce at different times, and may be several calls ahead of one another.
TEST(Monitor, RanksThatRunAheadAgree) {
    for (const char *transport : gcoll_test::transports_to_test()) {
        Agreement agreement;
        run_threads(watched(4, transport), [&](uint32_t rank, gcoll_context *context) {
            std::vector<int32_t> data(100);
            for (int32_t call = 0; call < 60; call++) {
                data.assign(data.size(), rank == 0 ? call : -1);
                ASSERT_GCOLL_OK(gcoll_broadcast(context, data.data(), data.size(), GCOLL_INT32, 0, nullptr));
                EXPECT_EQ(data, std::vector<int32_t>(data.size(), call));
                data.assign(data.size(), call);
                std::vector<int32_t> total(data.size());
                ASSERT_GCOLL_OK(gcoll_reduce(context, data.data(), total.data(), data.size(), GCOLL_INT32,
                                             GCOLL_SUM, 2, nullptr));
                if (rank == 2)
                    EXPECT_EQ(total, std::vector<int32_t>(data.size(), 4 * call));
                if (call % 7 == 0)
                    ASSERT_GCOLL_OK(sum(context, 50, static_cast<uint32_t>(call)));
            }
            ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
            std::string all;
            for (uint32_t site = 0; site < 4; site++)
                all += common(stats(context, site)) + "; ";
            agreement.add(all);
        });
    }
}

// One call of each collective that is watched, whose results are checked. One rank is late to each that has
// an algorithm for that.
void all_kinds(gcoll_context *context, int32_t call, uint32_t late) {
    const uint32_t rank = gcoll_context_rank(context), size = gcoll_context_size(context);
    const size_t block = 3000;
    std::vector<int32_t> data(block, rank == 1 ? call : -1), total(block), all(block * size);
    const auto compute = [&] { stay_away_us(rank == late ? 3000 : 0); };
    compute();
    ASSERT_GCOLL_OK(gcoll_broadcast(context, data.data(), block, GCOLL_INT32, 1, nullptr));
    EXPECT_EQ(data, std::vector<int32_t>(block, call));
    ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
    compute();
    ASSERT_GCOLL_OK(
        gcoll_reduce(context, data.data(), total.data(), block, GCOLL_INT32, GCOLL_SUM, 0, nullptr));
    if (rank == 0)
        EXPECT_EQ(total, std::vector<int32_t>(block, call * static_cast<int32_t>(size)));
    data.assign(block, static_cast<int32_t>(rank) + call);
    ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
    compute();
    ASSERT_GCOLL_OK(gcoll_allgather(context, data.data(), all.data(), block, GCOLL_INT32, nullptr));
    for (size_t i = 0; i < all.size(); i++)
        ASSERT_EQ(all[i], static_cast<int32_t>(i / block) + call);
    std::vector<int32_t> scattered(block);
    ASSERT_GCOLL_OK(
        gcoll_reduce_scatter(context, all.data(), scattered.data(), block, GCOLL_INT32, GCOLL_SUM, nullptr));
    EXPECT_EQ(scattered,
              std::vector<int32_t>(block, static_cast<int32_t>(size) * (static_cast<int32_t>(rank) + call)));
}

TEST(Monitor, EveryCollectiveIsRightWhoeverIsLate) {
    for (const char *transport : gcoll_test::transports_to_test()) {
        Agreement agreement;
        run_threads(watched(5, transport), [&](uint32_t, gcoll_context *context) {
            for (int32_t call = 0; call < 40; call++)
                all_kinds(context, call, call < 20 ? 2 : 0);
            std::string all;
            for (uint32_t site = 0; site < 5; site++)
                all += common(stats(context, site)) + "; ";
            for (uint32_t site : {2u, 3u}) // reduce, allgather; a broadcast may gain too little
                EXPECT_GT(stats(context, site).heeded, 0u) << transport << ", site " << site;
            agreement.add(all);
        });
    }
}

// More kinds of calls than are watched.
TEST(Monitor, CallsBeyondTheLastSiteAreOrdinary) {
    Agreement agreement;
    run_threads(watched(3, "inproc"), [&](uint32_t, gcoll_context *context) {
        for (uint32_t round = 0; round < 6; round++)
            for (uint64_t count = 1; count <= 70; count++)
                ASSERT_GCOLL_OK(sum(context, count));
        gcoll_site_stats seen = {};
        seen.struct_size = sizeof seen;
        EXPECT_GCOLL_OK(gcoll_arrival_stats(context, 63, &seen, nullptr));
        EXPECT_EQ(seen.count, 64u);
        EXPECT_EQ(gcoll_arrival_stats(context, 64, &seen, nullptr), GCOLL_ERR_NOT_FOUND);
        agreement.add(common(seen));
    });
}

TEST(Monitor, NumbersTellSitesApart) {
    run_threads(
        watched(3, "inproc"),
        [&](uint32_t, gcoll_context *context) {
            for (uint32_t call = 0; call < 12; call++) {
                ASSERT_GCOLL_OK(gcoll_arrival_site(context, call % 3));
                ASSERT_GCOLL_OK(sum(context, 30));
            }
            for (uint32_t site = 0; site < 3; site++) {
                EXPECT_EQ(stats(context, site).number, site);
                EXPECT_EQ(stats(context, site).calls, 4u);
            }
        });
}

// An algorithm that is named, and calls that do not block, are as without a monitor.
TEST(Monitor, LeavesAloneWhatItDoesNotWatch) {
    run_threads(
        watched(3, "inproc"),
        [&](uint32_t, gcoll_context *context) {
            const gcoll_allreduce_options ring = collective_support::by("ring");
            for (uint32_t call = 0; call < 12; call++) {
                ASSERT_GCOLL_OK(sum(context, 30, call, &ring));
                gcoll_request *request = nullptr;
                int32_t one = 1;
                ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, &one, 1, GCOLL_INT32, GCOLL_SUM,
                                                      nullptr, &request));
                ASSERT_GCOLL_OK(gcoll_request_wait(&request));
                EXPECT_EQ(one, 3);
            }
            gcoll_site_stats seen = {};
            seen.struct_size = sizeof seen;
            EXPECT_EQ(gcoll_arrival_stats(context, 0, &seen, nullptr), GCOLL_ERR_NOT_FOUND);
        });
}

TEST(Monitor, ADuplicateHasOneOfItsOwn) {
    run_threads(
        watched(3, "tcp"),
        [&](uint32_t, gcoll_context *context) {
            gcoll_context *other = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &other));
            for (uint32_t call = 0; call < 12; call++)
                EXPECT_GCOLL_OK(sum(other, 40, call));
            EXPECT_EQ(stats(other).calls, 12u);
            gcoll_context_destroy(other);
        });
}

// Claims are kept by what is chosen, whoever is late.
TEST(Monitor, RankIdenticalResultsStaySo) {
    std::mutex lock;
    std::set<std::vector<float>> results;
    Job job = watched(4, "inproc");
    job.same = GCOLL_SAME_ON_RANKS;
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        std::vector<float> data(4000), last;
        for (uint32_t call = 0; call < 14; call++) {
            for (size_t i = 0; i < data.size(); i++)
                data[i] = 1.0f / static_cast<float>(1 + rank + 7 * i);
            if (rank == 1)
                stay_away_us(15000);
            ASSERT_GCOLL_OK(gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32,
                                            GCOLL_SUM, &options));
        }
        std::lock_guard<std::mutex> guard(lock);
        results.insert(data);
    });
    EXPECT_EQ(results.size(), 1u);
}

// Who is late is not the same in every run; where order does not matter, they are heeded all the same.
TEST(Monitor, ResultsThatAreTheSameInRunsHeedNobody) {
    Job job = watched(4, "inproc");
    job.same = GCOLL_SAME_IN_RUNS;
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        for (uint32_t call = 0; call < 14; call++) {
            if (rank == 1)
                stay_away_us(15000);
            ASSERT_GCOLL_OK(sum(context, 4000, call));
        }
        gcoll_site_stats seen = {};
        seen.struct_size = sizeof seen;
        EXPECT_EQ(gcoll_arrival_stats(context, 0, &seen, nullptr), GCOLL_ERR_NOT_FOUND);
        std::vector<int32_t> data(100, 1);
        ASSERT_GCOLL_OK(
            gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_INT32, GCOLL_SUM, nullptr));
        EXPECT_EQ(stats(context).calls, 1u);
    });
}

TEST(Monitor, SaysWhatIsWrongWithArguments) {
    run_threads(
        watched(3, "inproc"),
        [&](uint32_t, gcoll_context *context) {
            gcoll_site_stats seen = {};
            EXPECT_EQ(gcoll_arrival_stats(context, 0, &seen, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_arrival_stats(nullptr, 0, &seen, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_arrival_stats(context, 0, nullptr, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_arrival_begin(nullptr), GCOLL_ERR_INVALID);
            EXPECT_GCOLL_OK(gcoll_arrival_begin(context));
            EXPECT_GCOLL_OK(gcoll_arrival_finish(context));
            for (double fraction : {0.0, 1.0, -1.0, 2.0, static_cast<double>(NAN)})
                EXPECT_EQ(gcoll_arrival_edge(context, fraction), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_arrival_edge(context, 0.5), GCOLL_ERR_STATE);
            EXPECT_NE(std::string(gcoll_last_error()).find("options.progress_thread"), std::string::npos)
                << gcoll_last_error();
            char text[8] = "";
            EXPECT_EQ(gcoll_arrival_stats_text(context, nullptr, 8), GCOLL_ERR_INVALID);
            EXPECT_GCOLL_OK(gcoll_arrival_stats_text(context, text, sizeof text));
            EXPECT_EQ(strlen(text), sizeof text - 1);
            EXPECT_EQ(gcoll_arrival_site_text(context, 0, nullptr, 8), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_arrival_site_text(context, 0, text, 0), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_arrival_site_text(context, 1000, text, sizeof text), GCOLL_ERR_NOT_FOUND);
        });
    run_threads(2, "inproc", [](uint32_t, gcoll_context *context) {
        for (gcoll_status status : {gcoll_arrival_begin(context), gcoll_arrival_finish(context),
                                    gcoll_arrival_edge(context, 0.5), gcoll_arrival_site(context, 1)}) {
            EXPECT_EQ(status, GCOLL_ERR_STATE);
            EXPECT_NE(std::string(gcoll_last_error()).find("options.monitor"), std::string::npos);
        }
    });
}

// ---- Edges ----------------------------------------------------------------------------------------------

// The late rank is another one in each step, so only what ranks report of the step itself tells who it is.
TEST(Edges, RanksAgreeOnEachStep) {
    for (const char *transport : gcoll_test::transports_to_test()) {
        Agreement agreement;
        run_threads(watched(6, transport, true), [&](uint32_t rank, gcoll_context *context) {
            for (uint32_t call = 0; call < 40; call++) {
                const bool late = collective_support::mix(call) % 6 == rank;
                ASSERT_GCOLL_OK(gcoll_arrival_begin(context));
                stay_away_us(late ? 6000 : 500);
                ASSERT_GCOLL_OK(gcoll_arrival_edge(context, 0.5));
                stay_away_us(late ? 6000 : 500);
                ASSERT_GCOLL_OK(gcoll_arrival_finish(context));
                ASSERT_GCOLL_OK(sum(context, 100000, call));
            }
            const gcoll_site_stats seen = stats(context);
            agreement.add(common(seen));
            EXPECT_GT(seen.announcements, 8u); // without edges there would be 6 at most
        });
    }
}

// Plans by arrival come and go, and leave no memory behind.
TEST(Edges, PlansOfThePastAreForgotten) {
    const gcoll_test::Variable off("GCOLL_RECORD", "off"); // its memory is none of a plan's
    struct Count {
        size_t now = 0, most = 0;
    };
    static const auto allocate = [](void *arg, size_t bytes, size_t alignment) {
        auto *count = static_cast<Count *>(arg);
        count->now += bytes;
        count->most = std::max(count->most, count->now);
        return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    static const auto release = [](void *arg, void *memory, size_t bytes) {
        static_cast<Count *>(arg)->now -= bytes;
        free(memory);
    };
    const uint64_t count = 100000;
    std::vector<Count> counts(4);
    std::vector<gcoll_allocator> allocators;
    for (Count &each : counts)
        allocators.push_back({allocate, release, &each});
    Job job = watched(4, "inproc", true);
    job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        options->monitor = 1;
        options->cost = &kCosts;
        options->progress_thread = 1;
        options->allocator = &allocators[rank];
    };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        for (uint32_t call = 0; call < 60; call++) {
            const int64_t us = rank * 4000 * (call % 4) + (3 - rank) * 4000 * (call % 3);
            ASSERT_GCOLL_OK(gcoll_arrival_begin(context));
            stay_away_us(us / 2);
            ASSERT_GCOLL_OK(gcoll_arrival_edge(context, 0.5));
            stay_away_us(us / 2);
            ASSERT_GCOLL_OK(gcoll_arrival_finish(context));
            ASSERT_GCOLL_OK(sum(context, count, call));
        }
        const gcoll_site_stats seen = stats(context);
        EXPECT_GT(seen.changes, 10u);
        EXPECT_LT(counts[rank].most, 40000u) << seen.changes; // some 3000 bytes a plan
    });
    for (const Count &each : counts)
        EXPECT_EQ(each.now, 0u);
}

// Only some ranks report edges, and one of them not each time.
TEST(Edges, OfSomeRanksAreEnough) {
    Agreement agreement;
    run_threads(watched(5, "tcp", true), [&](uint32_t rank, gcoll_context *context) {
        for (uint32_t call = 0; call < 40; call++) {
            if (rank == 1 || (rank == 3 && call % 3 != 0)) {
                ASSERT_GCOLL_OK(gcoll_arrival_begin(context));
                stay_away_us(300);
                ASSERT_GCOLL_OK(gcoll_arrival_edge(context, 0.1));
                stay_away_us(rank == 1 ? 2700 : 100);
            }
            ASSERT_GCOLL_OK(sum(context, 3000, call));
            ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
        }
        agreement.add(common(stats(context, 0)) + "; " + common(stats(context, 1)));
    });
}

} // namespace
