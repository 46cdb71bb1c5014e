// test/monitor/arrival_support.h - jobs whose ranks are watched and late, and what they saw of one another.
#ifndef GCOLL_TEST_ARRIVAL_SUPPORT_H
#define GCOLL_TEST_ARRIVAL_SUPPORT_H

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gcoll/arrival.h"
#include "test/kit/collective_support.h"

namespace arrival_support {

using gcoll_test::Job;

// Of a link where bytes are dear, so that a late rank among several is worth a plan of its own, and messages
// are cheap, so that announcements are frequent.
inline constexpr gcoll_cost_parameters kCosts = {1e-9, 8e-9, 0.2e-9};

inline Job watched(uint32_t size, const char *transport, bool thread = false) {
    Job job;
    job.size = size;
    job.transport = transport;
    job.adjust = [thread](uint32_t, gcoll_context_options *options) {
        options->monitor = 1;
        options->cost = &kCosts;
        options->progress_thread = thread;
    };
    return job;
}

// Is not in a call for that long, as a rank that computes; but leaves the processor to others.
inline void stay_away_us(int64_t us) {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
}

// A small integer, so that sums are exact in any order.
inline float value(uint32_t rank, uint32_t seed, uint64_t i) {
    return static_cast<float>((i + seed) % 7 * (rank + 1));
}

// One allreduce in place, whose sum is compared with what it must be: value() is linear in the rank's number.
inline gcoll_status sum(gcoll_context *context, uint64_t count, uint32_t seed = 0,
                        const gcoll_allreduce_options *options = nullptr) {
    const uint32_t rank = gcoll_context_rank(context), size = gcoll_context_size(context);
    std::vector<float> data(count);
    for (uint64_t i = 0; i < count; i++)
        data[i] = value(rank, seed, i);
    gcoll_status status =
        gcoll_allreduce(context, nullptr, data.data(), count, GCOLL_FLOAT32, GCOLL_SUM, options);
    for (uint64_t i = 0; i < count && status == GCOLL_OK; i++) {
        const float expected = value(size * (size + 1) / 2 - 1, seed, i);
        if (data[i] != expected) {
            ADD_FAILURE() << "rank " << rank << ", element " << i << ": " << data[i] << ", not " << expected;
            break;
        }
    }
    return status;
}

inline gcoll_site_stats stats(gcoll_context *context, uint32_t index = 0,
                              std::vector<gcoll_rank_stats> *ranks = nullptr) {
    gcoll_site_stats stats = {};
    stats.struct_size = sizeof stats;
    if (ranks)
        ranks->resize(gcoll_context_size(context));
    EXPECT_GCOLL_OK(gcoll_arrival_stats(context, index, &stats, ranks ? ranks->data() : nullptr));
    return stats;
}

// What all ranks must have in common.
inline std::string common(const gcoll_site_stats &stats) {
    return std::to_string(stats.calls) + " calls, " + std::to_string(stats.heeded) + " heeded, " +
           std::to_string(stats.announcements) + " announcements, " + std::to_string(stats.changes) +
           " changes, " + stats.algorithm;
}

// Collects a text of each rank, which must be one text.
class Agreement {
  public:
    void add(const std::string &text) {
        std::lock_guard<std::mutex> guard(lock_);
        texts_[text]++;
    }
    ~Agreement() {
        EXPECT_EQ(texts_.size(), 1u);
        for (const auto &text : texts_)
            if (texts_.size() != 1)
                ADD_FAILURE() << text.second << " ranks: " << text.first;
    }

  private:
    std::mutex lock_;
    std::map<std::string, int> texts_;
};

} // namespace arrival_support

#endif
