/*
 * transport/message.h - messages, and the memory that peers and network adapters may access, as their owners
 * hand them to a transport.
 */
#ifndef GCOLL_TRANSPORT_MESSAGE_H
#define GCOLL_TRANSPORT_MESSAGE_H

#include "gcoll/base/base.h"
#include "gcoll/base/map.h"

#define GCOLL_FINGERPRINT_BYTES 32
#define GCOLL_GRANULE_MAX                                                                                    \
    16 /* largest element of a receive with consume: a part of one is carried between pieces */

typedef struct gcoll_message gcoll_message;

/* Consumes `bytes` received bytes, which start at byte `offset` of the message. bytes is a multiple of the
 * granule. Each byte comes once; in order, but where several connections bring them. */
typedef void (*gcoll_consume_fn)(void *arg, uint64_t offset, const void *data, uint64_t bytes);

/* A posted send or receive. The caller owns it and its data; from post to `done` (or close) neither may
 * be moved or changed. `done` is called exactly once unless the peer fails or the endpoint closes, after
 * which the message is the caller's again. It may be called from within post or progress; it may post. */
struct gcoll_message {
    uint64_t stream;
    uint32_t index;
    uint32_t granule;         /* receive with consume: the element size, 1..GCOLL_GRANULE_MAX */
    uint64_t bytes;           /* 0 is a message too. Exact, unless any_size */
    void *data;               /* send: source. receive: destination, unless consume is set */
    gcoll_consume_fn consume; /* receive: NULL, or is given the bytes while they are hot */
    void *consume_arg;
    const uint8_t *open; /* send: NULL, or GCOLL_FINGERPRINT_BYTES that travel ahead of the data */
    bool by_device;      /* the data may lie in device memory: the network adapter moves them, the host never
                          * touches them. The same on both sides */
    bool announced;  /* send: the peer may peek for it, so the sender tells of it even while it has to wait */
    bool settled;    /* send: the data were there before the call, and may lie in other processors' caches */
    bool background; /* receive: nobody waits for it, so progress looks for it less often */
    bool any_size; /* receive to memory: the message may have another size, which `bytes` says from `done` on.
                    * If that is larger than `bytes` was, the message is dropped and data stays as it is */
    void (*done)(gcoll_message *message);
    void *owner; /* the caller's */

    /* The transport's own, between post and done. */
    gcoll_message *next;  /* in a queue */
    gcoll_map_item item;  /* in a table */
    gcoll_message *match; /* of a receive: the send that it is to take, where both are at hand */
    uint64_t moved;
    uint32_t flags;
    uint32_t peer;                 /* the other rank, where messages of several share a queue */
    void *region;                  /* of registered memory */
    struct gcoll_channel *channel; /* of an endpoint that shares the connections of another; NULL: of none */

    bool opened; /* receive: set before done: the peer's send had `open`, and `opened` was called with it */
};

/* Memory of an accelerator, described so that the driver of a network adapter can register it. */
typedef struct gcoll_foreign_memory {
    void *data; /* as messages name it */
    uint64_t bytes;
    int dmabuf;      /* a file descriptor, which stays the caller's; -1: none */
    uint64_t offset; /* of data in it */
    void *pages;     /* without one: the address by which the kernel may know the memory */
} gcoll_foreign_memory;

/* Memory of this rank that peers may read and write by one-sided access. A peer needs address and key. */
typedef struct gcoll_exposed {
    void *handle; /* the transport's */
    uint64_t address;
    uint32_t key;
} gcoll_exposed;

/* A one-sided access: a put to, or a get from, memory that a peer has exposed. The caller owns it, as it owns
 * a message. */
typedef struct gcoll_remote_access gcoll_remote_access;
struct gcoll_remote_access {
    gcoll_message message; /* the first member: data, bytes (1 and more), done, owner are of this side */
    bool gets;             /* else it puts */
    uint64_t address;      /* of the first byte there */
    uint32_t key;
};

#endif
