/*
 * transport/tcp/stripes.c - the lane tcp with several connections: its table, and how they are made.
 *
 * Both ranks say how many connections they allow, and a token; the smaller number counts. The rank that made
 * the session's connection makes the others, too: to the address that has led to the peer already. Both ends
 * of each prove (session/proof.h) that they are the session's, by its key and the token of the rank that is
 * called. Who cannot is sent away without a word. When the called rank has all of them, it says that it is
 * ready, and messages may go.
 *
 * A connection that is closed before that (a listener in a crowd drops strangers) is made again, until
 * connect_timeout_ms are over. Then the session fails: connections that were asked for are never silently
 * done without. A peer may compute meanwhile, and so may this rank. So the time counts only while somebody
 * waits for the peer and this rank drives its endpoint; it begins anew with each step that the peer has made;
 * and when the kernel of the called rank has all connections, its word is awaited as any other answer is.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/session/branch.h"
#include "transport/tcp/stripes.h"

/* The words of the two ends: OFFER is followed by a number of connections and a token. */
enum { WORD_OFFER = 1, WORD_READY = 2 };
#define WORD_BYTES (4 + GCOLL_WIRE_TOKEN_BYTES)
/* Tries after a connection that could not be made: 5, 10, ... 640, 640 ms apart. */
#define RETRY_FIRST_MS 5
#define RETRY_DOUBLES  7
/* Long enough for one poll between two timers: libuv may run timers before it polls. */
#define LOOK_AGAIN_MS 1
/* How often the time of a meeting is looked at. If that is late by more, this rank was away. */
#define LOOK_MS 250
/* The session has so long to say why a connection broke. */
#define DOUBT_MS 1000

gcoll_stripes *gcoll_stripes_of(const gcoll_session *session) {
    return gcoll_session_has_taken(session, &gcoll_lane_stripes) ? session->lane.state : NULL;
}

/* ---- Connections ----------------------------------------------------------------------------------- */

static uint16_t port_of(const struct sockaddr_storage *where) {
    if (where->ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)where)->sin_port);
    return ntohs(((const struct sockaddr_in6 *)where)->sin6_port);
}

static void set_timer(gcoll_stripes *all);
static void begin_limit(gcoll_stripes *all);

/* Ends the meeting: the peer must hear why, by an abort. */
GCOLL_PRINTF(2, 3) static void give_up(gcoll_stripes *all, const char *format, ...) {
    char text[GCOLL_SESSION_VERDICT_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    uv_timer_stop(&all->timer);
    all->session->lane.tells = true;
    gcoll_session_fail(all->session, GCOLL_ERR_PEER, "%s", text);
}

static void close_one(gcoll_stripe *stripe) {
    gcoll_socket_close(stripe->socket);
    stripe->socket = NULL;
    stripe->connecting = false;
}

/* Connections that are there, up to the point to which this end sees it. */
static uint32_t made(const gcoll_stripes *all) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < all->count; i++)
        count += all->each[i].socket && !all->each[i].connecting;
    return count;
}

/* All are there; their proofs may be on their way. */
static bool is_complete(const gcoll_stripes *all) {
    return all->count > 0 && made(all) == all->count;
}

/* The called rank says that it is ready when it has had all proofs. */
static bool is_proved(const gcoll_stripes *all) {
    for (uint32_t i = 0; i < all->count; i++)
        if (!all->each[i].proof.is_proved)
            return false;
    return true;
}

/* One more connection is there. */
static void count_made(gcoll_stripes *all) {
    const uint32_t count = made(all);
    if (count > all->most) { /* not if one is made again and again */
        all->most = count;
        begin_limit(all);
    }
}

static bool is_any_again(const gcoll_stripes *all) {
    for (uint32_t i = 0; i < all->count; i++)
        if (all->each[i].again)
            return true;
    return false;
}

/* A connection could not be made, or was closed before all of them were there. */
static void failed(gcoll_stripe *stripe, int error) {
    gcoll_stripes *all = stripe->all;
    char text[GCOLL_ERRNO_TEXT_MAX];
    close_one(stripe);
    if (!all->dials)
        return; /* the other rank makes it again */
    if (gcoll_is_shortage(error)) {
        uv_timer_stop(&all->timer);
        gcoll_session_fail(all->session, GCOLL_ERR_NO_MEMORY,
                           "cannot make connection %u of %u for large messages to rank %u: %s",
                           stripe->number, all->count, all->session->rank, gcoll_errno_text(error, text));
        return;
    }
    gcoll_host_address host = {.where = all->where};
    char where[GCOLL_ADDRESS_NAME_MAX];
    gcoll_host_address_name(&host, port_of(&all->where), where, sizeof where);
    snprintf(all->problem, sizeof all->problem, "connection %u of %u for large messages to %s: %s",
             stripe->number, all->count, where, error == 0 ? "closed" : strerror(error));
    if (!is_any_again(all))
        all->retry_at_ms = gcoll_now_ms() + ((int64_t)RETRY_FIRST_MS << all->retries);
    stripe->again = true;
    set_timer(all);
}

void gcoll_stripe_lost(gcoll_stripe *stripe, int error) {
    gcoll_stripes *all = stripe->all;
    const gcoll_session *session = all->session;
    if (session->state != GCOLL_SESSION_CONNECTED || session->net->leaving) {
        close_one(stripe);
        return;
    }
    if (!all->stands) {
        failed(stripe, error);
        return;
    }
    close_one(stripe);
    if (session->input.goodbye || session->is_gone || session->net->is_gone)
        return; /* that was to come; groups that share the session do not use it */
    if (gcoll_is_shortage(error))
        gcoll_session_fail(all->session, GCOLL_ERR_NO_MEMORY, "cannot read what rank %u sends: %s",
                           session->rank, strerror(error));
    else if (error == 0 || error == ECONNRESET || error == EPIPE)
        gcoll_session_doubt(all->session, DOUBT_MS, false, "closed connection %u of %u for large messages",
                            stripe->number, all->count);
    else
        gcoll_session_doubt(all->session, DOUBT_MS, false,
                            "cannot be reached any more by connection %u of %u for large messages (%s)",
                            stripe->number, all->count, strerror(error));
}

/* Keeps what waits in the kernel short: a connection takes the next stripe only when it can send it, so a
 * fast one takes more. Failures cost only speed. */
static void set_options(int fd) {
    const int bytes = GCOLL_WIRE_STRIPE_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

static void adopt(gcoll_stripe *stripe, gcoll_socket *socket) {
    socket->link = NULL;
    socket->stripe = stripe;
    stripe->socket = socket;
    set_options(socket->fd);
}

/* Begins to connect. Returns 0 or an error number. */
static int dial_held(gcoll_stripe *stripe) {
    const gcoll_stripes *all = stripe->all;
    const socklen_t length =
        all->where.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    const int fd = socket(all->where.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (gcoll_net_is_local(all->session->socket->fd))
        gcoll_net_local_dial(fd);
    if (connect(fd, (const struct sockaddr *)&all->where, length) != 0 && errno != EINPROGRESS) {
        const int error = errno;
        close(fd);
        return error;
    }
    gcoll_socket *own = gcoll_socket_new(all->session->net, fd);
    if (!own)
        return ENOMEM;
    adopt(stripe, own);
    stripe->connecting = own->wants_write = true;
    gcoll_socket_poll(own);
    return 0;
}

static void dial(gcoll_stripe *stripe) {
    stripe->again = false;
    gcoll_fork_hold();
    const int error = dial_held(stripe);
    gcoll_fork_release();
    if (error != 0)
        failed(stripe, error);
}

static gcoll_wire_hello hello_of(const gcoll_stripe *stripe) {
    const gcoll_session *session = stripe->all->session;
    gcoll_wire_hello hello = {.version = GCOLL_WIRE_VERSION,
                              .from = session->net->rank,
                              .to = session->rank,
                              .stripe = stripe->number};
    memcpy(hello.group, session->net->group, sizeof hello.group);
    return hello;
}

/* A handshake fits the buffer of a fresh socket: a short write means that it is dead. */
static bool send_all(const gcoll_stripe *stripe, const uint8_t *bytes, size_t count) {
    return send(stripe->socket->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)count;
}

/* The connection stands: greets. */
static void on_dialed(gcoll_stripe *stripe) {
    const gcoll_stripes *all = stripe->all;
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(stripe->socket->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
        error = errno;
    if (error != 0) {
        failed(stripe, error);
        return;
    }
    const gcoll_wire_hello hello = hello_of(stripe);
    gcoll_proof_key_within(stripe->proof.key, all->session->key, all->theirs);
    const gcoll_status status = gcoll_proof_greet(&stripe->proof, &hello);
    if (status != GCOLL_OK) {
        gcoll_net_fail(all->session->net, status);
        return;
    }
    stripe->challenge_bytes = 0;
    if (!send_all(stripe, stripe->proof.hello, sizeof stripe->proof.hello)) {
        failed(stripe, errno);
        return;
    }
    stripe->connecting = stripe->socket->wants_write = false;
    gcoll_socket_poll(stripe->socket);
    count_made(stripe->all);
}

static void stand(gcoll_stripes *all) {
    gcoll_session *session = all->session;
    uv_timer_stop(&all->timer);
    all->stands = true;
    for (uint32_t i = 0; i < all->count; i++) {
        all->each[i].socket->deaf = false;
        gcoll_socket_poll(all->each[i].socket);
    }
    gcoll_session_stand(session, session->net->eager_bytes, session->net->pool_bytes, session->peer_eager,
                        session->peer_pool);
}

/* Reads the challenge as far as it has come, and answers by the proof. Returns false when nothing more can be
 * read now. */
static bool answer_challenge(gcoll_stripe *stripe) {
    uint8_t bytes[GCOLL_WIRE_PROOF_BYTES];
    const ssize_t got = recv(stripe->socket->fd, stripe->challenge + stripe->challenge_bytes,
                             sizeof stripe->challenge - stripe->challenge_bytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        failed(stripe, got == 0 ? 0 : errno);
        return false;
    }
    if (got < 0)
        return errno == EINTR;
    stripe->challenge_bytes += (size_t)got;
    if (stripe->challenge_bytes < sizeof stripe->challenge)
        return true;
    if (!gcoll_wire_is_challenge(stripe->challenge) ||
        !gcoll_proof_take_challenge(&stripe->proof, stripe->challenge)) {
        failed(stripe, EPROTO);
        return false;
    }
    gcoll_proof_prove(&stripe->proof, bytes);
    if (!send_all(stripe, bytes, sizeof bytes))
        failed(stripe, errno);
    return false;
}

/* Before all connections are there, nothing may come but the challenge, if this rank has made it, and the
 * end; the peer may already stand. */
static void look_early(gcoll_stripe *stripe) {
    uint8_t byte;
    if (stripe->all->dials && !stripe->proof.is_proved) {
        while (answer_challenge(stripe)) {
        }
        return;
    }
    const ssize_t got = recv(stripe->socket->fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_PEEK);
    if (got > 0) {
        stripe->socket->deaf = true;
        gcoll_socket_poll(stripe->socket);
    } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
        failed(stripe, got == 0 ? 0 : errno);
    }
}

void gcoll_stripe_ready(gcoll_stripe *stripe, int status, int events) {
    gcoll_stripes *all = stripe->all;
    if (!all->stands) {
        if (all->session->state != GCOLL_SESSION_CONNECTED || all->session->net->leaving)
            close_one(stripe);
        else if (stripe->connecting)
            on_dialed(stripe);
        else
            look_early(stripe);
        return;
    }
    if (status < 0 || (events & UV_READABLE))
        gcoll_stripe_read(stripe);
    if (stripe->socket && status < 0 && stripe->socket->deaf)
        stripe->out.dead = true; /* else it would be polled, and found broken, again and again */
    if (stripe->socket && ((events & UV_WRITABLE) || stripe->out.dead)) {
        gcoll_stripes_write(all);
        if (stripe->socket && !gcoll_stripe_has_output(stripe))
            stripe->socket->wants_write = false;
        if (stripe->socket)
            gcoll_socket_poll(stripe->socket);
    } else if (stripe->socket && status < 0) { /* after an error libuv has stopped polling it */
        gcoll_socket_poll(stripe->socket);
    }
}

/* ---- The meeting ----------------------------------------------------------------------------------- */

static void begin_limit(gcoll_stripes *all) {
    all->until_ms = gcoll_now_ms() + all->session->net->connect_timeout_ms;
    all->looked_again = false;
}

/* Whether somebody waits for the peer. As the lane does not stand, all sends wait for it. */
static bool is_awaited(const gcoll_stripes *all) {
    const gcoll_channel *channel = all->session->channels;
    while (channel && !channel->flow.waiting.oldest)
        channel = channel->next;
    return channel || all->session->posted > 0 || all->session->flow.waiting.oldest;
}

/* Leaves out time that does not count. */
static void keep_time(gcoll_stripes *all) {
    const int64_t now = gcoll_now_ms(), late_ms = now - all->due_ms;
    if (!is_awaited(all) || is_complete(all)) {
        begin_limit(all);
    } else if (late_ms > LOOK_MS) {
        all->until_ms += late_ms;
        all->looked_again = false;
    }
    all->due_ms = now;
}

static void give_up_late(gcoll_stripes *all) {
    const gcoll_net *net = all->session->net;
    const long long ms = net->connect_timeout_ms;
    char text[GCOLL_ERRNO_TEXT_MAX];
    if (all->count > 0 && !all->dials && gcoll_is_shortage(net->accept_error)) {
        uv_timer_stop(&all->timer);
        gcoll_session_fail(all->session, GCOLL_ERR_NO_MEMORY,
                           "cannot accept connections for large messages of rank %u: %s", all->session->rank,
                           gcoll_errno_text(net->accept_error, text));
    } else if (all->count == 0) {
        give_up(all, "said nothing of connections for large messages within %lld ms", ms);
    } else if (all->problem[0] != '\0') {
        give_up(all, "cannot be reached by all connections within %lld ms (%s)", ms, all->problem);
    } else {
        give_up(all, "has %u of %u connections for large messages after %lld ms", made(all), all->count, ms);
    }
}

static void on_timer(uv_timer_t *timer) {
    gcoll_stripes *all = timer->data;
    if (all->stands || all->session->state != GCOLL_SESSION_CONNECTED || all->session->net->leaving)
        return;
    keep_time(all);
    const int64_t now = gcoll_now_ms();
    if (now >= all->until_ms && !all->looked_again) { /* nothing may have been polled for some time */
        all->looked_again = true;
        uv_timer_start(timer, on_timer, LOOK_AGAIN_MS, 0);
        return;
    }
    if (now >= all->until_ms) {
        give_up_late(all);
        return;
    }
    if (is_any_again(all) && now >= all->retry_at_ms) {
        all->retries += all->retries < RETRY_DOUBLES ? 1 : 0;
        for (uint32_t i = 0; i < all->count; i++)
            if (all->each[i].again && all->session->state == GCOLL_SESSION_CONNECTED)
                dial(&all->each[i]);
    }
    if (all->session->state == GCOLL_SESSION_CONNECTED)
        set_timer(all);
}

/* For the next try, if some connection is to be made again, for the end of the time, or for a look at it. */
static void set_timer(gcoll_stripes *all) {
    keep_time(all);
    int64_t until_ms = all->due_ms + LOOK_MS;
    until_ms = until_ms < all->until_ms ? until_ms : all->until_ms;
    if (is_any_again(all) && until_ms > all->retry_at_ms)
        until_ms = all->retry_at_ms;
    const int64_t ms = until_ms > all->due_ms ? until_ms - all->due_ms : 0;
    all->due_ms += ms;
    uv_update_time(all->timer.loop);
    uv_timer_start(&all->timer, on_timer, (uint64_t)ms, 0);
}

static void say(const gcoll_stripes *all, uint8_t word) {
    uint8_t bytes[WORD_BYTES] = {word, (uint8_t)all->port->connections};
    memcpy(bytes + 4, all->token, sizeof all->token);
    gcoll_session_say(all->session, bytes, word == WORD_OFFER ? WORD_BYTES : 4);
}

/* Finds out which rank has made the session's connection: where it was accepted, it has the listener's port.
 */
static void find_way(gcoll_stripes *all) {
    const int fd = all->session->socket->fd;
    struct sockaddr_storage here;
    socklen_t here_bytes = sizeof here, there_bytes = sizeof all->where;
    memset(&here, 0, sizeof here);
    all->dials = getsockname(fd, (struct sockaddr *)&here, &here_bytes) == 0 &&
                 getpeername(fd, (struct sockaddr *)&all->where, &there_bytes) == 0 &&
                 port_of(&here) != all->session->net->address.port;
}

static gcoll_status make(gcoll_session *session, gcoll_stripes_port *port) {
    gcoll_stripes *all = calloc(1, sizeof *all);
    if (!all)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for messages of rank %u", session->rank);
    gcoll_status status = gcoll_random_bytes(all->token, sizeof all->token);
    if (status == GCOLL_OK && uv_timer_init(&session->net->loop, &all->timer) != 0)
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a timer");
    if (status != GCOLL_OK) {
        free(all);
        return status;
    }
    all->timer.data = all;
    all->session = session;
    all->port = port;
    all->next = port->sessions;
    port->sessions = all;
    for (uint32_t i = 0; i < GCOLL_STRIPES_MAX; i++) {
        all->each[i].all = all;
        all->each[i].number = i + 1;
    }
    session->lane.state = all;
    return GCOLL_OK;
}

static void begin(gcoll_session *session, gcoll_lane_port *port) {
    const gcoll_status status = make(session, (gcoll_stripes_port *)(void *)port);
    if (status != GCOLL_OK) { /* no refusal, which would end in one connection */
        gcoll_net_fail(session->net, status);
        return;
    }
    gcoll_stripes *all = session->lane.state;
    find_way(all);
    all->due_ms = gcoll_now_ms();
    begin_limit(all);
    say(all, WORD_OFFER);
    set_timer(all);
}

static void on_offer(gcoll_stripes *all, uint32_t connections, const uint8_t *token) {
    all->count = connections < all->port->connections ? connections : all->port->connections;
    memcpy(all->theirs, token, sizeof all->theirs);
    begin_limit(all);
    for (uint32_t i = 0; all->dials && i < all->count && all->session->state == GCOLL_SESSION_CONNECTED; i++)
        dial(&all->each[i]);
}

static void hear(gcoll_session *session, const uint8_t *bytes, uint32_t count) {
    gcoll_stripes *all = session->lane.state;
    if (!all)
        return; /* this rank is about to fail for what it lacks */
    if (count == WORD_BYTES && bytes[0] == WORD_OFFER && all->count == 0 && bytes[1] >= 2 &&
        bytes[1] <= GCOLL_STRIPES_MAX)
        on_offer(all, bytes[1], bytes + 4);
    else if (count != 4 || bytes[0] != WORD_READY || !all->dials || all->count == 0 || all->stands)
        gcoll_session_fail(session, GCOLL_ERR_PROTOCOL,
                           "sent garbage (a word of connections that does not fit)");
    else if (is_complete(all) && is_proved(all))
        stand(all);
    else
        give_up(all, "lost connections for large messages before they could be used (%s)", all->problem);
}

/* What waits for a connection that greets so; NULL: nothing. */
static gcoll_stripes *awaited_by(gcoll_net *net, const gcoll_wire_hello *hello) {
    gcoll_session *session = gcoll_net_session(net, hello->from);
    gcoll_stripes *all = session && !net->leaving ? gcoll_stripes_of(session) : NULL;
    if (all && all->count == 0 && session->state == GCOLL_SESSION_CONNECTED)
        gcoll_session_read(session, GCOLL_SESSION_READ_BUDGET); /* its word may be here */
    all = all ? gcoll_stripes_of(session) : NULL;
    const bool is_right = all && session->state == GCOLL_SESSION_CONNECTED && !all->stands && !all->dials &&
                          hello->stripe <= all->count && hello->version == GCOLL_WIRE_VERSION &&
                          hello->to == net->rank &&
                          memcmp(hello->group, net->group, sizeof hello->group) == 0;
    return is_right ? all : NULL;
}

bool gcoll_stripes_key(gcoll_net *net, const gcoll_wire_hello *hello, uint8_t key[GCOLL_SHA256_BYTES]) {
    const gcoll_stripes *all = awaited_by(net, hello);
    if (all)
        gcoll_proof_key_within(key, all->session->key, all->token);
    return all;
}

void gcoll_stripes_greeted(gcoll_link *link, const gcoll_wire_hello *hello) {
    gcoll_stripes *all = awaited_by(link->net, hello);
    if (!all) {
        gcoll_link_drop(link);
        return;
    }
    gcoll_stripe *stripe = &all->each[hello->stripe - 1];
    close_one(stripe); /* the peer has given up an older one */
    adopt(stripe, link->socket);
    link->socket = NULL;
    gcoll_link_drop(link);
    count_made(all);
    if (is_complete(all)) {
        say(all, WORD_READY);
        stand(all);
    }
}

/* ---- The lane's table ------------------------------------------------------------------------------ */

static gcoll_status open_port(gcoll_net *net, const gcoll_endpoint_options *options, gcoll_lane_port **port) {
    gcoll_stripes_port *own = calloc(1, sizeof *own);
    if (!own)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint");
    (void)net;
    own->connections = (uint32_t)gcoll_lane_option_number(options, "tcp", "connections", 1);
    *port = (gcoll_lane_port *)(void *)own;
    return GCOLL_OK;
}

static void close_port(gcoll_lane_port *port) {
    free(port);
}

static void flush(gcoll_lane_port *port) {
    for (gcoll_stripes *all = ((gcoll_stripes_port *)(void *)port)->sessions; all; all = all->next)
        if (all->messages.first)
            gcoll_stripes_write(all);
}

static bool poll_port(gcoll_lane_port *port) {
    bool moved = false;
    for (gcoll_stripes *all = ((gcoll_stripes_port *)(void *)port)->sessions; all; all = all->next) {
        if (!all->stands)
            continue;
        if (all->session->net->leaving) /* the peer may not read stripes before it has read our words */
            gcoll_session_write(all->session);
        if (all->mute > 0)
            gcoll_stripe_lost(&all->each[all->mute - 1], ETIMEDOUT);
        all->mute = 0;
        moved = gcoll_stripes_write(all) || moved;
        for (uint32_t i = 0; i < all->count; i++)
            if (all->arriving || all->session->net->leaving)
                moved = gcoll_stripe_read(&all->each[i]) || moved;
    }
    return moved;
}

/* Ends: without grants nothing may come. A rank that leaves throws away whatever comes, and would never be
 * done with a peer that does not stop. */
static void catch_up(gcoll_session *session) {
    gcoll_stripes *all = session->lane.state;
    for (bool moved = all && all->stands && !session->net->discards; moved;) {
        moved = false;
        for (uint32_t i = 0; i < all->count; i++)
            moved = gcoll_stripe_read(&all->each[i]) || moved;
    }
}

/* The peer's kernel may still send, in the time that this rank has spent elsewhere or on a slow network. */
static bool is_coming(const gcoll_session *session) {
    const gcoll_stripes *all = session->lane.state;
    for (uint32_t i = 0; all->arriving && i < all->count; i++)
        if (all->each[i].socket)
            return true;
    return false;
}

/* A wait is about to sleep: libuv watches the sockets, and from now on for room, too. */
static void arm(gcoll_lane_port *port) {
    for (gcoll_stripes *all = ((gcoll_stripes_port *)(void *)port)->sessions; all; all = all->next)
        for (uint32_t i = 0; all->stands && i < all->count; i++) {
            gcoll_stripe *stripe = &all->each[i];
            if (gcoll_stripe_has_output(stripe) && !stripe->socket->wants_write) {
                stripe->socket->wants_write = true;
                gcoll_socket_poll(stripe->socket);
            }
        }
}

static uint64_t unacknowledged(const gcoll_stripe *stripe) {
    int bytes = 0;
    return stripe->socket && ioctl(stripe->socket->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes
                                                                                           : 0;
}

static void drop(gcoll_session *session) {
    if (session->lane.state)
        gcoll_stripes_drop(session->lane.state);
}

/* Lets the peer see the end behind all stripes. */
static void finish(gcoll_session *session) {
    const gcoll_stripes *all = session->lane.state;
    for (uint32_t i = 0; all && i < all->count; i++)
        if (all->each[i].socket && !all->each[i].connecting)
            shutdown(all->each[i].socket->fd, SHUT_WR);
}

static bool is_leaving(const gcoll_session *session) {
    const gcoll_stripes *all = session->lane.state;
    for (uint32_t i = 0; all && all->stands && i < all->count; i++)
        if (unacknowledged(&all->each[i]) > 0)
            return true;
    return false;
}

static void on_timer_closed(uv_handle_t *timer) {
    free(timer->data);
}

static void end(gcoll_session *session) {
    gcoll_stripes *all = session->lane.state;
    if (!all)
        return;
    gcoll_stripes_drop(all);
    gcoll_stripes_free_spare(all);
    gcoll_stripes **at = &all->port->sessions;
    while (*at != all)
        at = &(*at)->next;
    *at = all->next;
    for (uint32_t i = 0; i < GCOLL_STRIPES_MAX; i++) {
        close_one(&all->each[i]);
        free(all->each[i].in.gathered);
    }
    session->lane.state = NULL;
    uv_close((uv_handle_t *)&all->timer, on_timer_closed);
}

/* Whether a network has swallowed a connection. The session's own may be alive all the same. */
static bool is_mute(const gcoll_stripe *stripe) {
    int64_t mute_ms = 0;
    return stripe->socket && gcoll_socket_repeats(stripe->socket, &mute_ms) > 0 &&
           mute_ms >= stripe->all->session->net->connect_timeout_ms;
}

static void look(const gcoll_session *session, gcoll_lane_sight *sight) {
    gcoll_stripes *all = session->lane.state;
    *sight = (gcoll_lane_sight){.heard = all->heard};
    for (uint32_t i = 0; i < all->count; i++) {
        const uint64_t queued = unacknowledged(&all->each[i]), written = all->each[i].out.written;
        sight->taken += queued < written ? written - queued : 0;
        if (queued > 0 && is_mute(&all->each[i]))
            all->mute = i + 1; /* the next poll breaks it */
    }
}

static void describe(const gcoll_session *session, gcoll_text *text) {
    gcoll_text_add(text, "tcp over %u connections", ((const gcoll_stripes *)session->lane.state)->count);
}

static uint64_t retransmitted(const gcoll_session *session) {
    const gcoll_stripes *all = session->lane.state;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < all->count; i++)
        sum += all->each[i].socket ? gcoll_socket_retransmitted(all->each[i].socket) : 0;
    return sum;
}

const gcoll_lane gcoll_lane_stripes = {
    .name = "tcp:connections",
    .number = GCOLL_LANE_STRIPES,
    .is_clear = true,
    .uses_stream = true,
    .open = open_port,
    .close = close_port,
    .flush = flush,
    .poll = poll_port,
    .arm = arm,
    .flow = &gcoll_stripes_flow,
    .begin = begin,
    .hear = hear,
    .leave = gcoll_session_drop, /* no message goes behind our words any more */
    .is_leaving = is_leaving,
    .drop = drop,
    .end = end,
    .look = look,
    .catch_up = catch_up,
    .is_coming = is_coming,
    .finish = finish,
    .describe = describe,
    .retransmitted = retransmitted,
};
