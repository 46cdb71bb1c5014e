// What computes, of the fake CUDA runtime: the kernels, and the reductions of the library that stands for
// NCCL.
#include <cstring>
#include <memory>

#include "cuda/kernels.h"
#include "test/cuda/cuda_fake_internal.h"

extern "C" {
#include "gcoll/base/base.h"
}

namespace {

// Operands may be the destination, too.
void fold(void *dst, const std::vector<const void *> &operands, uint64_t count, size_t bytes,
          gcoll_kernel kernel) {
    std::vector<unsigned char> sum(bytes);
    memcpy(sum.data(), operands[0], bytes);
    for (size_t i = 1; i < operands.size(); i++)
        kernel(sum.data(), sum.data(), operands[i], count);
    memcpy(dst, sum.data(), bytes);
}

} // namespace

extern "C" {

// What the library that stands for NCCL calls.
int fake_nccl_called(const char *name) {
    return fake_cuda::next_nccl_result(name);
}

// Reduces when all of the streams have come to it, which the last of them finds out.
void fake_nccl_reduce(const void *const *send, void *recv, size_t count, int type, int op, int n,
                      const int *devices, int root, cudaStream_t *streams) {
    static const gcoll_type types[] = {GCOLL_INT8,    GCOLL_UINT8,   GCOLL_INT32,   GCOLL_UINT32,
                                       GCOLL_INT64,   GCOLL_UINT64,  GCOLL_FLOAT16, GCOLL_FLOAT32,
                                       GCOLL_FLOAT64, GCOLL_BFLOAT16};
    static const gcoll_op ops[] = {GCOLL_SUM, GCOLL_PRODUCT, GCOLL_MAX, GCOLL_MIN};
    const gcoll_type element = types[type];
    const size_t bytes = count * gcoll_type_size(element);
    std::vector<const void *> from(send, send + n);
    auto arrived = std::make_shared<int>(0);
    auto work = [=] {
        if (++*arrived < n)
            return;
        fold(recv, from, count, bytes, gcoll_kernel_find(element, ops[op]));
    };
    for (int i = 0; i < n; i++) {
        if (!fake_cuda::is_of_device(send[i], bytes, devices[i]) ||
            fake_cuda::device_of(streams[i]) != devices[i])
            fake_cuda::violate("NCCL: operand or stream of another device");
        fake_cuda::enqueue(devices[i], streams[i], work);
    }
    if (!fake_cuda::is_of_device(recv, bytes, devices[root]))
        fake_cuda::violate("NCCL: the root receives into memory that is not its");
}

// What the executor calls of kernels.cu, a launch of which needs its stream's device to be current.

cudaError_t gcoll_cuda_launch_fold(void *dst, const void *const *operands, uint32_t operand_count,
                                   uint64_t count, gcoll_type type, gcoll_op op, uint32_t processors,
                                   cudaStream_t stream) {
    FAKE_CALL("cudaLaunchKernel");
    gcoll_kernel kernel = gcoll_kernel_find(type, op);
    const size_t bytes = count * gcoll_type_size(type);
    const int device = fake_cuda::device_of(stream);
    if (device != fake_cuda::current_device())
        return fake_cuda::note(cudaErrorInvalidResourceHandle);
    if (!kernel || operand_count < 1 || operand_count > GCOLL_CUDA_OPERANDS || processors != 4 || count == 0)
        return fake_cuda::note(cudaErrorInvalidValue);
    std::vector<const void *> list(operands, operands + operand_count);
    for (const void *p : list)
        fake_cuda::check_access(p, bytes, device);
    fake_cuda::check_access(dst, bytes, device);
    fake_cuda::enqueue(device, stream, [=] { fold(dst, list, count, bytes, kernel); });
    return cudaSuccess;
}

cudaError_t gcoll_cuda_launch_divide(void *data, uint64_t count, gcoll_type type, uint32_t divisor, uint32_t,
                                     cudaStream_t stream) {
    FAKE_CALL("cudaLaunchKernel");
    const int device = fake_cuda::device_of(stream);
    if (device != fake_cuda::current_device())
        return fake_cuda::note(cudaErrorInvalidResourceHandle);
    fake_cuda::check_access(data, count * gcoll_type_size(type), device);
    fake_cuda::enqueue(device, stream, [=] { gcoll_divide(data, count, type, divisor); });
    return cudaSuccess;
}

} // extern "C"
