/*
 * gcoll/store/tcp.c - the client of a tcp store. One of the ranks runs the store's server (tcp_server.c).
 *
 * A request is one frame, and its answer another: one round trip. A request that times out leaves the
 * connection as it is. The client sends the rest of it before the next request, and skips its answer when
 * that comes. So nothing is lost if the server was slow. A wait ends at its limit by the client's clock. The
 * answer may be on its way at that moment, so the client asks the server once more.
 *
 * A lost connection is made again once. If the server has the same identity, the request continues: set, get,
 * wait, keep and remove may safely be sent twice. An add or a set_new may not: if its answer is lost, its
 * outcome is unknown, and the error says so. If there is no server, or another one, the store's contents are
 * lost.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gcoll/base/base.h"
#include "gcoll/base/text.h"
#include "gcoll/store/tcp.h"

#define FIRST_DELAY_NS 2000000   /* a job's server usually starts together with the other ranks */
#define MAX_DELAY_NS   200000000 /* thousands of ranks must not overload a server that has just started */
#define FIRST_SHARE_MS 1000      /* of each of several addresses, in the first round */
#define MS_MAX         (INT64_C(366) * 86400 * 1000) /* enough for any job; sums stay in range */
#define QUOTE_BYTES    40
#define ERROR_MAX      1024 /* what gcoll_error keeps of a text */

typedef struct tcp_store {
    gcoll_store_place place;
    char *host, *name;          /* strings that place borrows */
    gcoll_store_server *server; /* NULL: another process serves */
    gcoll_descriptor descriptor;
    int fd;             /* -1: not connected */
    uint32_t forks;     /* gcoll_forks when the store was opened */
    uint32_t id;        /* of the latest request */
    uint64_t identity;  /* of the server */
    int64_t timeout_ms; /* limit of a request, as given when the store was opened */
    int64_t limit_ms;   /* used instead of timeout_ms; -1: not set */
    size_t out_bytes, out_sent;
    size_t in_used, in_taken; /* bytes in `in`; the first in_taken of them are the last answer */
    uint8_t out[GCOLL_STORE_FRAME_BYTES];
    uint8_t in[GCOLL_STORE_HEAD_BYTES + GCOLL_STORE_VALUE_MAX];
} tcp_store;

/* What the caller must know about a failed exchange. */
typedef struct fault {
    bool lost;    /* the connection is gone */
    bool unknown; /* the server may have executed the request, or may yet execute it */
} fault;

/* A request. Messages name verb and key. */
typedef struct request {
    const char *verb, *key;
    gcoll_store_kind kind;
    bool repeatable;
    uint64_t number;
    const void *value;
    size_t value_bytes;
} request;

typedef struct reply {
    gcoll_store_kind kind;
    uint64_t number;
    const uint8_t *value; /* valid until the next request */
    size_t value_bytes;
} reply;

/* ---- The connection ------------------------------------------------------------------------------- */

static void disconnect(tcp_store *self) {
    if (self->fd < 0)
        return;
    gcoll_fork_hold();
    gcoll_descriptor_leave(&self->descriptor);
    close(self->fd);
    gcoll_fork_release();
    self->fd = -1;
    self->out_bytes = self->out_sent = self->in_used = self->in_taken = 0;
}

static gcoll_status lost(tcp_store *self, const char *why, fault *f) {
    f->lost = true;
    disconnect(self);
    return gcoll_error(GCOLL_ERR_IO, "the store's server at %.300s is gone: %s", self->place.name, why);
}

static gcoll_status late(const tcp_store *self) {
    return gcoll_error(GCOLL_ERR_TIMEOUT, "tcp store %.300s: the server did not answer in time",
                       self->place.name);
}

/* Sends the remaining bytes of the frame in `out`. */
static gcoll_status send_rest(tcp_store *self, int64_t deadline_ns, fault *f) {
    char text[GCOLL_ERRNO_TEXT_MAX];

    while (self->out_sent < self->out_bytes) {
        ssize_t sent = send(self->fd, self->out + self->out_sent, self->out_bytes - self->out_sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent >= 0) {
            self->out_sent += (size_t)sent;
        } else if (errno == EAGAIN) {
            if (gcoll_store_poll(self->fd, POLLOUT, deadline_ns) != GCOLL_OK)
                return late(self);
        } else if (errno != EINTR) {
            return lost(self, gcoll_errno_text(errno, text), f);
        }
    }
    return GCOLL_OK;
}

/* Receives once, and appends the bytes to `in`. */
static gcoll_status receive_some(tcp_store *self, int64_t deadline_ns, fault *f) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    ssize_t got;

    for (;;) {
        got = recv(self->fd, self->in + self->in_used, sizeof self->in - self->in_used, MSG_DONTWAIT);
        if (got > 0) {
            self->in_used += (size_t)got;
            return GCOLL_OK;
        }
        if (got == 0)
            return lost(self, "it closed the connection", f);
        if (errno != EAGAIN && errno != EINTR)
            return lost(self, gcoll_errno_text(errno, text), f);
        if (errno == EAGAIN && gcoll_store_poll(self->fd, POLLIN, deadline_ns) != GCOLL_OK)
            return late(self);
    }
}

/* Removes the last answer from `in`. */
static void forget_taken(tcp_store *self) {
    self->in_used -= self->in_taken;
    memmove(self->in, self->in + self->in_taken, self->in_used);
    self->in_taken = 0;
}

static gcoll_status nonsense(tcp_store *self, fault *f) {
    f->lost = true;
    disconnect(self);
    return gcoll_error(GCOLL_ERR_PROTOCOL,
                       "tcp store %.300s: the answer is not that of a gcoll store's server",
                       self->place.name);
}

/* Receives the next answer, to whichever request. */
static gcoll_status receive_frame(tcp_store *self, int64_t deadline_ns, gcoll_store_frame *frame, fault *f) {
    gcoll_status status = GCOLL_OK;
    size_t needed = GCOLL_STORE_HEAD_BYTES;

    forget_taken(self);
    for (;;) {
        while (self->in_used < needed && status == GCOLL_OK)
            status = receive_some(self, deadline_ns, f);
        if (status != GCOLL_OK)
            return status;
        if (!gcoll_store_frame_get(self->in, frame) || frame->version != GCOLL_STORE_VERSION ||
            frame->kind < GCOLL_ANSWER_OK || frame->kind > GCOLL_ANSWER_LAST || frame->key_bytes != 0 ||
            frame->value_bytes > (frame->kind == GCOLL_ANSWER_OK ? GCOLL_STORE_VALUE_MAX : 0))
            return nonsense(self, f);
        if (self->in_used >= GCOLL_STORE_HEAD_BYTES + frame->value_bytes) {
            self->in_taken = GCOLL_STORE_HEAD_BYTES + frame->value_bytes;
            return GCOLL_OK;
        }
        needed = GCOLL_STORE_HEAD_BYTES + frame->value_bytes;
    }
}

/* ---- The greeting --------------------------------------------------------------------------------- */

/* Reports that another program answers at the port. Guesses which by the first bytes of its answer. */
static gcoll_status stranger(const tcp_store *self) {
    static const struct {
        const char *start, *what;
    } known[] = {{"HTTP/", "an HTTP server"},     {"-ERR ", "a Redis server"}, {"-NOAUTH", "a Redis server"},
                 {"-DENIED", "a Redis server"},   {"<", "an HTTP server"},     {"SSH-", "an SSH server"},
                 {"220 ", "a mail or FTP server"}};
    char text[QUOTE_BYTES + 1];
    const size_t bytes = self->in_used < QUOTE_BYTES ? self->in_used : QUOTE_BYTES;
    const char *what = "another program";

    memcpy(text, self->in, bytes);
    text[bytes] = '\0';
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(text, known[i].start, strlen(known[i].start)) == 0)
            what = known[i].what;
    for (size_t i = 0; i < bytes; i++) /* a NUL would hide the bytes after it */
        text[i] = text[i] == '\0' || text[i] == '\r' || text[i] == '\n' ? ' ' : text[i];
    gcoll_text_clean(text);
    return gcoll_error(GCOLL_ERR_PROTOCOL,
                       "tcp store %.300s: the server there is not a gcoll store, but %s: \"%s\"",
                       self->place.name, what, text);
}

/* Sends the greeting, and receives the server's identity. *transient says whether a later try may succeed. */
static gcoll_status greet(tcp_store *self, int64_t deadline_ns, bool *transient, uint64_t *identity) {
    gcoll_store_frame frame;
    fault f = {false, false};
    gcoll_status status;

    memcpy(self->out, GCOLL_STORE_HELLO, GCOLL_STORE_HELLO_BYTES);
    self->out_bytes = GCOLL_STORE_HELLO_BYTES;
    self->out_sent = 0;
    status = send_rest(self, deadline_ns, &f);
    while (status == GCOLL_OK && self->in_used < GCOLL_STORE_HEAD_BYTES &&
           memcmp(self->in, "!GCS", self->in_used < 4 ? self->in_used : 4) == 0)
        status = receive_some(self, deadline_ns, &f);
    *transient = status != GCOLL_OK;
    if (status == GCOLL_ERR_TIMEOUT) {
        return gcoll_error(
            status,
            "tcp store %.300s: a program listens there, but did not answer in time: it is "
            "busy, stopped, out of file descriptors (ulimit -n), or not a gcoll store's server",
            self->place.name);
    }
    if (status != GCOLL_OK) {
        return gcoll_error(status,
                           "tcp store %.300s: the connection was closed without an answer to the greeting",
                           self->place.name);
    }
    if (self->in_used < GCOLL_STORE_HEAD_BYTES || !gcoll_store_frame_get(self->in, &frame))
        return stranger(self);
    if (frame.version != GCOLL_STORE_VERSION) {
        return gcoll_error(GCOLL_ERR_PROTOCOL,
                           "tcp store %.300s: the server speaks version %u of the protocol, and this library "
                           "version %d",
                           self->place.name, (unsigned)frame.version, GCOLL_STORE_VERSION);
    }
    if (frame.kind != GCOLL_ANSWER_WELCOME || frame.key_bytes != 0 || frame.value_bytes != 0)
        return nonsense(self, &f);
    self->in_taken = GCOLL_STORE_HEAD_BYTES;
    *identity = frame.number;
    return GCOLL_OK;
}

/* Greets the server after connecting. Closes the connection on failure. */
static gcoll_status welcome(tcp_store *self, int64_t deadline_ns, bool *transient, uint64_t *identity) {
    gcoll_store_set_long_lived(self->fd);
    gcoll_status status = greet(self, deadline_ns, transient, identity);
    if (status != GCOLL_OK)
        disconnect(self);
    return status;
}

/* Connects to an address of the list, and greets the server. Closes the connection on failure. */
static gcoll_status call(tcp_store *self, const struct addrinfo *list, int64_t deadline_ns, bool *transient,
                         uint64_t *identity) {
    gcoll_status status =
        gcoll_store_connect(&self->place, list, deadline_ns, transient, &self->descriptor, &self->fd);

    return status == GCOLL_OK ? welcome(self, deadline_ns, transient, identity) : status;
}

/* Makes a lost connection again. Fails if the server is gone or another one has taken its place. */
static gcoll_status call_again(tcp_store *self, int64_t deadline_ns, fault *f) {
    struct addrinfo *list = NULL;
    uint64_t identity = 0;
    bool transient;
    gcoll_status status;

    f->lost = true;
    if (self->server) { /* the server of this process dropped its owner because memory ran out */
        return gcoll_error(GCOLL_ERR_IO, "the store's server at %.300s is gone: it had no memory",
                           self->place.name);
    }
    status = gcoll_store_resolve(&self->place, deadline_ns, &transient, &list);
    if (status == GCOLL_OK) {
        status = call(self, list, deadline_ns, &transient, &identity);
        freeaddrinfo(list);
    }
    if (status != GCOLL_OK) {
        return gcoll_error(status == GCOLL_ERR_NO_MEMORY ? status : GCOLL_ERR_IO,
                           "the store's server at %.300s is gone: %s", self->place.name, gcoll_last_error());
    }
    if (identity != self->identity) {
        disconnect(self);
        return gcoll_error(GCOLL_ERR_IO,
                           "the store's server at %.300s is gone: another one has taken its place",
                           self->place.name);
    }
    f->lost = false;
    return GCOLL_OK;
}

/* Returns whether the server has closed an idle connection. Then even an add can be sent safely on a new
 * one. */
static bool is_closed(const tcp_store *self) {
    char byte;
    ssize_t got = recv(self->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/* ---- Requests --------------------------------------------------------------------------------------- */

static int64_t request_ms(const tcp_store *self) {
    return self->limit_ms >= 0 ? self->limit_ms : self->timeout_ms;
}

static void put_request(tcp_store *self, const request *r) {
    const gcoll_store_frame frame = {.version = GCOLL_STORE_VERSION,
                                     .kind = (uint8_t)r->kind,
                                     .key_bytes = (uint16_t)strlen(r->key),
                                     .value_bytes = (uint32_t)r->value_bytes,
                                     .id = ++self->id,
                                     .number = r->number};
    uint8_t *at = self->out + GCOLL_STORE_HEAD_BYTES;

    gcoll_store_frame_put(self->out, &frame);
    memcpy(at, r->key, frame.key_bytes);
    if (r->value_bytes > 0)
        memcpy(at + frame.key_bytes, r->value, r->value_bytes);
    self->out_bytes = GCOLL_STORE_HEAD_BYTES + (size_t)frame.key_bytes + r->value_bytes;
    self->out_sent = 0;
}

/* Sends the request on the existing connection and receives its answer. */
static gcoll_status exchange(tcp_store *self, const request *r, int64_t deadline_ns, reply *answer,
                             fault *f) {
    gcoll_store_frame frame;
    gcoll_status status = send_rest(self, deadline_ns, f); /* the rest of a late request */

    if (status != GCOLL_OK)
        return status;
    put_request(self, r);
    status = send_rest(self, deadline_ns, f);
    if (status != GCOLL_OK) {
        /* Unless the connection is lost, the rest is sent before the next request. */
        f->unknown = self->out_sent > 0;
        if (self->out_sent == 0)
            self->out_bytes = 0;
        return status;
    }
    f->unknown = true;
    do {
        status = receive_frame(self, deadline_ns, &frame, f);
    } while (status == GCOLL_OK && (int32_t)(self->id - frame.id) > 0);
    if (status != GCOLL_OK)
        return status;
    if (frame.id != self->id || frame.kind == GCOLL_ANSWER_WELCOME)
        return nonsense(self, f);
    answer->kind = (gcoll_store_kind)frame.kind;
    answer->number = frame.number;
    answer->value = self->in + GCOLL_STORE_HEAD_BYTES;
    answer->value_bytes = frame.value_bytes;
    f->unknown = false;
    return GCOLL_OK;
}

/* Sends the request and receives its answer, of any kind. Connects again once if the connection is lost.
 * *was_lost says whether the failure is a lost connection. */
static gcoll_status ask(tcp_store *self, const request *r, int64_t deadline_ns, reply *answer,
                        bool *was_lost) {
    const int64_t renewed_by = gcoll_store_deadline(request_ms(self));
    fault f = {false, false};
    gcoll_status status;

    *was_lost = false;
    if (self->forks != gcoll_forks) {
        return gcoll_error(
            GCOLL_ERR_STATE,
            "tcp store %.300s (%s \"%s\"): it was opened before this process was forked; a child must "
            "open a store of its own",
            self->place.name, r->verb, r->key);
    }
    if (self->fd >= 0 && is_closed(self))
        disconnect(self);
    for (int tries = 0;; tries++) {
        f.lost = f.unknown = false;
        status = self->fd >= 0 ? GCOLL_OK
                               : call_again(self, deadline_ns < renewed_by ? deadline_ns : renewed_by, &f);
        if (status == GCOLL_OK)
            status = exchange(self, r, deadline_ns, answer, &f);
        if (status == GCOLL_OK)
            return GCOLL_OK;
        if (!f.lost || status == GCOLL_ERR_PROTOCOL || tries > 0 || self->server ||
            (f.unknown && !r->repeatable))
            break;
    }
    *was_lost = f.lost;
    return gcoll_error(status, "%s (%s \"%s\"%s)", gcoll_last_error(), r->verb, r->key,
                       f.unknown && !r->repeatable ? "; its outcome is unknown" : "");
}

/* Sends the request and receives its answer, within the time of a request. Turns every answer but
 * GCOLL_ANSWER_OK into an error. */
static gcoll_status perform(tcp_store *self, const request *r, reply *answer) {
    bool was_lost;
    gcoll_status status = ask(self, r, gcoll_store_deadline(request_ms(self)), answer, &was_lost);
    const char *name = self->place.name;

    if (status != GCOLL_OK)
        return status;
    switch (answer->kind) {
    case GCOLL_ANSWER_OK:
        return GCOLL_OK;
    case GCOLL_ANSWER_NOT_FOUND:
        return gcoll_error(GCOLL_ERR_NOT_FOUND, "tcp store %.300s, %s \"%s\": no such key", name, r->verb,
                           r->key);
    case GCOLL_ANSWER_EXISTS:
        return gcoll_error(GCOLL_ERR_STATE, "tcp store %.300s, %s \"%s\": the key exists already", name,
                           r->verb, r->key);
    case GCOLL_ANSWER_NO_NUMBER:
        return gcoll_error(GCOLL_ERR_INVALID,
                           "tcp store %.300s, %s \"%s\": the value is not a decimal number of 64 bits", name,
                           r->verb, r->key);
    case GCOLL_ANSWER_OVERFLOW:
        return gcoll_error(GCOLL_ERR_INVALID,
                           "tcp store %.300s, %s \"%s\": %" PRId64 " plus %" PRId64 " does not fit 64 bits",
                           name, r->verb, r->key, (int64_t)answer->number, (int64_t)r->number);
    case GCOLL_ANSWER_KEYS_FULL:
        return gcoll_error(GCOLL_ERR_NO_MEMORY,
                           "tcp store %.300s, %s \"%s\": the server is full: it holds %" PRIu64
                           " keys, the most that it may",
                           name, r->verb, r->key, answer->number);
    case GCOLL_ANSWER_FULL:
        return gcoll_error(GCOLL_ERR_NO_MEMORY,
                           "tcp store %.300s, %s \"%s\": the server is full: it may hold %" PRIu64
                           " bytes in all",
                           name, r->verb, r->key, answer->number);
    case GCOLL_ANSWER_NO_MEMORY:
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "tcp store %.300s, %s \"%s\": the server has no memory", name,
                           r->verb, r->key);
    default:
        return gcoll_error(GCOLL_ERR_PROTOCOL, "tcp store %.300s, %s \"%s\": the answer has a wrong kind",
                           name, r->verb, r->key);
    }
}

static gcoll_status tcp_set(void *handle, const char *key, const void *value, size_t bytes) {
    const request r = {.verb = "set",
                       .key = key,
                       .kind = GCOLL_REQUEST_SET,
                       .repeatable = true,
                       .value = value,
                       .value_bytes = bytes};
    reply answer;

    return perform(handle, &r, &answer);
}

/* Not repeatable: a second request would find the value of the first. */
static gcoll_status tcp_set_new(void *handle, const char *key, const void *value, size_t bytes) {
    const request r = {
        .verb = "set_new", .key = key, .kind = GCOLL_REQUEST_SET_NEW, .value = value, .value_bytes = bytes};
    reply answer;

    return perform(handle, &r, &answer);
}

static gcoll_status tcp_get(void *handle, const char *key, void *value, size_t capacity, size_t *bytes) {
    tcp_store *self = handle;
    const request r = {.verb = "get", .key = key, .kind = GCOLL_REQUEST_GET, .repeatable = true};
    reply answer;
    gcoll_status status = perform(self, &r, &answer);

    if (status != GCOLL_OK)
        return status;
    if (answer.value_bytes > capacity) {
        return gcoll_error(GCOLL_ERR_INVALID,
                           "tcp store %.300s, get \"%s\": the value has %zu bytes; there is room for %zu",
                           self->place.name, key, answer.value_bytes, capacity);
    }
    memcpy(value, answer.value, answer.value_bytes);
    *bytes = answer.value_bytes;
    return GCOLL_OK;
}

static gcoll_status tcp_add(void *handle, const char *key, int64_t delta, int64_t *value) {
    const request r = {.verb = "add", .key = key, .kind = GCOLL_REQUEST_ADD, .number = (uint64_t)delta};
    reply answer;
    gcoll_status status = perform(handle, &r, &answer);

    if (status == GCOLL_OK)
        *value = (int64_t)answer.number;
    return status;
}

static gcoll_status tcp_remove(void *handle, const char *key) {
    const request r = {.verb = "remove", .key = key, .kind = GCOLL_REQUEST_REMOVE, .repeatable = true};
    reply answer;

    return perform(handle, &r, &answer);
}

static gcoll_status tcp_keep(void *handle, const char *key, int64_t ttl_ms) {
    const request r = {.verb = "keep",
                       .key = key,
                       .kind = GCOLL_REQUEST_KEEP,
                       .repeatable = true,
                       .number = (uint64_t)ttl_ms};
    reply answer;

    return perform(handle, &r, &answer);
}

static gcoll_status tcp_wait(void *handle, const char *key, int64_t timeout_ms) {
    tcp_store *self = handle;
    const int64_t wanted_by = gcoll_store_deadline(timeout_ms);
    request r = {.verb = "wait", .key = key, .kind = GCOLL_REQUEST_WAIT, .repeatable = true};
    reply answer;
    gcoll_status status;
    bool was_lost;

    if (timeout_ms > 0) {
        status = ask(self, &r, wanted_by, &answer, &was_lost);
        if (status != GCOLL_ERR_TIMEOUT || was_lost)
            return status;
    }
    r.kind = GCOLL_REQUEST_LOOK;
    status = perform(self, &r, &answer);
    return status != GCOLL_ERR_NOT_FOUND
               ? status
               : gcoll_error(GCOLL_ERR_TIMEOUT,
                             "tcp store %.300s, wait \"%s\": not set within %" PRId64 " ms", self->place.name,
                             key, timeout_ms);
}

static gcoll_status tcp_set_timeout(void *handle, int64_t timeout_ms) {
    tcp_store *self = handle;

    self->limit_ms = timeout_ms < MS_MAX ? timeout_ms : MS_MAX;
    return GCOLL_OK;
}

/* ---- Life ------------------------------------------------------------------------------------------- */

/* In a forked child the server's memory is left as it is. Its thread runs only in the parent, and may have
 * been changing anything at the fork. */
static void tcp_destroy(void *handle) {
    tcp_store *self = handle;

    disconnect(self);
    if (self->server && self->forks == gcoll_forks)
        gcoll_store_server_join(self->server);
    free(self->host);
    free(self->name);
    free(self);
}

static const gcoll_store_ops tcp_ops = {
    .struct_size = sizeof(gcoll_store_ops),
    .name = "tcp",
    .set = tcp_set,
    .get = tcp_get,
    .wait = tcp_wait,
    .add = tcp_add,
    .remove = tcp_remove,
    .destroy = tcp_destroy,
    .set_new = tcp_set_new,
    .set_timeout = tcp_set_timeout,
    .keep = tcp_keep,
};

/* Tries once to serve, or to connect to the process that serves. */
static gcoll_status enter(tcp_store *self, gcoll_store_serve serve, int64_t deadline_ns, bool *transient) {
    struct addrinfo *list = NULL;
    gcoll_status status = gcoll_store_resolve(&self->place, deadline_ns, transient, &list);
    bool calls = serve != GCOLL_SERVE_YES;

    if (status != GCOLL_OK)
        return status;
    if (serve != GCOLL_SERVE_NO) {
        status = gcoll_store_server_start(&self->place, list, serve == GCOLL_SERVE_YES, &self->descriptor,
                                          &self->server);
        if (status == GCOLL_OK)
            self->fd = self->descriptor.fd;
        calls = calls && (status == GCOLL_ERR_NOT_FOUND || status == GCOLL_ERR_STATE);
        if (serve == GCOLL_SERVE_YES && status == GCOLL_ERR_STATE)
            status = GCOLL_ERR_IO; /* the error text stays as it is */
    }
    if (calls)
        status = call(self, list, deadline_ns, transient, &self->identity);
    freeaddrinfo(list);
    return status;
}

/* A store that is not connected. Takes over host and name, also on failure. */
static gcoll_status make(char *host, char *name, uint16_t port, int64_t timeout_ms, tcp_store **made) {
    tcp_store *self = calloc(1, sizeof *self);
    gcoll_status status = gcoll_fork_watch();

    if (!self || !host || !name || status != GCOLL_OK) {
        free(host);
        free(name);
        free(self);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_open: no memory");
    }
    self->host = host;
    self->name = name;
    self->place = (gcoll_store_place){.kind = "tcp", .host = host, .name = name, .port = port};
    self->fd = -1;
    self->forks = gcoll_forks;
    self->timeout_ms = timeout_ms < MS_MAX ? timeout_ms : MS_MAX;
    self->limit_ms = -1;
    *made = self;
    return GCOLL_OK;
}

/* Gives out the store if `status` is OK, else releases it. */
static gcoll_status finish(tcp_store *self, gcoll_status status, gcoll_store **store) {
    if (status == GCOLL_OK)
        status = gcoll_store_create(&tcp_ops, self, store);
    if (status != GCOLL_OK)
        tcp_destroy(self);
    return status;
}

gcoll_status gcoll_store_tcp_create(char *host, char *name, uint16_t port, gcoll_store_serve serve,
                                    int64_t timeout_ms, gcoll_store **store) {
    tcp_store *self;
    int64_t delay = FIRST_DELAY_NS, deadline;
    gcoll_status status = make(host, name, port, timeout_ms, &self);
    bool transient = false;

    if (status != GCOLL_OK)
        return status;
    deadline = gcoll_store_deadline(self->timeout_ms);
    do {
        transient = false;
        status = enter(self, serve, deadline, &transient);
        transient = transient && status != GCOLL_ERR_NO_MEMORY;
    } while (status != GCOLL_OK && transient && gcoll_store_pause(deadline, &delay, MAX_DELAY_NS));
    if (status != GCOLL_OK && transient) {
        status =
            gcoll_error(GCOLL_ERR_TIMEOUT, "gcoll_store_open: no server was there within %" PRId64 " ms: %s",
                        timeout_ms, gcoll_last_error());
    } else if (status != GCOLL_OK) {
        gcoll_error(status, "gcoll_store_open: %s", gcoll_last_error());
    }
    return finish(self, status, store);
}

gcoll_status gcoll_store_tcp_serve(int64_t timeout_ms, uint16_t *port, uint64_t *identity,
                                   gcoll_store **store) {
    tcp_store *self;
    gcoll_status status = make(strdup(""), strdup("of this process"), 0, timeout_ms, &self);

    if (status != GCOLL_OK)
        return status;
    status = gcoll_store_server_start(&self->place, NULL, true, &self->descriptor, &self->server);
    if (status == GCOLL_OK) {
        self->fd = self->descriptor.fd;
        gcoll_store_server_tell(self->server, port, identity);
    }
    return finish(self, status, store);
}

/* One try at one address. *transient: a later try may work. The server listens before it is told of, so an
 * address that refuses will not do better later. */
static gcoll_status try_host(tcp_store *self, const char *host, uint64_t identity, int64_t deadline_ns,
                             bool *transient) {
    const size_t name_bytes = strlen(host) + sizeof "[]:65535";
    char *copy = strdup(host), *name = malloc(name_bytes);
    struct addrinfo *list = NULL;

    *transient = false;
    if (!copy || !name) {
        free(copy);
        free(name);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_open: no memory");
    }
    free(self->host);
    free(self->name);
    snprintf(name, name_bytes, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, (unsigned)self->place.port);
    self->place.host = self->host = copy;
    self->place.name = self->name = name;
    gcoll_status status = gcoll_store_resolve(&self->place, deadline_ns, transient, &list);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_store_connect(&self->place, list, deadline_ns, transient, &self->descriptor, &self->fd);
    freeaddrinfo(list);
    *transient = status == GCOLL_ERR_TIMEOUT;
    if (status == GCOLL_OK)
        status = welcome(self, deadline_ns, transient, &self->identity);
    if (status == GCOLL_OK && self->identity != identity) {
        disconnect(self);
        status = gcoll_error(GCOLL_ERR_PROTOCOL, "tcp store %.300s: the server of another job answers there",
                             self->place.name);
    }
    return status;
}

/* An address that leads nowhere may stand before one that is right, so the first round is short. A try that
 * the deadline has cut says less than the one before it. */
gcoll_status gcoll_store_tcp_find(char *const *hosts, size_t count, uint16_t port, uint64_t identity,
                                  int64_t timeout_ms, int64_t deadline_ns, gcoll_store **store) {
    int64_t delay = FIRST_DELAY_NS, share_ms = FIRST_SHARE_MS;
    char text[ERROR_MAX] = "";
    bool transient, again;
    tcp_store *self;
    gcoll_status status = make(strdup(hosts[0]), strdup(hosts[0]), port, timeout_ms, &self), kept = GCOLL_OK;

    if (status != GCOLL_OK)
        return status;
    do {
        again = false;
        for (size_t i = 0; i == 0 || (i < count && status != GCOLL_OK); i++) {
            const int64_t share = gcoll_store_deadline(share_ms);

            status =
                try_host(self, hosts[i], identity, share < deadline_ns ? share : deadline_ns, &transient);
            again = again || transient;
            if (status != GCOLL_OK && (kept == GCOLL_OK || gcoll_store_left_ns(deadline_ns) > 0)) {
                kept = status;
                snprintf(text, sizeof text, "%s", gcoll_last_error());
            }
        }
        share_ms = share_ms < MS_MAX ? share_ms * 2 : share_ms;
    } while (status != GCOLL_OK && again && gcoll_store_pause(deadline_ns, &delay, MAX_DELAY_NS));
    if (status != GCOLL_OK)
        status = gcoll_error(kept, "%s", text);
    return finish(self, status, store);
}
