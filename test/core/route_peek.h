/* test/core/route_peek.h - connections that take another way. */
#ifndef GCOLL_TEST_ROUTE_PEEK_H
#define GCOLL_TEST_ROUTE_PEEK_H

#include "gcoll/gcoll.h"

/* Gives the port to connect to instead. */
typedef uint16_t (*route_divert)(void *arg, uint16_t port);

/* From now on connections over tcp that the context makes go to the port that divert gives for a peer's own;
 * without it the context makes none, and waits for its peers'. Of contexts that have made none yet, each used
 * by one thread. */
void route_by(gcoll_context *context, route_divert divert, void *arg);

/* Whether its endpoint was opened with checksums. */
int route_has_checksum(const gcoll_context *context);

#endif
