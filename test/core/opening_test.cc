// test/core/opening_test.cc - tests that data of an operation are refused unless their sender has announced
// the operation by its fingerprint.
#include "test/kit/harness.h"

extern "C" {
#include "test/core/opening_peek.h"
}

namespace {

using gcoll_test::Job;
using gcoll_test::run_threads;
using gcoll_test::told;
using gcoll_test::transports;

class Openings : public testing::TestWithParam<const char *> {};

struct Call {
    const char *name, *algorithm;
};

gcoll_status call(gcoll_context *context, const Call &call, std::vector<float> &data) {
    if (std::string(call.name) == "broadcast") {
        gcoll_broadcast_options options;
        gcoll_broadcast_options_init(&options);
        options.algorithm = call.algorithm;
        return gcoll_broadcast(context, data.data(), data.size(), GCOLL_FLOAT32, 1, &options);
    }
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.algorithm = call.algorithm;
    return gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32, GCOLL_SUM, &options);
}

// The plans have one or several messages for each pair. Small messages are sent at once, large ones wait for
// a grant.
TEST_P(Openings, DataWithoutAFingerprintAreRefused) {
    const Call calls[] = {
        {"allreduce", "ring"}, {"allreduce", "sorted_linear_tree"}, {"broadcast", "one_to_all"}};
    for (const Call &made : calls)
        for (size_t count : {size_t(3), size_t(1000), size_t(400000)}) {
            SCOPED_TRACE(std::string(made.name) + " by " + made.algorithm + " of " + std::to_string(count));
            run_threads(3, GetParam(), [&](uint32_t rank, gcoll_context *context) {
                std::vector<float> data(count, 1);
                ASSERT_GCOLL_OK(call(context, made, data));
                if (rank == 1)
                    opening_mute(context, opening_sequence(context) + 1, 1);
                gcoll_status status = call(context, made, data);
                if (rank == 1 && std::string(made.name) == "broadcast")
                    return; // its root may be done before the others notice
                EXPECT_EQ(status, GCOLL_ERR_PROTOCOL) << told(status);
                EXPECT_NE(std::string(gcoll_last_error())
                              .find("rank 1 sent data for " + std::string(made.name) + " #"),
                          std::string::npos)
                    << gcoll_last_error();
                EXPECT_NE(std::string(gcoll_last_error()).find("without saying what operation it belongs to"),
                          std::string::npos)
                    << gcoll_last_error();
                EXPECT_EQ(gcoll_context_culprit(context), 1);
            });
        }
}

INSTANTIATE_TEST_SUITE_P(Some, Openings, transports(),
                         [](const auto &param) { return std::string(param.param); });

// ---- Ranks that run ahead -------------------------------------------------------------------------------

constexpr uint64_t kAhead = 300; // more than any rank remembers of fingerprints

// Rank 0 makes all broadcasts before rank 1 begins. Rank 1 holds the messages meanwhile.
void run_ahead(uint64_t muted, const std::function<void(uint64_t done, gcoll_status status)> &then) {
    std::atomic<uint32_t> sent{0};
    run_threads(2, "tcp", [&](uint32_t rank, gcoll_context *context) {
        std::vector<float> data(8);
        gcoll_broadcast_options options;
        gcoll_broadcast_options_init(&options);
        ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr)); // makes the connection
        const uint64_t before = opening_sequence(context);
        if (rank == 0 && muted)
            opening_mute(context, before + muted, 1);
        if (rank == 1)
            ASSERT_TRUE(gcoll_test::await(sent, 1));
        for (uint64_t i = 1; i <= kAhead; i++) {
            std::fill(data.begin(), data.end(), rank == 0 ? static_cast<float>(i) : 0.0f);
            gcoll_status status =
                gcoll_broadcast(context, data.data(), data.size(), GCOLL_FLOAT32, 0, &options);
            if (rank == 0)
                ASSERT_GCOLL_OK(status);
            else if (status != GCOLL_OK)
                return then(i, status);
            ASSERT_EQ(data[7], static_cast<float>(i));
        }
        if (rank == 0)
            sent = 1;
        else
            then(kAhead, GCOLL_OK);
    });
}

TEST(OpeningsAhead, ARankFarAheadIsNotBlamed) {
    run_ahead(
        0,
        [](uint64_t done, gcoll_status status) {
            EXPECT_GCOLL_OK(status);
            EXPECT_EQ(done, kAhead);
        });
}

// Rank 1 no longer knows whether fingerprints of the first broadcasts came; for the last ones it does.
TEST(OpeningsAhead, ItsMessagesAreCheckedToo) {
    for (uint64_t muted : {uint64_t(1), uint64_t(100), kAhead - 8, kAhead})
        run_ahead(
            muted,
            [muted](uint64_t done, gcoll_status status) {
                EXPECT_EQ(status, GCOLL_ERR_PROTOCOL) << told(status);
                EXPECT_EQ(done, muted);
                EXPECT_NE(std::string(gcoll_last_error()).find("rank 0 sent data for broadcast #"),
                          std::string::npos)
                    << gcoll_last_error();
            });
}

// A peer that waits long in an operation repeats its fingerprint by probes. That leaves room for those of its
// later operations: the last one here is another call, and is found.
TEST(OpeningsAhead, RepeatedFingerprintsLeaveRoomForLaterOnes) {
    constexpr uint64_t kLater = 20; // more than are remembered bit by bit
    run_threads(2, "inproc", [&](uint32_t rank, gcoll_context *context) {
        std::vector<float> data(8);
        uint8_t right[OPENING_FINGERPRINT_BYTES], wrong[OPENING_FINGERPRINT_BYTES];
        gcoll_broadcast_options options;
        gcoll_broadcast_options_init(&options);
        for (uint64_t count : {data.size() - 1, data.size()}) {
            ASSERT_GCOLL_OK(gcoll_broadcast(context, data.data(), count, GCOLL_FLOAT32, 0, &options));
            opening_fingerprint(context, count == data.size() ? right : wrong);
        }
        const uint64_t before = opening_sequence(context);
        if (rank == 0)
            for (uint64_t ahead = 1; ahead <= kLater; ahead++)
                for (int repeat = 0; repeat < 200; repeat++) {
                    opening_arrive(context, 1, before + 1, right);
                    opening_arrive(context, 1, before + ahead, right);
                }
        if (rank == 0) { // another one of the same operation is no repetition
            EXPECT_EQ(opening_held(context, 1), kLater);
            opening_arrive(context, 1, before + kLater, wrong);
            EXPECT_EQ(opening_held(context, 1), kLater + 1);
        }
        for (uint64_t i = 1; i <= kLater; i++) {
            gcoll_status status =
                gcoll_broadcast(context, data.data(), data.size(), GCOLL_FLOAT32, 0, &options);
            if (i < kLater)
                ASSERT_GCOLL_OK(status);
            else if (rank == 0)
                EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
        }
        if (rank == 0)
            EXPECT_EQ(opening_held(context, 1), 0u);
    });
}

} // namespace
