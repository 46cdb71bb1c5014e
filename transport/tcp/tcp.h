/*
 * transport/tcp/tcp.h - the parts of a TCP endpoint. Only transport/tcp and its tests include it.
 *
 * One endpoint owns one libuv loop and is driven by one thread. libuv connects, keeps timers and says which
 * descriptor is ready when progress blocks; data is read and written directly on the descriptors. A pair is
 * what the endpoint knows of one peer: it exists from the first post or connection on. Where to find what:
 *
 *   endpoint.c    the table of operations, opening, pairs
 *   interfaces.c  which addresses to listen on and to publish
 *   listen.c      the listener, accepted connections until they have greeted
 *   dial.c        connecting to a peer
 *   local.c       what is different for a connection within the host
 *   socket.c      an established connection: a descriptor and its readiness
 *   handshake.c   HELLO, its answer, which of two crossing connections stays
 *   flow.c        credit, grants, matching: when a message may move
 *   read.c        bytes from the socket to messages
 *   write.c       messages to the socket
 *   progress.c    polling, waiting, calling back
 *   patience.c    whether a wait polls, yields or sleeps
 *   leave.c       abort, close
 *   list.c        interfaces, for gcoll_devices
 *   side.c        for a transport that uses an endpoint beside its own means
 *
 * Callbacks (`done` and events) are called from progress alone: posting and flushing only mark what there is
 * to report. So reading and writing never see the tables change under them, but where they call
 * `opened` or `consume` themselves.
 */
#ifndef GCOLL_TCP_H
#define GCOLL_TCP_H

#include <uv.h>

#include "transport/address.h"
#include "transport/match.h"
#include "transport/tcp/patience.h"
#include "transport/transport.h"
#include "transport/wire.h"

/* Credit that a message costs beyond its bytes, for the receiver's bookkeeping: so that a flood of empty
 * messages is bounded too. */
#define GCOLL_TCP_OVERHEAD_BYTES 64
/* The largest default message that goes unasked: below it a copy at the receiver costs less than waiting. */
#define GCOLL_TCP_EAGER_BYTES (UINT64_C(256) << 10)
#define GCOLL_TCP_POOL_BYTES  (UINT64_C(4) << 20)
/* Credit must fit the 32 bits of a header; less than the least pool could not hold anything. */
#define GCOLL_TCP_POOL_MIN UINT64_C(1024)
#define GCOLL_TCP_POOL_MAX (UINT64_C(1) << 31)
/* Most grants, and most offers, that may be open on a pair in one direction: what a peer can make us
 * remember. */
#define GCOLL_TCP_PROMISES_MAX UINT32_C(65536)
/* One read takes many small frames; more would only move copies from the next read. */
#define GCOLL_TCP_INPUT_BYTES 65536
/* Where bytes on their way to `consume` are put: stays in the second-level cache. */
#define GCOLL_TCP_HOT_BYTES (256 * 1024)
/* Read from one pair before others have their turn. */
#define GCOLL_TCP_READ_BUDGET (4U << 20)
/* Payloads up to this are copied behind their header: cheaper than one more piece for the kernel. */
#define GCOLL_TCP_COPY_MAX 1024
/* Accepted connections that have not greeted. */
#define GCOLL_TCP_STRANGERS_MAX 64
#define GCOLL_TCP_STRANGER_MS   10000
#define GCOLL_TCP_BACKLOG       4096
#define GCOLL_TCP_CONNECT_MS    30000
/* Whatever the unit: the longest time that counts; in microseconds 142 years. */
#define GCOLL_TCP_TIME_MAX     (INT64_C(1) << 52)
#define GCOLL_TCP_VERDICT_TEXT 192
/* A name of congestion control, with its end: TCP_CA_NAME_MAX of the kernel and one. */
#define GCOLL_TCP_CONTROL_BYTES 17
#define GCOLL_TCP_FIXED_HEADERS (GCOLL_WIRE_HEADER_BYTES + GCOLL_FINGERPRINT_BYTES)

typedef struct gcoll_tcp gcoll_tcp;
typedef struct gcoll_tcp_pair gcoll_tcp_pair;
typedef struct gcoll_tcp_link gcoll_tcp_link;
typedef struct gcoll_tcp_dial gcoll_tcp_dial;
typedef struct gcoll_tcp_socket gcoll_tcp_socket;

/* An established connection. Belongs to a link while hands are shaken, then to a pair. */
struct gcoll_tcp_socket {
    uv_poll_t poll;
    int fd;
    bool wants_write; /* polled for being writable too */
    bool unwatched;   /* in the list of that name */
    gcoll_tcp_socket *next_unwatched;
    gcoll_tcp_link *link;
    gcoll_tcp_pair *pair;
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

typedef enum gcoll_tcp_state {
    GCOLL_TCP_IDLE, /* neither side has connected */
    GCOLL_TCP_DIALING,
    GCOLL_TCP_CONNECTED,
    GCOLL_TCP_DEPARTED, /* the peer said goodbye; complete messages of its may still be received */
    GCOLL_TCP_FAILED
} gcoll_tcp_state;

/* gcoll_slot.flags of incoming messages */
enum {
    GCOLL_TCP_STARTED = 1,   /* bytes have come */
    GCOLL_TCP_CREDITED = 2,  /* STARTED, and uses credit */
    GCOLL_TCP_GRANTED = 4,   /* not STARTED; we have sent a grant */
    GCOLL_TCP_OFFERED = 8,   /* not STARTED; the peer said that it waits */
    GCOLL_TCP_UNGRANTED = 16 /* in the list of that name */
};

/* gcoll_slot.flags of outgoing messages */
enum {
    GCOLL_TCP_PROMISED = 1, /* a grant came before the send was posted */
    GCOLL_TCP_ASKED = 2,    /* we have sent an offer */
    GCOLL_TCP_LISTED = 4    /* in the list of those that wait for credit */
};

/* gcoll_message.flags of sends */
enum {
    GCOLL_TCP_ON_CREDIT = 1,
    GCOLL_TCP_OPENED = 2, /* the fingerprint has travelled */
    GCOLL_TCP_FOLLOWS = 4 /* an offer, which counts until the message's first byte has left */
};

typedef struct gcoll_tcp_input {
    uint8_t *bytes; /* GCOLL_TCP_INPUT_BYTES */
    size_t begin, end;
    gcoll_slot *slot;   /* whose payload is coming; NULL: it is thrown away */
    uint64_t remaining; /* of the payload of the current frame */
    bool bulk;          /* the last payload was large */
    bool goodbye;
} gcoll_tcp_input;

/* A frame of which the kernel took a part. It must be finished before anything else is written. */
typedef struct gcoll_tcp_cut {
    uint8_t bytes[GCOLL_TCP_FIXED_HEADERS + GCOLL_TCP_COPY_MAX];
    size_t begin, end;
    const uint8_t *payload;
    uint64_t payload_bytes;
    gcoll_message *message; /* NULL once it needs nothing but `bytes` */
} gcoll_tcp_cut;

typedef struct gcoll_tcp_output {
    uint8_t *control; /* encoded frames; they overtake data */
    size_t begin, end, capacity;
    gcoll_message *head, *tail; /* messages that may be sent */
    gcoll_tcp_cut cut;
    bool ping, pong;
    bool dead; /* the kernel refused; reading tells why */
} gcoll_tcp_output;

struct gcoll_tcp_pair {
    gcoll_tcp *tcp;
    uint32_t rank;
    gcoll_tcp_state state;
    gcoll_tcp_socket *socket; /* CONNECTED; and FAILED by what the peer sent, to be told so by an abort */
    gcoll_tcp_dial *dial;     /* DIALING */
    gcoll_tcp_link *reserve;

    /* Incoming. */
    gcoll_match incoming;
    gcoll_slot_list ungranted; /* posted, not started, not granted */
    uint32_t posted;           /* receives that somebody waits for */
    uint32_t granted;          /* grants that no message has answered */
    uint32_t offered;          /* offers of the peer that no message has followed */
    bool starved;              /* some grant waits for `granted` to fall */
    uint64_t used;             /* of our pool: held, being received, or owed */
    uint64_t owed;             /* consumed but not given back yet */
    uint64_t held;             /* bytes in memory that no receive waits for */
    gcoll_tcp_input input;

    /* Outgoing. */
    gcoll_match outgoing;
    gcoll_slot_list waiting; /* for credit; before the connection: all sends */
    uint32_t promised;       /* grants that we remember */
    uint32_t asked;          /* offers of ours that no message has followed */
    uint64_t credit;
    uint64_t peer_eager, peer_pool;
    gcoll_tcp_output output;

    bool told; /* an abort came from it: it need not be told of ours */

    /* Singly linked lists of the endpoint, with a flag for membership. */
    gcoll_tcp_pair *next_output, *next_hot, *next_verdict;
    bool in_outputs, in_hot, in_verdicts;

    /* What to report: departed if status is GCOLL_OK, else failed. */
    gcoll_status verdict;
    char verdict_text[GCOLL_TCP_VERDICT_TEXT];
};

struct gcoll_tcp {
    uv_loop_t loop;
    uv_async_t waker;
    uv_timer_t alarm;   /* ends a blocked wait */
    uv_timer_t sweeper; /* drops strangers that do not speak */
    uv_poll_t listener; /* if `listens` */
    uv_timer_t pause;   /* ends a time without accepting */
    int listener_fd;
    bool listens;
    bool has_control;                      /* the listener was given another congestion control than */
    char control[GCOLL_TCP_CONTROL_BYTES]; /* ... this, the system's */
    gcoll_events events;
    uint32_t rank, size;
    uint8_t group[16];
    uint64_t eager_bytes, pool_bytes;
    int64_t connect_timeout_ms;
    gcoll_patience patience;
    uint64_t position;
    bool concerned; /* probes carry what follows */
    uint64_t concern_stream;
    uint8_t concern[GCOLL_FINGERPRINT_BYTES];
    gcoll_address address; /* ours */

    gcoll_tcp_pair **pairs; /* by rank; NULL until needed */
    gcoll_tcp_pair *outputs;
    gcoll_tcp_pair *hot; /* connected, and somebody waits for something of theirs */
    uint32_t hot_count;
    gcoll_tcp_socket *unwatched; /* not polled by libuv, as they are read directly; their pairs are hot */
    uint32_t streak;             /* direct reads that found something since libuv last had all sockets */
    gcoll_tcp_pair *verdicts, *last_verdict;
    gcoll_message *completed, *last_completed;
    gcoll_tcp_link *strangers;
    uint32_t stranger_count;

    uint8_t *hot_bytes; /* GCOLL_TCP_HOT_BYTES */
    struct {
        uv_poll_t poll;
        bool watches, seen; /* the descriptor of side.h */
        bool woken;         /* a wait ended by a wake */
    } side;
    uint32_t polls;
    bool moved; /* something was reported in this progress */
    bool busy;  /* bytes moved in this poll */
    bool woken;
    bool curious; /* a message without a receive counts as reported, until progress returns */
    bool leaving; /* abort or close has begun: messages are dropped, nothing is reported */
    bool has_note;
    gcoll_note note; /* of our abort */
};

static inline gcoll_tcp *gcoll_tcp_of(gcoll_endpoint *endpoint) {
    return (gcoll_tcp *)(void *)endpoint;
}

/* A time as given by a caller, small enough to be added to the clock and to be converted to any unit. */
static inline int64_t gcoll_tcp_bounded(int64_t time) {
    return time < GCOLL_TCP_TIME_MAX ? time : GCOLL_TCP_TIME_MAX;
}

/* endpoint.c */
/* The pair of a rank, made if need be; NULL without memory. */
gcoll_tcp_pair *gcoll_tcp_pair_of(gcoll_tcp *tcp, uint32_t rank);
/* Forgets all messages, calling nothing. What is left of a frame that was cut stays. */
void gcoll_tcp_pair_drop(gcoll_tcp_pair *pair);
/* Frees what a pair does not need once it departed or failed: nothing of its messages is touched afterwards.
 */
void gcoll_tcp_pair_release(gcoll_tcp_pair *pair);
/* Frees all of it. NULL is fine. */
void gcoll_tcp_pair_destroy(gcoll_tcp_pair *pair);

/* list.c */
void gcoll_tcp_list(gcoll_device_fn fn, void *arg);

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
/* Of a listener that does not listen yet. */
void gcoll_tcp_local_listen(gcoll_tcp *tcp, int fd);
void gcoll_tcp_local_accepted(const gcoll_tcp *tcp, int fd);
/* Of a socket that is about to connect to a peer on this host. */
void gcoll_tcp_local_dial(int fd);

/* socket.c */
/* Takes over a descriptor, and closes it on failure: then NULL. */
gcoll_tcp_socket *gcoll_tcp_socket_new(gcoll_tcp *tcp, int fd);
/* Takes over the connection of a libuv handle (which the caller closes). NULL on failure. */
gcoll_tcp_socket *gcoll_tcp_socket_take(gcoll_tcp *tcp, uv_tcp_t *handle);
/* Tells libuv what to wait for: bytes, as long as we listen to the peer, and room if wants_write. */
void gcoll_tcp_socket_poll(gcoll_tcp_socket *socket);
/* Lets libuv not wait for it any more. Of a socket that is polled. */
void gcoll_tcp_socket_unwatch(gcoll_tcp_socket *socket);
void gcoll_tcp_watch_all(gcoll_tcp *tcp);
void gcoll_tcp_socket_close(gcoll_tcp_socket *socket);

/* handshake.c */
gcoll_tcp_link *gcoll_tcp_link_new(gcoll_tcp *tcp, gcoll_tcp_socket *socket, gcoll_tcp_link_role role);
/* Closes its socket if it still has one. */
void gcoll_tcp_link_drop(gcoll_tcp_link *link);
/* Reads what there is; may end in a drop. */
void gcoll_tcp_link_ready(gcoll_tcp_link *link);
bool gcoll_tcp_send_hello(gcoll_tcp_link *link, const uint8_t token[GCOLL_WIRE_TOKEN_BYTES]);
/* Answers "welcome" to the pair's reserve link and connects the pair by it. false if that link is dead. */
bool gcoll_tcp_adopt_reserve(gcoll_tcp_pair *pair);
/* The pair owns the socket from now on. */
void gcoll_tcp_connected(gcoll_tcp_pair *pair, gcoll_tcp_socket *socket, uint64_t peer_eager,
                         uint64_t peer_pool);

/* dial.c */
gcoll_status gcoll_tcp_connect(gcoll_endpoint *endpoint, uint32_t peer, const char *address);
/* The answer came, or (reply NULL) the connection closed before. Drops the link. */
void gcoll_tcp_dial_answered(gcoll_tcp_dial *dial, gcoll_tcp_link *link, const gcoll_wire_reply *reply,
                             const char *garbage);
/* Reads the answers that are here already; may end the dial. */
void gcoll_tcp_dial_look(gcoll_tcp_dial *dial);
bool gcoll_tcp_dial_has_greeted(const gcoll_tcp_dial *dial);
/* Stops connecting. NULL is fine. */
void gcoll_tcp_dial_end(gcoll_tcp_pair *pair);

/* flow.c */
void gcoll_tcp_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
void gcoll_tcp_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
/* The connection stands: sorts out the sends that waited for it. */
void gcoll_tcp_flow_start(gcoll_tcp_pair *pair);
/* Frames other than DATA. They may fail the pair. */
void gcoll_tcp_on_grant(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
void gcoll_tcp_on_revoke(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
void gcoll_tcp_on_offer(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
void gcoll_tcp_on_credit(gcoll_tcp_pair *pair, uint32_t credit);
bool gcoll_tcp_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index);
/* The slot whose bytes follow; NULL if the pair failed. */
gcoll_slot *gcoll_tcp_on_data(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
/* All bytes are there and a receive is posted. */
void gcoll_tcp_finish_recv(gcoll_tcp_pair *pair, gcoll_slot *slot);
/* Least credit owed that is worth a frame of its own. */
uint64_t gcoll_tcp_credit_step(const gcoll_tcp_pair *pair);

/* read.c */
/* Reads what there is, at most `budget` bytes. Whether there was anything. */
bool gcoll_tcp_read(gcoll_tcp_pair *pair, size_t budget);
/* Hands bytes of a message to its `consume`. bytes NULL: they are in the hot buffer, after slot->carry. */
void gcoll_tcp_consume(gcoll_tcp_pair *pair, gcoll_slot *slot, const uint8_t *bytes, uint64_t count);

/* write.c */
/* Writes what there is until the kernel takes no more. */
void gcoll_tcp_write(gcoll_tcp_pair *pair);
bool gcoll_tcp_has_output(const gcoll_tcp_pair *pair);
/* The message may go. */
void gcoll_tcp_enqueue(gcoll_tcp_pair *pair, gcoll_message *message);
/* Appends an encoded frame that overtakes data. */
void gcoll_tcp_append_control(gcoll_tcp_pair *pair, const uint8_t *bytes, size_t count);
void gcoll_tcp_send_control(gcoll_tcp_pair *pair, gcoll_wire_kind kind, uint64_t stream, uint32_t index);
void gcoll_tcp_want_output(gcoll_tcp_pair *pair);
void gcoll_tcp_flush_all(gcoll_tcp *tcp);
void gcoll_tcp_flush(gcoll_endpoint *endpoint);

/* progress.c */
gcoll_status gcoll_tcp_progress(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved);
void gcoll_tcp_wake(gcoll_endpoint *endpoint);
/* Lets libuv see to everything, waiting for up to wait_us. */
void gcoll_tcp_block(gcoll_tcp *tcp, int64_t wait_us);
void gcoll_tcp_complete(gcoll_tcp *tcp, gcoll_message *message);
/* Calls `done` of what is complete. */
void gcoll_tcp_report_completed(gcoll_tcp *tcp);
/* Marks the pair as broken; `failed` follows from progress. The first failure counts. */
void gcoll_tcp_fail(gcoll_tcp_pair *pair, gcoll_status status, const char *format, ...) GCOLL_PRINTF(3, 4);
void gcoll_tcp_depart(gcoll_tcp_pair *pair);
void gcoll_tcp_make_hot(gcoll_tcp_pair *pair);

/* leave.c */
void gcoll_tcp_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms);
void gcoll_tcp_close(gcoll_endpoint *endpoint, int64_t limit_ms);
/* Drops what a failed open has made. */
void gcoll_tcp_destroy(gcoll_tcp *tcp);

#endif
