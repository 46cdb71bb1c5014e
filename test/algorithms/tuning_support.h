// test/algorithms/tuning_support.h - jobs that agree on what they go by, and what became of their ranks.
#ifndef GCOLL_TEST_TUNING_SUPPORT_H
#define GCOLL_TEST_TUNING_SUPPORT_H

#include "test/kit/collective_support.h"

#include <map>
#include <mutex>
#include <string>

namespace tuning_support {

using gcoll_test::Job;
using gcoll_test::told;

inline std::string lines(const gcoll_context *context) {
    char text[512] = "";
    EXPECT_GCOLL_OK(gcoll_context_tuning(context, text, sizeof text));
    return text;
}

inline Job job_of(uint32_t size, const char *transport, const char *tuning) {
    Job job;
    job.size = size;
    job.transport = transport;
    job.adjust = [tuning](uint32_t, gcoll_context_options *options) { options->tuning = tuning; };
    return job;
}

// What each rank's creation came to.
inline std::map<uint32_t, std::string>
create_all(uint32_t size, const char *transport,
           const std::function<void(uint32_t, gcoll_context_options *)> &adjust) {
    gcoll_test::Watchdog watchdog(60);
    gcoll_store *store = nullptr;
    gcoll_hub *hub = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_memory_create(&store));
    EXPECT_GCOLL_OK(gcoll_hub_create(size, &hub));
    std::mutex lock;
    std::map<uint32_t, std::string> outcomes;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; rank++)
        threads.emplace_back([&, rank] {
            gcoll_context_options options;
            gcoll_context_options_init(&options);
            options.rank = rank;
            options.size = size;
            options.store = store;
            options.hub = hub;
            options.transport = transport;
            options.timeout_ms = 20000;
            adjust(rank, &options);
            gcoll_context *context = nullptr;
            std::string outcome = told(gcoll_context_create(&options, &context));
            gcoll_context_destroy(context);
            std::lock_guard<std::mutex> guard(lock);
            outcomes[rank] = outcome;
        });
    for (std::thread &thread : threads)
        thread.join();
    gcoll_hub_destroy(hub);
    gcoll_store_destroy(store);
    return outcomes;
}

} // namespace tuning_support

#endif
