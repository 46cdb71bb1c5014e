/*
 * transport/session/connect.h - making connections: interfaces, the listener, dialing, the greeting.
 */
#ifndef GCOLL_CONNECT_H
#define GCOLL_CONNECT_H

#include "transport/session/net.h"
#include "transport/session/proof.h"
#include "transport/session/wire.h"

/* Accepted connections that have not greeted; and so many more for each rank that have, and not proved who
 * they are. */
#define GCOLL_NET_STRANGERS_MAX 64
#define GCOLL_NET_STRANGER_MS   10000
#define GCOLL_NET_BACKLOG       4096

/* An established connection. Belongs to a link while hands are shaken, then to a session or to its stripes.
 */
struct gcoll_socket {
    uv_poll_t poll;
    int fd;
    bool wants_write; /* polled for being writable too */
    bool unwatched;   /* in the list of that name */
    bool deaf;        /* not polled for bytes */
    gcoll_socket *next_unwatched;
    gcoll_link *link;
    gcoll_session *session;
    struct gcoll_stripe *stripe; /* of a connection for stripes (transport/tcp) */
    gcoll_tls *tls;              /* NULL: bytes go as they are */
    gcoll_descriptor descriptor;
};

typedef enum gcoll_link_role {
    GCOLL_LINK_STRANGER, /* accepted; has not proved who it is */
    GCOLL_LINK_RESERVE,  /* has, and waits for the outcome of our own connection */
    GCOLL_LINK_DIALER    /* ours; has greeted, and waits for a challenge or an answer */
} gcoll_link_role;

struct gcoll_link {
    gcoll_net *net;
    gcoll_socket *socket;
    gcoll_session *session; /* RESERVE, DIALER */
    gcoll_link_role role;
    int64_t until_ms; /* STRANGER: when it is dropped */
    bool is_trusted;  /* STRANGER: of gcoll_net_trust_stranger */
    gcoll_link *next; /* STRANGER: from old to new; DIALER: another mute one */
    gcoll_proof proof;
    gcoll_wire_hello hello;                /* of the peer, when it has come */
    uint8_t bytes[GCOLL_WIRE_HELLO_BYTES]; /* the message that is coming: none is longer */
    size_t have;
};

/* protect.c: TLS of a new connection */
/* The endpoint's own copy. */
gcoll_status gcoll_net_set_encryption(gcoll_net *net, const gcoll_encryption *encryption);
void gcoll_net_end_encryption(gcoll_net *net);
/* Begins or goes on with it, when the challenge has gone or come. 1: bytes go by it from now on. 0: more must
 * come. -1: it failed; problem "": for another reason than TLS. */
int gcoll_link_protect(gcoll_link *link, char problem[GCOLL_TLS_TEXT_MAX]);

/* interfaces.c */
void gcoll_net_convert_address(const uv_interface_address_t *from, gcoll_host_address *to);
/* Fills net->address.hosts. *everywhere: the listener is to have the wildcard address. */
gcoll_status gcoll_net_find_interfaces(gcoll_net *net, const gcoll_endpoint_options *options,
                                       bool *everywhere);

/* listen.c */
/* Listens at net->address.hosts, and drops those of them that cannot be bound. */
gcoll_status gcoll_net_listen(gcoll_net *net, const gcoll_endpoint_options *options, bool everywhere);
/* Lets the event loop, which exists, accept connections. Returns 0 or a libuv error. */
int gcoll_net_watch_listeners(gcoll_net *net);
void gcoll_net_stop_listening(gcoll_net *net);
/* Takes a link out of the strangers. */
void gcoll_net_forget_stranger(gcoll_link *link);
/* It has greeted as only members can: it has as much time as they have to connect, and others do not push it
 * out. */
void gcoll_net_trust_stranger(gcoll_link *link);

/* local.c */
/* Chooses the congestion control of a listener that does not listen yet. */
void gcoll_net_local_listen(gcoll_net *net, int fd);
void gcoll_net_local_accepted(const gcoll_net *net, int fd);
/* Chooses it for a socket that is about to connect to a peer on this host. */
void gcoll_net_local_dial(int fd);
/* Whether both ends of a connection have the same address. */
bool gcoll_net_is_local(int fd);

/* socket.c */
/* Takes over a descriptor, and closes it on failure: then NULL. Forks must be held since it was made. */
gcoll_socket *gcoll_socket_new(gcoll_net *net, int fd);
/* Takes over the connection of a libuv handle (which the caller closes). NULL on failure. */
gcoll_socket *gcoll_socket_take(gcoll_net *net, uv_tcp_t *handle);
/* Tells libuv what to wait for: bytes, as long as we listen to the peer, and room if wants_write. */
void gcoll_socket_poll(gcoll_socket *socket);
/* Stops libuv from waiting for a socket that it polls. */
void gcoll_socket_unwatch(gcoll_socket *socket);
void gcoll_net_watch_all(gcoll_net *net);
void gcoll_socket_close(gcoll_socket *socket);
/* Bytes that TLS has taken, and the kernel not. */
static inline size_t gcoll_socket_unsent(const gcoll_socket *socket) {
    return socket->tls ? gcoll_tls_unsent(socket->tls) : 0;
}
/* Bytes that were taken, and the other host has not acknowledged. False: the kernel does not tell. */
bool gcoll_socket_unacknowledged(const gcoll_socket *socket, uint64_t *bytes);

/* alive.c */
/* How often the kernel has sent again what the other host does not acknowledge, and for how long that has
 * acknowledged nothing; 0 as long as one or two losses explain it. */
uint32_t gcoll_socket_repeats(const gcoll_socket *socket, int64_t *mute_ms);
/* Segments that were sent again on this connection. */
uint64_t gcoll_socket_retransmitted(const gcoll_socket *socket);

/* What is known of a peer after the handshake. */
typedef struct gcoll_session_peer {
    uint64_t eager_bytes, pool_bytes;
    const uint8_t *lanes;
    uint8_t key[GCOLL_SHA256_BYTES]; /* gcoll_proof_key_of_session */
} gcoll_session_peer;

/* handshake.c */
gcoll_link *gcoll_link_new(gcoll_net *net, gcoll_socket *socket, gcoll_link_role role);
/* Closes its socket if it still has one. */
void gcoll_link_drop(gcoll_link *link);
/* Reads what has come of the handshake. May drop the link. */
void gcoll_link_ready(gcoll_link *link);
/* By the token of the address that is called. */
bool gcoll_link_greet(gcoll_link *link, const uint8_t token[GCOLL_WIRE_TOKEN_BYTES]);
/* Answers "welcome" to the session's reserve link and connects the session by it. false if that link is dead.
 */
bool gcoll_session_adopt_reserve(gcoll_session *session);
/* tcp/stripes.c: the key of a connection for stripes that greets. false: no session waits for it. */
bool gcoll_stripes_key(gcoll_net *net, const gcoll_wire_hello *hello, uint8_t key[GCOLL_SHA256_BYTES]);
/* It has proved that it is the session's: takes its socket if that still waits for it; drops the link. */
void gcoll_stripes_greeted(gcoll_link *link, const gcoll_wire_hello *hello);
void gcoll_stripe_ready(struct gcoll_stripe *stripe, int status, int events);
/* The session owns the socket from now on. */
void gcoll_session_connected(gcoll_session *session, gcoll_socket *socket, const gcoll_session_peer *peer);

/* dial.c */
/* The answer came, or (reply NULL) the connection closed before. Drops the link. */
void gcoll_dial_answered(gcoll_dial *dial, gcoll_link *link, const gcoll_wire_reply *reply,
                         const char *garbage);
/* The peer cannot be trusted at this address: "refused TLS: ...". Drops the link. */
void gcoll_dial_refused(gcoll_dial *dial, gcoll_link *link, const char *problem);
/* The peer has answered by a challenge: its time begins anew. */
void gcoll_dial_heard(gcoll_dial *dial);
/* Reads the answers that have come already. May end the dial. */
void gcoll_dial_look(gcoll_dial *dial);
/* Whether the peer may have welcomed one of its connections. */
bool gcoll_dial_has_proved(const gcoll_dial *dial);
/* Stops connecting. NULL is fine. */
void gcoll_dial_end(gcoll_session *session);

#endif
