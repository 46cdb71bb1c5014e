// test/core/call_test.cc - tests of gcoll_collective_call: in all three forms it does the same as the call by
// name, and errors name the field of the struct.
#include "test/kit/harness.h"

#include <string>

namespace {

using gcoll_test::run_threads;
using gcoll_test::transports;

constexpr uint32_t kRanks = 4;
constexpr uint64_t kCount = 4; // of a block; a vector has as many for each rank

using Values = std::vector<int32_t>;

gcoll_collective_call call_of(gcoll_collective collective) {
    gcoll_collective_call call;
    gcoll_collective_call_init(&call);
    call.collective = collective;
    call.type = GCOLL_INT32;
    call.op = GCOLL_SUM;
    call.root = 1;
    call.count = kCount;
    return call;
}

Values input_of(uint32_t rank) {
    Values input(kCount * kRanks);
    for (size_t i = 0; i < input.size(); i++)
        input[i] = static_cast<int32_t>(100 * rank + i);
    return input;
}

// Makes the call by name, and returns the result of this rank.
Values named(gcoll_context *context, gcoll_collective collective, uint32_t rank) {
    const Values input = input_of(rank);
    Values output(input.size(), -1);
    const void *in = input.data();
    void *out = output.data();
    switch (collective) {
    case GCOLL_ALLREDUCE:
        EXPECT_GCOLL_OK(gcoll_allreduce(context, in, out, kCount, GCOLL_INT32, GCOLL_SUM, nullptr));
        break;
    case GCOLL_BROADCAST:
        output = input;
        EXPECT_GCOLL_OK(gcoll_broadcast(context, output.data(), kCount, GCOLL_INT32, 1, nullptr));
        break;
    case GCOLL_REDUCE:
        EXPECT_GCOLL_OK(gcoll_reduce(context, in, out, kCount, GCOLL_INT32, GCOLL_SUM, 1, nullptr));
        break;
    case GCOLL_REDUCE_SCATTER:
        EXPECT_GCOLL_OK(gcoll_reduce_scatter(context, in, out, kCount, GCOLL_INT32, GCOLL_SUM, nullptr));
        break;
    case GCOLL_ALLGATHER:
        EXPECT_GCOLL_OK(gcoll_allgather(context, in, out, kCount, GCOLL_INT32, nullptr));
        break;
    case GCOLL_GATHER:
        EXPECT_GCOLL_OK(gcoll_gather(context, in, out, kCount, GCOLL_INT32, 1, nullptr));
        break;
    case GCOLL_SCATTER:
        EXPECT_GCOLL_OK(gcoll_scatter(context, in, out, kCount, GCOLL_INT32, 1, nullptr));
        break;
    case GCOLL_ALLTOALL:
        EXPECT_GCOLL_OK(gcoll_alltoall(context, in, out, kCount, GCOLL_INT32, nullptr));
        break;
    case GCOLL_PAIRWISE_EXCHANGE:
        EXPECT_GCOLL_OK(gcoll_pairwise_exchange(context, in, out, kCount, GCOLL_INT32, 0, nullptr));
        break;
    default:
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    }
    return output;
}

enum Form { kRun, kStart, kCreate };

void perform(gcoll_context *context, const gcoll_collective_call &call, Form form) {
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    if (form == kRun) {
        EXPECT_GCOLL_OK(gcoll_call_run(context, &call));
    } else if (form == kStart) {
        ASSERT_GCOLL_OK(gcoll_call_start(context, &call, &request));
        EXPECT_GCOLL_OK(gcoll_request_wait(&request));
    } else {
        ASSERT_GCOLL_OK(gcoll_call_create(context, &call, &operation));
        EXPECT_GCOLL_OK(gcoll_operation_run(operation));
        gcoll_operation_destroy(operation);
    }
}

class CallByStruct : public testing::TestWithParam<const char *> {};

TEST_P(CallByStruct, DoesWhatTheCallByNameDoes) {
    run_threads(
        kRanks, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            for (int number = 0; number < GCOLL_COLLECTIVE_COUNT; number++) {
                const auto collective = static_cast<gcoll_collective>(number);
                const Values expected = named(context, collective, rank);
                for (const Form form : {kRun, kStart, kCreate}) {
                    const Values input = input_of(rank);
                    Values output(input.size(), -1);
                    if (collective == GCOLL_BROADCAST)
                        output = input;
                    gcoll_collective_call call = call_of(collective);
                    call.input = input.data();
                    call.output = output.data();
                    perform(context, call, form);
                    EXPECT_EQ(output, expected) << gcoll_collective_name(collective) << ", form " << form;
                }
            }
        });
}

TEST_P(CallByStruct, TakesCountsOfEachRank) {
    run_threads(
        kRanks, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            const std::vector<uint64_t> counts{1, 2, 3, 4};
            const Values input(counts[rank], static_cast<int32_t>(rank + 1));
            Values output(10, -1), expected{1, 2, 2, 3, 3, 3, 4, 4, 4, 4};
            gcoll_collective_call call = call_of(GCOLL_ALLGATHER);
            call.input = input.data();
            call.output = output.data();
            call.count = 0;
            call.counts = counts.data();
            ASSERT_GCOLL_OK(gcoll_call_run(context, &call));
            EXPECT_EQ(output, expected);
        });
}

TEST_P(CallByStruct, TakesSeveralBuffersAndANamedAlgorithm) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            int32_t one = static_cast<int32_t>(rank + 1), two = 10;
            void *buffers[] = {&one, &two};
            gcoll_collective_options options;
            gcoll_collective_options_init(&options);
            options.inputs = buffers;
            options.buffers = 2;
            options.algorithm = "ring";
            gcoll_collective_call call = call_of(GCOLL_ALLREDUCE);
            call.count = 1;
            call.options = &options;
            call.algorithm = "recursive_doubling"; // goes before that of the options
            gcoll_operation *operation = nullptr;
            ASSERT_GCOLL_OK(gcoll_call_create(context, &call, &operation));
            EXPECT_STREQ(gcoll_operation_algorithm(operation), "recursive_doubling");
            ASSERT_GCOLL_OK(gcoll_operation_run(operation));
            EXPECT_EQ(one, 23);
            EXPECT_EQ(two, 23);
            gcoll_operation_destroy(operation);

            one = two = static_cast<int32_t>(rank);
            gcoll_collective_options_init(&options);
            options.outputs = buffers;
            options.buffers = 2;
            gcoll_collective_call broadcast = call_of(GCOLL_BROADCAST);
            broadcast.count = 1;
            broadcast.options = &options;
            ASSERT_GCOLL_OK(gcoll_call_run(context, &broadcast));
            EXPECT_EQ(one + two, 2);
        });
}

TEST(CallsByStruct, ErrorsNameTheField) {
    run_threads(
        1, "inproc",
        [](uint32_t, gcoll_context *context) {
            int32_t value = 1;
            const uint64_t counts[] = {1};
            const auto refused = [&](const gcoll_collective_call *call, const char *text) {
                EXPECT_EQ(gcoll_call_run(context, call), GCOLL_ERR_INVALID);
                EXPECT_NE(std::string(gcoll_last_error()).find(text), std::string::npos)
                    << gcoll_last_error();
            };
            gcoll_collective_call call = call_of(GCOLL_ALLREDUCE);
            call.output = &value;
            call.count = 1;
            refused(nullptr, "call: is NULL");
            call.struct_size = 8;
            refused(&call, "call.struct_size: is 8");
            call.struct_size = sizeof call;
            call.counts = counts;
            refused(&call, "call.counts: is set, but allreduce has no blocks");
            call.collective = GCOLL_ALLGATHER;
            refused(&call, "call.count: is 1 beside call.counts");
            call.collective = static_cast<gcoll_collective>(GCOLL_COLLECTIVE_COUNT);
            refused(&call, "call.collective: is 10");
            call = call_of(GCOLL_ALLREDUCE);
            call.output = &value;
            call.timeout_ms = -2;
            refused(&call, "options.timeout_ms: is -2");
            call.timeout_ms = 0;
            EXPECT_EQ(gcoll_call_start(context, &call, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_call_create(context, &call, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_call_run(nullptr, &call), GCOLL_ERR_INVALID);
        });
}

INSTANTIATE_TEST_SUITE_P(Some, CallByStruct, transports());

} // namespace
