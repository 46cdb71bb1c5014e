/*
 * transport/ibverbs/registration.h - memory that the device may use.
 */
#ifndef GCOLL_IB_REGISTRATION_H
#define GCOLL_IB_REGISTRATION_H

#include "transport/ibverbs/verbs.h"
#include "transport/transport.h"

typedef struct gcoll_ib gcoll_ib;
typedef struct gcoll_ib_region gcoll_ib_region;

/* What a registration allows; each allows what those before it do. */
typedef enum gcoll_ib_use {
    GCOLL_IB_OWN,       /* reading by this rank's device */
    GCOLL_IB_GRANTABLE, /* writing, also by a peer that is granted it */
    GCOLL_IB_SHARED     /* reading by peers. Is not kept when nobody uses it. */
} gcoll_ib_use;

struct gcoll_ib_region {
    const uint8_t *begin;
    uint64_t bytes;
    gcoll_ib_use use;
    struct ibv_mr *mr;
    uint32_t users;
    bool is_foreign;                  /* memory of a device. Is not kept when nobody uses it */
    gcoll_ib_region *next, *previous; /* from latest to oldest used */
};

typedef struct gcoll_ib_memory {
    gcoll_ib_region *latest, *oldest;
    uint64_t cache_bytes; /* most that stay without a user */
    uint64_t idle_bytes;
    uint64_t registered_bytes;
} gcoll_ib_memory;

/* A registration that covers the range; NULL with the last error set. Counted: to be released. */
gcoll_ib_region *gcoll_ib_register(gcoll_ib *ib, const void *data, uint64_t bytes, gcoll_ib_use use);
/* The same for longer than a message. Exposed memory gets a registration of its own, which nothing but
 * messages uses too: when it is concealed, the key that peers have is good for nothing. */
gcoll_ib_region *gcoll_ib_register_for_long(gcoll_ib *ib, const void *data, uint64_t bytes, gcoll_ib_use use);
/* Memory of a device; it is found by the other two then. */
gcoll_ib_region *gcoll_ib_register_device(gcoll_ib *ib, const gcoll_foreign_memory *memory, gcoll_ib_use use);
void gcoll_ib_unregister(gcoll_ib *ib, gcoll_ib_region *region); /* NULL is fine */
void gcoll_ib_memory_clear(gcoll_ib *ib);

#endif
