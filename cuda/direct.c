/*
 * cuda/direct.c - GPUDirect RDMA: device memory that a network adapter reads and writes by itself.
 *
 * It first asks the driver for a dma-buf. If there is none, the network's driver may still be able to
 * register the address itself, provided that the module nvidia-peermem is loaded.
 *
 * The functions belong to the driver, not to the runtime, and older drivers lack them, so they are looked up
 * at run time. Their use was checked only against their documentation.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "cuda/internal.h"

typedef CUresult (*handle_fn)(void *handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                              unsigned long long flags);
typedef CUresult (*flush_fn)(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope);

/* Looks up a function of the driver. `function` points to a function pointer, which becomes NULL if the
 * driver lacks the function. */
static void look_up(const char *name, void *function) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *found = driver ? dlsym(driver, name) : NULL;
    memcpy(function, &found, sizeof found);
    if (driver)
        dlclose(driver); /* the runtime keeps the driver open */
}

static gcoll_status read_attribute(uint32_t device, enum cudaDeviceAttr which, const char *name, int *value) {
    cudaError_t error = cudaDeviceGetAttribute(value, which, (int)device);
    if (error == cudaSuccess)
        return GCOLL_OK;
    (void)gcoll_cuda_failed(error, "cudaDeviceGetAttribute(%s) of device %u", name, device);
    return gcoll_error(GCOLL_ERR_UNSUPPORTED, "%s", gcoll_last_error());
}

/* Checks that kernels see data that a network adapter has written, or that writes can be flushed. */
static gcoll_status check_order(gcoll_accelerator *accelerator, uint32_t device) {
    int ordering = 0, options = 0;
    gcoll_status status = read_attribute(device, cudaDevAttrGPUDirectRDMAWritesOrdering,
                                         "GPUDirectRDMAWritesOrdering", &ordering);
    if (status == GCOLL_OK)
        status = read_attribute(device, cudaDevAttrGPUDirectRDMAFlushWritesOptions,
                                "GPUDirectRDMAFlushWritesOptions", &options);
    if (status != GCOLL_OK)
        return status;
    accelerator->devices[device].needs_flush = ordering < cudaGPUDirectRDMAWritesOrderingOwner;
    if (accelerator->devices[device].needs_flush && (options & cudaFlushGPUDirectRDMAWritesOptionHost) == 0)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "cuda: device %u neither orders remote writes to its memory nor flushes them",
                           device);
    return GCOLL_OK;
}

/* Makes a dma-buf of the whole pages around the range. */
static CUresult make_dmabuf(const void *address, uint64_t bytes, gcoll_shared *shared) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t begin = (uintptr_t)address & ~(page - 1);
    const uint64_t end = ((uintptr_t)address + bytes + page - 1) & ~(page - 1);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    handle_fn get_handle = NULL;
    int file = -1;
    look_up("cuMemGetHandleForAddressRange", &get_handle);
    if (get_handle)
        result = get_handle(&file, (CUdeviceptr)begin, end - begin, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result == CUDA_SUCCESS) {
        shared->dmabuf = file;
        shared->offset = (uintptr_t)address - begin;
    }
    return result;
}

gcoll_status gcoll_cuda_share(gcoll_accelerator *accelerator, const void *address, uint64_t bytes,
                              gcoll_shared *shared) {
    gcoll_place place;
    int before = 0, has_peers = 0;
    gcoll_status status = gcoll_cuda_locate(accelerator, address, &place);
    if (status != GCOLL_OK)
        return status;
    if (place.kind != GCOLL_MEMORY_DEVICE)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "cuda: the memory at %p is managed or the host's, which no device has for others",
                           address);
    status = gcoll_cuda_enter(accelerator, place.device, &before);
    if (status != GCOLL_OK)
        return status;
    *shared = (gcoll_shared){.dmabuf = -1, .pages = (void *)(uintptr_t)address};
    status = check_order(accelerator, place.device);
    if (status == GCOLL_OK) {
        const CUresult result = make_dmabuf(address, bytes, shared);
        if (result != CUDA_SUCCESS)
            status = read_attribute(place.device, cudaDevAttrGPUDirectRDMASupported, "GPUDirectRDMASupported",
                                    &has_peers);
        if (status == GCOLL_OK && result != CUDA_SUCCESS && has_peers == 0)
            status = gcoll_error(GCOLL_ERR_UNSUPPORTED,
                                 "cuda: device %u has no GPUDirect RDMA, and cuMemGetHandleForAddressRange "
                                 "gives no dma-buf (error %d)",
                                 place.device, (int)result);
    }
    gcoll_cuda_leave(accelerator, place.device, before);
    return status;
}

gcoll_status gcoll_cuda_arrived(gcoll_accelerator *accelerator, uint32_t device) {
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    flush_fn flush = NULL;
    int before = 0;
    gcoll_status status = GCOLL_OK;
    if (device < accelerator->device_count && !accelerator->devices[device].needs_flush)
        return GCOLL_OK;
    status = gcoll_cuda_enter(accelerator, device, &before);
    if (status != GCOLL_OK)
        return status;
    look_up("cuFlushGPUDirectRDMAWrites", &flush);
    if (flush)
        result = flush(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                       CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    gcoll_cuda_leave(accelerator, device, before);
    return result == CUDA_SUCCESS
               ? GCOLL_OK
               : gcoll_error(GCOLL_ERR_IO, "cuda: cuFlushGPUDirectRDMAWrites on device %u: error %d", device,
                             (int)result);
}
