/*
 * transport/shm/pull.c - messages that the receiver reads where they lie: in a block of the sender's that the
 * receiver has mapped (blocks.c).
 *
 * Flow control decides when such a message may go, as of any other. What goes is a reference of a line or
 * two. The receiver copies or reduces the message straight from the sender's memory, in pieces between which
 * it looks at everything else, and counts it in the memory that both map; then the send is done.
 *
 * A sender whose session ends gives its callers their memory back, and they may change it. It says so in the
 * shared memory first. The receiver looks at that when it has read a whole message, and completes no message
 * that was withdrawn, as some of it may have been read too late.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/shm/shm.h"

/* Read at a time; what the receiver reduces stays in its cache meanwhile. */
#define PIECE_BYTES (UINT64_C(128) << 10)
/* A peer that withdraws a message has ended the session, of which the news is on its way. */
#define NEWS_MS 1000

static gcoll_ring_side *side_of(const gcoll_shm_pair *pair, uint32_t which) {
    return gcoll_ring_side_of(pair->memory, which);
}

/* ---- Sending ---------------------------------------------------------------------------------------- */

bool gcoll_shm_put_reference(gcoll_shm_pair *pair, const gcoll_block_place *place) {
    gcoll_message *message = pair->messages.first;
    const uint8_t *open = message->flags & GCOLL_FLOW_OPENED ? NULL : message->open;
    const gcoll_shm_reference reference = {.block = place->id, .offset = place->offset};
    gcoll_ring_head head = {.word = GCOLL_RING_MARK | GCOLL_SHM_REFERS | (open ? GCOLL_RING_OPEN : 0U) |
                                    (message->flags & GCOLL_FLOW_ON_CREDIT ? GCOLL_RING_CREDITED : 0U) |
                                    (message->flags & GCOLL_FLOW_AHEAD ? GCOLL_RING_AHEAD : 0U),
                            .bytes = sizeof reference,
                            .stream = message->stream,
                            .total = message->bytes,
                            .index = message->index};
    if (!gcoll_shm_put(pair, &head, open, &reference))
        return false;
    gcoll_message_push(&pair->pulls.lent, gcoll_message_pop(&pair->messages));
    pair->pulls.lent_count++;
    pair->pulls.lent_bytes += message->bytes;
    message->flags |= open ? GCOLL_FLOW_OPENED : 0U;
    gcoll_flow_sent(pair->flow, message);
    return true;
}

bool gcoll_shm_end_lent(gcoll_shm_pair *pair) {
    gcoll_shm_pulls *pulls = &pair->pulls;
    if (!pulls->lent.first)
        return false;
    const uint64_t pulled = __atomic_load_n(&side_of(pair, 1 - pair->which)->pulled, __ATOMIC_ACQUIRE);
    if (pulled - pulls->returned > pulls->lent_count - pulls->returned) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL,
                           "sent garbage (it has read more messages than were lent)");
        return false;
    }
    const bool has_news = pulled != pulls->returned;
    const uint64_t pulled_bytes =
        __atomic_load_n(&side_of(pair, 1 - pair->which)->pulled_bytes, __ATOMIC_RELAXED);
    if (pulled_bytes != pulls->seen_bytes) /* a part of one that takes long */
        gcoll_net_moved(pair->shm->net);
    pulls->seen_bytes = pulled_bytes;
    for (; pulls->returned != pulled; pulls->returned++) {
        gcoll_net_moved(pair->shm->net);
        gcoll_session_complete(pair->session, gcoll_message_pop(&pulls->lent));
    }
    return has_news;
}

/* ---- Receiving -------------------------------------------------------------------------------------- */

void gcoll_shm_on_reference(gcoll_shm_pair *pair, const gcoll_flow_frame *frame, const uint8_t *payload) {
    gcoll_shm_reference to;
    memcpy(&to, payload, sizeof to);
    /* Read once, whatever the compiler would rather do: the peer may change it. */
    __asm__ volatile("" : "+m"(to));
    gcoll_shm_mapped *block = gcoll_shm_find_block(pair, to.block);
    if (!block || to.offset > block->bytes || frame->total > block->bytes - to.offset) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL, "sent garbage (%s)",
                           block ? "a message beyond its block"
                                 : "a message in a block that it has not lent");
        return;
    }
    gcoll_slot *slot = gcoll_flow_begin(pair->flow, frame);
    if (!slot)
        return;
    gcoll_shm_pull *pull = malloc(sizeof *pull);
    if (!pull) {
        gcoll_flow_out_of_memory(pair->flow);
        return;
    }
    *pull = (gcoll_shm_pull){.slot = slot, .block = block, .from = block->memory + to.offset};
    block->uses++;
    slot->flags |= GCOLL_FLOW_LANE;
    if (pair->pulls.last)
        pair->pulls.last->next = pull;
    else
        pair->pulls.first = pull;
    pair->pulls.last = pull;
}

static gcoll_slot *end_first(gcoll_shm_pair *pair) {
    gcoll_shm_pull *pull = pair->pulls.first;
    gcoll_slot *slot = pull->slot;
    pair->pulls.first = pull->next;
    if (!pair->pulls.first)
        pair->pulls.last = NULL;
    gcoll_shm_leave_block(pair, pull->block);
    free(pull);
    return slot;
}

/* The first message has been read whole. */
static void finish(gcoll_shm_pair *pair) {
    gcoll_slot *slot = end_first(pair);
    gcoll_ring_fence(); /* it was read before this look */
    if (__atomic_load_n(&side_of(pair, 1 - pair->which)->withdrawn, __ATOMIC_RELAXED) != 0) {
        gcoll_session_doubt(pair->session, NEWS_MS, true, "took back a message that was being received");
        return;
    }
    /* Counted first: when the receiver's caller knows of it and closes, so will the sender. */
    __atomic_store_n(&side_of(pair, pair->which)->pulled, ++pair->pulls.count, __ATOMIC_RELEASE);
    pair->has_published = true;
    if (slot->message)
        gcoll_flow_finish(pair->flow, slot);
}

bool gcoll_shm_pull_some(gcoll_shm_pair *pair) {
    gcoll_shm_pull *pull = pair->pulls.first;
    if (!pull)
        return false;
    gcoll_slot *slot = pull->slot;
    const uint64_t left = slot->total - slot->received;
    uint64_t count = left;
    if (left > PIECE_BYTES)
        count = PIECE_BYTES -
                (slot->message && slot->message->consume ? PIECE_BYTES % slot->message->granule : 0);
    gcoll_session_put(pair->session, slot, gcoll_shm_land(pair, slot, pull->from + slot->received, count),
                      count);
    pair->pulls.bytes += count;
    __atomic_store_n(&side_of(pair, pair->which)->pulled_bytes, pair->pulls.bytes, __ATOMIC_RELAXED);
    gcoll_net_moved(pair->shm->net);
    gcoll_net_look_in_time(pair->shm->net);
    if (count == left)
        finish(pair);
    return true;
}

/* ---- Dropping --------------------------------------------------------------------------------------- */

void gcoll_shm_withdraw(gcoll_shm_pair *pair) {
    if (pair->pulls.lent.first) {
        __atomic_store_n(&side_of(pair, pair->which)->withdrawn, 1, __ATOMIC_RELAXED);
        gcoll_ring_fence(); /* before the memory is its owner's again */
    }
    gcoll_message_queue_clear(&pair->pulls.lent);
    while (pair->pulls.first)
        end_first(pair);
}
