/* gcoll/oneside/access.h - what regions (region.c) and accesses (access.c) share. */
#ifndef GCOLL_ONESIDE_ACCESS_H
#define GCOLL_ONESIDE_ACCESS_H

#include "gcoll/oneside/oneside.h"

struct gcoll_region {
    gcoll_context *context; /* NULL: it is gone */
    uint64_t id;            /* random */
    uint8_t *data;
    uint64_t bytes;
    uint64_t notified;
    uint32_t waiters; /* threads that wait for notifications */
    uint32_t uses;    /* accesses of peers under way, as far as they are served by messages */
    bool is_exposed;
    gcoll_exposed exposed;
    gcoll_region *next;
    bool is_unwanted; /* was destroyed where its context could not be entered */
};

typedef struct gcoll_access_wanted {
    bool is_put, notify;
    uint64_t region, offset, bytes;
    void *data;     /* that a put only reads */
    bool is_direct; /* the transport reaches the memory: */
    uint64_t address;
    uint32_t key;
} gcoll_access_wanted;

/* NULL if there is none. */
gcoll_region *gcoll_region_find(const gcoll_context *context, uint64_t id);
void gcoll_regions_orphan(gcoll_context *context);
/* Begins one at another rank, which ends the request. */
gcoll_status gcoll_access_start(gcoll_context *context, uint32_t peer, const gcoll_access_wanted *wanted,
                                gcoll_request *request);

#endif
