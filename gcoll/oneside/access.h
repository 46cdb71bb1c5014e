/* gcoll/oneside/access.h - regions and accesses to them, as region.c and access.c share them. */
#ifndef GCOLL_ONESIDE_ACCESS_H
#define GCOLL_ONESIDE_ACCESS_H

#include "gcoll/base/sha256.h"
#include "gcoll/oneside/oneside.h"

struct gcoll_region {
    gcoll_context *context;             /* NULL: the context was destroyed */
    uint64_t id;                        /* random: what the keys for all ranks have */
    uint8_t secret[GCOLL_SHA256_BYTES]; /* random: of it the keys for one rank are made */
    uint8_t *data;
    uint64_t bytes;
    uint64_t notified;
    uint32_t waiters; /* threads inside gcoll_region_wait */
    uint32_t uses;    /* accesses of peers by messages that are under way */
    bool is_exposed;
    gcoll_exposed exposed;
    gcoll_region *next;
    bool is_unwanted; /* destroyed in a forked child: freed with its context */
};

/* A put or a get, as its caller asks for it. */
typedef struct gcoll_access_wanted {
    bool is_put, notify;
    uint64_t region, offset, bytes;
    void *data;     /* a put only reads it */
    bool is_direct; /* the transport can access the region: address and key */
    uint64_t address;
    uint32_t key;
} gcoll_access_wanted;

/* Finds a region of this rank by the number that a key of it has, which the rank `by` uses. Returns NULL if
 * there is none, or the key is for another rank. */
gcoll_region *gcoll_region_find(const gcoll_context *context, uint32_t by, uint64_t number);
/* Takes the context away from its regions. Frees those that a forked child destroyed. */
void gcoll_regions_orphan(gcoll_context *context);
/* Begins an access to another rank's region. Sets the request to done at its end. */
gcoll_status gcoll_access_start(gcoll_context *context, uint32_t peer, const gcoll_access_wanted *wanted,
                                gcoll_request *request);

#endif
