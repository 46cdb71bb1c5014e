// test/core/guard_test.cc - tests of the rule that one thread at a time, and no callback, may call gcoll on a
// context. Other calls get an error, and change nothing. embed_test.cc has contexts that let several threads
// in.
#include "test/kit/calls.h"
#include "test/kit/collective_support.h"

#include <functional>

namespace {

using namespace collective_support;
using namespace gcoll_test;

constexpr uint64_t kCount = 100;

class Guards : public testing::TestWithParam<const char *> {
  protected:
    static Job job(uint32_t size, bool thread = false) { return threaded(job_on(GetParam(), size), thread); }
};

// ---- Callbacks -------------------------------------------------------------------------------------------

struct Calling {
    gcoll_context *context;
    std::atomic<uint32_t> refused, allowed;
};

void call_from_inside(Calling *calling) {
    gcoll_request *request = nullptr;
    gcoll_pair *pair = nullptr;
    gcoll_context *copy = nullptr;
    const uint32_t other = gcoll_context_rank(calling->context) == 0 ? 1 : 0;
    bool right = gcoll_barrier(calling->context, nullptr) == GCOLL_ERR_STATE && says("callback");
    right = right && gcoll_barrier_start(calling->context, nullptr, &request) == GCOLL_ERR_STATE && !request;
    right = right && gcoll_context_pair(calling->context, other, &pair) == GCOLL_ERR_STATE && !pair;
    right = right && gcoll_context_duplicate(calling->context, &copy) == GCOLL_ERR_STATE && !copy;
    gcoll_context_destroy(calling->context); // must do nothing
    right = right && says("callback");
    (right ? calling->refused : calling->allowed)++;
}

gcoll_status add_and_call(void *dst, const void *a, const void *b, uint64_t count, gcoll_type, void *arg) {
    for (uint64_t i = 0; i < count; i++)
        static_cast<int64_t *>(dst)[i] =
            static_cast<const int64_t *>(a)[i] + static_cast<const int64_t *>(b)[i];
    call_from_inside(static_cast<Calling *>(arg));
    return GCOLL_OK;
}

void reduce_in_all_forms(uint32_t rank, gcoll_context *context) {
    Calling calling = {};
    calling.context = context;
    const gcoll_user_op op = {add_and_call, &calling, 1, 0};
    gcoll_allreduce_options options = by("ring");
    options.user_op = &op;
    for (int form = 0; form < 3; form++) {
        std::vector<int64_t> data(kCount, rank + 1);
        gcoll_request *request = nullptr;
        gcoll_operation *operation = nullptr;
        void *at = data.data();
        if (form == 0) {
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, at, kCount, GCOLL_INT64, GCOLL_USER, &options));
        } else if (form == 1) {
            ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, at, kCount, GCOLL_INT64, GCOLL_USER,
                                                  &options, &request));
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        } else {
            ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, at, kCount, GCOLL_INT64, GCOLL_USER,
                                                   &options, &operation));
            EXPECT_GCOLL_OK(gcoll_operation_run(operation));
        }
        gcoll_operation_destroy(operation);
        EXPECT_EQ(data, std::vector<int64_t>(kCount, 6)) << "form " << form;
    }
    EXPECT_GE(calling.refused, 3u);
    EXPECT_EQ(calling.allowed, 0u);
    EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
}

TEST_P(Guards, AUserOperationThatCallsIsRefused) {
    run_threads(job(3), reduce_in_all_forms);
}

TEST_P(Guards, AUserOperationThatCallsIsRefusedBesideAThread) {
    run_threads(job(3, true), reduce_in_all_forms);
}

// The progress thread runs the reduction while no thread calls gcoll.
TEST_P(Guards, AUserOperationOnTheContextsThreadIsRefused) {
    run_threads(
        job(2, true),
        [](uint32_t rank, gcoll_context *context) {
            Calling calling = {};
            calling.context = context;
            const gcoll_user_op op = {add_and_call, &calling, 1, 0};
            gcoll_allreduce_options options = by("ring");
            options.user_op = &op;
            std::vector<int64_t> data(kCount, rank + 1);
            gcoll_request *request = nullptr;
            ASSERT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data.data(), kCount, GCOLL_INT64,
                                                  GCOLL_USER, &options, &request));
            EXPECT_TRUE(await(calling.refused, 1)) << calling.allowed;
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            EXPECT_EQ(data, std::vector<int64_t>(kCount, 3));
            EXPECT_EQ(calling.allowed, 0u);
        });
}

void *allocate_and_call(void *arg, size_t bytes, size_t alignment) {
    auto *calling = static_cast<Calling *>(arg);
    if (calling->context)
        call_from_inside(calling);
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void release_it(void *, void *memory, size_t) {
    free(memory);
}

void log_and_call(void *arg, gcoll_log_level, const char *) {
    auto *calling = static_cast<Calling *>(arg);
    if (calling->context)
        call_from_inside(calling);
}

TEST_P(Guards, AllocatorAndLogThatCallAreRefused) {
    std::vector<Calling> allocating(2), logging(2);
    std::vector<gcoll_allocator> allocators;
    for (Calling &each : allocating)
        allocators.push_back({allocate_and_call, release_it, &each});
    Job job = this->job(2);
    job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        options->allocator = &allocators[rank];
        options->log = log_and_call;
        options->log_arg = &logging[rank];
    };
    std::atomic<uint32_t> right{0};
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        int64_t value = 1;
        allocating[rank].context = logging[rank].context = context;
        EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &value, 1, GCOLL_INT64, GCOLL_SUM, nullptr));
        EXPECT_EQ(value, 2);
        right++;
        EXPECT_TRUE(await(right, 2));
        gcoll_context_abort(context, "to be logged");
        EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
        allocating[rank].context = logging[rank].context = nullptr;
    });
    for (uint32_t rank = 0; rank < 2; rank++) {
        EXPECT_GE(allocating[rank].refused, 1u);
        EXPECT_EQ(allocating[rank].allowed, 0u);
        EXPECT_GE(logging[rank].refused, 1u);
        EXPECT_EQ(logging[rank].allowed, 0u);
    }
}

// ---- Threads ---------------------------------------------------------------------------------------------

// Objects that a second thread tries to use while the first one waits inside a call. All were made before.
struct Things {
    gcoll_pair *pair;
    gcoll_operation *operation;
    gcoll_request *request;
    gcoll_region *region;
};

void expect_all_refused(gcoll_context *context, Things &things) {
    float in = 1, out = 0;
    int done = 7;
    uint32_t index = 7, peer = 1;
    const uint32_t self = 0;
    uint64_t count = 7;
    char text[256];
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_region *region = nullptr;
    gcoll_region_key key;
    gcoll_context *copy = nullptr;
    gcoll_pair *pair = nullptr;
    const std::vector<std::function<gcoll_status()>> calls = {
        [&] { return gcoll_allreduce(context, &in, &out, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr); },
        [&] { return gcoll_barrier_start(context, nullptr, &request); },
        [&] {
            return gcoll_allreduce_create(context, &in, &out, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr,
                                          &operation);
        },
        [&] { return gcoll_operation_start(things.operation); },
        [&] { return gcoll_operation_run(things.operation); },
        [&] { return gcoll_request_test(&things.request, &done); },
        [&] { return gcoll_request_wait(&things.request); },
        [&] { return gcoll_request_wait_for(&things.request, 0); },
        [&] { return gcoll_request_cancel(&things.request); },
        [&] { return gcoll_wait_any(&things.request, 1, &index); },
        [&] { return gcoll_context_pair(context, 1, &pair); },
        [&] { return gcoll_pair_set_timeout(things.pair, 1); },
        [&] { return gcoll_pair_send(things.pair, 9, &in, sizeof in); },
        [&] { return gcoll_pair_recv(things.pair, 9, &out, sizeof out); },
        [&] { return gcoll_pair_recv_start(things.pair, 9, &out, sizeof out, &request); },
        [&] { return gcoll_pair_sendrecv(things.pair, 9, &in, 4, things.pair, 9, &out, 4); },
        [&] { return gcoll_context_recv_any(context, &peer, 1, 9, &out, sizeof out, &index); },
        [&] { return gcoll_region_create(context, &out, sizeof out, &region); },
        [&] { return gcoll_region_export(things.region, &key); },
        [&] { return gcoll_region_notified(things.region, &count); },
        [&] { return gcoll_region_wait(things.region, 1); },
        [&] { return gcoll_context_duplicate(context, &copy); },
        [&] { return gcoll_context_split(context, 0, 0, &copy); },
        [&] { return gcoll_context_create_group(context, &self, 1, 0, &copy); },
        [&] {
            return gcoll_context_explain(context, GCOLL_ALLREDUCE, 1, GCOLL_FLOAT32, GCOLL_SUM, 0, nullptr,
                                         text, sizeof text);
        },
    };
    for (size_t i = 0; i < calls.size(); i++) {
        gcoll_status status = calls[i]();
        EXPECT_EQ(status, GCOLL_ERR_STATE) << "call " << i << ": " << told(status);
        EXPECT_TRUE(says("another thread")) << "call " << i << ": " << gcoll_last_error();
    }
    EXPECT_TRUE(!request && !operation && !region && !copy && !pair && things.request);
    EXPECT_TRUE(done == 7 && index == 7 && count == 7) << "outputs are written on success only";
    gcoll_context_destroy(context); // must do nothing
    EXPECT_TRUE(says("another thread")) << gcoll_last_error();
}

void two_threads(const Job &job) {
    Watchdog watchdog(60);
    Group group(job);
    gcoll_context *context = group[0];
    Things things = {};
    float data = 1, got = 0, received = 0, memory = 0;
    gcoll_pair *back = nullptr;
    ASSERT_GCOLL_OK(gcoll_context_pair(context, 1, &things.pair));
    ASSERT_GCOLL_OK(gcoll_context_pair(group[1], 0, &back));
    ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, &data, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr,
                                           &things.operation));
    ASSERT_GCOLL_OK(gcoll_pair_recv_start(things.pair, 8, &got, sizeof got, &things.request));
    ASSERT_GCOLL_OK(gcoll_region_create(context, &memory, sizeof memory, &things.region));
    std::thread first([&] {
        gcoll_status status; // refused itself if the second one is just inside
        do
            status = gcoll_pair_recv(things.pair, 7, &received, sizeof received);
        while (status == GCOLL_ERR_STATE);
        EXPECT_GCOLL_OK(status);
    });
    const int64_t begun = now_ms();
    gcoll_status status = GCOLL_OK;
    while (status == GCOLL_OK && now_ms() - begun < 10000)
        status = gcoll_pair_set_timeout(things.pair, 0);
    EXPECT_EQ(status, GCOLL_ERR_STATE) << "two threads are inside";
    if (status == GCOLL_ERR_STATE)
        expect_all_refused(context, things);
    EXPECT_EQ(gcoll_context_health(group[1]), GCOLL_OK);
    const float sent[2] = {42, 43};
    EXPECT_GCOLL_OK(gcoll_pair_send(back, 7, &sent[0], sizeof sent[0]));
    first.join();
    EXPECT_EQ(received, 42);
    std::thread second([&] { EXPECT_GCOLL_OK(gcoll_pair_send(back, 8, &sent[1], sizeof sent[1])); });
    EXPECT_GCOLL_OK(gcoll_request_wait(&things.request)); // now it is this thread's turn
    second.join();
    EXPECT_EQ(got, 43);
    gcoll_operation_destroy(things.operation);
    gcoll_region_destroy(things.region);
    EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
}

TEST_P(Guards, ASecondThreadIsRefused) {
    two_threads(job(2));
}

TEST_P(Guards, ThreadsMayTakeTurns) {
    run_threads(
        job(2),
        [](uint32_t, gcoll_context *context) {
            for (int i = 0; i < 5; i++)
                std::thread([&] { EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); }).join();
        });
}

INSTANTIATE_TEST_SUITE_P(Transports, Guards, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

} // namespace
