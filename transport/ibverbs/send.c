/*
 * transport/ibverbs/send.c - decides when a message may be sent.
 *
 * The rules are those of transport/tcp/flow.c: small messages are sent on the pool's credit, or by a grant;
 * large messages wait until the receiver has granted memory for them (pieces.c). A waiting message is offered
 * if it is large, opens an operation, or is announced.
 *
 * Beyond the limit of offers a message is untold, and offered later. But a grant that is of another size than
 * the message is answered by an offer at once: the receiver has a posted receive for it, so it remembers the
 * message anyway.
 */
#include "transport/ibverbs/pair.h"

static uint64_t cost(uint64_t bytes) {
    return bytes + GCOLL_IB_OVERHEAD_BYTES;
}

static bool is_large(const gcoll_ib_pair *pair, const gcoll_message *message) {
    return gcoll_ib_is_granted(pair->ib, message);
}

static bool has_credit(const gcoll_ib_pair *pair, const gcoll_message *message) {
    return pair->state == GCOLL_IB_CONNECTED && !is_large(pair, message) &&
           cost(message->bytes) <= pair->credit;
}

static void send_on_credit(gcoll_ib_pair *pair, gcoll_message *message) {
    pair->credit -= cost(message->bytes);
    message->flags |= GCOLL_IB_ON_CREDIT;
    gcoll_ib_enqueue(pair, message);
}

void gcoll_ib_leave_untold(gcoll_ib_pair *pair, gcoll_slot *slot) {
    if (slot->flags & GCOLL_IB_UNTOLD) {
        gcoll_untold_unlink(&pair->untold, slot);
        slot->flags &= ~(uint32_t)GCOLL_IB_UNTOLD;
    }
}

gcoll_message *gcoll_ib_stop_waiting(gcoll_ib_pair *pair, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    gcoll_ib_leave_untold(pair, slot);
    if (slot->flags & GCOLL_IB_LISTED)
        gcoll_slot_unlink(&pair->waiting, slot);
    if (slot->flags & GCOLL_IB_ASKED)
        message->flags |= GCOLL_IB_FOLLOWS;
    gcoll_match_remove(&pair->outgoing, slot);
    return message;
}

/* Sends the fingerprint of a message that may not be offered yet in a frame of its own, so that it stays
 * ahead of later messages of its stream. Once the receiver knows the message, it is told whose it was. */
static void open_ahead(gcoll_ib_pair *pair, gcoll_message *message) {
    gcoll_ib_frame frame = {.kind = GCOLL_IB_CREDIT, .flags = GCOLL_IB_OPEN, .stream = message->stream};
    if (message->open && !(message->flags & GCOLL_IB_OPENED)) {
        gcoll_ib_append_control(pair, &frame, message->open);
        message->flags |= GCOLL_IB_OPENED | GCOLL_IB_OPENED_AHEAD;
    }
}

static void send_offer(gcoll_ib_pair *pair, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    gcoll_ib_frame frame = {
        .kind = GCOLL_IB_OFFER, .stream = message->stream, .index = message->index, .total = message->bytes};
    gcoll_ib_leave_untold(pair, slot);
    if (message->open && !(message->flags & GCOLL_IB_OPENED)) {
        frame.flags = GCOLL_IB_OPEN;
        message->flags |= GCOLL_IB_OPENED;
    }
    slot->flags |= GCOLL_IB_ASKED;
    pair->asked++;
    gcoll_ib_append_control(pair, &frame, frame.flags ? message->open : NULL);
}

void gcoll_ib_offer(gcoll_ib_pair *pair, gcoll_slot *slot) {
    if (slot->flags & (GCOLL_IB_ASKED | GCOLL_IB_UNTOLD))
        return;
    if (pair->asked < GCOLL_IB_PROMISES_MAX) {
        send_offer(pair, slot);
        return;
    }
    open_ahead(pair, slot->message);
    slot->flags |= GCOLL_IB_UNTOLD;
    gcoll_untold_append(&pair->untold, slot);
}

void gcoll_ib_offer_granted(gcoll_ib_pair *pair, gcoll_slot *slot) {
    if (!(slot->flags & GCOLL_IB_ASKED))
        send_offer(pair, slot);
}

void gcoll_ib_offer_ended(gcoll_ib_pair *pair) {
    pair->asked--;
    if (pair->untold.oldest && pair->asked < GCOLL_IB_PROMISES_MAX)
        send_offer(pair, pair->untold.oldest);
}

static bool is_told_of(const gcoll_message *message) {
    return message->open || message->announced;
}

/* is_granted: the peer has a posted receive for the message, and has granted another size. */
static void wait_for_permission(gcoll_ib_pair *pair, gcoll_message *message, bool is_granted) {
    gcoll_slot *slot = gcoll_match_add(&pair->outgoing, message->stream, message->index);
    bool is_connected = pair->state == GCOLL_IB_CONNECTED;
    if (!slot) {
        gcoll_ib_out_of_memory(pair);
        return;
    }
    slot->message = message;
    if (!is_connected || !is_large(pair, message)) {
        slot->flags = GCOLL_IB_LISTED;
        gcoll_slot_append(&pair->waiting, slot);
    }
    if (is_granted)
        gcoll_ib_offer_granted(pair, slot);
    else if (is_connected && (is_large(pair, message) || is_told_of(message)))
        gcoll_ib_offer(pair, slot);
}

static void send_or_wait(gcoll_ib_pair *pair, gcoll_message *message, bool is_granted) {
    if (!pair->waiting.oldest && has_credit(pair, message))
        send_on_credit(pair, message);
    else
        wait_for_permission(pair, message, is_granted);
}

/* Sends a message that was granted before it was posted; the grant made the slot. */
static void send_promised(gcoll_ib_pair *pair, gcoll_slot *slot, gcoll_message *message) {
    if ((slot->flags & GCOLL_IB_PIECES_WAIT) && slot->total == message->bytes) {
        gcoll_ib_take_targets(pair, slot, message);
        return;
    }
    if (slot->flags & GCOLL_IB_PIECES_WAIT) {
        gcoll_ib_forget_targets(pair, slot);
        send_or_wait(pair, message, true);
        return;
    }
    gcoll_match_remove(&pair->outgoing, slot);
    pair->promised--;
    if (is_large(pair, message)) /* the receiver expects another size, and the offer tells it */
        wait_for_permission(pair, message, true);
    else
        gcoll_ib_enqueue(pair, message);
}

void gcoll_ib_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);
    gcoll_ib_pair *pair = ib->leaving ? NULL : gcoll_ib_pair_of(ib, peer);
    if (!pair || pair->state >= GCOLL_IB_DEPARTED)
        return;
    gcoll_ib_meet(pair);
    message->moved = 0;
    message->flags = 0;
    message->region = NULL;
    gcoll_slot *slot = gcoll_match_find(&pair->outgoing, message->stream, message->index);
    if (slot && slot->message)
        gcoll_ib_fail(pair, GCOLL_ERR_INTERNAL, "was sent two messages (%llu, %u)",
                      (unsigned long long)message->stream, message->index);
    else if (slot)
        send_promised(pair, slot, message);
    else
        send_or_wait(pair, message, false);
}

/* Sends small messages in the order of posting while there is credit. */
static void send_waiting(gcoll_ib_pair *pair) {
    while (pair->waiting.oldest && has_credit(pair, pair->waiting.oldest->message))
        send_on_credit(pair, gcoll_ib_stop_waiting(pair, pair->waiting.oldest));
}

void gcoll_ib_send_start(gcoll_ib_pair *pair) {
    gcoll_slot *slot = pair->waiting.oldest;
    while (slot) {
        gcoll_slot *newer = slot->newer;
        if (is_large(pair, slot->message)) {
            gcoll_slot_unlink(&pair->waiting, slot);
            slot->flags &= ~(uint32_t)GCOLL_IB_LISTED;
            gcoll_ib_offer(pair, slot);
        }
        slot = newer;
    }
    send_waiting(pair);
    for (slot = pair->waiting.oldest; slot; slot = slot->newer)
        if (is_told_of(slot->message))
            gcoll_ib_offer(pair, slot);
}

void gcoll_ib_on_credit(gcoll_ib_pair *pair, uint32_t credit) {
    if (credit > pair->peer.pool_bytes - pair->credit) {
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%u bytes of credit where %llu were used)",
                      credit, (unsigned long long)(pair->peer.pool_bytes - pair->credit));
        return;
    }
    pair->credit += credit;
    send_waiting(pair);
}

void gcoll_ib_on_grant(gcoll_ib_pair *pair, const gcoll_ib_frame *frame) {
    gcoll_slot *slot = gcoll_match_find(&pair->outgoing, frame->stream, frame->index);
    if (slot && slot->message && is_large(pair, slot->message)) {
        gcoll_ib_offer_granted(pair, slot); /* the receiver will notice the different size */
        return;
    }
    if (slot && slot->message) {
        gcoll_ib_enqueue(pair, gcoll_ib_stop_waiting(pair, slot));
        send_waiting(pair); /* it may have been the oldest, which blocked the others */
        return;
    }
    if (slot || pair->promised == GCOLL_IB_PROMISES_MAX) {
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%s)",
                      slot ? "a grant twice" : "too many grants");
        return;
    }
    slot = gcoll_match_add(&pair->outgoing, frame->stream, frame->index);
    if (!slot) {
        gcoll_ib_out_of_memory(pair);
        return;
    }
    slot->flags = GCOLL_IB_PROMISED;
    pair->promised++;
}

void gcoll_ib_on_revoke(gcoll_ib_pair *pair, const gcoll_ib_frame *frame) {
    gcoll_slot *slot = gcoll_match_find(&pair->outgoing, frame->stream, frame->index);
    if (frame->total > 0) { /* of pieces, unless they were forgotten when the message was posted */
        if (slot && (slot->flags & GCOLL_IB_PIECES_WAIT) && slot->total == frame->total)
            gcoll_ib_forget_targets(pair, slot);
        return;
    }
    if (!slot || slot->message || !(slot->flags & GCOLL_IB_PROMISED)) {
        gcoll_ib_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (a revoke without a grant)");
        return;
    }
    gcoll_match_remove(&pair->outgoing, slot);
    pair->promised--;
}
