/* gcoll/oneside/oneside.h - one-sided access: a rank's regions of memory (region.c), and puts and gets to
 * them (access.c). */
#ifndef GCOLL_ONESIDE_ONESIDE_H
#define GCOLL_ONESIDE_ONESIDE_H

#include "gcoll/live/live.h"

typedef struct gcoll_access gcoll_access;

/* Regions and accesses of a context. Only this folder reads the fields. */
struct gcoll_oneside {
    gcoll_region *regions;
    gcoll_access *accesses; /* under way, of this rank and of peers */
    gcoll_access *arrived;  /* requests of peers that are not served yet */
    gcoll_access *spare_accesses;
    struct gcoll_traffic **traffic; /* by peer; NULL: no access so far */
};

extern const gcoll_activity gcoll_oneside_activity;

/* Notes that a peer requests an access to a region of this rank. The transport has received its
 * descriptor. */
void gcoll_access_arrived(gcoll_context *context, uint32_t peer, uint64_t stream,
                          const uint8_t wanted[GCOLL_FINGERPRINT_BYTES]);
/* Frees all accesses. The regions remain, without a context, until the caller destroys them. The endpoint
 * must be closed. */
void gcoll_oneside_free(gcoll_context *context);

#endif
