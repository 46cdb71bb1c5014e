/* benchmark/peers/raw_move.c - the transfers of a step, all at once, by plain send and recv. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "raw.h"

#define POLL_LIMIT_MS 30000

/* The rest of a transfer that is not done. */
typedef struct flow {
    int fd;
    bool send;
    unsigned char *at;
    uint64_t left;
    const unsigned char *addend; /* of what is reduced: what is added to it; else NULL */
    bool behind;
    unsigned char carry[sizeof(float)]; /* the first bytes of an element */
    size_t carried;
} flow;

static void add_floats(float *restrict out, const float *restrict a, const float *restrict b, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

static void add_floats_to(float *restrict out, const float *restrict b, size_t count) {
    for (size_t i = 0; i < count; i++)
        out[i] += b[i];
}

/* Reduces all whole elements in `hot`: the carried bytes and the bytes that arrived after them. */
static void reduce(flow *f, unsigned char *hot, size_t come) {
    size_t bytes = f->carried + come;
    size_t whole = bytes / sizeof(float) * sizeof(float);
    float *out = (float *)(void *)f->at;
    const float *come_in = (const float *)(void *)hot;
    if (f->addend == f->at)
        add_floats_to(out, come_in, whole / sizeof(float));
    else
        add_floats(out, (const float *)(const void *)f->addend, come_in, whole / sizeof(float));
    f->at += whole;
    f->addend += whole;
    f->carried = bytes - whole;
    memcpy(f->carry, hot + whole, f->carried);
}

/* Sends or receives at most `most` bytes by one call. -1: an error, already printed. 0: the socket is not
 * ready. */
static ssize_t move_once(flow *f, uint64_t most, unsigned char *hot, int flags) {
    size_t bytes = f->left < most ? f->left : most;
    unsigned char *at = f->at;
    if (f->addend) {
        bytes = bytes < RAW_HOT_BYTES - f->carried ? bytes : RAW_HOT_BYTES - f->carried;
        memcpy(hot, f->carry, f->carried);
        at = hot + f->carried;
    }
    ssize_t moved = f->send ? send(f->fd, at, bytes, flags | MSG_NOSIGNAL) : recv(f->fd, at, bytes, flags);
    if (moved > 0) {
        f->left -= (uint64_t)moved;
        if (f->addend)
            reduce(f, hot, (size_t)moved);
        else
            f->at += moved;
        return moved;
    }
    if (moved < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    cli_complain("%s: %s", f->send ? "send" : "recv", moved == 0 ? "the peer has gone" : strerror(errno));
    return -1;
}

/* Removes transfers that are done, and keeps the order. */
static uint32_t drop_done(flow *flows, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (flows[i].left > 0)
            flows[kept++] = flows[i];
    return kept;
}

/* A step under way. */
typedef struct step {
    flow flows[2 * 1024];
    uint32_t count;
    uint64_t chunk;
    uint64_t lead; /* what may be sent before as much has come in */
    uint64_t sent, received, expected;
    unsigned char *hot;
} step;

/* How many bytes of a transfer may be moved now, in one call. */
static uint64_t room(const step *s, const flow *f) {
    if (f->send)
        return s->sent < s->received + s->lead ? s->chunk : 0;
    uint64_t sent_more = s->sent - s->received;
    return f->behind && s->sent < s->expected && sent_more < s->chunk ? sent_more : s->chunk;
}

static bool wait_for_any(const step *s) {
    struct pollfd fds[2 * 1024];
    for (uint32_t i = 0; i < s->count; i++) {
        const flow *f = &s->flows[i];
        fds[i] = (struct pollfd){.fd = room(s, f) > 0 ? f->fd : -1, .events = f->send ? POLLOUT : POLLIN};
    }
    if (poll(fds, s->count, POLL_LIMIT_MS) == 0) {
        cli_complain("nothing moved for %d s", POLL_LIMIT_MS / 1000);
        return false;
    }
    return true;
}

/* Tries each socket once. A transfer that is the only one left may block in the kernel. False: an error,
 * already printed. */
static bool look_at_all(step *s, bool spin, bool *moved_any, bool *done_any) {
    *moved_any = *done_any = false;
    for (uint32_t i = 0; i < s->count; i++) {
        flow *f = &s->flows[i];
        uint64_t most = room(s, f);
        if (most == 0)
            continue;
        ssize_t moved = move_once(f, most, s->hot, s->count == 1 && !spin ? 0 : MSG_DONTWAIT);
        if (moved < 0)
            return false;
        *(f->send ? &s->sent : &s->received) += (uint64_t)moved;
        *moved_any = *moved_any || moved > 0;
        *done_any = *done_any || f->left == 0;
        if (*done_any && !spin)
            break; /* another look at how many are left */
    }
    return true;
}

static bool move_all(const raw_mesh *mesh, step *s) {
    while (s->count > 0) {
        bool moved_any;
        bool done_any;
        if (!look_at_all(s, mesh->spin, &moved_any, &done_any))
            return false;
        if (done_any)
            s->count = drop_done(s->flows, s->count);
        else if (!moved_any && mesh->spin && mesh->yield)
            (void)sched_yield();
        else if (!moved_any && !mesh->spin && !wait_for_any(s))
            return false;
        if (s->received == s->expected) /* nothing to wait for any more */
            s->lead = UINT64_MAX / 2;
    }
    return true;
}

bool raw_move(const raw_mesh *mesh, const raw_pattern *pattern, const unsigned char *in, unsigned char *out,
              unsigned char *hot, uint64_t chunk) {
    step s;
    uint32_t next = 0;
    s.hot = hot;
    s.chunk = chunk;
    if (pattern->own_bytes > 0)
        memcpy(out + pattern->own_at, in + pattern->own_at, pattern->own_bytes);
    for (uint32_t number = 0; number < pattern->steps; number++) {
        s.count = 0;
        s.lead = 2 * chunk;
        s.sent = s.received = s.expected = 0;
        for (; next < pattern->ends[number]; next++) {
            const raw_transfer *t = &pattern->transfers[next];
            unsigned char *base = t->send && !t->from_output ? (unsigned char *)(uintptr_t)in : out;
            s.flows[s.count++] = (flow){.fd = mesh->fds[t->peer],
                                        .send = t->send,
                                        .at = base + t->at,
                                        .left = t->bytes,
                                        .addend = t->reduce ? (t->from_output ? out : in) + t->at : NULL,
                                        .behind = t->behind};
            s.expected += t->send ? 0 : t->bytes;
        }
        if (!move_all(mesh, &s))
            return false;
    }
    return true;
}
