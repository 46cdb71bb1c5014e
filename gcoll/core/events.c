/* gcoll/core/events.c - what the transport tells a context: messages of new operations, peers that fail,
 * leave or give up. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/core/core_internal.h"
#include "gcoll/core/rendezvous.h"

#define LEAVING_LOOKS    10
#define LEAVING_PAUSE_MS 5

static void on_opened(void *arg, uint32_t peer, uint64_t stream,
                      const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    ((gcoll_context *)arg)->peers[peer].met = true;
    if (stream & GCOLL_STREAM_TAG)
        return;
    if (stream & GCOLL_STREAM_ACCESS)
        gcoll_access_arrived(arg, peer, stream, fingerprint);
    else if (stream > 0)
        gcoll_fingerprint_arrived(arg, peer, stream, fingerprint);
}

static bool is_needed(const gcoll_context *context, uint32_t peer) {
    bool needed = gcoll_requests_wait_for(context, peer);
    for (const gcoll_run *run = context->runs; run && !needed; run = gcoll_run_next(run))
        needed = gcoll_run_waits_for(run, peer);
    return needed;
}

/* What the store says of a rank that cannot be reached. Where nobody needs it, it is given the moment between
 * closing its door and taking its address away. Addresses of a duplicate are not in the store, so nobody
 * takes them away: who is not needed is taken to have left. */
static gcoll_status ask_store(gcoll_context *context, uint32_t peer, gcoll_note *cause) {
    char address[GCOLL_ADDRESS_MAX];
    if (context->addresses && !is_needed(context, peer))
        return GCOLL_ERR_NOT_FOUND;
    gcoll_status found = gcoll_rendezvous_lookup(context, peer, address, sizeof address, cause);
    for (int i = 0; i < LEAVING_LOOKS && found == GCOLL_OK && !is_needed(context, peer); i++) {
        usleep(LEAVING_PAUSE_MS * 1000);
        found = gcoll_rendezvous_lookup(context, peer, address, sizeof address, cause);
    }
    return found;
}

/* A rank that broke and left may have gone before it could tell this one; then it has left the cause. One
 * that left in good order while this one tried to reach it is no failure, unless it is needed. */
static void blame(gcoll_context *context, uint32_t peer, gcoll_status status, const char *text) {
    gcoll_note cause;
    gcoll_status found = context->broken ? GCOLL_OK : ask_store(context, peer, &cause);
    if (found == GCOLL_ERR_STATE)
        gcoll_break_reported(context, &cause, peer);
    else if (found != GCOLL_ERR_NOT_FOUND || is_needed(context, peer))
        gcoll_break_operation(context, status, peer, "rank %u %s", peer, text);
}

static void on_failed(void *arg, uint32_t peer, gcoll_status status, const char *text) {
    gcoll_context *context = arg;
    context->peers[peer].departed = true;
    if (status == GCOLL_ERR_PEER && !context->peers[peer].met)
        blame(context, peer, status, text);
    else /* it crashed: do not lose time with a store that may have gone with it */
        gcoll_break_operation(context, status, peer, "rank %u %s", peer, text);
}

static void on_departed(void *arg, uint32_t peer) {
    gcoll_context *context = arg;
    context->peers[peer].departed = true;
    if (is_needed(context, peer))
        blame(context, peer, GCOLL_ERR_PEER, "left the job");
}

void gcoll_break_reported(gcoll_context *context, const gcoll_note *note, uint32_t from) {
    uint32_t culprit = note->culprit < context->size ? note->culprit : GCOLL_NO_RANK;
    gcoll_status status = note->status > GCOLL_OK && note->status <= GCOLL_ERR_INTERNAL
                              ? (gcoll_status)note->status
                              : GCOLL_ERR_PEER;
    bool passed_on = strstr(note->text, "(reported by rank ") != NULL;
    if (passed_on || context->broken)
        gcoll_break(context, status, culprit, "%s", note->text);
    else
        gcoll_break(context, status, culprit, "%.220s (reported by rank %u)", note->text, from);
}

static void on_aborted(void *arg, uint32_t from, const gcoll_note *note) {
    gcoll_break_reported(arg, note, from);
}

const gcoll_events gcoll_context_events = {
    .opened = on_opened,
    .failed = on_failed,
    .departed = on_departed,
    .aborted = on_aborted,
    .answered = gcoll_peer_answered,
};
