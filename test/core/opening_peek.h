/* test/core/opening_peek.h - makes a rank send messages of an operation without its fingerprint, and receive
 * fingerprints without messages, for tests. */
#ifndef GCOLL_TEST_OPENING_PEEK_H
#define GCOLL_TEST_OPENING_PEEK_H

#include "gcoll/gcoll.h"

/* From now on the messages of `count` operations, from number `first` on, have no fingerprint, nor has any
 * probe. Works over tcp and inproc. */
void opening_mute(gcoll_context *context, uint64_t first, uint64_t count);

/* Returns the number of the latest operation that the context began. */
uint64_t opening_sequence(const gcoll_context *context);

#define OPENING_FINGERPRINT_BYTES 32

/* Gives the fingerprint of the latest operation that the context began. */
void opening_fingerprint(const gcoll_context *context, uint8_t bytes[OPENING_FINGERPRINT_BYTES]);

/* Makes the fingerprint of an operation arrive from a peer, as a probe would. */
void opening_arrive(gcoll_context *context, uint32_t peer, uint64_t sequence,
                    const uint8_t bytes[OPENING_FINGERPRINT_BYTES]);

/* Returns how many fingerprints of the peer are held, of operations that this context has not begun. */
uint32_t opening_held(const gcoll_context *context, uint32_t peer);

#endif
