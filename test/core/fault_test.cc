// test/core/fault_test.cc - tests with faults of the inproc transport: events in any order, deaths at every
// moment, stopped ranks, cut connections and lost messages.
#include "test/kit/calls.h"
#include "test/kit/sanitizer.h"

#include <string>

extern "C" {
#include "transport/inproc/inproc.h"
}

namespace {

using namespace gcoll_test;

float small(uint32_t rank, uint64_t i) {
    return static_cast<float>((rank * 31 + i * 7) % 17);
}

// Every order of events that a transport may show gives the same sums. One thread drives the ranks, so a
// failing seed fails again.
TEST(Shuffled, AnyOrderOfEventsGivesExactSums) {
    constexpr uint32_t kRanks = 5;
    constexpr uint64_t kCount = 333;
    const char *algorithms[] = {"ring",
                                "ring:segment=100",
                                "group_butterfly:r=0",
                                "group_butterfly:r=2",
                                "group_butterfly:r=3",
                                "sorted_linear_tree:segment=64"};
    for (uint64_t seed = 0; seed < 50; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Job job = job_on("inproc", kRanks, 20000);
        job.prepare = [seed](gcoll_hub *hub) { EXPECT_GCOLL_OK(gcoll_inproc_shuffle(hub, seed)); };
        Group group(job);
        std::vector<std::vector<std::vector<float>>> data(kRanks); // two operations in flight
        std::vector<gcoll_operation *> all;
        for (uint32_t rank = 0; rank < kRanks; rank++)
            for (uint64_t k = 0; k < 2; k++) {
                data[rank].emplace_back(kCount);
                for (uint64_t i = 0; i < kCount; i++)
                    data[rank][k][i] = small(rank, i + k);
            }
        for (uint32_t rank = 0; rank < kRanks; rank++)
            for (uint64_t k = 0; k < 2; k++) {
                all.push_back(sum_operation(group[rank], data[rank][k],
                                            algorithms[(seed + k) % std::size(algorithms)]));
                ASSERT_GCOLL_OK(gcoll_operation_start(all.back()));
            }
        ASSERT_TRUE(Group::drive(all));
        for (uint32_t rank = 0; rank < kRanks; rank++)
            for (uint64_t k = 0; k < 2; k++)
                for (uint64_t i = 0; i < kCount; i++) {
                    float want = 0;
                    for (uint32_t r = 0; r < kRanks; r++)
                        want += small(r, i + k);
                    ASSERT_EQ(data[rank][k][i], want)
                        << "rank " << rank << ", operation " << k << ", at " << i;
                }
        for (gcoll_operation *operation : all)
            gcoll_operation_destroy(operation);
    }
}

// A sum in flight: a started call, or an operation that was started.
struct Sum {
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;

    Sum(gcoll_context *context, std::vector<float> &data, const char *algorithm, bool persistent) {
        if (persistent) {
            operation = sum_operation(context, data, algorithm);
            EXPECT_GCOLL_OK(gcoll_operation_start(operation));
            return;
        }
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.algorithm = algorithm;
        EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32,
                                              GCOLL_SUM, &options, &request));
    }
    gcoll_status test(int *done) {
        return operation ? gcoll_operation_test(operation, done) : gcoll_request_test(&request, done);
    }
};

// Kills a rank after a given number of turns of the thread that drives all ranks. Each other rank must name
// it.
void kill_after(uint32_t victim, int turns, const char *algorithm, bool persistent) {
    constexpr uint32_t kRanks = 5;
    Group group(job_on("inproc", kRanks, 20000));
    std::vector<std::vector<float>> data(kRanks, std::vector<float>(100, 1));
    std::vector<Sum> all;
    std::vector<int> done(kRanks, 0);
    for (uint32_t rank = 0; rank < kRanks; rank++)
        all.emplace_back(group[rank], data[rank], algorithm, persistent);
    for (int turn = 0; turn < turns; turn++) {
        uint32_t rank = static_cast<uint32_t>(turn) % kRanks;
        if (!done[rank])
            EXPECT_GCOLL_OK(all[rank].test(&done[rank]));
    }
    ASSERT_GCOLL_OK(gcoll_inproc_kill(group.hub(), victim));
    bool waiting = true;
    for (int turn = 0; waiting && turn < 1000; turn++) {
        waiting = false;
        for (uint32_t rank = 0; rank < kRanks; rank++) {
            if (rank == victim || done[rank])
                continue;
            gcoll_status status = all[rank].test(&done[rank]);
            waiting = true;
            if (status == GCOLL_OK)
                continue;
            done[rank] = 2;
            EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
            EXPECT_EQ(gcoll_context_culprit(group[rank]), victim)
                << "rank " << rank << ": " << gcoll_last_error();
        }
    }
    EXPECT_FALSE(waiting) << "somebody is never told";
    for (uint32_t rank = 0; rank < kRanks; rank++)
        if (rank != victim && done[rank] == 1)
            EXPECT_EQ(data[rank][99], kRanks) << "who was done has a result";
    for (const Sum &sum : all)
        gcoll_operation_destroy(sum.operation);
}

class KilledInProcess : public testing::TestWithParam<bool> {};

TEST_P(KilledInProcess, AtEveryMoment) {
    const bool persistent = GetParam();
    const int step = persistent ? static_cast<int>(gcoll_test::repeats(1, 3))
                                : 3; // one form at each moment is enough, and takes long
    for (const char *algorithm : {"ring", "group_butterfly:r=0", "sorted_linear_tree"})
        for (uint32_t victim = 0; victim < 5; victim++)
            for (int turns = static_cast<int>(victim) % step; turns < 60; turns += step) {
                SCOPED_TRACE(std::string(algorithm) + ", rank " + std::to_string(victim) + " after " +
                             std::to_string(turns));
                kill_after(victim, turns, algorithm, persistent);
                if (HasFailure())
                    return;
            }
}

INSTANTIATE_TEST_SUITE_P(Forms, KilledInProcess, testing::Bool(), [](const auto &param) {
    return std::string(param.param ? "persistent" : "started");
});

// Calls a barrier until it fails.
void expect_timeout(gcoll_context *context, int64_t culprit, int64_t timeout_ms) {
    int64_t before = now_ms();
    gcoll_status status = GCOLL_OK;
    while (status == GCOLL_OK) {
        before = now_ms();
        status = gcoll_barrier(context, nullptr);
    }
    EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
    EXPECT_LE(now_ms() - before, timeout_ms * 5 / 4 + 500) << gcoll_last_error();
    if (culprit >= 0)
        EXPECT_EQ(gcoll_context_culprit(context), culprit) << gcoll_last_error();
}

TEST(StalledInProcess, IsNamedAcrossAChainOfRanks) {
    constexpr uint32_t kRanks = 8, kVictim = 3;
    std::atomic<uint32_t> named{0};
    constexpr int64_t kTimeout = 1000;
    gcoll_hub *hub = nullptr;
    Job job = job_on("inproc", kRanks, kTimeout);
    job.prepare = [&hub](gcoll_hub *made) { hub = made; };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        std::vector<float> data(10, 1);
        EXPECT_GCOLL_OK(sum_floats(context, data, "ring"));
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == kVictim)
            EXPECT_GCOLL_OK(gcoll_inproc_stall(hub, kVictim, true));
        if (rank == kVictim) { // makes no call, as a stopped process would
            EXPECT_TRUE(await(named, kRanks - 1));
            EXPECT_GCOLL_OK(gcoll_inproc_stall(hub, kVictim, false));
        }
        int64_t before = now_ms();
        gcoll_status status = GCOLL_OK;
        while (status == GCOLL_OK)
            status = sum_floats(context, data, "ring"); // each waits for its neighbour only
        EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
        EXPECT_LE(now_ms() - before, kTimeout * 5 / 4 + 500);
        EXPECT_EQ(gcoll_context_culprit(context), kVictim) << gcoll_last_error();
        named++;
    });
}

TEST(CutInProcess, EndsInATimeoutForAll) {
    constexpr int64_t kTimeout = 800;
    gcoll_hub *hub = nullptr;
    Job job = job_on("inproc", 4, kTimeout);
    job.prepare = [&hub](gcoll_hub *made) { hub = made; };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == 0)
            EXPECT_GCOLL_OK(gcoll_inproc_partition(hub, 0, 1, true));
        expect_timeout(context, -1, kTimeout);
    });
}

TEST(LostInProcess, EndsInATimeoutThatNamesTheSender) {
    constexpr int64_t kTimeout = 800;
    gcoll_hub *hub = nullptr;
    std::atomic<uint32_t> told_receiver{0};
    Job job = job_on("inproc", 2, kTimeout);
    job.prepare = [&hub](gcoll_hub *made) { hub = made; };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // the first message
        uint32_t word = 1;
        if (rank == 0) {
            EXPECT_GCOLL_OK(gcoll_inproc_drop(hub, 0, 1, 1));
            EXPECT_GCOLL_OK(gcoll_broadcast(context, &word, 1, GCOLL_UINT32, 0, nullptr));
            EXPECT_TRUE(await(told_receiver, 1));
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_TIMEOUT);
            return;
        }
        gcoll_status status = gcoll_broadcast(context, &word, 1, GCOLL_UINT32, 0, nullptr);
        EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
        EXPECT_EQ(gcoll_context_culprit(context), 0) << gcoll_last_error();
        told_receiver = 1;
    });
}

} // namespace
