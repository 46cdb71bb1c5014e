/* cuda/fold.c - reductions and divisions on devices. */
#include <inttypes.h>

#include "cuda/internal.h"
#include "cuda/kernels.h"

/* Checks that kernels of fold->device can read every operand. */
static gcoll_status check_reach(gcoll_accelerator *accelerator, const gcoll_fold *fold) {
    for (uint32_t i = 0; i < fold->operand_count; i++) {
        gcoll_status status = GCOLL_OK;
        if (fold->devices[i] != fold->device)
            status = gcoll_cuda_reaches(accelerator, GCOLL_REACH_PEER, fold->device, fold->devices[i]);
        if (status != GCOLL_OK)
            return status;
    }
    return GCOLL_OK;
}

/* Checks the operands of a fold. More operands than one launch takes are folded by several launches, with the
 * partial result in dst; so dst must not be one of the later operands. */
static gcoll_status check_operands(const gcoll_accelerator *accelerator, const gcoll_fold *fold) {
    gcoll_status status = gcoll_op_check(fold->type, fold->op);
    if (status != GCOLL_OK)
        return status;
    if (fold->op == GCOLL_USER)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "cuda: an operation of the caller's is not for devices");
    if (fold->operand_count < 1)
        return gcoll_error(GCOLL_ERR_INVALID, "cuda: a reduction without operands");
    for (uint32_t i = 0; i < fold->operand_count; i++) {
        if (fold->devices[i] >= accelerator->device_count)
            return gcoll_error(GCOLL_ERR_INVALID, "cuda: operand %u is on device %u of %u", i,
                               fold->devices[i], accelerator->device_count);
        if (i >= GCOLL_CUDA_OPERANDS && fold->operands[i] == fold->dst)
            return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                               "cuda: a reduction into operand %u; it can be one of the first %u", i,
                               (unsigned)GCOLL_CUDA_OPERANDS);
    }
    return GCOLL_OK;
}

static gcoll_status launch(gcoll_accelerator *accelerator, const gcoll_fold *fold) {
    const gcoll_cuda_device *device = &accelerator->devices[fold->device];
    uint32_t taken = 0;
    while (taken < fold->operand_count) {
        const void *list[GCOLL_CUDA_OPERANDS];
        uint32_t count = 0;
        if (taken > 0)
            list[count++] = fold->dst;
        while (count < GCOLL_CUDA_OPERANDS && taken < fold->operand_count)
            list[count++] = fold->operands[taken++];
        cudaError_t error = gcoll_cuda_launch_fold(fold->dst, list, count, fold->count, fold->type, fold->op,
                                                   device->processors, device->lanes[GCOLL_CUDA_WITHIN]);
        if (error != cudaSuccess)
            return gcoll_cuda_failed(
                error, "cudaLaunchKernel of %s of %" PRIu64 " %s in %u operands on device %u",
                gcoll_op_name(fold->op), fold->count, gcoll_type_name(fold->type), count, fold->device);
    }
    return GCOLL_OK;
}

gcoll_status gcoll_cuda_fold(gcoll_accelerator *accelerator, const gcoll_fold *fold, gcoll_gate *const *gates,
                             uint32_t gate_count, gcoll_ticket **ticket) {
    int before = 0;
    gcoll_ticket *begun = NULL;
    const bool by_nccl = fold->reach == GCOLL_REACH_NCCL;
    gcoll_status status = check_operands(accelerator, fold);
    if (status == GCOLL_OK)
        status = by_nccl ? gcoll_cuda_nccl_prepare(accelerator, fold) : check_reach(accelerator, fold);
    if (status == GCOLL_OK)
        status = gcoll_cuda_begin(accelerator, fold->device, GCOLL_CUDA_WITHIN, gates, gate_count, &begun,
                                  &before);
    if (status != GCOLL_OK)
        return status;
    if (fold->count > 0)
        status =
            by_nccl ? gcoll_cuda_nccl_fold(accelerator, fold, gates, gate_count) : launch(accelerator, fold);
    status = gcoll_cuda_end(accelerator, GCOLL_CUDA_WITHIN, status, &begun, before);
    if (status == GCOLL_OK)
        *ticket = begun;
    return status;
}

gcoll_status gcoll_cuda_divide(gcoll_accelerator *accelerator, uint32_t device, void *data, uint64_t count,
                               gcoll_type type, uint32_t divisor, gcoll_gate *const *gates,
                               uint32_t gate_count, gcoll_ticket **ticket) {
    int before = 0;
    gcoll_ticket *begun = NULL;
    gcoll_status status = GCOLL_OK;
    if (divisor == 0 || gcoll_op_check(type, GCOLL_AVG) != GCOLL_OK)
        return gcoll_error(GCOLL_ERR_INVALID, "cuda: a division of type %u by %u", (unsigned)type, divisor);
    status = gcoll_cuda_begin(accelerator, device, GCOLL_CUDA_WITHIN, gates, gate_count, &begun, &before);
    if (status != GCOLL_OK)
        return status;
    if (count > 0) {
        const gcoll_cuda_device *d = &accelerator->devices[device];
        cudaError_t error =
            gcoll_cuda_launch_divide(data, count, type, divisor, d->processors, d->lanes[GCOLL_CUDA_WITHIN]);
        if (error != cudaSuccess)
            status = gcoll_cuda_failed(error, "cudaLaunchKernel of a division of %" PRIu64 " %s on device %u",
                                       count, gcoll_type_name(type), device);
    }
    status = gcoll_cuda_end(accelerator, GCOLL_CUDA_WITHIN, status, &begun, before);
    if (status == GCOLL_OK)
        *ticket = begun;
    return status;
}
