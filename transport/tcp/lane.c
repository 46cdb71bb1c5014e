/*
 * transport/tcp/lane.c - the lane tcp: messages go by the session's own connection, as frames among its
 * others.
 *
 * Here is what flow control (transport/flow) needs of it: control frames, a queue of messages that may be
 * sent, reports. The frames are written by session/write.c and read by session/read.c.
 */
#include <string.h>

#include "transport/session/session.h"

static gcoll_session *session_of(gcoll_flow *flow) {
    return (gcoll_session *)(void *)flow;
}

/* ---- What the flow calls --------------------------------------------------------------------------- */

static void send_control(gcoll_flow *flow, const gcoll_flow_control *control) {
    static const uint8_t kinds[] = {[GCOLL_FLOW_OFFER] = GCOLL_WIRE_OFFER,
                                    [GCOLL_FLOW_GRANT] = GCOLL_WIRE_GRANT,
                                    [GCOLL_FLOW_REVOKE] = GCOLL_WIRE_REVOKE,
                                    [GCOLL_FLOW_OPENING] = GCOLL_WIRE_CREDIT};
    uint8_t bytes[GCOLL_SESSION_FIXED_HEADERS];
    size_t count = GCOLL_WIRE_HEADER_BYTES;
    const gcoll_wire_header header = {.kind = kinds[control->kind],
                                      .flags = control->open ? GCOLL_WIRE_OPEN : 0,
                                      .index = control->index,
                                      .stream = control->stream,
                                      .total_bytes = control->total};
    gcoll_wire_put_header(bytes, &header);
    if (control->open) {
        memcpy(bytes + count, control->open, GCOLL_FINGERPRINT_BYTES);
        count += GCOLL_FINGERPRINT_BYTES;
    }
    gcoll_session_append_control(session_of(flow), bytes, count);
}

static void enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_session_enqueue(session_of(flow), message);
}

static void owe(gcoll_flow *flow) {
    gcoll_session *session = session_of(flow);
    session->output.credit = true;
    gcoll_session_want_output(session);
}

static void deliver(gcoll_flow *flow, gcoll_slot *slot) {
    const gcoll_message *message = slot->message;
    const uint64_t early = slot->received;
    if (message->consume) {
        slot->received = 0;
        gcoll_tcp_consume(session_of(flow), slot, slot->held, early);
    } else if (early > 0) {
        memcpy(message->data, slot->held, (size_t)early);
    }
}

static void complete(gcoll_flow *flow, gcoll_message *message) {
    gcoll_session_push_receive(session_of(flow), message);
}

static void unexpected(gcoll_flow *flow) {
    gcoll_session_unexpected(session_of(flow));
}

static void fail(gcoll_flow *flow, gcoll_status status, const char *text) {
    gcoll_session_fail(session_of(flow), status, "%s", text);
}

static const gcoll_flow_lane flow_lane = {
    .control = send_control,
    .enqueue = enqueue,
    .owe = owe,
    .deliver = deliver,
    .complete = complete,
    .unexpected = unexpected,
    .fail = fail,
};

static void begin(gcoll_session *session, gcoll_lane_port *port) {
    const gcoll_net *net = session->net;
    (void)port;
    gcoll_session_stand(session, net->eager_bytes, net->pool_bytes, session->peer_eager, session->peer_pool);
}

const gcoll_lane gcoll_lane_tcp = {
    .name = "tcp",
    .number = GCOLL_LANE_TCP,
    .list = gcoll_net_list,
    .flow = &flow_lane,
    .begin = begin,
};
