/* gcoll/store/connect.c - resolves a server's host name and connects to it, each within a deadline. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/store/connect.h"

#define NS_PER_SEC 1000000000
/* TCP keepalive declares the other host gone after 25 s without an answer. */
#define KEEPALIVE_IDLE_S     10
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES     3

/* Look-up of a host name. It runs in a thread of its own, because getaddrinfo has no time limit. */
typedef struct lookup {
    pthread_mutex_t lock; /* guards `done` and `abandoned` */
    pthread_cond_t wake;
    bool done;
    bool abandoned; /* the caller has given up: the thread frees this struct */
    int result;
    int error; /* errno, if result is EAI_SYSTEM */
    struct addrinfo *list;
    char port[8];
    char host[]; /* a copy, because the thread may outlive the call */
} lookup;

gcoll_status gcoll_store_poll(int fd, short events, int64_t deadline_ns) {
    struct pollfd item = {.fd = fd, .events = events};
    const int most_ms = 3600 * 1000; /* poll takes an int; a longer wait polls several times */
    for (;;) {
        int64_t left = gcoll_store_left_ms(deadline_ns);
        int ready = poll(&item, 1, left < most_ms ? (int)left : most_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return GCOLL_OK; /* the caller's next operation on fd reports an error */
        if (left == 0)
            return GCOLL_ERR_TIMEOUT;
    }
}

static int resolve(const char *host, const char *port, int flags, struct addrinfo **list) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    hints.ai_flags = flags | AI_NUMERICSERV;
    return getaddrinfo(host, port, &hints, list);
}

static void release(lookup *l) {
    if (l->list)
        freeaddrinfo(l->list);
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void *lookup_main(void *arg) {
    lookup *l = arg;
    struct addrinfo *list = NULL;
    int result = resolve(l->host, l->port, 0, &list);
    int error = errno;
    pthread_mutex_lock(&l->lock);
    l->result = result;
    l->error = error;
    l->list = list;
    l->done = true;
    bool abandoned = l->abandoned;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    if (abandoned)
        release(l);
    return NULL;
}

static lookup *lookup_create(const char *host, const char *port) {
    size_t bytes = strlen(host) + 1;
    lookup *l = calloc(1, sizeof *l + bytes);
    if (!l)
        return NULL;
    memcpy(l->host, host, bytes);
    snprintf(l->port, sizeof l->port, "%s", port);
    if (pthread_mutex_init(&l->lock, NULL) != 0)
        goto free_lookup;
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        goto destroy_lock;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&l->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (failed == 0)
        return l;
destroy_lock:
    pthread_mutex_destroy(&l->lock);
free_lookup:
    free(l);
    return NULL;
}

/* Starts the look-up thread with all signals blocked, because signals are the application's. */
static int start(pthread_t *thread, lookup *l) {
    sigset_t all;
    sigfillset(&all);
    sigset_t old;
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(thread, NULL, lookup_main, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

/* Waits for the look-up thread. Returns false if the deadline passed; then the thread owns the look-up. */
static bool finish(pthread_t thread, lookup *l, int64_t deadline_ns) {
    pthread_mutex_lock(&l->lock);
    for (int64_t left; !l->done && (left = gcoll_store_left_ns(deadline_ns)) > 0;) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        int64_t nanos = until.tv_nsec + (left < NS_PER_SEC ? left : NS_PER_SEC);
        until.tv_sec += nanos / NS_PER_SEC;
        until.tv_nsec = nanos % NS_PER_SEC;
        pthread_cond_timedwait(&l->wake, &l->lock, &until);
    }
    bool done = l->done;
    l->abandoned = !done;
    pthread_mutex_unlock(&l->lock);
    if (done)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    return done;
}

gcoll_status gcoll_store_resolve(const gcoll_store_place *place, int64_t deadline_ns, bool *transient,
                                 struct addrinfo **list) {
    char port[8];
    pthread_t thread;
    *transient = false;
    snprintf(port, sizeof port, "%u", (unsigned)place->port);
    if (resolve(place->host, port, AI_NUMERICHOST, list) == 0)
        return GCOLL_OK;
    lookup *l = lookup_create(place->host, port);
    if (!l)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s store %.300s: no memory", place->kind, place->name);
    int error = start(&thread, l);
    if (error != 0) {
        release(l);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s store %.300s: cannot start a thread: %s", place->kind,
                           place->name, strerror(error));
    }
    *transient = true;
    if (!finish(thread, l, deadline_ns))
        return gcoll_error(GCOLL_ERR_TIMEOUT, "%s store %.300s: the host's name was not resolved in time",
                           place->kind, place->name);
    gcoll_status status = GCOLL_OK;
    if (l->result == 0) {
        *list = l->list;
        l->list = NULL;
        *transient = false;
    } else {
        error = l->result == EAI_SYSTEM ? l->error : l->result == EAI_MEMORY ? ENOMEM : 0;
        char text[GCOLL_ERRNO_TEXT_MAX];
        status = gcoll_error(gcoll_status_of_errno(error),
                             "%s store %.300s: cannot resolve the host's name: %s", place->kind, place->name,
                             error != 0 ? gcoll_errno_text(error, text) : gai_strerror(l->result));
    }
    release(l);
    return status;
}

/* Creates a socket, and enters it in `descriptor` before any thread can fork. Returns -1 with errno on
 * failure. */
static int open_socket(const struct addrinfo *to, gcoll_descriptor *descriptor) {
    if (!descriptor)
        return socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
    gcoll_fork_hold();
    int fd = socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
    int error = errno;
    if (fd >= 0)
        gcoll_descriptor_enter(descriptor, fd);
    gcoll_fork_release();
    errno = error;
    return fd;
}

static void close_socket(int fd, gcoll_descriptor *descriptor) {
    if (!descriptor) {
        close(fd);
        return;
    }
    gcoll_fork_hold();
    gcoll_descriptor_leave(descriptor);
    close(fd);
    gcoll_fork_release();
}

/* Returns whether the socket is connected to itself. A connect to a port of this host at which nobody listens
 * may get that very port as its own. */
static bool is_own_peer(int fd) {
    struct sockaddr_storage own, peer;
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer;
    memset(&own, 0, sizeof own);
    memset(&peer, 0, sizeof peer);
    return getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) == 0 && own_bytes == peer_bytes &&
           memcmp(&own, &peer, own_bytes) == 0;
}

/* Connects to one address. Returns 0 or an errno. */
static int connect_one(const struct addrinfo *to, int64_t deadline_ns, gcoll_descriptor *descriptor,
                       int *fd) {
    int s = open_socket(to, descriptor);
    if (s < 0)
        return errno;
    int on = 1, error = 0;
    socklen_t size = sizeof error;
    if (connect(s, to->ai_addr, to->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS || error == EINTR)
            error = gcoll_store_poll(s, POLLOUT, deadline_ns) != GCOLL_OK     ? ETIMEDOUT
                    : getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size) != 0 ? errno
                                                                              : error;
    }
    if (error == 0 && is_own_peer(s))
        error = ECONNREFUSED;
    if (error != 0) {
        close_socket(s, descriptor);
        return error;
    }
    /* Nothing is delayed: requests are small, and each waits for its answer. */
    (void)setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *fd = s;
    return 0;
}

gcoll_status gcoll_store_connect(const gcoll_store_place *place, const struct addrinfo *list,
                                 int64_t deadline_ns, bool *transient, gcoll_descriptor *descriptor,
                                 int *fd) {
    int left = 0, error = EADDRNOTAVAIL;
    for (const struct addrinfo *to = list; to; to = to->ai_next)
        left++;
    for (const struct addrinfo *to = list; to && error != 0; to = to->ai_next, left--) {
        /* Each address gets an equal part of the time, so that a silent one leaves time for the others. */
        int64_t share = gcoll_store_left_ns(deadline_ns) / left;
        error = connect_one(to, gcoll_now_ns() + share, descriptor, fd);
    }
    if (error == 0)
        return GCOLL_OK;
    char text[GCOLL_ERRNO_TEXT_MAX];
    *transient = true;
    return gcoll_error(error == ETIMEDOUT ? GCOLL_ERR_TIMEOUT : gcoll_status_of_errno(error),
                       "%s store %.300s: cannot connect: %s", place->kind, place->name,
                       gcoll_errno_text(error, text));
}

void gcoll_store_set_long_lived(int fd) {
    const int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S, probes = KEEPALIVE_PROBES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}
