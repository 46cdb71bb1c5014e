/*
 * test/transport/pipe_lane.c - a lane that moves bytes through pipes: shows all that a lane needs.
 *
 * Each end makes a pipe to read from, and tells the other its process and descriptor; the other opens it by
 * /proc. A frame of at most PIPE_BUF bytes is written whole or not at all, so frames need no state between
 * two of them.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include "transport/lane.h"
#include "transport/queue.h"

enum { DATA = 16 }; /* other kinds are those of flow.h */
#define EAGER 65536
#define POOL  (1 << 20)

uint32_t pipe_lane_refuses; /* a bit for each rank that has no pipes */

typedef struct head {
    uint32_t kind, flags, index, bytes;
    uint64_t stream, total, credit;
    uint8_t open[GCOLL_FINGERPRINT_BYTES];
} head;
#define PART (PIPE_BUF - sizeof(head))

/* Where an end reads, and what it takes unasked. */
typedef struct word {
    int32_t process, descriptor;
    uint64_t eager, pool;
} word;

typedef struct end {
    struct port *port;
    gcoll_session *session;
    gcoll_flow *flow;
    int ours[2], theirs; /* -1: none */
    gcoll_message_queue messages;
    head *control;
    size_t count, room;
    struct end *next;
} end;

typedef struct port {
    uint32_t rank;
    uint64_t eager, pool;
    int ready; /* an epoll of all pipes: what a wait sleeps on */
    end *ends;
} port;

static end *end_of(const gcoll_flow *flow) {
    return gcoll_session_lane_state((const gcoll_session *)(const void *)flow);
}

/* ---- What flow calls -------------------------------------------------------------------------------- */

static void control(gcoll_flow *flow, const gcoll_flow_control *c) {
    end *e = end_of(flow);
    head h = {
        .kind = c->kind, .index = c->index, .stream = c->stream, .total = c->total, .flags = c->open ? 1 : 0};
    if (c->open)
        memcpy(h.open, c->open, sizeof h.open);
    if (e->count == e->room)
        e->control = realloc(e->control, (e->room = 2 * e->room + 16) * sizeof h);
    e->control[e->count++] = h;
}

static void enqueue(gcoll_flow *flow, gcoll_message *message) {
    gcoll_message_push(&end_of(flow)->messages, message);
}

static void owe(gcoll_flow *flow) {
    control(flow, &(gcoll_flow_control){.kind = GCOLL_FLOW_OPENING});
}

/* Calls `consume` with all complete elements. The bytes of an incomplete element wait in slot->carry for the
 * next part. */
static void feed(gcoll_slot *slot, const uint8_t *bytes, uint64_t count) {
    gcoll_message *m = slot->message;
    if (count == 0 && !(m && m->consume))
        return;
    if (m && !m->consume)
        memcpy((uint8_t *)m->data + slot->received, bytes, count);
    else if (!m)
        memcpy(slot->held + slot->received, bytes, count);
    else {
        uint8_t *all = malloc(slot->carried + count);
        memcpy(all, slot->carry, slot->carried);
        memcpy(all + slot->carried, bytes, count);
        const uint64_t sum = slot->carried + count, rest = sum % m->granule;
        if (sum > rest)
            m->consume(m->consume_arg, slot->received - slot->carried, all, sum - rest);
        memcpy(slot->carry, all + sum - rest, slot->carried = (uint32_t)rest);
        free(all);
    }
    slot->received += count;
}

static void deliver(gcoll_flow *flow, gcoll_slot *slot) {
    const uint64_t early = slot->received;
    (void)flow;
    slot->received = 0;
    if (early > 0)
        feed(slot, slot->held, early);
}

static void complete(gcoll_flow *flow, gcoll_message *message) {
    gcoll_session_complete_receive(end_of(flow)->session, message);
}

static void unexpected(gcoll_flow *flow) {
    gcoll_session_unexpected(end_of(flow)->session);
}

static void fail(gcoll_flow *flow, gcoll_status status, const char *text) {
    gcoll_session_fail(end_of(flow)->session, status, "%s", text);
}

static const gcoll_flow_lane flow_lane = {control,    enqueue, owe,  deliver, complete,
                                          unexpected, fail,    NULL, NULL};

/* ---- Frames ----------------------------------------------------------------------------------------- */

static bool put(end *e, head *h, const void *payload) {
    struct iovec pieces[2] = {{h, sizeof *h}, {(void *)(uintptr_t)payload, h->bytes}};
    h->credit = e->flow->owed;
    if (writev(e->theirs, pieces, 2) < 0)
        return false;
    gcoll_flow_give_back(e->flow, h->credit);
    return true;
}

static bool write_all(end *e) {
    size_t done = 0;
    while (done < e->count && put(e, &e->control[done], NULL))
        done++;
    e->count -= done;
    if (done > 0)
        memmove(e->control, e->control + done, e->count * sizeof *e->control);
    bool moved = done > 0;
    for (gcoll_message *m; e->count == 0 && (m = e->messages.first); moved = true) {
        const uint64_t left = m->bytes - m->moved;
        const bool opens = m->open && !(m->flags & GCOLL_FLOW_OPENED);
        head h = {.kind = DATA,
                  .index = m->index,
                  .stream = m->stream,
                  .total = m->bytes,
                  .bytes = (uint32_t)(left < PART ? left : PART),
                  .flags = (opens ? 1U : 0U)};
        h.flags |= (m->flags & GCOLL_FLOW_ON_CREDIT ? 2U : 0U) | (m->flags & GCOLL_FLOW_AHEAD ? 4U : 0U);
        if (opens)
            memcpy(h.open, m->open, sizeof h.open);
        if (!put(e, &h, m->bytes ? (const uint8_t *)m->data + m->moved : NULL))
            break;
        m->flags |= opens ? GCOLL_FLOW_OPENED : 0U;
        gcoll_flow_sent(e->flow, m);
        gcoll_net_moved(gcoll_session_net(e->session));
        m->moved += h.bytes;
        if (m->moved == m->bytes)
            gcoll_session_complete(e->session, gcoll_message_pop(&e->messages));
    }
    return moved;
}

static void on_frame(end *e, const head *h, const uint8_t *payload) {
    const gcoll_flow_control c = {h->kind, h->index, h->stream, h->total, h->flags & 1 ? h->open : NULL};
    const gcoll_flow_arrival a = {h->stream, h->total, h->index, h->flags & 2, h->flags & 1, h->flags & 4};
    if (h->credit > 0)
        gcoll_flow_on_credit(e->flow, (uint32_t)h->credit);
    if (h->flags & 1)
        gcoll_session_opened(e->session, h->stream, h->open);
    if (!gcoll_session_is_well(e->session))
        return;
    if (h->kind == GCOLL_FLOW_OFFER)
        gcoll_flow_on_offer(e->flow, &c);
    else if (h->kind == GCOLL_FLOW_GRANT)
        gcoll_flow_on_grant(e->flow, h->stream, h->index);
    else if (h->kind == GCOLL_FLOW_REVOKE)
        gcoll_flow_on_revoke(e->flow, h->stream, h->index);
    else if (h->kind == GCOLL_FLOW_OPENING && (h->flags & 1))
        gcoll_flow_on_opening(e->flow);
    gcoll_slot *slot = h->kind == DATA ? gcoll_flow_fragment(e->flow, &a, h->bytes) : NULL;
    if (!slot)
        return;
    feed(slot, payload, h->bytes);
    gcoll_net_moved(gcoll_session_net(e->session));
    if (slot->message && slot->received == slot->total)
        gcoll_flow_finish(e->flow, slot);
}

static bool poll_end(end *e) {
    bool moved = false;
    uint8_t payload[PIPE_BUF];
    head h;
    while (gcoll_session_is_well(e->session) && read(e->ours[0], &h, sizeof h) == (ssize_t)sizeof h) {
        if (h.bytes > 0 && read(e->ours[0], payload, h.bytes) != (ssize_t)h.bytes)
            abort(); /* the other end is of this test */
        if (!gcoll_net_is_leaving(gcoll_session_net(e->session)))
            on_frame(e, &h, payload);
        moved = true;
    }
    return (gcoll_session_is_well(e->session) && write_all(e)) || moved;
}

/* ---- The lane --------------------------------------------------------------------------------------- */

static gcoll_status open_port(gcoll_net *net, const gcoll_endpoint_options *options, gcoll_lane_port **out) {
    port *p = calloc(1, sizeof *p);
    p->rank = options->rank;
    signal(SIGPIPE, SIG_IGN); /* the other end may be gone already */
    p->pool = options->eager_pool_bytes > 0 ? options->eager_pool_bytes : POOL;
    p->eager =
        p->pool / 2 - GCOLL_FLOW_OVERHEAD_BYTES < EAGER ? p->pool / 2 - GCOLL_FLOW_OVERHEAD_BYTES : EAGER;
    p->ready = epoll_create1(EPOLL_CLOEXEC);
    *out = (gcoll_lane_port *)(void *)p;
    return gcoll_net_watch(net, p->ready);
}

static void close_port(gcoll_lane_port *p) {
    close(((port *)(void *)p)->ready);
    free(p);
}

static bool poll_port(gcoll_lane_port *p) {
    bool moved = false;
    for (end *e = ((port *)(void *)p)->ends; e; e = e->next)
        moved = (e->theirs >= 0 && poll_end(e)) || moved;
    return moved;
}

static void flush_port(gcoll_lane_port *p) {
    for (end *e = ((port *)(void *)p)->ends; e; e = e->next)
        if (e->theirs >= 0)
            write_all(e);
}

static void begin(gcoll_session *session, gcoll_lane_port *lane_port) {
    port *p = (port *)(void *)lane_port;
    end *e = calloc(1, sizeof *e);
    *e = (end){
        .port = p, .session = session, .flow = (gcoll_flow *)(void *)session, .theirs = -1, .next = p->ends};
    p->ends = e;
    gcoll_session_set_lane_state(session, e);
    if ((pipe_lane_refuses & (1U << p->rank)) || pipe2(e->ours, O_NONBLOCK | O_CLOEXEC) != 0) {
        e->ours[0] = e->ours[1] = -1;
        gcoll_session_refuse(session, GCOLL_ERR_IO, "has no pipes today");
        return;
    }
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(p->ready, EPOLL_CTL_ADD, e->ours[0], &event);
    const word said = {getpid(), e->ours[1], p->eager, p->pool};
    gcoll_session_say(session, (const uint8_t *)&said, sizeof said);
}

static void hear(gcoll_session *session, const uint8_t *bytes, uint32_t count) {
    end *e = gcoll_session_lane_state(session);
    word heard;
    char path[64];
    if (count != sizeof heard)
        abort();
    memcpy(&heard, bytes, sizeof heard);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", heard.process, heard.descriptor);
    e->theirs = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (e->theirs < 0)
        gcoll_session_refuse(session, GCOLL_ERR_IO, "cannot open the pipe");
    else
        gcoll_session_stand(session, e->port->eager, e->port->pool, heard.eager, heard.pool);
}

static void drop(gcoll_session *session) {
    end *e = gcoll_session_lane_state(session);
    if (e)
        gcoll_message_queue_clear(&e->messages);
}

static void end_session(gcoll_session *session) {
    end *e = gcoll_session_lane_state(session);
    end **at = e ? &e->port->ends : NULL;
    if (!e)
        return;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    for (int i = 0; i < 2; i++)
        if (e->ours[i] >= 0)
            close(e->ours[i]);
    if (e->theirs >= 0)
        close(e->theirs);
    free(e->control);
    free(e);
}

static const gcoll_lane pipe_lane = {.name = "pipe",
                                     .number = 200,
                                     .open = open_port,
                                     .close = close_port,
                                     .flush = flush_port,
                                     .poll = poll_port,
                                     .flow = &flow_lane,
                                     .begin = begin,
                                     .hear = hear,
                                     .drop = drop,
                                     .end = end_session};

/* In place of transport/transports.c. */
const gcoll_lane *const gcoll_lanes[] = {&pipe_lane, &gcoll_lane_tcp, NULL};
