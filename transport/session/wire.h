/*
 * transport/session/wire.h - the bytes that two endpoints exchange over a stream: handshake and frames.
 *
 * All integers are little-endian. A connection starts with a handshake (proof.h): HELLO from the side that
 * connected, CHALLENGE, PROOF, and a reply (welcome or refusal); frames follow in both directions. A frame is
 * a header of 32 bytes, a fingerprint of 32 bytes if the OPEN flag is set, and fragment_bytes of payload
 * (DATA, ABORT and LANE only).
 *
 * Between endpoints with checksums every frame has the CHECKED flag, and 16 bytes behind its header: the
 * CRC32C of a DATA frame's payload, that of a fingerprint or an ABORT's text, 0, and that of the header and
 * these 12 bytes.
 *
 * Decoders check each field that can be checked without knowing the state of the connection, and never read
 * beyond the fixed size of their input.
 */
#ifndef GCOLL_WIRE_H
#define GCOLL_WIRE_H

#include "gcoll/base/crc32c.h"
#include "transport/lane.h"

#define GCOLL_WIRE_VERSION 3
/* The oldest version that this one can speak with. */
#define GCOLL_WIRE_OLDEST       3
#define GCOLL_WIRE_HEADER_BYTES 32
#define GCOLL_WIRE_TOKEN_BYTES  16
#define GCOLL_WIRE_NONCE_BYTES  16
#define GCOLL_WIRE_TAG_BYTES    32 /* at the end of each message of the handshake */
#define GCOLL_WIRE_HELLO_BYTES  (80 + GCOLL_WIRE_TAG_BYTES)
/* Begins each message of the handshake, and tells which one it is. */
#define GCOLL_WIRE_MAGIC_BYTES     8
#define GCOLL_WIRE_CHALLENGE_BYTES (GCOLL_WIRE_MAGIC_BYTES + GCOLL_WIRE_NONCE_BYTES + GCOLL_WIRE_TAG_BYTES)
#define GCOLL_WIRE_PROOF_BYTES     (GCOLL_WIRE_MAGIC_BYTES + GCOLL_WIRE_TAG_BYTES)
#define GCOLL_WIRE_REPLY_BYTES     (64 + GCOLL_WIRE_TAG_BYTES)

/* Longest payload of one frame: control frames overtake bulk data at these boundaries; at 10 Gb/s a
 * fragment takes less than a millisecond. */
#define GCOLL_WIRE_FRAGMENT_MAX (UINT32_C(1) << 20)

/* With checksums a payload is used when all of it has come, so the receiver keeps it until then: in the
 * second-level cache, between the look at its checksum and its use. */
#define GCOLL_WIRE_CHECKED_MAX (UINT32_C(128) << 10)
#define GCOLL_WIRE_CHECK_BYTES 16

/* Bytes of a stripe, but for the last one of a message: a multiple of all sizes of elements up to 16, except
 * 9. So elements do not lie in two stripes, which may come in any order. */
#define GCOLL_WIRE_STRIPE_BYTES 240240U

typedef enum gcoll_wire_kind {
    GCOLL_WIRE_DATA = 1,    /* a fragment of message (stream, index) of total_bytes */
    GCOLL_WIRE_OFFER = 2,   /* the message is posted and waits for a grant (or for credit) */
    GCOLL_WIRE_GRANT = 3,   /* the receive is posted: the message may come without credit */
    GCOLL_WIRE_REVOKE = 4,  /* the grant crossed a message sent on credit: forget the grant */
    GCOLL_WIRE_CREDIT = 5,  /* gives credit back; stream: of the fingerprint, if there is one */
    GCOLL_WIRE_ABORT = 6,   /* index: culprit, stream: status, payload: text */
    GCOLL_WIRE_GOODBYE = 7, /* the last frame */
    GCOLL_WIRE_PING = 8,    /* stream: of the fingerprint, if there is one; index: a rank that is asked about,
                             * and 1 (0: none); total_bytes: number of the PING and, in the upper half, how many
                             * ranks may pass the question on */
    GCOLL_WIRE_PONG = 9,    /* stream: position; index: see gcoll_wire_pong_index; total_bytes: moves of this
                             * rank and, in the lower half, of the one that there is news of */
    GCOLL_WIRE_WITNESS = 10, /* index: a rank that was asked about; stream: it was alive so many ms ago;
                              * total_bytes: the rank that it answered then */
    GCOLL_WIRE_LANE = 11, /* index: the number of a lane; stream: a gcoll_wire_word; payload: a word of it */
    GCOLL_WIRE_STRIPED =
        12,                /* message (stream, index) of total_bytes begins; STRIPE frames bring its bytes */
    GCOLL_WIRE_GROUP = 13, /* stream: the number of a group. The next frame is of this group, and not of the
                            * endpoint whose connection this is. 0: a goodbye follows that is this endpoint's
                            * alone; groups go on */
    GCOLL_WIRE_KINDS = 14,
    GCOLL_WIRE_STRIPE = 14 /* on connections for stripes alone: fragment_bytes of the message (stream, index)
                            * from offset total_bytes on */
} gcoll_wire_kind;

#define GCOLL_WIRE_OPEN      0x80U /* a fingerprint follows the header; DATA, OFFER, CREDIT, PING, STRIPED */
#define GCOLL_WIRE_CREDITED  0x40U /* DATA: the message uses credit, not a grant */
#define GCOLL_WIRE_CHECKED   0x20U /* checksums follow the header */
#define GCOLL_WIRE_AHEAD     0x10U /* DATA, STRIPED: the message's fingerprint came before in a CREDIT frame */
#define GCOLL_WIRE_PASSED_ON 0x10U /* ABORT: as in gcoll_note */

typedef enum gcoll_wire_word {
    GCOLL_WIRE_WORD = 0,   /* from one end of a lane to the other */
    GCOLL_WIRE_REFUSAL = 1 /* the lane cannot be had; payload: why */
} gcoll_wire_word;

typedef struct gcoll_wire_header {
    uint8_t kind;
    uint8_t flags;
    uint32_t index;
    uint64_t stream;
    uint64_t total_bytes;
    uint32_t fragment_bytes;
    uint32_t credit; /* bytes of the receiver's pool that the peer may use again */
} gcoll_wire_header;

typedef struct gcoll_wire_sums {
    uint32_t payload; /* of DATA */
    uint32_t extra;   /* of what gcoll_wire_extra_bytes counts */
} gcoll_wire_sums;

typedef struct gcoll_wire_hello {
    uint32_t version, oldest; /* that the sender speaks, and that it still understands */
    uint8_t group[16];
    uint8_t nonce[GCOLL_WIRE_NONCE_BYTES];
    uint32_t from, to;                /* ranks */
    uint64_t eager_bytes, pool_bytes; /* what the sender of this takes unasked, by the lane tcp */
    uint8_t lanes[GCOLL_LANES_MAX];   /* numbers of those that it offers, in its order; then 0 */
    uint32_t stripe; /* 0; else this is connection number `stripe` for the stripes of a session that stands:
                      * the key is the session's, and `oldest` does not travel */
} gcoll_wire_hello;

typedef enum gcoll_wire_verdict {
    GCOLL_WIRE_WELCOME = 0,
    GCOLL_WIRE_REFUSE_VERSION = 1,   /* version: what the refuser speaks */
    GCOLL_WIRE_REFUSE_RANK = 2,      /* no such rank, or not the one that was called */
    GCOLL_WIRE_REFUSE_DUPLICATE = 3, /* there is another connection between the two */
    GCOLL_WIRE_REFUSE_BROKEN = 4,    /* the refuser has given up on that peer */
    GCOLL_WIRE_REFUSE_STRANGER = 5,  /* another endpoint was called. The answer says no more than that */
    GCOLL_WIRE_VERDICTS = 6
} gcoll_wire_verdict;

typedef struct gcoll_wire_reply {
    uint32_t verdict;
    uint32_t version;
    uint32_t from, to;
    uint8_t group[16];
    uint64_t eager_bytes, pool_bytes;
    uint8_t lanes[GCOLL_LANES_MAX];
} gcoll_wire_reply;

/* A GROUP frame, of GCOLL_WIRE_HEADER_BYTES. */
void gcoll_wire_put_group(uint8_t *bytes, uint64_t number);

void gcoll_wire_put_header(uint8_t *bytes, const gcoll_wire_header *header);
/* Decodes and checks a header by itself. Returns NULL, or a constant text that names the field at fault. */
const char *gcoll_wire_get_header(const uint8_t *bytes, gcoll_wire_header *header);

/* Makes the header at `bytes` one of a frame with checksums, and puts GCOLL_WIRE_CHECK_BYTES behind it. */
void gcoll_wire_put_sums(uint8_t *bytes, gcoll_crc32c_fn crc, const gcoll_wire_sums *sums);
/* Whether a header and the checksums behind it arrived unchanged. */
bool gcoll_wire_is_intact(const uint8_t *bytes, gcoll_crc32c_fn crc);
/* As gcoll_wire_get_header, of a header with checksums that is intact. */
const char *gcoll_wire_get_checked(const uint8_t *bytes, gcoll_wire_header *header, gcoll_wire_sums *sums);

/* Decodes the header of a STRIPE frame, without its checksums. Returns NULL, or a constant text. */
const char *gcoll_wire_get_stripe(const uint8_t *bytes, gcoll_wire_header *header);
/* The payload's checksum, of a STRIPE frame with checksums that is intact; the header is then as without. */
uint32_t gcoll_wire_take_stripe_sum(uint8_t *bytes);

void gcoll_wire_put_hello(uint8_t *bytes, const gcoll_wire_hello *hello);
/* Whether `count` bytes can be the beginning of one. */
bool gcoll_wire_may_be_hello(const uint8_t *bytes, size_t count);
const char *gcoll_wire_get_hello(const uint8_t *bytes, gcoll_wire_hello *hello);

/* Messages of the handshake get their tags later (proof.h). */
void gcoll_wire_put_challenge(uint8_t *bytes, const uint8_t nonce[GCOLL_WIRE_NONCE_BYTES]);
void gcoll_wire_put_proof(uint8_t *bytes);
bool gcoll_wire_is_challenge(const uint8_t *bytes);
bool gcoll_wire_is_proof(const uint8_t *bytes);

void gcoll_wire_put_reply(uint8_t *bytes, const gcoll_wire_reply *reply);
const char *gcoll_wire_get_reply(const uint8_t *bytes, gcoll_wire_reply *reply);

/* The index of a PONG: which rank there is news of, and the number of the PING that it answers, in as many
 * bits as are left. */
#define GCOLL_WIRE_NEWS_BITS 21 /* holds GCOLL_MAX_RANKS and 1 */
#define GCOLL_WIRE_PING_MASK (UINT32_MAX >> GCOLL_WIRE_NEWS_BITS)
static inline uint32_t gcoll_wire_pong_index(uint32_t news_of, uint32_t ping) {
    return ping << GCOLL_WIRE_NEWS_BITS | ((news_of + 1) & ((UINT32_C(1) << GCOLL_WIRE_NEWS_BITS) - 1));
}
/* UINT32_MAX: none. */
static inline uint32_t gcoll_wire_pong_news_of(uint32_t index) {
    return (index & ((UINT32_C(1) << GCOLL_WIRE_NEWS_BITS) - 1)) - 1;
}

/* How many bytes beyond the header must be in memory before the frame can be acted on. */
size_t gcoll_wire_extra_bytes(const gcoll_wire_header *header);

/* Makes a note from an ABORT frame and its text: printable, terminated, and a status that exists. */
void gcoll_wire_get_note(const gcoll_wire_header *header, const uint8_t *text, gcoll_note *note);
/* The reverse; bytes has room for the header and GCOLL_NOTE_TEXT_MAX. Returns the bytes of the frame. */
size_t gcoll_wire_put_note(uint8_t *bytes, const gcoll_note *note);

#endif
