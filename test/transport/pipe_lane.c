/*
 * test/transport/pipe_lane.c - a lane that moves bytes through pipes: shows all that a lane needs.
 *
 * Each end makes a pipe to read from, and says its process and descriptor; the other opens it by /proc. A
 * frame of at most PIPE_BUF bytes is written whole or not at all, so frames need no state between two of
 * them.
 */
#include "test/transport/pipe_lane.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "transport/queue.h"

#define EAGER 65536

pipe_faults pipe_faulty;

/* A frame: this, and `bytes` bytes of a message. */
typedef struct head {
    gcoll_flow_frame frame; /* frame.open says whether the fingerprint below counts */
    uint32_t bytes, credit;
    uint8_t open[GCOLL_FINGERPRINT_BYTES];
} head;
#define PART (PIPE_BUF - sizeof(head))

typedef struct place {
    int32_t process, descriptor;
    uint64_t eager, pool;
} place;

typedef struct end {
    struct port *port;
    gcoll_session *session; /* NULL: it has ended */
    gcoll_flow *flow;
    int ours[2], theirs; /* theirs: -1 until it is opened */
    place peer;
    bool stands;
    gcoll_message_queue messages;
    gcoll_byte_queue control; /* heads, which overtake messages */
    struct end *next;
} end;

typedef struct port {
    uint32_t rank;
    uint64_t eager, pool;
    int ready; /* an epoll of all pipes and of the bell: what a wait sleeps on */
    int bell;
    end *ends; /* freed with the port, as they may end while they are polled */
} port;

static end *end_of(const gcoll_flow *flow) {
    return gcoll_session_lane_state((const gcoll_session *)(const void *)flow);
}

/* ---- What flow calls -------------------------------------------------------------------------------- */

static void control(gcoll_flow *flow, const gcoll_flow_frame *frame) {
    end *e = end_of(flow);
    head h = {.frame = *frame};
    if (frame->open)
        memcpy(h.open, frame->open, sizeof h.open);
    if (!gcoll_bytes_reserve(&e->control, sizeof h))
        abort();
    memcpy(e->control.bytes + e->control.end, &h, sizeof h);
    e->control.end += sizeof h;
}

static void enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_message_push(&end_of(flow)->messages, message);
}

static void owe(gcoll_flow *flow) {
    control(flow, &(gcoll_flow_frame){.kind = GCOLL_FLOW_OPENING});
}

static const gcoll_flow_lane flow_lane = {
    .control = control, .enqueue = enqueue, .owe = owe, .deliver = gcoll_lane_deliver, GCOLL_LANE_REPORTS};

/* ---- Frames ----------------------------------------------------------------------------------------- */

static bool put(end *e, head *h, const void *payload) {
    const struct iovec pieces[2] = {{h, sizeof *h}, {(void *)(uintptr_t)payload, h->bytes}};
    h->credit = (uint32_t)e->flow->owed;
    if (writev(e->theirs, pieces, 2) < 0)
        return false;
    gcoll_flow_give_back(e->flow, h->credit);
    return true;
}

static bool put_part(end *e, gcoll_message *m) {
    const uint64_t left = m->bytes - m->moved;
    const bool opens = m->open && !(m->flags & GCOLL_FLOW_OPENED);
    head h = {.frame = {.kind = GCOLL_FLOW_DATA,
                        .stream = m->stream,
                        .index = m->index,
                        .total = m->bytes,
                        .open = opens ? m->open : NULL,
                        .on_credit = m->flags & GCOLL_FLOW_ON_CREDIT,
                        .is_ahead = m->flags & GCOLL_FLOW_AHEAD},
              .bytes = (uint32_t)(left < PART ? left : PART)};
    if (opens)
        memcpy(h.open, m->open, sizeof h.open);
    if (!put(e, &h, m->bytes ? (const uint8_t *)m->data + m->moved : NULL))
        return false;
    m->flags |= opens ? GCOLL_FLOW_OPENED : 0U;
    gcoll_flow_sent(e->flow, m);
    if (!pipe_faulty.flushes[e->port->rank])
        gcoll_net_moved(gcoll_session_net(e->session));
    m->moved += h.bytes;
    if (m->moved == m->bytes)
        gcoll_session_complete(e->session, gcoll_message_pop(&e->messages));
    return true;
}

static bool write_all(end *e) {
    bool moved = false;
    for (head h; gcoll_bytes_left(&e->control) > 0; e->control.begin += sizeof h, moved = true) {
        memcpy(&h, e->control.bytes + e->control.begin, sizeof h);
        if (!put(e, &h, NULL))
            return moved;
    }
    while (e->messages.first && put_part(e, e->messages.first))
        moved = true;
    return moved;
}

static void take_frame(end *e, head *h, const uint8_t *payload) {
    gcoll_flow_frame *frame = &h->frame;
    frame->open = frame->open ? h->open : NULL;
    if (h->credit > 0)
        gcoll_flow_on_credit(e->flow, h->credit);
    if (frame->open)
        gcoll_session_opened(e->session, frame->stream, frame->open);
    if (!gcoll_session_is_well(e->session))
        return;
    gcoll_flow_on_control(e->flow, frame);
    gcoll_slot *slot = frame->kind == GCOLL_FLOW_DATA ? gcoll_flow_fragment(e->flow, frame, h->bytes) : NULL;
    if (slot)
        gcoll_session_accept(e->session, slot, payload, h->bytes);
    gcoll_net_moved(gcoll_session_net(e->session));
}

static bool is_usable(const end *e) {
    return e->session && e->stands && gcoll_session_is_well(e->session);
}

/* Takes up to *frames frames. */
static void read_some(end *e, uint32_t *frames) {
    uint8_t payload[PIPE_BUF];
    head h;
    while (*frames > 0 && is_usable(e) && read(e->ours[0], &h, sizeof h) == (ssize_t)sizeof h) {
        if (h.bytes > 0 && read(e->ours[0], payload, h.bytes) != (ssize_t)h.bytes)
            abort(); /* the other end is of this test */
        if (!gcoll_net_is_leaving(gcoll_session_net(e->session)))
            take_frame(e, &h, payload);
        --*frames;
    }
}

/* ---- The port --------------------------------------------------------------------------------------- */

static gcoll_status open_port(gcoll_net *net, const gcoll_endpoint_options *options, gcoll_lane_port **out) {
    if (pipe_faulty.absent[options->rank])
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "this host has no pipes");
    port *p = calloc(1, sizeof *p);
    signal(SIGPIPE, SIG_IGN); /* the other end may be gone already */
    p->rank = options->rank;
    p->ready = epoll_create1(EPOLL_CLOEXEC);
    p->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(p->ready, EPOLL_CTL_ADD, p->bell, &event);
    *out = (gcoll_lane_port *)(void *)p;
    const gcoll_status status = gcoll_lane_set_limits(options, "pipe", EAGER, EAGER, &p->eager, &p->pool);
    return status == GCOLL_OK ? gcoll_net_watch(net, &pipe_lane, p->ready) : status;
}

static void close_port(gcoll_lane_port *lane_port) {
    port *p = (port *)(void *)lane_port;
    for (end *next, *e = p->ends; e; e = next) {
        next = e->next;
        free(e->control.bytes);
        free(e);
    }
    close(p->bell);
    close(p->ready);
    free(p);
}

static void break_down(end *e) {
    if (e->stands)
        gcoll_session_doubt(e->session, 100, false, "broke its pipe");
    else
        gcoll_session_refuse(e->session, GCOLL_ERR_PEER, "broke its pipe before it could be used");
}

static bool poll_port(gcoll_lane_port *lane_port) {
    const port *p = (port *)(void *)lane_port;
    uint32_t frames = PIPE_FRAMES_A_POLL;
    bool moved = false;
    eventfd_t rings;
    (void)eventfd_read(p->bell, &rings);
    for (end *e = p->ends; e; e = e->next) {
        if (e->session && pipe_faulty.breaks[p->rank])
            break_down(e);
        if (!pipe_faulty.holds[p->rank])
            read_some(e, &frames);
        if (is_usable(e) && !pipe_faulty.flushes[p->rank])
            moved = write_all(e) || moved;
    }
    return moved || frames < PIPE_FRAMES_A_POLL;
}

static void flush_port(gcoll_lane_port *lane_port) {
    for (end *e = ((port *)(void *)lane_port)->ends; e; e = e->next)
        if (is_usable(e))
            write_all(e);
}

void pipe_widen(const gcoll_session *session) {
    const end *e = gcoll_session_lane_state(session);
    if (fcntl(e->theirs, F_SETPIPE_SZ, 1 << 20) < 0 || eventfd_write(e->port->bell, 1) != 0)
        abort();
}

/* ---- A session -------------------------------------------------------------------------------------- */

static bool refuses(gcoll_session *session, const port *p, pipe_moment moment) {
    const bool does = pipe_faulty.refuses[p->rank] == moment;
    if (does)
        gcoll_session_refuse(session, GCOLL_ERR_IO, "has no pipes today");
    return does;
}

static void begin(gcoll_session *session, gcoll_lane_port *lane_port) {
    port *p = (port *)(void *)lane_port;
    if (refuses(session, p, PIPE_AT_BEGIN))
        return;
    end *e = calloc(1, sizeof *e);
    *e = (end){
        .port = p, .session = session, .flow = (gcoll_flow *)(void *)session, .theirs = -1, .next = p->ends};
    p->ends = e;
    gcoll_session_set_lane_state(session, e);
    if (pipe2(e->ours, O_NONBLOCK | O_CLOEXEC) != 0)
        abort();
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(p->ready, EPOLL_CTL_ADD, e->ours[0], &event);
    const place said = {getpid(), e->ours[1], p->eager, p->pool};
    gcoll_session_say(session, (const uint8_t *)&said, sizeof said);
}

/* The first word is the place of the other's pipe, the second says that it has opened ours. */
static void hear(gcoll_session *session, const uint8_t *bytes, uint32_t count) {
    end *e = gcoll_session_lane_state(session);
    const bool is_place = count == sizeof e->peer;
    char path[64];
    if (refuses(session, e->port, is_place ? PIPE_AT_PLACE : PIPE_AT_OPENED))
        return;
    if (!is_place) {
        e->stands = true;
        gcoll_session_stand(session, e->port->eager, e->port->pool, e->peer.eager, e->peer.pool);
        return;
    }
    memcpy(&e->peer, bytes, sizeof e->peer);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", e->peer.process, e->peer.descriptor);
    e->theirs = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (e->theirs < 0)
        gcoll_session_refuse(session, GCOLL_ERR_IO, "cannot open the pipe");
    else if (!pipe_faulty.mute[e->port->rank])
        gcoll_session_say(session, (const uint8_t *)"o", 1);
}

static bool is_leaving(const gcoll_session *session) {
    const end *e = gcoll_session_lane_state(session);
    return e && pipe_faulty.lingers[e->port->rank];
}

static void drop(gcoll_session *session) {
    end *e = gcoll_session_lane_state(session);
    if (e)
        gcoll_message_queue_clear(&e->messages);
}

static void end_session(gcoll_session *session) {
    end *e = gcoll_session_lane_state(session);
    if (!e)
        return;
    e->session = NULL;
    close(e->ours[0]);
    close(e->ours[1]);
    if (e->theirs >= 0)
        close(e->theirs);
}

const gcoll_lane pipe_lane = {.name = "pipe",
                              .number = 200,
                              .open = open_port,
                              .close = close_port,
                              .flush = flush_port,
                              .poll = poll_port,
                              .flow = &flow_lane,
                              .begin = begin,
                              .hear = hear,
                              .is_leaving = is_leaving,
                              .drop = drop,
                              .end = end_session};

/* In place of transport/transports.c. */
const gcoll_lane_row gcoll_lane_rows[] = {
    {"pipe", NULL, &pipe_lane}, {"tcp", NULL, &gcoll_lane_tcp}, {NULL, NULL, NULL}};
