/*
 * gcoll/memory.h - buffers in the memory of CUDA devices.
 *
 * Every collective takes them, by every algorithm: ranges of the buffers are copied to pinned host memory as
 * messages need them, and results back as they come (docs/cuda.md). Ranks may differ: one has its buffers on
 * a device, another in host memory.
 *
 * A context does so if options.accelerator of gcoll_context_options says so. Each call then looks up where
 * its buffers lie, and compares that with what the caller says of it in a gcoll_memory, if he does.
 *
 * Order with the caller's streams: what a stream had been given before the call is done before gcoll reads or
 * writes a buffer on a device. Host memory, pinned too, is read and written from the call on: who fills it by
 * a stream waits for that first. When a call (or gcoll_request_wait, ...) has returned, outputs are complete,
 * so whatever is queued on any stream after it finds them; but where nothing is to be done, as by one rank in
 * place, it waits for no stream. No device or context is ever synchronised as a whole.
 */
#ifndef GCOLL_MEMORY_H
#define GCOLL_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "gcoll/export.h"
#include "gcoll/status.h"

GCOLL_BEGIN_DECLS

typedef enum gcoll_memory_kind {
    GCOLL_MEMORY_FIND = 0,    /* looked up for each buffer */
    GCOLL_MEMORY_HOST = 1,    /* malloc, mmap, ... */
    GCOLL_MEMORY_PINNED = 2,  /* host memory known to the driver (cudaHostAlloc, cudaHostRegister) */
    GCOLL_MEMORY_MANAGED = 3, /* cudaMallocManaged: treated as its device's */
    GCOLL_MEMORY_DEVICE = 4,  /* cudaMalloc, ... */
    GCOLL_MEMORY_KIND_COUNT = 5
} gcoll_memory_kind;

#define GCOLL_ANY_DEVICE (-1)

/* How several buffers of one process are reduced before, and spread after, the messages. */
typedef enum gcoll_memory_local {
    GCOLL_MEMORY_LOCAL_AUTO = 0,   /* by cost, from among the first three below */
    GCOLL_MEMORY_LOCAL_HOST = 1,   /* every buffer is copied to the host and reduced there */
    GCOLL_MEMORY_LOCAL_DEVICE = 2, /* each device reduces its own; the host what they have come to */
    GCOLL_MEMORY_LOCAL_PEER = 3,   /* the first buffer's device reads the others' memory. UNSUPPORTED if it
                                    * cannot */
    GCOLL_MEMORY_LOCAL_NCCL = 4,   /* as PEER, by libnccl. UNSUPPORTED if it is not found, or two buffers are
                                    * on one device */
    GCOLL_MEMORY_LOCAL_COUNT = 5
} gcoll_memory_local;

/* What a caller says of the buffers of a call, in the call's options. gcoll_memory_init fills in the
 * defaults: call it first. Copied. */
typedef struct gcoll_memory {
    size_t struct_size;
    gcoll_memory_kind kind; /* of all buffers. What turns out not to be true is GCOLL_ERR_INVALID */
    int device;             /* of MANAGED and DEVICE memory: its number, or GCOLL_ANY_DEVICE (default) */
    void *const *streams;   /* cudaStream_t, each as a void *. NULL: each device's default stream; or one a
                             * buffer: whoever writes input k or uses output k. NULL among them: the default
                             * one, and all that is allowed for a buffer in host memory */
    gcoll_memory_local local;
} gcoll_memory;

GCOLL_API void gcoll_memory_init(gcoll_memory *memory);

/* "host", "pinned", ...; "?" for a number that is none. */
GCOLL_API const char *gcoll_memory_kind_name(gcoll_memory_kind kind);
/* "auto", "host", "device", "peer", "nccl". */
GCOLL_API const char *gcoll_memory_local_name(gcoll_memory_local local);
/* The reverse. GCOLL_ERR_INVALID lists the allowed names. */
GCOLL_API gcoll_status gcoll_memory_local_parse(const char *name, gcoll_memory_local *local);

/* Times of the collectives on buffers in device memory that this context has run, since it was created or
 * since the last call of this function. Nanoseconds, as the thread saw it that drove the context. */
typedef struct gcoll_device_times {
    size_t struct_size;  /* set by the caller */
    uint64_t operations; /* that finished */
    int64_t elapsed_ns;  /* from start to finish of each, added up */
    int64_t copy_ns;     /* while at least one copy between host and device was under way */
    int64_t reduce_ns;   /* while at least one reduction, division or copy within devices was */
    int64_t network_ns;  /* while at least one message was */
    int64_t overlap_ns;  /* while a message was, and at least one of the device's was, too */
    /* By the devices' own events, added up; 0 where options.accelerator_times is not set. */
    int64_t copy_event_ns, reduce_event_ns;
    uint64_t copied_in_bytes, copied_out_bytes; /* from device to host, from host to device */
    uint64_t pinned_bytes;                      /* most host memory pinned for an operation */
} gcoll_device_times;

struct gcoll_context;
/* Errors: INVALID (an argument is NULL, struct_size is none of this library's). */
GCOLL_API gcoll_status gcoll_context_device_times(struct gcoll_context *context, gcoll_device_times *times);

GCOLL_END_DECLS

#endif
