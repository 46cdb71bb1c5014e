/*
 * gcoll/region.h - one-sided access: memory of a rank that its peers write and read by themselves.
 *
 * A rank makes a region of some of its memory, exports a key, and gives the key to its peers by whatever
 * means it likes (an allgather of keys, for one). With it a peer puts bytes into the region and gets bytes
 * out of it, while the owner calls nothing for it.
 *
 *     gcoll_region *region;
 *     gcoll_region_key key, keys[P];
 *     gcoll_region_create(context, memory, bytes, &region);
 *     gcoll_region_export(region, &key);
 *     gcoll_allgather(context, &key, keys, sizeof key, GCOLL_UINT8, NULL);
 *     gcoll_put(context, &keys[peer], offset, data, bytes, GCOLL_PUT_NOTIFY);
 *     gcoll_region_wait(region, 1);      and here is what a peer has put
 *     gcoll_barrier(context, NULL);      nobody uses it any more
 *     gcoll_region_destroy(region);
 *
 * The same calls work over every transport. What moves the bytes differs: where the hardware can, it does so
 * by itself; else the owner does, whenever its thread is inside a gcoll call on the context, or all the
 * time if the context has a progress thread. So owners without one must not stay away for long.
 * (That thread is then at work whenever the rank has regions, and each call waits for it to step back.)
 *
 * Order: accesses are independent of one another, also those of one rank to one region. A notification comes
 * after the bytes of its own put. What several ranks put to the same place at once is undefined, byte by
 * byte.
 */
#ifndef GCOLL_REGION_H
#define GCOLL_REGION_H

#include "gcoll/context.h"

GCOLL_BEGIN_DECLS

typedef struct gcoll_region gcoll_region;

/* To be passed on as it is, to ranks of the same context only. */
#define GCOLL_REGION_KEY_BYTES 64
typedef struct gcoll_region_key {
    uint8_t bytes[GCOLL_REGION_KEY_BYTES];
} gcoll_region_key;

/* data: `bytes` bytes, 1 and more, that stay until the region is destroyed. Not collective. */
GCOLL_API gcoll_status gcoll_region_create(gcoll_context *context, void *data, uint64_t bytes,
                                           gcoll_region **region);
GCOLL_API gcoll_status gcoll_region_export(const gcoll_region *region, gcoll_region_key *key);
/* When no peer will use it any more; a barrier after the last access sees to that. One that is being used
 * breaks the context, and so does the access of a peer that comes later: by a device with a "remote access
 * error" at who accesses, else with an error of the owner's that names it. NULL is fine. */
GCOLL_API void gcoll_region_destroy(gcoll_region *region);

/* Notifies the owner when the bytes are there. */
#define GCOLL_PUT_NOTIFY 1u

/* Writes `bytes` bytes at byte `offset` of the region. Returns when they are there, and data may be
 * reused. flags: 0 or GCOLL_PUT_NOTIFY; a put of 0 bytes may notify, too. The region may be this rank's own.
 * Errors: INVALID (a key of another context, a range beyond the region), and what breaks contexts. */
GCOLL_API gcoll_status gcoll_put(gcoll_context *context, const gcoll_region_key *key, uint64_t offset,
                                 const void *data, uint64_t bytes, uint32_t flags);
/* Reads `bytes` bytes from byte `offset` of the region. */
GCOLL_API gcoll_status gcoll_get(gcoll_context *context, const gcoll_region_key *key, uint64_t offset,
                                 void *data, uint64_t bytes);

/* The same without waiting; ended by gcoll_request_wait, gcoll_request_test or gcoll_wait_any
 * (gcoll/context.h). */
GCOLL_API gcoll_status gcoll_put_start(gcoll_context *context, const gcoll_region_key *key, uint64_t offset,
                                       const void *data, uint64_t bytes, uint32_t flags,
                                       gcoll_request **request);
GCOLL_API gcoll_status gcoll_get_start(gcoll_context *context, const gcoll_region_key *key, uint64_t offset,
                                       void *data, uint64_t bytes, gcoll_request **request);

/* How many notifications the region has had since it was made. Makes progress, without waiting. */
GCOLL_API gcoll_status gcoll_region_notified(gcoll_region *region, uint64_t *count);
/* Waits until there have been at least `count`. GCOLL_ERR_TIMEOUT, with the numbers, after the
 * context's timeout: that alone breaks nothing. */
GCOLL_API gcoll_status gcoll_region_wait(gcoll_region *region, uint64_t count);

GCOLL_END_DECLS

#endif
