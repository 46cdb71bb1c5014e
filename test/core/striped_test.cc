// test/core/striped_test.cc - collectives whose large messages go by several connections to a peer.
#include "test/kit/harness.h"

#include "gcoll/operations.h"

#include <string>
#include <vector>

namespace {

using namespace gcoll_test;

constexpr const char *kStriped = "tcp:connections=3";

int64_t expected(uint32_t size, uint64_t i) {
    int64_t sum = 0;
    for (uint32_t r = 0; r < size; r++)
        sum += static_cast<int64_t>((i * 7 + r * 13) % 1001);
    return sum;
}

enum class Form { kBlocking, kStarted, kPersistent };

gcoll_status allreduce(Form form, gcoll_context *context, std::vector<int64_t> &data) {
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_status status;
    switch (form) {
    case Form::kBlocking:
        return gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_INT64, GCOLL_SUM, nullptr);
    case Form::kStarted:
        status = gcoll_allreduce_start(context, nullptr, data.data(), data.size(), GCOLL_INT64, GCOLL_SUM,
                                       nullptr, &request);
        return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
    default:
        status = gcoll_allreduce_create(context, nullptr, data.data(), data.size(), GCOLL_INT64, GCOLL_SUM,
                                        nullptr, &operation);
        if (status == GCOLL_OK)
            status = gcoll_operation_start(operation);
        if (status == GCOLL_OK)
            status = gcoll_operation_wait(operation);
        gcoll_operation_destroy(operation);
        return status;
    }
}

TEST(Striped, AllreducesAreRight) {
    for (uint32_t size : {2u, 3u, 5u})
        run_threads(
            size, kStriped,
            [&](uint32_t rank, gcoll_context *context) {
                for (Form form : {Form::kBlocking, Form::kStarted, Form::kPersistent})
                    for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{100003}, uint64_t{1} << 20}) {
                        std::vector<int64_t> data(count);
                        for (uint64_t i = 0; i < count; i++)
                            data[i] = static_cast<int64_t>((i * 7 + rank * 13) % 1001);
                        ASSERT_GCOLL_OK(allreduce(form, context, data));
                        uint64_t wrong = 0;
                        for (uint64_t i = 0; i < count; i++)
                            wrong += data[i] != expected(size, i);
                        EXPECT_EQ(wrong, 0u) << size << " ranks, " << count;
                    }
            });
}

TEST(Striped, ContextsSaySo) {
    run_threads(
        2, kStriped,
        [](uint32_t rank, gcoll_context *context) {
            std::vector<int64_t> data(10);
            ASSERT_GCOLL_OK(allreduce(Form::kBlocking, context, data));
            char text[1024];
            ASSERT_GCOLL_OK(gcoll_context_lanes(context, text, sizeof text));
            EXPECT_EQ(std::string(text),
                      "to rank " + std::to_string(1 - rank) + ": tcp over 3 connections\n");
        });
}

// Rank 0 goes in the midst of it; the others hear so, in each form.
TEST(Striped, ARankThatGoesIsNamed) {
    for (Form form : {Form::kBlocking, Form::kStarted, Form::kPersistent})
        run_threads(
            3, kStriped,
            [&](uint32_t rank, gcoll_context *context) {
                std::vector<int64_t> data(1 << 20);
                ASSERT_GCOLL_OK(allreduce(form, context, data));
                if (rank == 0)
                    return; // its context is destroyed
                EXPECT_NE(allreduce(form, context, data), GCOLL_OK);
                EXPECT_EQ(gcoll_context_culprit(context), 0u);
            });
}

TEST(Striped, NumbersThatAreNotAllowedAreNamed) {
    for (const char *text :
         {"tcp:connections=0", "tcp:connections=17", "tcp:connections=-1", "tcp:connections=x"}) {
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        options.size = 1;
        options.transport = text;
        gcoll_context *context = nullptr;
        EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID) << text;
        EXPECT_NE(std::string(gcoll_last_error()).find("option connections of tcp"), std::string::npos)
            << gcoll_last_error();
        EXPECT_NE(std::string(gcoll_last_error()).find("allowed are 1 to 16"), std::string::npos)
            << gcoll_last_error();
        gcoll_context_destroy(context);
    }
}

} // namespace
