// test/kit/pretend_work.h - threads (lanes) that run tasks late, in pieces, and at their own speed.
//
// Tasks are the only synchronisation between a lane and other threads. A task sees what was written before
// its push(). A thread that finds `done` set sees what the task wrote. Everything else uses relaxed atomics
// and futexes, which order nothing for ThreadSanitizer. So the sanitizer sees a missing wait.
#ifndef GCOLL_TEST_PRETEND_WORK_H
#define GCOLL_TEST_PRETEND_WORK_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

extern "C" {
#include "gcoll/base/base.h"
}

namespace pretend {

using Random = std::mt19937_64;

// Value of bytes that were not written yet. As an element of any type it is far from the small numbers that
// tests use.
constexpr uint8_t kPoison = 0xdb;

struct Task {
    std::function<void(Random &)> work;
    // The task may begin after the tasks in `behind`, while `held` is not set, and after it was asked for
    // `asks_needed` times or `at_ns` has come.
    std::vector<const std::atomic<bool> *> behind; // done flags
    const std::atomic<bool> *held = nullptr;
    uint32_t asks_needed = UINT32_MAX;
    int64_t at_ns = 0;
    bool is_ripe() const;

    std::atomic<uint32_t> asked{0};
    std::atomic<bool> stuck{false};
    std::atomic<bool> done{false};
    int64_t ns = 0; // duration of the work
};

// A thread that runs tasks in order.
class Lane {
  public:
    explicit Lane(uint64_t seed);
    ~Lane(); // tasks that have not begun are never done
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;
    // Adds a task. The caller owns it. It must live until it is done, or as long as the lane.
    void push(Task *task);
    // Makes the lane check again whether its task may begin.
    void ring();

  private:
    static constexpr uint64_t kSlots = 1 << 14;
    void serve();
    void sleep(uint32_t seen, int64_t ns);

    std::unique_ptr<std::atomic<Task *>[]> slots_;
    std::atomic<uint64_t> tail_{0};
    std::atomic<uint32_t> bell_{0};
    std::atomic<bool> asleep_{false};
    std::atomic<bool> closing_{false};
    Random random_;
    std::thread thread_;
};

// Copies src to dst in a few pieces of random size and order. With `poison`, dst is poisoned first.
void copy_in_pieces(uint8_t *dst, const uint8_t *src, uint64_t bytes, bool poison, Random &random);

// accumulated[i] = accumulated[i] op x[i], and data[i] /= divisor, by element_oracle.h.
void reduce_elements(gcoll_type type, gcoll_op op, uint8_t *accumulated, const uint8_t *x, uint64_t count);
void divide_elements(gcoll_type type, uint8_t *data, uint64_t count, uint32_t divisor);

} // namespace pretend

#endif
