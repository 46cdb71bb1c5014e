/*
 * cuda/internal.h - structures and functions that the files of the accelerator "cuda" share.
 *
 * A device is set up when it is first named: asking the runtime to make a device current gives this process
 * some hundred megabytes of that device's memory. Each has a stream of gcoll's own (a lane) for each
 * direction of copies and for what happens within it; none of them waits for the default stream, nor it for
 * them. Every function that makes a device current makes the caller's current again.
 */
#ifndef GCOLL_CUDA_INTERNAL_H
#define GCOLL_CUDA_INTERNAL_H

#include <cuda_runtime_api.h>

#include "cuda/accelerator.h"

typedef enum gcoll_cuda_lane {
    GCOLL_CUDA_INTO_HOST = 0,
    GCOLL_CUDA_OUT_OF_HOST = 1,
    GCOLL_CUDA_WITHIN = 2, /* folds, divisions, copies within the device */
    GCOLL_CUDA_ACROSS = 3, /* copies from here to another device */
    GCOLL_CUDA_LANES = 4
} gcoll_cuda_lane;

/* Tickets and gates go back to where they came from, and their events with them. */
struct gcoll_ticket {
    cudaEvent_t begun, ended; /* begun: with times only */
    uint32_t device;
    gcoll_ticket *next, **back; /* in spare_tickets, or in accelerator.tickets */
};

struct gcoll_gate {
    cudaEvent_t event;
    uint32_t device;
    gcoll_gate *next;
};

typedef struct gcoll_cuda_device {
    bool is_set_up;
    bool needs_flush; /* before kernels see the bytes that a network adapter has written */
    uint32_t processors;
    cudaStream_t lanes[GCOLL_CUDA_LANES];
    cudaEvent_t joined; /* what another device's lane waits for; each record is waited for at once */
    gcoll_ticket *spare_tickets;
    gcoll_gate *spare_gates;
    bool *reads; /* by device: kernels of this one can read its memory */
} gcoll_cuda_device;

typedef struct gcoll_cuda_block gcoll_cuda_block; /* pinned.c */
typedef struct gcoll_cuda_pool {
    gcoll_cuda_block *idle, *used; /* idle: the one put back last is first */
    uint64_t idle_bytes, used_bytes, most_used_bytes;
} gcoll_cuda_pool;

typedef struct gcoll_cuda_nccl gcoll_cuda_nccl; /* nccl.c */

struct gcoll_accelerator {
    bool times;
    uint32_t device_count;
    uint32_t home; /* the device that was named last: host memory is pinned while it is current */
    bool has_home;
    gcoll_cuda_device *devices;
    gcoll_ticket *tickets; /* begun, and not found done yet */
    gcoll_cuda_pool pool;
    gcoll_cuda_nccl *nccl; /* NULL before it is asked for */
};

/* Sets the error text: "cuda: CALL: the runtime's words (name)", and takes the error from where the caller's
 * cudaGetLastError would find it. */
gcoll_status gcoll_cuda_failed(cudaError_t error, const char *call, ...) GCOLL_PRINTF(2, 3);

/* Makes `device` current and sets it up. *before: for gcoll_cuda_leave. On failure nothing has changed. */
gcoll_status gcoll_cuda_enter(gcoll_accelerator *accelerator, uint32_t device, int *before);
void gcoll_cuda_leave(const gcoll_accelerator *accelerator, uint32_t device, int before);
void gcoll_cuda_close_device(gcoll_accelerator *accelerator, uint32_t device);

/* Between gcoll_cuda_begin and gcoll_cuda_end, which come in pairs if the first succeeds, `device` is
 * current, and `lane` of it waits for the gates. `status`: how what was begun in between was taken. */
gcoll_status gcoll_cuda_begin(gcoll_accelerator *accelerator, uint32_t device, gcoll_cuda_lane lane,
                              gcoll_gate *const *gates, uint32_t gate_count, gcoll_ticket **ticket,
                              int *before);
gcoll_status gcoll_cuda_end(gcoll_accelerator *accelerator, gcoll_cuda_lane lane, gcoll_status status,
                            gcoll_ticket **ticket, int before);
gcoll_status gcoll_cuda_wait_for_gates(cudaStream_t stream, gcoll_gate *const *gates, uint32_t gate_count);

/* The table's functions, by file. */
gcoll_status gcoll_cuda_make_gate(gcoll_accelerator *accelerator, uint32_t device, void *stream,
                                  gcoll_gate **gate);
void gcoll_cuda_put_gate(gcoll_accelerator *accelerator, gcoll_gate *gate);
gcoll_status gcoll_cuda_test_gate(gcoll_accelerator *accelerator, gcoll_gate *gate, bool *done);
gcoll_status gcoll_cuda_test(gcoll_accelerator *accelerator, gcoll_ticket *ticket, bool *done,
                             gcoll_ticket_time *time);
gcoll_status gcoll_cuda_drain(gcoll_accelerator *accelerator, int64_t timeout_ms);

gcoll_status gcoll_cuda_copy(gcoll_accelerator *accelerator, void *dst, uint32_t dst_memory, const void *src,
                             uint32_t src_memory, uint64_t bytes, gcoll_gate *const *gates,
                             uint32_t gate_count, gcoll_ticket **ticket);
gcoll_status gcoll_cuda_fold(gcoll_accelerator *accelerator, const gcoll_fold *fold, gcoll_gate *const *gates,
                             uint32_t gate_count, gcoll_ticket **ticket);
gcoll_status gcoll_cuda_divide(gcoll_accelerator *accelerator, uint32_t device, void *data, uint64_t count,
                               gcoll_type type, uint32_t divisor, gcoll_gate *const *gates,
                               uint32_t gate_count, gcoll_ticket **ticket);

gcoll_status gcoll_cuda_locate(gcoll_accelerator *accelerator, const void *address, gcoll_place *place);
gcoll_status gcoll_cuda_reaches(gcoll_accelerator *accelerator, gcoll_reach reach, uint32_t from,
                                uint32_t to);

gcoll_status gcoll_cuda_share(gcoll_accelerator *accelerator, const void *address, uint64_t bytes,
                              gcoll_shared *shared);
gcoll_status gcoll_cuda_arrived(gcoll_accelerator *accelerator, uint32_t device);

gcoll_status gcoll_cuda_pin(gcoll_accelerator *accelerator, uint64_t bytes, void **memory);
void gcoll_cuda_unpin(gcoll_accelerator *accelerator, void *memory, uint64_t bytes);
void gcoll_cuda_close_pool(gcoll_accelerator *accelerator);

/* libnccl, opened when it is first asked for. */
gcoll_status gcoll_cuda_nccl_load(gcoll_accelerator *accelerator);
/* Whether it can do that fold: then what it needs for it is there. */
gcoll_status gcoll_cuda_nccl_prepare(gcoll_accelerator *accelerator, const gcoll_fold *fold);
/* fold->device is current. */
gcoll_status gcoll_cuda_nccl_fold(gcoll_accelerator *accelerator, const gcoll_fold *fold,
                                  gcoll_gate *const *gates, uint32_t gate_count);
void gcoll_cuda_close_nccl(gcoll_accelerator *accelerator);

#endif
