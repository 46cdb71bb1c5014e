/* test/core/opening_peek.c - a transport that drops the fingerprints of chosen operations, and fingerprints
 * that come without messages, for tests. */
#include "test/core/opening_peek.h"

#include <string.h>

#include "gcoll/run/run.h"

/* The operations of this thread's context that lose their fingerprints. */
static _Thread_local struct {
    const gcoll_transport *transport;
    uint64_t first, count;
} muted;

static void post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    if (message->stream >= muted.first && message->stream - muted.first < muted.count)
        message->open = NULL;
    muted.transport->post_send(endpoint, peer, message);
}

static void set_concern(gcoll_endpoint *endpoint, uint64_t stream,
                        const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    (void)fingerprint;
    muted.transport->set_concern(endpoint, stream, NULL);
}

void opening_mute(gcoll_context *context, uint64_t first, uint64_t count) {
    static _Thread_local gcoll_transport loses;
    muted.transport = context->transport;
    muted.first = first;
    muted.count = count;
    loses = *context->transport;
    loses.post_send = post_send;
    loses.set_concern = set_concern;
    context->transport = &loses;
}

uint64_t opening_sequence(const gcoll_context *context) {
    return gcoll_runs_begun(context);
}

_Static_assert(OPENING_FINGERPRINT_BYTES == GCOLL_FINGERPRINT_BYTES, "the tests know the size");

void opening_fingerprint(const gcoll_context *context, uint8_t bytes[OPENING_FINGERPRINT_BYTES]) {
    const gcoll_runs *runs = context->runs;
    memcpy(bytes, runs->openings.history[runs->sequence % GCOLL_HISTORY].fingerprint.bytes,
           OPENING_FINGERPRINT_BYTES);
}

void opening_arrive(gcoll_context *context, uint32_t peer, uint64_t sequence,
                    const uint8_t bytes[OPENING_FINGERPRINT_BYTES]) {
    gcoll_opening_arrived(context, peer, sequence, bytes);
}

uint32_t opening_held(const gcoll_context *context, uint32_t peer) {
    return context->runs->openings.peers[peer].early;
}
