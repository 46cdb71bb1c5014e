/*
 * transport/wire.h - the bytes that two endpoints exchange over a stream: handshake and frames.
 *
 * All integers are little-endian. A connection starts with HELLO from the side that connected, answered by
 * a reply (welcome or refusal); frames follow in both directions. A frame is a header of 32 bytes, a
 * fingerprint of 32 bytes if the OPEN flag is set, and fragment_bytes of payload (DATA and ABORT only).
 *
 * Decoders check each field that can be checked without knowing the state of the connection, and never read
 * beyond the fixed size of their input.
 */
#ifndef GCOLL_WIRE_H
#define GCOLL_WIRE_H

#include "transport/transport.h"

#define GCOLL_WIRE_VERSION      1
#define GCOLL_WIRE_HEADER_BYTES 32
#define GCOLL_WIRE_HELLO_BYTES  80
#define GCOLL_WIRE_REPLY_BYTES  56
#define GCOLL_WIRE_TOKEN_BYTES  16

/* Longest payload of one frame: control frames overtake bulk data at these boundaries; at 10 Gb/s a
 * fragment takes less than a millisecond. */
#define GCOLL_WIRE_FRAGMENT_MAX (UINT32_C(1) << 20)

typedef enum gcoll_wire_kind {
    GCOLL_WIRE_DATA = 1,    /* a fragment of message (stream, index) of total_bytes */
    GCOLL_WIRE_OFFER = 2,   /* the message is posted and waits for a grant (or for credit) */
    GCOLL_WIRE_GRANT = 3,   /* the receive is posted: the message may come without credit */
    GCOLL_WIRE_REVOKE = 4,  /* the grant crossed a message sent on credit: forget the grant */
    GCOLL_WIRE_CREDIT = 5,  /* only gives credit back */
    GCOLL_WIRE_ABORT = 6,   /* index: culprit, stream: status, payload: text */
    GCOLL_WIRE_GOODBYE = 7, /* the last frame */
    GCOLL_WIRE_PING = 8,    /* stream: of the fingerprint, if there is one */
    GCOLL_WIRE_PONG = 9,    /* stream: position */
    GCOLL_WIRE_KINDS = 10
} gcoll_wire_kind;

#define GCOLL_WIRE_OPEN     0x80U /* a fingerprint follows the header; DATA, OFFER and PING */
#define GCOLL_WIRE_CREDITED 0x40U /* DATA: the message uses credit, not a grant */

typedef struct gcoll_wire_header {
    uint8_t kind;
    uint8_t flags;
    uint32_t index;
    uint64_t stream;
    uint64_t total_bytes;
    uint32_t fragment_bytes;
    uint32_t credit; /* bytes of the receiver's pool that the peer may use again */
} gcoll_wire_header;

typedef struct gcoll_wire_hello {
    uint32_t version;
    uint8_t group[16];
    uint8_t token[GCOLL_WIRE_TOKEN_BYTES]; /* of the endpoint that is called */
    uint32_t from, to;                     /* ranks */
    uint64_t eager_bytes, pool_bytes;      /* what the sender of this takes unasked */
} gcoll_wire_hello;

typedef enum gcoll_wire_verdict {
    GCOLL_WIRE_WELCOME = 0,
    GCOLL_WIRE_REFUSE_VERSION = 1,   /* version: what the refuser speaks */
    GCOLL_WIRE_REFUSE_RANK = 2,      /* no such rank, or not the one that was called */
    GCOLL_WIRE_REFUSE_DUPLICATE = 3, /* there is another connection between the two */
    GCOLL_WIRE_REFUSE_BROKEN = 4,    /* the refuser has given up on that peer */
    GCOLL_WIRE_VERDICTS = 5
} gcoll_wire_verdict;

typedef struct gcoll_wire_reply {
    uint32_t verdict;
    uint32_t version;
    uint32_t from, to;
    uint8_t group[16];
    uint64_t eager_bytes, pool_bytes;
} gcoll_wire_reply;

void gcoll_wire_put_header(uint8_t *bytes, const gcoll_wire_header *header);
/* NULL if the header makes sense by itself; else a constant text that says what does not. */
const char *gcoll_wire_get_header(const uint8_t *bytes, gcoll_wire_header *header);

void gcoll_wire_put_hello(uint8_t *bytes, const gcoll_wire_hello *hello);
/* Whether `count` bytes can be the beginning of one. */
bool gcoll_wire_may_be_hello(const uint8_t *bytes, size_t count);
const char *gcoll_wire_get_hello(const uint8_t *bytes, gcoll_wire_hello *hello);

void gcoll_wire_put_reply(uint8_t *bytes, const gcoll_wire_reply *reply);
const char *gcoll_wire_get_reply(const uint8_t *bytes, gcoll_wire_reply *reply);

/* How many bytes beyond the header must be in memory before the frame can be acted on. */
size_t gcoll_wire_extra_bytes(const gcoll_wire_header *header);

/* Makes a note from an ABORT frame and its text: printable, terminated, and a status that exists. */
void gcoll_wire_get_note(const gcoll_wire_header *header, const uint8_t *text, gcoll_note *note);
/* The reverse; bytes has room for the header and GCOLL_NOTE_TEXT_MAX. Returns the bytes of the frame. */
size_t gcoll_wire_put_note(uint8_t *bytes, const gcoll_note *note);

#endif
