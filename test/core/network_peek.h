/* test/core/network_peek.h - what a context has made of its options about transports. */
#ifndef GCOLL_TEST_NETWORK_PEEK_H
#define GCOLL_TEST_NETWORK_PEEK_H

#include <stdint.h>

#include "gcoll/gcoll.h"

typedef struct network_seen {
    const char *transport, *interface;
    uint64_t eager_bytes, pool_bytes;
    uint32_t lane_count;
    char lanes[512];
    const gcoll_ibverbs_options *ibverbs; /* NULL: none */
} network_seen;

void network_look(const gcoll_context *context, network_seen *seen);

#endif
