/*
 * transport/tcp/alive.c - probes and their answers, and signs of life that the kernel sees.
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

#include "transport/tcp/connect.h"
#include "transport/tcp/pair.h"

/* Retransmissions before a peer's host counts as mute. A distant host or a lossy network may leave one or two
 * unanswered; three take at least about a second. */
#define REPEATS_LEAST 3
/* Hops of a question that is passed on: a little more than a suspect's name travels. */
#define HOPS_MOST 8
/* Least time between two questions that are passed on; also keeps questions from circling. */
#define FORWARD_MS 50

/* ---- Asking and answering -------------------------------------------------------------------------- */

void gcoll_tcp_probe(gcoll_endpoint *endpoint, uint32_t peer) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    gcoll_tcp_pair *pair = peer < tcp->size ? tcp->pairs[peer] : NULL;
    if (pair && pair->state == GCOLL_TCP_CONNECTED && !tcp->leaving) {
        pair->output.ping = true;
        gcoll_tcp_want_output(pair);
    }
}

static bool is_since(uint32_t number, uint32_t before) {
    return ((number - before) & GCOLL_WIRE_PING_MASK) <= GCOLL_WIRE_PING_MASK / 2;
}

void gcoll_tcp_say_ping(gcoll_tcp_pair *pair) {
    const gcoll_tcp *tcp = pair->tcp;
    gcoll_tcp_output *out = &pair->output;
    gcoll_tcp_alive *alive = &pair->alive;
    gcoll_wire_header header = {.kind = GCOLL_WIRE_PING};
    size_t count = GCOLL_WIRE_HEADER_BYTES;
    bool is_tracked = false;
    out->ping = false;
    alive->ping = (alive->ping + 1) & GCOLL_WIRE_PING_MASK;
    /* A tracked number that is half the range old can no longer be told from a newer one. */
    if (alive->tracked_ms == 0 || !is_since(alive->ping, alive->tracked)) {
        alive->tracked = alive->ping;
        alive->tracked_ms = gcoll_now_ms();
        is_tracked = true;
    }
    header.total_bytes = alive->ping;
    if (out->forwards) {
        out->forwards = false;
        header.index = tcp->inquiry.about + 1;
        header.total_bytes |= (uint64_t)tcp->inquiry.hops << 32;
    } else if (tcp->doubt != UINT32_MAX && tcp->doubt != pair->rank) {
        header.index = tcp->doubt + 1;
        header.total_bytes |= (uint64_t)HOPS_MOST << 32;
    }
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES + GCOLL_FINGERPRINT_BYTES];
    if (tcp->concerned) {
        header.flags = GCOLL_WIRE_OPEN;
        header.stream = tcp->concern_stream;
        memcpy(bytes + count, tcp->concern, GCOLL_FINGERPRINT_BYTES);
        count += GCOLL_FINGERPRINT_BYTES;
    }
    gcoll_wire_put_header(bytes, &header);
    gcoll_tcp_append_control(pair, bytes, count);
    if (is_tracked)
        alive->tracked_end =
            out->written + (out->cut.end - out->cut.begin) + out->cut.payload_bytes + (out->end - out->begin);
}

void gcoll_tcp_say_pong(gcoll_tcp_pair *pair) {
    const gcoll_tcp *tcp = pair->tcp;
    gcoll_wire_header header = {.kind = GCOLL_WIRE_PONG,
                                .stream = tcp->position,
                                .index = gcoll_wire_pong_index(tcp->news_of, pair->output.answers),
                                .total_bytes = (uint64_t)tcp->moves << 32 | tcp->news};
    pair->output.pong = false;
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
    gcoll_wire_put_header(bytes, &header);
    gcoll_tcp_append_control(pair, bytes, sizeof bytes);
}

/* Tells all peers that asked about the rank `about` that it was alive. */
static void tell_askers(gcoll_tcp *tcp, uint32_t about, uint64_t ago_ms, uint32_t by) {
    const gcoll_wire_header header = {
        .kind = GCOLL_WIRE_WITNESS, .index = about, .stream = ago_ms, .total_bytes = by};
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
    gcoll_wire_put_header(bytes, &header);
    for (uint32_t i = 0; i < tcp->size; i++) {
        gcoll_tcp_pair *asker = tcp->pairs[i];
        if (asker && asker->alive.asks_about == about + 1) {
            asker->alive.asks_about = 0;
            if (asker->state == GCOLL_TCP_CONNECTED)
                gcoll_tcp_append_control(asker, bytes, sizeof bytes);
        }
    }
}

/* Passes a question on to all peers but the asker. */
static void forward(gcoll_tcp_pair *asker, uint32_t about, uint64_t hops) {
    gcoll_tcp *tcp = asker->tcp;
    const int64_t now = gcoll_now_ms();
    if (hops == 0 || now - tcp->inquiry.forwarded_ms < FORWARD_MS)
        return;
    tcp->inquiry.about = about;
    tcp->inquiry.hops = (uint32_t)(hops < HOPS_MOST ? hops : HOPS_MOST) - 1;
    tcp->inquiry.forwarded_ms = now;
    for (uint32_t i = 0; i < tcp->size; i++) {
        gcoll_tcp_pair *pair = tcp->pairs[i];
        if (pair && pair != asker && pair->state == GCOLL_TCP_CONNECTED) {
            pair->output.forwards = pair->output.ping = true;
            gcoll_tcp_want_output(pair);
        }
    }
}

void gcoll_tcp_on_ping(gcoll_tcp_pair *pair, const gcoll_wire_header *header) {
    gcoll_tcp *tcp = pair->tcp;
    const uint32_t about = header->index - 1;
    pair->output.pong = true;
    pair->output.answers = (uint32_t)header->total_bytes & GCOLL_WIRE_PING_MASK;
    gcoll_tcp_want_output(pair);
    if (tcp->leaving || header->index == 0 || about >= tcp->size || about == pair->rank || about == tcp->rank)
        return;
    pair->alive.asks_about = header->index;
    if (tcp->pairs[about] && tcp->pairs[about]->state == GCOLL_TCP_CONNECTED)
        gcoll_tcp_probe((gcoll_endpoint *)(void *)tcp, about);
    else
        forward(pair, about, header->total_bytes >> 32);
}

void gcoll_tcp_on_pong(gcoll_tcp_pair *pair, const gcoll_wire_header *header) {
    gcoll_tcp *tcp = pair->tcp;
    gcoll_tcp_alive *alive = &pair->alive;
    const gcoll_answer answer = {.position = header->stream,
                                 .moves = (uint32_t)(header->total_bytes >> 32),
                                 .news_of = gcoll_wire_pong_news_of(header->index),
                                 .news = (uint32_t)header->total_bytes};
    if (alive->tracked_ms != 0 && is_since(header->index >> GCOLL_WIRE_NEWS_BITS, alive->tracked)) {
        if (!tcp->leaving)
            tell_askers(tcp, pair->rank, (uint64_t)(gcoll_now_ms() - alive->tracked_ms), tcp->rank);
        alive->tracked_ms = 0;
    }
    if (!tcp->leaving && tcp->events.answered) {
        tcp->moved = true;
        tcp->events.answered(tcp->events.arg, pair->rank, &answer);
    }
}

void gcoll_tcp_on_witness(gcoll_tcp_pair *pair, const gcoll_wire_header *header) {
    gcoll_tcp *tcp = pair->tcp;
    const uint32_t about = header->index;
    if (tcp->leaving || about >= tcp->size || header->total_bytes >= tcp->size)
        return;
    tell_askers(tcp, about, header->stream, (uint32_t)header->total_bytes);
    if (tcp->events.witnessed) {
        tcp->moved = true;
        tcp->events.witnessed(tcp->events.arg, (uint32_t)header->total_bytes, about,
                              header->stream < INT32_MAX ? (int64_t)header->stream : INT32_MAX);
    }
}

/* ---- Contents of answers --------------------------------------------------------------------------- */

void gcoll_tcp_set_position(gcoll_endpoint *endpoint, uint64_t position) {
    gcoll_tcp_of(endpoint)->position = position;
}

void gcoll_tcp_set_concern(gcoll_endpoint *endpoint, uint64_t stream,
                           const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    tcp->concerned = fingerprint;
    tcp->concern_stream = stream;
    if (fingerprint)
        memcpy(tcp->concern, fingerprint, sizeof tcp->concern);
}

void gcoll_tcp_set_news(gcoll_endpoint *endpoint, uint32_t rank, uint32_t moves) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    tcp->news_of = rank;
    tcp->news = moves;
}

void gcoll_tcp_set_doubt(gcoll_endpoint *endpoint, uint32_t rank) {
    gcoll_tcp_of(endpoint)->doubt = rank;
}

/* ---- Signs of life in the kernel ------------------------------------------------------------------- */

/* The number of message bytes that the peer's host has acknowledged. Control frames after the last message
 * do not count. */
static uint64_t taken(const gcoll_tcp_pair *pair) {
    const gcoll_tcp_output *out = &pair->output;
    int queued = 0;
    if (!pair->socket || ioctl(pair->socket->fd, SIOCOUTQ, &queued) != 0)
        return pair->alive.taken;
    uint64_t acknowledged = (uint64_t)queued < out->written ? out->written - (uint64_t)queued : 0;
    return acknowledged < out->data_end ? acknowledged : out->data_end;
}

/* Reads the kernel's count of unanswered packets: retransmissions of data, or window probes if the peer's
 * window is closed. Any segment from the peer's host resets the count. */
static void look_at_kernel(const gcoll_tcp_pair *pair, gcoll_sight *sight) {
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    memset(&info, 0, sizeof info);
    if (getsockopt(pair->socket->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
        return;
    if (info.tcpi_unacked > 0 && info.tcpi_retransmits >= REPEATS_LEAST)
        sight->repeats = info.tcpi_retransmits;
    else if (info.tcpi_probes >= REPEATS_LEAST)
        sight->repeats = info.tcpi_probes;
    if (sight->repeats > 0)
        sight->mute_ms = info.tcpi_last_ack_recv;
}

void gcoll_tcp_look(gcoll_endpoint *endpoint, uint32_t peer, gcoll_sight *sight) {
    const gcoll_tcp_pair *pair = gcoll_tcp_of(endpoint)->pairs[peer];
    memset(sight, 0, sizeof *sight);
    if (!pair)
        return;
    sight->heard = pair->heard;
    sight->taken = taken(pair);
    if (pair->alive.tracked_ms != 0 && sight->taken > pair->alive.tracked_end)
        sight->taken = pair->alive.tracked_end;
    if (pair->state == GCOLL_TCP_CONNECTED)
        look_at_kernel(pair, sight);
}

uint32_t gcoll_tcp_moves(gcoll_endpoint *endpoint) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    for (uint32_t i = 0; i < tcp->size; i++) {
        gcoll_tcp_pair *pair = tcp->pairs[i];
        if (pair && pair->state == GCOLL_TCP_CONNECTED) {
            const uint64_t now = taken(pair);
            tcp->moves += now != pair->alive.taken;
            pair->alive.taken = now;
        }
    }
    return tcp->moves;
}
