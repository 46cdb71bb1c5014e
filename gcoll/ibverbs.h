/*
 * gcoll/ibverbs.h - options of the transport "ibverbs": InfiniBand and RoCE devices by way of libibverbs.
 *
 * Zero means default everywhere but in gid_index. A default is first looked for in the environment, where
 * each field has a variable of its own.
 */
#ifndef GCOLL_IBVERBS_H
#define GCOLL_IBVERBS_H

#include <stddef.h>
#include <stdint.h>

#include "gcoll/export.h"

GCOLL_BEGIN_DECLS

typedef enum gcoll_ib_device_memory {
    GCOLL_IB_DEVICE_MEMORY_NEVER = 0,    /* staged through host memory */
    GCOLL_IB_DEVICE_MEMORY_POSSIBLE = 1, /* where buffers can be registered, else staged; the log says why */
    GCOLL_IB_DEVICE_MEMORY_REQUIRED = 2  /* a call whose buffers cannot be is GCOLL_ERR_UNSUPPORTED */
} gcoll_ib_device_memory;

typedef struct gcoll_ibverbs_options {
    size_t struct_size; /* set by gcoll_ibverbs_options_init */
    const char *device; /* GCOLL_IB_DEVICE: name ("mlx5_0"); NULL: the first one with an active port that has
                         * an address of this rank (context option `interface`), else the first active port */
    uint32_t port;      /* GCOLL_IB_PORT: 1 to the ports of the device; 0: the first that is active */
    int32_t gid_index;  /* GCOLL_IB_GID_INDEX: in the port's table; -1: found by type (RoCE v2) and address */
    uint32_t mtu;       /* GCOLL_IB_MTU: 256, 512, 1024, 2048 or 4096 bytes; 0: the port's */
    uint32_t pkey;      /* GCOLL_IB_PKEY: partition key, as the port has it; 0: the first in its table */
    uint32_t service_level; /* GCOLL_IB_SL: 0 to 15 */
    uint32_t traffic_class; /* GCOLL_IB_TC: 0 to 255; its upper six bits are the DSCP of RoCE v2 */
    uint32_t timeout; /* GCOLL_IB_TIMEOUT: an unacknowledged packet is sent again after 4.096 us * 2^timeout;
                       * 1 to 31; 0: 14, which is 67 ms */
    uint32_t retry_count; /* GCOLL_IB_RETRY: so often; 1 to 7; 0: 6. With 7 some devices never give up, and a
                           * dead host is noticed by nothing but the context's timeout. */
    uint32_t rnr_retry; /* GCOLL_IB_RNR_RETRY: 1 to 7 (7: for ever); 0: 6. Never needed: sends have credit. */
    uint64_t cache_bytes;   /* GCOLL_IB_CACHE: so much memory stays registered after the operation that needed
                             * it, for the next one; 0: none. Only for programs that do not unmap memory which
                             * an operation has used: if it is mapped again at the same address, the device
                             * would go on with the old pages. Persistent operations (gcoll_*_create) need no
                             * cache: their buffers stay registered until they are destroyed. */
    uint32_t device_memory; /* GCOLL_IB_DEVICE_MEMORY: whether the device reads and writes the memory of GPUs
                             * itself, in collectives that reduce nothing: a gcoll_ib_device_memory. The same
                             * on all ranks, but for which of the last two; docs/ibverbs.md */
} gcoll_ibverbs_options;

/* Fills in defaults. Always call it first: later versions add fields. */
GCOLL_API void gcoll_ibverbs_options_init(gcoll_ibverbs_options *options);

GCOLL_END_DECLS

#endif
