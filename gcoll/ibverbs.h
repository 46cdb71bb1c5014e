/*
 * gcoll/ibverbs.h - options of the transport "ibverbs": InfiniBand and RoCE devices, through libibverbs.
 *
 * Zero means default in every field except gid_index. A field with its default takes the value of its
 * environment variable, which its comment names first, if that is set. The same options can stand in the text
 * options.transport of a context, "ibverbs:device=mlx5_0:gid=3", which counts before both (docs/ibverbs.md).
 */
#ifndef GCOLL_IBVERBS_H
#define GCOLL_IBVERBS_H

#include <stddef.h>
#include <stdint.h>

#include "gcoll/export.h"

GCOLL_BEGIN_DECLS

/* Whether the RDMA device reads and writes the memory of GPUs by itself. */
typedef enum gcoll_ib_device_memory {
    GCOLL_IB_DEVICE_MEMORY_NEVER = 0,    /* no: buffers are staged through host memory */
    GCOLL_IB_DEVICE_MEMORY_POSSIBLE = 1, /* if buffers can be registered; else staged, and the log says why */
    GCOLL_IB_DEVICE_MEMORY_REQUIRED = 2  /* yes: GCOLL_ERR_UNSUPPORTED if buffers cannot be registered */
} gcoll_ib_device_memory;

/* Options of the transport ibverbs. */
typedef struct gcoll_ibverbs_options {
    size_t struct_size; /* set by gcoll_ibverbs_options_init */
    /* GCOLL_IB_DEVICE: name ("mlx5_0"). NULL: the first device with an active port that has an address of
     * this rank (context option `interface`), else the first device with an active port. */
    const char *device;
    uint32_t port;          /* GCOLL_IB_PORT: from 1; 0: the first active port */
    int32_t gid_index;      /* GCOLL_IB_GID_INDEX: in the port's table; -1: by type (RoCE v2) and address */
    uint32_t mtu;           /* GCOLL_IB_MTU: 256, 512, 1024, 2048 or 4096 bytes; 0: the port's MTU */
    uint32_t pkey;          /* GCOLL_IB_PKEY: a partition key of the port; 0: the first in its table */
    uint32_t service_level; /* GCOLL_IB_SL: 0 to 15 */
    uint32_t traffic_class; /* GCOLL_IB_TC: 0 to 255; its upper six bits are the DSCP of RoCE v2 */
    /* GCOLL_IB_TIMEOUT: a packet without acknowledgement is sent again after 4.096 us * 2^timeout. 1 to 31;
     * 0: 14, which is 67 ms. */
    uint32_t timeout;
    uint32_t retry_count; /* GCOLL_IB_RETRY: how often it is sent again, 1 to 7; 0: 6. With 7 some devices
                           * never give up, and only the context's timeout notices a dead host */
    uint32_t rnr_retry; /* GCOLL_IB_RNR_RETRY: 1 to 7 (7: for ever); 0: 6. Not needed, as sends have credit */
    uint64_t cache_bytes; /* GCOLL_IB_CACHE: bytes that stay registered after an operation, for the next one;
                           * 0: none. Only for programs that never unmap memory which an operation has used:
                           * if it is mapped again at the same address, the device uses the old pages.
                           * Persistent operations (gcoll_*_create) need no cache: their buffers stay
                           * registered until they are destroyed */
    uint32_t device_memory; /* GCOLL_IB_DEVICE_MEMORY: a gcoll_ib_device_memory, for collectives that reduce
                             * nothing (docs/ibverbs.md). NEVER on all ranks or on none; POSSIBLE and REQUIRED
                             * may be mixed */
} gcoll_ibverbs_options;

/* Fills `options` with defaults. Always call it first: later versions add fields. */
GCOLL_API void gcoll_ibverbs_options_init(gcoll_ibverbs_options *options);

GCOLL_END_DECLS

#endif
