/* benchmark/buffers_cuda.c - buffers in the memory of CUDA devices. */
#include <cuda_runtime_api.h>
#include <inttypes.h>

#include "benchmark/memory.h"
#include "tools/cli_value.h"

static bool is_done(cudaError_t error, const char *call, uint32_t device) {
    if (error == cudaSuccess)
        return true;
    cli_complain("device %u: %s: %s (%s)", device, call, cudaGetErrorString(error), cudaGetErrorName(error));
    (void)cudaGetLastError(); /* clears the error, so that no later check finds it */
    return false;
}

static bool count(uint32_t *devices) {
    int found = 0;
    const cudaError_t error = cudaGetDeviceCount(&found);
    if (error != cudaSuccess) {
        cli_complain("--device: cudaGetDeviceCount: %s (%s)", cudaGetErrorString(error),
                     cudaGetErrorName(error));
        return false;
    }
    if (found <= 0) {
        cli_complain("--device: cudaGetDeviceCount: there is no device");
        return false;
    }
    *devices = (uint32_t)found;
    return true;
}

static bool enter(uint32_t device) {
    return is_done(cudaSetDevice((int)device), "cudaSetDevice", device);
}

static bool allocate(uint32_t device, uint64_t bytes, void **buffer) {
    void *memory = NULL;
    if (!enter(device) || !is_done(cudaMalloc(&memory, bytes), "cudaMalloc", device))
        return false;
    *buffer = memory;
    return true;
}

static void release(uint32_t device, void *buffer) {
    if (buffer && enter(device))
        (void)is_done(cudaFree(buffer), "cudaFree", device);
}

/* Opens a stream that is not synchronised with the default stream: the library must keep the order itself. */
static bool open_stream(uint32_t device, void **stream) {
    cudaStream_t made = NULL;
    if (!enter(device) || !is_done(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking),
                                   "cudaStreamCreateWithFlags", device))
        return false;
    *stream = made;
    return true;
}

static void close_stream(uint32_t device, void *stream) {
    if (enter(device))
        (void)is_done(cudaStreamDestroy(stream), "cudaStreamDestroy", device);
}

static bool move(uint32_t device, void *stream, void *to, const void *from, uint64_t bytes,
                 enum cudaMemcpyKind kind) {
    return enter(device) &&
           is_done(cudaMemcpyAsync(to, from, bytes, kind, stream), "cudaMemcpyAsync", device) &&
           is_done(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device);
}

static bool upload(uint32_t device, void *stream, void *to, const void *from, uint64_t bytes) {
    return move(device, stream, to, from, bytes, cudaMemcpyHostToDevice);
}

static bool download(uint32_t device, void *stream, void *to, const void *from, uint64_t bytes) {
    return move(device, stream, to, from, bytes, cudaMemcpyDeviceToHost);
}

const bench_memory bench_cuda_memory = {.count = count,
                                        .allocate = allocate,
                                        .release = release,
                                        .open_stream = open_stream,
                                        .close_stream = close_stream,
                                        .upload = upload,
                                        .download = download};
