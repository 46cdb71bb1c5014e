/*
 * transport/session/write.c - writes messages and control frames to the socket.
 *
 * A batch is the input of one sendmsg: the rest of a frame that was cut last time, control frames, then data
 * frames. Headers and small payloads are copied into a staging area, so a burst of small messages is one
 * piece of memory. Large payloads are sent directly from user memory. Frames that the kernel does not take
 * are built again next time, except for the one frame that was cut.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "transport/session/branch.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"

_Static_assert(GCOLL_LANE_WORD_MAX <= GCOLL_NOTE_TEXT_MAX,
               "control frames with checksums have room for a note");

#define STAGE_BYTES 16384
#define FRAMES_MAX  64
#define PIECES_MAX  16
/* Bytes written in one go, before other sessions have their turn. */
#define WRITE_BUDGET (8U << 20)

typedef struct frame {
    gcoll_message *message;
    const uint8_t *staged; /* header, fingerprint, small payload */
    size_t staged_bytes;
    const uint8_t *payload; /* in user memory */
    uint64_t payload_bytes;
    uint32_t fragment;
    uint32_t credit;
    bool opens;
} frame;

typedef struct batch {
    struct iovec pieces[PIECES_MAX];
    size_t piece_count;
    size_t total;
    frame frames[FRAMES_MAX];
    size_t frame_count;
    size_t staged;
    uint8_t stage[STAGE_BYTES];
} batch;

/* Whether a probe, an answer or credit waits to be encoded. None may follow a goodbye. */
static bool has_pending(const gcoll_session *session) {
    const gcoll_session_output *out = &session->output;
    return !out->last_frame && (out->ping || out->pong || out->credit);
}

bool gcoll_session_has_output(const gcoll_session *session) {
    const gcoll_session_output *out = &session->output;
    return !out->dead && !out->ended &&
           (out->messages.first || gcoll_bytes_left(&out->control) > 0 || out->cut.begin < out->cut.end ||
            out->cut.payload_bytes > 0 || out->unsent || has_pending(session));
}

void gcoll_session_want_output(gcoll_session *session) {
    if (!session->in_outputs && session->socket) {
        session->in_outputs = true;
        session->next_output = session->net->outputs;
        session->net->outputs = session;
    }
}

void gcoll_session_enqueue(gcoll_session *session, gcoll_message *message) {
    gcoll_message_push(&session->output.messages, message);
    gcoll_session_want_output(session);
}

static bool reserve(gcoll_session *session, size_t count) {
    const bool has_room = gcoll_bytes_reserve(&session->output.control, count);
    if (!has_room)
        gcoll_session_fail(session, GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", session->rank);
    return has_room;
}

static void append(gcoll_session *session, const uint8_t *bytes, size_t count) {
    gcoll_byte_queue *control = &session->output.control;
    if (!reserve(session, count))
        return;
    memcpy(control->bytes + control->end, bytes, count);
    control->end += count;
    gcoll_session_want_output(session);
}

/* Appends a control frame, with checksums after its header. */
static void append_checked(gcoll_session *session, const uint8_t *bytes, size_t count) {
    uint8_t checked[GCOLL_WIRE_HEADER_BYTES + GCOLL_WIRE_CHECK_BYTES + GCOLL_NOTE_TEXT_MAX];
    const gcoll_crc32c_fn crc = session->net->crc;
    const uint8_t *extra = bytes + GCOLL_WIRE_HEADER_BYTES;
    const size_t extra_bytes = count - GCOLL_WIRE_HEADER_BYTES;
    const gcoll_wire_sums sums = {.extra = crc(0, extra, extra_bytes)};
    memcpy(checked, bytes, GCOLL_WIRE_HEADER_BYTES);
    gcoll_wire_put_sums(checked, crc, &sums);
    memcpy(checked + GCOLL_WIRE_HEADER_BYTES + GCOLL_WIRE_CHECK_BYTES, extra, extra_bytes);
    append(session, checked, GCOLL_WIRE_CHECK_BYTES + count);
}

size_t gcoll_session_put_control(uint8_t *bytes, const gcoll_flow_frame *control) {
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
    return count;
}

void gcoll_session_append_control(gcoll_session *session, const uint8_t *bytes, size_t count) {
    if (!session->net->crc)
        append(session, bytes, count);
    else
        append_checked(session, bytes, count);
}

void gcoll_session_append_grouped(gcoll_session *session, uint64_t group, const uint8_t *bytes,
                                  size_t count) {
    uint8_t prefix[GCOLL_WIRE_HEADER_BYTES];
    const size_t checks = session->net->crc ? GCOLL_WIRE_CHECK_BYTES : 0U;
    if (!reserve(session,
                 sizeof prefix + count + 2 * checks)) /* for both: a prefix alone names the next frame */
        return;
    gcoll_wire_put_group(prefix, group);
    gcoll_session_append_control(session, prefix, sizeof prefix);
    gcoll_session_append_control(session, bytes, count);
}

void gcoll_session_say_goodbye(gcoll_session *session) {
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
    const gcoll_wire_header header = {.kind = GCOLL_WIRE_GOODBYE};
    gcoll_wire_put_header(bytes, &header);
    gcoll_session_append_control(session, bytes, sizeof bytes);
}

static void add_piece(batch *b, const void *bytes, size_t count) {
    struct iovec *last = b->piece_count > 0 ? &b->pieces[b->piece_count - 1] : NULL;
    if (count == 0)
        return;
    b->total += count;
    if (last && (const uint8_t *)last->iov_base + last->iov_len == bytes) {
        last->iov_len += count;
        return;
    }
    b->pieces[b->piece_count].iov_base = (void *)(uintptr_t)bytes;
    b->pieces[b->piece_count].iov_len = count;
    b->piece_count++;
}

/* Encodes a frame that gives back all that is owed. */
static void put_credit(uint8_t bytes[GCOLL_WIRE_HEADER_BYTES], gcoll_flow *flow) {
    const gcoll_wire_header header = {.kind = GCOLL_WIRE_CREDIT, .credit = (uint32_t)flow->owed};
    gcoll_wire_put_header(bytes, &header);
    gcoll_flow_give_back(flow, flow->owed);
}

/* The same as encode_pending, of the channels that have something to say. */
static void encode_channels(gcoll_session *session) {
    const gcoll_session_output *out = &session->output;
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
    while (session->speaking && gcoll_bytes_left(&out->control) < GCOLL_SESSION_CONTROL_STEP) {
        gcoll_channel *channel = session->speaking;
        session->speaking = channel->next_speaking;
        channel->speaks = false;
        if (channel->ping)
            gcoll_session_say_ping(session, channel);
        if (channel->pong)
            gcoll_session_say_pong(session, channel);
        if (channel->credit && gcoll_flow_owes(&channel->flow)) {
            put_credit(bytes, &channel->flow);
            gcoll_session_append_grouped(session, channel->branch->number, bytes, sizeof bytes);
        }
        channel->credit = false;
    }
}

/* Encodes pending probes, answers and credit as control frames. */
static void encode_pending(gcoll_session *session) {
    gcoll_session_output *out = &session->output;
    if (out->last_frame || gcoll_bytes_left(&out->control) >= GCOLL_SESSION_CONTROL_STEP)
        return;
    if (out->ping)
        gcoll_session_say_ping(session, NULL);
    if (out->pong)
        gcoll_session_say_pong(session, NULL);
    if (!out->credit)
        return;
    if (gcoll_flow_owes(&session->flow)) { /* else a message has taken it along */
        uint8_t bytes[GCOLL_WIRE_HEADER_BYTES];
        put_credit(bytes, &session->flow);
        gcoll_session_append_control(session, bytes, sizeof bytes);
    }
    encode_channels(session);
    out->credit = session->speaking != NULL;
}

static void add_sums(frame *f, uint8_t *at, gcoll_crc32c_fn crc, const uint8_t *payload) {
    const gcoll_wire_sums sums = {.payload = crc(0, payload, f->fragment),
                                  .extra = f->opens ? crc(0, f->message->open, GCOLL_FINGERPRINT_BYTES) : 0};
    gcoll_wire_put_sums(at, crc, &sums);
    f->staged_bytes += GCOLL_WIRE_CHECK_BYTES;
}

/* Begins a frame with its group, and returns where the frame itself goes. */
static uint8_t *add_group(const gcoll_session *session, const gcoll_channel *channel, frame *f, uint8_t *at) {
    gcoll_wire_put_group(at, channel->branch->number);
    f->staged_bytes += GCOLL_WIRE_HEADER_BYTES;
    if (session->net->crc) {
        const gcoll_wire_sums none = {.extra = session->net->crc(0, at, 0)};
        gcoll_wire_put_sums(at, session->net->crc, &none);
        f->staged_bytes += GCOLL_WIRE_CHECK_BYTES;
    }
    return at + f->staged_bytes;
}

/* Adds the message's next fragment. The first one carries the credit that is owed. */
static void add_frame(gcoll_session *session, batch *b, gcoll_message *message) {
    frame *f = &b->frames[b->frame_count];
    uint64_t left = message->bytes - message->moved;
    uint32_t most = session->net->fragment_max;
    uint32_t fragment = left < most ? (uint32_t)left : most;
    const uint8_t *payload =
        message->moved > 0 ? (const uint8_t *)message->data + message->moved : message->data;
    uint8_t *const begin = b->stage + b->staged, *at = begin;
    gcoll_wire_header header = {.kind = GCOLL_WIRE_DATA,
                                .index = message->index,
                                .stream = message->stream,
                                .total_bytes = message->bytes,
                                .fragment_bytes = fragment};
    memset(f, 0, sizeof *f);
    f->message = message;
    f->staged = begin;
    if (message->channel)
        at = add_group(session, message->channel, f, begin);
    else if (b->frame_count == 0)
        f->credit = header.credit = (uint32_t)session->flow.owed;
    f->staged_bytes += GCOLL_WIRE_HEADER_BYTES;
    f->fragment = fragment;
    f->opens = message->open && !(message->flags & GCOLL_FLOW_OPENED);
    header.flags = (uint8_t)((message->flags & GCOLL_FLOW_ON_CREDIT ? GCOLL_WIRE_CREDITED : 0U) |
                             (message->flags & GCOLL_FLOW_AHEAD ? GCOLL_WIRE_AHEAD : 0U) |
                             (f->opens ? GCOLL_WIRE_OPEN : 0U));
    gcoll_wire_put_header(at, &header);
    if (session->net->crc)
        add_sums(f, at, session->net->crc, payload);
    if (f->opens) {
        memcpy(begin + f->staged_bytes, message->open, GCOLL_FINGERPRINT_BYTES);
        f->staged_bytes += GCOLL_FINGERPRINT_BYTES;
    }
    if (fragment > 0 && fragment <= GCOLL_SESSION_COPY_MAX) {
        memcpy(begin + f->staged_bytes, payload, fragment);
        f->staged_bytes += fragment;
    } else {
        f->payload = payload;
        f->payload_bytes = fragment;
    }
    b->staged += f->staged_bytes;
    b->frame_count++;
    add_piece(b, f->staged, f->staged_bytes);
    add_piece(b, f->payload, f->payload_bytes);
}

static void build(gcoll_session *session, batch *b) {
    gcoll_session_output *out = &session->output;
    b->piece_count = b->total = b->frame_count = b->staged = 0;
    encode_pending(session);
    add_piece(b, out->cut.bytes + out->cut.begin, out->cut.end - out->cut.begin);
    add_piece(b, out->cut.payload, out->cut.payload_bytes);
    if (gcoll_bytes_left(&out->control) > 0) /* it may have no memory before */
        add_piece(b, out->control.bytes + out->control.begin, gcoll_bytes_left(&out->control));
    for (gcoll_message *message = out->messages.first; message; message = message->next) {
        bool last_fragment = message->bytes - message->moved <= session->net->fragment_max;
        if (b->total >= session->net->batch_bytes || b->frame_count == FRAMES_MAX ||
            b->piece_count > PIECES_MAX - 2 || STAGE_BYTES - b->staged < sizeof out->cut.bytes)
            return;
        add_frame(session, b, message);
        if (!last_fragment)
            return;
    }
}

/* The bytes of `count` that the kernel took from something of `size` bytes. */
static uint64_t take(uint64_t *count, uint64_t size) {
    uint64_t taken = *count < size ? *count : size;
    *count -= taken;
    return taken;
}

/* A fragment is taken: completes the message, or queues it again behind the others. What TLS has taken the
 * kernel may not have yet; then the message is complete when it does, as its sender may stay away from then
 * on.
 */
static void fragment_sent(gcoll_session *session, gcoll_message *message) {
    if (message->moved == message->bytes && session->output.unsent)
        gcoll_message_push(&session->output.sealed, message);
    else if (message->moved == message->bytes)
        gcoll_session_push(session, message);
    else
        gcoll_session_enqueue(session, message); /* messages take turns */
}

/* The kernel has taken bytes of a message: a sign of life of its group. */
static void channel_moved(const gcoll_session *session, gcoll_channel *channel) {
    channel->branch->moves++;
    channel->data_end = session->output.written;
}

static void settle_cut(gcoll_session *session, uint64_t *count) {
    gcoll_session_cut *cut = &session->output.cut;
    gcoll_message *message = cut->message;
    cut->begin += take(count, cut->end - cut->begin);
    uint64_t taken = take(count, cut->payload_bytes);
    if (taken > 0) /* the payload of an empty message may be NULL */
        cut->payload += taken;
    cut->payload_bytes -= taken;
    if (message && message->channel && taken > 0)
        channel_moved(session, message->channel);
    if (message && cut->begin == cut->end && cut->payload_bytes == 0) {
        cut->message = NULL;
        fragment_sent(session, message);
    }
}

static void settle_frame(gcoll_session *session, const frame *f, uint64_t *count) {
    gcoll_session_output *out = &session->output;
    gcoll_message *message = f->message;
    if (*count == 0)
        return;
    uint64_t staged = take(count, f->staged_bytes);
    uint64_t payload = take(count, f->payload_bytes);
    gcoll_flow *flow = &session->flow;
    gcoll_flow_give_back(flow, f->credit);
    gcoll_message_pop(&out->messages);
    if (message->channel) {
        flow = &message->channel->flow;
        channel_moved(session, message->channel);
    }
    gcoll_flow_sent(flow, message);
    message->moved += f->fragment;
    if (f->opens)
        message->flags |= GCOLL_FLOW_OPENED;
    out->cut.begin = 0;
    out->cut.end = f->staged_bytes - staged;
    if (out->cut.end > 0)
        memcpy(out->cut.bytes, f->staged + staged, out->cut.end);
    out->cut.payload_bytes = f->payload_bytes - payload;
    out->cut.payload = f->payload_bytes > 0 ? f->payload + payload : NULL;
    if (out->cut.payload_bytes > 0)
        out->cut.message = message;
    else
        fragment_sent(session, message);
}

static void settle(gcoll_session *session, const batch *b, uint64_t count) {
    gcoll_session_output *out = &session->output;
    const uint64_t sent = count;
    out->written += sent;
    settle_cut(session, &count);
    if (count != sent) {
        out->data_end = out->written - count;
        session->net->moves++;
    }
    out->control.begin += take(&count, gcoll_bytes_left(&out->control));
    if (count > 0) {
        out->data_end = out->written;
        session->net->moves++;
    }
    for (size_t i = 0; i < b->frame_count; i++)
        settle_frame(session, &b->frames[i], &count);
}

/* The kernel has taken all that TLS had before. */
static void unseal(gcoll_session *session) {
    while (session->output.sealed.first)
        gcoll_session_push(session, gcoll_message_pop(&session->output.sealed));
}

static ssize_t push(gcoll_session *session, batch *b) {
    const gcoll_socket *socket = session->socket;
    struct msghdr header = {.msg_iov = b->pieces, .msg_iovlen = b->piece_count};
    const int fd = socket->fd;
    ssize_t sent;
    if (socket->tls) {
        sent = gcoll_tls_send(socket->tls, b->pieces, b->piece_count);
        session->output.unsent = gcoll_tls_unsent(socket->tls) > 0;
        return sent;
    }
    do {
        if (b->piece_count == 1)
            sent = send(fd, b->pieces[0].iov_base, b->pieces[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
        else
            sent = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

static bool is_full(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS || error == ENOMEM;
}

/* Handles an error of sendmsg. If the peer is gone, or TLS failed, reading will notice it, after the data
 * that is still to be read. Reading would not notice any other error, so that fails the session now. */
static void refused(gcoll_session *session, int error) {
    session->output.dead = true;
    if (error == EPIPE || error == ECONNRESET)
        return;
    if (error == EPROTO && session->socket->tls) { /* what was read would have failed the session before */
        gcoll_session_fail(session, GCOLL_ERR_NO_MEMORY, "cannot encrypt what rank %u is to be sent: %s",
                           session->rank, gcoll_tls_problem(session->socket->tls));
        return;
    }
    if (error == EFAULT)
        gcoll_session_fail(session, GCOLL_ERR_INVALID, "was to be sent memory that cannot be read (%s)",
                           strerror(error));
    else
        gcoll_session_fail(session, GCOLL_ERR_PEER, "cannot be sent anything any more (%s)", strerror(error));
}

void gcoll_session_write(gcoll_session *session) {
    uint64_t budget = WRITE_BUDGET;
    while (budget > 0 && session->socket && gcoll_session_has_output(session)) {
        batch b;
        build(session, &b);
        if (b.total == 0 && !session->output.unsent)
            return; /* the session failed for lack of memory */
        ssize_t sent = push(session, &b);
        if (sent < 0) {
            if (!is_full(errno))
                refused(session, errno);
            return;
        }
        session->net->busy = true;
        unseal(session);
        settle(session, &b, (uint64_t)sent);
        if ((size_t)sent < b.total)
            return;
        budget -= budget < b.total ? budget : b.total;
    }
}

void gcoll_net_flush_all(gcoll_net *net) {
    gcoll_session *session = net->outputs;
    net->outputs = NULL;
    while (session) {
        gcoll_session *next = session->next_output;
        session->in_outputs = false;
        if (session->socket) {
            gcoll_session_write(session);
            if (gcoll_session_has_output(session))
                gcoll_session_want_output(session);
        }
        session = next;
    }
}

void gcoll_net_flush(gcoll_endpoint *endpoint) {
    gcoll_net *net = gcoll_net_of(endpoint);
    gcoll_net_flush_all(net);
    if (net->polls_lanes)
        gcoll_net_flush_lanes(net);
}
