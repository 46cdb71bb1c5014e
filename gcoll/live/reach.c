/*
 * gcoll/live/reach.c - connects to a peer when it is first needed, and handles a peer that cannot be reached,
 * fails or leaves.
 */
#include <stdio.h>
#include <unistd.h>

#include "gcoll/live/watch.h"
#include "gcoll/rendezvous/rendezvous.h"

#define DEPARTED_GRACE_MS 250 /* time for a departed rank's last messages to arrive */
#define LEAVING_LOOKS     10
#define LEAVING_PAUSE_MS  5

/* ---- A peer is needed --------------------------------------------------------------------- */

/* A peer may send its last message and leave before this rank posts the receive. So a receive from a
 * departed rank is posted, and fails only if nothing arrives for a while. */
static bool need_departed(gcoll_context *context, uint32_t peer, bool sends) {
    if (sends)
        gcoll_break_operation(context, GCOLL_ERR_PEER, peer, "rank %u left the job", peer);
    else
        context->live->doubt_ms = gcoll_now_ms() + DEPARTED_GRACE_MS;
    return !context->health.broken;
}

/* gcoll never writes such an address: another program may have put it there. */
static void refuse_address(gcoll_context *context, uint32_t peer) {
    char key[GCOLL_STORE_KEY_MAX + 1], name[16];
    snprintf(name, sizeof name, "addr.%u", peer);
    gcoll_rendezvous_key_of(context, key, name);
    if (gcoll_rendezvous_has_addresses(context))
        gcoll_break_operation(context, GCOLL_ERR_PROTOCOL, GCOLL_NO_RANK, "broken address of rank %u: %s",
                              peer, gcoll_last_error());
    else
        gcoll_break_operation(context, GCOLL_ERR_PROTOCOL, GCOLL_NO_RANK,
                              "the store holds a broken address of rank %u (key '%s'): %s", peer, key,
                              gcoll_last_error());
}

/* Breaks the context without blaming the peer if the fault is the store's or this rank's own, or if the
 * address is one that gcoll never writes. */
static void refuse_peer(gcoll_context *context, gcoll_status status, uint32_t peer, bool found) {
    if (status == GCOLL_ERR_NO_MEMORY)
        gcoll_break_operation(context, status, context->rank, "rank %u: %s", context->rank,
                              gcoll_last_error());
    else if (found && status == GCOLL_ERR_PROTOCOL)
        refuse_address(context, peer);
    else
        gcoll_break_operation(context, status, found ? peer : GCOLL_NO_RANK, "%s rank %u: %s",
                              found ? "connecting to" : "looking up", peer, gcoll_last_error());
}

bool gcoll_peer_reach(gcoll_context *context, uint32_t peer, bool sends) {
    gcoll_contact *state = &context->live->peers[peer];
    if (context->health.broken)
        return false;
    if (state->departed)
        return need_departed(context, peer, sends);
    char address[GCOLL_ADDRESS_MAX];
    gcoll_note cause;
    gcoll_status status = gcoll_rendezvous_lookup(context, peer, address, sizeof address, &cause);
    if (status == GCOLL_ERR_STATE) {
        gcoll_break_reported(context, &cause, peer);
        return false;
    }
    if (status == GCOLL_ERR_NOT_FOUND)
        status = gcoll_rendezvous_has_left(context);
    if (status == GCOLL_ERR_NOT_FOUND) { /* a rank removes its address when it leaves */
        state->departed = true;
        return need_departed(context, peer, sends);
    }
    const bool found = status == GCOLL_OK;
    if (found)
        status = context->transport->connect(context->endpoint, peer, address);
    if (status != GCOLL_OK)
        refuse_peer(context, status, peer, found);
    state->connecting = status == GCOLL_OK;
    return !context->health.broken;
}

struct departure {
    const gcoll_context *context;
    uint32_t peer; /* a departed rank that is waited for, if any */
};

static bool has_not_departed(void *arg, uint32_t peer) {
    struct departure *departure = arg;
    if (!gcoll_peer_has_departed(departure->context, peer))
        return true;
    departure->peer = peer;
    return false;
}

/* Fails waits for departed ranks once the grace is over: a message that has not arrived by now was never
 * sent. */
void gcoll_peer_settle_doubt(gcoll_context *context, int64_t now) {
    gcoll_live *live = context->live;
    struct departure departure = {context, GCOLL_NO_RANK};
    if (now < live->doubt_ms)
        return;
    live->doubt_ms = 0;
    gcoll_live_each_waited(context, has_not_departed, &departure);
    if (departure.peer != GCOLL_NO_RANK)
        gcoll_break_operation(context, GCOLL_ERR_PEER, departure.peer, "rank %u left the job",
                              departure.peer);
}

/* Breaks the context if the peer broke or left. Other errors do not: the store may answer the next time. */
gcoll_status gcoll_peer_is_missing(gcoll_context *context, uint32_t peer, gcoll_status status,
                                   const gcoll_note *cause) {
    if (status != GCOLL_ERR_STATE && status != GCOLL_ERR_NOT_FOUND)
        return status;
    const gcoll_status why = status == GCOLL_ERR_NOT_FOUND ? gcoll_rendezvous_has_left(context) : status;
    if (why == GCOLL_ERR_STATE)
        gcoll_break_reported(context, cause, peer);
    else if (why == GCOLL_ERR_NOT_FOUND)
        gcoll_break_operation(context, GCOLL_ERR_PEER, peer, "rank %u left the job", peer);
    else
        gcoll_break_operation(context, why, GCOLL_NO_RANK, "looking up rank %u: %s", peer,
                              gcoll_last_error());
    return gcoll_context_settle(context);
}

/* ---- A peer is gone ----------------------------------------------------------------------- */

/* Looks an unreachable rank up in the store; NOT_FOUND means that it left. A rank stops listening before it
 * removes its address, so a rank that is not needed gets a moment to do so. The addresses of a duplicate are
 * not in the store; there, a rank that is not needed counts as departed. */
static gcoll_status ask_store(gcoll_context *context, uint32_t peer, gcoll_note *cause) {
    char address[GCOLL_ADDRESS_MAX];
    if (gcoll_rendezvous_has_addresses(context) && !gcoll_live_needs(context, peer))
        return GCOLL_ERR_NOT_FOUND;
    gcoll_status found = gcoll_rendezvous_lookup(context, peer, address, sizeof address, cause);
    for (int i = 0; i < LEAVING_LOOKS && found == GCOLL_OK && !gcoll_live_needs(context, peer); i++) {
        usleep(LEAVING_PAUSE_MS * 1000);
        found = gcoll_rendezvous_lookup(context, peer, address, sizeof address, cause);
    }
    return found;
}

/* Blames an unreachable peer, with the cause from the store if the peer left one: a broken rank may be gone
 * before it can tell this rank. A peer that left in good order is no failure unless it is needed. */
static void blame(gcoll_context *context, uint32_t peer, gcoll_status status, const char *text) {
    gcoll_note cause;
    gcoll_status found = context->health.broken ? GCOLL_OK : ask_store(context, peer, &cause);
    if (found == GCOLL_ERR_STATE)
        gcoll_break_reported(context, &cause, peer);
    else if (found != GCOLL_ERR_NOT_FOUND || gcoll_live_needs(context, peer))
        gcoll_break_operation(context, status, peer, "rank %u %s", peer, text);
}

void gcoll_peer_failed(gcoll_context *context, uint32_t peer, gcoll_status status, const char *text) {
    gcoll_contact *state = &context->live->peers[peer];
    state->departed = true;
    if (status == GCOLL_ERR_NO_MEMORY) /* this rank is out of memory: not the peer's fault */
        gcoll_break_operation(context, status, context->rank, "rank %u: %s", context->rank, text);
    else if (status == GCOLL_ERR_INVALID) /* this rank's buffers are bad: not the peer's fault */
        gcoll_break_operation(context, status, context->rank, "rank %u: rank %u %s", context->rank, peer,
                              text);
    else if (status == GCOLL_ERR_PEER && !state->met)
        blame(context, peer, status, text);
    else /* it crashed: skip the store, which may have died with it */
        gcoll_break_operation(context, status, peer, "rank %u %s", peer, text);
}

void gcoll_peer_departed(gcoll_context *context, uint32_t peer) {
    context->live->peers[peer].departed = true;
    if (gcoll_live_needs(context, peer))
        blame(context, peer, GCOLL_ERR_PEER, "left the job");
}

/* A checksum failed: the network is at fault, so the cause names no culprit. */
void gcoll_peer_changed(gcoll_context *context, uint32_t peer, const char *text) {
    const bool was_broken = context->health.broken;
    context->live->peers[peer].departed = true;
    gcoll_break_operation(context, GCOLL_ERR_IO, peer, "data was changed on the way from rank %u (%s)", peer,
                          text);
    if (!was_broken)
        context->health.cause.culprit = GCOLL_NO_RANK;
}
