/* benchmark/peers/raw_move.c - the transfers of a step, all at once, by plain send and recv. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "raw.h"

#define POLL_LIMIT_MS 30000

/* What is left of a transfer. */
typedef struct flow {
    int fd;
    bool send;
    unsigned char *at;
    uint64_t left;
} flow;

/* Moves what the socket takes or has. -1: has been said. 0: nothing now. */
static ssize_t move_once(flow *f, uint64_t chunk, int flags) {
    size_t bytes = f->left < chunk ? f->left : chunk;
    ssize_t moved =
        f->send ? send(f->fd, f->at, bytes, flags | MSG_NOSIGNAL) : recv(f->fd, f->at, bytes, flags);
    if (moved > 0) {
        f->at += moved;
        f->left -= (uint64_t)moved;
        return moved;
    }
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    cli_complain("%s: %s", f->send ? "send" : "recv", moved == 0 ? "the peer has gone" : strerror(errno));
    return -1;
}

/* Drops those that are done, keeping the order. */
static uint32_t drop_done(flow *flows, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (flows[i].left > 0) {
            flows[kept++] = flows[i];
        }
    }
    return kept;
}

/* A step under way. */
typedef struct step {
    flow flows[2 * 1024];
    uint32_t count;
    uint64_t chunk;
    uint64_t lead; /* what may be sent before as much has come in */
    uint64_t sent, received, expected;
} step;

static bool may_move(const step *s, const flow *f) {
    return !f->send || s->sent < s->received + s->lead;
}

static bool wait_for_any(const step *s) {
    struct pollfd fds[2 * 1024];
    for (uint32_t i = 0; i < s->count; i++) {
        const flow *f = &s->flows[i];
        fds[i] = (struct pollfd){.fd = may_move(s, f) ? f->fd : -1, .events = f->send ? POLLOUT : POLLIN};
    }
    if (poll(fds, s->count, POLL_LIMIT_MS) == 0) {
        cli_complain("nothing moved for %d s", POLL_LIMIT_MS / 1000);
        return false;
    }
    return true;
}

/* One look at each socket. One that is left alone may block in the kernel. False has been said. */
static bool look_at_all(step *s, bool spin, bool *moved_any, bool *done_any) {
    *moved_any = *done_any = false;
    for (uint32_t i = 0; i < s->count; i++) {
        flow *f = &s->flows[i];
        if (!may_move(s, f)) {
            continue;
        }
        ssize_t moved = move_once(f, s->chunk, s->count == 1 && !spin ? 0 : MSG_DONTWAIT);
        if (moved < 0) {
            return false;
        }
        *(f->send ? &s->sent : &s->received) += (uint64_t)moved;
        *moved_any = *moved_any || moved > 0;
        *done_any = *done_any || f->left == 0;
        if (*done_any && !spin) {
            break; /* another look at how many are left */
        }
    }
    return true;
}

static bool move_all(const raw_mesh *mesh, step *s) {
    while (s->count > 0) {
        bool moved_any;
        bool done_any;
        if (!look_at_all(s, mesh->spin, &moved_any, &done_any)) {
            return false;
        }
        if (done_any) {
            s->count = drop_done(s->flows, s->count);
        } else if (!moved_any && mesh->spin && mesh->yield) {
            (void)sched_yield();
        } else if (!moved_any && !mesh->spin && !wait_for_any(s)) {
            return false;
        }
        if (s->received == s->expected) { /* nothing to wait for any more */
            s->lead = UINT64_MAX / 2;
        }
    }
    return true;
}

bool raw_move(const raw_mesh *mesh, const raw_pattern *pattern, const unsigned char *in, unsigned char *out,
              uint64_t chunk) {
    step s;
    uint32_t next = 0;
    for (uint32_t number = 0; number < pattern->steps; number++) {
        s.count = 0;
        s.chunk = chunk;
        s.lead = 2 * chunk;
        s.sent = s.received = s.expected = 0;
        for (; next < pattern->ends[number]; next++) {
            const raw_transfer *t = &pattern->transfers[next];
            unsigned char *base = t->send && !t->from_output ? (unsigned char *)(uintptr_t)in : out;
            s.flows[s.count++] =
                (flow){.fd = mesh->fds[t->peer], .send = t->send, .at = base + t->at, .left = t->bytes};
            s.expected += t->send ? 0 : t->bytes;
        }
        if (!move_all(mesh, &s)) {
            return false;
        }
    }
    return true;
}
