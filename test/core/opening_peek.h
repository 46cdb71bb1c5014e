/* test/core/opening_peek.h - a rank that does not say which operation its messages belong to. */
#ifndef GCOLL_TEST_OPENING_PEEK_H
#define GCOLL_TEST_OPENING_PEEK_H

#include "gcoll/gcoll.h"

/* From now on messages of the operations from number `first` on, `count` of them, go without a fingerprint,
 * and so do all probes. Over tcp and inproc. */
void opening_mute(gcoll_context *context, uint64_t first, uint64_t count);

/* The number of the latest operation that the context began. */
uint64_t opening_sequence(const gcoll_context *context);

#endif
