/*
 * transport/tcp/lane.c - the lane tcp: messages go by the session's own connection, as frames among its
 * others.
 *
 * Here is what flow control (transport/flow) needs of it: control frames, a queue of messages that may be
 * sent, reports. The frames are written by session/write.c and read by session/read.c. With several
 * connections (stripes.h) all that differs is where granted messages go.
 */
#include "transport/tcp/stripes.h"

static gcoll_session *session_of(gcoll_flow *flow) {
    return (gcoll_session *)(void *)flow;
}

/* ---- What the flow calls --------------------------------------------------------------------------- */

static void send_control(gcoll_flow *flow, const gcoll_flow_frame *control) {
    uint8_t bytes[GCOLL_SESSION_FIXED_HEADERS];
    gcoll_session_append_control(session_of(flow), bytes, gcoll_session_put_control(bytes, control));
}

static void enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_session_enqueue(session_of(flow), message);
}

static void owe(gcoll_flow *flow) {
    gcoll_session *session = session_of(flow);
    session->output.credit = true;
    gcoll_session_want_output(session);
}

#define FLOW_LANE(ENQUEUE)                                                                                   \
    {                                                                                                        \
        .control = send_control, .enqueue = (ENQUEUE), .owe = owe, .deliver = gcoll_lane_deliver,            \
        GCOLL_LANE_REPORTS                                                                                   \
    }

static const gcoll_flow_lane flow_lane = FLOW_LANE(enqueue);
const gcoll_flow_lane gcoll_stripes_flow = FLOW_LANE(gcoll_stripes_enqueue);

/* ---- The lane --------------------------------------------------------------------------------------- */

const gcoll_lane_option gcoll_tcp_options[] = {
    GCOLL_LANE_EAGER_OPTION("256Ki"),
    GCOLL_LANE_POOL_OPTION,
    {.name = "connections",
     .form = GCOLL_LANE_WHOLE,
     .least = 1,
     .most = 16,
     .unset = 1,
     .fallback = 1,
     .help = "over how many connections to a peer large messages are striped",
     .initial = "1"},
    {.name = NULL},
};

static void begin(gcoll_session *session, gcoll_lane_port *port) {
    const gcoll_net *net = session->net;
    (void)port;
    gcoll_session_stand(session, net->eager_bytes, net->pool_bytes, session->peer_eager, session->peer_pool);
}

static const gcoll_lane *wider(const gcoll_endpoint_options *options) {
    return gcoll_lane_option_number(options, "tcp", "connections", 1) > 1 ? &gcoll_lane_stripes : NULL;
}

const gcoll_lane gcoll_lane_tcp = {
    .name = "tcp",
    .number = GCOLL_LANE_TCP,
    .uses_stream = true,
    .wider = wider,
    .list = gcoll_net_list,
    .flow = &flow_lane,
    .begin = begin,
};
