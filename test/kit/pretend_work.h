// test/kit/pretend_work.h - threads that do what they are given late, in pieces, and in their own time.
//
// The only order between what a lane does and its surroundings is that of its tasks: what was written before
// push() is seen by the task, and what the task wrote by whoever finds `done` set. Everything else is relaxed
// atomics and futexes, which ThreadSanitizer takes for no order at all, so a missing one shows.
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

// What was not written yet. As an element of any type it is far from the small numbers that tests use.
constexpr uint8_t kPoison = 0xdb;

struct Task {
    std::function<void(Random &)> work;
    // When it may begin: behind others, while nobody holds it, and not before somebody has asked for it often
    // enough or some time has passed.
    std::vector<const std::atomic<bool> *> behind; // done flags
    const std::atomic<bool> *held = nullptr;
    uint32_t asks_needed = UINT32_MAX;
    int64_t at_ns = 0;
    bool is_ripe() const;

    std::atomic<uint32_t> asked{0};
    std::atomic<bool> stuck{false};
    std::atomic<bool> done{false};
    int64_t ns = 0; // that it took
};

// One thread; tasks in order.
class Lane {
  public:
    explicit Lane(uint64_t seed);
    ~Lane(); // what it has not begun is not done
    Lane(const Lane &) = delete;
    Lane &operator=(const Lane &) = delete;
    // The task stays the caller's and must live until it is done, or as long as the lane.
    void push(Task *task);
    // Has it look again whether its task may begin.
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

// dst = src in a few pieces of any size, in any order; poison until then.
void copy_in_pieces(uint8_t *dst, const uint8_t *src, uint64_t bytes, bool poison, Random &random);

// accumulated[i] = accumulated[i] op x[i], and data[i] /= divisor, by element_oracle.h.
void reduce_elements(gcoll_type type, gcoll_op op, uint8_t *accumulated, const uint8_t *x, uint64_t count);
void divide_elements(gcoll_type type, uint8_t *data, uint64_t count, uint32_t divisor);

} // namespace pretend

#endif
