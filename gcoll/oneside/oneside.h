/* gcoll/oneside/oneside.h - regions of memory that peers put to and get from: region.c, and accesses to them:
 * access.c. */
#ifndef GCOLL_ONESIDE_ONESIDE_H
#define GCOLL_ONESIDE_ONESIDE_H

#include "gcoll/live/live.h"

typedef struct gcoll_access gcoll_access;

/* What a context keeps of this: the folder's own. */
struct gcoll_oneside {
    gcoll_region *regions;
    gcoll_access *accesses; /* of this rank and of peers, under way */
    gcoll_access *arrived;  /* of peers, to be served */
    gcoll_access *spare_accesses;
    struct gcoll_traffic **traffic; /* by peer; NULL: there was none */
};

extern const gcoll_activity gcoll_oneside_activity;

/* A peer asks for access to a region of ours. */
void gcoll_access_arrived(gcoll_context *context, uint32_t peer, uint64_t stream,
                          const uint8_t wanted[GCOLL_FINGERPRINT_BYTES]);
/* Frees accesses; regions stay with the caller. The endpoint must be closed. */
void gcoll_oneside_free(gcoll_context *context);

#endif
