// test/core/stats_test.cc - what a context has done so far: as numbers, and as Prometheus reads them.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"
#include "test/kit/variable.h"

#include <sys/stat.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "gcoll/region.h"
#include "gcoll/stats.h"

namespace {

using namespace collective_support;
using namespace gcoll_test;

gcoll_status sum(gcoll_context *context, uint64_t count, const char *algorithm = "ring") {
    std::vector<float> data(count, 1);
    const gcoll_allreduce_options options = by(algorithm);
    return gcoll_allreduce(context, data.data(), data.data(), count, GCOLL_FLOAT32, GCOLL_SUM, &options);
}

// What any thread may read.
gcoll_stats stats_of(gcoll_context *context) {
    gcoll_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_GCOLL_OK(gcoll_context_stats(context, &stats));
    return stats;
}

gcoll_peer_stats stats_of(gcoll_context *context, uint32_t peer) {
    gcoll_peer_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_GCOLL_OK(gcoll_context_peer_stats(context, peer, &stats));
    return stats;
}

gcoll_collective_stats stats_of(gcoll_context *context, gcoll_collective collective) {
    gcoll_collective_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_GCOLL_OK(gcoll_context_collective_stats(context, collective, &stats));
    return stats;
}

// A reader of the text format: name and labels as they stand, and the value. It insists on what the format
// asks for: a TYPE before the samples of a family, each family once, each series once, labels in quotes.
std::map<std::string, double> parse(const std::string &text) {
    std::map<std::string, double> samples;
    std::set<std::string> families;
    std::string family;
    std::istringstream lines(text);
    EXPECT_EQ(text.empty() ? '\0' : text.back(), '\n') << "the last line ends, too";
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("# HELP ", 0) == 0)
            continue;
        if (line.rfind("# TYPE ", 0) == 0) {
            std::istringstream words(line.substr(7));
            std::string type;
            words >> family >> type;
            EXPECT_TRUE(families.insert(family).second) << line << ": a second TYPE";
            EXPECT_TRUE(type == "counter" || type == "gauge") << line;
            continue;
        }
        const size_t open = line.find('{'), close = line.rfind("} ");
        if (open == std::string::npos || close == std::string::npos) {
            ADD_FAILURE() << line;
            continue;
        }
        EXPECT_EQ(line.substr(0, open), family) << line << ": a sample outside its family";
        size_t quotes = 0;
        for (size_t i = open; i < close; i++)
            quotes += line[i] == '"';
        EXPECT_EQ(quotes % 2, 0u) << line;
        size_t used = 0;
        const std::string value = line.substr(close + 2);
        const double number = std::stod(value, &used);
        EXPECT_EQ(used, value.size()) << line;
        EXPECT_TRUE(samples.emplace(line.substr(0, close + 1), number).second) << line << ": a second time";
    }
    return samples;
}

std::string metrics(gcoll_context *const *contexts, uint32_t count) {
    size_t needed = 0;
    EXPECT_GCOLL_OK(gcoll_metrics(contexts, count, nullptr, 0, &needed));
    std::string text(needed + 4096, '\0'); // a sleep may be counted meanwhile
    EXPECT_GCOLL_OK(gcoll_metrics(contexts, count, &text[0], text.size(), &needed));
    text.resize(needed - 1);
    return text;
}

// The sample whose name is `name` and whose labels hold `labels`; -1: there is none.
double sample(const std::map<std::string, double> &samples, const std::string &name,
              const std::string &labels) {
    for (const auto &s : samples)
        if (s.first.rfind(name + "{", 0) == 0 && s.first.find(labels) != std::string::npos)
            return s.second;
    return -1;
}

class Stats : public testing::TestWithParam<const char *> {};

// In a ring each rank sends 2 (P - 1) blocks to the next, and receives as many from the one before.
TEST_P(Stats, BytesAndMessagesAreThoseOfTheAlgorithm) {
    const uint32_t size = 3;
    run_threads(size, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        for (int i = 0; i < 5; i++)
            EXPECT_GCOLL_OK(sum(context, 300));
        const uint64_t blocks = 5 * 2 * (size - 1), bytes = blocks * 100 * sizeof(float);
        EXPECT_GCOLL_OK(gcoll_context_refresh_stats(context));
        const gcoll_stats all = stats_of(context);
        EXPECT_EQ(all.begun, 5u);
        EXPECT_EQ(all.done, 5u);
        EXPECT_EQ(all.failed, 0u);
        EXPECT_EQ(all.sent_messages, blocks);
        EXPECT_EQ(all.sent_bytes, bytes);
        EXPECT_EQ(all.received_messages, blocks);
        EXPECT_EQ(all.received_bytes, bytes);
        EXPECT_GE(all.age_ns, 0);
        const gcoll_peer_stats next = stats_of(context, (rank + 1) % size);
        EXPECT_EQ(next.sent_messages, blocks);
        EXPECT_EQ(next.sent_bytes, bytes);
        EXPECT_EQ(next.received_messages, 0u);
        const gcoll_peer_stats before = stats_of(context, (rank + size - 1) % size);
        EXPECT_EQ(before.received_bytes, bytes);
        EXPECT_EQ(before.sent_bytes, 0u);
        EXPECT_STREQ(next.lane, GetParam());
        const gcoll_collective_stats sums = stats_of(context, GCOLL_ALLREDUCE);
        EXPECT_EQ(sums.done, 5u);
        EXPECT_EQ(sums.bytes, 5 * 300 * sizeof(float));
        EXPECT_EQ(sums.sent_bytes, bytes);
        EXPECT_GT(sums.busy_ns, 0u);
        EXPECT_EQ(stats_of(context, GCOLL_BARRIER).done, 0u);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // nobody leaves before: the lane would be gone
    });
}

TEST_P(Stats, PairsPutsAndGetsCount) {
    run_threads(
        2, GetParam(),
        [&](uint32_t rank, gcoll_context *context) {
            const uint32_t peer = 1 - rank;
            std::vector<char> mine(1000), exposed(1000);
            gcoll_pair *pair = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_pair(context, peer, &pair));
            const gcoll_peer_stats none = stats_of(context, peer);
            if (rank == 0)
                ASSERT_GCOLL_OK(gcoll_pair_send(pair, 7, mine.data(), 10));
            else
                ASSERT_GCOLL_OK(gcoll_pair_recv(pair, 7, mine.data(), 10));
            const gcoll_peer_stats paired = stats_of(context, peer);
            EXPECT_EQ(paired.sent_bytes - none.sent_bytes, rank == 0 ? 10u : 0u);
            EXPECT_EQ(paired.received_bytes - none.received_bytes, rank == 0 ? 0u : 10u);
            EXPECT_EQ(paired.sent_messages - none.sent_messages, rank == 0 ? 1u : 0u);
            gcoll_region *region = nullptr;
            gcoll_region_key key = {};
            ASSERT_GCOLL_OK(gcoll_region_create(context, exposed.data(), exposed.size(), &region));
            ASSERT_GCOLL_OK(gcoll_region_export(region, &key));
            std::vector<gcoll_region_key> keys(2);
            ASSERT_GCOLL_OK(gcoll_allgather(context, &key, keys.data(), sizeof key, GCOLL_UINT8, nullptr));
            const gcoll_peer_stats before = stats_of(context, peer);
            if (rank == 0) {
                ASSERT_GCOLL_OK(gcoll_put(context, &keys[peer], 0, mine.data(), 300, 0));
                ASSERT_GCOLL_OK(gcoll_get(context, &keys[peer], 500, mine.data(), 200));
            }
            ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr)); // moves no bytes
            const gcoll_peer_stats after = stats_of(context, peer);
            EXPECT_EQ(after.sent_bytes - before.sent_bytes, rank == 0 ? 300u : 200u);
            EXPECT_EQ(after.received_bytes - before.received_bytes, rank == 0 ? 200u : 300u);
            gcoll_region_destroy(region);
        });
}

// Plans that are dropped from the cache take nothing away.
TEST_P(Stats, ManyShapesAreAllCounted) {
    run_threads(
        2, GetParam(),
        [&](uint32_t, gcoll_context *context) {
            uint64_t elements = 0;
            for (uint64_t count = 2; count <= 800; count += 2) {
                EXPECT_GCOLL_OK(sum(context, count));
                elements += count;
            }
            EXPECT_EQ(stats_of(context).done, 400u);
            EXPECT_EQ(stats_of(context, GCOLL_ALLREDUCE).bytes, elements * sizeof(float));
            EXPECT_EQ(stats_of(context).sent_bytes, elements * sizeof(float)); // half, and twice
            EXPECT_EQ(stats_of(context).received_bytes, elements * sizeof(float));
        });
}

// A wait that goes on is counted while it does, for the rank that is waited for, by another thread.
TEST_P(Stats, AWaitIsSeenWhileItGoesOn) {
    std::atomic<bool> is_seen{false};
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(sum(context, 10));
        std::thread other([&] {
            for (int i = 0; i < 10000 && rank == 0 && !is_seen; i++) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                is_seen = stats_of(context, 1u).waited_ns > 50'000'000;
            }
        });
        for (int i = 0; i < 10000 && rank == 1 && !is_seen; i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_GCOLL_OK(sum(context, 10));
        other.join();
        if (rank == 0) {
            const gcoll_stats all = stats_of(context);
            EXPECT_GE(all.waits, 1u);
            EXPECT_GT(all.waited_ns, 50'000'000u);
        }
    });
    EXPECT_TRUE(is_seen);
}

TEST_P(Stats, FailuresCount) {
    run_threads(
        2, GetParam(),
        [&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(sum(context, 10));
            EXPECT_EQ(sum(context, rank == 0 ? 11 : 12), GCOLL_ERR_MISMATCH);
            const gcoll_stats all = stats_of(context); // also of a context that is broken
            EXPECT_EQ(all.begun, 2u);
            EXPECT_EQ(all.done, 1u);
            EXPECT_EQ(all.failed, 1u);
            const auto samples = parse(metrics(&context, 1));
            EXPECT_EQ(sample(samples, "gcoll_broken", ""), 1);
            EXPECT_EQ(sample(samples, "gcoll_operation_failures_total", "collective=\"allreduce\""), 1);
        });
}

TEST_P(Stats, TheTextIsWhatPrometheusReads) {
    run_threads(
        3, GetParam(),
        [&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(sum(context, 300));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            EXPECT_GCOLL_OK(gcoll_context_refresh_stats(context));
            const auto samples = parse(metrics(&context, 1));
            const std::string own = ",rank=\"" + std::to_string(rank) + "\"";
            const std::string next = own + ",peer=\"" + std::to_string((rank + 1) % 3) + "\"";
            EXPECT_EQ(sample(samples, "gcoll_ranks", own), 3);
            EXPECT_EQ(sample(samples, "gcoll_broken", own), 0);
            EXPECT_EQ(sample(samples, "gcoll_operations_total", own + ",collective=\"allreduce\""), 1);
            EXPECT_EQ(sample(samples, "gcoll_operation_bytes_total", "collective=\"allreduce\""), 1200);
            EXPECT_GT(sample(samples, "gcoll_operation_seconds_total", "collective=\"allreduce\""), 0);
            EXPECT_LT(sample(samples, "gcoll_operation_seconds_total", "collective=\"allreduce\""), 60);
            EXPECT_GE(sample(samples, "gcoll_sent_bytes_total", next), 1600);
            EXPECT_EQ(sample(samples, "gcoll_peer_lane", next + ",lane=\"" + GetParam() + "\""), 1);
            EXPECT_EQ(sample(samples, "gcoll_operations_total", "collective=\"alltoall\""), -1)
                << "never called";
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // nobody leaves before
        });
}

INSTANTIATE_TEST_SUITE_P(Transports, Stats, testing::Values("inproc", "tcp", "shm"),
                         [](const auto &of) { return std::string(of.param); });

class StatsOf : public testing::Test {};

// One job, two contexts: families must not be repeated.
TEST_F(StatsOf, SeveralContextsAreOneText) {
    run_threads(
        2, "tcp",
        [&](uint32_t rank, gcoll_context *context) {
            gcoll_context *part = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_split(context, 0, 1 - static_cast<int32_t>(rank), &part));
            const uint64_t before = stats_of(context, GCOLL_ALLREDUCE).done; // the split may call some
            EXPECT_GCOLL_OK(sum(context, 8));
            EXPECT_GCOLL_OK(sum(part, 8));
            EXPECT_GCOLL_OK(sum(part, 8));
            gcoll_context *const both[] = {context, part};
            std::multiset<double> calls;
            for (const auto &s : parse(metrics(both, 2)))
                if (s.first.rfind("gcoll_operations_total{", 0) == 0 &&
                    s.first.find("collective=\"allreduce\"") != std::string::npos)
                    calls.insert(s.second);
            EXPECT_EQ(calls, (std::multiset<double>{2, 1 + static_cast<double>(before)}))
                << "told apart by group";
            gcoll_context_destroy(part);
        });
}

// Numbers that are read while others work never go back, and end where they must.
TEST_F(StatsOf, AnyThreadReadsThem) {
    run_threads(
        2, "tcp",
        [&](uint32_t, gcoll_context *context) {
            std::atomic<bool> ends{false};
            std::thread other([&] {
                uint64_t done = 0, bytes = 0, waited = 0, busy = 0;
                while (!ends) {
                    const gcoll_stats now = stats_of(context);
                    EXPECT_GE(now.done, done);
                    EXPECT_GE(now.sent_bytes, bytes);
                    EXPECT_GE(now.waited_ns, waited);
                    const gcoll_collective_stats sums = stats_of(context, GCOLL_ALLREDUCE);
                    EXPECT_GE(sums.busy_ns, busy);
                    waited = now.waited_ns;
                    busy = sums.busy_ns;
                    done = now.done;
                    bytes = now.sent_bytes;
                    parse(metrics(&context, 1));
                }
            });
            for (int i = 0; i < 3000; i++)
                EXPECT_GCOLL_OK(sum(context, 16));
            ends = true;
            other.join();
            EXPECT_EQ(stats_of(context).done, 3000u);
            EXPECT_STREQ(stats_of(context, 1 - gcoll_context_rank(context)).lane, "tcp") << "it was asked";
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // nobody leaves before
        });
}

// Costs are measured with messages, and ranks meet by them.
TEST_F(StatsOf, WhatTheCreationSentIsNotCounted) {
    Job job;
    job.size = 3;
    job.transport = "tcp";
    job.adjust = [](uint32_t, gcoll_context_options *options) {
        options->tuning = "fit";
        options->recovery = 1;
    };
    run_threads(job, [&](uint32_t, gcoll_context *context) {
        const gcoll_stats none = stats_of(context);
        EXPECT_EQ(none.sent_messages + none.received_messages, 0u);
        EXPECT_EQ(none.done, 0u);
        EXPECT_EQ(none.waited_ns, 0u);
        EXPECT_GE(none.age_ns, 0) << "read when the context was made";
        EXPECT_GCOLL_OK(sum(context, 300));
        EXPECT_EQ(stats_of(context).sent_bytes, 4 * 100 * sizeof(float));
    });
}

TEST_F(StatsOf, AFileIsReplacedAsAWhole) {
    Folder folder;
    const std::string path = folder.path() + "/gcoll.prom";
    run_threads(2, "tcp", [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(sum(context, 8));
        if (rank == 0) {
            EXPECT_GCOLL_OK(gcoll_metrics_write(&context, 1, path.c_str()));
            EXPECT_GCOLL_OK(gcoll_metrics_write(&context, 1, path.c_str()));
            EXPECT_EQ(gcoll_metrics_write(&context, 1, "/proc/nowhere/x.prom"), GCOLL_ERR_IO);
            EXPECT_NE(std::string(gcoll_last_error()).find("/proc/nowhere/x.prom"), std::string::npos);
        }
    });
    ASSERT_EQ(folder.files().size(), 1u);
    struct stat about = {};
    ASSERT_EQ(stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0644u) << "a collector is another user";
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    EXPECT_EQ(sample(parse(text.str()), "gcoll_operations_total", ""), 1);
}

// More than the recorder keeps: the record of the first is gone when it ends.
TEST_F(StatsOf, OperationsThatAreInFlightForLongAreCounted) {
    run_threads(
        2, "tcp",
        [&](uint32_t rank, gcoll_context *context) {
            const uint32_t many = 1500;
            std::vector<float> data(many * 2, 1);
            std::vector<gcoll_request *> requests(many);
            const gcoll_allreduce_options options = by("ring");
            if (rank == 1)
                std::this_thread::sleep_for(std::chrono::milliseconds(100)); // until all of rank 0 are begun
            for (uint32_t i = 0; i < many; i++)
                ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, &data[i * 2], 2, GCOLL_FLOAT32,
                                                      GCOLL_SUM, &options, &requests[i]));
            for (gcoll_request *&request : requests)
                EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            EXPECT_EQ(stats_of(context).done, many);
            EXPECT_EQ(stats_of(context).sent_bytes, many * 2 * sizeof(float));
            EXPECT_GE(stats_of(context, GCOLL_ALLREDUCE).busy_ns, rank == 0 ? 100'000'000u : 1u);
        });
}

// Contexts of one rank belong to no group.
TEST_F(StatsOf, ContextsOfOneRankAreToldApart) {
    gcoll_context *alone[2] = {};
    for (gcoll_context *&context : alone) {
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        ASSERT_GCOLL_OK(gcoll_context_create(&options, &context));
        EXPECT_GCOLL_OK(sum(context, 3));
    }
    EXPECT_FALSE(parse(metrics(alone, 2)).empty()); // which knows each series once
    for (gcoll_context *context : alone)
        gcoll_context_destroy(context);
}

TEST_F(StatsOf, ABrokenContextWaitsNoLonger) {
    run_threads(
        2, "tcp",
        [&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(sum(context, 10));
            if (rank == 1) {
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
                EXPECT_EQ(sum(context, 12), GCOLL_ERR_MISMATCH);
                return;
            }
            EXPECT_EQ(sum(context, 11), GCOLL_ERR_MISMATCH);
            const uint64_t waited = stats_of(context).waited_ns;
            EXPECT_GT(waited, 10'000'000u);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            EXPECT_LT(stats_of(context).waited_ns, waited + 50'000'000);
        });
}

TEST_F(StatsOf, BadArgumentsAreNamed) {
    run_threads(
        2, "inproc",
        [&](uint32_t rank, gcoll_context *context) {
            gcoll_stats stats = {};
            gcoll_peer_stats peer = {};
            gcoll_collective_stats sums = {};
            EXPECT_EQ(gcoll_context_stats(context, &stats), GCOLL_ERR_INVALID);
            EXPECT_NE(std::string(gcoll_last_error()).find("struct_size"), std::string::npos);
            EXPECT_EQ(gcoll_context_stats(nullptr, &stats), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_stats(context, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_refresh_stats(nullptr), GCOLL_ERR_INVALID);
            peer.struct_size = sizeof peer;
            EXPECT_EQ(gcoll_context_peer_stats(context, rank, &peer), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_peer_stats(context, 2, &peer), GCOLL_ERR_INVALID);
            sums.struct_size = sizeof sums;
            EXPECT_EQ(gcoll_context_collective_stats(context, static_cast<gcoll_collective>(99), &sums),
                      GCOLL_ERR_INVALID);
            EXPECT_NE(std::string(gcoll_last_error()).find("99"), std::string::npos);
            char text[16];
            gcoll_context *const none[] = {nullptr};
            EXPECT_EQ(gcoll_metrics(&context, 1, text, sizeof text, nullptr), GCOLL_ERR_INVALID);
            EXPECT_STREQ(text, "");
            EXPECT_EQ(gcoll_metrics(&context, 1, nullptr, 0, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_metrics(nullptr, 1, text, sizeof text, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_metrics(&context, 0, text, sizeof text, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_metrics(none, 1, text, sizeof text, nullptr), GCOLL_ERR_INVALID);
            EXPECT_NE(std::string(gcoll_last_error()).find("contexts[0]"), std::string::npos);
        });
}

// A caller of an earlier version has a shorter struct: nothing is written behind it.
TEST_F(StatsOf, AShorterStructIsFilledAsFarAsItGoes) {
    run_threads(
        2, "inproc",
        [&](uint32_t, gcoll_context *context) {
            EXPECT_GCOLL_OK(sum(context, 8));
            gcoll_stats stats = {};
            stats.struct_size = offsetof(gcoll_stats, failed);
            stats.failed = 77;
            EXPECT_GCOLL_OK(gcoll_context_stats(context, &stats));
            EXPECT_EQ(stats.done, 1u);
            EXPECT_EQ(stats.failed, 77u);
        });
}

TEST_F(StatsOf, WithoutTheRecorderNothingIsCounted) {
    const Variable off("GCOLL_RECORD", "off");
    run_threads(2, "inproc", [&](uint32_t, gcoll_context *context) {
        EXPECT_GCOLL_OK(sum(context, 8));
        gcoll_stats stats = {};
        stats.struct_size = sizeof stats;
        EXPECT_EQ(gcoll_context_stats(context, &stats), GCOLL_ERR_STATE);
        EXPECT_NE(std::string(gcoll_last_error()).find("GCOLL_RECORD"), std::string::npos);
    });
}

} // namespace
