/*
 * gcoll/region.h - one-sided access: peers write (put) and read (get) a rank's memory.
 *
 * A rank makes a region of some of its memory, exports a key, and sends the key to its peers, for example by
 * an allgather. With the key a peer puts bytes into the region and gets bytes out of it. The owner makes no
 * matching call.
 *
 *     gcoll_region *region;
 *     gcoll_region_key key, keys[P];
 *     gcoll_region_create(context, memory, bytes, &region);
 *     gcoll_region_export(region, &key);
 *     gcoll_allgather(context, &key, keys, sizeof key, GCOLL_UINT8, NULL);
 *     gcoll_put(context, &keys[peer], offset, data, bytes, GCOLL_PUT_NOTIFY);
 *     gcoll_region_wait(region, 1);      here are the bytes that a peer has put
 *     gcoll_barrier(context, NULL);      no peer uses the region any more
 *     gcoll_region_destroy(region);
 *
 * The calls work over every transport. An RDMA device moves the bytes without the owner's processor. Over the
 * other transports the owner moves them, while its thread is inside a gcoll call on the context, or at any
 * time if the context has a progress thread. So an owner without that thread must call gcoll often. With it,
 * the thread is at work as long as the rank has regions, and each call waits until the thread steps back.
 *
 * Order. Accesses are independent of each other, also those of one rank to one region. A notification arrives
 * after the bytes of its own put. If several ranks put to the same place at once, the bytes there are
 * undefined.
 *
 * Parameters that a function does not describe itself:
 *
 *   region    the region
 *   *region   receives the region
 *   key       of the region, as its owner has exported it
 */
#ifndef GCOLL_REGION_H
#define GCOLL_REGION_H

#include "gcoll/context.h"

GCOLL_BEGIN_DECLS

typedef struct gcoll_region gcoll_region;

/* Identifies a region to a peer. Pass it on unchanged, and only to ranks of the same context. */
#define GCOLL_REGION_KEY_BYTES 64
typedef struct gcoll_region_key {
    uint8_t bytes[GCOLL_REGION_KEY_BYTES];
} gcoll_region_key;

/* Makes a region of `bytes` bytes (1 or more) at data. The memory must remain until the region is destroyed.
 * Not collective. */
GCOLL_API gcoll_status gcoll_region_create(gcoll_context *context, void *data, uint64_t bytes,
                                           gcoll_region **region);
/* Gives the key of a region, by which every rank of the context that has it may access the region. The first
 * time over an RDMA device, registers the memory, which may fail by NO_MEMORY or IO. */
GCOLL_API gcoll_status gcoll_region_export(gcoll_region *region, gcoll_region_key *key);
/* Gives a key that is of use to one rank alone: an access by another rank with it breaks the context, by an
 * error that names that rank. As devices check no ranks, the owner moves the bytes, also over an RDMA device;
 * and they know nothing of the region unless gcoll_region_export was called, too. Keys are of use in their
 * context only: after a recovery, or in a group, regions are made anew. INVALID: there is no such rank. */
GCOLL_API gcoll_status gcoll_region_export_to(gcoll_region *region, uint32_t rank, gcoll_region_key *key);
/* Frees the region. Call it when no peer uses the region any more, for example after a barrier. Destroying a
 * region that is in use breaks the context. So does a later access of a peer: over an RDMA device by a
 * "remote access error" at that peer, else by an error of the owner that names the peer. NULL is allowed.
 * Does nothing while a thread waits for the region's notifications. Without a progress thread, it also does
 * nothing while a thread is inside a call on the region's context. */
GCOLL_API void gcoll_region_destroy(gcoll_region *region);

/* Flag of a put: notify the owner when the bytes have arrived. */
#define GCOLL_PUT_NOTIFY 1u

/* Writes `bytes` bytes to the region, from byte `offset` on. Returns when they have arrived; then data may be
 * reused. flags: 0 or GCOLL_PUT_NOTIFY. A put of 0 bytes may notify, too. The region may be this rank's own.
 * Errors: INVALID (a key of another context, a range beyond the region), and those that break a context. */
GCOLL_API gcoll_status gcoll_put(gcoll_context *context, const gcoll_region_key *key, uint64_t offset,
                                 const void *data, uint64_t bytes, uint32_t flags);
/* Reads `bytes` bytes from the region of the key, from byte `offset` on, to data. Returns when they are
 * there. Errors as of gcoll_put. */
GCOLL_API gcoll_status gcoll_get(gcoll_context *context, const gcoll_region_key *key, uint64_t offset,
                                 void *data, uint64_t bytes);

/* Begin a put or a get and give its request. key, offset, bytes, flags: as of gcoll_put. End the request by
 * gcoll_request_wait, gcoll_request_test or gcoll_request_wait_for (gcoll/context.h). data must remain until
 * then. */
GCOLL_API gcoll_status gcoll_put_start(gcoll_context *context, const gcoll_region_key *key, uint64_t offset,
                                       const void *data, uint64_t bytes, uint32_t flags,
                                       gcoll_request **request);
GCOLL_API gcoll_status gcoll_get_start(gcoll_context *context, const gcoll_region_key *key, uint64_t offset,
                                       void *data, uint64_t bytes, gcoll_request **request);

/* Gives the number of notifications, *count, since the region was made. Makes progress without waiting. */
GCOLL_API gcoll_status gcoll_region_notified(gcoll_region *region, uint64_t *count);
/* Waits until there have been at least `count` notifications of a region. Returns GCOLL_ERR_TIMEOUT, with
 * both numbers in the text, after the context's timeout; this breaks nothing. */
GCOLL_API gcoll_status gcoll_region_wait(gcoll_region *region, uint64_t count);

GCOLL_END_DECLS

#endif
