/* cuda/open.c - the accelerator "cuda": opening it, and its devices. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/internal.h"

static gcoll_status status_of(cudaError_t error) {
    switch (error) {
    case cudaErrorMemoryAllocation:
        return GCOLL_ERR_NO_MEMORY;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorStubLibrary:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorNotSupported:
    case cudaErrorPeerAccessUnsupported:
    case cudaErrorTooManyPeers:
        return GCOLL_ERR_UNSUPPORTED;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
        return GCOLL_ERR_INVALID;
    default:
        return GCOLL_ERR_IO;
    }
}

gcoll_status gcoll_cuda_failed(cudaError_t error, const char *call, ...) {
    va_list arguments;
    va_start(arguments, call);
    char text[256];
    (void)vsnprintf(text, sizeof text, call, arguments);
    va_end(arguments);
    (void)cudaGetLastError();
    return gcoll_error(status_of(error), "cuda: %s: %s (%s)", text, cudaGetErrorString(error),
                       cudaGetErrorName(error));
}

/* Sets up a device, which must be current. Objects made before a failure stay, and are not made again. */
static gcoll_status set_up(gcoll_accelerator *accelerator, uint32_t number) {
    gcoll_cuda_device *device = &accelerator->devices[number];
    int processors = 0;
    cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, (int)number);
    if (error != cudaSuccess)
        return gcoll_cuda_failed(error, "cudaDeviceGetAttribute of device %u", number);
    device->processors = processors > 0 ? (uint32_t)processors : 1;
    for (int lane = 0; lane < GCOLL_CUDA_LANES; lane++) {
        if (device->lanes[lane])
            continue;
        error = cudaStreamCreateWithFlags(&device->lanes[lane], cudaStreamNonBlocking);
        if (error != cudaSuccess) {
            device->lanes[lane] = NULL;
            return gcoll_cuda_failed(error, "cudaStreamCreateWithFlags on device %u", number);
        }
    }
    if (!device->joined) {
        error = cudaEventCreateWithFlags(&device->joined, cudaEventDisableTiming);
        if (error != cudaSuccess) {
            device->joined = NULL;
            return gcoll_cuda_failed(error, "cudaEventCreateWithFlags on device %u", number);
        }
    }
    if (!device->reads) {
        device->reads = calloc(accelerator->device_count, sizeof *device->reads);
        if (!device->reads)
            return gcoll_error(GCOLL_ERR_NO_MEMORY, "cuda: out of memory for a device");
        device->reads[number] = true;
    }
    device->is_set_up = true;
    return GCOLL_OK;
}

gcoll_status gcoll_cuda_enter(gcoll_accelerator *accelerator, uint32_t device, int *before) {
    gcoll_status status = GCOLL_OK;
    cudaError_t error = cudaSuccess;
    if (device >= accelerator->device_count)
        return gcoll_error(GCOLL_ERR_INVALID, "cuda: device %u of %u devices", device,
                           accelerator->device_count);
    error = cudaGetDevice(before);
    if (error != cudaSuccess)
        return gcoll_cuda_failed(error, "cudaGetDevice");
    if (*before != (int)device) {
        error = cudaSetDevice((int)device);
        if (error != cudaSuccess)
            return gcoll_cuda_failed(error, "cudaSetDevice(%u)", device);
    }
    accelerator->home = device;
    accelerator->has_home = true;
    if (!accelerator->devices[device].is_set_up)
        status = set_up(accelerator, device);
    if (status != GCOLL_OK)
        gcoll_cuda_leave(accelerator, device, *before);
    return status;
}

void gcoll_cuda_leave(const gcoll_accelerator *accelerator, uint32_t device, int before) {
    (void)accelerator;
    /* This device was current a moment ago: if this fails, every later call fails, too, and reports it. */
    if (before != (int)device && cudaSetDevice(before) != cudaSuccess)
        (void)cudaGetLastError();
}

static gcoll_status open_cuda(const gcoll_accelerator_options *options, gcoll_accelerator **accelerator) {
    int count = 0;
    gcoll_accelerator *a = NULL;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
        (void)gcoll_cuda_failed(error, "cudaGetDeviceCount");
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "%s", gcoll_last_error());
    }
    if (count <= 0)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "cuda: cudaGetDeviceCount: there is no device");
    a = calloc(1, sizeof *a);
    if (a)
        a->devices = calloc((size_t)count, sizeof *a->devices);
    if (!a || !a->devices) {
        free(a);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "cuda: out of memory for %d devices", count);
    }
    a->times = options && options->times;
    a->device_count = (uint32_t)count;
    *accelerator = a;
    return GCOLL_OK;
}

static void close_cuda(gcoll_accelerator *accelerator) {
    if (!accelerator)
        return;
    gcoll_cuda_close_nccl(accelerator);
    gcoll_cuda_close_pool(accelerator);
    for (uint32_t d = 0; d < accelerator->device_count; d++)
        gcoll_cuda_close_device(accelerator, d);
    (void)cudaGetLastError(); /* at process exit the driver may be gone already */
    free(accelerator->devices);
    free(accelerator);
}

static uint32_t device_count(const gcoll_accelerator *accelerator) {
    return accelerator->device_count;
}

const gcoll_accelerator_table gcoll_accelerator_cuda = {
    .name = "cuda",
    .open = open_cuda,
    .close = close_cuda,
    .device_count = device_count,
    .locate = gcoll_cuda_locate,
    .reaches = gcoll_cuda_reaches,
    .pin = gcoll_cuda_pin,
    .unpin = gcoll_cuda_unpin,
    .make_gate = gcoll_cuda_make_gate,
    .put_gate = gcoll_cuda_put_gate,
    .test_gate = gcoll_cuda_test_gate,
    .copy = gcoll_cuda_copy,
    .fold = gcoll_cuda_fold,
    .divide = gcoll_cuda_divide,
    .test = gcoll_cuda_test,
    .share = gcoll_cuda_share,
    .arrived = gcoll_cuda_arrived,
    .drain = gcoll_cuda_drain,
};
