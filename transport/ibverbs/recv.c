/*
 * transport/ibverbs/recv.c - matches small messages to receives, and grants sends to the peer.
 *
 * The rules are those of transport/tcp/flow.c. A small message with a posted receive is copied from its slot
 * to the receive's memory. Without one it is kept, within the pool, until a receive is posted.
 */
#include <string.h>

#include "transport/ibverbs/pair.h"
#include "transport/size.h"

static uint64_t cost(uint64_t bytes) {
    return bytes + GCOLL_IB_OVERHEAD_BYTES;
}

uint64_t gcoll_ib_credit_step(const gcoll_ib_pair *pair) {
    return pair->ib->pool_bytes / 4;
}

static bool is_crowded(const gcoll_ib_pair *pair) {
    return pair->used > pair->ib->pool_bytes / 2;
}

void gcoll_ib_out_of_memory(gcoll_ib_pair *pair) {
    gcoll_ib_fail(pair, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", pair->rank);
}

void gcoll_ib_mismatch(gcoll_ib_pair *pair, uint64_t sent, uint64_t expected) {
    gcoll_ib_fail(pair, GCOLL_ERR_MISMATCH, "sent %llu bytes where %llu were expected",
                  (unsigned long long)sent, (unsigned long long)expected);
}

/* Fails the pair because one side grants the message's memory and the other does not: the host would have to
 * touch memory that only devices can access. */
static void mismatch_of_ways(gcoll_ib_pair *pair) {
    gcoll_ib_fail(pair, GCOLL_ERR_MISMATCH, "sent a message whose memory is granted as if it were not");
}

/* ---- Grants ---------------------------------------------------------------------------------------- */

static bool is_large(const gcoll_ib_pair *pair, const gcoll_message *message) {
    return gcoll_ib_is_granted(pair->ib, message);
}

/* Whether the peer has used up its offers. Then it answers a grant by an offer if its message is larger than
 * the receive, and cannot say so otherwise. */
static bool is_mute(const gcoll_ib_pair *pair) {
    return pair->offered >= GCOLL_IB_PROMISES_MAX;
}

static bool wants_grant(const gcoll_ib_pair *pair, const gcoll_slot *slot) {
    return (slot->flags & GCOLL_IB_OFFERED) || is_crowded(pair) || (slot->message->any_size && is_mute(pair));
}

/* Grants a small receive; its slot must be in the ungranted list. */
static void grant(gcoll_ib_pair *pair, gcoll_slot *slot) {
    gcoll_ib_frame frame = {
        .kind = GCOLL_IB_GRANT, .stream = slot->stream, .index = slot->index, .total = slot->message->bytes};
    if (pair->granted == GCOLL_IB_PROMISES_MAX) {
        pair->starved = true;
        return;
    }
    gcoll_ib_leave_list(pair, slot);
    slot->flags |= GCOLL_IB_GRANTED;
    pair->granted++;
    gcoll_ib_append_control(pair, &frame, NULL);
}

static void grant_those_who_want(gcoll_ib_pair *pair) {
    gcoll_slot *slot = pair->ungranted.oldest;
    while (slot) {
        gcoll_slot *newer = slot->newer;
        if (wants_grant(pair, slot))
            grant(pair, slot);
        slot = newer;
    }
}

/* Makes a posted receive wait for its message: requests pieces, or joins the ungranted list. */
static void await(gcoll_ib_pair *pair, gcoll_slot *slot) {
    if (is_large(pair, slot->message)) {
        gcoll_ib_want_pieces(pair, slot);
        return;
    }
    slot->flags |= GCOLL_IB_IN_UNGRANTED;
    gcoll_slot_append(&pair->ungranted, slot);
    if (wants_grant(pair, slot))
        grant(pair, slot);
}

/* Gives a posted receive the size of its message, which differs from its own. It then waits in no list.
 * False: the receive does not allow that. */
static bool take_size(gcoll_ib_pair *pair, gcoll_slot *slot, uint64_t total) {
    if (!slot->message->any_size)
        return false;
    gcoll_ib_leave_list(pair, slot);
    gcoll_ib_withdraw_pieces(pair, slot);
    return gcoll_message_take_size(slot->message, total);
}

/* Makes a receive wait for its message, which is offered with another size than the receive had. */
static void await_again(gcoll_ib_pair *pair, gcoll_slot *slot) {
    if (is_large(pair, slot->message) || !(slot->flags & GCOLL_IB_GRANTED))
        await(pair, slot);
}

/* ---- Posting --------------------------------------------------------------------------------------- */

static void hand_over(const gcoll_message *message, const uint8_t *bytes) {
    if (message->bytes == 0)
        return;
    if (message->consume)
        message->consume(message->consume_arg, 0, bytes, message->bytes);
    else
        memcpy(message->data, bytes, (size_t)message->bytes);
}

void gcoll_ib_finish_recv(gcoll_ib_pair *pair, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    if (slot->flags & GCOLL_IB_USES_POOL) {
        pair->owed += cost(slot->total);
        if (pair->owed >= gcoll_ib_credit_step(pair))
            gcoll_ib_want_output(pair);
    }
    gcoll_ib_unregister(pair->ib, message->region);
    message->region = NULL;
    message->opened = (slot->flags & GCOLL_IB_HAS_OPEN) != 0;
    gcoll_match_remove(&pair->incoming, slot);
    gcoll_ib_complete(pair->ib, message);
}

static void post_to_known(gcoll_ib_pair *pair, gcoll_slot *slot, gcoll_message *message) {
    if (slot->message) {
        gcoll_ib_fail(pair, GCOLL_ERR_INTERNAL, "was asked twice for message (%llu, %u)",
                      (unsigned long long)message->stream, message->index);
        return;
    }
    if (!gcoll_message_take_size(message, slot->total)) {
        gcoll_ib_mismatch(pair, slot->total, message->bytes);
        return;
    }
    if ((slot->flags & GCOLL_IB_STARTED) && is_large(pair, message)) {
        mismatch_of_ways(pair);
        return;
    }
    slot->message = message;
    if (slot->flags & GCOLL_IB_STARTED) { /* a small message that has arrived completely */
        hand_over(message, slot->held);
        pair->ib->counters.bytes_copied += message->consume ? 0 : message->bytes;
        gcoll_slot_let_go(slot);
        pair->held -= slot->total;
        gcoll_ib_finish_recv(pair, slot);
        return;
    }
    await(pair, slot);
}

void gcoll_ib_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);
    gcoll_ib_pair *pair = ib->leaving ? NULL : gcoll_ib_pair_of(ib, peer);
    if (!pair || pair->state == GCOLL_IB_FAILED)
        return;
    message->moved = 0;
    message->flags = 0;
    message->region = NULL;
    if (message->consume && (message->granule == 0 || message->granule > GCOLL_GRANULE_MAX)) {
        gcoll_ib_fail(pair, GCOLL_ERR_INTERNAL, "was asked for elements of %u bytes", message->granule);
        return;
    }
    gcoll_slot *slot = gcoll_match_find(&pair->incoming, message->stream, message->index);
    if (slot) {
        post_to_known(pair, slot, message);
        return;
    }
    if (pair->state == GCOLL_IB_DEPARTED)
        return;
    gcoll_ib_meet(pair);
    slot = gcoll_match_add(&pair->incoming, message->stream, message->index);
    if (!slot) {
        gcoll_ib_out_of_memory(pair);
        return;
    }
    slot->message = message;
    await(pair, slot);
}

bool gcoll_ib_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index,
                   uint64_t *bytes) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);
    const gcoll_ib_pair *pair = peer < ib->size ? ib->pairs[peer] : NULL;
    const gcoll_slot *slot = pair ? gcoll_match_find(&pair->incoming, stream, index) : NULL;
    bool found = slot && !slot->message;
    if (found)
        *bytes = slot->total;
    else
        ib->curious = true;
    return found;
}

/* Cancels a posted receive. False once it is granted or has begun: the peer may be sending, or its device
 * writing into the memory. */
bool gcoll_ib_take_back(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);
    gcoll_ib_pair *pair = ib->pairs[peer];
    gcoll_slot *slot = pair ? gcoll_match_find(&pair->incoming, message->stream, message->index) : NULL;
    if (!slot || slot->message != message)
        return !gcoll_message_is_queued(&ib->completed,
                                        message); /* if not queued, it was dropped when the peer left */
    if ((slot->flags & (GCOLL_IB_STARTED | GCOLL_IB_GRANTED | GCOLL_IB_OFFERED)) || message->moved > 0)
        return false;
    gcoll_ib_leave_list(pair, slot);
    gcoll_ib_unregister(ib, message->region);
    message->region = NULL;
    gcoll_match_remove(&pair->incoming, slot);
    return true;
}

/* ---- Arrivals -------------------------------------------------------------------------------------- */

/* Ends the current wait when a message without a receive arrives, if a caller peeks. */
static void notice(gcoll_ib_pair *pair, const gcoll_slot *slot) {
    if (!slot->message && pair->ib->curious)
        pair->ib->moved = true;
}

void gcoll_ib_on_offer(gcoll_ib_pair *pair, const gcoll_ib_frame *frame) {
    gcoll_slot *slot = gcoll_match_find(&pair->incoming, frame->stream, frame->index);
    /* Without a slot, this rank would have to remember one more message for the peer. */
    if (slot ? (slot->flags & (GCOLL_IB_STARTED | GCOLL_IB_OFFERED)) != 0 : is_mute(pair)) {
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%s)",
                      slot ? "an offer of a message that has come" : "too many offers");
        return;
    }
    const bool changes = slot && slot->message->bytes != frame->total;
    if (changes && !take_size(pair, slot, frame->total)) {
        gcoll_ib_mismatch(pair, frame->total, slot->message->bytes);
        return;
    }
    if (!slot) {
        slot = gcoll_match_add(&pair->incoming, frame->stream, frame->index);
        if (!slot) {
            gcoll_ib_out_of_memory(pair);
            return;
        }
    }
    slot->total = frame->total;
    slot->flags |= GCOLL_IB_OFFERED | (frame->flags & GCOLL_IB_OPEN ? GCOLL_IB_HAS_OPEN : 0U);
    notice(pair, slot);
    pair->offered++;
    if (changes)
        await_again(pair, slot);
    else if (slot->flags & GCOLL_IB_IN_UNGRANTED)
        grant(pair, slot);
    else if (slot->flags & GCOLL_IB_IN_AHEAD)
        gcoll_ib_want_pieces(pair, slot);
    if (pair->offered == GCOLL_IB_PROMISES_MAX) /* the peer has just become mute */
        grant_those_who_want(pair);
}

/* Whether the peer may send this small message now. */
static bool may_start(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, gcoll_slot *slot) {
    const gcoll_ib *ib = pair->ib;
    const bool changes = slot && slot->message && slot->message->bytes != frame->total;
    const bool mismatches = changes && !slot->message->any_size;
    const char *wrong = NULL;
    if (slot && (slot->flags & GCOLL_IB_STARTED))
        wrong = "a message twice";
    else if (!(frame->flags & GCOLL_IB_CREDITED))
        wrong = !slot || !(slot->flags & GCOLL_IB_GRANTED) ? "a message that was not granted" : NULL;
    else if (mismatches)
        wrong = NULL; /* the mismatch is the better diagnosis */
    else if (frame->total > ib->eager_bytes)
        wrong = "a message too large for credit";
    else if (cost(frame->total) > ib->pool_bytes - pair->used)
        wrong = "more messages than it had credit for";
    if (!wrong && !mismatches && slot && (slot->flags & GCOLL_IB_OFFERED) && slot->total != frame->total)
        wrong = "a message of another size than offered";
    if (wrong) {
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", wrong);
        return false;
    }
    if (mismatches) {
        gcoll_ib_mismatch(pair, frame->total, slot->message->bytes);
        return false;
    }
    if (changes)
        take_size(pair, slot, frame->total);
    if (slot && slot->message && is_large(pair, slot->message)) {
        mismatch_of_ways(pair);
        return false;
    }
    return true;
}

void gcoll_ib_start(gcoll_ib_pair *pair, gcoll_slot *slot, bool on_credit) {
    bool was_crowded = is_crowded(pair);
    if (slot->flags & GCOLL_IB_OFFERED)
        pair->offered--;
    if (slot->flags & GCOLL_IB_GRANTED) {
        pair->granted--;
        if (on_credit) {
            gcoll_ib_frame frame = {.kind = GCOLL_IB_REVOKE, .stream = slot->stream, .index = slot->index};
            gcoll_ib_append_control(pair, &frame, NULL);
        }
    }
    slot->flags &= GCOLL_IB_IN_ANY | GCOLL_IB_HAS_OPEN;
    slot->flags |= GCOLL_IB_STARTED | (on_credit ? GCOLL_IB_USES_POOL : 0);
    if (on_credit)
        pair->used += cost(slot->total);
    if ((is_crowded(pair) && !was_crowded) || (pair->starved && pair->granted <= GCOLL_IB_PROMISES_MAX / 2)) {
        pair->starved = false;
        grant_those_who_want(pair);
    }
}

/* Accepts a message that says that its fingerprint came before it. False if no such fingerprint is left: the
 * pair failed.
 */
static bool take_ahead(gcoll_ib_pair *pair) {
    if (pair->opened_ahead == 0) {
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (a message whose fingerprint did not come)");
        return false;
    }
    pair->opened_ahead--;
    return true;
}

void gcoll_ib_on_opening(gcoll_ib_pair *pair, const gcoll_ib_frame *frame) {
    if (frame->flags & GCOLL_IB_OPEN)
        pair->opened_ahead++;
    if (!(frame->flags & GCOLL_IB_AHEAD) || !take_ahead(pair))
        return;
    gcoll_slot *slot = gcoll_match_find(&pair->incoming, frame->stream, frame->index);
    if (slot && slot->message && slot->message->moved > 0 && !(slot->flags & GCOLL_IB_STARTED))
        slot->flags |= GCOLL_IB_HAS_OPEN;
    else
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (a fingerprint of a message without a grant)");
}

void gcoll_ib_on_data(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *payload) {
    gcoll_slot *slot = gcoll_match_find(&pair->incoming, frame->stream, frame->index);
    if (!may_start(pair, frame, slot) || ((frame->flags & GCOLL_IB_AHEAD) && !take_ahead(pair)))
        return;
    if (!slot)
        slot = gcoll_match_add(&pair->incoming, frame->stream, frame->index);
    if (!slot || (!slot->message && !gcoll_slot_hold(slot, frame->total))) {
        gcoll_ib_out_of_memory(pair);
        return;
    }
    slot->total = slot->received = frame->total;
    slot->flags |= frame->flags & (GCOLL_IB_OPEN | GCOLL_IB_AHEAD) ? GCOLL_IB_HAS_OPEN : 0U;
    gcoll_ib_leave_list(pair, slot);
    gcoll_ib_start(pair, slot, (frame->flags & GCOLL_IB_CREDITED) != 0);
    notice(pair, slot);
    if (!slot->message) {
        memcpy(slot->held, payload, (size_t)frame->total);
        pair->held += frame->total;
        pair->ib->counters.bytes_copied += frame->total;
        return;
    }
    hand_over(slot->message, payload);
    pair->ib->counters.bytes_copied += slot->message->consume ? 0 : frame->total;
    gcoll_ib_finish_recv(pair, slot);
}
