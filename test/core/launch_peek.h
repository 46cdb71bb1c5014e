// test/core/launch_peek.h - what a test of launches cannot reach by public headers.
#ifndef GCOLL_TEST_LAUNCH_PEEK_H
#define GCOLL_TEST_LAUNCH_PEEK_H

#include "gcoll/gcoll.h"

GCOLL_BEGIN_DECLS

/* The hour after which keys are kept again is over. */
void launch_peek_hour(gcoll_context *context);

GCOLL_END_DECLS

#endif
