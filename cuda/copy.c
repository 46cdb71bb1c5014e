/* cuda/copy.c - copies between host and devices, within a device, and from one to another. */
#include <inttypes.h>
#include <stdio.h>

#include "cuda/internal.h"

#define WORDS 32 /* "device 4294967295" */

/* The device that does a copy, and which of its lanes. Host memory is number 0. */
static uint32_t lane_of(uint32_t dst_memory, uint32_t src_memory, gcoll_cuda_lane *lane) {
    if (dst_memory == 0) {
        *lane = GCOLL_CUDA_INTO_HOST;
        return src_memory - 1;
    }
    if (src_memory == 0) {
        *lane = GCOLL_CUDA_OUT_OF_HOST;
        return dst_memory - 1;
    }
    *lane = src_memory == dst_memory ? GCOLL_CUDA_WITHIN : GCOLL_CUDA_ACROSS;
    return src_memory - 1;
}

/* The name of a memory for errors; uses `text` unless it is host memory. */
static const char *words_of(uint32_t memory, char text[WORDS]) {
    if (memory == 0)
        return "host memory";
    (void)snprintf(text, WORDS, "device %u", memory - 1);
    return text;
}

static const enum cudaMemcpyKind kinds[GCOLL_CUDA_LANES] = {
    [GCOLL_CUDA_INTO_HOST] = cudaMemcpyDeviceToHost,
    [GCOLL_CUDA_OUT_OF_HOST] = cudaMemcpyHostToDevice,
    [GCOLL_CUDA_WITHIN] = cudaMemcpyDeviceToDevice,
};

gcoll_status gcoll_cuda_copy(gcoll_accelerator *accelerator, void *dst, uint32_t dst_memory, const void *src,
                             uint32_t src_memory, uint64_t bytes, gcoll_gate *const *gates,
                             uint32_t gate_count, gcoll_ticket **ticket) {
    int before = 0;
    gcoll_cuda_lane lane = GCOLL_CUDA_WITHIN;
    gcoll_ticket *begun = NULL;
    cudaError_t error = cudaSuccess;
    if (dst_memory == 0 && src_memory == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "cuda: a copy from host memory to host memory");
    char from[WORDS];
    char to[WORDS];
    if (dst_memory > accelerator->device_count || src_memory > accelerator->device_count)
        return gcoll_error(GCOLL_ERR_INVALID, "cuda: a copy from %s to %s, of %u devices",
                           words_of(src_memory, from), words_of(dst_memory, to), accelerator->device_count);
    const uint32_t device = lane_of(dst_memory, src_memory, &lane);
    gcoll_status status = gcoll_cuda_begin(accelerator, device, lane, gates, gate_count, &begun, &before);
    if (status != GCOLL_OK)
        return status;
    cudaStream_t stream = accelerator->devices[device].lanes[lane];
    if (bytes > 0 && lane == GCOLL_CUDA_ACROSS)
        error = cudaMemcpyPeerAsync(dst, (int)dst_memory - 1, src, (int)device, bytes, stream);
    else if (bytes > 0)
        error = cudaMemcpyAsync(dst, src, bytes, kinds[lane], stream);
    if (error != cudaSuccess)
        status = gcoll_cuda_failed(error, "%s of %" PRIu64 " bytes from %s to %s",
                                   lane == GCOLL_CUDA_ACROSS ? "cudaMemcpyPeerAsync" : "cudaMemcpyAsync",
                                   bytes, words_of(src_memory, from), words_of(dst_memory, to));
    status = gcoll_cuda_end(accelerator, lane, status, &begun, before);
    if (status == GCOLL_OK)
        *ticket = begun;
    return status;
}
