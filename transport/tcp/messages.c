/*
 * transport/tcp/messages.c - messages as they are posted, and what their flow control (transport/flow) needs
 * of a connection: control frames, a queue of messages that may be sent, reports.
 *
 * A failure that is found while posting is reported by the next progress.
 */
#include <string.h>

#include "transport/tcp/pair.h"

static gcoll_tcp_pair *pair_of(gcoll_flow *flow) {
    return (gcoll_tcp_pair *)(void *)flow;
}

/* ---- What the flow calls --------------------------------------------------------------------------- */

static void send_control(gcoll_flow *flow, const gcoll_flow_control *control) {
    static const uint8_t kinds[] = {[GCOLL_FLOW_OFFER] = GCOLL_WIRE_OFFER,
                                    [GCOLL_FLOW_GRANT] = GCOLL_WIRE_GRANT,
                                    [GCOLL_FLOW_REVOKE] = GCOLL_WIRE_REVOKE,
                                    [GCOLL_FLOW_OPENING] = GCOLL_WIRE_CREDIT};
    uint8_t bytes[GCOLL_TCP_FIXED_HEADERS];
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
    gcoll_tcp_append_control(pair_of(flow), bytes, count);
}

static void enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_tcp_enqueue(pair_of(flow), message);
}

static void owe(gcoll_flow *flow) {
    gcoll_tcp_want_output(pair_of(flow));
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
    gcoll_tcp_pair *pair = pair_of(flow);
    pair->posted -= !message->background;
    gcoll_tcp_complete(pair->tcp, message);
}

/* Ends the current wait when a message without a receive arrives, if a caller peeks. */
static void unexpected(gcoll_flow *flow) {
    gcoll_tcp *tcp = pair_of(flow)->tcp;
    if (tcp->curious)
        tcp->moved = true;
}

static void fail(gcoll_flow *flow, gcoll_status status, const char *text) {
    gcoll_tcp_fail(pair_of(flow), status, "%s", text);
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

/* The pair for a posted message. NULL: the message is dropped, because the endpoint is leaving, the peer is
 * invalid, or memory ran out. */
static inline gcoll_tcp_pair *pair_for(gcoll_tcp *tcp, uint32_t peer) {
    gcoll_tcp_pair *pair = tcp->leaving ? NULL : gcoll_tcp_pair_of(tcp, peer);
    if (!pair && !tcp->leaving && peer < tcp->size && peer != tcp->rank)
        gcoll_tcp_problem(tcp, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", peer);
    return pair;
}

void gcoll_tcp_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_tcp_pair *pair = pair_for(gcoll_tcp_of(endpoint), peer);
    if (pair && pair->state < GCOLL_TCP_DEPARTED)
        gcoll_flow_post_send(&pair->flow, message);
}

/* Each poll reads the sockets of pairs with posted receives, so these are counted. */
void gcoll_tcp_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_tcp_pair *pair = pair_for(gcoll_tcp_of(endpoint), peer);
    if (!pair || pair->state == GCOLL_TCP_FAILED)
        return;
    pair->posted += !message->background;
    if (!gcoll_flow_post_recv(&pair->flow, message, pair->state == GCOLL_TCP_DEPARTED))
        pair->posted -= !message->background;
    else if (pair->posted > 0)
        gcoll_tcp_make_hot(pair);
}

bool gcoll_tcp_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index,
                    uint64_t *bytes) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    const gcoll_tcp_pair *pair = tcp->pairs[peer];
    const bool is_here = pair && gcoll_flow_peek(&pair->flow, stream, index, bytes);
    if (!is_here)
        tcp->curious = true;
    return is_here;
}

bool gcoll_tcp_take_back(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    gcoll_tcp_pair *pair = tcp->pairs[peer];
    gcoll_slot *slot = pair ? gcoll_flow_posted(&pair->flow, message) : NULL;
    if (!slot) /* done, or dropped when the peer left */
        return !gcoll_message_is_queued(&tcp->completed, message);
    if (!gcoll_flow_take_back(&pair->flow, slot))
        return false;
    pair->posted -= !message->background;
    return true;
}
