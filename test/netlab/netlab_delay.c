/*
 * test/netlab/netlab_delay.c - a link of a lab of test/netlab/netlab with a delay, where the kernel has no
 * netem.
 *
 *   netlab_delay MICROSECONDS NAMESPACE DEVICE NAMESPACE DEVICE
 *
 * Makes a TAP device in each of two network namespaces (files, as under /proc/PID/ns/net), and passes each
 * packet that comes from one on to the other when it is so old. Says "ready" when the devices are there; they
 * go with this process. Packets keep their order. At most QUEUE_BYTES wait in each direction; more are lost,
 * as on a link.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define QUEUE_BYTES  (64U << 20)
#define PACKET_BYTES 65536
/* Read from one device before the other has its turn. */
#define BATCH 64

typedef struct packet {
    struct packet *next;
    int64_t due_ns;
    size_t bytes;
    uint8_t data[];
} packet;

/* One direction. */
typedef struct way {
    int from, to;
    packet *first, *last;
    size_t held;
} way;

static int64_t delay_ns;

static void die(const char *what) {
    fprintf(stderr, "netlab_delay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int make_device(const char *space, const char *name) {
    struct ifreq request;
    memset(&request, 0, sizeof request);
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    const int there = open(space, O_RDONLY | O_CLOEXEC);
    if (there < 0 || setns(there, CLONE_NEWNET) != 0)
        die(space);
    close(there);
    const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0)
        die("/dev/net/tun");
    return fd;
}

static void take(way *w) {
    static uint8_t data[PACKET_BYTES];
    for (int i = 0; i < BATCH; i++) {
        const ssize_t got = read(w->from, data, sizeof data);
        if (got <= 0)
            return;
        packet *p = w->held < QUEUE_BYTES ? malloc(sizeof *p + (size_t)got) : NULL;
        if (!p)
            continue;
        p->next = NULL;
        p->due_ns = now_ns() + delay_ns;
        p->bytes = (size_t)got;
        memcpy(p->data, data, p->bytes);
        w->held += p->bytes;
        if (w->last)
            w->last->next = p;
        else
            w->first = p;
        w->last = p;
    }
}

static void pass_on(way *w) {
    const int64_t now = now_ns();
    while (w->first && w->first->due_ns <= now) {
        packet *p = w->first;
        w->first = p->next;
        if (!w->first)
            w->last = NULL;
        w->held -= p->bytes;
        /* A device that is down, or full, loses it. */
        const ssize_t ignored = write(w->to, p->data, p->bytes);
        (void)ignored;
        free(p);
    }
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: netlab_delay MICROSECONDS NAMESPACE DEVICE NAMESPACE DEVICE\n");
        return 2;
    }
    delay_ns = strtoll(argv[1], NULL, 10) * 1000;
    const int a = make_device(argv[2], argv[3]), b = make_device(argv[4], argv[5]);
    way ways[2] = {{.from = a, .to = b}, {.from = b, .to = a}};
    struct pollfd ready[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
    puts("ready");
    fflush(stdout);
    for (;;) {
        int64_t wait = INT64_MAX;
        const int64_t now = now_ns();
        for (int i = 0; i < 2; i++)
            if (ways[i].first && ways[i].first->due_ns - now < wait)
                wait = ways[i].first->due_ns - now;
        wait = wait < 0 ? 0 : wait;
        const struct timespec limit = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        if (ppoll(ready, 2, wait == INT64_MAX ? NULL : &limit, NULL) < 0 && errno != EINTR)
            die("ppoll");
        for (int i = 0; i < 2; i++) {
            take(&ways[i]);
            pass_on(&ways[i]);
        }
    }
}
