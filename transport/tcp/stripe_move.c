/* transport/tcp/stripe_move.c - stripes of messages, to their connections and from them; see stripes.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "transport/tcp/stripes.h"

/* Bytes of one connection read, or of all written, before others have their turn. */
#define BUDGET (8U << 20)

_Static_assert(GCOLL_SESSION_HOT_BYTES >= GCOLL_WIRE_STRIPE_BYTES + GCOLL_GRANULE_MAX,
               "a stripe and what is carried fit the hot buffer");

static gcoll_net *net_of(const gcoll_stripe *stripe) {
    return stripe->all->session->net;
}

static void garbage(gcoll_session *session, const char *what) {
    gcoll_session_fail(session, GCOLL_ERR_PROTOCOL, "sent garbage (%s)", what);
}

static size_t head_bytes(const gcoll_net *net) {
    return net->crc ? GCOLL_STRIPE_HEAD_BYTES : GCOLL_WIRE_HEADER_BYTES;
}

static uint64_t stripes_of(uint64_t bytes) {
    return bytes / GCOLL_WIRE_STRIPE_BYTES + (bytes % GCOLL_WIRE_STRIPE_BYTES > 0);
}

/* Whether a message of that size may be striped. */
static bool is_size(uint64_t bytes) {
    return bytes > GCOLL_WIRE_STRIPE_BYTES && stripes_of(bytes) <= GCOLL_STRIPES_OF_MESSAGE;
}

/* The bytes of the stripe at `offset` of a message of `total` bytes. */
static size_t stripe_at(uint64_t offset, uint64_t total) {
    return total - offset < GCOLL_WIRE_STRIPE_BYTES ? (size_t)(total - offset) : GCOLL_WIRE_STRIPE_BYTES;
}

/* ---- Sending --------------------------------------------------------------------------------------- */

/* Says that the message begins. */
static void say_striped(gcoll_session *session, gcoll_message *message) {
    uint8_t bytes[GCOLL_WIRE_HEADER_BYTES + GCOLL_FINGERPRINT_BYTES];
    size_t count = GCOLL_WIRE_HEADER_BYTES;
    const bool opens = message->open && !(message->flags & GCOLL_FLOW_OPENED);
    const gcoll_wire_header header = {
        .kind = GCOLL_WIRE_STRIPED,
        .flags = (uint8_t)((opens ? GCOLL_WIRE_OPEN : 0U) |
                           (message->flags & GCOLL_FLOW_AHEAD ? GCOLL_WIRE_AHEAD : 0U)),
        .index = message->index,
        .stream = message->stream,
        .total_bytes = message->bytes};
    gcoll_wire_put_header(bytes, &header);
    if (opens) {
        memcpy(bytes + count, message->open, GCOLL_FINGERPRINT_BYTES);
        count += GCOLL_FINGERPRINT_BYTES;
        message->flags |= GCOLL_FLOW_OPENED;
    }
    gcoll_session_append_control(session, bytes, count);
}

/* Whether a fingerprint of the message's stream waits in the session's queue, with an earlier message. Our
 * word would overtake it. */
static bool would_overtake(const gcoll_session *session, const gcoll_message *message) {
    const gcoll_message *each = session->output.messages.first;
    while (each && !(!each->channel && each->stream == message->stream && each->open &&
                     !(each->flags & GCOLL_FLOW_OPENED)))
        each = each->next;
    return each;
}

void gcoll_stripes_enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_session *session = (gcoll_session *)(void *)flow;
    gcoll_stripes *all = gcoll_stripes_of(session);
    if ((message->flags & GCOLL_FLOW_ON_CREDIT) || !is_size(message->bytes) ||
        would_overtake(session, message)) {
        gcoll_session_enqueue(session, message);
        return;
    }
    say_striped(session, message);
    gcoll_message_push(&all->messages, message);
}

/* Makes a frame of the next stripe of the oldest message, which then goes behind the others. False: there is
 * none. */
static bool next_frame(gcoll_stripe *stripe) {
    gcoll_stripes *all = stripe->all;
    gcoll_stripe_output *out = &stripe->out;
    gcoll_message *message = all->messages.first;
    const gcoll_crc32c_fn crc = all->session->net->crc;
    if (!message)
        return false;
    gcoll_message_pop(&all->messages);
    if (message->moved == 0)
        gcoll_flow_sent(&all->session->flow, message);
    const size_t bytes = stripe_at(message->moved, message->bytes);
    const gcoll_wire_header header = {.kind = GCOLL_WIRE_STRIPE,
                                      .index = message->index,
                                      .stream = message->stream,
                                      .total_bytes = message->moved,
                                      .fragment_bytes = (uint32_t)bytes};
    out->payload = (const uint8_t *)message->data + message->moved;
    out->payload_bytes = bytes;
    out->message = message;
    out->begin = 0;
    out->end = head_bytes(all->session->net);
    gcoll_wire_put_header(out->head, &header);
    if (crc) {
        const gcoll_wire_sums sums = {.payload = crc(0, out->payload, bytes)};
        gcoll_wire_put_sums(out->head, crc, &sums);
    }
    message->moved += bytes;
    if (message->moved < message->bytes)
        gcoll_message_push(&all->messages, message);
    return true;
}

/* The kernel has the whole frame: the message is done if it was the last. */
static void frame_sent(gcoll_stripe *stripe) {
    gcoll_stripes *all = stripe->all;
    gcoll_message *message = stripe->out.message;
    stripe->out.message = NULL;
    if (message->moved < message->bytes)
        return;
    for (uint32_t i = 0; i < all->count; i++)
        if (all->each[i].out.message == message)
            return;
    gcoll_session_push(all->session, message);
}

/* Handles an error of sendmsg. That the peer is gone, reading will notice. */
static void refused(gcoll_stripe *stripe, int error) {
    if (error == EFAULT)
        gcoll_session_fail(stripe->all->session, GCOLL_ERR_INVALID,
                           "was to be sent memory that cannot be read (%s)", strerror(error));
    else if (error == EPIPE || error == ECONNRESET)
        stripe->out.dead = true;
    else if (error != EAGAIN && error != EWOULDBLOCK && !gcoll_is_shortage(error))
        gcoll_stripe_lost(stripe, error);
}

/* Writes the current frame, or a new one. Returns the bytes that the kernel took; *whole: all of it. */
static size_t write_frame(gcoll_stripe *stripe, bool *whole) {
    gcoll_stripe_output *out = &stripe->out;
    *whole = false;
    if (!stripe->socket || out->dead || (!out->message && !next_frame(stripe)))
        return 0;
    struct iovec pieces[2] = {{out->head + out->begin, out->end - out->begin},
                              {(void *)(uintptr_t)out->payload, out->payload_bytes}};
    struct msghdr header = {.msg_iov = pieces, .msg_iovlen = 2};
    ssize_t sent;
    do {
        sent = sendmsg(stripe->socket->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent <= 0) {
        if (sent < 0)
            refused(stripe, errno);
        return 0;
    }
    size_t count = (size_t)sent;
    const size_t head = count < pieces[0].iov_len ? count : pieces[0].iov_len;
    out->written += count;
    out->begin += head;
    out->payload += count - head;
    out->payload_bytes -= count - head;
    *whole = out->payload_bytes == 0;
    if (*whole)
        frame_sent(stripe);
    return count;
}

bool gcoll_stripes_write(gcoll_stripes *all) {
    gcoll_session *session = all->session;
    uint64_t total = 0;
    bool any = all->stands && !session->net->leaving;
    while (any && total < BUDGET && session->state == GCOLL_SESSION_CONNECTED) {
        any = false;
        for (uint32_t i = 0; i < all->count; i++) {
            bool whole;
            total += write_frame(&all->each[i], &whole);
            any = any || whole;
        }
    }
    if (total > 0) {
        session->net->busy = true;
        session->net->moves++;
    }
    return total > 0;
}

bool gcoll_stripe_has_output(const gcoll_stripe *stripe) {
    return stripe->socket && !stripe->out.dead && (stripe->out.message || stripe->all->messages.first);
}

/* ---- Receiving ------------------------------------------------------------------------------------- */

static void forget(gcoll_stripes *all, gcoll_striped *striped) {
    gcoll_striped **at = &all->arriving;
    while (*at != striped)
        at = &(*at)->next;
    *at = striped->next;
    free(striped->whole);
    if (striped->claimed_bytes > GCOLL_STRIPES_USUAL_BYTES) {
        free(striped);
        return;
    }
    striped->next = all->spare;
    all->spare = striped;
}

void gcoll_stripes_free_spare(gcoll_stripes *all) {
    while (all->spare) {
        gcoll_striped *striped = all->spare;
        all->spare = striped->next;
        free(striped);
    }
}

/* A zeroed record of a message of so many stripes; NULL without memory. */
static gcoll_striped *remember(gcoll_stripes *all, uint64_t stripes) {
    const size_t needed = (size_t)(stripes + 7) / 8;
    const size_t bytes = needed > GCOLL_STRIPES_USUAL_BYTES ? needed : GCOLL_STRIPES_USUAL_BYTES;
    gcoll_striped *striped = bytes == GCOLL_STRIPES_USUAL_BYTES ? all->spare : NULL;
    if (striped) {
        all->spare = striped->next;
        memset(striped, 0, sizeof *striped + bytes);
    } else {
        striped = calloc(1, sizeof *striped + bytes);
    }
    if (striped)
        striped->claimed_bytes = bytes;
    return striped;
}

/* All bytes of a message are there. */
static void finish(gcoll_stripes *all, gcoll_striped *striped) {
    gcoll_slot *slot = striped->slot;
    gcoll_message *message = slot->message;
    message->region = NULL;
    if (striped->whole)
        message->consume(message->consume_arg, 0, striped->whole,
                         slot->total - slot->total % message->granule);
    forget(all, striped);
    gcoll_flow_finish(&all->session->flow, slot);
}

/* Whether bytes of the message are handed to its `consume` as they come. */
static bool is_consumed(const gcoll_striped *striped) {
    return striped->slot->message->consume && !striped->whole;
}

/* Hands whole elements in the hot buffer to `consume`: those carried and `count` bytes behind them. */
static void consume(gcoll_stripe *stripe, size_t count) {
    gcoll_stripe_input *in = &stripe->in;
    gcoll_message *message = in->message->slot->message;
    const uint8_t *hot = net_of(stripe)->hot_bytes;
    const size_t total = in->carried + count;
    const uint32_t rest = (uint32_t)(total % message->granule);
    if (total > rest)
        message->consume(message->consume_arg, in->offset - in->carried, hot, total - rest);
    memcpy(in->carry, hot + total - rest, rest);
    in->carried = rest;
}

/* Where the rest of the stripe goes. */
static uint8_t *target(gcoll_stripe *stripe) {
    gcoll_stripe_input *in = &stripe->in;
    const gcoll_striped *striped = in->message;
    if (striped->whole)
        return striped->whole + in->offset;
    if (!striped->slot->message->consume)
        return (uint8_t *)striped->slot->message->data + in->offset;
    if (net_of(stripe)->crc)
        return in->gathered + in->offset % GCOLL_WIRE_STRIPE_BYTES;
    memcpy(net_of(stripe)->hot_bytes, in->carry, in->carried);
    return net_of(stripe)->hot_bytes + in->carried;
}

/* Checks a stripe that is complete, and whose checksum is not known to be right. */
static bool is_intact(gcoll_stripe *stripe, size_t bytes) {
    const gcoll_stripe_input *in = &stripe->in;
    const gcoll_crc32c_fn crc = net_of(stripe)->crc;
    if (!crc || (is_consumed(in->message) ? crc(0, in->gathered, bytes) : in->sum) == in->expected)
        return true;
    gcoll_session_changed(stripe->all->session, "a payload with a wrong checksum");
    return false;
}

/* `count` bytes have come to `at`, the target. */
static void accept_bytes(gcoll_stripe *stripe, const uint8_t *at, size_t count) {
    gcoll_stripe_input *in = &stripe->in;
    gcoll_striped *striped = in->message;
    const gcoll_message *message = striped->slot->message;
    const gcoll_crc32c_fn crc = net_of(stripe)->crc;
    const bool is_gathered = crc && is_consumed(striped);
    if (crc && !is_gathered)
        in->sum = crc(in->sum, at, count);
    else if (!crc && is_consumed(striped))
        consume(stripe, count);
    in->offset += count;
    in->left -= count;
    if (in->left > 0)
        return;
    const size_t bytes = in->header.fragment_bytes;
    if (!is_intact(stripe, bytes))
        return;
    if (is_gathered)
        message->consume(message->consume_arg, in->header.total_bytes, in->gathered,
                         bytes - bytes % message->granule);
    in->message = NULL;
    striped->arrived += bytes;
    if (striped->arrived == striped->slot->total)
        finish(stripe->all, striped);
}

/* Makes the connection be read, or not. */
static void set_deaf(gcoll_stripe *stripe, bool deaf) {
    if (stripe->socket && stripe->socket->deaf != deaf) {
        stripe->socket->deaf = deaf;
        gcoll_socket_poll(stripe->socket);
    }
}

/* Finds the message of a stripe whose header has come. */
static void place(gcoll_stripe *stripe) {
    gcoll_stripe_input *in = &stripe->in;
    gcoll_session *session = stripe->all->session;
    const uint64_t offset = in->header.total_bytes, number = offset / GCOLL_WIRE_STRIPE_BYTES;
    const gcoll_slot *slot = gcoll_match_find(&session->flow.incoming, in->header.stream, in->header.index);
    in->waits = slot && (slot->flags & GCOLL_FLOW_GRANTED);
    set_deaf(stripe, in->waits);
    if (in->waits)
        return;
    if (!slot || !(slot->flags & GCOLL_STRIPES_SLOT)) {
        garbage(session, "a stripe of a message that was not granted");
        return;
    }
    gcoll_striped *striped = slot->message->region;
    if (offset % GCOLL_WIRE_STRIPE_BYTES != 0 || offset >= slot->total ||
        in->header.fragment_bytes != stripe_at(offset, slot->total)) {
        garbage(session, "a stripe that does not fit its message");
        return;
    }
    if (striped->claimed[number / 8] & (1U << number % 8)) {
        garbage(session, "a stripe twice");
        return;
    }
    if (session->net->crc && is_consumed(striped) && !in->gathered &&
        posix_memalign((void **)&in->gathered, 64, GCOLL_WIRE_STRIPE_BYTES) != 0) {
        in->gathered = NULL;
        gcoll_flow_out_of_memory(&session->flow);
        return;
    }
    striped->claimed[number / 8] |= (uint8_t)(1U << number % 8);
    in->message = striped;
    in->offset = offset;
    in->left = in->header.fragment_bytes;
    in->sum = in->carried = 0;
    in->have = 0;
}

/* A whole header is there. */
static void take_head(gcoll_stripe *stripe) {
    gcoll_stripe_input *in = &stripe->in;
    gcoll_session *session = stripe->all->session;
    const gcoll_crc32c_fn crc = session->net->crc;
    if (crc && !gcoll_wire_is_intact(in->head, crc)) {
        gcoll_session_changed(session, "a header with a wrong checksum");
        return;
    }
    if (crc && !(in->head[3] & GCOLL_WIRE_CHECKED)) {
        garbage(session, "a frame without its checksums");
        return;
    }
    if (crc)
        in->expected = gcoll_wire_take_stripe_sum(in->head);
    const char *wrong = gcoll_wire_get_stripe(in->head, &in->header);
    if (wrong)
        garbage(session, wrong);
    else
        place(stripe);
}

void gcoll_stripes_on_striped(gcoll_session *session, const gcoll_flow_frame *data) {
    gcoll_stripes *all = gcoll_stripes_of(session);
    if (!all || !all->stands || !is_size(data->total)) {
        garbage(session, !all || !all->stands ? "a striped message where there is one connection"
                                              : "a striped message of a size that is not allowed");
        return;
    }
    gcoll_slot *slot = gcoll_flow_begin(&session->flow, data);
    if (!slot)
        return;
    gcoll_message *message = slot->message; /* there is one: it was granted */
    gcoll_striped *striped = remember(all, stripes_of(slot->total));
    if (striped && message->consume && GCOLL_WIRE_STRIPE_BYTES % message->granule != 0) {
        striped->whole = malloc((size_t)slot->total);
        if (!striped->whole) {
            free(striped);
            striped = NULL;
        }
    }
    if (!striped) {
        gcoll_flow_out_of_memory(&session->flow);
        return;
    }
    striped->slot = slot;
    striped->next = all->arriving;
    all->arriving = striped;
    message->region = striped;
    slot->flags |= GCOLL_STRIPES_SLOT;
    slot->received = slot->total; /* so flow control takes no fragment of it by the session's connection */
    for (uint32_t i = 0; i < all->count; i++)
        if (all->each[i].in.waits)
            place(&all->each[i]);
}

/* Reads and throws away, so that a peer that leaves, too, sees what it has sent arrive. At the end of its
 * stream it has said goodbye, or is gone, and what we have sent it matters no more. */
static bool discard(gcoll_stripe *stripe) {
    gcoll_net *net = net_of(stripe);
    ssize_t got;
    do {
        got = recv(stripe->socket->fd, net->hot_bytes, GCOLL_SESSION_HOT_BYTES, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
        gcoll_stripe_lost(stripe, got < 0 ? errno : 0);
    return got > 0;
}

/* Reads by one system call: the rest of a stripe, and the header of the next. Returns the result of recvmsg.
 */
static ssize_t pull(gcoll_stripe *stripe, size_t *asked) {
    gcoll_stripe_input *in = &stripe->in;
    struct iovec pieces[2];
    struct msghdr header = {.msg_iov = pieces};
    const size_t head = head_bytes(net_of(stripe)), wanted = in->message ? in->left : 0;
    uint8_t *at = wanted > 0 ? target(stripe) : NULL;
    if (wanted > 0)
        pieces[header.msg_iovlen++] = (struct iovec){at, wanted};
    pieces[header.msg_iovlen++] = (struct iovec){in->head + in->have, head - in->have};
    *asked = wanted + head - in->have;
    ssize_t got;
    do {
        got = recvmsg(stripe->socket->fd, &header, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got;
    const size_t placed = (size_t)got < wanted ? (size_t)got : wanted;
    if (placed > 0)
        accept_bytes(stripe, at, placed);
    in->have += (size_t)got - placed;
    if (in->have == head && stripe->all->session->state == GCOLL_SESSION_CONNECTED)
        take_head(stripe);
    return got;
}

bool gcoll_stripe_read(gcoll_stripe *stripe) {
    gcoll_stripes *all = stripe->all;
    gcoll_net *net = net_of(stripe);
    size_t total = 0;
    while (stripe->socket && !stripe->socket->deaf && total < BUDGET) {
        size_t asked = 0;
        if (net->discards)
            return discard(stripe);
        if (all->session->state != GCOLL_SESSION_CONNECTED) {
            set_deaf(stripe, true); /* what comes is not wanted any more */
            break;
        }
        const ssize_t got = pull(stripe, &asked);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (got <= 0) {
            gcoll_stripe_lost(stripe, got < 0 ? errno : 0);
            break;
        }
        total += (size_t)got;
        if ((size_t)got < asked || net->is_late)
            break; /* there was no more, or others wait for an answer */
    }
    all->heard += total;
    if (total > 0) {
        net->busy = true;
        net->moves++;
    }
    return total > 0;
}

void gcoll_stripes_drop(gcoll_stripes *all) {
    gcoll_message_queue_clear(&all->messages);
    while (all->arriving) {
        all->arriving->slot->message->region = NULL;
        forget(all, all->arriving);
    }
    for (uint32_t i = 0; i < GCOLL_STRIPES_MAX; i++) {
        all->each[i].in.message = NULL;
        if (all->each[i].in.waits)
            set_deaf(&all->each[i], false); /* it is read to its end */
        all->each[i].in.waits = false;
        all->each[i].out.message = NULL; /* nothing may follow what the kernel has of its frame */
    }
}
