/*
 * transport/ibverbs/frame.h - the bytes of frames, which travel in slots, and of hellos, which make a pair;
 * and the limits of this protocol, which both are checked against.
 */
#ifndef GCOLL_IB_FRAME_H
#define GCOLL_IB_FRAME_H

#include "transport/ibverbs/verbs.h"
#include "transport/transport.h"

/* What a frame has before its payload: a header, and a fingerprint or the particulars of a grant. */
#define GCOLL_IB_HEADER_BYTES 32
#define GCOLL_IB_EXTRA_BYTES  32
#define GCOLL_IB_FIXED_BYTES  (GCOLL_IB_HEADER_BYTES + GCOLL_IB_EXTRA_BYTES)
#define GCOLL_IB_HELLO_BYTES  96
#define GCOLL_IB_PIECE_MAX    (UINT32_C(1) << 30)

/* Receives that are posted for a peer, and work requests that may be in a send queue. */
#define GCOLL_IB_DEPTH 32
/* Pieces of large messages that one side has granted, and of those such as the peer has not asked for: the
 * rest is for messages that are certain to come. */
#define GCOLL_IB_PIECES       32
#define GCOLL_IB_PIECES_AHEAD 16
/* Of messages that are consumed: the ring of registered memory that they come by. */
#define GCOLL_IB_CHUNKS       8
#define GCOLL_IB_CHUNKS_AHEAD 4
#define GCOLL_IB_CHUNK_BYTES  (UINT32_C(128) << 10)
#define GCOLL_IB_EAGER_MAX    (65536 - GCOLL_IB_FIXED_BYTES)

typedef enum gcoll_ib_kind {
    GCOLL_IB_DATA = 1,   /* a small message; then its fingerprint if it opens, and its bytes */
    GCOLL_IB_OFFER = 2,  /* as in TCP */
    GCOLL_IB_GRANT = 3,  /* of a small message */
    GCOLL_IB_PIECE = 4,  /* of a large one: where to write a part of it */
    GCOLL_IB_REVOKE = 5, /* of a grant of a small message, as in TCP; with a total: of the pieces of a message
                          * of so many bytes */
    GCOLL_IB_CREDIT = 6, /* slots and pool alone, or with what its flag says */
    GCOLL_IB_GOODBYE = 7, /* the last frame */
    GCOLL_IB_PROOF = 8,   /* the first frame of a queue pair whose lane has to prove itself; then any bytes */
    GCOLL_IB_KINDS = 9
} gcoll_ib_kind;

#define GCOLL_IB_OPEN     0x80U /* a fingerprint follows: DATA, OFFER, CREDIT */
#define GCOLL_IB_CREDITED 0x40U /* DATA: uses the pool's credit, not a grant */
/* The message's fingerprint came before it in a CREDIT frame: DATA; CREDIT for a large message, which has no
 * frame of its own, once its first piece is granted. */
#define GCOLL_IB_AHEAD 0x20U

typedef struct gcoll_ib_frame {
    uint8_t kind, flags;
    uint16_t slots;  /* receives that the peer has posted anew */
    uint32_t credit; /* bytes of its pool that are free again */
    uint64_t stream;
    uint32_t index;
    uint64_t total;
    /* PIECE */
    uint32_t handle; /* comes back as immediate data */
    uint32_t rkey;
    uint64_t offset, bytes, address;
} gcoll_ib_frame;

/* What a rank says of its queue pair before the two are connected. */
typedef struct gcoll_ib_hello {
    uint32_t qpn, psn;
    uint16_t lid;
    bool ethernet;
    bool by_device; /* options.device_memory is not never */
    union ibv_gid gid;
    enum ibv_mtu mtu;
    uint32_t depth;
    uint32_t piece_max;
    uint64_t eager_bytes, pool_bytes;
} gcoll_ib_hello;

/* Whether these bytes, a header at least, are a proof. */
bool gcoll_ib_is_proof(const uint8_t *bytes);
/* Encodes a frame. Returns its bytes, without payload; the caller puts a fingerprint behind the header. */
uint32_t gcoll_ib_put_frame(uint8_t *bytes, const gcoll_ib_frame *frame);
/* Copies a control frame that was encoded before, with the credit and slots that are owed by now. Returns its
 * bytes. */
uint32_t gcoll_ib_copy_frame(uint8_t *to, const uint8_t *from, const gcoll_ib_frame *owed);
/* Decodes and checks the `count` bytes that came. Returns NULL, or a text that names the fault. */
const char *gcoll_ib_get_frame(const uint8_t *bytes, uint32_t count, gcoll_ib_frame *frame);
uint32_t gcoll_ib_frame_bytes(const gcoll_ib_frame *frame);
void gcoll_ib_put_hello(uint8_t *bytes, const gcoll_ib_hello *hello);
const char *gcoll_ib_get_hello(const uint8_t *bytes, gcoll_ib_hello *hello);

#endif
