/*
 * transport/tcp/connect.h - making connections: interfaces, the listener, dialing, the greeting.
 */
#ifndef GCOLL_TCP_CONNECT_H
#define GCOLL_TCP_CONNECT_H

#include "transport/tcp/tcp.h"
#include "transport/wire.h"

/* Accepted connections that have not greeted. */
#define GCOLL_TCP_STRANGERS_MAX 64
#define GCOLL_TCP_STRANGER_MS   10000
#define GCOLL_TCP_BACKLOG       4096

/* An established connection. Belongs to a link while hands are shaken, then to a pair. */
struct gcoll_tcp_socket {
    uv_poll_t poll;
    int fd;
    bool wants_write; /* polled for being writable too */
    bool unwatched;   /* in the list of that name */
    gcoll_tcp_socket *next_unwatched;
    gcoll_tcp_link *link;
    gcoll_tcp_pair *pair;
    gcoll_descriptor descriptor;
};

typedef enum gcoll_tcp_link_role {
    GCOLL_TCP_STRANGER, /* accepted; its greeting is not complete */
    GCOLL_TCP_RESERVE,  /* greeted well, and waits for the outcome of our own connection */
    GCOLL_TCP_DIALER    /* ours; has greeted and waits for the answer */
} gcoll_tcp_link_role;

struct gcoll_tcp_link {
    gcoll_tcp *tcp;
    gcoll_tcp_socket *socket;
    gcoll_tcp_pair *pair; /* RESERVE, DIALER */
    gcoll_tcp_link_role role;
    int64_t until_ms;                      /* STRANGER: when it is dropped */
    gcoll_tcp_link *next;                  /* STRANGER: from old to new; DIALER: another mute one */
    gcoll_wire_hello hello;                /* RESERVE: what it said */
    uint8_t bytes[GCOLL_WIRE_HELLO_BYTES]; /* the greeting, or the answer to it */
    size_t have;
};

/* interfaces.c */
void gcoll_tcp_convert_address(const uv_interface_address_t *from, gcoll_host_address *to);
/* Fills tcp->address.hosts, and the one address to bind to; *everywhere if it is the wildcard. */
gcoll_status gcoll_tcp_find_interfaces(gcoll_tcp *tcp, const char *interface, const char *route_to,
                                       gcoll_host_address *bind_to, bool *everywhere);

/* listen.c */
gcoll_status gcoll_tcp_listen(gcoll_tcp *tcp, const gcoll_endpoint_options *options,
                              const gcoll_host_address *bind_to, bool everywhere);
void gcoll_tcp_stop_listening(gcoll_tcp *tcp);
/* Takes a link out of the strangers. */
void gcoll_tcp_forget_stranger(gcoll_tcp_link *link);

/* local.c */
/* Chooses the congestion control of a listener that does not listen yet. */
void gcoll_tcp_local_listen(gcoll_tcp *tcp, int fd);
void gcoll_tcp_local_accepted(const gcoll_tcp *tcp, int fd);
/* Chooses it for a socket that is about to connect to a peer on this host. */
void gcoll_tcp_local_dial(int fd);

/* socket.c */
/* Takes over a descriptor, and closes it on failure: then NULL. Forks must be held since it was made. */
gcoll_tcp_socket *gcoll_tcp_socket_new(gcoll_tcp *tcp, int fd);
/* Takes over the connection of a libuv handle (which the caller closes). NULL on failure. */
gcoll_tcp_socket *gcoll_tcp_socket_take(gcoll_tcp *tcp, uv_tcp_t *handle);
/* Tells libuv what to wait for: bytes, as long as we listen to the peer, and room if wants_write. */
void gcoll_tcp_socket_poll(gcoll_tcp_socket *socket);
/* Stops libuv from waiting for a socket that it polls. */
void gcoll_tcp_socket_unwatch(gcoll_tcp_socket *socket);
void gcoll_tcp_watch_all(gcoll_tcp *tcp);
void gcoll_tcp_socket_close(gcoll_tcp_socket *socket);

/* handshake.c */
gcoll_tcp_link *gcoll_tcp_link_new(gcoll_tcp *tcp, gcoll_tcp_socket *socket, gcoll_tcp_link_role role);
/* Closes its socket if it still has one. */
void gcoll_tcp_link_drop(gcoll_tcp_link *link);
/* Reads the greeting or the answer as far as it has come. May drop the link. */
void gcoll_tcp_link_ready(gcoll_tcp_link *link);
bool gcoll_tcp_send_hello(gcoll_tcp_link *link, const uint8_t token[GCOLL_WIRE_TOKEN_BYTES]);
/* Answers "welcome" to the pair's reserve link and connects the pair by it. false if that link is dead. */
bool gcoll_tcp_adopt_reserve(gcoll_tcp_pair *pair);
/* The pair owns the socket from now on. */
void gcoll_tcp_connected(gcoll_tcp_pair *pair, gcoll_tcp_socket *socket, uint64_t peer_eager,
                         uint64_t peer_pool);

/* dial.c */
/* The answer came, or (reply NULL) the connection closed before. Drops the link. */
void gcoll_tcp_dial_answered(gcoll_tcp_dial *dial, gcoll_tcp_link *link, const gcoll_wire_reply *reply,
                             const char *garbage);
/* Reads the answers that have come already. May end the dial. */
void gcoll_tcp_dial_look(gcoll_tcp_dial *dial);
bool gcoll_tcp_dial_has_greeted(const gcoll_tcp_dial *dial);
/* Stops connecting. NULL is fine. */
void gcoll_tcp_dial_end(gcoll_tcp_pair *pair);

#endif
