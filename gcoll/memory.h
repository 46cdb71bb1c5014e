/*
 * gcoll/memory.h - buffers in memory that ranks of a host share, and in the memory of CUDA devices.
 *
 * Memory to share comes from gcoll_memory_alloc. Every collective takes it, or any part of it, and needs no
 * other change: large messages to ranks of the same host are then read by the receiver from the sender's
 * memory, and copied once or reduced straight from there, where they would be copied twice
 * (docs/shared-memory.md).
 *
 * Memory of devices. Every collective and every algorithm takes such buffers if options.accelerator of the
 * context allows it. gcoll copies ranges of the buffers to pinned host memory when messages need them, and
 * results back when they arrive (docs/cuda.md). Ranks may differ: one may have its buffers on a device,
 * another in host memory.
 *
 * Each call finds out where its buffers lie. A gcoll_memory in the call's options may state it; gcoll then
 * checks that the statement is true.
 *
 * Order with the caller's streams. Work that was queued on a stream before the call is done before gcoll
 * reads or writes a buffer on a device. Host memory, pinned memory included, is read and written from the
 * call on: if a stream fills it, wait for the stream first. When the call (or gcoll_request_wait, ...) has
 * returned, outputs are complete, so work that is queued on any stream afterwards finds them. A call that has
 * nothing to do, such as one by a single rank in place, waits for no stream. gcoll never synchronises a whole
 * device or CUDA context.
 */
#ifndef GCOLL_MEMORY_H
#define GCOLL_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "gcoll/export.h"
#include "gcoll/status.h"

GCOLL_BEGIN_DECLS

/* Allocates memory that ranks of this host can map, whoever they talk to and by whatever context. Its content
 * is zero, its address a multiple of the page. Ranks need not agree: one may use it and another not.
 *
 * All of it is taken at once, from the node of the memory near the calling thread, or as set_mempolicy or
 * numactl say: so call it on a thread that runs where the memory is to be. It takes whole pages and one
 * descriptor, which both count until it is freed. So it is for large buffers, made once and used often: peers
 * map a block when they first see a message of it, and that message is still copied.
 *
 * It has no name, and is gone when the process and its peers are gone. A forked child does not have it: what
 * the child reads or writes there is an access to no memory. Ranks of the host, which belong to the same
 * user, can read it from then on that a message came from it; where the kernel can (5.1), they cannot write
 * it.
 *
 * Any thread may call it, also without a context. Blocks for as long as the system needs to clear the memory.
 * GCOLL_ERR_INVALID: bytes is 0 or too large, memory is NULL. GCOLL_ERR_NO_MEMORY: there are no pages, or no
 * descriptors, or the limit of file sizes (ulimit -f) is lower. GCOLL_ERR_UNSUPPORTED: a sandbox forbids it.
 */
GCOLL_API gcoll_status gcoll_memory_alloc(size_t bytes, void **memory);
/* Frees memory of gcoll_memory_alloc. NULL: does nothing. No operation may use it any more: one that does
 * fails or has wrong results on its ranks. Peers unmap it when their context and one of this process next
 * make progress, or at the end of either; until then the system keeps its pages. GCOLL_ERR_INVALID:
 * gcoll_memory_alloc did not return it, or in the process that this one was forked from, or it is freed
 * already. */
GCOLL_API gcoll_status gcoll_memory_free(void *memory);

/* Where a buffer lies. */
typedef enum gcoll_memory_kind {
    GCOLL_MEMORY_FIND = 0,    /* gcoll finds out, for each buffer */
    GCOLL_MEMORY_HOST = 1,    /* malloc, mmap, ... */
    GCOLL_MEMORY_PINNED = 2,  /* host memory that the driver knows (cudaHostAlloc, cudaHostRegister) */
    GCOLL_MEMORY_MANAGED = 3, /* cudaMallocManaged: treated as memory of its device */
    GCOLL_MEMORY_DEVICE = 4,  /* cudaMalloc, ... */
    GCOLL_MEMORY_KIND_COUNT = 5
} gcoll_memory_kind;

#define GCOLL_ANY_DEVICE (-1)

/* Who reduces several buffers of one process before the messages, and copies the result to them after. A
 * reduce_scatter allows AUTO and HOST only, because no output has room for the sum of its inputs; the others
 * are UNSUPPORTED. */
typedef enum gcoll_memory_local {
    GCOLL_MEMORY_LOCAL_AUTO = 0,   /* the cheapest of HOST, DEVICE and PEER */
    GCOLL_MEMORY_LOCAL_HOST = 1,   /* the host: every buffer is copied there and reduced */
    GCOLL_MEMORY_LOCAL_DEVICE = 2, /* each device reduces its own buffers; the host reduces their results */
    GCOLL_MEMORY_LOCAL_PEER = 3,   /* the first buffer's device, which reads the memory of the others.
                                    * UNSUPPORTED if it cannot */
    GCOLL_MEMORY_LOCAL_NCCL = 4,   /* as PEER, by libnccl. UNSUPPORTED if it is not found, or if two buffers
                                    * are on one device */
    GCOLL_MEMORY_LOCAL_COUNT = 5
} gcoll_memory_local;

/* What the caller states about the buffers of a call, in the call's options. Copied. Call gcoll_memory_init
 * first: it fills in defaults. */
typedef struct gcoll_memory {
    size_t struct_size;
    gcoll_memory_kind kind; /* of all buffers; GCOLL_ERR_INVALID if it is not true */
    int device;             /* of MANAGED and DEVICE memory: device number, or GCOLL_ANY_DEVICE (default) */
    void *const *streams;   /* NULL: each device's default stream. Or one cudaStream_t, as a void *, for each
                             * buffer k: the stream that writes input k or uses output k. An entry may be
                             * NULL, for the default stream, and must be for a buffer in host memory */
    gcoll_memory_local local;
} gcoll_memory;

/* Fills `memory` with defaults. Always call it first: later versions add fields. */
GCOLL_API void gcoll_memory_init(gcoll_memory *memory);

/* Returns the name of a kind: "host", "pinned", ...; "?" for any other number. */
GCOLL_API const char *gcoll_memory_kind_name(gcoll_memory_kind kind);
/* Returns the name of a value of `local`: "auto", "host", "device", "peer", "nccl"; "?" for any other number.
 */
GCOLL_API const char *gcoll_memory_local_name(gcoll_memory_local local);
/* Finds a value by its name, which is written to *local. GCOLL_ERR_INVALID: there is none; the text lists the
 * allowed names. */
GCOLL_API gcoll_status gcoll_memory_local_parse(const char *name, gcoll_memory_local *local);

/* Times of the collectives on buffers in device memory that a context has run, since its creation or since
 * the last call of gcoll_context_device_times. In ns, as seen by the thread that drove the context. */
typedef struct gcoll_device_times {
    size_t struct_size;  /* sizeof(gcoll_device_times), set by the caller */
    uint64_t operations; /* collectives that finished */
    int64_t elapsed_ns;  /* sum over them of the time from start to finish */
    int64_t copy_ns;     /* time with at least one copy between host and device under way */
    int64_t reduce_ns;   /* the same of reductions, divisions and copies within devices */
    int64_t network_ns;  /* the same of messages */
    int64_t overlap_ns;  /* time with a message and a device step under way at once */
    /* Sums of the devices' own events; 0 without options.accelerator_times. */
    int64_t copy_event_ns, reduce_event_ns;
    uint64_t copied_in_bytes, copied_out_bytes; /* from devices to host, from host to devices */
    uint64_t pinned_bytes;                      /* most host memory that was pinned for an operation */
} gcoll_device_times;

struct gcoll_context;
/* Gives the times of a context, and starts counting again. GCOLL_ERR_INVALID: an argument is NULL, or
 * struct_size is not one of this library. */
GCOLL_API gcoll_status gcoll_context_device_times(struct gcoll_context *context, gcoll_device_times *times);

GCOLL_END_DECLS

#endif
