// test/core/launch_peek.h - access to a context's rendezvous that the public headers do not give, for the
// tests of launches.
#ifndef GCOLL_TEST_LAUNCH_PEEK_H
#define GCOLL_TEST_LAUNCH_PEEK_H

#include "gcoll/gcoll.h"

GCOLL_BEGIN_DECLS

/* Makes the context's keys due to be kept again, as they are after an hour. */
void launch_peek_hour(gcoll_context *context);

GCOLL_END_DECLS

#endif
