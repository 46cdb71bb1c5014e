/*
 * transport/ibverbs/pieces.c - large messages: the receiver grants memory, the sender writes into it.
 *
 * A grant is for a piece: as much as the devices move in one work request, or, if the receive consumes its
 * bytes, a chunk of a ring of registered memory. Pieces of one message are granted, written and used in
 * order. Several are open at once, so the wire does not wait for the consumer. The write's immediate data is
 * the piece's handle; its completion means that the whole piece has arrived.
 *
 * No deadlock. Handles and chunks are limited. Some of them go to receives as soon as they are posted, which
 * saves a round trip. The rest go only to messages that the sender has offered or begun to write. Those will
 * certainly be sent, so their handles and chunks become free again for the next message. A sender that has
 * used up its offers gets none of the rest for a message that it has not told of, until one of its offers
 * ends.
 *
 * A message that opens an operation is offered even if it has been granted, as nothing else would carry its
 * fingerprint. If it may not be offered, one CREDIT frame brings the fingerprint, and another one says which
 * message it belongs to.
 *
 * A message whose size differs from its grant is sent or offered as if there were no grant. The receiver then
 * reports the mismatch. But if the receive takes any size, the receiver withdraws its grant by a revoke with
 * the total, and grants memory for the size that was offered.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/pair.h"

#define RING_ALIGNMENT 4096
#define ALL_CHUNKS     ((1U << GCOLL_IB_CHUNKS) - 1)

/* ---- Receiving ------------------------------------------------------------------------------------- */

void gcoll_ib_leave_list(gcoll_ib_pair *pair, gcoll_slot *slot) {
    if (slot->flags & GCOLL_IB_IN_AHEAD)
        gcoll_slot_unlink(&pair->ahead, slot);
    else if (slot->flags & GCOLL_IB_IN_WANTED)
        gcoll_slot_unlink(&pair->wanted, slot);
    slot->flags &= ~(uint32_t)(GCOLL_IB_IN_AHEAD | GCOLL_IB_IN_WANTED);
}

static bool make_ring(gcoll_ib_pair *pair) {
    gcoll_ib *ib = pair->ib;
    size_t bytes = (size_t)GCOLL_IB_CHUNKS * GCOLL_IB_CHUNK_BYTES;
    if (!pair->ring && posix_memalign((void **)&pair->ring, RING_ALIGNMENT, bytes) != 0) {
        pair->ring = NULL;
        gcoll_net_fail(ib->net, gcoll_error(GCOLL_ERR_NO_MEMORY, "ibverbs: no memory for %zu bytes", bytes));
        return false;
    }
    if (!pair->ring_region) {
        memset(pair->ring, 0, bytes);
        pair->ring_region = gcoll_ib_register(ib, pair->ring, bytes, GCOLL_IB_GRANTABLE);
    }
    if (!pair->ring_region)
        gcoll_net_fail(ib->net, GCOLL_ERR_NO_MEMORY);
    return pair->ring_region;
}

/* Finds memory for the next piece; false if none is free now. */
static bool place_piece(gcoll_ib_pair *pair, const gcoll_message *message, gcoll_ib_frame *frame,
                        gcoll_ib_piece *piece) {
    uint64_t left = message->bytes - message->moved;
    uint32_t most = pair->ib->place.message_max;
    if (message->consume) {
        if (pair->chunks_used == ALL_CHUNKS || !make_ring(pair))
            return false;
        most = GCOLL_IB_CHUNK_BYTES - GCOLL_IB_CHUNK_BYTES % message->granule;
        piece->chunk = (uint32_t)__builtin_ctz(~pair->chunks_used);
        pair->chunks_used |= 1U << piece->chunk;
        frame->address = (uintptr_t)pair->ring + (size_t)piece->chunk * GCOLL_IB_CHUNK_BYTES;
        frame->rkey = pair->ring_region->mr->rkey;
    } else {
        most = most < pair->peer.piece_max ? most : pair->peer.piece_max;
        piece->chunk = GCOLL_IB_CHUNKS;
        frame->address = (uintptr_t)message->data + message->moved;
        frame->rkey = ((gcoll_ib_region *)message->region)->mr->rkey;
    }
    frame->bytes = left < most ? left : most;
    return true;
}

static uint32_t free_handle(const gcoll_ib_pair *pair) {
    uint32_t handle = 0;
    while (pair->pieces[handle].slot)
        handle++;
    return handle;
}

/* Grants the slot's next piece; a handle must be free. False if nothing could be granted. */
static bool grant_piece(gcoll_ib_pair *pair, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    uint32_t handle = free_handle(pair);
    gcoll_ib_piece *piece = &pair->pieces[handle];
    gcoll_ib_frame frame = {.kind = GCOLL_IB_PIECE,
                            .stream = slot->stream,
                            .index = slot->index,
                            .total = message->bytes,
                            .handle = handle,
                            .offset = message->moved};
    if (!message->consume && !message->region) {
        message->region = gcoll_ib_register(pair->ib, message->data, message->bytes, GCOLL_IB_GRANTABLE);
        if (!message->region) {
            gcoll_net_fail(pair->ib->net, GCOLL_ERR_NO_MEMORY);
            return false;
        }
    }
    if (!place_piece(pair, message, &frame, piece))
        return false;
    piece->slot = slot;
    piece->offset = message->moved;
    piece->bytes = (uint32_t)frame.bytes;
    pair->piece_count++;
    message->moved += frame.bytes;
    gcoll_ib_append_control(pair, &frame, NULL);
    return true;
}

static void grant_list(gcoll_ib_pair *pair, gcoll_slot_list *list, uint32_t most_pieces, int most_chunks) {
    gcoll_slot *slot = list->oldest;
    while (slot && pair->piece_count < most_pieces) {
        gcoll_slot *newer = slot->newer;
        const gcoll_message *message = slot->message;
        while (message->moved < message->bytes && pair->piece_count < most_pieces &&
               (!message->consume || __builtin_popcount(pair->chunks_used) < most_chunks) &&
               grant_piece(pair, slot)) {
        }
        if (message->moved == message->bytes)
            gcoll_ib_leave_list(pair, slot);
        slot = newer;
    }
}

void gcoll_ib_grant_pieces(gcoll_ib_pair *pair) {
    if (gcoll_ib_stands(pair)) {
        grant_list(pair, &pair->wanted, GCOLL_IB_PIECES, GCOLL_IB_CHUNKS);
        grant_list(pair, &pair->ahead, GCOLL_IB_PIECES_AHEAD, GCOLL_IB_CHUNKS_AHEAD);
    }
}

/* A receive is posted, or its message has become certain to come. */
static void want_pieces(gcoll_ib_pair *pair, gcoll_slot *slot) {
    bool is_certain = (slot->flags & (GCOLL_FLOW_OFFERED | GCOLL_FLOW_STARTED)) != 0;
    if (slot->message->moved == slot->message->bytes)
        return; /* all is granted */
    gcoll_ib_leave_list(pair, slot);
    slot->flags |= is_certain ? GCOLL_IB_IN_WANTED : GCOLL_IB_IN_AHEAD;
    gcoll_slot_append(is_certain ? &pair->wanted : &pair->ahead, slot);
    gcoll_ib_grant_pieces(pair);
}

static void withdraw_pieces(gcoll_ib_pair *pair, gcoll_slot *slot) {
    gcoll_message *message = slot->message;
    gcoll_ib_frame frame = {
        .kind = GCOLL_IB_REVOKE, .stream = slot->stream, .index = slot->index, .total = message->bytes};
    gcoll_ib_leave_list(pair, slot);
    if (message->moved == 0)
        return;
    for (uint32_t handle = 0; handle < GCOLL_IB_PIECES; handle++)
        if (pair->pieces[handle].slot == slot) {
            pair->pieces[handle].slot = NULL;
            pair->piece_count--;
        }
    gcoll_ib_append_control(pair, &frame, NULL);
    gcoll_ib_unregister(pair->ib, message->region);
    message->region = NULL;
    message->moved = 0;
}

static void consume_chunk(gcoll_ib_pair *pair, const gcoll_message *message, const gcoll_ib_piece *piece) {
    message->consume(message->consume_arg, piece->offset,
                     pair->ring + (size_t)piece->chunk * GCOLL_IB_CHUNK_BYTES, piece->bytes);
    pair->chunks_used &= ~(1U << piece->chunk);
}

void gcoll_ib_on_written(gcoll_ib_pair *pair, uint32_t handle, uint32_t bytes) {
    gcoll_slot *slot = handle < GCOLL_IB_PIECES ? pair->pieces[handle].slot : NULL;
    gcoll_ib_piece *piece = &pair->pieces[slot ? handle : 0];
    if (!slot || piece->bytes != bytes || piece->offset != slot->received) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL, "sent garbage (a write that was not granted)");
        return;
    }
    if (!(slot->flags & GCOLL_FLOW_STARTED)) {
        slot->total = slot->message->bytes;
        gcoll_flow_start(pair->flow, slot, false);
    }
    if (piece->chunk < GCOLL_IB_CHUNKS)
        consume_chunk(pair, slot->message, piece);
    else
        pair->ib->counters.bytes_written += bytes;
    slot->received += bytes;
    piece->slot = NULL;
    pair->piece_count--;
    if (slot->received == slot->total)
        gcoll_flow_finish(pair->flow, slot);
    else if (slot->flags & GCOLL_IB_IN_AHEAD)
        want_pieces(pair, slot);
    gcoll_ib_grant_pieces(pair);
}

/* ---- Sending --------------------------------------------------------------------------------------- */

/* Says, before the first write of a granted message, that its fingerprint went ahead of it. */
static void say_opened(gcoll_ib_pair *pair, const gcoll_message *message) {
    const gcoll_ib_frame frame = {
        .kind = GCOLL_IB_CREDIT, .flags = GCOLL_IB_AHEAD, .stream = message->stream, .index = message->index};
    gcoll_ib_append_control(pair, &frame, NULL);
}

/* Queues the write of a granted piece of a posted message. */
static void write_target(gcoll_ib_pair *pair, gcoll_slot *slot, uint32_t handle) {
    gcoll_ib_target *target = &pair->targets[handle];
    gcoll_message *message = slot->message;
    if (!message->region)
        message->region = gcoll_ib_register(pair->ib, message->data, message->bytes, GCOLL_IB_OWN);
    if (!message->region) {
        gcoll_net_fail(pair->ib->net, GCOLL_ERR_NO_MEMORY);
        return;
    }
    gcoll_flow_leave_untold(pair->flow, slot); /* an offer might come after the write */
    if (target->offset == 0 && (message->flags & GCOLL_FLOW_AHEAD))
        say_opened(pair, message);
    target->message = message;
    pair->writes[(pair->write_head + pair->write_count) % GCOLL_IB_PIECES] = handle;
    pair->write_count++;
    if (target->offset + target->bytes == message->bytes)
        gcoll_flow_stop_waiting(pair->flow, slot);
    gcoll_ib_want_output(pair);
}

void gcoll_ib_on_piece(gcoll_ib_pair *pair, const gcoll_ib_frame *frame) {
    gcoll_ib_target *target = &pair->targets[frame->handle];
    gcoll_slot *slot = gcoll_match_find(&pair->flow->outgoing, frame->stream, frame->index);
    if (slot && slot->message &&
        (slot->message->bytes != frame->total || !gcoll_ib_is_granted(pair->ib, slot->message))) {
        gcoll_flow_offer_granted(pair->flow,
                                 slot); /* the receiver reports the mismatch, or grants this size */
        return;
    }
    if (!slot && frame->offset > 0)
        return; /* to be withdrawn: the message had another size, and has been sent */
    if (!slot) {
        slot = gcoll_match_add(&pair->flow->outgoing, frame->stream, frame->index);
        if (!slot) {
            gcoll_flow_out_of_memory(pair->flow);
            return;
        }
        slot->flags = GCOLL_IB_PIECES_WAIT;
        slot->total = frame->total;
    }
    if (target->used || frame->offset != slot->received || (slot->flags & GCOLL_FLOW_PROMISED) ||
        ((slot->flags & GCOLL_IB_PIECES_WAIT) && slot->total != frame->total) ||
        (frame->total <= pair->peer.eager_bytes && !pair->peer.by_device)) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL,
                           "sent garbage (a piece that does not fit its message)");
        return;
    }
    slot->received += frame->bytes;
    *target = (gcoll_ib_target){.used = true,
                                .stream = frame->stream,
                                .index = frame->index,
                                .offset = frame->offset,
                                .bytes = (uint32_t)frame->bytes,
                                .address = frame->address,
                                .rkey = frame->rkey,
                                .total = frame->total};
    if (slot->message)
        write_target(pair, slot, frame->handle);
}

/* The handle of the message's piece at `offset`; GCOLL_IB_PIECES if it was not granted. */
static uint32_t find_target(const gcoll_ib_pair *pair, const gcoll_message *message, uint64_t offset) {
    uint32_t handle = 0;
    for (; handle < GCOLL_IB_PIECES; handle++) {
        const gcoll_ib_target *each = &pair->targets[handle];
        if (each->used && !each->message && each->stream == message->stream &&
            each->index == message->index && each->offset == offset)
            break;
    }
    return handle;
}

/* The send of a large message for which pieces were granted before it was posted. */
static void take_targets(gcoll_ib_pair *pair, gcoll_slot *slot, gcoll_message *message) {
    uint64_t granted = slot->received;
    uint64_t offset = 0;
    slot->message = message;
    slot->flags &= ~(uint32_t)GCOLL_IB_PIECES_WAIT;
    if (message->open)
        gcoll_flow_offer(pair->flow, slot);
    while (offset < granted) { /* the last piece may end the slot */
        uint32_t handle = find_target(pair, message, offset);
        if (handle == GCOLL_IB_PIECES)
            return;
        offset += pair->targets[handle].bytes;
        write_target(pair, slot, handle);
    }
}

/* Forgets the pieces that were granted for a message that is not posted, and removes their slot. */
static void forget_targets(gcoll_ib_pair *pair, gcoll_slot *slot) {
    for (uint32_t handle = 0; handle < GCOLL_IB_PIECES; handle++) {
        gcoll_ib_target *target = &pair->targets[handle];
        if (target->used && target->stream == slot->stream && target->index == slot->index)
            target->used = false;
    }
    gcoll_match_remove(&pair->flow->outgoing, slot);
}

void gcoll_ib_on_pieces_revoked(gcoll_ib_pair *pair, const gcoll_ib_frame *frame) {
    gcoll_slot *slot = gcoll_match_find(&pair->flow->outgoing, frame->stream, frame->index);
    /* Else they were forgotten when the message was posted. */
    if (slot && (slot->flags & GCOLL_IB_PIECES_WAIT) && slot->total == frame->total)
        forget_targets(pair, slot);
}

/* ---- What the flow calls --------------------------------------------------------------------------- */

static gcoll_ib_pair *pair_of(gcoll_flow *flow) {
    return gcoll_session_lane_state((const gcoll_session *)(const void *)flow);
}

static bool takes(const gcoll_flow *flow, const gcoll_message *message) {
    return gcoll_ib_is_granted(
        ((const gcoll_ib_pair *)gcoll_session_lane_state((const gcoll_session *)(const void *)flow))->ib,
        message);
}

static void await(gcoll_flow *flow, gcoll_slot *slot) {
    want_pieces(pair_of(flow), slot);
}

static void withdraw(gcoll_flow *flow, gcoll_slot *slot) {
    withdraw_pieces(pair_of(flow), slot);
}

static void post(gcoll_flow *flow, gcoll_slot *slot, gcoll_message *message) {
    gcoll_ib_pair *pair = pair_of(flow);
    if (slot->total == message->bytes) {
        take_targets(pair, slot, message);
        return;
    }
    forget_targets(pair, slot);
    gcoll_flow_send(flow, message, true);
}

const gcoll_flow_pieces gcoll_ib_flow_pieces = {
    .takes = takes, .await = await, .withdraw = withdraw, .post = post};
