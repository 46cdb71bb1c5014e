/* gcoll/store/redis_connect.c - connects to a host by name, with a deadline on every part of it. */
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
#include "gcoll/store/redis_link.h"

#define NS_PER_SEC 1000000000

/* A look-up of a name in a thread of its own: getaddrinfo takes as long as it likes. */
typedef struct lookup {
    pthread_mutex_t lock; /* guards done, abandoned */
    pthread_cond_t wake;
    bool done;
    bool abandoned; /* the caller is gone: the thread releases this */
    int result;
    int error; /* errno, where result is EAI_SYSTEM */
    struct addrinfo *list;
    char port[8];
    char host[]; /* a copy, as the caller may go first */
} lookup;

gcoll_status gcoll_redis_poll(int fd, short events, int64_t deadline_ns) {
    struct pollfd item = {.fd = fd, .events = events};
    const int most_ms = 3600 * 1000; /* poll takes an int; the loop goes on */
    for (;;) {
        int64_t left = gcoll_store_left_ms(deadline_ns);
        int ready = poll(&item, 1, left < most_ms ? (int)left : most_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return GCOLL_OK; /* an error shows in the call that follows */
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
    if (l->list != NULL)
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
    pthread_condattr_t attributes;
    lookup *l = calloc(1, sizeof *l + bytes);
    if (l == NULL)
        return NULL;
    memcpy(l->host, host, bytes);
    snprintf(l->port, sizeof l->port, "%s", port);
    if (pthread_mutex_init(&l->lock, NULL) != 0)
        goto free_lookup;
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

/* Starts the thread with all signals blocked: those are the application's. */
static int start(pthread_t *thread, lookup *l) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(thread, NULL, lookup_main, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

/* Waits for the thread. false: the deadline passed, and the look-up now belongs to the thread. */
static bool finish(pthread_t thread, lookup *l, int64_t deadline_ns) {
    struct timespec until;
    pthread_mutex_lock(&l->lock);
    for (int64_t left; !l->done && (left = gcoll_store_left_ns(deadline_ns)) > 0;) {
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

static gcoll_status find(const gcoll_redis_address *address, int64_t deadline_ns, gcoll_redis_fault *fault,
                         struct addrinfo **list) {
    char port[8];
    pthread_t thread;
    snprintf(port, sizeof port, "%u", (unsigned)address->port);
    if (resolve(address->host, port, AI_NUMERICHOST, list) == 0)
        return GCOLL_OK;
    lookup *l = lookup_create(address->host, port);
    if (l == NULL)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "redis store %.300s: no memory", address->name);
    int error = start(&thread, l);
    if (error != 0) {
        release(l);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "redis store %.300s: cannot start a thread: %s",
                           address->name, strerror(error));
    }
    fault->transient = true;
    if (!finish(thread, l, deadline_ns))
        return gcoll_error(GCOLL_ERR_TIMEOUT, "redis store %.300s: the host's name was not resolved in time",
                           address->name);
    gcoll_status status = GCOLL_OK;
    if (l->result == 0) {
        *list = l->list;
        l->list = NULL;
    } else {
        status =
            gcoll_error(GCOLL_ERR_IO, "redis store %.300s: cannot resolve the host's name: %s", address->name,
                        l->result == EAI_SYSTEM ? strerror(l->error) : gai_strerror(l->result));
    }
    release(l);
    return status;
}

/* One address. 0 or an errno. */
static int connect_one(const struct addrinfo *to, int64_t deadline_ns, int *fd) {
    int s = socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
    if (s < 0)
        return errno;
    int on = 1, error = 0;
    socklen_t size = sizeof error;
    if (connect(s, to->ai_addr, to->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS || error == EINTR)
            error = gcoll_redis_poll(s, POLLOUT, deadline_ns) != GCOLL_OK     ? ETIMEDOUT
                    : getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size) != 0 ? errno
                                                                              : error;
    }
    if (error != 0) {
        close(s);
        return error;
    }
    /* Requests are small and each waits for its answer. */
    (void)setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *fd = s;
    return 0;
}

gcoll_status gcoll_redis_connect(const gcoll_redis_address *address, int64_t deadline_ns,
                                 gcoll_redis_fault *fault, int *fd) {
    struct addrinfo *list = NULL;
    gcoll_status status = find(address, deadline_ns, fault, &list);
    if (status != GCOLL_OK)
        return status;
    int left = 0, error = EADDRNOTAVAIL;
    for (const struct addrinfo *to = list; to != NULL; to = to->ai_next)
        left++;
    for (const struct addrinfo *to = list; to != NULL && error != 0; to = to->ai_next, left--) {
        /* An address that does not answer must leave time for those behind it. */
        int64_t share = gcoll_store_left_ns(deadline_ns) / left;
        error = connect_one(to, gcoll_now_ns() + share, fd);
    }
    freeaddrinfo(list);
    if (error == 0)
        return GCOLL_OK;
    fault->transient = true;
    return gcoll_error(error == ETIMEDOUT ? GCOLL_ERR_TIMEOUT : GCOLL_ERR_IO,
                       "redis store %.300s: cannot connect: %s", address->name, strerror(error));
}
