// test/kit/pretend_work.cc - the threads (lanes) of pretend devices, and their arithmetic.
#include "test/kit/pretend_work.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "test/kit/element_oracle.h"

namespace pretend {

namespace {

// Time after which a lane checks again by itself. There are dozens of lanes, and others want to run, too.
constexpr int64_t kUnripeNs = 100 * 1000; // and twice as long each time
constexpr int64_t kUnripeMostNs = 2 * 1000 * 1000;
constexpr int64_t kIdleNs = 50 * 1000 * 1000;

} // namespace

bool Task::is_ripe() const {
    for (const std::atomic<bool> *earlier : behind)
        if (!earlier->load(std::memory_order_acquire))
            return false;
    if (held && held->load(std::memory_order_acquire))
        return false;
    if (asked.load(std::memory_order_relaxed) >= asks_needed)
        return true;
    return gcoll_now_ns() >= at_ns;
}

Lane::Lane(uint64_t seed)
    : slots_(new std::atomic<Task *>[kSlots]()), random_(seed), thread_([this] { serve(); }) {}

Lane::~Lane() {
    closing_.store(true, std::memory_order_relaxed);
    ring();
    thread_.join();
}

void Lane::push(Task *task) {
    std::atomic<Task *> &slot = slots_[tail_.fetch_add(1, std::memory_order_relaxed) % kSlots];
    if (slot.load(std::memory_order_relaxed)) {
        fprintf(stderr, "a lane of a pretend device was given more than %llu things at once\n",
                static_cast<unsigned long long>(kSlots));
        abort();
    }
    slot.store(task, std::memory_order_release);
    ring();
}

void Lane::ring() {
    bell_.fetch_add(1, std::memory_order_relaxed);
    if (asleep_.load(std::memory_order_relaxed)) // if the flag is read too early, the lane wakes by itself
        syscall(SYS_futex, &bell_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Lane::sleep(uint32_t seen, int64_t ns) {
    const timespec limit = {0, ns};
    asleep_.store(true, std::memory_order_relaxed);
    syscall(SYS_futex, &bell_, FUTEX_WAIT_PRIVATE, seen, &limit, nullptr, 0);
    asleep_.store(false, std::memory_order_relaxed);
}

void Lane::serve() {
    int64_t unripe_ns = kUnripeNs;
    for (uint64_t head = 0; !closing_.load(std::memory_order_relaxed);) {
        const uint32_t seen = bell_.load(std::memory_order_relaxed);
        std::atomic<Task *> &slot = slots_[head % kSlots];
        Task *task = slot.load(std::memory_order_acquire);
        if (!task || task->stuck.load(std::memory_order_acquire) || !task->is_ripe()) {
            sleep(seen, task ? unripe_ns : kIdleNs);
            unripe_ns = task ? std::min(2 * unripe_ns, kUnripeMostNs) : kUnripeNs;
            continue;
        }
        unripe_ns = kUnripeNs;
        slot.store(nullptr, std::memory_order_relaxed);
        head++;
        const int64_t begun = gcoll_now_ns();
        task->work(random_);
        task->ns = std::max<int64_t>(gcoll_now_ns() - begun, 1);
        task->done.store(true, std::memory_order_release); // the owner may free the task from here on
    }
}

void copy_in_pieces(uint8_t *dst, const uint8_t *src, uint64_t bytes, bool poison, Random &random) {
    if (poison)
        memset(dst, kPoison, bytes);
    std::vector<uint64_t> cuts = {0, bytes};
    for (uint64_t n = random() % 4; n > 0; n--)
        cuts.push_back(random() % (bytes + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<size_t> order;
    for (size_t i = 0; i + 1 < cuts.size(); i++)
        order.push_back(i);
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order) {
        memcpy(dst + cuts[i], src + cuts[i], cuts[i + 1] - cuts[i]);
        if (random() % 2)
            std::this_thread::yield();
    }
}

// ---- Arithmetic -------------------------------------------------------------------------------------------

namespace {

element_oracle::Bits load(gcoll_type type, const uint8_t *data, uint64_t i) {
    element_oracle::Bits bits = 0;
    const unsigned bytes = element_oracle::shape_of(type).bytes;
    memcpy(&bits, data + i * bytes, bytes); // little-endian, as all of gcoll
    return bits;
}

void store(gcoll_type type, uint8_t *data, uint64_t i, element_oracle::Bits bits) {
    const unsigned bytes = element_oracle::shape_of(type).bytes;
    memcpy(data + i * bytes, &bits, bytes);
}

// The most frequent sums, for which the oracle is too slow. Integers are unsigned, so they wrap.
template <class T> void add(uint8_t *accumulated, const uint8_t *x, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        T a, b;
        memcpy(&a, accumulated + i * sizeof a, sizeof a);
        memcpy(&b, x + i * sizeof b, sizeof b);
        a = static_cast<T>(a + b);
        memcpy(accumulated + i * sizeof a, &a, sizeof a);
    }
}

} // namespace

void reduce_elements(gcoll_type type, gcoll_op op, uint8_t *accumulated, const uint8_t *x, uint64_t count) {
    const bool adds = op == GCOLL_SUM || op == GCOLL_AVG;
    if (adds && (type == GCOLL_INT32 || type == GCOLL_UINT32))
        return add<uint32_t>(accumulated, x, count);
    if (adds && (type == GCOLL_INT64 || type == GCOLL_UINT64))
        return add<uint64_t>(accumulated, x, count);
    if (adds && type == GCOLL_FLOAT32)
        return add<float>(accumulated, x, count);
    if (adds && type == GCOLL_FLOAT64)
        return add<double>(accumulated, x, count);
    for (uint64_t i = 0; i < count; i++)
        store(type, accumulated, i,
              element_oracle::answer(type, op, load(type, accumulated, i), load(type, x, i)));
}

void divide_elements(gcoll_type type, uint8_t *data, uint64_t count, uint32_t divisor) {
    for (uint64_t i = 0; i < count; i++)
        store(type, data, i, element_oracle::quotient(type, load(type, data, i), divisor));
}

} // namespace pretend
