// What gcoll_bench calls of the CUDA runtime and the executor does not, over the runtime of the executor's
// tests: with it, gcoll_bench_fake is a gcoll_bench for devices that are not there. Each rank has a runtime
// of its own, also if it is a thread. Memory that is not freed, and whatever a device would have died of, is
// told on standard error at the end.
//
//   FAKE_CUDA_DEVICES  how many there are (2)
//   FAKE_CUDA_FAULT    lose: copies from the host are lost, but for the first four of each rank; fail: they
//   fail
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "test/cuda/cuda_fake_runtime.h"

extern "C" {
cudaError_t __real_cudaGetDeviceCount(int *count);
cudaError_t __wrap_cudaGetDeviceCount(int *count);
cudaError_t __real_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream);
}

namespace {

constexpr unsigned char kGarbage = 0x5a;
constexpr int kGood = 4; // copies: input and output are cleared, then one is filled and one poisoned

struct Rank {
    int copies = 0;
    std::set<void *> memory;

    ~Rank() {
        for (const std::string &violation : fake_cuda::violations())
            std::fprintf(stderr, "fake CUDA: %s\n", violation.c_str());
        if (!memory.empty() || fake_cuda::live_events() + fake_cuda::live_streams() > 0 ||
            fake_cuda::live_pinned_bytes() > 0)
            std::fprintf(stderr, "fake CUDA: left: %zu buffers, %zu events, %zu streams, %zu bytes pinned\n",
                         memory.size(), fake_cuda::live_events(), fake_cuda::live_streams(),
                         fake_cuda::live_pinned_bytes());
    }
};

Rank &rank() {
    thread_local Rank own;
    return own;
}

// Everybody asks this first.
void begin() {
    thread_local bool has_begun = false;
    if (has_begun)
        return;
    has_begun = true;
    const char *devices = std::getenv("FAKE_CUDA_DEVICES");
    fake_cuda::reset(devices != nullptr ? std::atoi(devices) : 2, 1);
    rank(); // after the runtime, so that it goes before it
}

} // namespace

extern "C" {

cudaError_t __wrap_cudaGetDeviceCount(int *count) {
    begin();
    return __real_cudaGetDeviceCount(count);
}

cudaError_t __wrap_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
    const char *fault = std::getenv("FAKE_CUDA_FAULT");
    if (fault != nullptr && kind == cudaMemcpyHostToDevice && ++rank().copies > kGood)
        return std::strcmp(fault, "lose") == 0 ? cudaSuccess : cudaErrorIllegalAddress;
    return __real_cudaMemcpyAsync(dst, src, bytes, kind, stream);
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
    *memory = fake_cuda::allocate(fake_cuda::current_device(), bytes);
    std::memset(*memory, kGarbage, bytes);
    rank().memory.insert(*memory);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory) {
    return rank().memory.erase(memory) == 1 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        (void)cudaGetLastError();
        (void)fake_cuda::step();
    }
    return cudaSuccess;
}

} // extern "C"
