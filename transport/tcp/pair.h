/*
 * transport/tcp/pair.h - an endpoint's state for one peer: the connection, and the messages to and from it.
 */
#ifndef GCOLL_TCP_PAIR_H
#define GCOLL_TCP_PAIR_H

#include "transport/flow/flow.h"
#include "transport/tcp/tcp.h"
#include "transport/wire.h"

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
    gcoll_flow flow; /* the first member */
    gcoll_tcp *tcp;
    uint32_t rank;
    gcoll_tcp_state state;
    gcoll_tcp_socket *socket; /* CONNECTED; and FAILED by what the peer sent, or for what this rank lacks, to
                               * be told so by an abort */
    gcoll_tcp_dial *dial;     /* DIALING */
    gcoll_tcp_link *reserve;

    uint32_t posted; /* receives that somebody waits for */
    gcoll_tcp_input input;
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

/* messages.c */
extern const gcoll_flow_lane gcoll_tcp_flow_lane;

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
/* Appends the goodbye. */
void gcoll_tcp_say_goodbye(gcoll_tcp_pair *pair);
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
