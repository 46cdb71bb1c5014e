/* test/core/opening_peek.h - makes a rank send messages of an operation without its fingerprint, for
 * tests. */
#ifndef GCOLL_TEST_OPENING_PEEK_H
#define GCOLL_TEST_OPENING_PEEK_H

#include "gcoll/gcoll.h"

/* From now on the messages of `count` operations, from number `first` on, have no fingerprint, nor has any
 * probe. Works over tcp and inproc. */
void opening_mute(gcoll_context *context, uint64_t first, uint64_t count);

/* Returns the number of the latest operation that the context began. */
uint64_t opening_sequence(const gcoll_context *context);

#endif
