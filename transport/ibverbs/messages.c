/*
 * transport/ibverbs/messages.c - messages as they arrive, and what their flow control
 * (transport/flow) needs of a queue pair: control frames, a queue of messages that may be sent, reports.
 *
 * A small message with a posted receive is copied from its slot to the receive's memory. Without one it is
 * kept, within the pool, until a receive is posted. Large messages go by pieces (pieces.c).
 */
#include <string.h>

#include "transport/ibverbs/pair.h"

static gcoll_ib_pair *pair_of(gcoll_flow *flow) {
    return gcoll_session_lane_state((const gcoll_session *)(const void *)flow);
}

/* ---- What the flow calls --------------------------------------------------------------------------- */

static void send_control(gcoll_flow *flow, const gcoll_flow_frame *control) {
    static const uint8_t kinds[] = {[GCOLL_FLOW_OFFER] = GCOLL_IB_OFFER,
                                    [GCOLL_FLOW_GRANT] = GCOLL_IB_GRANT,
                                    [GCOLL_FLOW_REVOKE] = GCOLL_IB_REVOKE,
                                    [GCOLL_FLOW_OPENING] = GCOLL_IB_CREDIT};
    const gcoll_ib_frame frame = {.kind = kinds[control->kind],
                                  .flags = control->open ? GCOLL_IB_OPEN : 0,
                                  .stream = control->stream,
                                  .index = control->index,
                                  .total = control->total};
    gcoll_ib_append_control(pair_of(flow), &frame, control->open);
}

static void enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_ib_enqueue(pair_of(flow), message);
}

static void owe(gcoll_flow *flow) {
    gcoll_ib_want_output(pair_of(flow));
}

/* Counts the bytes of a message that is copied to where it is wanted. */
static void count_copied(gcoll_ib_pair *pair, const gcoll_slot *slot) {
    if (!slot->message || !slot->message->consume)
        pair->ib->counters.bytes_copied += slot->total;
}

static void deliver(gcoll_flow *flow, gcoll_slot *slot) {
    count_copied(pair_of(flow), slot);
    gcoll_lane_deliver(flow, slot);
}

static void forget(gcoll_flow *flow, gcoll_message *message) {
    gcoll_ib_release(pair_of(flow), message);
}

static void complete(gcoll_flow *flow, gcoll_message *message) {
    forget(flow, message);
    gcoll_session_complete_receive(pair_of(flow)->session, message);
}

const gcoll_flow_lane gcoll_ib_flow_lane = {
    .control = send_control,
    .enqueue = enqueue,
    .owe = owe,
    .deliver = deliver,
    .complete = complete,
    .unexpected = gcoll_lane_report_unexpected,
    .fail = gcoll_lane_report_fail,
    .forget = forget,
    .pieces = &gcoll_ib_flow_pieces,
};

/* ---- Arrivals -------------------------------------------------------------------------------------- */

static gcoll_flow_frame flow_frame(gcoll_flow_kind kind, const gcoll_ib_frame *frame, const uint8_t *open) {
    return (gcoll_flow_frame){.kind = kind,
                              .index = frame->index,
                              .stream = frame->stream,
                              .total = frame->total,
                              .open = frame->flags & GCOLL_IB_OPEN ? open : NULL,
                              .on_credit = (frame->flags & GCOLL_IB_CREDITED) != 0,
                              .is_ahead = (frame->flags & GCOLL_IB_AHEAD) != 0};
}

void gcoll_ib_on_offer(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *extra) {
    const gcoll_flow_frame offer = flow_frame(GCOLL_FLOW_OFFER, frame, extra);
    gcoll_flow_on_offer(pair->flow, &offer);
}

void gcoll_ib_on_data(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *extra) {
    const gcoll_flow_frame data = flow_frame(GCOLL_FLOW_DATA, frame, extra);
    const uint8_t *payload = data.open ? extra + GCOLL_IB_EXTRA_BYTES : extra;
    gcoll_slot *slot = gcoll_flow_begin(pair->flow, &data);
    if (!slot)
        return;
    count_copied(pair, slot);
    gcoll_session_accept(pair->session, slot, payload, frame->total);
}

void gcoll_ib_on_opening(gcoll_ib_pair *pair, const gcoll_ib_frame *frame) {
    if (frame->flags & GCOLL_IB_OPEN)
        gcoll_flow_on_opening(pair->flow);
    if (!(frame->flags & GCOLL_IB_AHEAD) || !gcoll_flow_take_ahead(pair->flow))
        return;
    gcoll_slot *slot = gcoll_match_find(&pair->flow->incoming, frame->stream, frame->index);
    if (slot && slot->message && slot->message->moved > 0 && !(slot->flags & GCOLL_FLOW_STARTED))
        slot->flags |= GCOLL_FLOW_HAS_OPEN;
    else
        gcoll_session_fail(pair->session, GCOLL_ERR_PROTOCOL,
                           "sent garbage (a fingerprint of a message without a grant)");
}
