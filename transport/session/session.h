/*
 * transport/session/session.h - an endpoint's state for one peer: the connection, and the messages to and
 * from it.
 */
#ifndef GCOLL_SESSION_H
#define GCOLL_SESSION_H

#include "transport/flow/flow.h"
#include "transport/session/net.h"
#include "transport/session/wire.h"

/* One read takes many small frames; more would only move copies from the next read. */
#define GCOLL_SESSION_INPUT_BYTES 65536
/* Where bytes on their way to `consume` are put: stays in the second-level cache. */
#define GCOLL_SESSION_HOT_BYTES (256 * 1024)
/* Read from one session before others have their turn. */
#define GCOLL_SESSION_READ_BUDGET (4U << 20)
/* Payloads up to this are copied behind their header: cheaper than one more piece for the kernel. */
#define GCOLL_SESSION_COPY_MAX 1024
/* A control buffer this large gets no more control frames that can wait. */
#define GCOLL_SESSION_CONTROL_STEP 4096
#define GCOLL_SESSION_FIXED_HEADERS                                                                          \
    (2 * (GCOLL_WIRE_HEADER_BYTES + GCOLL_WIRE_CHECK_BYTES) + GCOLL_FINGERPRINT_BYTES)

/* The lane of a session. */
typedef struct gcoll_session_lane {
    const gcoll_net_lane *taken; /* NULL: not yet, or none is left */
    void *state;                 /* the lane's own */
    bool stands;                 /* messages go */
    bool is_stream;              /* ... by the session's own connection */
    bool in_doubt, only_follows; /* it broke; see gcoll_session_doubt */
    int64_t doubt_ms, doubt_until_ms, doubt_last_ms;
    uint64_t doubt_heard; /* session->heard when its time began */
    bool awaits_rest;     /* the peer has left; see gcoll_session_awaits_rest */
    int64_t rest_until_ms;
    uint64_t rest_heard;             /* by the lane's connections */
    bool tells;                      /* we have ended it: the peer must hear why, by an abort */
    bool finished;                   /* our goodbye has arrived; see finish of gcoll_lane */
    uint32_t refused;                /* a bit for each of net->lanes */
    uint8_t offers[GCOLL_LANES_MAX]; /* of the peer */
    gcoll_message_queue accesses;    /* that wait for it; each the first member of a gcoll_remote_access */
    char *why;                       /* why not a better one; NULL: there is none */
} gcoll_session_lane;

typedef enum gcoll_session_state {
    GCOLL_SESSION_IDLE, /* neither side has connected */
    GCOLL_SESSION_DIALING,
    GCOLL_SESSION_CONNECTED,
    GCOLL_SESSION_DEPARTED, /* the peer said goodbye; complete messages of its may still be received */
    GCOLL_SESSION_FAILED
} gcoll_session_state;

typedef struct gcoll_session_input {
    uint8_t *bytes; /* GCOLL_SESSION_INPUT_BYTES */
    size_t begin, end;
    gcoll_slot *slot;   /* whose payload is coming; NULL: it is thrown away */
    gcoll_flow *flow;   /* of `slot`: the session's own, or that of a channel */
    uint64_t remaining; /* of the payload of the current frame */
    bool bulk;          /* the last payload was large */
    bool goodbye;
    bool is_special; /* goodbye; or a GROUP frame came: the next frame is of this group */
    uint64_t group;

    /* Of a session with checksums. */
    uint8_t *fragment; /* GCOLL_WIRE_CHECKED_MAX; holds what has come of the current payload, unless: */
    bool in_place;     /* it comes to the caller's memory, and its CRC so far is: */
    uint32_t sum;
    uint64_t arrived;     /* of the current payload */
    gcoll_wire_sums sums; /* of the current frame */
} gcoll_session_input;

/* A frame of which the kernel took a part. It must be finished before anything else is written. */
typedef struct gcoll_session_cut {
    uint8_t bytes[GCOLL_SESSION_FIXED_HEADERS + GCOLL_SESSION_COPY_MAX];
    size_t begin, end;
    const uint8_t *payload;
    uint64_t payload_bytes;
    gcoll_message *message; /* NULL once it needs nothing but `bytes` */
} gcoll_session_cut;

typedef struct gcoll_session_output {
    gcoll_byte_queue control;     /* encoded frames; they overtake data */
    gcoll_message_queue messages; /* that may be sent */
    gcoll_message_queue sealed;   /* that TLS has whole, and the kernel not: `done` waits for that */
    gcoll_session_cut cut;
    bool ping, pong;
    bool credit;       /* is owed, and goes by itself if no message takes it along; or some channel has
                        * something to say */
    bool dead;         /* the kernel refused; reading tells why */
    bool last_frame;   /* the goodbye is among the control frames: no probe, answer or credit may follow it */
    bool unsent;       /* TLS has bytes that the kernel has not taken */
    bool ended;        /* nothing may follow: the end of the stream is said, though the kernel still sends */
    bool forwards;     /* the PING passes on a question of another rank */
    uint32_t answers;  /* the number of the PING that a pong answers */
    uint64_t written;  /* bytes that the kernel took */
    uint64_t data_end; /* of them, up to the last byte of a message's frame */
} gcoll_session_output;

/* Signs of life of a peer, for long waits (alive.c). */
typedef struct gcoll_session_alive {
    uint64_t taken;       /* by the peer's host, when it was last looked at */
    uint32_t ping;        /* number of the latest PING */
    uint32_t tracked;     /* of the one whose answer will tell that the peer was alive since... */
    int64_t tracked_ms;   /* ... this time; 0: none is tracked */
    uint64_t tracked_end; /* where it ends in the stream */
    uint32_t asks_about;  /* the rank that the peer wants to hear about, and 1; 0: none */
} gcoll_session_alive;

struct gcoll_session {
    gcoll_flow flow; /* the first member */
    gcoll_net *net;
    uint32_t rank;
    uint8_t key[GCOLL_SHA256_BYTES]; /* if connected: gcoll_proof_key_of_session */
    gcoll_session_state state;
    gcoll_socket *socket; /* CONNECTED; and FAILED by what the peer sent, or for what this rank lacks, to
                           * be told so by an abort */
    gcoll_dial *dial;     /* DIALING */
    gcoll_link *reserve;

    gcoll_session_lane lane;
    uint64_t peer_eager, peer_pool; /* of the lane tcp */
    uint32_t posted;                /* receives that somebody waits for */
    gcoll_session_input input;
    gcoll_session_output output;

    bool told;    /* an abort came from it: it need not be told of ours */
    bool is_gone; /* its endpoint is closed, and lives for those that share its connections */
    bool goes;    /* the same, when the rest of what it has sent is there; see gcoll_session_awaits_rest */

    gcoll_channel *channels; /* all, */
    gcoll_channel *speaking; /* and those with a probe, an answer or credit to be encoded */

    uint64_t heard; /* bytes that came */
    gcoll_session_alive alive;

    /* Singly linked lists of the endpoint, with a flag for membership. */
    gcoll_session *next_output, *next_hot, *next_verdict;
    bool in_outputs, in_hot, in_verdicts;

    /* What to report: departed if status is GCOLL_OK, else failed. */
    gcoll_status verdict;
    char verdict_text[GCOLL_SESSION_VERDICT_TEXT];
    bool changed; /* ... on its way is what the peer sent: that is what to report */
};

/* endpoint.c */
/* The session of a rank, made if need be; NULL without memory. */
gcoll_session *gcoll_session_of(gcoll_net *net, uint32_t rank);
/* Forgets all messages, calling nothing. What is left of a frame that was cut stays. */
void gcoll_session_drop(gcoll_session *session);
/* Copies the rest of a frame that the kernel has taken in part, and the control frames after it, as the
 * caller may now reuse its memory. The next write then begins a new frame. False: the rest is too large, or
 * out of memory. */
bool gcoll_session_keep_cut(gcoll_session *session);
/* Frees all that a departed or failed session no longer needs. No message is touched afterwards. */
void gcoll_session_release(gcoll_session *session);
/* Frees all of it. NULL is fine. */
void gcoll_session_destroy(gcoll_session *session);

/* gcoll_session_opened, gcoll_session_complete and gcoll_session_complete_receive, in every message's way. */
static inline void gcoll_session_open(gcoll_session *session, uint64_t stream, const uint8_t *fingerprint) {
    gcoll_net *net = session->net;
    if (!net->leaving && net->events.opened) {
        net->moved = true;
        net->events.opened(net->events.arg, session->rank, stream, fingerprint);
    }
}

static inline void gcoll_session_push(gcoll_session *session, gcoll_message *message) {
    gcoll_message_push(&session->net->completed, message);
}

static inline void gcoll_session_push_receive(gcoll_session *session, gcoll_message *message) {
    session->posted -= !message->background;
    gcoll_session_push(session, message);
}

/* lane.c */
extern const gcoll_flow_lane gcoll_no_flow_lane; /* until a lane stands */
/* The peer is connected, and offers these: takes the best lane of both. */
void gcoll_session_take_lane(gcoll_session *session, const uint8_t offers[GCOLL_LANES_MAX]);
/* Hands over what came before the receive. */
void gcoll_session_deliver(gcoll_session *session, gcoll_slot *slot);
void gcoll_session_on_lane(gcoll_session *session, const gcoll_wire_header *header, const uint8_t *bytes);
/* Forgets messages, or all that the lane has. */
void gcoll_session_drop_lane(gcoll_session *session);
void gcoll_session_end_lane(gcoll_session *session);
void gcoll_session_end_doubt(gcoll_session *session);
/* The peer has said goodbye, and its connection has ended. Whether the rest of what it has sent still comes
 * by other connections: then the session stays connected until it is there, or nothing has come for a time.
 */
bool gcoll_session_awaits_rest(gcoll_session *session);
/* Takes all that the lane has brought already: what came before some news of the peer goes before it. */
void gcoll_session_catch_up(gcoll_session *session);

/* read.c */
/* Reads from the socket, at most `budget` bytes. Returns whether anything came. */
bool gcoll_session_read(gcoll_session *session, size_t budget);
/* Hands bytes of a message to its `consume`. bytes NULL: they are in the hot buffer, after slot->carry. */
void gcoll_session_consume(gcoll_session *session, gcoll_slot *slot, const uint8_t *bytes, uint64_t count);
/* As gcoll_session_accept, of the payload that is coming, which may be of a group. */
void gcoll_tcp_accept(gcoll_session *session, gcoll_slot *slot, const uint8_t *bytes, uint64_t count);

/* tcp/stripe_move.c */
/* A striped message begins. */
void gcoll_stripes_on_striped(gcoll_session *session, const gcoll_flow_frame *data);

/* checked.c */
/* Fails the session because bytes were changed on their way. Neither rank is at fault. */
void gcoll_session_changed(gcoll_session *session, const char *what);
/* A frame with a payload of input.remaining bytes for input.slot begins. */
void gcoll_tcp_checked_begin(gcoll_session *session);
/* Where the rest of the current payload goes. *count: how much of it fits there. */
uint8_t *gcoll_tcp_checked_target(gcoll_session *session, size_t *count);
/* `count` bytes of the current payload are here: at `bytes`, or (NULL) where the target was. */
void gcoll_tcp_checked_accept(gcoll_session *session, const uint8_t *bytes, size_t count);

/* write.c */
/* Writes pending output until the kernel takes no more. */
void gcoll_session_write(gcoll_session *session);
bool gcoll_session_has_output(const gcoll_session *session);
/* The message may go. */
void gcoll_session_enqueue(gcoll_session *session, gcoll_message *message);
/* Encodes a frame of flow control, with room for GCOLL_SESSION_FIXED_HEADERS. Returns its bytes. */
size_t gcoll_session_put_control(uint8_t *bytes, const gcoll_flow_frame *control);
/* Appends an encoded frame that overtakes data. */
void gcoll_session_append_control(gcoll_session *session, const uint8_t *bytes, size_t count);
/* The same of a group, by its number. */
void gcoll_session_append_grouped(gcoll_session *session, uint64_t group, const uint8_t *bytes, size_t count);
/* Appends the goodbye. */
void gcoll_session_say_goodbye(gcoll_session *session);
void gcoll_session_want_output(gcoll_session *session);

/* alive.c */
/* Appends the PING, or the answer to one, that waits to be said. channel NULL: of the endpoint itself. */
void gcoll_session_say_ping(gcoll_session *session, gcoll_channel *channel);
void gcoll_session_say_pong(gcoll_session *session, gcoll_channel *channel);
void gcoll_session_on_ping(gcoll_session *session, gcoll_channel *channel, const gcoll_wire_header *header);
void gcoll_session_on_pong(gcoll_session *session, gcoll_channel *channel, const gcoll_wire_header *header);
/* The number of bytes up to position `end` of the stream that the peer's host has acknowledged, if it can be
 * told, else `before`. */
uint64_t gcoll_session_taken(const gcoll_session *session, uint64_t end, uint64_t before);
void gcoll_session_on_witness(gcoll_session *session, const gcoll_wire_header *header);

/* progress.c */
/* The peer has left: at once, or when the rest of what it has sent is there. To be called again until then.
 */
void gcoll_session_depart(gcoll_session *session);
void gcoll_session_make_hot(gcoll_session *session);

#endif
