/* cuda/kernels.h - starting the kernels of kernels.cu. */
#ifndef GCOLL_CUDA_KERNELS_H
#define GCOLL_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "cuda/limits.h"
#include "gcoll/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dst = operands[0] op operands[1] op ..., from the left, on the current device, of which `stream` is one.
 * operand_count: 1 to GCOLL_CUDA_OPERANDS. Any alignment; count > 0. dst may be one of the operands.
 * processors: of the device. cudaErrorInvalidValue where op is not defined for type. */
cudaError_t gcoll_cuda_launch_fold(void *dst, const void *const *operands, uint32_t operand_count,
                                   uint64_t count, gcoll_type type, gcoll_op op, uint32_t processors,
                                   cudaStream_t stream);

/* data[i] /= divisor. */
cudaError_t gcoll_cuda_launch_divide(void *data, uint64_t count, gcoll_type type, uint32_t divisor,
                                     uint32_t processors, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
