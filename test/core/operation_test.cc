// test/core/operation_test.cc - tests of persistent calls: many runs, several operations in flight, misuse,
// and allocations.
#include "test/kit/calls.h"

#include <cstring>
#include <string>

namespace {

using namespace gcoll_test;

// Element i of a rank's input, in a round and a slot. Sums are exact in float.
float value(uint32_t rank, uint64_t round, uint64_t slot, uint64_t i) {
    return static_cast<float>((rank * 5 + round * 3 + slot * 7 + i) % 13);
}

float total(uint32_t ranks, uint64_t round, uint64_t slot, uint64_t i) {
    float sum = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        sum += value(rank, round, slot, i);
    return sum;
}

void fill(std::vector<float> &data, uint32_t rank, uint64_t round, uint64_t slot) {
    for (uint64_t i = 0; i < data.size(); i++)
        data[i] = value(rank, round, slot, i);
}

uint64_t wrong(const std::vector<float> &data, uint32_t ranks, uint64_t round, uint64_t slot) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < data.size(); i++)
        count += data[i] != total(ranks, round, slot, i);
    return count;
}

class Operations : public testing::TestWithParam<const char *> {};

TEST_P(Operations, RunsManyTimes) {
    run_threads(
        4, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            std::vector<float> data(1003);
            gcoll_operation *operation = sum_operation(context, data, "group_butterfly:r=1");
            EXPECT_STREQ(gcoll_operation_algorithm(operation), "group_butterfly:r=1");
            for (uint64_t round = 0; round < 500; round++) {
                fill(data, rank, round, 0);
                ASSERT_GCOLL_OK(gcoll_operation_run(operation));
                ASSERT_EQ(wrong(data, 4, round, 0), 0u) << "round " << round;
            }
            gcoll_operation_destroy(operation);
        });
}

TEST_P(Operations, StartedAndTested) {
    run_threads(
        3, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            std::vector<float> data(50000);
            gcoll_operation *operation = sum_operation(context, data);
            for (uint64_t round = 0; round < 20; round++) {
                fill(data, rank, round, 1);
                ASSERT_GCOLL_OK(gcoll_operation_start(operation));
                int done = 0;
                while (!done) {
                    ASSERT_GCOLL_OK(gcoll_operation_test(operation, &done));
                    std::this_thread::yield();
                }
                ASSERT_EQ(wrong(data, 3, round, 1), 0u);
            }
            gcoll_operation_destroy(operation);
        });
}

TEST_P(Operations, BroadcastAndBarrierToo) {
    run_threads(
        3, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            uint64_t word = 0;
            gcoll_operation *broadcast = nullptr, *barrier = nullptr;
            ASSERT_GCOLL_OK(gcoll_broadcast_create(context, &word, 1, GCOLL_UINT64, 2, nullptr, &broadcast));
            ASSERT_GCOLL_OK(gcoll_barrier_create(context, nullptr, &barrier));
            for (uint64_t round = 1; round < 50; round++) {
                word = rank == 2 ? round : 0;
                EXPECT_GCOLL_OK(gcoll_operation_run(broadcast));
                EXPECT_EQ(word, round);
                EXPECT_GCOLL_OK(gcoll_operation_run(barrier));
            }
            gcoll_operation_destroy(barrier);
            gcoll_operation_destroy(broadcast);
        });
}

TEST_P(Operations, MisuseIsNamedAndBreaksNothing) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            std::vector<float> data(10);
            fill(data, rank, 0, 0);
            gcoll_operation *operation = sum_operation(context, data);
            int done = 7;
            EXPECT_EQ(gcoll_operation_wait(operation), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_operation_test(operation, &done), GCOLL_ERR_STATE);
            EXPECT_EQ(done, 7) << "outputs are written on success only";
            EXPECT_GCOLL_OK(gcoll_operation_start(operation));
            EXPECT_EQ(gcoll_operation_start(operation), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_operation_run(operation), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_operation_test(operation, nullptr), GCOLL_ERR_INVALID);
            EXPECT_GCOLL_OK(gcoll_operation_wait(operation));
            EXPECT_EQ(wrong(data, 2, 0, 0), 0u);
            EXPECT_EQ(gcoll_operation_wait(operation), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_operation_start(nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_operation_wait(nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_allreduce_create(context, nullptr, data.data(), 10, GCOLL_FLOAT32, GCOLL_SUM,
                                             nullptr, nullptr),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
            gcoll_operation_destroy(operation);
            gcoll_operation_destroy(nullptr);
        });
}

// Ranks start the same operations in the same order, but finish them from opposite ends.
void opposite_ends(uint32_t rank, gcoll_context *context, uint32_t operations, uint64_t count,
                   uint64_t rounds) {
    std::vector<std::vector<float>> data(operations, std::vector<float>(count));
    std::vector<gcoll_operation *> all;
    for (uint32_t slot = 0; slot < operations; slot++) // different plans
        all.push_back(sum_operation(context, data[slot],
                                    slot % 3 == 0   ? "ring"
                                    : slot % 3 == 1 ? "group_butterfly:r=0"
                                                    : "auto"));
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint32_t slot = 0; slot < operations; slot++) {
            fill(data[slot], rank, round, slot);
            ASSERT_GCOLL_OK(gcoll_operation_start(all[slot]));
        }
        for (uint32_t i = 0; i < operations; i++) {
            uint32_t slot = rank % 2 ? i : operations - 1 - i;
            ASSERT_GCOLL_OK(gcoll_operation_wait(all[slot]));
            ASSERT_EQ(wrong(data[slot], gcoll_context_size(context), round, slot), 0u) << slot;
        }
    }
    for (gcoll_operation *operation : all)
        gcoll_operation_destroy(operation);
}

TEST(NoOperation, IsNamedOrGivesNothing) {
    int done = 5;
    EXPECT_STREQ(gcoll_operation_algorithm(nullptr), "");
    EXPECT_EQ(gcoll_operation_request(nullptr), nullptr);
    EXPECT_EQ(gcoll_operation_run(nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_operation_start(nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_operation_wait(nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_operation_test(nullptr, &done), GCOLL_ERR_INVALID);
    EXPECT_TRUE(says("operation: is NULL")) << gcoll_last_error();
    gcoll_operation_destroy(nullptr);
}

TEST_P(Operations, TwoInFlightEndInAnyOrder) {
    run_threads(
        4, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            opposite_ends(rank, context, 2, 7, 100);
            opposite_ends(rank, context, 2, 300000, 3);
        });
}

TEST_P(Operations, TwentyInFlightEndInAnyOrder) {
    run_threads(
        5, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            opposite_ends(rank, context, 20, 100, 20);
            opposite_ends(rank, context, 20, 20000, 2);
        });
}

TEST_P(Operations, TwentyInFlightWithTinyPools) {
    run_threads(
        with_tiny_pools(job_on(GetParam(), 5)),
        [](uint32_t rank, gcoll_context *context) {
            opposite_ends(rank, context, 20, 10, 20); // two elements a message: small enough to go ahead
            opposite_ends(rank, context, 20, 1000, 5);
            opposite_ends(rank, context, 20, 50000, 1);
            opposite_ends(rank, context, 70, 10, 3); // more than fingerprints are kept for
        });
}

TEST_P(Operations, BlockingCallsAmongStartedOnes) {
    run_threads(
        3, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            std::vector<float> data(40000), other(10);
            gcoll_operation *operation = sum_operation(context, data);
            for (uint64_t round = 0; round < 10; round++) {
                fill(data, rank, round, 0);
                ASSERT_GCOLL_OK(gcoll_operation_start(operation));
                fill(other, rank, round, 1);
                ASSERT_GCOLL_OK(gcoll_allreduce(context, nullptr, other.data(), other.size(), GCOLL_FLOAT32,
                                                GCOLL_SUM, nullptr));
                EXPECT_EQ(wrong(other, 3, round, 1), 0u);
                ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
                ASSERT_GCOLL_OK(gcoll_operation_wait(operation));
                EXPECT_EQ(wrong(data, 3, round, 0), 0u);
            }
            gcoll_operation_destroy(operation);
        });
}

// The root may run far ahead. Messages without a receive are held, or held back, in bounded memory.
void far_ahead(uint64_t count, const Job &job) {
    constexpr uint32_t kAhead = 1000;
    std::atomic<uint32_t> started{0};
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        std::vector<std::vector<uint32_t>> data(kAhead, std::vector<uint32_t>(count));
        std::vector<gcoll_operation *> all(kAhead);
        ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
        for (uint32_t k = 0; k < kAhead; k++) {
            for (uint64_t i = 0; rank == 0 && i < count; i++)
                data[k][i] = k * 7 + static_cast<uint32_t>(i);
            ASSERT_GCOLL_OK(
                gcoll_broadcast_create(context, data[k].data(), count, GCOLL_UINT32, 0, nullptr, &all[k]));
        }
        if (rank != 0)
            EXPECT_TRUE(await(started, 1));
        for (gcoll_operation *operation : all)
            ASSERT_GCOLL_OK(gcoll_operation_start(operation));
        started = 1;
        for (uint32_t k = 0; k < kAhead; k++) {
            ASSERT_GCOLL_OK(gcoll_operation_wait(all[k]));
            for (uint64_t i = 0; i < count; i++)
                ASSERT_EQ(data[k][i], k * 7 + i);
            gcoll_operation_destroy(all[k]);
        }
    });
}

TEST_P(Operations, RootAThousandBroadcastsAhead) {
    Job job = job_on(GetParam(), 4);
    far_ahead(3, job);
    far_ahead(3000, job);
    job = with_tiny_pools(job);
    far_ahead(3, job);
    far_ahead(300, job);
}

INSTANTIATE_TEST_SUITE_P(Transports, Operations, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

TEST(OneThread, DrivesAllRanksInTurn) {
    Job job;
    job.size = 6;
    Group group(job);
    std::vector<std::vector<float>> data(6, std::vector<float>(100));
    for (uint64_t round = 0; round < 3; round++)
        for (const char *algorithm :
             {"ring", "group_butterfly:r=0", "group_butterfly:r=3", "sorted_linear_tree"}) {
            std::vector<gcoll_operation *> all;
            for (uint32_t rank = 0; rank < 6; rank++) {
                fill(data[rank], rank, round, 0);
                all.push_back(sum_operation(group[rank], data[rank], algorithm));
                ASSERT_GCOLL_OK(gcoll_operation_start(all.back()));
            }
            EXPECT_TRUE(Group::drive(all));
            for (uint32_t rank = 0; rank < 6; rank++) {
                EXPECT_EQ(wrong(data[rank], 6, round, 0), 0u) << algorithm << ", rank " << rank;
                gcoll_operation_destroy(all[rank]);
            }
        }
}

#if defined(__SANITIZE_ADDRESS__)
TEST(OneThread, FreedBuffersAreToldUnderAddressSanitizer) {
    Job job;
    job.size = 1;
    Group group(job);
    auto *in = new std::vector<float>(10), *out = new std::vector<float>(10);
    gcoll_operation *operation = nullptr;
    ASSERT_GCOLL_OK(gcoll_allreduce_create(group[0], in->data(), out->data(), 10, GCOLL_FLOAT32, GCOLL_SUM,
                                           nullptr, &operation));
    EXPECT_GCOLL_OK(gcoll_operation_run(operation));
    delete in;
    EXPECT_EQ(gcoll_operation_run(operation), GCOLL_ERR_STATE);
    EXPECT_NE(std::string(gcoll_last_error()).find("buffers"), std::string::npos) << gcoll_last_error();
    EXPECT_EQ(gcoll_context_health(group[0]), GCOLL_OK);
    gcoll_operation_destroy(operation);
    delete out;
}
#endif

TEST(OneThread, DestroyingAnOperationInFlightBreaksItsContextOnly) {
    Job job;
    job.size = 2;
    Group group(job);
    std::vector<float> data(10);
    gcoll_operation *operation = sum_operation(group[0], data);
    EXPECT_GCOLL_OK(gcoll_operation_start(operation));
    gcoll_operation_destroy(operation);
    EXPECT_NE(gcoll_context_health(group[0]), GCOLL_OK);
    EXPECT_NE(std::string(gcoll_last_error()).find("in flight"), std::string::npos) << gcoll_last_error();
    gcoll_status status = gcoll_barrier(group[1], nullptr);
    EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
    EXPECT_EQ(gcoll_context_culprit(group[1]), 0);
}

} // namespace
