/*
 * transport/shm/pull.c - messages that the receiver reads where they lie: in a block of the sender's that the
 * receiver has mapped (blocks.c), or in other memory, by the kernel (reach.c).
 *
 * Flow control decides when such a message may go, as of any other. What goes is a reference of a line or
 * two. The receiver copies or reduces the message straight from a block, copies it straight from other
 * memory, or reduces it after a copy of a piece that stays in the cache. Between pieces it looks at
 * everything else. It counts the message in the memory that both map; then the send is done.
 *
 * The kernel may refuse to read, from one message to the next: rights change, and a sender may have protected
 * its own pages. Then the receiver asks for the rest of the message, which the sender writes into the ring,
 * and this sender refers to no other memory than blocks from then on. The receiver reads no later message
 * before that rest begins to come. So both sides count the lent messages in the same order.
 *
 * A sender whose session ends gives its callers their memory back, and they may change it. It says so in the
 * shared memory first. The receiver looks at that when it has read a whole message, and completes no message
 * that was withdrawn, as some of it may have been read too late.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/shm/shm.h"

/* In gcoll_message.flags: the peer could not read it. */
enum { UNREAD = GCOLL_FLOW_SEND_LANE };

/* A peer that withdraws a message has ended the session, of which the news is on its way. */
#define NEWS_MS 1000

static gcoll_ring_side *side_of(const gcoll_shm_pair *pair, uint32_t which) {
    return gcoll_ring_side_of(pair->memory, which);
}

/* ---- Sending ---------------------------------------------------------------------------------------- */

bool gcoll_shm_is_referred(gcoll_shm_pair *pair, const gcoll_message *message, gcoll_shm_reference *to) {
    gcoll_block_place place;
    if (message->flags & UNREAD)
        return false;
    if (gcoll_shm_is_lent(pair, message, &place))
        *to = (gcoll_shm_reference){.block = place.id, .offset = place.offset};
    else if (gcoll_shm_is_in_reach(pair, message))
        *to = (gcoll_shm_reference){.block = 0, .offset = (uint64_t)(uintptr_t)message->data};
    else
        return false;
    return true;
}

bool gcoll_shm_put_reference(gcoll_shm_pair *pair, const gcoll_shm_reference *to) {
    gcoll_message *message = pair->messages.first;
    const uint8_t *open = message->flags & GCOLL_FLOW_OPENED ? NULL : message->open;
    gcoll_ring_head head = {.word = GCOLL_RING_MARK | GCOLL_SHM_REFERS | (open ? GCOLL_RING_OPEN : 0U) |
                                    (message->flags & GCOLL_FLOW_ON_CREDIT ? GCOLL_RING_CREDITED : 0U) |
                                    (message->flags & GCOLL_FLOW_AHEAD ? GCOLL_RING_AHEAD : 0U),
                            .bytes = sizeof *to,
                            .stream = message->stream,
                            .total = message->bytes,
                            .index = message->index};
    if (!gcoll_shm_put(pair, &head, open, to))
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

void gcoll_shm_on_unread(gcoll_shm_pair *pair, const gcoll_ring_head *head) {
    gcoll_shm_pulls *pulls = &pair->pulls;
    gcoll_shm_end_lent(pair); /* the peer read earlier messages before it asked */
    if (!gcoll_shm_moves(pair))
        return;
    gcoll_message *message = pulls->lent.first;
    if (!message || message->stream != head->stream || message->index != head->index ||
        head->total >= message->bytes) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL,
                           "sent garbage (it asks for a message that was not lent)");
        return;
    }
    gcoll_message_pop(&pulls->lent);
    pulls->lent_count--;
    pulls->lent_bytes -= message->bytes - head->total;
    message->moved = head->total;
    message->flags |= UNREAD;
    pair->is_reached = false;
    gcoll_message_push(&pair->messages, message);
    gcoll_shm_want_output(pair);
}

/* ---- Receiving -------------------------------------------------------------------------------------- */

/* Finds what a reference means. Returns what is wrong with it; NULL: nothing. */
static const char *find(const gcoll_shm_pair *pair, const gcoll_shm_reference *to, uint64_t bytes,
                        gcoll_shm_pull *pull) {
    if (to->block == 0 && pair->reaches) {
        pull->address = to->offset; /* which the kernel checks */
        return bytes > UINT64_MAX - to->offset ? "a message beyond all memory" : NULL;
    }
    gcoll_shm_mapped *block = gcoll_shm_find_block(pair, to->block);
    if (!block)
        return "a message in a block that it has not lent";
    if (to->offset > block->bytes || bytes > block->bytes - to->offset)
        return "a message beyond its block";
    pull->block = block;
    pull->from = block->memory + to->offset;
    return NULL;
}

void gcoll_shm_on_reference(gcoll_shm_pair *pair, const gcoll_flow_frame *frame, const uint8_t *payload) {
    gcoll_shm_reference to;
    memcpy(&to, payload, sizeof to);
    /* Read once, whatever the compiler would rather do: the peer may change it. */
    __asm__ volatile("" : "+m"(to));
    gcoll_shm_pull found = {0};
    const char *wrong = find(pair, &to, frame->total, &found);
    if (wrong) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", wrong);
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
    *pull = found;
    pull->slot = slot;
    if (pull->block)
        pull->block->uses++;
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
    if (pull->block)
        gcoll_shm_leave_block(pair, pull->block);
    free(pull);
    return slot;
}

/* The first message has been read whole. */
static void finish(gcoll_shm_pair *pair) {
    gcoll_slot *slot = end_first(pair);
    gcoll_ring_fence(); /* it was read before this look */
    if (__atomic_load_n(&side_of(pair, 1 - pair->which)->withdrawn, __ATOMIC_RELAXED) != 0) {
        if (!slot->message) /* else a receive that is posted before the news would take what is held */
            slot->received = 0;
        gcoll_session_doubt(pair->session, NEWS_MS, true, "took back a message that was being received");
        return;
    }
    /* Counted first: when the receiver's caller knows of it and closes, so will the sender. */
    __atomic_store_n(&side_of(pair, pair->which)->pulled, ++pair->pulls.count, __ATOMIC_RELEASE);
    pair->has_published = true;
    if (slot->message)
        gcoll_flow_finish(pair->flow, slot);
}

/* Puts the next bytes of a message in a block where they are wanted. */
static void take_mapped(gcoll_shm_pair *pair, const gcoll_shm_pull *pull, uint64_t count) {
    gcoll_slot *slot = pull->slot;
    gcoll_session_put(pair->session, slot, gcoll_shm_land(pair, slot, pull->from + slot->received, count),
                      count);
}

static bool has_piece(gcoll_shm *shm) {
    return shm->piece || (shm->piece = malloc(GCOLL_SHM_PIECE_BYTES));
}

/* Asks the peer to write the rest of the first message, which cannot be read. */
static void ask_for_rest(gcoll_shm_pair *pair) {
    gcoll_shm_pull *pull = pair->pulls.first;
    const gcoll_ring_head head = {.word = GCOLL_RING_MARK | GCOLL_SHM_UNREAD,
                                  .stream = pull->slot->stream,
                                  .total = pull->slot->received,
                                  .index = pull->slot->index};
    if (!gcoll_shm_put_control(pair, &head, NULL))
        return;
    pull->is_asked = true;
    pull->slot->flags &= ~(uint32_t)GCOLL_FLOW_LANE;
}

void gcoll_shm_on_unread_part(gcoll_shm_pair *pair, const gcoll_slot *slot) {
    const gcoll_shm_pull *first = pair->pulls.first;
    if (first && first->is_asked && first->slot == slot)
        end_first(pair);
}

/* The same of a message in other memory. False: they cannot be had; the peer may have been asked for them,
 * and the session may have failed. Where the kernel may not write to the receive's memory, the process does:
 * so a handler of its own for such pages runs, as with any other message. */
static bool take_unmapped(gcoll_shm_pair *pair, const gcoll_shm_pull *pull, uint64_t count) {
    gcoll_shm *shm = pair->shm;
    gcoll_slot *slot = pull->slot;
    const uint64_t from = pull->address + slot->received;
    bool by_piece = slot->message && slot->message->consume;
    int error = 0;
    if (!by_piece) {
        uint8_t *to = (slot->message ? (uint8_t *)slot->message->data : slot->held) + slot->received;
        error = gcoll_shm_read_memory(pair, to, from, count);
        by_piece = error == EFAULT;
    }
    if (by_piece && !has_piece(shm)) {
        gcoll_flow_out_of_memory(pair->flow);
        return false;
    }
    if (by_piece)
        error = gcoll_shm_read_memory(pair, shm->piece, from, count);
    if (error == ESRCH) {
        gcoll_session_doubt(pair->session, NEWS_MS, true,
                            "has ended, or is another process than the one that was met");
        return false;
    }
    if (error != 0) {
        ask_for_rest(pair);
        return false;
    }
    gcoll_session_put(pair->session, slot, by_piece ? shm->piece : NULL, count);
    return true;
}

bool gcoll_shm_pull_some(gcoll_shm_pair *pair) {
    const gcoll_shm_pull *pull = pair->pulls.first;
    if (!pull || pull->is_asked)
        return false;
    gcoll_slot *slot = pull->slot;
    const uint64_t left = slot->total - slot->received;
    uint64_t count = left;
    if (left > GCOLL_SHM_PIECE_BYTES)
        count =
            GCOLL_SHM_PIECE_BYTES -
            (slot->message && slot->message->consume ? GCOLL_SHM_PIECE_BYTES % slot->message->granule : 0);
    if (pull->block)
        take_mapped(pair, pull, count);
    else if (!take_unmapped(pair, pull, count))
        return pull->is_asked; /* the question is to be written before this rank sleeps */
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
