/*
 * transport/shm/move.c - messages as frames of a ring, in both directions, and what flow control
 * (transport/flow) needs of the lane.
 *
 * A message goes in fragments of a quarter of the ring at most, so that one is read while the next is
 * written. What a receive reduces is reduced straight from the ring. The reader takes frames whatever it has
 * to write itself: so two ranks that both have full rings do not wait for each other.
 */
#include <errno.h>
#include <string.h>

#include "transport/shm/shm.h"

/* A longer fragment would not stay in the cache until it is read. */
#define PART_MOST (UINT32_C(32) << 10)
/* The reader tells the writer of room that often: parts of a ring. So the writer knows of seven eighths of a
 * ring that is empty, which is more than it ever waits for; and telling, which is a fence and a look whether
 * the writer sleeps, is no part of each message. */
#define TOLD_PARTS 8

static gcoll_shm_pair *pair_of(const gcoll_flow *flow) {
    return gcoll_session_lane_state((const gcoll_session *)(const void *)flow);
}

/* ---- What the flow calls ---------------------------------------------------------------------------- */

bool gcoll_shm_has_output(const gcoll_shm_pair *pair) {
    return gcoll_bytes_left(&pair->control) > 0 || pair->messages.first || pair->blocks.answer != 0 ||
           gcoll_flow_owes(pair->flow);
}

void gcoll_shm_want_output(gcoll_shm_pair *pair) {
    if (!pair->in_outputs) {
        pair->in_outputs = true;
        pair->next_output = pair->shm->outputs;
        pair->shm->outputs = pair;
    }
}

bool gcoll_shm_put_control(gcoll_shm_pair *pair, const gcoll_ring_head *head, const uint8_t *open) {
    if (!gcoll_bytes_reserve(&pair->control, GCOLL_RING_LINE)) {
        gcoll_flow_out_of_memory(pair->flow);
        return false;
    }
    uint8_t *at = pair->control.bytes + pair->control.end;
    memset(at, 0, GCOLL_RING_LINE);
    memcpy(at, head, sizeof *head);
    if (open)
        memcpy(at + sizeof *head, open, GCOLL_FINGERPRINT_BYTES);
    pair->control.end += GCOLL_RING_LINE;
    gcoll_shm_want_output(pair);
    return true;
}

static void control(gcoll_flow *flow, const gcoll_flow_frame *frame) {
    const gcoll_ring_head head = {.word = GCOLL_RING_MARK | (uint32_t)frame->kind |
                                          (frame->open ? GCOLL_RING_OPEN : 0U) |
                                          (frame->is_plain ? GCOLL_RING_PLAIN : 0U),
                                  .stream = frame->stream,
                                  .total = frame->total,
                                  .index = frame->index};
    gcoll_shm_put_control(pair_of(flow), &head, frame->open);
}

static bool put_part(gcoll_shm_pair *pair, gcoll_message *message);

/* A message of one frame with nothing before it is written at once: what this rank does next, as posting its
 * receives and copying its own block, then takes no time of the peer's. The flush wakes a sleeper, and writes
 * longer messages, with those posted to other peers. */
static void enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_shm_pair *pair = pair_of(flow);
    const bool is_first = !pair->messages.first && gcoll_bytes_left(&pair->control) == 0;
    gcoll_message_push(&pair->messages, message);
    if (is_first && message->bytes <= GCOLL_NOW_BYTES && gcoll_shm_moves(pair))
        put_part(pair, message);
    gcoll_shm_want_output(pair);
}

static void owe(gcoll_flow *flow) {
    gcoll_shm_want_output(pair_of(flow));
}

const gcoll_flow_lane gcoll_shm_flow = {
    .control = control, .enqueue = enqueue, .owe = owe, .deliver = gcoll_lane_deliver, GCOLL_LANE_REPORTS};

/* ---- Writing ---------------------------------------------------------------------------------------- */

/* Room for a frame of so many bytes, or as many as there are. False: none now, or the session has failed. */
static bool find_room(gcoll_shm_pair *pair, uint32_t wanted, uint32_t *room) {
    if (!gcoll_ring_room(&pair->out, wanted, room)) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL,
                           "sent garbage (it has taken what was not written)");
        return false;
    }
    return *room > 0;
}

static void publish(gcoll_shm_pair *pair, uint32_t word, uint32_t payload_bytes) {
    gcoll_ring_publish(&pair->out, word, gcoll_ring_frame_bytes(word, payload_bytes));
    pair->has_published = true;
}

static uint32_t give_back(gcoll_flow *flow) {
    const uint32_t credit = (uint32_t)flow->owed;
    gcoll_flow_give_back(flow, credit);
    return credit;
}

/* Writes a head, but for its first word, at the ring's next place. */
static void put_head(gcoll_shm_pair *pair, gcoll_ring_head *head) {
    head->credit = give_back(pair->flow);
    memcpy(gcoll_ring_place(&pair->out) + sizeof head->word, (const uint8_t *)head + sizeof head->word,
           sizeof *head - sizeof head->word);
}

static bool put_control(gcoll_shm_pair *pair) {
    uint32_t room;
    gcoll_ring_head head;
    if (!find_room(pair, GCOLL_RING_LINE, &room))
        return false;
    const uint8_t *from = pair->control.bytes + pair->control.begin;
    memcpy(&head, from, sizeof head);
    put_head(pair, &head);
    if (head.word & GCOLL_RING_OPEN)
        memcpy(gcoll_ring_place(&pair->out) + sizeof head, from + sizeof head, GCOLL_FINGERPRINT_BYTES);
    publish(pair, head.word, 0);
    pair->control.begin += GCOLL_RING_LINE;
    return true;
}

/* A frame that brings credit alone, or nothing. */
static bool put_credit(gcoll_shm_pair *pair) {
    uint32_t room;
    gcoll_ring_head head = {.word = GCOLL_RING_MARK | GCOLL_FLOW_OPENING};
    if (!find_room(pair, GCOLL_RING_LINE, &room))
        return false;
    put_head(pair, &head);
    publish(pair, head.word, 0);
    return true;
}

/* Writes a frame for which there is room. */
static inline void put_whole(gcoll_shm_pair *pair, gcoll_ring_head *head, const uint8_t *open,
                             const void *payload) {
    uint8_t *at = gcoll_ring_place(&pair->out) + sizeof *head;
    put_head(pair, head);
    if (open) {
        memcpy(at, open, GCOLL_FINGERPRINT_BYTES);
        at += GCOLL_FINGERPRINT_BYTES;
    }
    if (head->bytes > 0)
        memcpy(at, payload, head->bytes);
    publish(pair, head->word, head->bytes);
}

bool gcoll_shm_put(gcoll_shm_pair *pair, gcoll_ring_head *head, const uint8_t *open, const void *payload) {
    const uint32_t wanted = gcoll_ring_frame_bytes(head->word, head->bytes);
    uint32_t room;
    if (!find_room(pair, wanted, &room))
        return false;
    if (room < wanted) /* the rest of the ring is too short for it */
        return gcoll_ring_ends_at(&pair->out, room) && put_credit(pair) &&
               gcoll_shm_put(pair, head, open, payload);
    put_whole(pair, head, open, payload);
    return true;
}

/* The longest frame that is worth writing of those that the room allows; 0: none now. */
static uint32_t take_room(gcoll_shm_pair *pair, uint32_t wanted) {
    const uint32_t quarter = pair->out.size / 4;
    const uint32_t most = quarter < PART_MOST ? quarter : PART_MOST;
    uint32_t room;
    wanted = wanted < most ? wanted : most;
    if (!find_room(pair, wanted, &room))
        return 0;
    if (room < wanted && room < most / 2 && !gcoll_ring_ends_at(&pair->out, room))
        return 0; /* more comes in a moment: no crumbs */
    return room < wanted ? room : wanted;
}

/* Writes a fragment of a message, the first in the queue. */
static bool put_part(gcoll_shm_pair *pair, gcoll_message *message) {
    const uint64_t left = message->bytes - message->moved;
    gcoll_shm_reference to;
    if (message->moved == 0 && gcoll_shm_is_referred(pair, message, &to))
        return gcoll_shm_put_reference(pair, &to);
    const bool opens = message->open && !(message->flags & GCOLL_FLOW_OPENED);
    gcoll_ring_head head = {.word = GCOLL_RING_MARK | GCOLL_FLOW_DATA | (opens ? GCOLL_RING_OPEN : 0U) |
                                    (message->flags & GCOLL_FLOW_ON_CREDIT ? GCOLL_RING_CREDITED : 0U) |
                                    (message->flags & GCOLL_FLOW_AHEAD ? GCOLL_RING_AHEAD : 0U),
                            .stream = message->stream,
                            .total = message->bytes,
                            .index = message->index};
    const uint32_t head_bytes = (uint32_t)sizeof head + (opens ? (uint32_t)GCOLL_FINGERPRINT_BYTES : 0U);
    const uint32_t whole = gcoll_ring_frame_bytes(head.word, left < PART_MOST ? (uint32_t)left : PART_MOST);
    const uint32_t room = take_room(pair, whole);
    if (room == 0)
        return false;
    if (room == head_bytes && left > 0) /* the last line before the ring's end: an empty fragment is none */
        return put_credit(pair);
    head.bytes = left < room - head_bytes ? (uint32_t)left : room - head_bytes;
    uint8_t *at = gcoll_ring_place(&pair->out);
    put_head(pair, &head);
    if (opens)
        memcpy(at + sizeof head, message->open, GCOLL_FINGERPRINT_BYTES);
    if (head.bytes > 0)
        memcpy(at + head_bytes, (const uint8_t *)message->data + message->moved, head.bytes);
    publish(pair, head.word, head.bytes);
    message->flags |= opens ? GCOLL_FLOW_OPENED : 0U;
    gcoll_flow_sent(pair->flow, message);
    gcoll_net_moved(pair->shm->net);
    message->moved += head.bytes;
    if (message->moved == message->bytes)
        gcoll_session_complete(pair->session, gcoll_message_pop(&pair->messages));
    return true;
}

bool gcoll_shm_write(gcoll_shm_pair *pair) {
    const uint64_t begun = pair->out.written;
    /* gcoll_flow_sent may add control frames, which go first. */
    while (gcoll_shm_moves(pair)) {
        const bool did = gcoll_bytes_left(&pair->control) > 0 ? put_control(pair)
                         : pair->blocks.answer != 0           ? gcoll_shm_put_answer(pair)
                         : pair->messages.first               ? put_part(pair, pair->messages.first)
                         : gcoll_flow_owes(pair->flow)        ? put_credit(pair)
                                                              : false;
        if (!did)
            break;
    }
    return pair->out.written != begun;
}

/* ---- Reading ---------------------------------------------------------------------------------------- */

/* What is wrong with a frame by itself; NULL: nothing. */
static const char *check(const gcoll_ring_head *head) {
    const uint32_t kind = head->word & GCOLL_RING_KIND, flags = head->word & GCOLL_RING_FLAGS;
    if (kind < GCOLL_FLOW_DATA || kind > GCOLL_SHM_UNREAD)
        return "a frame of unknown kind";
    if (kind == GCOLL_SHM_REFERS && (head->bytes != sizeof(gcoll_shm_reference) || head->total == 0))
        return "a reference of a size that cannot be";
    if (kind != GCOLL_FLOW_DATA && kind != GCOLL_SHM_REFERS)
        return head->bytes > 0 ? "a control frame with a payload"
               : flags & ~(kind == GCOLL_FLOW_GRANT ? GCOLL_RING_PLAIN : GCOLL_RING_OPEN)
                   ? "a flag that is not allowed in this kind of frame"
                   : NULL;
    if (kind == GCOLL_FLOW_DATA && head->bytes > head->total)
        return "a fragment larger than its message";
    if (head->bytes == 0 && head->total > 0)
        return "an empty fragment";
    return (flags & GCOLL_RING_OPEN) && (flags & GCOLL_RING_AHEAD) ? "a fingerprint twice" : NULL;
}

static void take_fragment(gcoll_shm_pair *pair, const gcoll_flow_frame *frame,
                          const gcoll_ring_frame *found) {
    gcoll_slot *slot = gcoll_flow_fragment(pair->flow, frame, found->head.bytes);
    if (slot)
        gcoll_shm_on_unread_part(pair, slot);
    if (slot && slot->flags & GCOLL_FLOW_LANE)
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL,
                           "sent garbage (a fragment of a message that lies in its own memory)");
    else if (slot)
        gcoll_session_accept(pair->session, slot,
                             gcoll_shm_land(pair, slot, found->payload, found->head.bytes),
                             found->head.bytes);
    gcoll_net_moved(pair->shm->net);
}

static inline gcoll_flow_frame flow_frame(const gcoll_ring_frame *found) {
    const gcoll_ring_head *head = &found->head;
    const uint32_t kind = head->word & GCOLL_RING_KIND;
    return (gcoll_flow_frame){.kind = kind == GCOLL_SHM_REFERS ? GCOLL_FLOW_DATA : (gcoll_flow_kind)kind,
                              .index = head->index,
                              .stream = head->stream,
                              .total = head->total,
                              .open = head->word & GCOLL_RING_OPEN ? found->open : NULL,
                              .on_credit = (head->word & GCOLL_RING_CREDITED) != 0,
                              .is_ahead = (head->word & GCOLL_RING_AHEAD) != 0,
                              .is_plain = (head->word & GCOLL_RING_PLAIN) != 0};
}

static void take(gcoll_shm_pair *pair, const gcoll_ring_frame *found) {
    const gcoll_ring_head *head = &found->head;
    const char *wrong = check(head);
    if (wrong) {
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", wrong);
        return;
    }
    const uint32_t kind = head->word & GCOLL_RING_KIND;
    const gcoll_flow_frame frame = flow_frame(found);
    if (head->credit > 0)
        gcoll_flow_on_credit(pair->flow, head->credit);
    if (frame.open)
        gcoll_session_opened(pair->session, frame.stream, frame.open);
    if (!gcoll_shm_moves(pair))
        return;
    if (kind == GCOLL_SHM_REFERS)
        gcoll_shm_on_reference(pair, &frame, found->payload);
    else if (kind == GCOLL_SHM_UNREAD)
        gcoll_shm_on_unread(pair, head);
    else if (kind > GCOLL_FLOW_OPENING)
        gcoll_shm_on_block(pair, head);
    else if (kind != GCOLL_FLOW_DATA)
        gcoll_flow_on_control(pair->flow, &frame);
    else
        take_fragment(pair, &frame, found);
}

bool gcoll_shm_read(gcoll_shm_pair *pair, bool is_all) {
    gcoll_ring_reader *in = &pair->in;
    const uint64_t begun = in->read;
    gcoll_ring_frame frame;
    while (gcoll_shm_moves(pair) && in->read - begun < in->size) {
        const gcoll_ring_found found = gcoll_ring_next(in, &frame);
        if (found == GCOLL_RING_EMPTY)
            break;
        if (in->read != begun && !is_all && gcoll_net_is_late(pair->shm->net))
            break; /* the frame before it was reduced for long */
        if (found == GCOLL_RING_GARBAGE) {
            gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL, "sent garbage (no frame in shared memory)");
            return true;
        }
        take(pair, &frame);
        gcoll_ring_pass(in, &frame);
        if (in->read - in->told >= in->size / TOLD_PARTS)
            pair->has_freed |= gcoll_ring_tell(in);
    }
    return in->read != begun;
}

/* ---- Within a call ---------------------------------------------------------------------------------- */

bool gcoll_shm_send_now(gcoll_session *session, gcoll_message *message) {
    gcoll_shm_pair *pair = gcoll_session_lane_state(session);
    const uint64_t map_bytes = pair->shm->map_bytes;
    if (message->bytes > GCOLL_NOW_BYTES || (map_bytes > 0 && message->bytes >= map_bytes) ||
        pair->messages.first || gcoll_bytes_left(&pair->control) > 0 || !gcoll_shm_moves(pair))
        return false;
    gcoll_ring_head head = {.word = GCOLL_RING_MARK | GCOLL_FLOW_DATA | GCOLL_RING_CREDITED |
                                    (message->open ? GCOLL_RING_OPEN : 0U),
                            .bytes = (uint32_t)message->bytes,
                            .stream = message->stream,
                            .total = message->bytes,
                            .index = message->index};
    const uint32_t wanted = gcoll_ring_frame_bytes(head.word, head.bytes);
    uint32_t room;
    if (!find_room(pair, wanted, &room) || room < wanted || !gcoll_flow_send_now(pair->flow, message))
        return false;
    put_whole(pair, &head, message->open, message->data);
    gcoll_net_moved(pair->shm->net);
    gcoll_shm_ring_bell(pair);
    return true;
}

/* Hands a message to its receive. False: it is not in the next frame, or not so that it could be. */
static bool take_now(gcoll_shm_pair *pair, const gcoll_ring_frame *found, gcoll_message *message) {
    const gcoll_ring_head *head = &found->head;
    const gcoll_flow_frame frame = flow_frame(found);
    if ((head->word & GCOLL_RING_KIND) != GCOLL_FLOW_DATA || head->bytes != head->total || check(head) ||
        head->credit > pair->flow->peer_pool - pair->flow->credit ||
        !gcoll_flow_recv_now(pair->flow, &frame, message))
        return false;
    if (head->credit > 0)
        gcoll_flow_on_credit(pair->flow, head->credit);
    if (frame.open)
        gcoll_session_opened(pair->session, frame.stream, frame.open);
    if (message->consume && head->bytes > 0)
        message->consume(message->consume_arg, 0, found->payload, head->bytes);
    else if (head->bytes > 0)
        memcpy(message->data, found->payload, head->bytes);
    gcoll_net_moved(pair->shm->net);
    return true;
}

bool gcoll_shm_recv_now(gcoll_session *session, gcoll_message *message, uint32_t looks) {
    gcoll_shm_pair *pair = gcoll_session_lane_state(session);
    gcoll_ring_frame frame;
    if (!gcoll_shm_moves(pair) || message->any_size)
        return false;
    while (!gcoll_ring_has_frame(&pair->in))
        if (--looks == 0)
            return false;
    if (gcoll_ring_next(&pair->in, &frame) != GCOLL_RING_FRAME || !take_now(pair, &frame, message))
        return false;
    gcoll_ring_pass(&pair->in, &frame);
    if (pair->in.read - pair->in.told >= pair->in.size / TOLD_PARTS)
        pair->has_freed |= gcoll_ring_tell(&pair->in);
    if (pair->in_outputs && gcoll_shm_moves(pair)) /* credit is owed, or a grant */
        gcoll_shm_write(pair);
    gcoll_shm_ring_bell(pair);
    return true;
}

/* ---- Waking ----------------------------------------------------------------------------------------- */

void gcoll_shm_ring_bell(gcoll_shm_pair *pair) {
    if (!pair->has_published && !pair->has_freed)
        return;
    /* After what was written, and before the look: see ring.h. */
    gcoll_ring_fence();
    const uint32_t sleeps =
        __atomic_load_n(&gcoll_ring_side_of(pair->memory, 1 - pair->which)->sleeps, __ATOMIC_RELAXED);
    const bool wakes = (pair->has_published && (sleeps & GCOLL_RING_SLEEPS)) ||
                       (pair->has_freed && (sleeps & GCOLL_RING_WANTS_ROOM));
    pair->has_published = pair->has_freed = false;
    if (!wakes || sleeps == pair->rung)
        return;
    pair->rung = sleeps;
    const int error = gcoll_shm_door_send(pair, GCOLL_SHM_BELL, -1);
    if (error == 0 || error == ECONNREFUSED) /* one that is gone has no sleeper */
        return;
    /* The peer's socket, if that is full, wakes its owner, too. */
    if (error != EAGAIN || !gcoll_shm_door_has_room(pair->shm))
        gcoll_shm_say_bell(pair);
}

/* ---- Dropping --------------------------------------------------------------------------------------- */

void gcoll_shm_drop(gcoll_session *session) {
    gcoll_shm_pair *pair = gcoll_session_lane_state(session);
    if (pair) {
        gcoll_shm_withdraw(pair);
        gcoll_message_queue_clear(&pair->messages);
        pair->control.begin = pair->control.end = 0;
    }
}
