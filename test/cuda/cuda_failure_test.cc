// The executor over the tests' own runtime, every call of which fails once: the error names it, and nothing
// is left behind. And reductions by a library that stands for NCCL.
#include "test/cuda/cuda_executor_support.h"

namespace {

using namespace cuda_executor;

class CudaFailure : public Executor {
  protected:
    // All that the table can do, until something fails.
    gcoll_status everything() {
        int *x = device_array<int>(0, {6, 6}), *y = device_array<int>(1, {5, 5});
        void *host = nullptr;
        gcoll_gate *g = nullptr;
        gcoll_place place = {};
        gcoll_status status = cuda.locate(a, x, &place);
        if (status == GCOLL_OK)
            status = cuda.pin(a, 64, &host);
        if (status == GCOLL_OK)
            status = cuda.reaches(a, GCOLL_REACH_PEER, 0, 1);
        if (status == GCOLL_OK)
            status = cuda.make_gate(a, 0, nullptr, &g);
        if (status == GCOLL_OK)
            status = with_tickets(x, y, host, g);
        cuda.put_gate(a, g);
        if (host)
            cuda.unpin(a, host, 64);
        return status;
    }

    gcoll_status with_tickets(int *x, int *y, void *host, gcoll_gate *g) {
        gcoll_ticket *ticket = nullptr;
        gcoll_status status = cuda.copy(a, host, 0, x, 1, 8, &g, 1, &ticket);
        if (status == GCOLL_OK)
            status = finish(ticket);
        if (status == GCOLL_OK)
            status = cuda.copy(a, x, 1, y, 2, 8, nullptr, 0, &ticket);
        if (status == GCOLL_OK)
            status = finish(ticket);
        Fold fold(0, x, 2);
        fold.add(x, 0).add(y, 1);
        if (status == GCOLL_OK)
            status = cuda.fold(a, fold.get(), &g, 1, &ticket);
        if (status == GCOLL_OK)
            status = finish(ticket);
        if (status == GCOLL_OK)
            status = cuda.divide(a, 1, y, 2, GCOLL_INT32, 2, nullptr, 0, &ticket);
        return status == GCOLL_OK ? finish(ticket) : status;
    }
};

TEST_F(CudaFailure, OfAnyCallIsToldAndLeavesNothingBehind) {
    const char *const names[] = {
        "cudaDeviceGetAttribute",   "cudaGetDevice",           "cudaStreamCreateWithFlags",
        "cudaStreamWaitEvent",      "cudaEventRecord",         "cudaEventCreateWithFlags",
        "cudaEventQuery",           "cudaEventElapsedTime",    "cudaHostAlloc",
        "cudaMemcpyAsync",          "cudaMemcpyPeerAsync",     "cudaLaunchKernel",
        "cudaPointerGetAttributes", "cudaDeviceCanAccessPeer", "cudaDeviceEnablePeerAccess",
    };
    for (const char *name : names) {
        end();
        begin(3, true);
        ASSERT_EQ(everything(), GCOLL_OK) << gcoll_last_error();
        const int calls = fake_cuda::calls(name);
        ASSERT_GT(calls, 0) << name << " is never called";
        for (int skip = 0; skip < calls; skip++) {
            end();
            begin(3, true);
            ASSERT_EQ(cudaSetDevice(2), cudaSuccess);
            // What asks whether something is done is called as often as it takes.
            fake_cuda::fail(name, cudaErrorIllegalAddress,
                            std::string(name) == "cudaEventQuery" ? skip % 4 : skip);
            ASSERT_EQ(everything(), GCOLL_ERR_IO) << name << " " << skip;
            expect_text("cuda: " + std::string(name));
            expect_text(": words of the fake (cudaErrorOfTheFake)");
            EXPECT_EQ(fake_cuda::current_device(), 2) << name;
            EXPECT_EQ(fake_cuda::pending_error(), cudaSuccess) << name;
            EXPECT_EQ(everything(), GCOLL_OK) << "after " << name << " failed once: " << gcoll_last_error();
        }
    }
}

TEST_F(CudaFailure, OfMakingADeviceCurrent) {
    int *x = device_array<int>(1, {1});
    gcoll_ticket *ticket = nullptr;
    void *host = pin(4);
    fake_cuda::fail("cudaSetDevice", cudaErrorDevicesUnavailable);
    EXPECT_EQ(cuda.copy(a, host, 0, x, 2, 4, nullptr, 0, &ticket), GCOLL_ERR_IO);
    expect_text("cuda: cudaSetDevice(1): words of the fake");
    EXPECT_EQ(fake_cuda::current_device(), 0);
    EXPECT_EQ(finish(copy(host, 0, x, 2, 4)), GCOLL_OK);
}

// Status by what the runtime says.
TEST_F(CudaFailure, HasAStatusByItsKind) {
    int *x = device_array<int>(0, {1});
    void *host = pin(4);
    gcoll_ticket *ticket = nullptr;
    const struct {
        cudaError_t error;
        gcoll_status status;
    } cases[] = {{cudaErrorMemoryAllocation, GCOLL_ERR_NO_MEMORY},
                 {cudaErrorNoKernelImageForDevice, GCOLL_ERR_UNSUPPORTED},
                 {cudaErrorInvalidValue, GCOLL_ERR_INVALID},
                 {cudaErrorIllegalAddress, GCOLL_ERR_IO}};
    for (const auto &c : cases) {
        fake_cuda::fail("cudaMemcpyAsync", c.error);
        EXPECT_EQ(cuda.copy(a, host, 0, x, 1, 4, nullptr, 0, &ticket), c.status);
    }
}

// What was begun, but got no ticket, is among what a drain waits for.
TEST_F(CudaFailure, OfRecordingAnEventAfterSomethingBegan) {
    int *x = device_array<int>(0, {8}), *host = static_cast<int *>(pin(4));
    *host = 0;
    gcoll_ticket *ticket = nullptr;
    fake_cuda::freeze(true);
    fake_cuda::fail("cudaEventRecord", cudaErrorIllegalAddress);
    EXPECT_EQ(cuda.copy(a, host, 0, x, 1, 4, nullptr, 0, &ticket), GCOLL_ERR_IO);
    EXPECT_EQ(cuda.drain(a, 1), GCOLL_ERR_TIMEOUT);
    fake_cuda::freeze(false);
    EXPECT_EQ(cuda.drain(a, 10000), GCOLL_OK);
    EXPECT_EQ(*host, 8);
}

class CudaNccl : public CudaFailure {
  protected:
    void SetUp() override {
        CudaFailure::SetUp();
        for (int d = 0; d < kDevices; d++)
            buffers.push_back(device_array<int>(d, {d + 1, 10 * (d + 1)}));
    }
    // On device 1, of all three, into its own. Device 0 is the caller's, and stays.
    Fold fold_of_all() {
        Fold fold(1, buffers[1], 2, GCOLL_REACH_NCCL);
        for (uint32_t d : {2u, 1u, 0u})
            fold.add(buffers[d], d);
        return fold;
    }
    gcoll_status run(Fold fold, gcoll_gate *g = nullptr) {
        gcoll_ticket *ticket = nullptr;
        gcoll_status status = cuda.fold(a, fold.get(), &g, g ? 1 : 0, &ticket);
        EXPECT_EQ(fake_cuda::current_device(), 0);
        return status == GCOLL_OK ? finish(ticket) : status;
    }
    std::vector<int *> buffers;
};

TEST_F(CudaNccl, ReducesToOneDeviceWithCommunicatorsThatAreKept) {
    EXPECT_EQ(cuda.reaches(a, GCOLL_REACH_NCCL, 0, 2), GCOLL_OK) << gcoll_last_error();
    ASSERT_EQ(run(fold_of_all()), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(values_of(buffers[1], 2), (std::vector<int>{6, 60}));
    EXPECT_EQ(values_of(buffers[0], 2), (std::vector<int>{1, 10}));
    Fold smallest = fold_of_all();
    smallest.fold.op = GCOLL_MIN;
    ASSERT_EQ(run(smallest), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(values_of(buffers[1], 2), (std::vector<int>{1, 10}));
    EXPECT_EQ(fake_cuda::calls("ncclCommInitAll"), 1);
    Fold pair(0, buffers[0], 2, GCOLL_REACH_NCCL);
    ASSERT_EQ(run(pair.add(buffers[0], 0).add(buffers[2], 2)), GCOLL_OK);
    EXPECT_EQ(values_of(buffers[0], 2), (std::vector<int>{4, 40}));
    EXPECT_EQ(fake_cuda::calls("ncclCommInitAll"), 2);
    end();
    EXPECT_EQ(fake_cuda::calls("ncclCommDestroy"), 5);
}

// The streams of all devices wait for the gate, and the ticket for all of them.
TEST_F(CudaNccl, IsOrderedOnEveryDevice) {
    for (unsigned seed = 0; seed < 50; seed++) {
        end();
        begin(seed, false);
        buffers.clear();
        for (int d = 0; d < kDevices; d++)
            buffers.push_back(device_array<int>(d, {0, 0}));
        cudaStream_t caller = fake_cuda::make_stream(0);
        std::vector<int *> all = buffers;
        fake_cuda::enqueue(
            0, caller, [all] { all[0][0] = 1; });
        fake_cuda::enqueue(0, caller, [all] { all[2][1] = 4; });
        gcoll_gate *g = gate(0, caller);
        ASSERT_EQ(run(fold_of_all(), g), GCOLL_OK);
        cuda.put_gate(a, g);
        ASSERT_EQ(values_of(buffers[1], 2), (std::vector<int>{1, 4}));
        const int steps = fake_cuda::step();
        ASSERT_EQ(steps, 0) << "something of the reduction was not waited for";
    }
}

TEST_F(CudaNccl, RefusesWhatItCannotDo) {
    EXPECT_EQ(cuda.reaches(a, GCOLL_REACH_NCCL, 1, 1), GCOLL_ERR_UNSUPPORTED);
    Fold twice = fold_of_all();
    EXPECT_EQ(run(twice.add(buffers[0], 0)), GCOLL_ERR_UNSUPPORTED);
    expect_text("device 0 has two");
    Fold elsewhere = fold_of_all();
    elsewhere.operands.erase(elsewhere.operands.begin() + 1);
    elsewhere.devices.erase(elsewhere.devices.begin() + 1);
    EXPECT_EQ(run(elsewhere), GCOLL_ERR_UNSUPPORTED);
    expect_text("device 1, which has no operand");
    Fold bits = fold_of_all();
    bits.fold.op = GCOLL_BXOR;
    EXPECT_EQ(run(bits), GCOLL_ERR_UNSUPPORTED);
    expect_text("no operation 'bxor'");
}

TEST_F(CudaNccl, TooOldIsRefused) {
    fake_cuda::fail_nccl("ncclGetVersion", 2900);
    EXPECT_EQ(cuda.reaches(a, GCOLL_REACH_NCCL, 0, 1), GCOLL_ERR_UNSUPPORTED);
    expect_text("version 2900, needed is 21000");
}

TEST_F(CudaNccl, FailuresAreToldInItsWords) {
    for (const char *name : {"ncclCommInitAll", "ncclGroupStart", "ncclReduce", "ncclGroupEnd"}) {
        fake_cuda::fail_nccl(name, 3);
        EXPECT_EQ(run(fold_of_all()), GCOLL_ERR_IO) << name;
        expect_text(name);
        expect_text("internal error of the fake NCCL (3)");
        EXPECT_EQ(fake_cuda::calls("ncclGroupStart") - (std::string(name) == "ncclGroupStart"),
                  fake_cuda::calls("ncclGroupEnd"))
            << "a group was left open";
        fake_cuda::fail_nccl(name, 0);
        EXPECT_EQ(run(fold_of_all()), GCOLL_OK) << "after " << name << ": " << gcoll_last_error();
        if (std::string(name) == "ncclGroupStart")
            break;
    }
}

TEST_F(CudaNccl, CloseAbortsWhatIsUnderWay) {
    Fold fold = fold_of_all();
    gcoll_ticket *ticket = nullptr;
    ASSERT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_OK);
    cuda.close(a);
    a = nullptr;
    EXPECT_EQ(fake_cuda::calls("ncclCommAbort"), 3);
    EXPECT_EQ(fake_cuda::calls("ncclCommDestroy"), 0);
    fake_cuda::run_all();
}

} // namespace
