/*
 * transport/tcp/stripes.h - the lane tcp with several connections: large messages are striped over them.
 *
 * The session's own connection keeps what it carries by the lane tcp: control frames, small messages, signs
 * of life, aborts and goodbyes. Beside it stand as many connections as both ranks have allowed, which carry
 * nothing but STRIPE frames: pieces of GCOLL_WIRE_STRIPE_BYTES of messages that the receiver has granted. A
 * control frame STRIPED on the session's connection begins such a message, as flow control wants it; a stripe
 * that comes before it waits in its connection, which is not read meanwhile. So stripes need no memory and no
 * flow control of their own, and go straight to the memory of the receive.
 *
 * Groups that share the session (session/branch.h) use its own connection alone: so their frames stay behind
 * the frame with their number, and keep their order.
 *
 *   stripes.c       the lane's table; how the connections are made
 *   stripe_move.c   stripes to and from them
 */
#ifndef GCOLL_STRIPES_H
#define GCOLL_STRIPES_H

#include "transport/session/connect.h"
#include "transport/session/session.h"

#define GCOLL_STRIPES_MAX 16
/* Most stripes of a message, each of which the receiver keeps a bit of. Larger messages are not striped. */
#define GCOLL_STRIPES_OF_MESSAGE (UINT64_C(1) << 20)
#define GCOLL_STRIPE_HEAD_BYTES  (GCOLL_WIRE_HEADER_BYTES + GCOLL_WIRE_CHECK_BYTES)
/* The records of messages that have come are kept for later ones if they have so many bytes for bits: enough
 * for messages of 117 MiB. */
#define GCOLL_STRIPES_USUAL_BYTES 64
/* slot->flags of an incoming message that is striped; its message->region is a gcoll_striped. */
#define GCOLL_STRIPES_SLOT ((uint32_t)GCOLL_FLOW_LANE)

typedef struct gcoll_stripe gcoll_stripe;
typedef struct gcoll_stripes gcoll_stripes;

/* An incoming message that has begun. */
typedef struct gcoll_striped {
    gcoll_slot *slot;
    uint64_t arrived;
    size_t claimed_bytes;
    uint8_t *whole; /* all of it, if stripes cut its elements: it is consumed when all has come; else NULL */
    struct gcoll_striped *next;
    uint8_t claimed[]; /* a bit for each stripe that came or is coming */
} gcoll_striped;

typedef struct gcoll_stripe_input {
    uint8_t head[GCOLL_STRIPE_HEAD_BYTES];
    size_t have; /* of `head` */
    gcoll_wire_header header;
    bool waits;             /* the message of `header` has not begun */
    gcoll_striped *message; /* whose bytes are coming; NULL: a header is */
    uint64_t offset;        /* in the message, of the next byte to come */
    size_t left;            /* of the stripe */
    uint8_t carry[GCOLL_GRANULE_MAX];
    uint32_t carried; /* bytes of an element that has not come whole; they lie in `carry` */
    /* With checksums. */
    uint8_t *gathered; /* GCOLL_WIRE_STRIPE_BYTES, for a message that is consumed; NULL until needed */
    uint32_t sum;      /* of what has come, unless it is gathered */
    uint32_t expected;
} gcoll_stripe_input;

/* A frame that the kernel has not taken whole. */
typedef struct gcoll_stripe_output {
    uint8_t head[GCOLL_STRIPE_HEAD_BYTES];
    size_t begin, end;
    const uint8_t *payload;
    size_t payload_bytes;
    gcoll_message *message; /* NULL: there is no frame */
    uint64_t written;       /* bytes that the kernel took */
    bool dead;              /* the kernel refused; reading tells why */
} gcoll_stripe_output;

/* One connection. */
struct gcoll_stripe {
    gcoll_stripes *all;
    gcoll_socket *socket; /* NULL: not yet, or lost */
    uint32_t number;      /* 1 and on */
    bool connecting;
    bool again;                                    /* to be dialed again */
    gcoll_proof proof;                             /* of one that was dialed */
    uint8_t challenge[GCOLL_WIRE_CHALLENGE_BYTES]; /* that is coming */
    size_t challenge_bytes;
    gcoll_stripe_input in;
    gcoll_stripe_output out;
};

typedef struct gcoll_stripes_port {
    uint32_t connections; /* of the options */
    gcoll_stripes *sessions;
} gcoll_stripes_port;

/* What a session has of the lane. */
struct gcoll_stripes {
    gcoll_session *session;
    gcoll_stripes_port *port;
    gcoll_stripes *next;          /* of the port */
    gcoll_message_queue messages; /* with stripes to be sent; `moved`: where the next one begins */
    gcoll_striped *arriving;
    gcoll_striped *spare; /* of GCOLL_STRIPES_USUAL_BYTES, so that no message has to allocate one */
    uint64_t heard;       /* bytes that came by all connections */
    bool stands, dials;
    uint32_t count; /* of connections; 0: the other rank has not said how many it allows */
    uint8_t token[GCOLL_WIRE_TOKEN_BYTES];  /* ours, known to whoever connects to us */
    uint8_t theirs[GCOLL_WIRE_TOKEN_BYTES]; /* that of the other rank */
    struct sockaddr_storage where;          /* the address to dial */
    uv_timer_t timer;
    int64_t until_ms;    /* the end of the meeting's time, and when that */
    int64_t due_ms;      /* ... was to be looked at next */
    int64_t retry_at_ms; /* when connections are made again */
    uint32_t retries;
    uint32_t most; /* connections that have been there at the same time */
    bool looked_again;
    uint32_t mute; /* the number of a connection that a network has swallowed; 0: none */
    char problem[GCOLL_SESSION_VERDICT_TEXT]; /* the latest; "": none */
    gcoll_stripe each[GCOLL_STRIPES_MAX];
};

extern const gcoll_flow_lane gcoll_stripes_flow; /* lane.c */

/* NULL: the session has not taken this lane. */
gcoll_stripes *gcoll_stripes_of(const gcoll_session *session);
/* A connection ended, or broke by the error. */
void gcoll_stripe_lost(gcoll_stripe *stripe, int error);

/* stripe_move.c */
/* As enqueue of a gcoll_flow_lane: granted messages of more than one stripe are striped. */
void gcoll_stripes_enqueue(gcoll_flow *flow, gcoll_message *message);
/* Writes until the kernel takes no more. Returns whether it took anything. */
bool gcoll_stripes_write(gcoll_stripes *all);
/* Whether there is something to write by this connection. */
bool gcoll_stripe_has_output(const gcoll_stripe *stripe);
/* Reads what has come, up to a limit. Returns whether anything had. */
bool gcoll_stripe_read(gcoll_stripe *stripe);
/* Forgets all messages. */
void gcoll_stripes_drop(gcoll_stripes *all);
void gcoll_stripes_free_spare(gcoll_stripes *all);

#endif
