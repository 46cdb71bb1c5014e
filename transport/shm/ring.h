/*
 * transport/shm/ring.h - the memory that two ranks of a host share, and the rings of frames in it.
 *
 *   page 0      what each of the two ranks alone writes: how much it has taken, whether it sleeps, a proof
 *   ring 0      frames from rank 0 of the pair, the lower one, to rank 1
 *   ring 1      frames from rank 1 to rank 0
 *
 * A frame begins at a line of GCOLL_RING_LINE bytes: a head, perhaps a fingerprint, perhaps a payload. It
 * never wraps: a message is cut where the ring ends. The head's first word says that the frame is there. So a
 * small message is one line, which the reader waits for: it costs one transfer between two caches.
 *
 * Ordering. Acquire and release suffice, on AArch64 and others with weak order, as each word has one writer:
 * - A frame. The writer writes it, puts 0 into the word of the frame behind it, then stores the frame's own
 *   word with release. The reader loads that word with acquire, so it sees all of the frame, and behind it a
 *   frame that is not there. Whatever an earlier lap has left in that line is never taken for a word.
 * - Room. The reader stores how much it has taken with release when it has read the frames. The writer loads
 *   that with acquire before it writes there again. So no read of an old frame comes after a write of a new
 *   one.
 * - Sleep. A rank says that it sleeps, and then looks whether something has come. The other writes a frame,
 *   and then looks whether this one sleeps. Here each stores before it loads, which acquire and release do
 *   not order: both have a sequentially consistent fence in between, so at least one of them sees the other.
 *
 * Trust. All of this memory can be written by the other process at any time. So a head is copied out before
 * it is checked and used, lengths are bounded by the ring, and the other's word about what it has taken is
 * refused if it goes back or beyond what was written. Payloads are whatever the other process says they are,
 * also if it changes them while they are read.
 */
#ifndef GCOLL_SHM_RING_H
#define GCOLL_SHM_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/message.h"

#define GCOLL_RING_LINE 64U
/* Two lines: processors fetch them in pairs. */
#define GCOLL_RING_APART 128U
#define GCOLL_RING_PAGE  4096U
#define GCOLL_RING_LEAST (UINT32_C(4) << 10)
#define GCOLL_RING_MOST  (UINT32_C(1) << 20)
#define GCOLL_RING_PROOF 16U

/* What one of the two ranks writes, and the other reads. */
typedef struct gcoll_ring_side {
    uint64_t taken;        /* bytes of the ring that comes to it */
    uint64_t pulled;       /* messages that it has read from the other's own memory: see shm.h */
    uint64_t pulled_bytes; /* of those, and of the one that it is reading */
    uint32_t withdrawn;    /* not 0: what it has lent may change from now on */
    uint8_t apart[GCOLL_RING_APART - 3 * sizeof(uint64_t) - sizeof(uint32_t)];
    uint32_t sleeps; /* GCOLL_RING_SLEEPS and _WANTS_ROOM, and above them a count of sleeps */
    uint32_t unused;
    uint64_t token_at; /* where in its memory its token lies: see reach.c */
    uint8_t proof[GCOLL_RING_PROOF];
    uint8_t apart_too[GCOLL_RING_APART - 2 * sizeof(uint64_t) - GCOLL_RING_PROOF];
} gcoll_ring_side;

enum {
    GCOLL_RING_SLEEPS = 1,     /* it is to be woken when a frame comes */
    GCOLL_RING_WANTS_ROOM = 2, /* and when room comes */
    GCOLL_RING_COUNTS = 4      /* the first bit of the count */
};

typedef struct gcoll_ring_head {
    uint32_t word;  /* GCOLL_RING_MARK, and kind and flags: 0: the frame is not there */
    uint32_t bytes; /* of the payload */
    uint64_t stream;
    uint64_t total;
    uint32_t index;
    uint32_t credit;
} gcoll_ring_head;

/* The flags of a head's word; below them stands the kind, a gcoll_flow_kind. */
#define GCOLL_RING_MARK     UINT32_C(0x67630000)
#define GCOLL_RING_KIND     UINT32_C(0x000000ff)
#define GCOLL_RING_OPEN     UINT32_C(0x00000100) /* a fingerprint follows the head */
#define GCOLL_RING_CREDITED UINT32_C(0x00000200)
#define GCOLL_RING_AHEAD    UINT32_C(0x00000400)
#define GCOLL_RING_PLAIN    UINT32_C(0x00000800) /* of a grant: as in gcoll_flow_frame */
#define GCOLL_RING_FLAGS    UINT32_C(0x00000f00)

/* The bytes of memory with two rings of so many bytes each. */
static inline size_t gcoll_ring_memory(uint32_t ring_bytes) {
    return GCOLL_RING_PAGE + 2 * (size_t)ring_bytes;
}
/* Whether that many bytes can be those of a ring: a power of two within the limits. */
bool gcoll_ring_is_size(uint64_t ring_bytes);

static inline gcoll_ring_side *gcoll_ring_side_of(void *memory, uint32_t which) {
    return (gcoll_ring_side *)memory + which;
}

/* What a rank has stored before it comes before what it loads afterwards: to sleep, and to wake. */
void gcoll_ring_fence(void);

/* ---- Writing ---------------------------------------------------------------------------------------- */

typedef struct gcoll_ring_writer {
    uint8_t *bytes;
    const gcoll_ring_side *reader;
    uint32_t size;
    uint64_t written; /* where the next frame begins */
    uint64_t taken;   /* as the reader said when it was last asked */
} gcoll_ring_writer;

void gcoll_ring_write_to(gcoll_ring_writer *writer, void *memory, uint32_t ring_bytes, uint32_t which);
/* How many bytes the next frame may have: a multiple of a line. Asks the reader if it is known to be fewer
 * than `wanted`. False: the reader says nonsense. */
bool gcoll_ring_room(gcoll_ring_writer *writer, uint32_t wanted, uint32_t *room);
/* Whether the ring's end, and not what the reader has left, limits the next frame to so many bytes. */
static inline bool gcoll_ring_ends_at(const gcoll_ring_writer *writer, uint32_t room) {
    return (writer->written & (writer->size - 1)) + room == writer->size;
}
static inline uint8_t *gcoll_ring_place(const gcoll_ring_writer *writer) {
    return writer->bytes + (writer->written & (writer->size - 1));
}
/* The frame at gcoll_ring_place, complete but for its first word, is there: that is `word`. frame_bytes: at
 * most the room. */
void gcoll_ring_publish(gcoll_ring_writer *writer, uint32_t word, uint32_t frame_bytes);

/* ---- Reading ---------------------------------------------------------------------------------------- */

typedef struct gcoll_ring_reader {
    const uint8_t *bytes;
    gcoll_ring_side *own;
    uint32_t size;
    uint64_t read; /* where the next frame begins */
    uint64_t told; /* what the writer knows of it */
} gcoll_ring_reader;

typedef enum gcoll_ring_found { GCOLL_RING_EMPTY, GCOLL_RING_FRAME, GCOLL_RING_GARBAGE } gcoll_ring_found;

/* A frame as it was copied out. */
typedef struct gcoll_ring_frame {
    gcoll_ring_head head;
    uint8_t open[GCOLL_FINGERPRINT_BYTES]; /* if head.word has GCOLL_RING_OPEN */
    const uint8_t *payload;                /* in the ring: head.bytes bytes */
} gcoll_ring_frame;

void gcoll_ring_read_from(gcoll_ring_reader *reader, void *memory, uint32_t ring_bytes, uint32_t which);
/* Whether a frame is there. */
static inline bool gcoll_ring_has_frame(const gcoll_ring_reader *reader) {
    return __atomic_load_n(
               (const uint32_t *)(const void *)(reader->bytes + (reader->read & (reader->size - 1))),
               __ATOMIC_ACQUIRE) != 0;
}
/* Copies out the next frame's head and fingerprint. GARBAGE: it cannot be a frame. */
gcoll_ring_found gcoll_ring_next(const gcoll_ring_reader *reader, gcoll_ring_frame *frame);
/* The frame is done with, its payload too. */
void gcoll_ring_pass(gcoll_ring_reader *reader, const gcoll_ring_frame *frame);
/* Lets the writer know what has been read. Returns whether that is news. */
bool gcoll_ring_tell(gcoll_ring_reader *reader);

/* The bytes of the ring that a frame takes. */
static inline uint32_t gcoll_ring_frame_bytes(uint32_t word, uint32_t payload_bytes) {
    const uint32_t head =
        (uint32_t)sizeof(gcoll_ring_head) + (word & GCOLL_RING_OPEN ? (uint32_t)GCOLL_FINGERPRINT_BYTES : 0U);
    return (head + payload_bytes + GCOLL_RING_LINE - 1) & ~(GCOLL_RING_LINE - 1);
}

#endif
