/* test/core/way_peek.h - what a context has made of its options about transports. */
#ifndef GCOLL_TEST_WAY_PEEK_H
#define GCOLL_TEST_WAY_PEEK_H

#include <stdint.h>

#include "gcoll/gcoll.h"

typedef struct way_seen {
    const char *transport, *interface;
    uint64_t eager_bytes, pool_bytes;
    uint32_t lane_count;
    char lanes[512];
    const gcoll_ibverbs_options *ibverbs; /* NULL: none */
} way_seen;

void way_look(const gcoll_context *context, way_seen *seen);

#endif
