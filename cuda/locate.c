/* cuda/locate.c - finds the memory that an address lies in, and the devices that can read each other's
 * memory. */
#include "cuda/internal.h"

static const gcoll_place on_host = {.kind = GCOLL_MEMORY_HOST, .device = 0};

static gcoll_status place_of(const gcoll_accelerator *accelerator, const struct cudaPointerAttributes *found,
                             const void *address, gcoll_place *place) {
    gcoll_memory_kind kind = GCOLL_MEMORY_HOST;
    switch (found->type) {
    case cudaMemoryTypeUnregistered:
        break;
    case cudaMemoryTypeHost:
        kind = GCOLL_MEMORY_PINNED;
        break;
    case cudaMemoryTypeManaged:
        kind = GCOLL_MEMORY_MANAGED;
        break;
    case cudaMemoryTypeDevice:
        kind = GCOLL_MEMORY_DEVICE;
        break;
    default:
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "cuda: cudaPointerGetAttributes(%p) says memory of type %d, which is not known",
                           address, (int)found->type);
    }
    *place = on_host;
    place->kind = kind;
    if (kind != GCOLL_MEMORY_MANAGED && kind != GCOLL_MEMORY_DEVICE)
        return GCOLL_OK;
    if (found->device < 0 || (uint32_t)found->device >= accelerator->device_count)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "cuda: cudaPointerGetAttributes(%p) says device %d, of %u devices", address,
                           found->device, accelerator->device_count);
    place->device = (uint32_t)found->device;
    return GCOLL_OK;
}

gcoll_status gcoll_cuda_locate(gcoll_accelerator *accelerator, const void *address, gcoll_place *place) {
    struct cudaPointerAttributes found = {.type = cudaMemoryTypeUnregistered};
    gcoll_place where = on_host;
    gcoll_status status = GCOLL_OK;
    cudaError_t error = address ? cudaPointerGetAttributes(&found, address) : cudaSuccess;
    if (error == cudaErrorInvalidValue) { /* older drivers: an address that CUDA does not know */
        (void)cudaGetLastError();
        found.type = cudaMemoryTypeUnregistered;
    } else if (error != cudaSuccess) {
        return gcoll_cuda_failed(error, "cudaPointerGetAttributes(%p)", address);
    }
    status = place_of(accelerator, &found, address, &where);
    if (status != GCOLL_OK)
        return status;
    if (where.kind == GCOLL_MEMORY_DEVICE || where.kind == GCOLL_MEMORY_MANAGED) {
        accelerator->home = where.device;
        accelerator->has_home = true;
    }
    *place = where;
    return GCOLL_OK;
}

/* Lets device `from` access the memory of device `to`. Device `from` must be set up and current. */
static gcoll_status enable(gcoll_cuda_device *device, uint32_t from, uint32_t to) {
    int can = 0;
    cudaError_t error = cudaDeviceCanAccessPeer(&can, (int)from, (int)to);
    if (error != cudaSuccess)
        return gcoll_cuda_failed(error, "cudaDeviceCanAccessPeer(%u, %u)", from, to);
    if (can == 0)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "cuda: cudaDeviceCanAccessPeer(%u, %u): device %u cannot read the memory of %u",
                           from, to, from, to);
    error = cudaDeviceEnablePeerAccess((int)to, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled)
        (void)cudaGetLastError(); /* the program has enabled it already */
    else if (error != cudaSuccess)
        return gcoll_cuda_failed(error, "cudaDeviceEnablePeerAccess(%u) on device %u", to, from);
    device->reads[to] = true;
    return GCOLL_OK;
}

gcoll_status gcoll_cuda_reaches(gcoll_accelerator *accelerator, gcoll_reach reach, uint32_t from,
                                uint32_t to) {
    int before = 0;
    gcoll_status status = GCOLL_OK;
    if (from >= accelerator->device_count || to >= accelerator->device_count)
        return gcoll_error(GCOLL_ERR_INVALID, "cuda: devices %u and %u, of %u", from, to,
                           accelerator->device_count);
    if (reach == GCOLL_REACH_NCCL) {
        if (from == to)
            return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                               "cuda: NCCL takes one buffer of a device; device %u has two", from);
        return gcoll_cuda_nccl_load(accelerator);
    }
    if (from == to || (accelerator->devices[from].is_set_up && accelerator->devices[from].reads[to]))
        return GCOLL_OK;
    status = gcoll_cuda_enter(accelerator, from, &before);
    if (status != GCOLL_OK)
        return status;
    status = enable(&accelerator->devices[from], from, to);
    gcoll_cuda_leave(accelerator, from, before);
    return status;
}
