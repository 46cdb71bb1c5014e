/*
 * transport/tcp/flow.c - flow control and matching: decides when a message may be sent, and finds its
 * receive.
 *
 * Credit and grants. The receiver has a pool of pool_bytes for messages that no receive waits for; the peer
 * starts with that much credit. A message of at most eager_bytes is sent at once if there is credit for its
 * bytes and an overhead. When a receive has taken the message, the credit returns on the next data frame, or
 * in a frame of its own once a quarter of the pool is owed. Any other message waits for a grant, which the
 * receiver sends when it posts a large receive, even before the sender asks.
 *
 * No deadlock. eager_bytes is less than half the pool, so a small message that waits for credit implies that
 * more than half the pool is used once all frames have arrived. While more than half is used, the receiver
 * grants every posted receive, small ones too. So a message with a posted receive always moves, however full
 * the pool is.
 *
 * Grants that cross. A grant for a small message may cross the message, sent on credit. The receiver notices
 * (the message used credit although it was granted) and sends a revoke. The sender remembers grants without a
 * matching send, and on the revoke forgets this one. The connection keeps order, so the grant is always among
 * the remembered ones when its revoke arrives. So memory is bounded: the sender remembers at most as many
 * grants as the receiver has open, and the receiver opens at most GCOLL_TCP_PROMISES_MAX.
 *
 * Offers. A waiting send that is large or carries a fingerprint is announced by an offer. So the receiver
 * sees fingerprints and wrong sizes of messages that would otherwise wait unseen. It grants every offered
 * message for which it posts a receive. A send that the receiver may peek for (`announced`) is offered, too.
 * At most GCOLL_TCP_PROMISES_MAX offers are open. Beyond that a message is untold: its fingerprint travels
 * ahead in a CREDIT frame, and the offer follows when an earlier offer has ended, in the order of posting. A
 * grant may come before that; then no offer is needed.
 *
 * A failure that is found while posting is reported by the next progress.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/size.h"
#include "transport/tcp/pair.h"

static uint64_t cost(uint64_t bytes) {
    return bytes + GCOLL_TCP_OVERHEAD_BYTES;
}

uint64_t gcoll_tcp_credit_step(const gcoll_tcp_pair *pair) {
    return pair->tcp->pool_bytes / 4;
}

static bool is_crowded(const gcoll_tcp_pair *pair) {
    return pair->used > pair->tcp->pool_bytes / 2;
}

static void out_of_memory(gcoll_tcp_pair *pair) {
    gcoll_tcp_fail(pair, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", pair->rank);
}

/* The pair for a posted message. NULL: the message is dropped, because the endpoint is leaving, the peer is
 * invalid, or memory ran out. */
static inline gcoll_tcp_pair *pair_for(gcoll_tcp *tcp, uint32_t peer) {
    gcoll_tcp_pair *pair = tcp->leaving ? NULL : gcoll_tcp_pair_of(tcp, peer);
    if (!pair && !tcp->leaving && peer < tcp->size && peer != tcp->rank)
        gcoll_tcp_problem(tcp, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", peer);
    return pair;
}

/* ---- Sending --------------------------------------------------------------------------------------- */

static bool has_credit(const gcoll_tcp_pair *pair, uint64_t bytes) {
    return bytes <= pair->peer_eager && cost(bytes) <= pair->credit;
}

static void send_on_credit(gcoll_tcp_pair *pair, gcoll_message *message) {
    pair->credit -= cost(message->bytes);
    message->flags |= GCOLL_TCP_ON_CREDIT;
    gcoll_tcp_enqueue(pair, message);
}

static void leave_untold(gcoll_tcp_pair *pair, gcoll_slot *slot) {
    if (slot->flags & GCOLL_TCP_UNTOLD) {
        gcoll_untold_unlink(&pair->untold, slot);
        slot->flags &= ~(uint32_t)GCOLL_TCP_UNTOLD;
    }
}

/* Takes a waiting send out of the table. */
static gcoll_message *stop_waiting(gcoll_tcp_pair *pair, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    leave_untold(pair, slot);
    if (slot->flags & GCOLL_TCP_LISTED)
        gcoll_slot_unlink(&pair->waiting, slot);
    if (slot->flags & GCOLL_TCP_ASKED)
        message->flags |= GCOLL_TCP_FOLLOWS;
    gcoll_match_remove(&pair->outgoing, slot);
    return message;
}

/* Sends the fingerprint of a message that may not be offered yet in a frame of its own, so that it stays
 * ahead of later messages of its stream. The message's own frames then say so in place of the fingerprint. */
static void open_ahead(gcoll_tcp_pair *pair, gcoll_message *message) {
    uint8_t bytes[GCOLL_TCP_FIXED_HEADERS];
    gcoll_wire_header header = {
        .kind = GCOLL_WIRE_CREDIT, .flags = GCOLL_WIRE_OPEN, .stream = message->stream};
    message->flags |= GCOLL_TCP_OPENED | GCOLL_TCP_AHEAD;
    gcoll_wire_put_header(bytes, &header);
    memcpy(bytes + GCOLL_WIRE_HEADER_BYTES, message->open, GCOLL_FINGERPRINT_BYTES);
    gcoll_tcp_append_control(pair, bytes, GCOLL_WIRE_HEADER_BYTES + GCOLL_FINGERPRINT_BYTES);
}

/* Offers a waiting message to the peer; beyond the limit of offers, later. */
static void offer(gcoll_tcp_pair *pair, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    gcoll_wire_header header = {.kind = GCOLL_WIRE_OFFER,
                                .index = message->index,
                                .stream = message->stream,
                                .total_bytes = message->bytes};
    size_t count = GCOLL_WIRE_HEADER_BYTES;
    if (slot->flags & GCOLL_TCP_ASKED)
        return;
    if (pair->asked == GCOLL_TCP_PROMISES_MAX) {
        if (message->open)
            open_ahead(pair, message);
        slot->flags |= GCOLL_TCP_UNTOLD;
        gcoll_untold_append(&pair->untold, slot);
        return;
    }
    uint8_t bytes[GCOLL_TCP_FIXED_HEADERS];
    if (message->open && !(message->flags & GCOLL_TCP_OPENED)) {
        header.flags = GCOLL_WIRE_OPEN;
        memcpy(bytes + count, message->open, GCOLL_FINGERPRINT_BYTES);
        count += GCOLL_FINGERPRINT_BYTES;
        message->flags |= GCOLL_TCP_OPENED;
    }
    gcoll_wire_put_header(bytes, &header);
    slot->flags |= GCOLL_TCP_ASKED;
    pair->asked++;
    gcoll_tcp_append_control(pair, bytes, count);
}

void gcoll_tcp_offer_ended(gcoll_tcp_pair *pair) {
    gcoll_slot *slot = pair->untold.oldest;
    pair->asked--;
    if (slot) {
        leave_untold(pair, slot);
        offer(pair, slot);
    }
}

/* Whether a small message that waits for credit is offered: it carries a fingerprint, or may be peeked for.
 */
static bool is_told_of(const gcoll_message *message) {
    return message->open || message->announced;
}

static void wait_for_permission(gcoll_tcp_pair *pair, gcoll_message *message) {
    gcoll_slot *slot = gcoll_match_add(&pair->outgoing, message->stream, message->index);
    bool is_connected = pair->state == GCOLL_TCP_CONNECTED;
    bool is_large = message->bytes > pair->peer_eager;
    if (!slot) {
        out_of_memory(pair);
        return;
    }
    slot->message = message;
    if (!is_connected || !is_large) {
        slot->flags = GCOLL_TCP_LISTED;
        gcoll_slot_append(&pair->waiting, slot);
    }
    if (is_connected && (is_large || is_told_of(message)))
        offer(pair, slot);
}

void gcoll_tcp_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    gcoll_tcp_pair *pair = pair_for(tcp, peer);
    if (!pair || pair->state >= GCOLL_TCP_DEPARTED)
        return;
    message->moved = 0;
    message->flags = 0;
    gcoll_slot *slot = gcoll_match_find(&pair->outgoing, message->stream, message->index);
    if (slot && slot->message) {
        gcoll_tcp_fail(pair, GCOLL_ERR_INTERNAL, "was sent two messages (%llu, %u)",
                       (unsigned long long)message->stream, message->index);
    } else if (slot) {
        gcoll_match_remove(&pair->outgoing, slot);
        pair->promised--;
        gcoll_tcp_enqueue(pair, message);
    } else if (!pair->waiting.oldest && has_credit(pair, message->bytes)) {
        send_on_credit(pair, message);
    } else {
        wait_for_permission(pair, message);
    }
}

/* Sends small messages in the order of posting while there is credit. */
static void send_waiting(gcoll_tcp_pair *pair) {
    while (pair->waiting.oldest && has_credit(pair, pair->waiting.oldest->message->bytes))
        send_on_credit(pair, stop_waiting(pair, pair->waiting.oldest));
}

void gcoll_tcp_flow_start(gcoll_tcp_pair *pair) {
    gcoll_slot *slot = pair->waiting.oldest;
    while (slot) {
        gcoll_slot *newer = slot->newer;
        if (slot->message->bytes > pair->peer_eager) {
            gcoll_slot_unlink(&pair->waiting, slot);
            slot->flags &= ~(uint32_t)GCOLL_TCP_LISTED;
            offer(pair, slot);
        }
        slot = newer;
    }
    send_waiting(pair);
    for (slot = pair->waiting.oldest; slot; slot = slot->newer)
        if (is_told_of(slot->message))
            offer(pair, slot);
}

void gcoll_tcp_on_credit(gcoll_tcp_pair *pair, uint32_t credit) {
    if (credit > pair->peer_pool - pair->credit) {
        gcoll_tcp_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%u bytes of credit where %llu were used)",
                       credit, (unsigned long long)(pair->peer_pool - pair->credit));
        return;
    }
    pair->credit += credit;
    send_waiting(pair);
}

void gcoll_tcp_on_grant(gcoll_tcp_pair *pair, const gcoll_wire_header *header) {
    gcoll_slot *slot = gcoll_match_find(&pair->outgoing, header->stream, header->index);
    if (slot && slot->message) {
        gcoll_tcp_enqueue(pair, stop_waiting(pair, slot));
        send_waiting(pair); /* it may have been the oldest, which blocked the others */
        return;
    }
    if (slot || pair->promised == GCOLL_TCP_PROMISES_MAX) {
        gcoll_tcp_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%s)",
                       slot ? "a grant twice" : "too many grants");
        return;
    }
    slot = gcoll_match_add(&pair->outgoing, header->stream, header->index);
    if (!slot) {
        out_of_memory(pair);
        return;
    }
    slot->flags = GCOLL_TCP_PROMISED;
    pair->promised++;
}

void gcoll_tcp_on_revoke(gcoll_tcp_pair *pair, const gcoll_wire_header *header) {
    gcoll_slot *slot = gcoll_match_find(&pair->outgoing, header->stream, header->index);
    if (!slot || slot->message) {
        gcoll_tcp_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (a revoke without a grant)");
        return;
    }
    gcoll_match_remove(&pair->outgoing, slot);
    pair->promised--;
}

/* ---- Receiving ------------------------------------------------------------------------------------- */

/* Whether the peer has used up its offers. Then it cannot say that it waits with a message larger than its
 * receive. */
static bool is_mute(const gcoll_tcp_pair *pair) {
    return pair->offered == GCOLL_TCP_PROMISES_MAX;
}

static bool wants_grant(const gcoll_tcp_pair *pair, const gcoll_slot *slot) {
    return slot->message->bytes > pair->tcp->eager_bytes || (slot->flags & GCOLL_TCP_OFFERED) ||
           is_crowded(pair) || (slot->message->any_size && is_mute(pair));
}

static void leave_ungranted(gcoll_tcp_pair *pair, gcoll_slot *slot) {
    if (slot->flags & GCOLL_TCP_UNGRANTED) {
        gcoll_slot_unlink(&pair->ungranted, slot);
        slot->flags &= ~(uint32_t)GCOLL_TCP_UNGRANTED;
    }
}

/* Grants a receive; its slot must be in the ungranted list. */
static void grant(gcoll_tcp_pair *pair, gcoll_slot *slot) {
    if (pair->granted == GCOLL_TCP_PROMISES_MAX) {
        pair->starved = true;
        return;
    }
    leave_ungranted(pair, slot);
    slot->flags |= GCOLL_TCP_GRANTED;
    pair->granted++;
    gcoll_tcp_send_control(pair, GCOLL_WIRE_GRANT, slot->stream, slot->index);
}

static void grant_those_who_want(gcoll_tcp_pair *pair) {
    gcoll_slot *slot = pair->ungranted.oldest;
    while (slot) {
        gcoll_slot *newer = slot->newer;
        if (wants_grant(pair, slot))
            grant(pair, slot);
        slot = newer;
    }
}

static void mismatch(gcoll_tcp_pair *pair, uint64_t sent, uint64_t expected) {
    gcoll_tcp_fail(pair, GCOLL_ERR_MISMATCH, "sent %llu bytes where %llu were expected",
                   (unsigned long long)sent, (unsigned long long)expected);
}

void gcoll_tcp_finish_recv(gcoll_tcp_pair *pair, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    if (slot->flags & GCOLL_TCP_CREDITED) {
        pair->owed += cost(slot->total);
        if (pair->owed >= gcoll_tcp_credit_step(pair))
            gcoll_tcp_want_output(pair);
    }
    message->opened = (slot->flags & GCOLL_TCP_HAS_OPEN) != 0;
    gcoll_match_remove(&pair->incoming, slot);
    pair->posted -= !message->background;
    gcoll_tcp_complete(pair->tcp, message);
}

/* Hands bytes that arrived before the receive was posted to the receive. */
static void take_held(gcoll_tcp_pair *pair, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    uint64_t early = slot->received;
    if (message->consume) {
        slot->received = 0;
        gcoll_tcp_consume(pair, slot, slot->held, early);
    } else if (early > 0) {
        memcpy(message->data, slot->held, (size_t)early);
    }
    gcoll_slot_let_go(slot);
    pair->held -= slot->total;
    if (slot->received == slot->total)
        gcoll_tcp_finish_recv(pair, slot);
}

/* Counts a posted receive: each poll reads the sockets of pairs with posted receives. */
static void count_posted(gcoll_tcp_pair *pair, const gcoll_message *message) {
    if (!message->background) {
        pair->posted++;
        gcoll_tcp_make_hot(pair);
    }
}

static void post_to_known(gcoll_tcp_pair *pair, gcoll_slot *slot, gcoll_message *message) {
    if (slot->message) {
        gcoll_tcp_fail(pair, GCOLL_ERR_INTERNAL, "was asked twice for message (%llu, %u)",
                       (unsigned long long)message->stream, message->index);
        return;
    }
    if (!gcoll_message_take_size(message, slot->total)) {
        mismatch(pair, slot->total, message->bytes);
        return;
    }
    slot->message = message;
    count_posted(pair, message);
    if (slot->flags & GCOLL_TCP_STARTED) {
        take_held(pair, slot);
        return;
    }
    slot->flags |= GCOLL_TCP_UNGRANTED;
    gcoll_slot_append(&pair->ungranted, slot);
    grant(pair, slot);
}

void gcoll_tcp_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    gcoll_tcp_pair *pair = pair_for(tcp, peer);
    if (!pair || pair->state == GCOLL_TCP_FAILED)
        return;
    message->moved = 0;
    message->flags = 0;
    if (message->consume && (message->granule == 0 || message->granule > GCOLL_GRANULE_MAX)) {
        gcoll_tcp_fail(pair, GCOLL_ERR_INTERNAL, "was asked for elements of %u bytes", message->granule);
        return;
    }
    gcoll_slot *slot = gcoll_match_find(&pair->incoming, message->stream, message->index);
    if (slot) {
        post_to_known(pair, slot, message);
        return;
    }
    if (pair->state == GCOLL_TCP_DEPARTED)
        return;
    slot = gcoll_match_add(&pair->incoming, message->stream, message->index);
    if (!slot) {
        out_of_memory(pair);
        return;
    }
    slot->message = message;
    slot->flags = GCOLL_TCP_UNGRANTED;
    gcoll_slot_append(&pair->ungranted, slot);
    count_posted(pair, message);
    if (wants_grant(pair, slot))
        grant(pair, slot);
}

/* Ends the current wait when a message without a receive arrives, if a caller peeks. */
static void notice(gcoll_tcp_pair *pair, const gcoll_slot *slot) {
    if (!slot->message && pair->tcp->curious)
        pair->tcp->moved = true;
}

bool gcoll_tcp_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index,
                    uint64_t *bytes) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    const gcoll_tcp_pair *pair = tcp->pairs[peer];
    const gcoll_slot *slot = pair ? gcoll_match_find(&pair->incoming, stream, index) : NULL;
    bool found = slot && !slot->message;
    if (found)
        *bytes = slot->total;
    else
        tcp->curious = true;
    return found;
}

/* Cancels a posted receive. False once it is granted or has begun, as the peer may already be sending. */
bool gcoll_tcp_take_back(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    gcoll_tcp_pair *pair = tcp->pairs[peer];
    gcoll_slot *slot = pair ? gcoll_match_find(&pair->incoming, message->stream, message->index) : NULL;
    if (!slot || slot->message != message)
        return !gcoll_message_is_queued(&tcp->completed,
                                        message); /* if not queued, it was dropped when the peer left */
    if (slot->flags & (GCOLL_TCP_STARTED | GCOLL_TCP_GRANTED | GCOLL_TCP_OFFERED))
        return false;
    leave_ungranted(pair, slot);
    gcoll_match_remove(&pair->incoming, slot);
    pair->posted -= !message->background;
    return true;
}

void gcoll_tcp_on_offer(gcoll_tcp_pair *pair, const gcoll_wire_header *header) {
    gcoll_slot *slot = gcoll_match_find(&pair->incoming, header->stream, header->index);
    if (pair->offered == GCOLL_TCP_PROMISES_MAX ||
        (slot && (slot->flags & (GCOLL_TCP_STARTED | GCOLL_TCP_OFFERED)))) {
        gcoll_tcp_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%s)",
                       slot ? "an offer of a message that has come" : "too many offers");
        return;
    }
    if (slot && !gcoll_message_take_size(slot->message, header->total_bytes)) {
        mismatch(pair, header->total_bytes, slot->message->bytes);
        return;
    }
    if (!slot) {
        slot = gcoll_match_add(&pair->incoming, header->stream, header->index);
        if (!slot) {
            out_of_memory(pair);
            return;
        }
    }
    slot->total = header->total_bytes;
    slot->flags |= GCOLL_TCP_OFFERED | (header->flags & GCOLL_WIRE_OPEN ? GCOLL_TCP_HAS_OPEN : 0U);
    notice(pair, slot);
    pair->offered++;
    if (slot->flags & GCOLL_TCP_UNGRANTED)
        grant(pair, slot);
    if (is_mute(pair))
        grant_those_who_want(pair);
}

/* Whether the peer may send this message now. If so, a posted receive of any size gets the message's size. */
static bool may_start(gcoll_tcp_pair *pair, const gcoll_wire_header *header, const gcoll_slot *slot) {
    const gcoll_tcp *tcp = pair->tcp;
    const bool differs = slot && slot->message && slot->message->bytes != header->total_bytes;
    const bool mismatches = differs && !slot->message->any_size;
    const char *wrong = NULL;
    if (!(header->flags & GCOLL_WIRE_CREDITED))
        wrong = !slot || !(slot->flags & GCOLL_TCP_GRANTED) ? "a message that was not granted" : NULL;
    else if (mismatches)
        wrong = NULL; /* a mismatch is the better diagnosis */
    else if (header->total_bytes > tcp->eager_bytes)
        wrong = "a message too large for credit";
    else if (cost(header->total_bytes) > tcp->pool_bytes - pair->used)
        wrong = "more messages than it had credit for";
    if (wrong) {
        gcoll_tcp_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", wrong);
        return false;
    }
    if (mismatches) {
        mismatch(pair, header->total_bytes, slot->message->bytes);
        return false;
    }
    if (slot && (slot->flags & GCOLL_TCP_OFFERED) && slot->total != header->total_bytes) {
        gcoll_tcp_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (a message of another size than offered)");
        return false;
    }
    if (differs)
        gcoll_message_take_size(slot->message, header->total_bytes);
    return true;
}

/* Updates credit, grants and offers when a message begins to arrive. */
static void start(gcoll_tcp_pair *pair, gcoll_slot *slot, bool on_credit) {
    bool was_crowded = is_crowded(pair);
    leave_ungranted(pair, slot);
    if (slot->flags & GCOLL_TCP_OFFERED)
        pair->offered--;
    if (slot->flags & GCOLL_TCP_GRANTED) {
        pair->granted--;
        if (on_credit)
            gcoll_tcp_send_control(pair, GCOLL_WIRE_REVOKE, slot->stream, slot->index);
    }
    slot->flags =
        (slot->flags & GCOLL_TCP_HAS_OPEN) | GCOLL_TCP_STARTED | (on_credit ? GCOLL_TCP_CREDITED : 0U);
    if (on_credit)
        pair->used += cost(slot->total);
    if ((is_crowded(pair) && !was_crowded) ||
        (pair->starved && pair->granted <= GCOLL_TCP_PROMISES_MAX / 2)) {
        pair->starved = false;
        grant_those_who_want(pair);
    }
}

/* Accepts a message that says that its fingerprint came before it. False if no such fingerprint is left: the
 * pair failed.
 */
static bool take_ahead(gcoll_tcp_pair *pair) {
    if (pair->opened_ahead == 0) {
        gcoll_tcp_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (a message whose fingerprint did not come)");
        return false;
    }
    pair->opened_ahead--;
    return true;
}

static gcoll_slot *first_fragment(gcoll_tcp_pair *pair, const gcoll_wire_header *header, gcoll_slot *slot) {
    if (!may_start(pair, header, slot) || ((header->flags & GCOLL_WIRE_AHEAD) && !take_ahead(pair)))
        return NULL;
    if (!slot)
        slot = gcoll_match_add(&pair->incoming, header->stream, header->index);
    if (!slot || (!slot->message && !gcoll_slot_hold(slot, header->total_bytes))) {
        out_of_memory(pair);
        return NULL;
    }
    slot->total = header->total_bytes;
    slot->flags |= header->flags & (GCOLL_WIRE_OPEN | GCOLL_WIRE_AHEAD) ? GCOLL_TCP_HAS_OPEN : 0U;
    if (!slot->message)
        pair->held += slot->total;
    start(pair, slot, (header->flags & GCOLL_WIRE_CREDITED) != 0);
    notice(pair, slot);
    return slot;
}

gcoll_slot *gcoll_tcp_on_data(gcoll_tcp_pair *pair, const gcoll_wire_header *header) {
    gcoll_slot *slot = gcoll_match_find(&pair->incoming, header->stream, header->index);
    bool on_credit = (header->flags & GCOLL_WIRE_CREDITED) != 0;
    if (!slot || !(slot->flags & GCOLL_TCP_STARTED))
        return first_fragment(pair, header, slot);
    if (header->total_bytes != slot->total || header->fragment_bytes > slot->total - slot->received ||
        on_credit != ((slot->flags & GCOLL_TCP_CREDITED) != 0) || slot->received == slot->total) {
        gcoll_tcp_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (a fragment that does not fit its message)");
        return NULL;
    }
    return slot;
}
