/*
 * transport/session/read.c - reads frames from the socket, and payloads into messages.
 *
 * While the payload of a posted receive arrives, one system call reads the rest of it directly into user
 * memory, and the bytes after it into the input buffer. Between payloads all bytes go to the input buffer:
 * many small frames in one call.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "transport/session/branch.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"

/* A payload of at least BULK_BYTES is usually followed by another. Then the input buffer reads only little
 * beyond the header, as all further bytes in it would have to be copied. */
#define BULK_BYTES (16U << 10)
#define BULK_AHEAD 1024U

static void garbage(gcoll_session *session, const char *what) {
    gcoll_session_fail(session, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", what);
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

void gcoll_session_consume(gcoll_session *session, gcoll_slot *slot, const uint8_t *bytes, uint64_t count) {
    uint8_t *hot = session->net->hot_bytes;
    if (!bytes) {
        hand_over(slot, hot, slot->carried + count);
        return;
    }
    while (count > 0) {
        uint64_t piece = GCOLL_SESSION_HOT_BYTES - slot->carried;
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
static uint8_t *target(gcoll_session *session, size_t *count) {
    gcoll_session_input *in = &session->input;
    gcoll_slot *slot = in->slot;
    uint8_t *hot = session->net->hot_bytes;
    if (session->net->crc)
        return gcoll_tcp_checked_target(session, count);
    *count = in->remaining < GCOLL_SESSION_HOT_BYTES ? (size_t)in->remaining : GCOLL_SESSION_HOT_BYTES;
    if (!slot)
        return hot;
    if (slot->message && slot->message->consume) {
        if (*count > GCOLL_SESSION_HOT_BYTES - slot->carried)
            *count = GCOLL_SESSION_HOT_BYTES - slot->carried;
        memcpy(hot, slot->carry, slot->carried);
        return hot + slot->carried;
    }
    *count = (size_t)in->remaining;
    return (slot->message ? (uint8_t *)slot->message->data : slot->held) + slot->received;
}

static inline void put_bytes(gcoll_session *session, gcoll_slot *slot, const uint8_t *bytes, uint64_t count) {
    if (slot->message && slot->message->consume) {
        gcoll_session_consume(session, slot, bytes, count);
    } else {
        uint8_t *base = slot->message ? slot->message->data : slot->held;
        if (bytes && count > 0)
            memcpy(base + slot->received, bytes, (size_t)count);
        slot->received += count;
    }
}

static inline void put_payload(gcoll_session *session, gcoll_flow *flow, gcoll_slot *slot,
                               const uint8_t *bytes, uint64_t count) {
    put_bytes(session, slot, bytes, count);
    if (slot->received == slot->total && slot->message)
        gcoll_flow_finish(flow, slot);
}

void gcoll_session_put(gcoll_session *session, gcoll_slot *slot, const uint8_t *bytes, uint64_t count) {
    put_bytes(session, slot, bytes, count);
}

void gcoll_session_accept(gcoll_session *session, gcoll_slot *slot, const uint8_t *bytes, uint64_t count) {
    put_payload(session, &session->flow, slot, bytes, count);
}

void gcoll_tcp_accept(gcoll_session *session, gcoll_slot *slot, const uint8_t *bytes, uint64_t count) {
    put_payload(session, session->input.flow, slot, bytes, count);
}

/* Accepts `count` bytes of the current payload. They lie at `bytes`, or, if that is NULL, at target(). */
static void accept_payload(gcoll_session *session, const uint8_t *bytes, size_t count) {
    gcoll_session_input *in = &session->input;
    gcoll_slot *slot = in->slot;
    session->net->moves++;
    if (session->net->crc) {
        gcoll_tcp_checked_accept(session, bytes, count);
        return;
    }
    in->remaining -= count;
    if (in->remaining == 0)
        in->slot = NULL;
    if (!slot)
        return;
    put_payload(session, in->flow, slot, bytes, count);
}

/* ---- Frames ---------------------------------------------------------------------------------------- */

static void on_abort(gcoll_session *session, const gcoll_wire_header *header, const uint8_t *text) {
    gcoll_net *net = session->net;
    gcoll_note note;
    gcoll_wire_get_note(header, text, &note);
    if (session->told)
        return; /* only the first abort counts */
    gcoll_session_catch_up(session);
    session->told = true;
    if (net->leaving)
        return;
    gcoll_net_report_completed(net);
    net->moved = true;
    if (net->events.aborted)
        net->events.aborted(net->events.arg, session->rank, &note);
    gcoll_branches_aborted(net, session, &note);
}

_Static_assert((int)GCOLL_WIRE_DATA == (int)GCOLL_FLOW_DATA &&
                   (int)GCOLL_WIRE_OFFER == (int)GCOLL_FLOW_OFFER &&
                   (int)GCOLL_WIRE_GRANT == (int)GCOLL_FLOW_GRANT &&
                   (int)GCOLL_WIRE_REVOKE == (int)GCOLL_FLOW_REVOKE &&
                   (int)GCOLL_WIRE_CREDIT == (int)GCOLL_FLOW_OPENING,
               "frames of flow control have the same numbers on the wire");

static inline gcoll_flow_frame flow_frame(const gcoll_wire_header *header, const uint8_t *extra) {
    return (gcoll_flow_frame){.kind = (gcoll_flow_kind)header->kind,
                              .index = header->index,
                              .stream = header->stream,
                              .total = header->total_bytes,
                              .open = header->flags & GCOLL_WIRE_OPEN ? extra : NULL,
                              .on_credit = (header->flags & GCOLL_WIRE_CREDITED) != 0,
                              .is_ahead = (header->flags & GCOLL_WIRE_AHEAD) != 0};
}

static inline void begin_payload(gcoll_session *session, gcoll_flow *flow, const gcoll_wire_header *header,
                                 gcoll_slot *slot) {
    gcoll_session_input *in = &session->input;
    in->slot = slot;
    in->flow = flow;
    in->remaining = header->fragment_bytes;
    in->bulk = header->fragment_bytes >= BULK_BYTES;
    if (session->net->crc)
        gcoll_tcp_checked_begin(session);
    if (in->remaining == 0)
        accept_payload(session, NULL, 0);
}

static void on_data(gcoll_session *session, const gcoll_wire_header *header, const uint8_t *extra) {
    const gcoll_flow_frame data = flow_frame(header, extra);
    begin_payload(
        session, &session->flow, header,
        session->net->discards ? NULL : gcoll_flow_fragment(&session->flow, &data, header->fragment_bytes));
}

/* The next frame is of a group. */
static void on_group(gcoll_session *session, const gcoll_wire_header *header) {
    if (header->credit > 0)
        garbage(session, "a group with credit");
    session->input.is_special = true;
    session->input.group = header->stream;
}

/* Handles the frames that still matter while this endpoint aborts or closes. */
static bool on_any_time(gcoll_session *session, const gcoll_wire_header *header, const uint8_t *extra) {
    switch (header->kind) {
    case GCOLL_WIRE_DATA:
        on_data(session, header, extra);
        return true;
    case GCOLL_WIRE_ABORT:
        on_abort(session, header, extra);
        return true;
    case GCOLL_WIRE_LANE:
        gcoll_session_on_lane(session, header, extra);
        return true;
    case GCOLL_WIRE_GOODBYE:
        session->input.goodbye = session->input.is_special = true;
        return true;
    case GCOLL_WIRE_PING:
        gcoll_session_on_ping(session, NULL, header);
        return true;
    case GCOLL_WIRE_PONG:
        gcoll_session_on_pong(session, NULL, header);
        return true;
    case GCOLL_WIRE_WITNESS:
        gcoll_session_on_witness(session, header);
        return true;
    case GCOLL_WIRE_GROUP:
        on_group(session, header);
        return true;
    default:
        return session->net->leaving || session->net->is_gone;
    }
}

/* ---- Frames of groups ------------------------------------------------------------------------------- */

/* slot NULL: the payload is thrown away. */
static void on_group_data(gcoll_session *session, gcoll_flow *flow, const gcoll_wire_header *header,
                          gcoll_slot *slot) {
    begin_payload(session, flow, header, slot);
}

static void on_group_abort(gcoll_session *session, gcoll_channel *channel, const gcoll_wire_header *header,
                           const uint8_t *text) {
    gcoll_note note;
    gcoll_wire_get_note(header, text, &note);
    gcoll_net_report_completed(session->net);
    gcoll_channel_aborted(channel, &note);
}

/* A frame of a channel that is open. */
static void on_channel_frame(gcoll_session *session, gcoll_channel *channel, const gcoll_wire_header *header,
                             const uint8_t *extra) {
    gcoll_branch *branch = channel->branch;
    const gcoll_flow_frame frame = flow_frame(header, extra);
    if (header->credit > 0)
        gcoll_flow_on_credit(&channel->flow, header->credit);
    if (header->flags & GCOLL_WIRE_OPEN && branch->events.opened) {
        session->net->moved = true;
        branch->events.opened(branch->events.arg, channel->rank, header->stream, extra);
    }
    if (session->state != GCOLL_SESSION_CONNECTED)
        return;
    /* Credit that makes no sense, or a fingerprint that does not match, has ended it. */
    const bool is_open = channel->state == GCOLL_CHANNEL_OPEN && !branch->leaving;
    if (!is_open && header->kind != GCOLL_WIRE_DATA)
        return;
    switch (header->kind) {
    case GCOLL_WIRE_DATA:
        branch->moves++;
        on_group_data(session, &channel->flow, header,
                      is_open ? gcoll_flow_fragment(&channel->flow, &frame, header->fragment_bytes) : NULL);
        return;
    case GCOLL_WIRE_ABORT:
        on_group_abort(session, channel, header, extra);
        return;
    case GCOLL_WIRE_GOODBYE:
        gcoll_net_report_completed(session->net);
        gcoll_channel_departed(channel);
        return;
    case GCOLL_WIRE_PING:
        gcoll_session_on_ping(session, channel, header);
        return;
    case GCOLL_WIRE_PONG:
        gcoll_session_on_pong(session, channel, header);
        return;
    default:
        gcoll_flow_on_control(&channel->flow, &frame);
        return;
    }
}

/* A frame after a GROUP frame. This rank may have left or aborted the group, which the peer learns in a
 * moment: until then its frames are thrown away. */
static void on_group_frame(gcoll_session *session, uint64_t group, const gcoll_wire_header *header,
                           const uint8_t *extra) {
    if (!session->lane.is_stream && header->kind <= GCOLL_WIRE_CREDIT && !session->net->leaving) {
        garbage(session, "a frame of the lane tcp, which was not taken");
        return;
    }
    if (header->kind > GCOLL_WIRE_PONG) {
        garbage(session, "a frame that no group has");
        return;
    }
    if (group == 0) {
        if (header->kind == GCOLL_WIRE_GOODBYE)
            gcoll_session_gone(session);
        else
            garbage(session, "a frame of group 0");
        return;
    }
    gcoll_channel *channel = session->net->leaving ? NULL : gcoll_channel_find(session, group);
    if (channel && channel->state == GCOLL_CHANNEL_OPEN && !channel->branch->leaving)
        on_channel_frame(session, channel, header, extra);
    else if (header->kind == GCOLL_WIRE_DATA)
        on_group_data(session, &session->flow, header, NULL);
    else if (header->kind == GCOLL_WIRE_PING && !channel)
        gcoll_branch_on_strange_ping(session, group);
}

/* ---- Frames ---------------------------------------------------------------------------------------- */

/* Whether the frame belongs to the lane tcp. */
static bool is_of_lane(const gcoll_wire_header *header) {
    return header->kind <= GCOLL_WIRE_CREDIT || header->kind == GCOLL_WIRE_STRIPED || header->credit > 0;
}

/* A frame of a group, or one that is too late. */
static void on_special(gcoll_session *session, const gcoll_wire_header *header, const uint8_t *extra) {
    gcoll_session_input *in = &session->input;
    if (in->goodbye) {
        garbage(session, "a frame after its goodbye");
        return;
    }
    in->is_special = false;
    if (header->kind == GCOLL_WIRE_GROUP)
        garbage(session, "a group twice");
    else
        on_group_frame(session, in->group, header, extra);
}

static void on_frame(gcoll_session *session, const gcoll_wire_header *header, const uint8_t *extra) {
    gcoll_net *net = session->net;
    if (session->input.is_special) {
        on_special(session, header, extra);
        return;
    }
    if (!session->lane.is_stream && is_of_lane(header) && !net->leaving) {
        /* In doubt, the peer has refused a lane that stood here, and has gone on to tcp. */
        if (!session->lane.in_doubt)
            garbage(session, "a frame of the lane tcp, which was not taken");
        else if (header->kind == GCOLL_WIRE_DATA)
            begin_payload(session, &session->flow, header, NULL); /* throws it away */
        return;
    }
    if (header->credit > 0 && !net->leaving)
        gcoll_flow_on_credit(&session->flow, header->credit);
    if (header->flags & GCOLL_WIRE_OPEN)
        gcoll_session_open(session, header->stream, extra);
    if (session->state != GCOLL_SESSION_CONNECTED || on_any_time(session, header, extra))
        return;
    const gcoll_flow_frame frame = flow_frame(header, extra);
    if (header->kind == GCOLL_WIRE_STRIPED)
        gcoll_stripes_on_striped(session, &frame);
    else
        gcoll_flow_on_control(&session->flow, &frame);
}

/* Reads the header of a frame with checksums, of which `have` bytes are at `at`. False if more bytes are
 * needed, or if that failed the session. */
static bool read_checked(gcoll_session *session, const uint8_t *at, size_t have, gcoll_wire_header *header) {
    const size_t head = GCOLL_WIRE_HEADER_BYTES + GCOLL_WIRE_CHECK_BYTES;
    const gcoll_crc32c_fn crc = session->net->crc;
    gcoll_wire_sums *sums = &session->input.sums;
    if (have < head)
        return false;
    if (!gcoll_wire_is_intact(at, crc)) {
        gcoll_session_changed(session, "a header with a wrong checksum");
        return false;
    }
    const char *wrong = gcoll_wire_get_checked(at, header, sums);
    if (wrong) {
        garbage(session, wrong);
        return false;
    }
    size_t extra = gcoll_wire_extra_bytes(header);
    if (have >= head + extra && crc(0, at + head, extra) != sums->extra) {
        gcoll_session_changed(session, "a fingerprint or text with a wrong checksum");
        return false;
    }
    return true;
}

static bool read_header(gcoll_session *session, const uint8_t *at, size_t have, gcoll_wire_header *header) {
    if (have < GCOLL_WIRE_HEADER_BYTES)
        return false;
    const char *wrong = gcoll_wire_get_header(at, header);
    if (wrong)
        garbage(session, wrong);
    return !wrong;
}

/* Parses one frame, or a piece of payload, from the input buffer. False if more bytes are needed. */
static bool parse_one(gcoll_session *session) {
    gcoll_session_input *in = &session->input;
    size_t have = in->end - in->begin;
    const uint8_t *at = in->bytes + in->begin;
    if (in->remaining > 0) {
        size_t count = have < in->remaining ? have : (size_t)in->remaining;
        in->begin += count;
        if (count > 0)
            accept_payload(session, at, count);
        return count > 0;
    }
    gcoll_wire_header header;
    if (!session->net->crc ? !read_header(session, at, have, &header)
                           : !read_checked(session, at, have, &header))
        return false;
    size_t head = GCOLL_WIRE_HEADER_BYTES + (!session->net->crc ? 0U : GCOLL_WIRE_CHECK_BYTES);
    size_t extra = gcoll_wire_extra_bytes(&header);
    if (have < head + extra)
        return false;
    in->begin += head + extra;
    on_frame(session, &header, at + head);
    return true;
}

static void parse(gcoll_session *session) {
    gcoll_session_input *in = &session->input;
    while (session->state == GCOLL_SESSION_CONNECTED && in->begin < in->end && parse_one(session)) {
    }
    if (in->begin < in->end && in->begin > 0)
        memmove(in->bytes, in->bytes + in->begin, in->end - in->begin);
    in->end -= in->begin;
    in->begin = 0;
}

/* Handles the end of the connection: a departure after a goodbye, else a failure. */
static void lost(gcoll_session *session, int error) {
    gcoll_session_catch_up(session);
    if (session->input.goodbye)
        gcoll_session_depart(session);
    else if (error == 0 || error == ECONNRESET || error == EPIPE)
        gcoll_session_fail(session, GCOLL_ERR_PEER, "closed the connection");
    else if (error == EPROTO && session->socket->tls)
        gcoll_session_changed(session, gcoll_tls_problem(session->socket->tls));
    else if (gcoll_is_shortage(error))
        gcoll_session_fail(session, GCOLL_ERR_NO_MEMORY, "cannot read what rank %u sends: %s", session->rank,
                           strerror(error));
    else
        gcoll_session_fail(session, GCOLL_ERR_PEER, "cannot be reached any more (%s)", strerror(error));
}

static ssize_t receive(const gcoll_session *session, struct msghdr *header, bool asks_kernel) {
    gcoll_socket *socket = session->socket;
    ssize_t got;
    if (socket->tls)
        return gcoll_tls_recv(socket->tls, header->msg_iov, header->msg_iovlen, asks_kernel);
    do {
        got = header->msg_iovlen > 1
                  ? recvmsg(socket->fd, header, MSG_DONTWAIT)
                  : recv(socket->fd, header->msg_iov->iov_base, header->msg_iov->iov_len, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got;
}

/* Reads by one system call. Returns the result of recvmsg; *asked is the most that it could have returned. */
static ssize_t pull(gcoll_session *session, size_t *asked, bool asks_kernel) {
    gcoll_session_input *in = &session->input;
    struct iovec pieces[2];
    struct msghdr header = {.msg_iov = pieces, .msg_iovlen = 2};
    size_t wanted = 0;
    pieces[1].iov_base = in->bytes + in->end;
    pieces[1].iov_len = in->bulk ? BULK_AHEAD : GCOLL_SESSION_INPUT_BYTES - in->end;
    if (in->remaining > 0) {
        pieces[0].iov_base = target(session, &wanted);
        pieces[0].iov_len = wanted;
        if (wanted < in->remaining)
            header.msg_iovlen = 1; /* what follows is payload too */
    } else {
        header.msg_iov = &pieces[1];
        header.msg_iovlen = 1;
    }
    *asked = wanted + (header.msg_iovlen == 2 || wanted == 0 ? pieces[1].iov_len : 0);
    const ssize_t got = receive(session, &header, asks_kernel);
    if (got > 0 && wanted > 0) {
        size_t placed = (size_t)got < wanted ? (size_t)got : wanted;
        accept_payload(session, NULL, placed);
        in->end += (size_t)got - placed;
    } else if (got > 0) {
        in->end += (size_t)got;
    }
    return got;
}

/* Whether TLS has failed behind what was read. Nothing else would tell of it. */
static bool has_failed(const gcoll_session *session) {
    return session->socket && session->socket->tls && gcoll_tls_has_failed(session->socket->tls);
}

bool gcoll_session_read(gcoll_session *session, size_t budget) {
    size_t total = 0;
    bool asks_kernel = true;
    while (session->state == GCOLL_SESSION_CONNECTED && (asks_kernel || session->socket->tls)) {
        size_t asked;
        ssize_t got = pull(session, &asked, asks_kernel);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (got <= 0) {
            lost(session, got < 0 ? errno : 0);
            break;
        }
        session->net->busy = true;
        session->heard += (uint64_t)got;
        total += (size_t)got;
        parse(session);
        if ((size_t)got < asked && !has_failed(session))
            break; /* there was no more */
        /* If others wait for an answer, the rest stays in the socket; but what TLS has taken from there must
         * be read, as nothing would tell of it later. */
        asks_kernel = asks_kernel && total < budget && !(session->net->is_late && budget < SIZE_MAX);
    }
    if (session->socket && session->socket->tls && gcoll_tls_unsent(session->socket->tls) > 0) {
        session->output.unsent = true; /* TLS has answered something itself */
        gcoll_session_want_output(session);
    }
    return total > 0;
}
