// An accelerator "cuda" over the fake runtime, and its calls in one line.
#ifndef GCOLL_TEST_CUDA_EXECUTOR_SUPPORT_H
#define GCOLL_TEST_CUDA_EXECUTOR_SUPPORT_H

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "test/cuda/cuda_fake_runtime.h"

extern "C" {
#include "cuda/accelerator.h"
}

namespace cuda_executor {

inline const gcoll_accelerator_table &cuda = gcoll_accelerator_cuda;

// One of three devices is current that nothing is done on, unless a test says otherwise.
class Executor : public testing::Test {
  protected:
    void SetUp() override { begin(1, false); }
    void TearDown() override { end(); }

    void begin(unsigned seed, bool times) {
        fake_cuda::reset(kDevices, seed);
        const gcoll_accelerator_options options = {times};
        ASSERT_EQ(cuda.open(&options, &a), GCOLL_OK) << gcoll_last_error();
    }

    void end() {
        if (!a)
            return;
        fake_cuda::freeze(false);
        EXPECT_EQ(cuda.drain(a, 10000), GCOLL_OK);
        cuda.close(a);
        a = nullptr;
        expect_nothing_left();
    }

    static void expect_nothing_left() {
        EXPECT_EQ(fake_cuda::live_events(), 0u);
        EXPECT_EQ(fake_cuda::live_streams(), 0u);
        EXPECT_EQ(fake_cuda::live_pinned_bytes(), 0u);
        EXPECT_EQ(fake_cuda::violations(), std::vector<std::string>());
        EXPECT_EQ(fake_cuda::pending_error(), cudaSuccess);
    }

    // Asks until it is done.
    gcoll_status finish(gcoll_ticket *ticket, gcoll_ticket_time *time = nullptr) {
        bool done = false;
        for (int i = 0; i < 100000; i++) {
            gcoll_status status = cuda.test(a, ticket, &done, time);
            if (status != GCOLL_OK || done)
                return status;
        }
        ADD_FAILURE() << "never done";
        return GCOLL_ERR_TIMEOUT;
    }

    gcoll_ticket *copy(void *dst, uint32_t dst_memory, const void *src, uint32_t src_memory, size_t bytes,
                       std::vector<gcoll_gate *> gates = {}) {
        gcoll_ticket *ticket = nullptr;
        EXPECT_EQ(cuda.copy(a, dst, dst_memory, src, src_memory, bytes, gates.data(),
                            static_cast<uint32_t>(gates.size()), &ticket),
                  GCOLL_OK)
            << gcoll_last_error();
        return ticket;
    }

    gcoll_gate *gate(uint32_t device, void *stream) {
        gcoll_gate *made = nullptr;
        EXPECT_EQ(cuda.make_gate(a, device, stream, &made), GCOLL_OK) << gcoll_last_error();
        return made;
    }

    void *pin(size_t bytes) {
        void *memory = nullptr;
        EXPECT_EQ(cuda.pin(a, bytes, &memory), GCOLL_OK) << gcoll_last_error();
        return memory;
    }

    static constexpr int kDevices = 3;
    gcoll_accelerator *a = nullptr;
};

inline void expect_text(const std::string &part) {
    EXPECT_NE(std::string(gcoll_last_error()).find(part), std::string::npos)
        << "no '" << part << "' in: " << gcoll_last_error();
}

template <class T> T *device_array(int device, const std::vector<T> &values) {
    T *p = static_cast<T *>(fake_cuda::allocate(device, values.size() * sizeof(T)));
    if (!values.empty())
        memcpy(p, values.data(), values.size() * sizeof(T));
    return p;
}

template <class T> std::vector<T> values_of(const T *p, size_t count) {
    return std::vector<T>(p, p + count);
}

// A fold of arrays of int32, one a device.
struct Fold {
    std::vector<const void *> operands;
    std::vector<uint32_t> devices;
    gcoll_fold fold = {};

    Fold(uint32_t device, void *dst, uint64_t count, gcoll_reach reach = GCOLL_REACH_PEER) {
        fold.device = device;
        fold.dst = dst;
        fold.count = count;
        fold.type = GCOLL_INT32;
        fold.op = GCOLL_SUM;
        fold.reach = reach;
    }
    Fold &add(const void *operand, uint32_t device) {
        operands.push_back(operand);
        devices.push_back(device);
        return *this;
    }
    const gcoll_fold *get() {
        fold.operands = operands.data();
        fold.devices = devices.data();
        fold.operand_count = static_cast<uint32_t>(operands.size());
        return &fold;
    }
};

} // namespace cuda_executor

#endif
