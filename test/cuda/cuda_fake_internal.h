// What the parts of the fake CUDA runtime share.
#ifndef GCOLL_TEST_CUDA_FAKE_INTERNAL_H
#define GCOLL_TEST_CUDA_FAKE_INTERNAL_H

#include "test/cuda/cuda_fake_runtime.h"

namespace fake_cuda {

cudaError_t note(cudaError_t error); // for cudaGetLastError
// True: the call is to fail with *error.
bool fails(const char *call, cudaError_t *error);
int next_nccl_result(const char *call);

int device_of(cudaStream_t stream);
bool is_of_device(const void *address, size_t bytes, int device);
// A kernel of `device` reads or writes that.
void check_access(const void *address, size_t bytes, int device);
void violate(const std::string &text);

} // namespace fake_cuda

#define FAKE_CALL(name)                                                                                      \
    do {                                                                                                     \
        cudaError_t injected = cudaSuccess;                                                                  \
        if (fake_cuda::fails(name, &injected))                                                               \
            return injected;                                                                                 \
    } while (0)

#endif
