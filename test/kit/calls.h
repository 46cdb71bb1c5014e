// test/kit/calls.h - helpers for tests of contexts: they describe jobs, sum vectors, and look at gcoll's last
// error.
#ifndef GCOLL_TEST_CALLS_H
#define GCOLL_TEST_CALLS_H

#include "test/kit/harness.h"

namespace gcoll_test {

inline Job job_on(const char *transport, uint32_t size, int64_t timeout_ms = 20000) {
    Job job;
    job.size = size;
    job.transport = transport;
    job.timeout_ms = timeout_ms;
    return job;
}

// Returns the job, whose contexts have a progress thread or none.
inline Job threaded(Job job, bool thread = true) {
    job.adjust = [thread](uint32_t, gcoll_context_options *options) {
        options->progress_thread = thread ? 1 : 0;
    };
    return job;
}

// Returns the job with eager pools so small that a few messages fill them.
inline Job with_tiny_pools(Job job, uint64_t pool_bytes = 4096) {
    job.adjust = [pool_bytes](uint32_t, gcoll_context_options *options) {
        options->eager_bytes = 64;
        options->eager_pool_bytes = pool_bytes;
    };
    return job;
}

// Returns whether this thread's last gcoll error contains the text.
inline bool says(const std::string &text) {
    return std::string(gcoll_last_error()).find(text) != std::string::npos;
}

inline gcoll_pair *pair_to(gcoll_context *context, uint32_t peer) {
    gcoll_pair *pair = nullptr;
    EXPECT_GCOLL_OK(gcoll_context_pair(context, peer, &pair));
    return pair;
}

// Returns the sum of one value from each rank.
inline uint64_t sum_of(gcoll_context *context, uint64_t value) {
    EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &value, 1, GCOLL_UINT64, GCOLL_SUM, nullptr));
    return value;
}

// Sums the vectors of all ranks in place.
inline gcoll_status sum_floats(gcoll_context *context, std::vector<float> &data,
                               const char *algorithm = nullptr) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.algorithm = algorithm;
    return gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32, GCOLL_SUM, &options);
}

// Creates a persistent allreduce that sums the vectors of all ranks in place. The caller starts and destroys
// it.
inline gcoll_operation *sum_operation(gcoll_context *context, std::vector<float> &data,
                                      const char *algorithm = nullptr) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.algorithm = algorithm;
    gcoll_operation *operation = nullptr;
    EXPECT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32,
                                           GCOLL_SUM, &options, &operation));
    return operation;
}

} // namespace gcoll_test

#endif
