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

static bool wait_for_any(const flow *flows, uint32_t count) {
    struct pollfd fds[2 * 1024];
    uint32_t n = count < sizeof fds / sizeof fds[0] ? count : (uint32_t)(sizeof fds / sizeof fds[0]);
    for (uint32_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = flows[i].fd, .events = flows[i].send ? POLLOUT : POLLIN};
    }
    if (poll(fds, n, POLL_LIMIT_MS) == 0) {
        cli_complain("nothing moved for %d s", POLL_LIMIT_MS / 1000);
        return false;
    }
    return true;
}

/* One that is left alone may block in the kernel. */
static bool move_all(const raw_mesh *mesh, flow *flows, uint32_t count, uint64_t chunk) {
    while (count > 0) {
        bool moved_any = false;
        bool done_any = false;
        for (uint32_t i = 0; i < count; i++) {
            ssize_t moved = move_once(&flows[i], chunk, count == 1 && !mesh->spin ? 0 : MSG_DONTWAIT);
            if (moved < 0) {
                return false;
            }
            moved_any = moved_any || moved > 0;
            done_any = done_any || flows[i].left == 0;
            if (done_any && !mesh->spin) {
                break; /* another look at how many are left */
            }
        }
        if (done_any) {
            count = drop_done(flows, count);
        } else if (!moved_any && mesh->spin && mesh->yield) {
            (void)sched_yield();
        } else if (!moved_any && !mesh->spin && !wait_for_any(flows, count)) {
            return false;
        }
    }
    return true;
}

bool raw_move(const raw_mesh *mesh, const raw_pattern *pattern, const unsigned char *in, unsigned char *out,
              uint64_t chunk) {
    flow flows[2 * 1024];
    uint32_t next = 0;
    for (uint32_t step = 0; step < pattern->steps; step++) {
        uint32_t count = 0;
        for (; next < pattern->ends[step]; next++) {
            const raw_transfer *t = &pattern->transfers[next];
            unsigned char *base = t->send && !t->from_output ? (unsigned char *)(uintptr_t)in : out;
            flows[count++] =
                (flow){.fd = mesh->fds[t->peer], .send = t->send, .at = base + t->at, .left = t->bytes};
        }
        if (!move_all(mesh, flows, count, chunk)) {
            return false;
        }
    }
    return true;
}
