/*
 * gcoll/live/reach.c - reaching a peer: its address looked up and connected to when it is first needed; and
 * what follows when it cannot be reached, fails or leaves.
 */
#include <stdio.h>
#include <unistd.h>

#include "gcoll/live/watch.h"
#include "gcoll/rendezvous/rendezvous.h"

#define DEPARTED_GRACE_MS 250 /* for messages of a rank that has left to come out of buffers */
#define LEAVING_LOOKS     10
#define LEAVING_PAUSE_MS  5

/* ---- When it is needed -------------------------------------------------------------------- */

/* A rank may send the last message, finish and leave before this one asks for it. So a receive from a rank
 * that has left is posted, and given up only when nothing has come for a while. */
static bool need_departed(gcoll_context *context, uint32_t peer, bool sends) {
    if (sends)
        gcoll_break_operation(context, GCOLL_ERR_PEER, peer, "rank %u left the job", peer);
    else
        context->live->doubt_ms = gcoll_now_ms() + DEPARTED_GRACE_MS;
    return !context->health.broken;
}

/* No gcoll writes such an address: another program may have put it there. */
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

/* A store that fails is no fault of the peer's, nor is what this rank lacks, nor a broken address. */
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
    if (status == GCOLL_ERR_NOT_FOUND) { /* a rank takes its address away when it has closed */
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
    uint32_t peer; /* that has left, and is waited for */
};

static bool has_not_departed(void *arg, uint32_t peer) {
    struct departure *departure = arg;
    if (!gcoll_peer_has_departed(departure->context, peer))
        return true;
    departure->peer = peer;
    return false;
}

/* What a rank that left had sent before is here by now, or was never sent. */
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

/* Other errors leave the context as it is: the store may answer the next time. */
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

/* ---- When it is gone ---------------------------------------------------------------------- */

/* What the store says of a rank that cannot be reached. Where nobody needs it, it is given the moment between
 * closing its door and taking its address away. Addresses of a duplicate are not in the store, so nobody
 * takes them away: who is not needed is taken to have left. */
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

/* A rank that broke and left may have gone before it could tell this one; then it has left the cause. One
 * that left in good order while this one tried to reach it is no failure, unless it is needed. */
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
    if (status == GCOLL_ERR_NO_MEMORY) /* what this rank lacks is no fault of the peer's, */
        gcoll_break_operation(context, status, context->rank, "rank %u: %s", context->rank, text);
    else if (status == GCOLL_ERR_INVALID) /* nor are buffers that this one cannot read */
        gcoll_break_operation(context, status, context->rank, "rank %u: rank %u %s", context->rank, peer,
                              text);
    else if (status == GCOLL_ERR_PEER && !state->met)
        blame(context, peer, status, text);
    else /* it crashed: do not lose time with a store that may have gone with it */
        gcoll_break_operation(context, status, peer, "rank %u %s", peer, text);
}

void gcoll_peer_departed(gcoll_context *context, uint32_t peer) {
    context->live->peers[peer].departed = true;
    if (gcoll_live_needs(context, peer))
        blame(context, peer, GCOLL_ERR_PEER, "left the job");
}

/* The network is at fault, and neither of its ends. */
void gcoll_peer_changed(gcoll_context *context, uint32_t peer, const char *text) {
    const bool was_broken = context->health.broken;
    context->live->peers[peer].departed = true;
    gcoll_break_operation(context, GCOLL_ERR_IO, peer, "data was changed on the way from rank %u (%s)", peer,
                          text);
    if (!was_broken)
        context->health.cause.culprit = GCOLL_NO_RANK;
}
