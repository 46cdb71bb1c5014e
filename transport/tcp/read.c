/*
 * transport/tcp/read.c - reads frames from the socket, and payloads into messages.
 *
 * While the payload of a posted receive arrives, one system call reads the rest of it directly into user
 * memory, and the bytes after it into the input buffer. Between payloads all bytes go to the input buffer:
 * many small frames in one call.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "transport/tcp/connect.h"
#include "transport/tcp/pair.h"

/* A payload of at least BULK_BYTES is usually followed by another. Then the input buffer reads only little
 * beyond the header, as all further bytes in it would have to be copied. */
#define BULK_BYTES (16U << 10)
#define BULK_AHEAD 1024U

static void garbage(gcoll_tcp_pair *pair, const char *what) {
    gcoll_tcp_fail(pair, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", what);
}

/* ---- Payloads -------------------------------------------------------------------------------------- */

/* Whether data is aligned to the largest power of two that divides the element size, as kernels expect. */
static bool is_aligned(const uint8_t *bytes, uint32_t granule) {
    return ((uintptr_t)bytes & ((granule & (0U - granule)) - 1)) == 0;
}

/* Hands whole elements to the receive's `consume`; keeps the rest in slot->carry. */
static void hand_over(gcoll_slot *slot, const uint8_t *bytes, uint64_t count) {
    gcoll_message *message = slot->message;
    uint32_t rest = (uint32_t)(count % message->granule);
    if (count > rest)
        message->consume(message->consume_arg, slot->received - slot->carried, bytes, count - rest);
    slot->received += count - slot->carried;
    slot->carried = rest;
    memcpy(slot->carry, bytes + count - rest, rest);
}

void gcoll_tcp_consume(gcoll_tcp_pair *pair, gcoll_slot *slot, const uint8_t *bytes, uint64_t count) {
    uint8_t *hot = pair->tcp->hot_bytes;
    if (!bytes) {
        hand_over(slot, hot, slot->carried + count);
        return;
    }
    while (count > 0) {
        uint64_t piece = GCOLL_TCP_HOT_BYTES - slot->carried;
        if (slot->carried == 0 && is_aligned(bytes, slot->message->granule)) {
            hand_over(slot, bytes, count);
            return;
        }
        piece = piece < count ? piece : count;
        memcpy(hot, slot->carry, slot->carried);
        memcpy(hot + slot->carried, bytes, (size_t)piece);
        hand_over(slot, hot, slot->carried + piece);
        bytes += piece;
        count -= piece;
    }
}

/* The address for the rest of the current payload; *count is how much fits there. */
static uint8_t *target(gcoll_tcp_pair *pair, size_t *count) {
    gcoll_tcp_input *in = &pair->input;
    gcoll_slot *slot = in->slot;
    uint8_t *hot = pair->tcp->hot_bytes;
    if (pair->tcp->crc)
        return gcoll_tcp_checked_target(pair, count);
    *count = in->remaining < GCOLL_TCP_HOT_BYTES ? (size_t)in->remaining : GCOLL_TCP_HOT_BYTES;
    if (!slot)
        return hot;
    if (slot->message && slot->message->consume) {
        if (*count > GCOLL_TCP_HOT_BYTES - slot->carried)
            *count = GCOLL_TCP_HOT_BYTES - slot->carried;
        memcpy(hot, slot->carry, slot->carried);
        return hot + slot->carried;
    }
    *count = (size_t)in->remaining;
    return (slot->message ? (uint8_t *)slot->message->data : slot->held) + slot->received;
}

/* Accepts `count` bytes of the current payload. They lie at `bytes`, or, if that is NULL, at target(). */
static void accept_payload(gcoll_tcp_pair *pair, const uint8_t *bytes, size_t count) {
    gcoll_tcp_input *in = &pair->input;
    gcoll_slot *slot = in->slot;
    pair->tcp->moves++;
    if (pair->tcp->crc) {
        gcoll_tcp_checked_accept(pair, bytes, count);
        return;
    }
    in->remaining -= count;
    if (in->remaining == 0)
        in->slot = NULL;
    if (!slot)
        return;
    if (slot->message && slot->message->consume) {
        gcoll_tcp_consume(pair, slot, bytes, count);
    } else {
        uint8_t *base = slot->message ? slot->message->data : slot->held;
        if (bytes && count > 0)
            memcpy(base + slot->received, bytes, count);
        slot->received += count;
    }
    if (slot->received == slot->total && slot->message)
        gcoll_flow_finish(&pair->flow, slot);
}

/* ---- Frames ---------------------------------------------------------------------------------------- */

static void on_abort(gcoll_tcp_pair *pair, const gcoll_wire_header *header, const uint8_t *text) {
    gcoll_tcp *tcp = pair->tcp;
    gcoll_note note;
    gcoll_wire_get_note(header, text, &note);
    if (pair->told)
        return; /* only the first abort counts */
    pair->told = true;
    if (!tcp->leaving && tcp->events.aborted) {
        gcoll_tcp_report_completed(tcp);
        tcp->moved = true;
        tcp->events.aborted(tcp->events.arg, pair->rank, &note);
    }
}

static void on_data(gcoll_tcp_pair *pair, const gcoll_wire_header *header) {
    gcoll_tcp_input *in = &pair->input;
    in->slot = NULL;
    const gcoll_flow_arrival arrival = {.stream = header->stream,
                                        .index = header->index,
                                        .total = header->total_bytes,
                                        .on_credit = (header->flags & GCOLL_WIRE_CREDITED) != 0,
                                        .has_open = (header->flags & GCOLL_WIRE_OPEN) != 0,
                                        .is_ahead = (header->flags & GCOLL_WIRE_AHEAD) != 0};
    if (!pair->tcp->leaving)
        in->slot = gcoll_flow_fragment(&pair->flow, &arrival, header->fragment_bytes);
    in->remaining = header->fragment_bytes;
    in->bulk = header->fragment_bytes >= BULK_BYTES;
    if (pair->tcp->crc)
        gcoll_tcp_checked_begin(pair);
    if (in->remaining == 0)
        accept_payload(pair, NULL, 0);
}

/* Handles the frames that still matter while this endpoint aborts or closes. */
static bool on_any_time(gcoll_tcp_pair *pair, const gcoll_wire_header *header, const uint8_t *extra) {
    switch (header->kind) {
    case GCOLL_WIRE_DATA:
        on_data(pair, header);
        return true;
    case GCOLL_WIRE_ABORT:
        on_abort(pair, header, extra);
        return true;
    case GCOLL_WIRE_GOODBYE:
        pair->input.goodbye = true;
        return true;
    case GCOLL_WIRE_PING:
        gcoll_tcp_on_ping(pair, header);
        return true;
    case GCOLL_WIRE_PONG:
        gcoll_tcp_on_pong(pair, header);
        return true;
    case GCOLL_WIRE_WITNESS:
        gcoll_tcp_on_witness(pair, header);
        return true;
    default:
        return pair->tcp->leaving;
    }
}

static void on_frame(gcoll_tcp_pair *pair, const gcoll_wire_header *header, const uint8_t *extra) {
    gcoll_tcp *tcp = pair->tcp;
    if (pair->input.goodbye) {
        garbage(pair, "a frame after its goodbye");
        return;
    }
    if (header->credit > 0 && !tcp->leaving)
        gcoll_flow_on_credit(&pair->flow, header->credit);
    if ((header->flags & GCOLL_WIRE_OPEN) && !tcp->leaving && tcp->events.opened) {
        tcp->moved = true;
        tcp->events.opened(tcp->events.arg, pair->rank, header->stream, extra);
    }
    if (pair->state != GCOLL_TCP_CONNECTED || on_any_time(pair, header, extra))
        return;
    const gcoll_flow_control offer = {.kind = GCOLL_FLOW_OFFER,
                                      .index = header->index,
                                      .stream = header->stream,
                                      .total = header->total_bytes,
                                      .open = header->flags & GCOLL_WIRE_OPEN ? extra : NULL};
    switch (header->kind) {
    case GCOLL_WIRE_GRANT:
        gcoll_flow_on_grant(&pair->flow, header->stream, header->index);
        return;
    case GCOLL_WIRE_REVOKE:
        gcoll_flow_on_revoke(&pair->flow, header->stream, header->index);
        return;
    case GCOLL_WIRE_OFFER:
        gcoll_flow_on_offer(&pair->flow, &offer);
        return;
    default: /* CREDIT */
        if (header->flags & GCOLL_WIRE_OPEN)
            gcoll_flow_on_opening(&pair->flow);
        return;
    }
}

/* Reads the header of a frame with checksums, of which `have` bytes are at `at`. False if more bytes are
 * needed, or if that failed the pair. */
static bool read_checked(gcoll_tcp_pair *pair, const uint8_t *at, size_t have, gcoll_wire_header *header) {
    const size_t head = GCOLL_WIRE_HEADER_BYTES + GCOLL_WIRE_CHECK_BYTES;
    const gcoll_crc32c_fn crc = pair->tcp->crc;
    gcoll_wire_sums *sums = &pair->input.sums;
    if (have < head)
        return false;
    if (!gcoll_wire_is_intact(at, crc)) {
        gcoll_tcp_changed(pair, "a header with a wrong checksum");
        return false;
    }
    const char *wrong = gcoll_wire_get_checked(at, header, sums);
    if (wrong) {
        garbage(pair, wrong);
        return false;
    }
    size_t extra = gcoll_wire_extra_bytes(header);
    if (have >= head + extra && crc(0, at + head, extra) != sums->extra) {
        gcoll_tcp_changed(pair, "a fingerprint or text with a wrong checksum");
        return false;
    }
    return true;
}

static bool read_header(gcoll_tcp_pair *pair, const uint8_t *at, size_t have, gcoll_wire_header *header) {
    if (have < GCOLL_WIRE_HEADER_BYTES)
        return false;
    const char *wrong = gcoll_wire_get_header(at, header);
    if (wrong)
        garbage(pair, wrong);
    return !wrong;
}

/* Parses one frame, or a piece of payload, from the input buffer. False if more bytes are needed. */
static bool parse_one(gcoll_tcp_pair *pair) {
    gcoll_tcp_input *in = &pair->input;
    size_t have = in->end - in->begin;
    const uint8_t *at = in->bytes + in->begin;
    if (in->remaining > 0) {
        size_t count = have < in->remaining ? have : (size_t)in->remaining;
        in->begin += count;
        if (count > 0)
            accept_payload(pair, at, count);
        return count > 0;
    }
    gcoll_wire_header header;
    if (!pair->tcp->crc ? !read_header(pair, at, have, &header) : !read_checked(pair, at, have, &header))
        return false;
    size_t head = GCOLL_WIRE_HEADER_BYTES + (!pair->tcp->crc ? 0U : GCOLL_WIRE_CHECK_BYTES);
    size_t extra = gcoll_wire_extra_bytes(&header);
    if (have < head + extra)
        return false;
    in->begin += head + extra;
    on_frame(pair, &header, at + head);
    return true;
}

static void parse(gcoll_tcp_pair *pair) {
    gcoll_tcp_input *in = &pair->input;
    while (pair->state == GCOLL_TCP_CONNECTED && in->begin < in->end && parse_one(pair)) {
    }
    if (in->begin < in->end && in->begin > 0)
        memmove(in->bytes, in->bytes + in->begin, in->end - in->begin);
    in->end -= in->begin;
    in->begin = 0;
}

/* Handles the end of the connection: a departure after a goodbye, else a failure. */
static void lost(gcoll_tcp_pair *pair, int error) {
    if (pair->input.goodbye)
        gcoll_tcp_depart(pair);
    else if (error == 0 || error == ECONNRESET || error == EPIPE)
        gcoll_tcp_fail(pair, GCOLL_ERR_PEER, "closed the connection");
    else if (gcoll_is_shortage(error))
        gcoll_tcp_fail(pair, GCOLL_ERR_NO_MEMORY, "cannot read what rank %u sends: %s", pair->rank,
                       strerror(error));
    else
        gcoll_tcp_fail(pair, GCOLL_ERR_PEER, "cannot be reached any more (%s)", strerror(error));
}

/* Reads by one system call. Returns the result of recvmsg; *asked is the most that it could have returned. */
static ssize_t pull(gcoll_tcp_pair *pair, size_t *asked) {
    gcoll_tcp_input *in = &pair->input;
    struct iovec pieces[2];
    struct msghdr header = {.msg_iov = pieces, .msg_iovlen = 2};
    size_t wanted = 0;
    int fd = pair->socket->fd;
    pieces[1].iov_base = in->bytes + in->end;
    pieces[1].iov_len = in->bulk ? BULK_AHEAD : GCOLL_TCP_INPUT_BYTES - in->end;
    if (in->remaining > 0) {
        pieces[0].iov_base = target(pair, &wanted);
        pieces[0].iov_len = wanted;
        if (wanted < in->remaining)
            header.msg_iovlen = 1; /* what follows is payload too */
    }
    *asked = wanted + (header.msg_iovlen == 2 ? pieces[1].iov_len : 0);
    ssize_t got;
    do {
        got = wanted > 0 ? recvmsg(fd, &header, MSG_DONTWAIT)
                         : recv(fd, pieces[1].iov_base, pieces[1].iov_len, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got > 0 && wanted > 0) {
        size_t placed = (size_t)got < wanted ? (size_t)got : wanted;
        accept_payload(pair, NULL, placed);
        in->end += (size_t)got - placed;
    } else if (got > 0) {
        in->end += (size_t)got;
    }
    return got;
}

bool gcoll_tcp_read(gcoll_tcp_pair *pair, size_t budget) {
    size_t total = 0;
    while (pair->state == GCOLL_TCP_CONNECTED && total < budget) {
        size_t asked;
        ssize_t got = pull(pair, &asked);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return total > 0;
        if (got <= 0) {
            lost(pair, got < 0 ? errno : 0);
            return total > 0;
        }
        pair->tcp->busy = true;
        pair->heard += (uint64_t)got;
        parse(pair);
        if ((size_t)got < asked)
            return true; /* there was no more */
        total += (size_t)got;
    }
    return total > 0;
}
