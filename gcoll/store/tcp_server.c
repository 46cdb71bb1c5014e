/*
 * gcoll/store/tcp_server.c - the server of a tcp store: a thread with an event loop, which holds the keys and
 * values in memory.
 *
 * The process that serves is also a client, the owner. Its connection is a pair of sockets. When the owner
 * closes it, the server stops listening at once. It still serves the other clients until the last of them has
 * disconnected, but for GCOLL_STORE_LINGER_MS at most.
 *
 * A wait costs nothing until its key is set. The server enters the client in a list, and the request that
 * sets the key answers it. The server does not limit the time of waits, because clients do.
 *
 * Anybody can connect to the port. A client that has not sent the greeting is a stranger. A stranger must
 * send it within GREETING_MS, and may send nothing else. If there are too many strangers, the oldest is
 * dropped.
 *
 * A client that has begun a frame must complete it within UNFINISHED_MS. It must also take its answer within
 * that time. The server reads no further requests of a client that has not taken its answer. So a client
 * holds at most one frame of memory in each direction.
 *
 * The server owns the sockets, and libuv only watches them. transport/session/listen.c gives the reason.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#include "gcoll/base/base.h"
#include "gcoll/store/table.h"
#include "gcoll/store/tcp.h"

#define LISTENERS_MAX 16 /* addresses of one host name; few hosts have more */
#define CLIENTS_MAX   65536
#define STRANGERS_MAX 1024
#define GREETING_MS   5000
#define UNFINISHED_MS 30000
#define SWEEP_MS      1000
#define EXPIRY_MS     30000 /* interval of freeing expired keys, which no request finds any more */
#define ACCEPTS_MAX   64    /* connections accepted before clients have their turn */
#define PAUSE_MS      100   /* pause before accepting again, after descriptors or memory ran out */
#define WAIT_LISTS    256   /* a power of two */

typedef enum client_kind { STRANGER, PEER, OWNER } client_kind;

typedef struct client {
    gcoll_store_server *server;
    struct client *next, **link; /* in the list of all clients, oldest first */
    uv_poll_t poll;
    gcoll_descriptor descriptor;
    client_kind kind;
    int events;        /* events that `poll` watches */
    bool dropped;      /* closed; only its memory is left */
    int64_t until_ms;  /* deadline of the greeting or an unfinished frame; 0: none */
    uint8_t *in, *out; /* received part of a frame; answer that is not sent completely; or NULL */
    size_t in_used, in_capacity, out_bytes, out_sent;
    bool waits;
    uint32_t wait_id;
    uint64_t wait_hash;
    uint16_t wait_key_bytes;
    struct client *next_waiting, **wait_link;
    uint8_t wait_key[GCOLL_STORE_KEY_MAX];
} client;

typedef struct listener {
    uv_poll_t poll;
    gcoll_descriptor descriptor;
} listener;

struct gcoll_store_server {
    uv_loop_t loop;
    gcoll_descriptor loop_descriptor;
    uv_timer_t pause, sweeper, expiry, linger;
    listener listeners[LISTENERS_MAX];
    unsigned listener_count;
    client *clients, **clients_end;
    unsigned client_count, strangers, peers;
    client *waiting[WAIT_LISTS];
    gcoll_store_table table;
    uint64_t identity;
    bool ending;   /* the owner is gone */
    bool finished; /* all handles are closed or closing */
    pthread_t thread;
    uint8_t scratch[GCOLL_STORE_FRAME_BYTES];
};

static void begin_to_end(gcoll_store_server *server);
static void finish(gcoll_store_server *server);
static void on_client(uv_poll_t *poll, int status, int events);

/* ---- Clients -------------------------------------------------------------------------------------- */

/* Removes a client from the list of those that wait for a key. */
static void end_wait(client *c) {
    if (!c->waits)
        return;
    *c->wait_link = c->next_waiting;
    if (c->next_waiting)
        c->next_waiting->wait_link = c->wait_link;
    c->waits = false;
}

static void on_closed(uv_handle_t *poll) {
    client *c = poll->data;

    free(c->in);
    free(c->out);
    free(c);
}

static void unlink_client(client *c) {
    *c->link = c->next; /* c->next stays valid, for loops over the list */
    if (c->next)
        c->next->link = c->link;
    else
        c->server->clients_end = c->link;
    c->server->client_count--;
}

static void close_entered(gcoll_descriptor *descriptor) {
    gcoll_fork_hold();
    gcoll_descriptor_leave(descriptor);
    close(descriptor->fd); /* libuv allows this once the poll is closing */
    gcoll_fork_release();
}

/* Closes a client's connection. on_closed frees the client in a later turn of the loop. The server ends with
 * its owner or, if the owner is gone already, with its last peer. */
static void drop(client *c) {
    gcoll_store_server *server = c->server;

    if (c->dropped)
        return;
    c->dropped = true;
    end_wait(c);
    unlink_client(c);
    server->strangers -= c->kind == STRANGER;
    server->peers -= c->kind == PEER;
    uv_close((uv_handle_t *)&c->poll, on_closed);
    close_entered(&c->descriptor);
    if (c->kind == OWNER)
        begin_to_end(server);
    else if (server->ending && server->peers == 0)
        finish(server);
}

/* Watches for the event that the client needs next: room for the rest of an answer, else a request. */
static void watch(client *c) {
    int events = c->out ? UV_WRITABLE : UV_READABLE;

    if (!c->dropped && events != c->events) {
        c->events = events;
        if (uv_poll_start(&c->poll, events, on_client) != 0)
            drop(c);
    }
}

static void on_sweep(uv_timer_t *sweeper);

static void start_sweeper(gcoll_store_server *server) {
    if (!server->finished && !uv_is_active((uv_handle_t *)&server->sweeper)) {
        uv_update_time(&server->loop);
        uv_timer_start(&server->sweeper, on_sweep, SWEEP_MS, SWEEP_MS);
    }
}

/* Sets a deadline for a frame that the client has begun to send or to receive. */
static void limit_time(client *c) {
    if (c->dropped || c->kind != PEER)
        return;
    if (!c->in && !c->out) {
        c->until_ms = 0;
    } else if (c->until_ms == 0) {
        c->until_ms = gcoll_now_ms() + UNFINISHED_MS;
        start_sweeper(c->server);
    }
}

/* ---- Answers ---------------------------------------------------------------------------------------- */

/* Keeps an answer that the socket has not taken completely. */
static void keep_rest(client *c, const struct iovec parts[2], size_t sent) {
    const size_t bytes = parts[0].iov_len + parts[1].iov_len;
    uint8_t *whole = malloc(bytes);

    if (!whole) {
        drop(c);
        return;
    }
    memcpy(whole, parts[0].iov_base, parts[0].iov_len);
    if (parts[1].iov_len > 0)
        memcpy(whole + parts[0].iov_len, parts[1].iov_base, parts[1].iov_len);
    c->out = whole;
    c->out_bytes = bytes;
    c->out_sent = sent;
}

static bool would_block(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* Sends an answer, as far as the socket takes it now. */
static void answer(client *c, gcoll_store_kind kind, uint32_t id, uint64_t number, const void *value,
                   size_t value_bytes) {
    const gcoll_store_frame frame = {.version = GCOLL_STORE_VERSION,
                                     .kind = (uint8_t)kind,
                                     .value_bytes = (uint32_t)value_bytes,
                                     .id = id,
                                     .number = number};
    uint8_t head[GCOLL_STORE_HEAD_BYTES];
    struct iovec parts[2] = {{.iov_base = head, .iov_len = sizeof head},
                             {.iov_base = (void *)(uintptr_t)value, .iov_len = value_bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = value_bytes > 0 ? 2 : 1};
    ssize_t sent;

    if (c->dropped)
        return;
    gcoll_store_frame_put(head, &frame);
    sent = sendmsg(c->descriptor.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !would_block(errno)) {
        drop(c);
    } else if (sent < (ssize_t)(sizeof head + value_bytes)) {
        keep_rest(c, parts, sent < 0 ? 0 : (size_t)sent);
        watch(c);
        limit_time(c);
    }
}

/* Answers all clients that wait for the key. */
static void wake(gcoll_store_server *server, const uint8_t *key, size_t key_bytes) {
    const uint64_t hash = gcoll_store_hash(key, key_bytes);
    client *woken = NULL;

    for (client *c = server->waiting[hash & (WAIT_LISTS - 1)], *next; c; c = next) {
        next = c->next_waiting;
        if (c->wait_hash == hash && c->wait_key_bytes == key_bytes &&
            memcmp(c->wait_key, key, key_bytes) == 0) {
            end_wait(c);
            c->next_waiting = woken;
            woken = c;
        }
    }
    while (woken) { /* an answer may drop a client, whose memory stays until the loop's next turn */
        client *c = woken;

        woken = c->next_waiting;
        answer(c, GCOLL_ANSWER_OK, c->wait_id, 0, NULL, 0);
    }
}

/* ---- Requests --------------------------------------------------------------------------------------- */

typedef struct request {
    client *from;
    gcoll_store_frame frame;
    const uint8_t *key, *value;
    int64_t now_ns;
} request;

static void answer_plain(const request *r, gcoll_store_kind kind, uint64_t number) {
    answer(r->from, kind, r->frame.id, number, NULL, 0);
}

static gcoll_store_entry *find(const request *r) {
    return gcoll_store_table_find(&r->from->server->table, r->key, r->frame.key_bytes, r->now_ns);
}

/* Puts the value. Answers the request with `number`, and all clients that wait for the key. */
static void put(const request *r, const void *value, size_t value_bytes, uint64_t number) {
    gcoll_store_server *server = r->from->server;

    switch (
        gcoll_store_table_put(&server->table, r->key, r->frame.key_bytes, value, value_bytes, r->now_ns)) {
    case GCOLL_TABLE_OK:
        answer_plain(r, GCOLL_ANSWER_OK, number);
        wake(server, r->key, r->frame.key_bytes);
        break;
    case GCOLL_TABLE_KEYS_FULL:
        answer_plain(r, GCOLL_ANSWER_KEYS_FULL, server->table.keys_max);
        break;
    case GCOLL_TABLE_BYTES_FULL:
        answer_plain(r, GCOLL_ANSWER_FULL, server->table.bytes_max);
        break;
    case GCOLL_TABLE_NO_MEMORY:
        answer_plain(r, GCOLL_ANSWER_NO_MEMORY, 0);
        break;
    }
}

static void set_new(const request *r) {
    if (find(r))
        answer_plain(r, GCOLL_ANSWER_EXISTS, 0);
    else
        put(r, r->value, r->frame.value_bytes, 0);
}

static void get(const request *r) {
    const gcoll_store_entry *entry = find(r);

    if (!entry)
        answer_plain(r, GCOLL_ANSWER_NOT_FOUND, 0);
    else
        answer(r->from, GCOLL_ANSWER_OK, r->frame.id, 0, gcoll_store_entry_value(entry), entry->value_bytes);
}

/* Answers at once if the key exists. Else enters the client in the list of those that wait for it. */
static void await(const request *r) {
    client *c = r->from, **list;

    if (find(r)) {
        answer_plain(r, GCOLL_ANSWER_OK, 0);
        return;
    }
    c->wait_id = r->frame.id;
    c->wait_key_bytes = r->frame.key_bytes;
    memcpy(c->wait_key, r->key, r->frame.key_bytes);
    c->wait_hash = gcoll_store_hash(r->key, r->frame.key_bytes);
    list = &c->server->waiting[c->wait_hash & (WAIT_LISTS - 1)];
    c->next_waiting = *list;
    c->wait_link = list;
    if (*list)
        (*list)->wait_link = &c->next_waiting;
    *list = c;
    c->waits = true;
}

static void add(const request *r) {
    const gcoll_store_entry *entry = find(r);
    char text[GCOLL_STORE_COUNTER_TEXT];
    int64_t old = 0, sum;
    int length;

    if (entry && gcoll_store_counter_add("tcp store", gcoll_store_entry_value(entry), entry->value_bytes, 0,
                                         &old) != GCOLL_OK) {
        answer_plain(r, GCOLL_ANSWER_NO_NUMBER, 0);
        return;
    }
    if (__builtin_add_overflow(old, (int64_t)r->frame.number, &sum)) {
        answer_plain(r, GCOLL_ANSWER_OVERFLOW, (uint64_t)old);
        return;
    }
    length = snprintf(text, sizeof text, "%" PRId64, sum);
    put(r, text, (size_t)length, (uint64_t)sum);
}

static void keep(const request *r) {
    gcoll_store_entry *entry = find(r);

    if (!entry) {
        answer_plain(r, GCOLL_ANSWER_NOT_FOUND, 0);
        return;
    }
    gcoll_store_entry_keep(entry, (int64_t)r->frame.number, r->now_ns);
    answer_plain(r, GCOLL_ANSWER_OK, 0);
}

/* Executes a request. */
static void serve(const request *r) {
    end_wait(r->from);
    switch ((gcoll_store_kind)r->frame.kind) {
    case GCOLL_REQUEST_SET:
        put(r, r->value, r->frame.value_bytes, 0);
        break;
    case GCOLL_REQUEST_SET_NEW:
        set_new(r);
        break;
    case GCOLL_REQUEST_GET:
        get(r);
        break;
    case GCOLL_REQUEST_LOOK:
        answer_plain(r, find(r) ? GCOLL_ANSWER_OK : GCOLL_ANSWER_NOT_FOUND, 0);
        break;
    case GCOLL_REQUEST_WAIT:
        await(r);
        break;
    case GCOLL_REQUEST_ADD:
        add(r);
        break;
    case GCOLL_REQUEST_REMOVE:
        gcoll_store_table_remove(&r->from->server->table, r->key, r->frame.key_bytes);
        answer_plain(r, GCOLL_ANSWER_OK, 0);
        break;
    case GCOLL_REQUEST_KEEP:
        keep(r);
        break;
    default: /* cannot happen: is_request has checked the kind */
        drop(r->from);
    }
}

/* Returns whether a frame is a request, with a key, a value and a number that such a request may have. */
static bool is_request(const gcoll_store_frame *frame) {
    const bool has_value = frame->kind == GCOLL_REQUEST_SET || frame->kind == GCOLL_REQUEST_SET_NEW;

    return frame->version == GCOLL_STORE_VERSION && frame->kind >= GCOLL_REQUEST_SET &&
           frame->kind <= GCOLL_REQUEST_LAST && frame->key_bytes >= 1 &&
           frame->key_bytes <= GCOLL_STORE_KEY_MAX &&
           frame->value_bytes <= (has_value ? GCOLL_STORE_VALUE_MAX : 0) &&
           (frame->kind != GCOLL_REQUEST_KEEP || (frame->number >= 1 && frame->number <= INT64_MAX));
}

/* Returns the length of the frame at `data`, or that of a head if the head is not complete. Drops a client
 * whose frame is not a request. */
static size_t frame_bytes(client *c, const uint8_t *data, size_t used, gcoll_store_frame *frame) {
    if (used < GCOLL_STORE_HEAD_BYTES)
        return GCOLL_STORE_HEAD_BYTES;
    if (!gcoll_store_frame_get(data, frame) || !is_request(frame))
        drop(c);
    return GCOLL_STORE_HEAD_BYTES + (size_t)frame->key_bytes + frame->value_bytes;
}

/* Serves the frame at `data`. Returns its length, or 0 if it is not complete. */
static size_t take_frame(client *c, const uint8_t *data, size_t used) {
    request r = {.from = c, .now_ns = gcoll_now_ns()};
    size_t bytes = frame_bytes(c, data, used, &r.frame);

    if (c->dropped || used < bytes)
        return 0;
    r.key = data + GCOLL_STORE_HEAD_BYTES;
    r.value = r.key + r.frame.key_bytes;
    c->until_ms = 0;
    serve(&r);
    return bytes;
}

/* Takes the greeting of a stranger. Returns its length, or 0 if it is not complete. */
static size_t take_greeting(client *c, const uint8_t *data, size_t used) {
    static const char hello[] = GCOLL_STORE_HELLO;
    const size_t start = strlen(GCOLL_STORE_HELLO_START);

    if (memcmp(data, hello, used < start ? used : start) != 0) {
        drop(c);
        return 0;
    }
    if (used < GCOLL_STORE_HELLO_BYTES)
        return 0;
    if (memcmp(data, hello, GCOLL_STORE_HELLO_BYTES) == 0) {
        c->kind = PEER;
        c->until_ms = 0;
        c->server->strangers--;
        c->server->peers++;
        answer(c, GCOLL_ANSWER_WELCOME, 0, c->server->identity, NULL, 0);
    } else { /* another version: the answer tells the client ours */
        answer(c, GCOLL_ANSWER_WELCOME, 0, 0, NULL, 0);
        drop(c);
    }
    return GCOLL_STORE_HELLO_BYTES;
}

/* Keeps the received part of a frame in c->in, with room for the rest of the frame. */
static void stash(client *c, const uint8_t *data, size_t used) {
    uint8_t *kept = NULL;
    size_t capacity = GCOLL_STORE_HELLO_BYTES;
    gcoll_store_frame frame;

    if (used > 0 && c->kind != STRANGER)
        capacity = frame_bytes(c, data, used, &frame);
    if (c->dropped)
        return;
    capacity = capacity > used ? capacity : used;
    if (used > 0) {
        kept = malloc(capacity);
        if (!kept) {
            drop(c);
            return;
        }
        memcpy(kept, data, used);
    }
    free(c->in);
    c->in = kept;
    c->in_used = used;
    c->in_capacity = capacity;
}

/* Serves the complete frames in the received bytes, and keeps the rest. `data` is the server's scratch or
 * c->in. */
static void consume(client *c, const uint8_t *data, size_t used) {
    size_t at = 0, taken = 1;

    while (!c->dropped && !c->out && at < used && taken > 0) {
        taken = c->kind == STRANGER ? take_greeting(c, data + at, used - at)
                                    : take_frame(c, data + at, used - at);
        at += taken;
    }
    if (c->dropped)
        return;
    if (data != c->in || at > 0 || c->in_used == c->in_capacity)
        stash(c, data + at, used - at);
    limit_time(c);
}

/* Receives once, and serves the frames that are complete. */
static void read_some(client *c) {
    const bool has_part = c->in;
    uint8_t *to = has_part ? c->in + c->in_used : c->server->scratch;
    const size_t room = has_part ? c->in_capacity - c->in_used : sizeof c->server->scratch;
    ssize_t got = recv(c->descriptor.fd, to, room, MSG_DONTWAIT);

    if (got <= 0) {
        if (got == 0 || !would_block(errno))
            drop(c);
    } else if (has_part) {
        c->in_used += (size_t)got;
        consume(c, c->in, c->in_used);
    } else {
        consume(c, to, (size_t)got);
    }
}

/* Sends the rest of an answer. When all is sent, serves the requests that came meanwhile. */
static void flush(client *c) {
    ssize_t sent =
        send(c->descriptor.fd, c->out + c->out_sent, c->out_bytes - c->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent < 0) {
        if (!would_block(errno))
            drop(c);
        return;
    }
    c->out_sent += (size_t)sent;
    if (c->out_sent < c->out_bytes)
        return;
    free(c->out);
    c->out = NULL;
    c->until_ms = 0;
    if (c->in)
        consume(c, c->in, c->in_used);
    limit_time(c);
    watch(c);
}

static void on_client(uv_poll_t *poll, int status, int events) {
    client *c = poll->data;

    if (status < 0)
        drop(c);
    else if (c->out)
        flush(c);
    else if ((events & UV_READABLE) != 0)
        read_some(c);
}

/* Drops clients whose deadline has passed. The timer stops when no client has a deadline. */
static void on_sweep(uv_timer_t *sweeper) {
    gcoll_store_server *server = sweeper->data;
    const int64_t now = gcoll_now_ms();
    bool is_needed = false;

    for (client *c = server->clients, *next; c; c = next) {
        next = c->next;
        if (!c->dropped && c->until_ms != 0 && c->until_ms <= now && !c->out)
            read_some(c); /* timers run before polls: the rest may have arrived */
        if (!c->dropped && c->until_ms != 0 && c->until_ms <= now)
            drop(c);
        is_needed = is_needed || (!c->dropped && c->until_ms != 0);
    }
    if (!is_needed && !server->finished)
        uv_timer_stop(&server->sweeper);
}

static void on_expiry(uv_timer_t *expiry) {
    gcoll_store_server *server = expiry->data;

    gcoll_store_table_sweep(&server->table, gcoll_now_ns());
}

/* ---- Listening -------------------------------------------------------------------------------------- */

/* Creates a client, which owns fd. The caller has called gcoll_fork_hold. Returns NULL on failure, and closes
 * fd. */
static client *client_new(gcoll_store_server *server, int fd, client_kind kind) {
    client *c = calloc(1, sizeof *c);

    if (!c || uv_poll_init(&server->loop, &c->poll, fd) != 0) {
        free(c);
        close(fd);
        return NULL;
    }
    gcoll_descriptor_enter(&c->descriptor, fd);
    c->poll.data = c;
    c->server = server;
    c->kind = kind;
    c->link = server->clients_end;
    *server->clients_end = c;
    server->clients_end = &c->next;
    server->client_count++;
    server->strangers += kind == STRANGER;
    return c;
}

static void drop_oldest_stranger(gcoll_store_server *server) {
    for (client *c = server->clients; c; c = c->next) {
        if (c->kind == STRANGER) {
            drop(c);
            return;
        }
    }
}

/* Begins to serve a new connection, a stranger. Drops the oldest stranger if there are too many. */
static void welcome(gcoll_store_server *server, client *c) {
    if (server->strangers > STRANGERS_MAX)
        drop_oldest_stranger(server);
    if (server->client_count > CLIENTS_MAX) {
        drop(c);
        return;
    }
    gcoll_store_set_long_lived(c->descriptor.fd);
    c->until_ms = gcoll_now_ms() + GREETING_MS;
    start_sweeper(server);
    read_some(c); /* usually the greeting has arrived already */
    watch(c);
}

/* Accepts one connection. Returns false with errno if there is none, or accepting failed. *made is NULL if
 * there is no memory for the client. */
static bool accept_one(gcoll_store_server *server, int listening, client **made) {
    int fd, error;

    gcoll_fork_hold();
    fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    error = errno;
    if (fd >= 0)
        *made = client_new(server, fd, STRANGER);
    gcoll_fork_release();
    errno = error;
    return fd >= 0;
}

static void on_connections(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *pause) {
    gcoll_store_server *server = pause->data;

    for (unsigned i = 0; i < server->listener_count; i++)
        uv_poll_start(&server->listeners[i].poll, UV_READABLE, on_connections);
}

static void pause_listening(gcoll_store_server *server) {
    for (unsigned i = 0; i < server->listener_count; i++)
        uv_poll_stop(&server->listeners[i].poll);
    uv_update_time(&server->loop);
    uv_timer_start(&server->pause, on_pause_over, PAUSE_MS, 0);
}

/* Accepts connections. After an error, such as a lack of descriptors or memory, it pauses, and connections
 * wait in the kernel. */
static void on_connections(uv_poll_t *poll, int status, int events) {
    gcoll_store_server *server = poll->data;
    const int listening = ((listener *)poll)->descriptor.fd;

    (void)events;
    if (status < 0) {
        pause_listening(server);
        return;
    }
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        client *made = NULL;

        if (accept_one(server, listening, &made)) {
            if (made)
                welcome(server, made);
        } else if (would_block(errno)) {
            return;
        } else if (errno != ECONNABORTED) {
            pause_listening(server);
            return;
        }
    }
}

static void stop_listening(gcoll_store_server *server) {
    for (unsigned i = 0; i < server->listener_count; i++) {
        uv_close((uv_handle_t *)&server->listeners[i].poll, NULL);
        close_entered(&server->listeners[i].descriptor);
    }
    server->listener_count = 0;
    uv_timer_stop(&server->pause);
}

/* Binds the socket and listens. Returns 0 or an errno. Two sockets may be bound to one port while neither
 * listens, but only one of them can listen. */
static int bind_and_listen(int fd, const struct sockaddr *address, socklen_t bytes, bool both_families) {
    const int on = 1, v6_only = !both_families;

    /* Without SO_REUSEADDR a new server could not use the port for a minute. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (address->sa_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only) != 0) ||
        bind(fd, address, bytes) != 0 || listen(fd, SOMAXCONN) != 0)
        return errno;
    return 0;
}

/* Listens at an address. The caller has called gcoll_fork_hold. Returns 0 or an errno. */
static int listen_held(gcoll_store_server *server, const struct sockaddr *address, socklen_t bytes,
                       bool both_families) {
    listener *made = &server->listeners[server->listener_count];
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

    if (fd < 0)
        return errno;
    error = bind_and_listen(fd, address, bytes, both_families);
    if (error == 0)
        error = -uv_poll_init(&server->loop, &made->poll, fd);
    if (error != 0) {
        close(fd);
        return error;
    }
    made->poll.data = server;
    gcoll_descriptor_enter(&made->descriptor, fd);
    server->listener_count++;
    return -uv_poll_start(&made->poll, UV_READABLE, on_connections);
}

static int listen_at(gcoll_store_server *server, const struct sockaddr *address, socklen_t bytes,
                     bool both_families) {
    int error;

    gcoll_fork_hold();
    error = listen_held(server, address, bytes, both_families);
    gcoll_fork_release();
    return error;
}

static bool is_not_here(int error) {
    return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

/* Listens at all addresses of IPv6 and IPv4, or of IPv4 only on a host without IPv6. Returns 0 or an
 * errno. */
static int listen_everywhere(gcoll_store_server *server, uint16_t port) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    int error = listen_at(server, (const struct sockaddr *)&six, sizeof six, true);

    return is_not_here(error) ? listen_at(server, (const struct sockaddr *)&four, sizeof four, false) : error;
}

static int compare_addresses(const struct addrinfo *a, const struct addrinfo *b) {
    if (a->ai_addrlen != b->ai_addrlen)
        return a->ai_addrlen < b->ai_addrlen ? -1 : 1;
    return memcmp(a->ai_addr, b->ai_addr, a->ai_addrlen);
}

/* Listens at those addresses of the list that belong to this host. Returns 0 or an errno, EADDRNOTAVAIL if
 * none does. The addresses are sorted: of several processes that try the same addresses, the one that gets
 * the first address serves. */
static int listen_at_own(gcoll_store_server *server, const struct addrinfo *list) {
    const struct addrinfo *addresses[LISTENERS_MAX];
    size_t count = 0;
    int error = 0;

    for (; list && count < LISTENERS_MAX; list = list->ai_next) {
        size_t at = count++;

        for (; at > 0 && compare_addresses(addresses[at - 1], list) > 0; at--)
            addresses[at] = addresses[at - 1];
        addresses[at] = list;
    }
    for (size_t i = 0; i < count && error == 0; i++) {
        if (i > 0 && compare_addresses(addresses[i - 1], addresses[i]) == 0)
            continue; /* a hosts file may name an address twice */
        error = listen_at(server, addresses[i]->ai_addr, addresses[i]->ai_addrlen, false);
        error = is_not_here(error) ? 0 : error;
    }
    return error == 0 && server->listener_count == 0 ? EADDRNOTAVAIL : error;
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return address->sa_family == AF_INET &&
           ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

/* Returns whether `host` is a name (not a number, nor localhost) that this host resolves to loopback
 * addresses only, as Debian's hosts file does with the host's own name (127.0.1.1). Other hosts know such a
 * name by other addresses. */
static bool is_own_name(const char *host, const struct addrinfo *list) {
    struct in_addr ignored;

    if (strchr(host, ':') || inet_pton(AF_INET, host, &ignored) == 1 || strcasestr(host, "localhost"))
        return false;
    while (list && is_loopback(list->ai_addr))
        list = list->ai_next;
    return !list;
}

static gcoll_status start_listening(gcoll_store_server *server, const gcoll_store_place *place,
                                    const struct addrinfo *list, bool anywhere) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    int error = !list || is_own_name(place->host, list) ? listen_everywhere(server, place->port)
                                                        : listen_at_own(server, list);

    if (error == EADDRNOTAVAIL && anywhere)
        error = listen_everywhere(server, place->port);
    if (error == 0)
        return GCOLL_OK;
    return gcoll_error(error == EADDRNOTAVAIL ? GCOLL_ERR_NOT_FOUND
                       : error == EADDRINUSE  ? GCOLL_ERR_STATE
                                              : gcoll_status_of_errno(error),
                       "%s store %.300s: cannot listen: %s", place->kind, place->name,
                       gcoll_errno_text(error, text));
}

/* ---- Life ------------------------------------------------------------------------------------------- */

/* Closes all handles, so that the loop ends. */
static void finish(gcoll_store_server *server) {
    uv_timer_t *const timers[] = {&server->pause, &server->sweeper, &server->expiry, &server->linger};

    if (server->finished)
        return;
    server->finished = true;
    server->ending = true;
    stop_listening(server);
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++)
        uv_close((uv_handle_t *)timers[i], NULL);
    while (server->clients)
        drop(server->clients);
}

static void on_linger_over(uv_timer_t *linger) {
    finish(linger->data);
}

/* Is called when the owner is gone: stops listening, and ends the server when its peers have left or the time
 * is over. */
static void begin_to_end(gcoll_store_server *server) {
    if (server->ending)
        return;
    server->ending = true;
    stop_listening(server);
    while (server->strangers > 0)
        drop_oldest_stranger(server);
    if (server->peers == 0) {
        finish(server);
    } else if (!server->finished) {
        uv_update_time(&server->loop);
        uv_timer_start(&server->linger, on_linger_over, GCOLL_STORE_LINGER_MS, 0);
    }
}

static void *run(void *arg) {
    gcoll_store_server *server = arg;

    uv_run(&server->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* Frees the server. Its loop has ended. */
static void release(gcoll_store_server *server) {
    gcoll_fork_hold();
    uv_loop_close(&server->loop);
    gcoll_descriptor_leave(&server->loop_descriptor);
    gcoll_fork_release();
    gcoll_store_table_fini(&server->table);
    free(server);
}

/* Creates a server that does not listen yet. Returns NULL with an error text if there is no memory or no
 * descriptor. */
static gcoll_store_server *create(const gcoll_store_place *place) {
    gcoll_store_server *server = calloc(1, sizeof *server);
    char text[GCOLL_ERRNO_TEXT_MAX];
    int error = ENOMEM;

    if (!server)
        goto failed;
    server->clients_end = &server->clients;
    if (!gcoll_store_table_init(&server->table, GCOLL_STORE_SERVER_KEYS_MAX, GCOLL_STORE_SERVER_BYTES_MAX))
        goto free_server;
    gcoll_fork_hold();
    error = -uv_loop_init(&server->loop);
    if (error == 0)
        gcoll_descriptor_enter(&server->loop_descriptor, uv_backend_fd(&server->loop));
    gcoll_fork_release();
    if (error != 0)
        goto free_table;
    uv_timer_init(&server->loop, &server->pause); /* none of these can fail */
    uv_timer_init(&server->loop, &server->sweeper);
    uv_timer_init(&server->loop, &server->expiry);
    uv_timer_init(&server->loop, &server->linger);
    server->pause.data = server->sweeper.data = server->expiry.data = server->linger.data = server;
    uv_timer_start(&server->expiry, on_expiry, EXPIRY_MS, EXPIRY_MS);
    return server;
free_table:
    gcoll_store_table_fini(&server->table);
free_server:
    free(server);
failed:
    gcoll_error(GCOLL_ERR_NO_MEMORY, "%s store %.300s: cannot make a server: %s", place->kind, place->name,
                gcoll_errno_text(error, text));
    return NULL;
}

/* Creates the owner: the pair of sockets between it and the server. */
static gcoll_status make_owner(gcoll_store_server *server, const gcoll_store_place *place,
                               gcoll_descriptor *descriptor) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    client *owner = NULL;
    int pair[2], error = 0;

    gcoll_fork_hold();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        error = errno;
    } else {
        owner = client_new(server, pair[0], OWNER);
        if (!owner) {
            error = ENOMEM;
            close(pair[1]);
        } else {
            gcoll_descriptor_enter(descriptor, pair[1]);
        }
    }
    gcoll_fork_release();
    if (!owner) {
        return gcoll_error(gcoll_status_of_errno(error), "%s store %.300s: cannot make a pair of sockets: %s",
                           place->kind, place->name, gcoll_errno_text(error, text));
    }
    watch(owner);
    return GCOLL_OK;
}

/* Starts the server's thread with all signals blocked, because signals are the application's. */
static gcoll_status start_thread(gcoll_store_server *server, const gcoll_store_place *place) {
    sigset_t all, old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&server->thread, NULL, run, server);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error == 0 ? GCOLL_OK
                      : gcoll_error(GCOLL_ERR_NO_MEMORY, "%s store %.300s: cannot start a thread: %s",
                                    place->kind, place->name, strerror(error));
}

gcoll_status gcoll_store_server_start(const gcoll_store_place *place, const struct addrinfo *list,
                                      bool anywhere, gcoll_descriptor *descriptor,
                                      gcoll_store_server **server) {
    gcoll_store_server *made = create(place);
    gcoll_status status;

    if (!made)
        return GCOLL_ERR_NO_MEMORY;
    status = gcoll_random_bytes(&made->identity, sizeof made->identity);
    if (status == GCOLL_OK)
        status = start_listening(made, place, list, anywhere);
    if (status == GCOLL_OK)
        status = make_owner(made, place, descriptor);
    if (status == GCOLL_OK) {
        status = start_thread(made, place);
        if (status != GCOLL_OK)
            close_entered(descriptor);
    }
    if (status != GCOLL_OK) {
        finish(made);
        uv_run(&made->loop, UV_RUN_DEFAULT); /* calls on_closed, as the thread would have done */
        release(made);
        return status;
    }
    *server = made;
    return GCOLL_OK;
}

void gcoll_store_server_tell(const gcoll_store_server *server, uint16_t *port, uint64_t *identity) {
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t bytes = sizeof address;

    /* It does not fail for a socket that listens. The port stands at one place in both families. */
    (void)getsockname(server->listeners[0].descriptor.fd, (struct sockaddr *)&address, &bytes);
    *port = ntohs(((const struct sockaddr_in *)&address)->sin_port);
    *identity = server->identity;
}

void gcoll_store_server_join(gcoll_store_server *server) {
    pthread_join(server->thread, NULL);
    release(server);
}
