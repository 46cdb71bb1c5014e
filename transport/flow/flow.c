/* transport/flow/flow.c - the rules of flow.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "transport/flow/flow.h"
#include "transport/size.h"

#define FAILURE_TEXT 192

static uint64_t cost(uint64_t bytes) {
    return bytes + GCOLL_FLOW_OVERHEAD_BYTES;
}

static bool is_crowded(const gcoll_flow *flow) {
    return flow->used > flow->pool_bytes / 2;
}

static void GCOLL_PRINTF(3, 4) fail(gcoll_flow *flow, gcoll_status status, const char *format, ...) {
    char text[FAILURE_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    flow->lane->fail(flow, status, text);
}

static void garbage(gcoll_flow *flow, const char *what) {
    fail(flow, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", what);
}

void gcoll_flow_out_of_memory(gcoll_flow *flow) {
    fail(flow, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", flow->peer);
}

static void mismatch(gcoll_flow *flow, uint64_t sent, uint64_t expected) {
    fail(flow, GCOLL_ERR_MISMATCH, "sent %llu bytes where %llu were expected", (unsigned long long)sent,
         (unsigned long long)expected);
}

static void out_of_step(gcoll_flow *flow, const char *what, const gcoll_message *message) {
    fail(flow, GCOLL_ERR_INTERNAL, "%s (%llu, %u)", what, (unsigned long long)message->stream,
         message->index);
}

static bool has_pieces(const gcoll_flow *flow, const gcoll_message *message) {
    const gcoll_flow_pieces *pieces = flow->lane->pieces;
    return pieces && pieces->takes(flow, message);
}

/* ---- Made, dropped --------------------------------------------------------------------------------- */

void gcoll_flow_init(gcoll_flow *flow, const gcoll_flow_lane *lane, uint32_t peer, uint64_t eager_bytes,
                     uint64_t pool_bytes) {
    flow->lane = lane;
    flow->peer = peer;
    flow->eager_bytes = eager_bytes;
    flow->pool_bytes = pool_bytes;
    flow->promises_max = GCOLL_FLOW_PROMISES_MAX;
}

void gcoll_flow_set_lane(gcoll_flow *flow, const gcoll_flow_lane *lane, uint64_t eager_bytes,
                         uint64_t pool_bytes) {
    flow->lane = lane;
    flow->eager_bytes = eager_bytes;
    flow->pool_bytes = pool_bytes;
}

static void forget(void *arg, gcoll_slot *slot) {
    gcoll_flow *flow = arg;
    if (slot->message && flow->lane->forget)
        flow->lane->forget(flow, slot->message);
}

void gcoll_flow_drop_sends(gcoll_flow *flow) {
    gcoll_match_visit(&flow->outgoing, forget, flow);
    gcoll_match_clear(&flow->outgoing);
    memset(&flow->waiting, 0, sizeof flow->waiting);
    memset(&flow->untold, 0, sizeof flow->untold);
    flow->promised = flow->asked = 0;
}

void gcoll_flow_drop(gcoll_flow *flow) {
    gcoll_flow_drop_sends(flow);
    gcoll_match_visit(&flow->incoming, forget, flow);
    gcoll_match_clear(&flow->incoming);
    memset(&flow->ungranted, 0, sizeof flow->ungranted);
    flow->granted = flow->offered = 0;
    flow->held = 0;
}

/* Drops a posted receive or an incomplete message of a departed peer: it will never be complete. */
static void drop_if_hopeless(void *arg, gcoll_slot *slot) {
    gcoll_flow *flow = arg;
    if (!slot->message && (slot->flags & GCOLL_FLOW_STARTED) && slot->received == slot->total)
        return;
    if (slot->held)
        flow->held -= slot->total;
    forget(flow, slot);
    gcoll_match_remove(&flow->incoming, slot);
}

void gcoll_flow_depart(gcoll_flow *flow) {
    gcoll_flow_drop_sends(flow);
    memset(&flow->ungranted, 0, sizeof flow->ungranted);
    gcoll_match_visit(&flow->incoming, drop_if_hopeless, flow);
    flow->granted = flow->offered = 0;
}

/* ---- Sending --------------------------------------------------------------------------------------- */

/* Whether the message may only be sent when it is granted, or in pieces that are. */
static bool is_large(const gcoll_flow *flow, const gcoll_message *message) {
    return message->bytes > flow->peer_eager || has_pieces(flow, message);
}

static bool has_credit(const gcoll_flow *flow, const gcoll_message *message) {
    return flow->is_connected && cost(message->bytes) <= flow->credit && !is_large(flow, message);
}

static void take_credit(gcoll_flow *flow, gcoll_message *message) {
    flow->credit -= cost(message->bytes);
    message->flags |= GCOLL_FLOW_ON_CREDIT;
}

static void send_on_credit(gcoll_flow *flow, gcoll_message *message) {
    take_credit(flow, message);
    flow->lane->enqueue(flow, message);
}

void gcoll_flow_leave_untold(gcoll_flow *flow, gcoll_slot *slot) {
    if (slot->flags & GCOLL_FLOW_UNTOLD) {
        gcoll_untold_unlink(&flow->untold, slot);
        slot->flags &= ~(uint32_t)GCOLL_FLOW_UNTOLD;
    }
}

gcoll_message *gcoll_flow_stop_waiting(gcoll_flow *flow, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    gcoll_flow_leave_untold(flow, slot);
    if (slot->flags & GCOLL_FLOW_LISTED)
        gcoll_slot_unlink(&flow->waiting, slot);
    if (slot->flags & GCOLL_FLOW_ASKED)
        message->flags |= GCOLL_FLOW_FOLLOWS;
    gcoll_match_remove(&flow->outgoing, slot);
    return message;
}

/* Sends the fingerprint of a message that may not be offered yet by itself, so that it stays ahead of later
 * messages of its stream. Once the message is known to the receiver, it is told that this was its own. */
static void open_ahead(gcoll_flow *flow, gcoll_message *message) {
    const gcoll_flow_frame control = {
        .kind = GCOLL_FLOW_OPENING, .stream = message->stream, .open = message->open};
    if (message->open && !(message->flags & GCOLL_FLOW_OPENED)) {
        message->flags |= GCOLL_FLOW_OPENED | GCOLL_FLOW_AHEAD;
        flow->lane->control(flow, &control);
    }
}

static void send_offer(gcoll_flow *flow, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    gcoll_flow_frame control = {.kind = GCOLL_FLOW_OFFER,
                                .index = message->index,
                                .stream = message->stream,
                                .total = message->bytes};
    gcoll_flow_leave_untold(flow, slot);
    if (message->open && !(message->flags & GCOLL_FLOW_OPENED)) {
        control.open = message->open;
        message->flags |= GCOLL_FLOW_OPENED;
    }
    slot->flags |= GCOLL_FLOW_ASKED;
    flow->asked++;
    flow->lane->control(flow, &control);
}

void gcoll_flow_offer(gcoll_flow *flow, gcoll_slot *slot) {
    if (slot->flags & (GCOLL_FLOW_ASKED | GCOLL_FLOW_UNTOLD))
        return;
    if (flow->asked < flow->promises_max) {
        send_offer(flow, slot);
        return;
    }
    open_ahead(flow, slot->message);
    slot->flags |= GCOLL_FLOW_UNTOLD;
    gcoll_untold_append(&flow->untold, slot);
}

void gcoll_flow_offer_granted(gcoll_flow *flow, gcoll_slot *slot) {
    if (!(slot->flags & GCOLL_FLOW_ASKED))
        send_offer(flow, slot);
}

void gcoll_flow_offer_ended(gcoll_flow *flow) {
    flow->asked--;
    if (flow->untold.oldest && flow->asked < flow->promises_max)
        send_offer(flow, flow->untold.oldest);
}

/* Whether a small message that waits for credit is offered: it carries a fingerprint, or may be peeked for.
 */
static bool is_told_of(const gcoll_message *message) {
    return message->open || message->announced;
}

static void wait_for_permission(gcoll_flow *flow, gcoll_message *message, bool is_granted) {
    gcoll_slot *slot = gcoll_match_add(&flow->outgoing, message->stream, message->index);
    if (!slot) {
        gcoll_flow_out_of_memory(flow);
        return;
    }
    slot->message = message;
    if (!flow->is_connected || !is_large(flow, message)) {
        slot->flags = GCOLL_FLOW_LISTED;
        gcoll_slot_append(&flow->waiting, slot);
    }
    if (is_granted)
        gcoll_flow_offer_granted(flow, slot);
    else if (flow->is_connected && (is_large(flow, message) || is_told_of(message)))
        gcoll_flow_offer(flow, slot);
}

void gcoll_flow_send(gcoll_flow *flow, gcoll_message *message, bool is_granted) {
    if (!flow->waiting.oldest && has_credit(flow, message))
        send_on_credit(flow, message);
    else
        wait_for_permission(flow, message, is_granted);
}

bool gcoll_flow_send_now(gcoll_flow *flow, gcoll_message *message) {
    if (flow->waiting.oldest || !has_credit(flow, message)) /* a grant that came before is revoked */
        return false;
    message->moved = 0;
    message->flags = 0;
    take_credit(flow, message);
    return true;
}

/* Sends a message that was granted before it was posted. */
static void send_promised(gcoll_flow *flow, gcoll_slot *slot, gcoll_message *message) {
    message->flags |= slot->flags & GCOLL_FLOW_PLAIN ? GCOLL_FLOW_GRANTED_PLAIN : 0U;
    gcoll_match_remove(&flow->outgoing, slot);
    flow->promised--;
    if (has_pieces(flow, message)) /* the receiver expects another size, and the offer tells it */
        wait_for_permission(flow, message, true);
    else
        flow->lane->enqueue(flow, message);
}

void gcoll_flow_post_send(gcoll_flow *flow, gcoll_message *message) {
    message->moved = 0;
    message->flags = 0;
    gcoll_slot *slot = gcoll_match_find(&flow->outgoing, message->stream, message->index);
    if (!slot)
        gcoll_flow_send(flow, message, false);
    else if (slot->message)
        out_of_step(flow, "was sent two messages", message);
    else if (slot->flags & GCOLL_FLOW_PROMISED)
        send_promised(flow, slot, message);
    else
        flow->lane->pieces->post(flow, slot, message);
}

/* Sends small messages in the order of posting while there is credit. */
static void send_waiting(gcoll_flow *flow) {
    while (flow->waiting.oldest && has_credit(flow, flow->waiting.oldest->message))
        send_on_credit(flow, gcoll_flow_stop_waiting(flow, flow->waiting.oldest));
}

static void await(gcoll_flow *flow, gcoll_slot *slot);

/* Grants the receives that were posted before the connection stood. */
static void sort_receives(gcoll_flow *flow) {
    gcoll_slot *slot = flow->ungranted.oldest;
    memset(&flow->ungranted, 0, sizeof flow->ungranted);
    while (slot) {
        gcoll_slot *newer = slot->newer;
        slot->flags &= ~(uint32_t)GCOLL_FLOW_UNGRANTED;
        await(flow, slot);
        slot = newer;
    }
}

void gcoll_flow_connect(gcoll_flow *flow, uint64_t peer_eager, uint64_t peer_pool) {
    gcoll_slot *slot = flow->waiting.oldest;
    flow->is_connected = true;
    flow->peer_eager = peer_eager;
    flow->peer_pool = flow->credit = peer_pool;
    while (slot) {
        gcoll_slot *newer = slot->newer;
        if (is_large(flow, slot->message)) {
            gcoll_slot_unlink(&flow->waiting, slot);
            slot->flags &= ~(uint32_t)GCOLL_FLOW_LISTED;
            gcoll_flow_offer(flow, slot);
        }
        slot = newer;
    }
    send_waiting(flow);
    for (slot = flow->waiting.oldest; slot; slot = slot->newer)
        if (is_told_of(slot->message))
            gcoll_flow_offer(flow, slot);
    sort_receives(flow);
}

void gcoll_flow_on_credit(gcoll_flow *flow, uint32_t credit) {
    const uint64_t used = flow->peer_pool - flow->credit;
    if (credit > used) {
        fail(flow, GCOLL_ERR_PROTOCOL, "sent garbage (%u bytes of credit where %llu were used)", credit,
             (unsigned long long)used);
        return;
    }
    flow->credit += credit;
    send_waiting(flow);
}

void gcoll_flow_on_grant(gcoll_flow *flow, uint64_t stream, uint32_t index, bool is_plain) {
    gcoll_slot *slot = gcoll_match_find(&flow->outgoing, stream, index);
    if (slot && slot->message) {
        if (has_pieces(flow, slot->message)) { /* the receiver will notice the different size */
            gcoll_flow_offer_granted(flow, slot);
            return;
        }
        gcoll_message *message = gcoll_flow_stop_waiting(flow, slot);
        message->flags |= is_plain ? GCOLL_FLOW_GRANTED_PLAIN : 0U;
        flow->lane->enqueue(flow, message);
        send_waiting(flow); /* it may have been the oldest, which blocked the others */
        return;
    }
    if (slot || flow->promised == flow->promises_max) {
        garbage(flow, slot ? "a grant twice" : "too many grants");
        return;
    }
    slot = gcoll_match_add(&flow->outgoing, stream, index);
    if (!slot) {
        gcoll_flow_out_of_memory(flow);
        return;
    }
    slot->flags = GCOLL_FLOW_PROMISED | (is_plain ? GCOLL_FLOW_PLAIN : 0U);
    flow->promised++;
}

void gcoll_flow_on_revoke(gcoll_flow *flow, uint64_t stream, uint32_t index) {
    gcoll_slot *slot = gcoll_match_find(&flow->outgoing, stream, index);
    if (!slot || slot->message || !(slot->flags & GCOLL_FLOW_PROMISED)) {
        garbage(flow, "a revoke without a grant");
        return;
    }
    gcoll_match_remove(&flow->outgoing, slot);
    flow->promised--;
}

/* ---- Grants ---------------------------------------------------------------------------------------- */

/* Whether the peer has used up its offers. Then it cannot say that it waits with a message larger than its
 * receive, unless that was granted. */
static bool is_mute(const gcoll_flow *flow) {
    return flow->offered >= flow->promises_max;
}

static bool wants_grant(const gcoll_flow *flow, const gcoll_slot *slot) {
    return slot->message->bytes > flow->eager_bytes || (slot->flags & GCOLL_FLOW_OFFERED) ||
           is_crowded(flow) || (slot->message->any_size && is_mute(flow));
}

static void leave_ungranted(gcoll_flow *flow, gcoll_slot *slot) {
    if (slot->flags & GCOLL_FLOW_UNGRANTED) {
        gcoll_slot_unlink(&flow->ungranted, slot);
        slot->flags &= ~(uint32_t)GCOLL_FLOW_UNGRANTED;
    }
}

/* Grants a receive; its slot must be in the ungranted list. */
static void grant(gcoll_flow *flow, gcoll_slot *slot) {
    const gcoll_flow_frame control = {.kind = GCOLL_FLOW_GRANT,
                                      .index = slot->index,
                                      .stream = slot->stream,
                                      .is_plain = !slot->message->consume};
    if (flow->granted == flow->promises_max) {
        flow->is_starved = true;
        return;
    }
    leave_ungranted(flow, slot);
    slot->flags |= GCOLL_FLOW_GRANTED;
    flow->granted++;
    flow->lane->control(flow, &control);
}

static void grant_those_who_want(gcoll_flow *flow) {
    gcoll_slot *slot = flow->ungranted.oldest;
    while (slot) {
        gcoll_slot *newer = slot->newer;
        if (wants_grant(flow, slot))
            grant(flow, slot);
        slot = newer;
    }
}

/* Makes a posted receive wait for its message, of which nothing has come. */
static void await(gcoll_flow *flow, gcoll_slot *slot) {
    if (flow->is_connected && has_pieces(flow, slot->message)) {
        flow->lane->pieces->await(flow, slot);
        return;
    }
    slot->flags |= GCOLL_FLOW_UNGRANTED;
    gcoll_slot_append(&flow->ungranted, slot);
    if (flow->is_connected && wants_grant(flow, slot))
        grant(flow, slot);
}

/* Gives a posted receive the size of its message, which differs from its own. It then waits in no list.
 * False: the receive does not allow that. */
static bool take_size(gcoll_flow *flow, gcoll_slot *slot, uint64_t total) {
    if (!slot->message->any_size)
        return false;
    leave_ungranted(flow, slot);
    if (flow->lane->pieces)
        flow->lane->pieces->withdraw(flow, slot);
    return gcoll_message_take_size(slot->message, total);
}

/* ---- Receives -------------------------------------------------------------------------------------- */

void gcoll_flow_finish(gcoll_flow *flow, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    if (slot->flags & GCOLL_FLOW_CREDITED) {
        flow->owed += cost(slot->total);
        if (gcoll_flow_owes(flow))
            flow->lane->owe(flow);
    }
    message->opened = (slot->flags & GCOLL_FLOW_HAS_OPEN) != 0;
    gcoll_match_remove(&flow->incoming, slot);
    flow->lane->complete(flow, message);
}

/* One side grants the message's memory in pieces and the other does not: the host would have to touch memory
 * that only devices can access. */
static void mismatch_of_ways(gcoll_flow *flow) {
    fail(flow, GCOLL_ERR_MISMATCH, "sent a message whose memory is granted as if it were not");
}

/* Hands over what came before the receive was posted. */
static void take_held(gcoll_flow *flow, gcoll_slot *slot) {
    flow->lane->deliver(flow, slot);
    gcoll_slot_let_go(slot);
    flow->held -= slot->total;
    if (slot->received == slot->total)
        gcoll_flow_finish(flow, slot);
}

static bool post_to_known(gcoll_flow *flow, gcoll_slot *slot, gcoll_message *message) {
    const bool has_begun = slot->flags & GCOLL_FLOW_STARTED;
    if (slot->message) {
        out_of_step(flow, "was asked twice for message", message);
        return false;
    }
    if (!gcoll_message_take_size(message, slot->total)) {
        mismatch(flow, slot->total, message->bytes);
        return false;
    }
    if (has_begun && has_pieces(flow, message)) {
        mismatch_of_ways(flow);
        return false;
    }
    slot->message = message;
    if (has_begun)
        take_held(flow, slot);
    else
        await(flow, slot);
    return true;
}

bool gcoll_flow_post_recv(gcoll_flow *flow, gcoll_message *message, bool is_last) {
    message->moved = 0;
    message->flags = 0;
    if (message->consume && (message->granule == 0 || message->granule > GCOLL_GRANULE_MAX)) {
        fail(flow, GCOLL_ERR_INTERNAL, "was asked for elements of %u bytes", message->granule);
        return false;
    }
    gcoll_slot *slot = gcoll_match_find(&flow->incoming, message->stream, message->index);
    if (slot)
        return post_to_known(flow, slot, message);
    if (is_last)
        return false;
    slot = gcoll_match_add(&flow->incoming, message->stream, message->index);
    if (!slot) {
        gcoll_flow_out_of_memory(flow);
        return false;
    }
    slot->message = message;
    await(flow, slot);
    return true;
}

bool gcoll_flow_peek(const gcoll_flow *flow, uint64_t stream, uint32_t index, uint64_t *bytes) {
    const gcoll_slot *slot = gcoll_match_find(&flow->incoming, stream, index);
    const bool is_here = slot && !slot->message;
    if (is_here)
        *bytes = slot->total;
    return is_here;
}

gcoll_slot *gcoll_flow_posted(const gcoll_flow *flow, const gcoll_message *message) {
    gcoll_slot *slot = gcoll_match_find(&flow->incoming, message->stream, message->index);
    return slot && slot->message == message ? slot : NULL;
}

bool gcoll_flow_take_back(gcoll_flow *flow, gcoll_slot *slot) {
    if (slot->flags & (GCOLL_FLOW_STARTED | GCOLL_FLOW_GRANTED | GCOLL_FLOW_OFFERED))
        return false;
    leave_ungranted(flow, slot);
    if (flow->lane->pieces)
        flow->lane->pieces->withdraw(flow, slot);
    gcoll_match_remove(&flow->incoming, slot);
    return true;
}

/* ---- Arrivals -------------------------------------------------------------------------------------- */

static void notice(gcoll_flow *flow, const gcoll_slot *slot) {
    if (!slot->message)
        flow->lane->unexpected(flow);
}

void gcoll_flow_on_offer(gcoll_flow *flow, const gcoll_flow_frame *control) {
    gcoll_slot *slot = gcoll_match_find(&flow->incoming, control->stream, control->index);
    /* Without a slot, this rank would have to remember one more message for the peer. */
    if (slot ? (slot->flags & (GCOLL_FLOW_STARTED | GCOLL_FLOW_OFFERED)) != 0 : is_mute(flow)) {
        garbage(flow, slot ? "an offer of a message that has come" : "too many offers");
        return;
    }
    const bool changes = slot && slot->message->bytes != control->total;
    if (changes && !take_size(flow, slot, control->total)) {
        mismatch(flow, control->total, slot->message->bytes);
        return;
    }
    if (!slot) {
        slot = gcoll_match_add(&flow->incoming, control->stream, control->index);
        if (!slot) {
            gcoll_flow_out_of_memory(flow);
            return;
        }
    }
    slot->total = control->total;
    slot->flags |= GCOLL_FLOW_OFFERED | (control->open ? GCOLL_FLOW_HAS_OPEN : 0U);
    notice(flow, slot);
    flow->offered++;
    if (changes && (has_pieces(flow, slot->message) || !(slot->flags & GCOLL_FLOW_GRANTED)))
        await(flow, slot);
    else if (slot->flags & GCOLL_FLOW_UNGRANTED)
        grant(flow, slot);
    else if (slot->message && has_pieces(flow, slot->message))
        flow->lane->pieces->await(flow, slot);
    if (flow->offered == flow->promises_max) /* the peer has just become mute */
        grant_those_who_want(flow);
}

void gcoll_flow_on_opening(gcoll_flow *flow) {
    flow->opened_ahead++;
}

void gcoll_flow_on_control(gcoll_flow *flow, const gcoll_flow_frame *control) {
    switch (control->kind) {
    case GCOLL_FLOW_OFFER:
        gcoll_flow_on_offer(flow, control);
        return;
    case GCOLL_FLOW_GRANT:
        gcoll_flow_on_grant(flow, control->stream, control->index, control->is_plain);
        return;
    case GCOLL_FLOW_REVOKE:
        gcoll_flow_on_revoke(flow, control->stream, control->index);
        return;
    case GCOLL_FLOW_OPENING: /* without a fingerprint it brings credit alone */
        if (control->open)
            gcoll_flow_on_opening(flow);
        return;
    case GCOLL_FLOW_DATA: /* gcoll_flow_begin, gcoll_flow_fragment */
        return;
    }
}

bool gcoll_flow_take_ahead(gcoll_flow *flow) {
    if (flow->opened_ahead == 0) {
        garbage(flow, "a message whose fingerprint did not come");
        return false;
    }
    flow->opened_ahead--;
    return true;
}

/* Whether the peer may send this message now. If so, a posted receive of any size gets the message's size. */
static bool may_begin(gcoll_flow *flow, const gcoll_flow_frame *arrival, gcoll_slot *slot) {
    const bool changes = slot && slot->message && slot->message->bytes != arrival->total;
    const bool mismatches = changes && !slot->message->any_size;
    const char *wrong = NULL;
    if (slot && (slot->flags & GCOLL_FLOW_STARTED))
        wrong = "a message twice";
    else if (!arrival->on_credit)
        wrong = !slot || !(slot->flags & GCOLL_FLOW_GRANTED) ? "a message that was not granted" : NULL;
    else if (mismatches)
        wrong = NULL; /* the mismatch is the better diagnosis */
    else if (arrival->total > flow->eager_bytes)
        wrong = "a message too large for credit";
    else if (cost(arrival->total) > flow->pool_bytes - flow->used)
        wrong = "more messages than it had credit for";
    if (!wrong && !mismatches && slot && (slot->flags & GCOLL_FLOW_OFFERED) && slot->total != arrival->total)
        wrong = "a message of another size than offered";
    if (wrong) {
        garbage(flow, wrong);
        return false;
    }
    if (mismatches) {
        mismatch(flow, arrival->total, slot->message->bytes);
        return false;
    }
    if (changes)
        take_size(flow, slot, arrival->total);
    if (slot && slot->message && has_pieces(flow, slot->message)) {
        mismatch_of_ways(flow);
        return false;
    }
    return true;
}

bool gcoll_flow_recv_now(gcoll_flow *flow, const gcoll_flow_frame *arrival, gcoll_message *message) {
    const bool was_crowded = is_crowded(flow);
    if (arrival->stream != message->stream || arrival->index != message->index ||
        arrival->total != message->bytes || !arrival->on_credit || arrival->is_ahead ||
        arrival->total > flow->eager_bytes || cost(arrival->total) > flow->pool_bytes - flow->used ||
        gcoll_match_find(&flow->incoming, message->stream, message->index))
        return false;
    flow->used += cost(arrival->total);
    if (is_crowded(flow) && !was_crowded)
        grant_those_who_want(flow);
    flow->owed += cost(arrival->total);
    if (gcoll_flow_owes(flow))
        flow->lane->owe(flow);
    message->opened = arrival->open != NULL;
    return true;
}

void gcoll_flow_start(gcoll_flow *flow, gcoll_slot *slot, bool on_credit) {
    const bool was_crowded = is_crowded(flow);
    const gcoll_flow_frame revoke = {.kind = GCOLL_FLOW_REVOKE, .index = slot->index, .stream = slot->stream};
    leave_ungranted(flow, slot);
    if (slot->flags & GCOLL_FLOW_OFFERED)
        flow->offered--;
    if (slot->flags & GCOLL_FLOW_GRANTED) {
        flow->granted--;
        if (on_credit)
            flow->lane->control(flow, &revoke);
    }
    slot->flags &= ~(uint32_t)(GCOLL_FLOW_OFFERED | GCOLL_FLOW_GRANTED);
    slot->flags |= GCOLL_FLOW_STARTED | (on_credit ? GCOLL_FLOW_CREDITED : 0U);
    if (on_credit)
        flow->used += cost(slot->total);
    if ((is_crowded(flow) && !was_crowded) || (flow->is_starved && flow->granted <= flow->promises_max / 2)) {
        flow->is_starved = false;
        grant_those_who_want(flow);
    }
}

static gcoll_slot *begin(gcoll_flow *flow, const gcoll_flow_frame *arrival, gcoll_slot *slot) {
    if (!may_begin(flow, arrival, slot) || (arrival->is_ahead && !gcoll_flow_take_ahead(flow)))
        return NULL;
    if (!slot)
        slot = gcoll_match_add(&flow->incoming, arrival->stream, arrival->index);
    if (!slot || (!slot->message && !gcoll_slot_hold(slot, arrival->total))) {
        gcoll_flow_out_of_memory(flow);
        return NULL;
    }
    slot->total = arrival->total;
    slot->flags |= arrival->open || arrival->is_ahead ? GCOLL_FLOW_HAS_OPEN : 0U;
    if (!slot->message)
        flow->held += slot->total;
    gcoll_flow_start(flow, slot, arrival->on_credit);
    notice(flow, slot);
    return slot;
}

gcoll_slot *gcoll_flow_begin(gcoll_flow *flow, const gcoll_flow_frame *arrival) {
    return begin(flow, arrival, gcoll_match_find(&flow->incoming, arrival->stream, arrival->index));
}

gcoll_slot *gcoll_flow_fragment(gcoll_flow *flow, const gcoll_flow_frame *arrival, uint64_t bytes) {
    gcoll_slot *slot = gcoll_match_find(&flow->incoming, arrival->stream, arrival->index);
    if (!slot || !(slot->flags & GCOLL_FLOW_STARTED))
        return begin(flow, arrival, slot);
    if (arrival->total != slot->total || bytes > slot->total - slot->received ||
        arrival->on_credit != ((slot->flags & GCOLL_FLOW_CREDITED) != 0) || slot->received == slot->total) {
        garbage(flow, "a fragment that does not fit its message");
        return NULL;
    }
    return slot;
}
