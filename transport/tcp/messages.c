/*
 * transport/tcp/messages.c - messages as they are posted, and what their flow control (transport/flow) needs
 * of a connection: control frames, a queue of messages that may be sent, reports.
 *
 * A failure that is found while posting is reported by the next progress.
 */
#include <string.h>

#include "transport/session/session.h"

static gcoll_session *pair_of(gcoll_flow *flow) {
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
    gcoll_session_append_control(pair_of(flow), bytes, count);
}

static void enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_session_enqueue(pair_of(flow), message);
}

static void owe(gcoll_flow *flow) {
    gcoll_session_want_output(pair_of(flow));
}

static void deliver(gcoll_flow *flow, gcoll_slot *slot) {
    const gcoll_message *message = slot->message;
    const uint64_t early = slot->received;
    if (message->consume) {
        slot->received = 0;
        gcoll_tcp_consume(pair_of(flow), slot, slot->held, early);
    } else if (early > 0) {
        memcpy(message->data, slot->held, (size_t)early);
    }
}

static void complete(gcoll_flow *flow, gcoll_message *message) {
    gcoll_session *session = pair_of(flow);
    session->posted -= !message->background;
    gcoll_net_complete(session->net, message);
}

/* Ends the current wait when a message without a receive arrives, if a caller peeks. */
static void unexpected(gcoll_flow *flow) {
    gcoll_net *net = pair_of(flow)->net;
    if (net->curious)
        net->moved = true;
}

static void fail(gcoll_flow *flow, gcoll_status status, const char *text) {
    gcoll_session_fail(pair_of(flow), status, "%s", text);
}

const gcoll_flow_lane gcoll_tcp_flow_lane = {
    .control = send_control,
    .enqueue = enqueue,
    .owe = owe,
    .deliver = deliver,
    .complete = complete,
    .unexpected = unexpected,
    .fail = fail,
};

/* ---- Posting --------------------------------------------------------------------------------------- */

/* The session for a posted message. NULL: the message is dropped, because the endpoint is leaving, the peer
 * is invalid, or memory ran out. */
static inline gcoll_session *pair_for(gcoll_net *net, uint32_t peer) {
    gcoll_session *session = net->leaving ? NULL : gcoll_session_of(net, peer);
    if (!session && !net->leaving && peer < net->size && peer != net->rank)
        gcoll_net_problem(net, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", peer);
    return session;
}

void gcoll_net_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_session *session = pair_for(gcoll_net_of(endpoint), peer);
    if (session && session->state < GCOLL_SESSION_DEPARTED)
        gcoll_flow_post_send(&session->flow, message);
}

/* Each poll reads the sockets of sessions with posted receives, so these are counted. */
void gcoll_net_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_session *session = pair_for(gcoll_net_of(endpoint), peer);
    if (!session || session->state == GCOLL_SESSION_FAILED)
        return;
    session->posted += !message->background;
    if (!gcoll_flow_post_recv(&session->flow, message, session->state == GCOLL_SESSION_DEPARTED))
        session->posted -= !message->background;
    else if (session->posted > 0)
        gcoll_session_make_hot(session);
}

bool gcoll_net_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index,
                    uint64_t *bytes) {
    gcoll_net *net = gcoll_net_of(endpoint);
    const gcoll_session *session = net->sessions[peer];
    const bool is_here = session && gcoll_flow_peek(&session->flow, stream, index, bytes);
    if (!is_here)
        net->curious = true;
    return is_here;
}

bool gcoll_net_take_back(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_net *net = gcoll_net_of(endpoint);
    gcoll_session *session = net->sessions[peer];
    gcoll_slot *slot = session ? gcoll_flow_posted(&session->flow, message) : NULL;
    if (!slot) /* done, or dropped when the peer left */
        return !gcoll_message_is_queued(&net->completed, message);
    if (!gcoll_flow_take_back(&session->flow, slot))
        return false;
    session->posted -= !message->background;
    return true;
}
