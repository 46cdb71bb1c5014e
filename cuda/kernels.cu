/* cuda/kernels.cu - the kernels: threads.h for every type and operation. */
#include "cuda/kernels.h"

#include "cuda/threads.h"

namespace {

using namespace gcoll_cuda;

static __device__ uint64_t this_thread() {
    return static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

static __device__ uint64_t all_threads() {
    return static_cast<uint64_t>(gridDim.x) * blockDim.x;
}

template <class Operation>
__global__ void __launch_bounds__(GCOLL_CUDA_THREADS)
    fold_kernel(unsigned char *dst, const Operands operands, unsigned operand_count, const Cut c) {
    fold_thread<Operation>(dst, operands, operand_count, c, this_thread(), all_threads());
}

template <class Quotient>
__global__ void __launch_bounds__(GCOLL_CUDA_THREADS)
    divide_kernel(unsigned char *data, uint32_t divisor, const Cut c) {
    divide_thread<Quotient>(data, divisor, c, this_thread(), all_threads());
}

/* A thread for each vector or single element, but no more than the device holds at once: they go on. */
static dim3 grid(const Cut &c, unsigned element_bytes, uint32_t processors) {
    const uint64_t rest = singles(c, element_bytes);
    const uint64_t work = rest > c.vectors ? rest : c.vectors;
    const uint64_t most = static_cast<uint64_t>(GCOLL_CUDA_BLOCKS) * (processors > 0 ? processors : 1);
    const uint64_t blocks = (work + GCOLL_CUDA_THREADS - 1) / GCOLL_CUDA_THREADS;

    return dim3(static_cast<unsigned>(blocks < most ? blocks : most));
}

} // namespace

/* cudaLaunchKernel tells of its own failure alone; <<<>>> would leave that to cudaGetLastError, which may
 * have one of the caller's. */
cudaError_t gcoll_cuda_launch_fold(void *dst, const void *const *operands, uint32_t operand_count,
                                   uint64_t count, gcoll_type type, gcoll_op op, uint32_t processors,
                                   cudaStream_t stream) {
    cudaError_t error = cudaErrorInvalidValue;
    Operands list = {};
    unsigned char *to = static_cast<unsigned char *>(dst);

    if (operand_count < 1 || operand_count > GCOLL_CUDA_OPERANDS)
        return error;
    for (uint32_t i = 0; i < operand_count; i++)
        list.at[i] = static_cast<const unsigned char *>(operands[i]);
    visit_operation(type, op, [&](auto operation) {
        using Operation = decltype(operation);
        constexpr unsigned bytes = sizeof(typename Operation::Element);
        Cut c = cut_fold(count, bytes, dst, list, operand_count);
        void *arguments[] = {&to, &list, &operand_count, &c};
        error = cudaLaunchKernel(fold_kernel<Operation>, grid(c, bytes, processors), dim3(GCOLL_CUDA_THREADS),
                                 arguments, 0, stream);
    });
    return error;
}

cudaError_t gcoll_cuda_launch_divide(void *data, uint64_t count, gcoll_type type, uint32_t divisor,
                                     uint32_t processors, cudaStream_t stream) {
    cudaError_t error = cudaErrorInvalidValue;
    unsigned char *at = static_cast<unsigned char *>(data);

    visit_quotient(type, [&](auto quotient) {
        using Quotient = decltype(quotient);
        constexpr unsigned bytes = sizeof(typename Quotient::Element);
        Cut c = cut_divide(count, bytes, data);
        void *arguments[] = {&at, &divisor, &c};
        error = cudaLaunchKernel(divide_kernel<Quotient>, grid(c, bytes, processors),
                                 dim3(GCOLL_CUDA_THREADS), arguments, 0, stream);
    });
    return error;
}
