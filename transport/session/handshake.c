/*
 * transport/session/handshake.c - the greeting on a new connection, and the choice between two that cross.
 *
 * The connecting side greets with the group's id, both ranks, and the token from the other's address text.
 * The other side answers "welcome" or the reason of a refusal; only then do frames follow. Whoever does not
 * greet is dropped without an answer. A greeting with another group or token is answered by a refusal that
 * says nothing more: it may be meant for a rank that has died, and whose port this one has now.
 *
 * When two ranks connect to each other at once, the connection of the lower rank stays. The higher rank
 * welcomes it and drops its own. The lower rank keeps the other's connection in reserve until its own has
 * succeeded or failed. But if its own has not greeted yet, it is given up for the other's: it may still be
 * trying an address that does not answer, and cannot have been welcomed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/session/branch.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"

gcoll_link *gcoll_link_new(gcoll_net *net, gcoll_socket *socket, gcoll_link_role role) {
    gcoll_link *link = calloc(1, sizeof *link);
    if (!link) {
        gcoll_socket_close(socket);
        return NULL;
    }
    link->net = net;
    link->socket = socket;
    link->role = role;
    socket->link = link;
    return link;
}

void gcoll_link_drop(gcoll_link *link) {
    if (!link)
        return;
    if (link->role == GCOLL_LINK_STRANGER)
        gcoll_net_forget_stranger(link);
    else if (link->role == GCOLL_LINK_RESERVE)
        link->session->reserve = NULL;
    gcoll_socket_close(link->socket);
    free(link);
}

/* Handshakes fit the buffer of a fresh socket: a short write means that it is dead. */
static bool send_all(gcoll_link *link, const uint8_t *bytes, size_t count) {
    ssize_t sent;
    do {
        sent = send(link->socket->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)count;
}

bool gcoll_link_greet(gcoll_link *link, const uint8_t token[GCOLL_WIRE_TOKEN_BYTES]) {
    const gcoll_net *net = link->net;
    gcoll_wire_hello hello = {.version = GCOLL_WIRE_VERSION,
                              .oldest = GCOLL_WIRE_OLDEST,
                              .from = net->rank,
                              .to = link->session->rank,
                              .eager_bytes = net->eager_bytes,
                              .pool_bytes = net->pool_bytes};
    memcpy(hello.group, net->group, sizeof hello.group);
    memcpy(hello.token, token, sizeof hello.token);
    gcoll_net_list_offers(net, hello.lanes);
    uint8_t bytes[GCOLL_WIRE_HELLO_BYTES];
    gcoll_wire_put_hello(bytes, &hello);
    return send_all(link, bytes, sizeof bytes);
}

static bool reply(gcoll_link *link, gcoll_wire_verdict verdict, uint32_t to) {
    const gcoll_net *net = link->net;
    gcoll_wire_reply answer = {.verdict = (uint32_t)verdict,
                               .version = GCOLL_WIRE_VERSION,
                               .from = net->rank,
                               .to = to,
                               .eager_bytes = net->eager_bytes,
                               .pool_bytes = net->pool_bytes};
    memcpy(answer.group, net->group, sizeof answer.group);
    gcoll_net_list_offers(net, answer.lanes);
    uint8_t bytes[GCOLL_WIRE_REPLY_BYTES];
    gcoll_wire_put_reply(bytes, &answer);
    return send_all(link, bytes, sizeof bytes);
}

static void refuse(gcoll_link *link, gcoll_wire_verdict verdict, uint32_t to) {
    reply(link, verdict, to);
    gcoll_link_drop(link);
}

static void refuse_stranger(gcoll_link *link) {
    const gcoll_wire_reply answer = {.verdict = GCOLL_WIRE_REFUSE_STRANGER, .version = GCOLL_WIRE_VERSION};
    uint8_t bytes[GCOLL_WIRE_REPLY_BYTES];
    gcoll_wire_put_reply(bytes, &answer);
    send_all(link, bytes, sizeof bytes);
    gcoll_link_drop(link);
}

/* Whether a peer's limits satisfy the rules of transport/flow. */
static bool is_sound(uint64_t eager_bytes, uint64_t pool_bytes) {
    return pool_bytes >= GCOLL_FLOW_POOL_MIN && pool_bytes <= GCOLL_FLOW_POOL_MAX &&
           eager_bytes <= pool_bytes / 2 - GCOLL_FLOW_OVERHEAD_BYTES;
}

static bool make_input(gcoll_session *session) {
    gcoll_session_input *in = &session->input;
    if (posix_memalign((void **)&in->bytes, 64, GCOLL_SESSION_INPUT_BYTES) != 0) {
        in->bytes = NULL;
        return false;
    }
    if (session->net->crc && posix_memalign((void **)&in->fragment, 64, GCOLL_WIRE_CHECKED_MAX) != 0) {
        in->fragment = NULL;
        return false;
    }
    return true;
}

void gcoll_session_connected(gcoll_session *session, gcoll_socket *socket, const gcoll_session_peer *peer) {
    gcoll_net *net = session->net;
    gcoll_dial_end(session);
    if (session->reserve)
        refuse(session->reserve, GCOLL_WIRE_REFUSE_DUPLICATE, session->rank);
    socket->link = NULL;
    socket->session = session;
    session->socket = socket;
    session->state = GCOLL_SESSION_CONNECTED;
    if (!make_input(session)) {
        gcoll_session_fail(session, GCOLL_ERR_NO_MEMORY, "no memory for a connection with rank %u",
                           session->rank);
        return;
    }
    if (net->has_note) {
        uint8_t bytes[GCOLL_WIRE_HEADER_BYTES + GCOLL_NOTE_TEXT_MAX];
        gcoll_session_append_control(session, bytes, gcoll_wire_put_note(bytes, &net->note));
    }
    gcoll_branches_connected(session);
    session->peer_eager = peer->eager_bytes;
    session->peer_pool = peer->pool_bytes;
    if (!net->leaving)
        gcoll_session_take_lane(session, peer->lanes);
    gcoll_session_want_output(session); /* grants may have been waiting */
    if (session->posted > 0)
        gcoll_session_make_hot(session);
}

/* Welcomes the link that greeted with `hello`. */
static bool adopt(gcoll_link *link, gcoll_session *session, const gcoll_wire_hello *hello) {
    gcoll_socket *socket = link->socket;
    if (!reply(link, GCOLL_WIRE_WELCOME, session->rank)) {
        gcoll_link_drop(link);
        return false;
    }
    link->socket = NULL;
    gcoll_link_drop(link);
    const gcoll_session_peer peer = {hello->eager_bytes, hello->pool_bytes, hello->lanes};
    gcoll_session_connected(session, socket, &peer);
    return true;
}

bool gcoll_session_adopt_reserve(gcoll_session *session) {
    if (!session->reserve || session->state != GCOLL_SESSION_DIALING)
        return false;
    gcoll_wire_hello hello = session->reserve->hello;
    return adopt(session->reserve, session, &hello);
}

/* Whether the other side has closed the connection after its greeting: it has given it up for another. */
static bool is_abandoned(const gcoll_link *link) {
    uint8_t byte;
    return recv(link->socket->fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_PEEK) == 0;
}

/* Decides about a connection with a valid greeting: adopt, refuse, or keep in reserve. */
static void settle(gcoll_link *link, const gcoll_wire_hello *hello) {
    gcoll_net *net = link->net;
    gcoll_session *session = gcoll_session_of(net, hello->from);
    if (is_abandoned(link)) {
        gcoll_link_drop(link);
        return;
    }
    if (session && session->state == GCOLL_SESSION_DIALING)
        gcoll_dial_look(session->dial); /* the peer may have welcomed ours meanwhile */
    if (!session)
        gcoll_net_problem(net, GCOLL_ERR_NO_MEMORY, "no memory for a connection with rank %u", hello->from);
    if (!session || (session->state == GCOLL_SESSION_FAILED && session->verdict == GCOLL_ERR_NO_MEMORY)) {
        gcoll_link_drop(link); /* this rank is about to break; the peer tries again, and then hears why */
        return;
    }
    if (session->state >= GCOLL_SESSION_DEPARTED) {
        refuse(link, GCOLL_WIRE_REFUSE_BROKEN, hello->from);
        return;
    }
    if (session->state == GCOLL_SESSION_CONNECTED) {
        refuse(link, GCOLL_WIRE_REFUSE_DUPLICATE, hello->from);
        return;
    }
    if (session->state == GCOLL_SESSION_IDLE || net->rank > hello->from ||
        !gcoll_dial_has_greeted(session->dial)) {
        adopt(link, session, hello);
        return;
    }
    gcoll_link_drop(session->reserve); /* the peer has given up its older connection */
    gcoll_net_forget_stranger(link);
    link->role = GCOLL_LINK_RESERVE;
    link->session = session;
    link->hello = *hello;
    session->reserve = link;
}

bool gcoll_link_is_token(const uint8_t *shown, const uint8_t *ours) {
    uint32_t differs = 0;
    for (size_t i = 0; i < GCOLL_WIRE_TOKEN_BYTES; i++)
        differs |= (uint32_t)(shown[i] ^ ours[i]);
    return differs == 0;
}

static void greeted(gcoll_link *link) {
    const gcoll_net *net = link->net;
    gcoll_wire_hello hello;
    const char *wrong = gcoll_wire_get_hello(link->bytes, &hello);
    if (!wrong && hello.stripe > 0) {
        gcoll_stripes_greeted(link, &hello);
        return;
    }
    if (wrong) {
        gcoll_link_drop(link);
        return;
    }
    if (memcmp(hello.group, net->group, sizeof hello.group) != 0 ||
        !gcoll_link_is_token(hello.token, net->address.token)) {
        refuse_stranger(link);
        return;
    }
    if (hello.version < GCOLL_WIRE_OLDEST || hello.oldest > GCOLL_WIRE_VERSION) {
        refuse(link, GCOLL_WIRE_REFUSE_VERSION, hello.from);
        return;
    }
    if (hello.to != net->rank || hello.from >= net->size || hello.from == net->rank ||
        !is_sound(hello.eager_bytes, hello.pool_bytes)) {
        refuse(link, GCOLL_WIRE_REFUSE_RANK, hello.from);
        return;
    }
    settle(link, &hello);
}

static void answered(gcoll_link *link) {
    gcoll_net *net = link->net;
    gcoll_session *session = link->session;
    gcoll_wire_reply answer;
    const char *wrong = gcoll_wire_get_reply(link->bytes, &answer);
    if (!wrong && answer.verdict != GCOLL_WIRE_REFUSE_STRANGER &&
        (memcmp(answer.group, net->group, sizeof answer.group) != 0 || answer.from != session->rank ||
         answer.to != net->rank))
        wrong = "an answer for another rank or job";
    if (!wrong && answer.verdict == GCOLL_WIRE_WELCOME && !is_sound(answer.eager_bytes, answer.pool_bytes))
        wrong = "a welcome with impossible limits";
    if (!wrong && answer.verdict == GCOLL_WIRE_WELCOME) {
        gcoll_socket *socket = link->socket;
        link->socket = NULL; /* the link itself ends with the dial */
        const gcoll_session_peer peer = {answer.eager_bytes, answer.pool_bytes, answer.lanes};
        gcoll_session_connected(session, socket, &peer);
        return;
    }
    gcoll_dial_answered(session->dial, link, &answer, wrong);
}

/* The other side closed the connection, or sent more than it may. */
static void link_ended(gcoll_link *link) {
    if (link->role == GCOLL_LINK_DIALER)
        gcoll_dial_answered(link->session->dial, link, NULL, NULL);
    else
        gcoll_link_drop(link);
}

void gcoll_link_ready(gcoll_link *link) {
    size_t wanted = link->role == GCOLL_LINK_DIALER ? GCOLL_WIRE_REPLY_BYTES : GCOLL_WIRE_HELLO_BYTES;
    if (link->role == GCOLL_LINK_DIALER && link->session->state != GCOLL_SESSION_DIALING) {
        gcoll_dial_end(link->session); /* the session failed for another reason, not reported yet */
        return;
    }
    ssize_t got;
    do {
        uint8_t excess;
        if (link->role == GCOLL_LINK_RESERVE) /* must be silent until it is welcomed */
            got = recv(link->socket->fd, &excess, sizeof excess, MSG_DONTWAIT);
        else
            got = recv(link->socket->fd, link->bytes + link->have, wanted - link->have, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return;
    if (got <= 0 || link->role == GCOLL_LINK_RESERVE) {
        link_ended(link);
        return;
    }
    link->have += (size_t)got;
    if (link->role == GCOLL_LINK_STRANGER && !gcoll_wire_may_be_hello(link->bytes, link->have)) {
        gcoll_link_drop(link);
        return;
    }
    if (link->have == wanted)
        link->role == GCOLL_LINK_DIALER ? answered(link) : greeted(link);
}
