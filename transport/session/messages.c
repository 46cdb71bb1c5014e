/*
 * transport/session/messages.c - messages as they are posted, and taken back.
 *
 * A failure that is found while posting is reported by the next progress.
 */
#include "transport/session/session.h"

/* The session for a posted message. NULL: the message is dropped, because the endpoint is leaving, the peer
 * is invalid, or memory ran out. */
static inline gcoll_session *session_for(gcoll_net *net, uint32_t peer) {
    gcoll_session *session = net->leaving ? NULL : gcoll_session_of(net, peer);
    if (!session && !net->leaving && peer < net->size && peer != net->rank)
        gcoll_net_problem(net, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", peer);
    return session;
}

void gcoll_net_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_session *session = session_for(gcoll_net_of(endpoint), peer);
    message->channel = NULL;
    if (session && session->state < GCOLL_SESSION_DEPARTED)
        gcoll_flow_post_send(&session->flow, message);
}

/* Each poll reads the sockets of sessions with posted receives, so these are counted. */
void gcoll_net_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_session *session = session_for(gcoll_net_of(endpoint), peer);
    if (!session || session->state == GCOLL_SESSION_FAILED)
        return;
    message->channel = NULL;
    session->posted += !message->background;
    if (!gcoll_flow_post_recv(&session->flow, message,
                              session->state == GCOLL_SESSION_DEPARTED || session->is_gone))
        session->posted -= !message->background;
    else if (session->posted > 0)
        gcoll_session_make_hot(session);
}

bool gcoll_net_moves_now(const gcoll_endpoint *endpoint) {
    const gcoll_net *net = (const gcoll_net *)(const void *)endpoint;
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (net->lanes[i].lane->send_now)
            return true;
    return false;
}

/* The lane that may move a message of that peer within a call; NULL: none. */
static inline const gcoll_lane *lane_now(const gcoll_session *session) {
    return session && session->lane.stands ? session->lane.taken->lane : NULL;
}

bool gcoll_net_send_now(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_session *session = gcoll_net_of(endpoint)->sessions[peer];
    const gcoll_lane *lane = lane_now(session);
    return lane && lane->send_now && lane->send_now(session, message);
}

bool gcoll_net_recv_now(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message, uint32_t looks) {
    gcoll_net *net = gcoll_net_of(endpoint);
    gcoll_session *session = net->sessions[peer];
    const gcoll_lane *lane = lane_now(session);
    return lane && lane->recv_now &&
           lane->recv_now(session, message, gcoll_patience_has_core(&net->patience) ? looks : 1);
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
    const gcoll_net_lane *taken = session->lane.taken;
    if (taken && taken->lane->may_take_back && !taken->lane->may_take_back(session, message))
        return false;
    if (!gcoll_flow_take_back(&session->flow, slot))
        return false;
    session->posted -= !message->background;
    return true;
}
