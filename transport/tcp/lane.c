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

_Static_assert((int)GCOLL_WIRE_DATA == (int)GCOLL_FLOW_DATA &&
                   (int)GCOLL_WIRE_OFFER == (int)GCOLL_FLOW_OFFER &&
                   (int)GCOLL_WIRE_GRANT == (int)GCOLL_FLOW_GRANT &&
                   (int)GCOLL_WIRE_REVOKE == (int)GCOLL_FLOW_REVOKE &&
                   (int)GCOLL_WIRE_CREDIT == (int)GCOLL_FLOW_OPENING,
               "frames are numbered as flow control numbers them");

static void send_control(gcoll_flow *flow, const gcoll_flow_frame *control) {
    uint8_t bytes[GCOLL_SESSION_FIXED_HEADERS];
    size_t count = GCOLL_WIRE_HEADER_BYTES;
    const gcoll_wire_header header = {.kind = (uint8_t)control->kind,
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

static const gcoll_flow_lane flow_lane = {.control = send_control,
                                          .enqueue = enqueue,
                                          .owe = owe,
                                          .deliver = gcoll_lane_deliver,
                                          GCOLL_LANE_REPORTS};

/* ---- The lane --------------------------------------------------------------------------------------- */

const gcoll_lane_option gcoll_tcp_options[] = {
    {.name = "eager_bytes",
     .form = GCOLL_LANE_SIZE,
     .least = 1,
     .most = INT64_C(1) << 30,
     .help = "messages up to this size are sent before the receiver asks",
     .initial = "256Ki"},
    {.name = "pool_bytes",
     .form = GCOLL_LANE_SIZE,
     .least = INT64_C(1) << 10,
     .most = INT64_C(1) << 31,
     .help = "most bytes held for one peer that no operation waits for yet",
     .initial = "4Mi"},
    {.name = NULL},
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
