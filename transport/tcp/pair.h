/*
 * transport/tcp/pair.h - an endpoint's state for one peer: the connection, and the messages to and from it.
 */
#ifndef GCOLL_TCP_PAIR_H
#define GCOLL_TCP_PAIR_H

#include "transport/match.h"
#include "transport/tcp/tcp.h"
#include "transport/wire.h"

/* Credit that a message costs beyond its bytes, for the receiver's bookkeeping: so that a flood of empty
 * messages is bounded too. */
#define GCOLL_TCP_OVERHEAD_BYTES 64
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
#define GCOLL_TCP_COPY_MAX      1024
#define GCOLL_TCP_FIXED_HEADERS (GCOLL_WIRE_HEADER_BYTES + GCOLL_WIRE_CHECK_BYTES + GCOLL_FINGERPRINT_BYTES)

typedef enum gcoll_tcp_state {
    GCOLL_TCP_IDLE, /* neither side has connected */
    GCOLL_TCP_DIALING,
    GCOLL_TCP_CONNECTED,
    GCOLL_TCP_DEPARTED, /* the peer said goodbye; complete messages of its may still be received */
    GCOLL_TCP_FAILED
} gcoll_tcp_state;

/* gcoll_slot.flags of incoming messages */
enum {
    GCOLL_TCP_STARTED = 1,    /* bytes have come */
    GCOLL_TCP_CREDITED = 2,   /* STARTED, and uses credit */
    GCOLL_TCP_GRANTED = 4,    /* not STARTED; we have sent a grant */
    GCOLL_TCP_OFFERED = 8,    /* not STARTED; the peer said that it waits */
    GCOLL_TCP_UNGRANTED = 16, /* in the list of that name */
    GCOLL_TCP_HAS_OPEN = 32   /* its fingerprint came: with it, with its offer, or ahead of it */
};

/* gcoll_slot.flags of outgoing messages */
enum {
    GCOLL_TCP_PROMISED = 1, /* a grant came before the send was posted */
    GCOLL_TCP_ASKED = 2,    /* we have sent an offer */
    GCOLL_TCP_LISTED = 4,   /* in the list of those that wait for credit */
    GCOLL_TCP_UNTOLD = 8    /* in the list of that name */
};

/* gcoll_message.flags of sends. Two are flags of the message's frames, too. */
enum {
    GCOLL_TCP_ON_CREDIT = GCOLL_WIRE_CREDITED,
    GCOLL_TCP_AHEAD = GCOLL_WIRE_AHEAD, /* the fingerprint has travelled in a frame of its own */
    GCOLL_TCP_OPENED = 2,               /* the fingerprint has travelled */
    GCOLL_TCP_FOLLOWS = 4               /* an offer, which counts until the message's first byte has left */
};

typedef struct gcoll_tcp_input {
    uint8_t *bytes; /* GCOLL_TCP_INPUT_BYTES */
    size_t begin, end;
    gcoll_slot *slot;   /* whose payload is coming; NULL: it is thrown away */
    uint64_t remaining; /* of the payload of the current frame */
    bool bulk;          /* the last payload was large */
    bool goodbye;

    /* Of a pair with checksums. */
    uint8_t *fragment; /* GCOLL_WIRE_CHECKED_MAX; holds what has come of the current payload, unless: */
    bool in_place;     /* it comes to the caller's memory, and its CRC so far is: */
    uint32_t sum;
    uint64_t arrived;     /* of the current payload */
    gcoll_wire_sums sums; /* of the current frame */
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
    gcoll_message_queue messages; /* that may be sent */
    gcoll_tcp_cut cut;
    bool ping, pong;
    bool dead;         /* the kernel refused; reading tells why */
    bool last_frame;   /* the goodbye is among the control frames: no probe, answer or credit may follow it */
    bool ended;        /* nothing may follow: the end of the stream is said, though the kernel still sends */
    bool forwards;     /* the PING passes on a question of another rank */
    uint32_t answers;  /* the number of the PING that a pong answers */
    uint64_t written;  /* bytes that the kernel took */
    uint64_t data_end; /* of them, up to the last byte of a message's frame */
} gcoll_tcp_output;

/* Signs of life of a peer, for long waits (alive.c). */
typedef struct gcoll_tcp_alive {
    uint64_t taken;       /* by the peer's host, when it was last looked at */
    uint32_t ping;        /* number of the latest PING */
    uint32_t tracked;     /* of the one whose answer will tell that the peer was alive since... */
    int64_t tracked_ms;   /* ... this time; 0: none is tracked */
    uint64_t tracked_end; /* where it ends in the stream */
    uint32_t asks_about;  /* the rank that the peer wants to hear about, and 1; 0: none */
} gcoll_tcp_alive;

struct gcoll_tcp_pair {
    gcoll_tcp *tcp;
    uint32_t rank;
    gcoll_tcp_state state;
    gcoll_tcp_socket *socket; /* CONNECTED; and FAILED by what the peer sent, or for what this rank lacks, to
                               * be told so by an abort */
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
    uint64_t opened_ahead;     /* fingerprints that came in CREDIT frames, and whose messages have not come */
    gcoll_tcp_input input;

    /* Outgoing. */
    gcoll_match outgoing;
    gcoll_slot_list waiting; /* for credit; before the connection: all sends */
    gcoll_slot_list untold;  /* to be offered when `asked` falls; empty unless that is at its limit */
    uint32_t promised;       /* grants that we remember */
    uint32_t asked;          /* offers of ours that no message has followed */
    uint64_t credit;
    uint64_t peer_eager, peer_pool;
    gcoll_tcp_output output;

    bool told; /* an abort came from it: it need not be told of ours */

    uint64_t heard; /* bytes that came */
    gcoll_tcp_alive alive;

    /* Singly linked lists of the endpoint, with a flag for membership. */
    gcoll_tcp_pair *next_output, *next_hot, *next_verdict;
    bool in_outputs, in_hot, in_verdicts;

    /* What to report: departed if status is GCOLL_OK, else failed. */
    gcoll_status verdict;
    char verdict_text[GCOLL_TCP_VERDICT_TEXT];
    bool changed; /* ... on its way is what the peer sent: that is what to report */
};

/* endpoint.c */
/* The pair of a rank, made if need be; NULL without memory. */
gcoll_tcp_pair *gcoll_tcp_pair_of(gcoll_tcp *tcp, uint32_t rank);
/* Forgets all messages, calling nothing. What is left of a frame that was cut stays. */
void gcoll_tcp_pair_drop(gcoll_tcp_pair *pair);
/* Frees all that a departed or failed pair no longer needs. No message is touched afterwards. */
void gcoll_tcp_pair_release(gcoll_tcp_pair *pair);
/* Frees all of it. NULL is fine. */
void gcoll_tcp_pair_destroy(gcoll_tcp_pair *pair);

/* flow.c */
/* The connection stands: sorts out the sends that waited for it. */
void gcoll_tcp_flow_start(gcoll_tcp_pair *pair);
/* Frames other than DATA. They may fail the pair. */
void gcoll_tcp_on_grant(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
void gcoll_tcp_on_revoke(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
void gcoll_tcp_on_offer(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
void gcoll_tcp_on_credit(gcoll_tcp_pair *pair, uint32_t credit);
/* The first byte of an offered message has left: another message may be offered in its place. */
void gcoll_tcp_offer_ended(gcoll_tcp_pair *pair);
/* The slot whose bytes follow; NULL if the pair failed. */
gcoll_slot *gcoll_tcp_on_data(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
/* All bytes are there and a receive is posted. */
void gcoll_tcp_finish_recv(gcoll_tcp_pair *pair, gcoll_slot *slot);
/* The least owed credit that is sent in a frame of its own. */
uint64_t gcoll_tcp_credit_step(const gcoll_tcp_pair *pair);

/* read.c */
/* Reads from the socket, at most `budget` bytes. Returns whether anything came. */
bool gcoll_tcp_read(gcoll_tcp_pair *pair, size_t budget);
/* Hands bytes of a message to its `consume`. bytes NULL: they are in the hot buffer, after slot->carry. */
void gcoll_tcp_consume(gcoll_tcp_pair *pair, gcoll_slot *slot, const uint8_t *bytes, uint64_t count);

/* checked.c */
/* Fails the pair because bytes were changed on their way. Neither rank is at fault. */
void gcoll_tcp_changed(gcoll_tcp_pair *pair, const char *what);
/* A frame with a payload of input.remaining bytes for input.slot begins. */
void gcoll_tcp_checked_begin(gcoll_tcp_pair *pair);
/* Where the rest of the current payload goes. *count: how much of it fits there. */
uint8_t *gcoll_tcp_checked_target(gcoll_tcp_pair *pair, size_t *count);
/* `count` bytes of the current payload are here: at `bytes`, or (NULL) where the target was. */
void gcoll_tcp_checked_accept(gcoll_tcp_pair *pair, const uint8_t *bytes, size_t count);

/* write.c */
/* Writes pending output until the kernel takes no more. */
void gcoll_tcp_write(gcoll_tcp_pair *pair);
bool gcoll_tcp_has_output(const gcoll_tcp_pair *pair);
/* The message may go. */
void gcoll_tcp_enqueue(gcoll_tcp_pair *pair, gcoll_message *message);
/* Appends an encoded frame that overtakes data. */
void gcoll_tcp_append_control(gcoll_tcp_pair *pair, const uint8_t *bytes, size_t count);
void gcoll_tcp_send_control(gcoll_tcp_pair *pair, gcoll_wire_kind kind, uint64_t stream, uint32_t index);
void gcoll_tcp_want_output(gcoll_tcp_pair *pair);

/* alive.c */
/* Appends the PING, or the answers to one, that wait to be said. */
void gcoll_tcp_say_ping(gcoll_tcp_pair *pair);
void gcoll_tcp_say_pong(gcoll_tcp_pair *pair);
void gcoll_tcp_on_ping(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
void gcoll_tcp_on_pong(gcoll_tcp_pair *pair, const gcoll_wire_header *header);
void gcoll_tcp_on_witness(gcoll_tcp_pair *pair, const gcoll_wire_header *header);

/* progress.c */
/* Marks the pair as broken; `failed` follows from progress. The first failure counts. */
void gcoll_tcp_fail(gcoll_tcp_pair *pair, gcoll_status status, const char *format, ...) GCOLL_PRINTF(3, 4);
void gcoll_tcp_depart(gcoll_tcp_pair *pair);
void gcoll_tcp_make_hot(gcoll_tcp_pair *pair);

#endif
