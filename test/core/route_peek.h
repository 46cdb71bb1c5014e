/* test/core/route_peek.h - redirects a context's tcp connections to another port, for tests. */
#ifndef GCOLL_TEST_ROUTE_PEEK_H
#define GCOLL_TEST_ROUTE_PEEK_H

#include "gcoll/gcoll.h"

/* Returns the port to connect to instead of the peer's own. */
typedef uint16_t (*route_divert)(void *arg, uint16_t port);

/* From now on the context's tcp connections go to the port that `divert` returns for the peer's own. Without
 * `divert` the context makes no connections, and waits for those of its peers. The context must not have made
 * any yet, and one thread must use it. */
void route_by(gcoll_context *context, route_divert divert, void *arg);

/* Returns whether the context's endpoint was opened with checksums. */
int route_has_checksum(const gcoll_context *context);

#endif
