/*
 * transport/session/alive.c - probes and their answers, and signs of life that the kernel sees.
 *
 * A PING asks whether the peer's thread is alive; a PONG is the answer. Both queue behind data in the
 * kernel's buffers. So every byte that arrives from the peer counts as an answer. While a PING has not
 * arrived, so does every byte before it that the peer's host acknowledges. Bytes after it do not count: the
 * kernel of a stopped process still acknowledges until its receive window is full.
 *
 * A PING may name a third rank. The receiver probes that rank, too. When it answers, the receiver sends a
 * WITNESS frame, with the time at which it had sent its probe: the third rank was alive after that. A
 * receiver that is not connected to the third rank passes the question on, and the answer back. So a rank
 * that hears nothing from another learns whether that rank is stopped, or only unreachable from here.
 *
 * None of this runs while messages arrive quickly, so it may cost system calls.
 */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "transport/session/branch.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"

/* Least time in which a rank tells twice, unasked, that it is alive. */
#define TELL_MS 50
/* Retransmissions before a peer's host counts as mute. A distant host or a lossy network may leave one or two
 * unanswered; three take at least about a second. */
#define REPEATS_LEAST 3
/* Hops of a question that is passed on: a little more than a suspect's name travels. */
#define HOPS_MOST 8
/* Least time between two questions that are passed on; also keeps questions from circling. */
#define FORWARD_MS 50

/* ---- Asking and answering -------------------------------------------------------------------------- */

void gcoll_net_probe(gcoll_endpoint *endpoint, uint32_t peer) {
    gcoll_net *net = gcoll_net_of(endpoint);
    gcoll_session *session = peer < net->size ? net->sessions[peer] : NULL;
    if (session && session->state == GCOLL_SESSION_CONNECTED && !net->leaving) {
        session->output.ping = true;
        gcoll_session_want_output(session);
    }
}

bool gcoll_net_is_time_to_tell(gcoll_net *net, int64_t lasted_ms) {
    const int64_t now = lasted_ms > 0 && !net->leaving ? gcoll_now_ms() : 0;
    if (now == 0 || now - net->told_ms < TELL_MS)
        return false;
    net->told_ms = now;
    return true;
}

/* Where data come by the session's own connection, a probe lies behind all that this rank has not reduced
 * yet. An answer that nobody has asked for tells the same. */
void gcoll_net_look_soon(gcoll_endpoint *endpoint, int64_t lasted_ms) {
    gcoll_net *net = gcoll_net_of(endpoint);
    gcoll_net_look_in_time(net);
    if (!gcoll_net_is_time_to_tell(net, lasted_ms))
        return;
    for (uint32_t i = 0; i < net->size; i++) {
        gcoll_session *session = net->sessions[i];
        if (session && session->state == GCOLL_SESSION_CONNECTED && session->lane.is_stream) {
            session->output.pong = true;
            gcoll_session_want_output(session);
        }
    }
}

static bool is_since(uint32_t number, uint32_t before) {
    return ((number - before) & GCOLL_WIRE_PING_MASK) <= GCOLL_WIRE_PING_MASK / 2;
}

static const gcoll_net_voice *voice_of(const gcoll_session *session, const gcoll_channel *channel) {
    return channel ? &channel->branch->voice : &session->net->voice;
}

static void append(gcoll_session *session, const gcoll_channel *channel, const uint8_t *bytes, size_t count) {
    if (channel)
        gcoll_session_append_grouped(session, channel->branch->number, bytes, count);
    else
        gcoll_session_append_control(session, bytes, count);
}

void gcoll_session_say_ping(gcoll_session *session, gcoll_channel *channel) {
    const gcoll_net *net = session->net;
    const gcoll_net_voice *voice = voice_of(session, channel);
    gcoll_session_output *out = &session->output;
    gcoll_session_alive *alive = &session->alive;
    gcoll_wire_header header = {.kind = GCOLL_WIRE_PING};
    size_t count = GCOLL_WIRE_HEADER_BYTES;
    bool is_tracked = false;
    if (channel)
        channel->ping = false;
    else
        out->ping = false;
    alive->ping = (alive->ping + 1) & GCOLL_WIRE_PING_MASK;
    /* A tracked number that is half the range old can no longer be told from a newer one. */
    if (alive->tracked_ms == 0 || !is_since(alive->ping, alive->tracked)) {
        alive->tracked = alive->ping;
        alive->tracked_ms = gcoll_now_ms();
        is_tracked = true;
    }
    header.total_bytes = alive->ping;
    if (!channel && out->forwards) {
        out->forwards = false;
        header.index = net->inquiry.about + 1;
        header.total_bytes |= (uint64_t)net->inquiry.hops << 32;
    } else if (voice->doubt != UINT32_MAX && voice->doubt != session->rank) {
        header.index = voice->doubt + 1;
        header.total_bytes |= (uint64_t)HOPS_MOST << 32;
    }
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES + GCOLL_FINGERPRINT_BYTES];
    if (voice->concerned) {
        header.flags = GCOLL_WIRE_OPEN;
        header.stream = voice->concern_stream;
        memcpy(bytes + count, voice->concern, GCOLL_FINGERPRINT_BYTES);
        count += GCOLL_FINGERPRINT_BYTES;
    }
    gcoll_wire_put_header(bytes, &header);
    append(session, channel, bytes, count);
    if (is_tracked)
        alive->tracked_end = out->written + (out->cut.end - out->cut.begin) + out->cut.payload_bytes +
                             gcoll_bytes_left(&out->control);
}

void gcoll_session_say_pong(gcoll_session *session, gcoll_channel *channel) {
    const gcoll_net_voice *voice = voice_of(session, channel);
    const uint32_t moves = channel ? channel->branch->moves : session->net->moves;
    const uint32_t answers = channel ? channel->answers : session->output.answers;
    gcoll_wire_header header = {.kind = GCOLL_WIRE_PONG,
                                .stream = voice->position,
                                .index = gcoll_wire_pong_index(voice->news_of, answers),
                                .total_bytes = (uint64_t)moves << 32 | voice->news};
    if (channel)
        channel->pong = false;
    else
        session->output.pong = false;
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
    gcoll_wire_put_header(bytes, &header);
    append(session, channel, bytes, sizeof bytes);
}

/* Tells all peers that asked about the rank `about` that it was alive. */
static void tell_askers(gcoll_net *net, uint32_t about, uint64_t ago_ms, uint32_t by) {
    const gcoll_wire_header header = {
        .kind = GCOLL_WIRE_WITNESS, .index = about, .stream = ago_ms, .total_bytes = by};
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
    gcoll_wire_put_header(bytes, &header);
    for (uint32_t i = 0; i < net->size; i++) {
        gcoll_session *asker = net->sessions[i];
        if (asker && asker->alive.asks_about == about + 1) {
            asker->alive.asks_about = 0;
            if (asker->state == GCOLL_SESSION_CONNECTED)
                gcoll_session_append_control(asker, bytes, sizeof bytes);
        }
    }
}

/* Passes a question on to all peers but the asker. */
static void forward(gcoll_session *asker, uint32_t about, uint64_t hops) {
    gcoll_net *net = asker->net;
    const int64_t now = gcoll_now_ms();
    if (hops == 0 || now - net->inquiry.forwarded_ms < FORWARD_MS)
        return;
    net->inquiry.about = about;
    net->inquiry.hops = (uint32_t)(hops < HOPS_MOST ? hops : HOPS_MOST) - 1;
    net->inquiry.forwarded_ms = now;
    for (uint32_t i = 0; i < net->size; i++) {
        gcoll_session *session = net->sessions[i];
        if (session && session != asker && session->state == GCOLL_SESSION_CONNECTED) {
            session->output.forwards = session->output.ping = true;
            gcoll_session_want_output(session);
        }
    }
}

void gcoll_session_on_ping(gcoll_session *session, gcoll_channel *channel, const gcoll_wire_header *header) {
    gcoll_net *net = session->net;
    const uint32_t about = header->index - 1;
    const uint32_t number = (uint32_t)header->total_bytes & GCOLL_WIRE_PING_MASK;
    if (channel) {
        channel->pong = true;
        channel->answers = number;
        gcoll_channel_speak(channel);
    } else {
        session->output.pong = true;
        session->output.answers = number;
    }
    gcoll_session_want_output(session);
    if (net->leaving || header->index == 0 || about >= net->size || about == session->rank ||
        about == net->rank)
        return;
    session->alive.asks_about = header->index;
    if (net->sessions[about] && net->sessions[about]->state == GCOLL_SESSION_CONNECTED)
        gcoll_net_probe((gcoll_endpoint *)(void *)net, about);
    else
        forward(session, about, header->total_bytes >> 32);
}

void gcoll_session_on_pong(gcoll_session *session, gcoll_channel *channel, const gcoll_wire_header *header) {
    gcoll_net *net = session->net;
    const gcoll_events *events = channel ? &channel->branch->events : &net->events;
    gcoll_session_alive *alive = &session->alive;
    const gcoll_answer answer = {.position = header->stream,
                                 .moves = (uint32_t)(header->total_bytes >> 32),
                                 .news_of = gcoll_wire_pong_news_of(header->index),
                                 .news = (uint32_t)header->total_bytes};
    if (alive->tracked_ms != 0 && is_since(header->index >> GCOLL_WIRE_NEWS_BITS, alive->tracked)) {
        if (!net->leaving)
            tell_askers(net, session->rank, (uint64_t)(gcoll_now_ms() - alive->tracked_ms), net->rank);
        alive->tracked_ms = 0;
    }
    if (!net->leaving && events->answered) {
        net->moved = true;
        events->answered(events->arg, channel ? channel->rank : session->rank, &answer);
    }
}

void gcoll_session_on_witness(gcoll_session *session, const gcoll_wire_header *header) {
    gcoll_net *net = session->net;
    const uint32_t about = header->index;
    if (net->leaving || about >= net->size || header->total_bytes >= net->size)
        return;
    tell_askers(net, about, header->stream, (uint32_t)header->total_bytes);
    const int64_t ago_ms = header->stream < INT32_MAX ? (int64_t)header->stream : INT32_MAX;
    net->moved = true;
    if (net->events.witnessed)
        net->events.witnessed(net->events.arg, (uint32_t)header->total_bytes, about, ago_ms);
    gcoll_branches_witnessed(net, (uint32_t)header->total_bytes, about, ago_ms);
}

/* ---- Contents of answers --------------------------------------------------------------------------- */

void gcoll_net_set_position(gcoll_endpoint *endpoint, uint64_t position) {
    gcoll_net_of(endpoint)->voice.position = position;
}

void gcoll_net_set_concern(gcoll_endpoint *endpoint, uint64_t stream,
                           const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_net_voice_concern(&gcoll_net_of(endpoint)->voice, stream, fingerprint);
}

void gcoll_net_set_news(gcoll_endpoint *endpoint, uint32_t rank, uint32_t moves) {
    gcoll_net *net = gcoll_net_of(endpoint);
    net->voice.news_of = rank;
    net->voice.news = moves;
}

void gcoll_net_set_doubt(gcoll_endpoint *endpoint, uint32_t rank) {
    gcoll_net_of(endpoint)->voice.doubt = rank;
}

/* ---- Signs of life in the kernel ------------------------------------------------------------------- */

uint64_t gcoll_session_taken(const gcoll_session *session, uint64_t end, uint64_t before) {
    const gcoll_session_output *out = &session->output;
    uint64_t queued = 0;
    if (!session->socket || !gcoll_socket_unacknowledged(session->socket, &queued))
        return before;
    uint64_t acknowledged = queued < out->written ? out->written - queued : 0;
    acknowledged = acknowledged < end ? acknowledged : end;
    /* What TLS adds to the bytes lies in the queue, too: what it adds to new ones takes nothing back. */
    return session->socket->tls && acknowledged < before ? before : acknowledged;
}

/* The number of message bytes that the peer's host has acknowledged. Control frames after the last message
 * do not count. */
static uint64_t taken(const gcoll_session *session) {
    return gcoll_session_taken(session, session->output.data_end, session->alive.taken);
}

static bool ask_kernel(const gcoll_socket *socket, struct tcp_info *info) {
    socklen_t bytes = sizeof *info;
    memset(info, 0, sizeof *info);
    return getsockopt(socket->fd, IPPROTO_TCP, TCP_INFO, info, &bytes) == 0;
}

uint64_t gcoll_socket_retransmitted(const gcoll_socket *socket) {
    struct tcp_info info;
    return ask_kernel(socket, &info) ? info.tcpi_total_retrans : 0;
}

/* Reads the kernel's count of unanswered packets: retransmissions of data, or window probes if the peer's
 * window is closed. Any segment from the peer's host resets the count. */
uint32_t gcoll_socket_repeats(const gcoll_socket *socket, int64_t *mute_ms) {
    struct tcp_info info;
    uint32_t repeats = 0;
    *mute_ms = 0;
    if (!ask_kernel(socket, &info))
        return 0;
    if (info.tcpi_unacked > 0 && info.tcpi_retransmits >= REPEATS_LEAST)
        repeats = info.tcpi_retransmits;
    else if (info.tcpi_probes >= REPEATS_LEAST)
        repeats = info.tcpi_probes;
    if (repeats > 0)
        *mute_ms = info.tcpi_last_ack_recv;
    return repeats;
}

void gcoll_net_look(gcoll_endpoint *endpoint, uint32_t peer, gcoll_sight *sight) {
    const gcoll_session *session = gcoll_net_of(endpoint)->sessions[peer];
    memset(sight, 0, sizeof *sight);
    if (!session)
        return;
    sight->heard = session->heard;
    sight->taken = taken(session);
    if (session->alive.tracked_ms != 0 && sight->taken > session->alive.tracked_end)
        sight->taken = session->alive.tracked_end;
    if (session->state == GCOLL_SESSION_CONNECTED)
        sight->repeats = gcoll_socket_repeats(session->socket, &sight->mute_ms);
    if (session->lane.stands && session->lane.taken->lane->look) {
        gcoll_lane_sight also = {0};
        session->lane.taken->lane->look(session, &also);
        sight->heard += also.heard;
        sight->taken += also.taken;
    }
}

uint32_t gcoll_net_moves(gcoll_endpoint *endpoint) {
    gcoll_net *net = gcoll_net_of(endpoint);
    for (uint32_t i = 0; i < net->size; i++) {
        gcoll_session *session = net->sessions[i];
        if (session && session->state == GCOLL_SESSION_CONNECTED) {
            const uint64_t now = taken(session);
            net->moves += now != session->alive.taken;
            session->alive.taken = now;
        }
    }
    return net->moves;
}
