/*
 * transport/ibverbs/queue_pair.c - the queue pair of a pair: its slots, its send queue, its credit.
 *
 * Slots. Each side posts GCOLL_IB_DEPTH receives; a send or a write with immediate data uses one at the peer.
 * A used slot is posted again as soon as it is read. The peer learns of that by the next frame, or by a frame
 * of its own when half of the slots are owed. The last slot is kept for such a frame, so it can always be
 * sent: a side without slots has used its last one for such a frame, which gave half of the slots to the
 * other side. Once the other side has read everything, it owes more than half of the slots, and returns them.
 *
 * The send queue is a ring; the work request at place i sends from slot i of its half of the memory. It
 * cannot overrun, as requests that are posted and not known to be finished are counted. A completion is
 * requested for every few requests, and for the last request of a message whose memory the device reads.
 * Requests finish in order, so one completion covers all before it. Completions do not depend on the peer's
 * software, since a request is only posted with a slot at the peer.
 *
 * The completion queue is enlarged before a queue pair is made, so that it can hold all completions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transport/ibverbs/pair.h"

#define ALIGNMENT 4096
/* Owed slots that are worth a frame of their own. */
#define SLOTS_STEP (GCOLL_IB_DEPTH / 2)
/* Messages must leave the last slot to frames that return slots. */
#define SLOTS_KEPT 1

typedef struct batch {
    struct ibv_send_wr work[GCOLL_IB_BATCH];
    struct ibv_sge pieces[GCOLL_IB_BATCH];
    uint32_t count;
} batch;

static uint8_t *receive_slot(const gcoll_ib_pair *pair, uint32_t slot) {
    return pair->memory + (size_t)slot * pair->ib->slot_bytes;
}

const uint8_t *gcoll_ib_received(const gcoll_ib_pair *pair, uint32_t slot) {
    return receive_slot(pair, slot);
}

static uint8_t *send_slot(const gcoll_ib_pair *pair, uint32_t slot) {
    return receive_slot(pair, GCOLL_IB_DEPTH + slot);
}

/* ---- Making and destroying ------------------------------------------------------------------------- */

/* Enlarges the completion queue for all completions of one more queue pair. */
static gcoll_status promise_completions(gcoll_ib *ib) {
    uint32_t needed = ib->cq_promised + 2 * GCOLL_IB_DEPTH;
    uint32_t wanted = ib->cq_entries;
    while (wanted < needed)
        wanted *= 2;
    if (wanted > ib->cq_most)
        wanted = ib->cq_most;
    if (needed > wanted)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "ibverbs: %s has completion queues of %u entries, which is not enough for %u peers",
            ib->place.name, ib->cq_most, ib->cq_promised / (2 * GCOLL_IB_DEPTH) + 1);
    if (wanted > ib->cq_entries) {
        int error = ib->verbs.resize_cq(ib->cq, (int)wanted);
        if (error != 0)
            return gcoll_error(gcoll_status_of_errno(error),
                               "ibverbs: cannot make the completion queue %u long: %s", wanted,
                               strerror(error));
        ib->cq_entries = wanted;
    }
    ib->cq_promised = needed;
    return GCOLL_OK;
}

/* Creates the queue pair, with as much inline data as the device takes. */
static gcoll_status make_queue_pair(gcoll_ib_pair *pair) {
    static const uint32_t inline_sizes[] = {256, 128, GCOLL_IB_FIXED_BYTES, 0};
    gcoll_ib *ib = pair->ib;
    for (size_t i = 0; i < sizeof inline_sizes / sizeof inline_sizes[0] && !pair->qp; i++) {
        struct ibv_qp_init_attr attributes = {.send_cq = ib->cq,
                                              .recv_cq = ib->cq,
                                              .qp_type = IBV_QPT_RC,
                                              .cap = {.max_send_wr = GCOLL_IB_DEPTH,
                                                      .max_recv_wr = GCOLL_IB_DEPTH,
                                                      .max_send_sge = 1,
                                                      .max_recv_sge = 1,
                                                      .max_inline_data = inline_sizes[i]}};
        pair->qp = ib->verbs.create_qp(ib->pd, &attributes);
        pair->inline_bytes = inline_sizes[i];
    }
    const int error = errno;
    return pair->qp ? GCOLL_OK
                    : gcoll_error(gcoll_status_of_errno(error), "ibverbs: cannot make a queue pair on %s: %s",
                                  ib->place.name, strerror(error));
}

static gcoll_status initialise(gcoll_ib_pair *pair) {
    gcoll_ib *ib = pair->ib;
    struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_INIT,
                                     .pkey_index = ib->place.pkey_index,
                                     .port_num = ib->place.port,
                                     .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    int error = ib->verbs.modify_qp(pair->qp, &attributes,
                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error != 0)
        return gcoll_error(GCOLL_ERR_IO, "ibverbs: cannot initialise a queue pair on %s port %u: %s",
                           ib->place.name, ib->place.port, strerror(error));
    for (uint32_t slot = 0; slot < GCOLL_IB_DEPTH; slot++)
        if (!gcoll_ib_queue_receive(pair, slot))
            return gcoll_error(GCOLL_ERR_IO, "ibverbs: cannot post a receive: %s", strerror(errno));
    return GCOLL_OK;
}

gcoll_status gcoll_ib_queue_create(gcoll_ib_pair *pair) {
    gcoll_ib *ib = pair->ib;
    size_t bytes = (size_t)2 * GCOLL_IB_DEPTH * ib->slot_bytes;
    gcoll_status status = promise_completions(ib);
    if (status == GCOLL_OK && posix_memalign((void **)&pair->memory, ALIGNMENT, bytes) != 0) {
        pair->memory = NULL;
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "ibverbs: no memory for %zu bytes", bytes);
    }
    if (status == GCOLL_OK) {
        memset(pair->memory, 0, bytes);
        pair->region = gcoll_ib_register(ib, pair->memory, bytes, GCOLL_IB_GRANTABLE);
        status = pair->region ? GCOLL_OK : GCOLL_ERR_NO_MEMORY;
    }
    if (status == GCOLL_OK)
        status = make_queue_pair(pair);
    if (status == GCOLL_OK) {
        status = gcoll_random_bytes(&pair->psn, sizeof pair->psn);
        pair->psn &= 0xffffffU;
    }
    if (status == GCOLL_OK)
        status = initialise(pair);
    return status;
}

void gcoll_ib_queue_destroy(gcoll_ib_pair *pair) {
    gcoll_ib *ib = pair->ib;
    if (pair->qp) {
        ib->verbs.destroy_qp(pair->qp);
        pair->qp = NULL;
    }
    gcoll_ib_unregister(ib, pair->region);
    gcoll_ib_unregister(ib, pair->ring_region);
    pair->region = pair->ring_region = NULL;
    free(pair->memory);
    free(pair->ring);
    pair->memory = pair->ring = NULL;
    pair->chunks_used = 0;
}

/* ---- Posting --------------------------------------------------------------------------------------- */

bool gcoll_ib_queue_receive(gcoll_ib_pair *pair, uint32_t slot) {
    struct ibv_sge piece = {.addr = (uintptr_t)receive_slot(pair, slot),
                            .length = pair->ib->slot_bytes,
                            .lkey = pair->region->mr->lkey};
    struct ibv_recv_wr work = {
        .wr_id = GCOLL_IB_WORK_ID(pair->rank, GCOLL_IB_WORK_RECEIVE, slot), .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr *bad;
    errno = ibv_post_recv(pair->qp, &work, &bad);
    return errno == 0;
}

static uint32_t in_queue(const gcoll_ib_pair *pair) {
    return pair->posted_sends - pair->finished_sends;
}

/* Whether the batch and the send queue have a place. */
static bool has_place(const gcoll_ib_pair *pair, const batch *b) {
    return b->count < GCOLL_IB_BATCH && in_queue(pair) < GCOLL_IB_DEPTH;
}

/* Whether the peer's receive queue has a slot, too. */
static bool has_room(const gcoll_ib_pair *pair, const batch *b, uint32_t slots_kept) {
    return has_place(pair, b) && pair->slots > slots_kept;
}

/* Adds a work request, for the caller to fill in. `message`, if not NULL, is done when the request finishes.
 */
static struct ibv_send_wr *add_work(gcoll_ib_pair *pair, batch *b, gcoll_message *message) {
    uint32_t place = pair->posted_sends % GCOLL_IB_DEPTH;
    struct ibv_send_wr *work = &b->work[b->count];
    memset(work, 0, sizeof *work);
    pair->sent[place] = message;
    pair->is_write[place] = false;
    pair->posted_sends++;
    pair->unsignalled++;
    work->wr_id = GCOLL_IB_WORK_ID(pair->rank, GCOLL_IB_WORK_SEND, pair->posted_sends);
    work->sg_list = &b->pieces[b->count];
    work->num_sge = 1;
    if (message || pair->unsignalled >= GCOLL_IB_SIGNAL_EVERY) {
        work->send_flags = IBV_SEND_SIGNALED;
        pair->unsignalled = 0;
    }
    if (b->count > 0)
        b->work[b->count - 1].next = work;
    b->count++;
    return work;
}

/* Adds the frame of `bytes` bytes that lies in the next send slot. */
static void add_frame(gcoll_ib_pair *pair, batch *b, uint32_t bytes) {
    uint8_t *at = send_slot(pair, pair->posted_sends % GCOLL_IB_DEPTH);
    struct ibv_send_wr *work = add_work(pair, b, NULL);
    pair->slots--;
    work->opcode = IBV_WR_SEND;
    work->sg_list->addr = (uintptr_t)at;
    work->sg_list->length = bytes;
    work->sg_list->lkey = pair->region->mr->lkey;
    if (bytes <= pair->inline_bytes)
        work->send_flags |= IBV_SEND_INLINE;
}

/* Puts all owed slots and credit into a frame; every frame returns them. */
static void give_back(gcoll_ib_pair *pair, gcoll_ib_frame *frame) {
    frame->slots = (uint16_t)pair->slots_owed;
    frame->credit = (uint32_t)pair->flow->owed;
    gcoll_flow_give_back(pair->flow, pair->flow->owed);
    pair->slots_owed = 0;
}

/* ---- Pending output -------------------------------------------------------------------------------- */

void gcoll_ib_want_output(gcoll_ib_pair *pair) {
    if (!pair->in_outputs && (gcoll_ib_stands(pair) || pair->says_proof)) {
        pair->in_outputs = true;
        pair->next_output = pair->ib->outputs;
        pair->ib->outputs = pair;
    }
}

/* Whether a frame must be sent to return slots or credit. Not after a goodbye: frames may still arrive then,
 * but they need no answer. */
static bool owes_much(const gcoll_ib_pair *pair) {
    return !pair->said_goodbye && (pair->slots_owed >= SLOTS_STEP || gcoll_flow_owes(pair->flow));
}

static bool has_output(const gcoll_ib_pair *pair) {
    if (pair->says_proof)
        return pair->qp;
    return gcoll_ib_stands(pair) && pair->qp &&
           (pair->messages.first || pair->accesses.first || pair->write_count > 0 ||
            gcoll_bytes_left(&pair->control) > 0 || owes_much(pair) || pair->says_goodbye);
}

void gcoll_ib_enqueue(gcoll_ib_pair *pair, gcoll_message *message) {
    gcoll_message_push(&pair->messages, message);
    gcoll_ib_want_output(pair);
}

void gcoll_ib_append_control(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *fingerprint) {
    gcoll_byte_queue *control = &pair->control;
    if (!gcoll_bytes_reserve(control, GCOLL_IB_FIXED_BYTES)) {
        gcoll_flow_out_of_memory(pair->flow);
        return;
    }
    uint8_t *at = control->bytes + control->end;
    gcoll_ib_put_frame(at, frame);
    if (fingerprint)
        memcpy(at + GCOLL_IB_HEADER_BYTES, fingerprint, GCOLL_FINGERPRINT_BYTES);
    control->end += GCOLL_IB_FIXED_BYTES;
    gcoll_ib_want_output(pair);
}

/* ---- Building a batch ------------------------------------------------------------------------------ */

static void add_controls(gcoll_ib_pair *pair, batch *b) {
    gcoll_byte_queue *control = &pair->control;
    while (gcoll_bytes_left(control) > 0 && has_room(pair, b, SLOTS_KEPT)) {
        uint8_t *at = send_slot(pair, pair->posted_sends % GCOLL_IB_DEPTH);
        const uint8_t *from = control->bytes + control->begin;
        gcoll_ib_frame owed;
        give_back(pair, &owed);
        control->begin += GCOLL_IB_FIXED_BYTES;
        add_frame(pair, b, gcoll_ib_copy_frame(at, from, &owed));
    }
}

/* Makes a work request transfer a part of the caller's memory. */
static void set_part(gcoll_ib_pair *pair, struct ibv_send_wr *work, const gcoll_message *message,
                     uint64_t offset, uint32_t bytes) {
    pair->is_write[(pair->posted_sends - 1) % GCOLL_IB_DEPTH] = true;
    pair->writes_posted++;
    work->sg_list->addr = (uintptr_t)message->data + offset;
    work->sg_list->length = bytes;
    work->sg_list->lkey = ((gcoll_ib_region *)message->region)->mr->lkey;
    pair->ib->counters.bytes_written += bytes;
}

/* Adds writes of pieces of large messages, from the caller's memory into the receiver's. */
static void add_writes(gcoll_ib_pair *pair, batch *b) {
    while (pair->write_count > 0 && has_room(pair, b, SLOTS_KEPT)) {
        uint32_t handle = pair->writes[pair->write_head];
        gcoll_ib_target *target = &pair->targets[handle];
        gcoll_message *message = target->message;
        bool is_last = target->offset + target->bytes == message->bytes;
        struct ibv_send_wr *work = add_work(pair, b, is_last ? message : NULL);
        pair->write_head = (pair->write_head + 1) % GCOLL_IB_PIECES;
        pair->write_count--;
        pair->slots--;
        work->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        work->imm_data = htobe32(handle);
        work->wr.rdma.remote_addr = target->address;
        work->wr.rdma.rkey = target->rkey;
        set_part(pair, work, message, target->offset, target->bytes);
        gcoll_flow_sent(pair->flow, message);
        message->moved += target->bytes;
        target->used = false;
    }
}

/* Adds one-sided accesses, which use no slot of the peer. */
static void add_accesses(gcoll_ib_pair *pair, batch *b) {
    while (pair->accesses.first && has_place(pair, b)) {
        gcoll_message *message = pair->accesses.first;
        const bool is_last = message->bytes - message->moved <= pair->ib->place.message_max;
        struct ibv_send_wr *work = add_work(pair, b, is_last ? message : NULL);
        pair->is_write[(pair->posted_sends - 1) % GCOLL_IB_DEPTH] = true;
        pair->writes_posted++;
        pair->ib->counters.bytes_written += gcoll_ib_next_access(pair, work);
    }
}

static void add_message(gcoll_ib_pair *pair, batch *b, gcoll_message *message) {
    uint8_t *at = send_slot(pair, pair->posted_sends % GCOLL_IB_DEPTH);
    bool opens = message->open && !(message->flags & GCOLL_FLOW_OPENED);
    gcoll_ib_frame frame = {
        .kind = GCOLL_IB_DATA, .stream = message->stream, .index = message->index, .total = message->bytes};
    frame.flags =
        (uint8_t)((message->flags & GCOLL_FLOW_ON_CREDIT ? GCOLL_IB_CREDITED : 0) |
                  (message->flags & GCOLL_FLOW_AHEAD ? GCOLL_IB_AHEAD : 0) | (opens ? GCOLL_IB_OPEN : 0));
    give_back(pair, &frame);
    uint32_t bytes = gcoll_ib_put_frame(at, &frame);
    if (opens)
        memcpy(at + GCOLL_IB_HEADER_BYTES, message->open, GCOLL_FINGERPRINT_BYTES);
    if (message->bytes > 0)
        memcpy(at + bytes, message->data, (size_t)message->bytes);
    pair->ib->counters.bytes_copied += message->bytes;
    gcoll_flow_sent(pair->flow, message);
    add_frame(pair, b, bytes + (uint32_t)message->bytes);
}

/* Adds small messages; each is done as soon as it is copied. */
static void add_messages(gcoll_ib_pair *pair, batch *b) {
    while (pair->messages.first && has_room(pair, b, SLOTS_KEPT)) {
        gcoll_message *message = gcoll_message_pop(&pair->messages);
        add_message(pair, b, message);
        gcoll_session_complete(pair->session, message);
    }
}

/* least: bytes to send at least. */
static void add_lonely(gcoll_ib_pair *pair, batch *b, gcoll_ib_kind kind, uint32_t least) {
    uint8_t *at = send_slot(pair, pair->posted_sends % GCOLL_IB_DEPTH);
    gcoll_ib_frame frame = {.kind = (uint8_t)kind};
    give_back(pair, &frame);
    const uint32_t bytes = gcoll_ib_put_frame(at, &frame);
    add_frame(pair, b, bytes > least ? bytes : least);
}

static void build(gcoll_ib_pair *pair, batch *b) {
    b->count = 0;
    if (pair->says_proof) {
        add_lonely(pair, b, GCOLL_IB_PROOF, pair->packet_bytes);
        b->work[b->count - 1].send_flags |= IBV_SEND_SIGNALED;
        gcoll_ib_proof_sent(pair);
        return;
    }
    add_controls(pair, b);
    add_accesses(pair, b);
    add_messages(pair, b); /* before the writes: a message may carry their operation's fingerprint */
    add_writes(pair, b);
    if (owes_much(pair) && has_room(pair, b, 0))
        add_lonely(pair, b, GCOLL_IB_CREDIT, 0);
    if (pair->says_goodbye && has_room(pair, b, 0)) { /* the last frame */
        add_lonely(pair, b, GCOLL_IB_GOODBYE, 0);
        b->work[b->count - 1].send_flags |= IBV_SEND_SIGNALED;
        pair->says_goodbye = false;
        pair->said_goodbye = true;
    }
}

static void pump(gcoll_ib_pair *pair) {
    gcoll_ib *ib = pair->ib;
    while (has_output(pair)) {
        batch b;
        build(pair, &b);
        if (b.count == 0)
            return;
        ib->counters.work_requests += b.count;
        ib->counters.doorbells++;
        struct ibv_send_wr *bad;
        int error = ibv_post_send(pair->qp, b.work, &bad);
        if (error != 0) {
            gcoll_ib_broke(pair, "cannot be sent anything any more (posting failed: %s)", strerror(error));
            return;
        }
    }
}

void gcoll_ib_flush_all(gcoll_ib *ib) {
    gcoll_ib_pair *pair = ib->outputs;
    ib->outputs = NULL;
    while (pair) {
        gcoll_ib_pair *next = pair->next_output;
        pair->in_outputs = false;
        pump(pair);
        if (has_output(pair))
            gcoll_ib_want_output(pair);
        pair = next;
    }
}

void gcoll_ib_queue_finished(gcoll_ib_pair *pair, uint32_t count) {
    while ((int32_t)(count - pair->finished_sends) > 0) {
        uint32_t place = pair->finished_sends % GCOLL_IB_DEPTH;
        gcoll_message *message = pair->sent[place];
        pair->finished_sends++;
        pair->writes_finished += pair->is_write[place] ? 1 : 0;
        pair->sent[place] = NULL;
        if (message) {
            gcoll_ib_unregister(pair->ib, message->region);
            message->region = NULL;
            gcoll_session_complete(pair->session, message);
        }
    }
    if (!pair->stands)
        gcoll_ib_proved(pair);
    gcoll_ib_want_output(pair);
}
