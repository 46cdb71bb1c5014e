/*
 * transport/session/handshake.c - the handshake on a new connection, and the choice between two that cross.
 *
 * Both sides prove that they belong to the job (proof.h). Then the called side answers "welcome" or the
 * reason of a refusal; only then do frames follow. Whoever does not greet is dropped without an answer. A
 * greeting of another group or with another key is answered by a refusal that says nothing more: it may be
 * meant for a rank that has died, and whose port this one has now.
 *
 * When two ranks connect to each other at once, the connection of the lower rank stays. The higher rank
 * welcomes it and drops its own. The lower rank keeps the other's connection in reserve until its own has
 * succeeded or failed. But if its own has not sent its proof yet, it is given up for the other's: it may
 * still be trying an address that does not answer, and cannot have been welcomed.
 *
 * With encryption TLS begins after the challenge (protect.c), and the proof and the answer go by it.
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
    gcoll_forget_secret(link->proof.key, sizeof link->proof.key);
    free(link);
}

/* Handshakes fit the buffer of a fresh socket: a short write means that it is dead. */
static bool send_all(gcoll_link *link, const uint8_t *bytes, size_t count) {
    gcoll_tls *tls = link->socket->tls;
    const struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
    ssize_t sent;
    if (tls)
        return gcoll_tls_send(tls, &piece, 1) == (ssize_t)count && gcoll_tls_unsent(tls) == 0;
    do {
        sent = send(link->socket->fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)count;
}

bool gcoll_link_greet(gcoll_link *link, const uint8_t token[GCOLL_WIRE_TOKEN_BYTES]) {
    gcoll_net *net = link->net;
    gcoll_wire_hello hello = {.version = GCOLL_WIRE_VERSION,
                              .oldest = GCOLL_WIRE_OLDEST,
                              .from = net->rank,
                              .to = link->session->rank,
                              .eager_bytes = net->eager_bytes,
                              .pool_bytes = net->pool_bytes};
    memcpy(hello.group, net->group, sizeof hello.group);
    gcoll_net_list_offers(net, hello.lanes);
    gcoll_proof_key_of_link(link->proof.key, gcoll_net_secret(net), net->group, token);
    const gcoll_status status = gcoll_proof_greet(&link->proof, &hello);
    if (status != GCOLL_OK) {
        gcoll_net_fail(net, status);
        return false;
    }
    return send_all(link, link->proof.hello, sizeof link->proof.hello);
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
    gcoll_proof_sign_reply(&link->proof, bytes);
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
    memcpy(session->key, peer->key, sizeof session->key);
    gcoll_dial_end(session);
    if (session->reserve)
        refuse(session->reserve, GCOLL_WIRE_REFUSE_DUPLICATE, session->rank);
    socket->link = NULL;
    socket->session = session;
    session->socket = socket;
    session->state = GCOLL_SESSION_CONNECTED;
    if (socket->tls) {
        gcoll_tls_read_ahead(socket->tls);
        session->output.unsent = gcoll_tls_unsent(socket->tls) > 0;
    }
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

/* Welcomes a link that has proved that it is a peer's. */
static bool adopt(gcoll_link *link, gcoll_session *session) {
    gcoll_socket *socket = link->socket;
    const gcoll_wire_hello hello = link->hello;
    gcoll_session_peer peer = {
        .eager_bytes = hello.eager_bytes, .pool_bytes = hello.pool_bytes, .lanes = hello.lanes};
    if (!reply(link, GCOLL_WIRE_WELCOME, session->rank)) {
        gcoll_link_drop(link);
        return false;
    }
    gcoll_proof_key_of_session(peer.key, &link->proof);
    link->socket = NULL;
    gcoll_link_drop(link);
    gcoll_session_connected(session, socket, &peer);
    return true;
}

bool gcoll_session_adopt_reserve(gcoll_session *session) {
    return session->reserve && session->state == GCOLL_SESSION_DIALING && adopt(session->reserve, session);
}

/* Whether the other side has closed the connection after its greeting: it has given it up for another. */
static bool is_abandoned(const gcoll_link *link) {
    uint8_t byte;
    return recv(link->socket->fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_PEEK) == 0;
}

/* Decides about a connection that has proved that it is a peer's: adopt, refuse, or keep in reserve. */
static void settle(gcoll_link *link) {
    gcoll_net *net = link->net;
    const uint32_t from = link->hello.from;
    gcoll_session *session = gcoll_session_of(net, from);
    if (is_abandoned(link)) {
        gcoll_link_drop(link);
        return;
    }
    if (session && session->state == GCOLL_SESSION_DIALING)
        gcoll_dial_look(session->dial); /* the peer may have welcomed ours meanwhile */
    if (!session)
        gcoll_net_problem(net, GCOLL_ERR_NO_MEMORY, "no memory for a connection with rank %u", from);
    if (!session || (session->state == GCOLL_SESSION_FAILED && session->verdict == GCOLL_ERR_NO_MEMORY)) {
        gcoll_link_drop(link); /* this rank is about to break; the peer tries again, and then hears why */
        return;
    }
    if (session->state >= GCOLL_SESSION_DEPARTED) {
        refuse(link, GCOLL_WIRE_REFUSE_BROKEN, from);
        return;
    }
    if (session->state == GCOLL_SESSION_CONNECTED) {
        refuse(link, GCOLL_WIRE_REFUSE_DUPLICATE, from);
        return;
    }
    if (session->state == GCOLL_SESSION_IDLE || net->rank > from || !gcoll_dial_has_proved(session->dial)) {
        adopt(link, session);
        return;
    }
    gcoll_link_drop(session->reserve); /* the peer has given up its older connection */
    gcoll_net_forget_stranger(link);
    link->role = GCOLL_LINK_RESERVE;
    link->session = session;
    session->reserve = link;
}

/* Asks for the proof, which the peer can give when it next drives its endpoint. */
static void challenge(gcoll_link *link) {
    const gcoll_status status = gcoll_proof_challenge(&link->proof);
    if (status != GCOLL_OK)
        gcoll_net_fail(link->net, status);
    if (status != GCOLL_OK || !send_all(link, link->proof.challenge, sizeof link->proof.challenge))
        gcoll_link_drop(link);
    else
        gcoll_net_trust_stranger(link);
}

/* A greeting has come. */
static void greeted(gcoll_link *link) {
    const gcoll_net *net = link->net;
    gcoll_wire_hello *hello = &link->hello;
    memcpy(link->proof.hello, link->bytes, sizeof link->proof.hello);
    if (gcoll_wire_get_hello(link->bytes, hello)) {
        gcoll_link_drop(link);
        return;
    }
    if (hello->stripe > 0) {
        if (gcoll_stripes_key(link->net, hello, link->proof.key) && gcoll_proof_is_hello(&link->proof))
            challenge(link);
        else
            gcoll_link_drop(link);
        return;
    }
    gcoll_proof_key_of_link(link->proof.key, gcoll_net_secret(net), net->group, net->address.token);
    if (memcmp(hello->group, net->group, sizeof hello->group) != 0 || !gcoll_proof_is_hello(&link->proof)) {
        refuse_stranger(link);
        return;
    }
    if (hello->version < GCOLL_WIRE_OLDEST || hello->oldest > GCOLL_WIRE_VERSION) {
        refuse(link, GCOLL_WIRE_REFUSE_VERSION, hello->from);
        return;
    }
    if (hello->to != net->rank || hello->from >= net->size || hello->from == net->rank ||
        !is_sound(hello->eager_bytes, hello->pool_bytes)) {
        refuse(link, GCOLL_WIRE_REFUSE_RANK, hello->from);
        return;
    }
    const gcoll_session *session = gcoll_net_session(net, hello->from);
    if (session && session->state == GCOLL_SESSION_CONNECTED)
        refuse(link, GCOLL_WIRE_REFUSE_DUPLICATE,
               hello->from); /* as settle would: it may be a recorded one */
    else
        challenge(link);
}

/* What should be the proof has come. */
static void proved(gcoll_link *link) {
    if (!gcoll_proof_take_proof(&link->proof, link->bytes))
        gcoll_link_drop(link);
    else if (link->hello.stripe > 0)
        gcoll_stripes_greeted(link, &link->hello);
    else
        settle(link);
}

/* What is wrong with an answer to our greeting; NULL: nothing. */
static const char *check_answer(const gcoll_link *link, const gcoll_wire_reply *answer) {
    const gcoll_net *net = link->net;
    if (answer->verdict == GCOLL_WIRE_REFUSE_STRANGER)
        return NULL;
    if (!gcoll_proof_is_reply(&link->proof, link->bytes))
        return "an answer without a proof";
    if (memcmp(answer->group, net->group, sizeof answer->group) != 0 || answer->from != link->session->rank ||
        answer->to != net->rank)
        return "an answer for another rank or job";
    if (answer->verdict != GCOLL_WIRE_WELCOME)
        return NULL;
    if (!link->proof.is_proved)
        return "a welcome before the proof";
    return is_sound(answer->eager_bytes, answer->pool_bytes) ? NULL : "a welcome with impossible limits";
}

static void answered(gcoll_link *link) {
    gcoll_session *session = link->session;
    gcoll_wire_reply answer;
    const char *wrong = gcoll_wire_get_reply(link->bytes, &answer);
    if (!wrong)
        wrong = check_answer(link, &answer);
    if (!wrong && answer.verdict == GCOLL_WIRE_WELCOME) {
        gcoll_socket *socket = link->socket;
        link->socket = NULL; /* the link itself ends with the dial */
        gcoll_session_peer peer = {
            .eager_bytes = answer.eager_bytes, .pool_bytes = answer.pool_bytes, .lanes = answer.lanes};
        gcoll_proof_key_of_session(peer.key, &link->proof);
        gcoll_session_connected(session, socket, &peer);
        return;
    }
    gcoll_dial_answered(session->dial, link, &answer, wrong);
}

static void prove(gcoll_link *link) {
    uint8_t bytes[GCOLL_WIRE_PROOF_BYTES];
    gcoll_proof_prove(&link->proof, bytes);
    if (!send_all(link, bytes, sizeof bytes))
        gcoll_dial_answered(link->session->dial, link, NULL, NULL);
}

/* The other side closed the connection, or sent more than it may. */
static void link_ended(gcoll_link *link) {
    if (link->role == GCOLL_LINK_DIALER)
        gcoll_dial_answered(link->session->dial, link, NULL, NULL);
    else
        gcoll_link_drop(link);
}

/* TLS failed; problem "": as the connection ended. */
static void unprotected(gcoll_link *link, const char *problem) {
    if (link->role == GCOLL_LINK_DIALER && problem[0] != '\0')
        gcoll_dial_refused(link->session->dial, link, problem);
    else
        link_ended(link);
}

/* Begins or goes on with TLS. Whether it stands; else the link may be dropped. */
static bool protect(gcoll_link *link) {
    char problem[GCOLL_TLS_TEXT_MAX];
    const int done = gcoll_link_protect(link, problem);
    if (done < 0)
        unprotected(link, problem);
    return done == 1;
}

/* The called side asks for the proof. */
static void challenged(gcoll_link *link) {
    if (!gcoll_proof_take_challenge(&link->proof, link->bytes)) {
        gcoll_dial_answered(link->session->dial, link, NULL, "a challenge without a proof");
        return;
    }
    gcoll_dial_heard(
        link->session->dial); /* also if it has given up waiting for the proof: then it is called again */
    if (!gcoll_net_tls(link->net) || protect(link))
        prove(link);
}

/* How long the message is that is coming, as far as that is known. */
static size_t wanted_bytes(const gcoll_link *link) {
    if (link->role == GCOLL_LINK_STRANGER)
        return link->proof.is_challenged ? GCOLL_WIRE_PROOF_BYTES : GCOLL_WIRE_HELLO_BYTES;
    if (link->role == GCOLL_LINK_RESERVE) /* must be silent until it is welcomed */
        return 1;
    if (link->have < GCOLL_WIRE_MAGIC_BYTES)
        return GCOLL_WIRE_MAGIC_BYTES;
    return gcoll_wire_is_challenge(link->bytes) && !link->proof.is_challenged ? GCOLL_WIRE_CHALLENGE_BYTES
                                                                              : GCOLL_WIRE_REPLY_BYTES;
}

/* A message is there as far as it was wanted. May drop the link, and says so by false. */
static bool take_message(gcoll_link *link, size_t wanted) {
    if (link->role == GCOLL_LINK_DIALER && wanted == GCOLL_WIRE_MAGIC_BYTES)
        return true;
    link->have = 0;
    if (link->role == GCOLL_LINK_DIALER)
        wanted == GCOLL_WIRE_CHALLENGE_BYTES ? challenged(link) : answered(link);
    else
        link->proof.is_challenged ? proved(link) : greeted(link);
    return false; /* if it still stands, more comes after the peer has read what was sent */
}

/* Whether the link's bytes go by TLS, or will with those that come next. */
static bool is_protected(const gcoll_link *link) {
    return gcoll_net_tls(link->net) && link->proof.is_challenged && link->hello.stripe == 0;
}

static ssize_t receive(gcoll_link *link, size_t wanted) {
    uint8_t *at = link->bytes + link->have;
    const struct iovec piece = {.iov_base = at, .iov_len = wanted - link->have};
    ssize_t got;
    if (link->socket->tls)
        return gcoll_tls_recv(link->socket->tls, &piece, 1, true);
    do {
        got = recv(link->socket->fd, at, piece.iov_len, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    return got;
}

void gcoll_link_ready(gcoll_link *link) {
    if (link->role == GCOLL_LINK_DIALER && link->session->state != GCOLL_SESSION_DIALING) {
        gcoll_dial_end(link->session); /* the session failed for another reason, not reported yet */
        return;
    }
    if (is_protected(link)) {
        if (!protect(link))
            return;
        if (link->role == GCOLL_LINK_DIALER && !link->proof.is_proved) {
            gcoll_dial_heard(link->session->dial);
            prove(link); /* nothing can have come yet */
            return;
        }
    }
    for (bool goes_on = true; goes_on;) {
        const size_t wanted = wanted_bytes(link);
        const ssize_t got = receive(link, wanted);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (got < 0 && errno == EPROTO && link->socket->tls) {
            unprotected(link, gcoll_tls_problem(link->socket->tls));
            return;
        }
        if (got <= 0 || link->role == GCOLL_LINK_RESERVE) {
            link_ended(link);
            return;
        }
        link->have += (size_t)got;
        if (link->role == GCOLL_LINK_STRANGER && !link->proof.is_challenged &&
            !gcoll_wire_may_be_hello(link->bytes, link->have)) {
            gcoll_link_drop(link);
            return;
        }
        goes_on = link->have < wanted || take_message(link, wanted);
    }
}
