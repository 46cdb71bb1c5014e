/*
 * transport/shm/shm.h - the lane shm: messages between two ranks of a host through memory that both map.
 *
 *   ring.h    the memory: frames, and who may write what
 *   door.c    the port's socket: memory is handed over by it, and sleepers are woken
 *   meet.c    how two ranks come to share memory, and what they check
 *   move.c    messages as frames, in both directions
 *   land.c    large messages into the memory of their receives, past the caches
 *   blocks.h  blocks.c: memory of gcoll_memory_alloc that the peer maps to read
 *             pull.c: messages that the receiver reads where they lie
 *   reach.c   reading memory of the peer that is not mapped, by the kernel
 *   lane.c    the lane's table; polling and sleeping
 *
 * A port has one descriptor, whatever the number of peers: a datagram socket with a random abstract name. The
 * memory's descriptor is closed as soon as it is mapped. So nothing has a name in a file system, and when the
 * two processes are gone, however they ended, nothing is left.
 */
#ifndef GCOLL_SHM_H
#define GCOLL_SHM_H

#include <sys/socket.h>

#include "gcoll/base/fork.h"
#include "transport/lane.h"
#include "transport/shm/blocks.h"

/* Below it, holding a message until its receive is posted costs less than asking first. */
#define GCOLL_SHM_EAGER_BYTES (UINT64_C(32) << 10)
#define GCOLL_SHM_EAGER_MOST  (UINT64_C(1) << 30)
/* A ring's bytes by the number of ranks. Two ranks have a core each, and what they exchange should stay in
 * its cache. Ranks that share cores take turns, and a ring that is full ends a turn: they need more. Many
 * ranks have many rings: so many bytes by the square of their number, 8 KiB with 64 of them. */
#define GCOLL_SHM_RING_OF_TWO (UINT32_C(256) << 10)
#define GCOLL_SHM_RING_MOST   (UINT32_C(512) << 10)
#define GCOLL_SHM_RING_LEAST  (UINT32_C(8) << 10)
#define GCOLL_SHM_RING_SQUARE (UINT64_C(32) << 20)
#define GCOLL_SHM_TOKEN       16
/* Longest text of why two ranks cannot share memory. */
#define GCOLL_SHM_WHY 192

/* ThreadSanitizer knows memory by its address. So in its builds two ranks of one process use one mapping. */
#ifdef __SANITIZE_THREAD__
#define GCOLL_SHM_ONE_MAPPING 1
#endif

typedef struct gcoll_shm gcoll_shm;

/* What a rank says of itself by the session. */
typedef struct gcoll_shm_hello {
    uint32_t version, ring_bytes;
    uint64_t eager_bytes, pool_bytes;
    uint64_t host;
    uint8_t name[GCOLL_SHM_TOKEN];  /* of its socket */
    uint8_t token[GCOLL_SHM_TOKEN]; /* to be shown by what comes to that socket for this pair */
} gcoll_shm_hello;

typedef enum gcoll_shm_state {
    GCOLL_SHM_MEETS,  /* words are exchanged */
    GCOLL_SHM_SENDS,  /* a datagram waits for room in the peer's socket */
    GCOLL_SHM_STANDS, /* messages go */
    GCOLL_SHM_ENDED   /* freed at the next poll, as it may be in a list that is being walked */
} gcoll_shm_state;

/* Frames that the lane has beside those of flow control (gcoll_flow_kind). */
typedef enum gcoll_shm_frame {
    GCOLL_SHM_LENDS = 6, /* the descriptor of a block (`stream`) lies in the receiver's socket */
    GCOLL_SHM_TAKES,     /* the answer: `index` 1: the block is mapped; 0: it is not, and will not be */
    GCOLL_SHM_FREED,     /* the block was freed */
    GCOLL_SHM_REFERS,    /* a message that is read where it lies; the payload is a gcoll_shm_reference */
    GCOLL_SHM_UNREAD     /* REFERS failed: the sender is to write the message from byte `total` on */
} gcoll_shm_frame;

/* The state for one peer. */
struct gcoll_shm_pair {
    gcoll_shm *shm;
    gcoll_session *session;
    gcoll_flow *flow;
    gcoll_shm_pair *next, *next_output;
    gcoll_shm_state state;
    bool in_outputs;

    /* The meeting. */
    bool heard_hello;
    bool is_peer_checked;               /* a datagram came, whose sender's user has been looked at */
    bool has_answered;                  /* the higher rank has mapped the memory */
    int32_t pid;                        /* the peer's process, by the kernel's word; 0: not known here */
    int64_t again_ms, until_ms;         /* SENDS: the next try, and when that is given up */
    gcoll_shm_hello own, peer;          /* what the two said */
    char why[GCOLL_SHM_WHY];            /* why what came by the socket is not taken; "": it is */
    uint8_t proof[2][GCOLL_RING_PROOF]; /* by which each shows that it reads and writes the memory */

    void *elsewhere; /* with GCOLL_SHM_ONE_MAPPING: where the other end has it, if that is of this process */
    void *memory;    /* NULL: none */
    size_t memory_bytes;
    uint32_t ring_bytes;
    uint32_t which; /* of the two: 0 is the lower rank */

    gcoll_ring_writer out;
    gcoll_ring_reader in;
    gcoll_byte_queue control;      /* frames of a line each, which overtake messages */
    gcoll_message_queue messages;  /* that may be sent */
    uint32_t sleeps;               /* what its side of the memory says of this rank */
    uint32_t rung;                 /* the peer's sleep that was ended, as its side says it */
    bool has_published, has_freed; /* since the peer's sleep was last looked at */

    gcoll_shm_blocks blocks;
    gcoll_shm_pulls pulls;
    uint64_t token_at; /* where the peer's token lies in its memory */
    bool reaches;      /* this rank reads any memory of the peer: see reach.c */
    bool is_reached;   /* and the peer any of this rank's */
};

/* The lane of an endpoint. */
struct gcoll_shm {
    gcoll_net *net;
    uint32_t rank;
    uint64_t eager_bytes, pool_bytes;
    uint64_t map_bytes;  /* 0: no block is mapped, of this rank or by it */
    uint64_t pull_bytes; /* messages from this size on are read by the peer; 0: none, nor those of peers */
    uint8_t *piece;      /* what was read, to be reduced or copied; NULL: not needed */
    uint64_t past_bytes; /* messages from this size on are put past the caches */
    uint32_t ring_bytes;
    int64_t limit_ms;
    int64_t crowded_until_ms; /* when a wait for descriptors on their way is given up; 0: none began */
    int fd;                   /* -1: not needed yet */
    gcoll_descriptor descriptor;
    uint8_t name[GCOLL_SHM_TOKEN];
    gcoll_shm_pair *pairs;
    gcoll_shm_pair *outputs; /* with something to be written */
    bool is_armed;           /* all sides say that this rank sleeps */
    bool looks_once_more;    /* ... and it has not slept yet */
    bool has_ended;          /* some pair is to be freed */
};

static inline gcoll_shm *gcoll_shm_of(gcoll_lane_port *port) {
    return (gcoll_shm *)(void *)port;
}

/* Whether messages move. */
static inline bool gcoll_shm_moves(const gcoll_shm_pair *pair) {
    return pair->state == GCOLL_SHM_STANDS && gcoll_session_may_move(pair->session);
}

/* ---- door.c ----------------------------------------------------------------------------------------- */

/* Opens the port's socket, unless it is open. The last error says what is missing. */
gcoll_status gcoll_shm_door_open(gcoll_shm *shm);
void gcoll_shm_door_close(gcoll_shm *shm);
/* Takes all that has come. */
void gcoll_shm_door_read(gcoll_shm *shm);

typedef enum gcoll_shm_kind {
    GCOLL_SHM_BELL = 1,   /* nothing: it wakes */
    GCOLL_SHM_MEMORY = 2, /* with the descriptor of memory */
    GCOLL_SHM_MAPPED = 3, /* the memory has been mapped */
    GCOLL_SHM_BLOCK = 4   /* with the descriptor of the block of pair->blocks.asked */
} gcoll_shm_kind;

/* Sends to the peer's socket. fd -1: none goes with it. Returns 0 or an error number: EAGAIN if it has no
 * room now. */
int gcoll_shm_door_send(const gcoll_shm_pair *pair, gcoll_shm_kind kind, int fd);
/* Whether an EAGAIN means the peer's socket. False: what this one has sent may not have been read for long.
 */
bool gcoll_shm_door_has_room(const gcoll_shm *shm);

/* ---- meet.c ----------------------------------------------------------------------------------------- */

void gcoll_shm_begin(gcoll_session *session, gcoll_lane_port *port);
void gcoll_shm_hear(gcoll_session *session, const uint8_t *bytes, uint32_t count);
/* A datagram for this pair, and who sent it. fd -1: no descriptor came with it; it stays the caller's.
 * is_cut: one did, and this process has no room for it. elsewhere: of the pair. */
void gcoll_shm_on_datagram(gcoll_shm_pair *pair, gcoll_shm_kind kind, const struct ucred *sender, int fd,
                           bool is_cut, void *elsewhere);
/* Sends again what waits for room in a socket. */
void gcoll_shm_send_again(gcoll_shm_pair *pair);
/* Wakes the peer by the session, at once: for a socket that fails. */
void gcoll_shm_say_bell(const gcoll_shm_pair *pair);
void gcoll_shm_end(gcoll_session *session);
/* Frees pairs that have ended. */
void gcoll_shm_sweep(gcoll_shm *shm);

/* ---- move.c ----------------------------------------------------------------------------------------- */

extern const gcoll_flow_lane gcoll_shm_flow;

/* Writes until the ring is full, or nothing is left. Returns whether anything was written. */
bool gcoll_shm_write(gcoll_shm_pair *pair);
bool gcoll_shm_has_output(const gcoll_shm_pair *pair);
void gcoll_shm_want_output(gcoll_shm_pair *pair);
/* Reads frames: all that fit into the ring at once, or, unless is_all, fewer, if that takes long. Returns
 * whether there was any. */
bool gcoll_shm_read(gcoll_shm_pair *pair, bool is_all);
/* Writes a frame of at most two lines as a whole. open: NULL, or a fingerprint. False: there is no room now.
 */
bool gcoll_shm_put(gcoll_shm_pair *pair, gcoll_ring_head *head, const uint8_t *open, const void *payload);
/* Queues a frame of one line. open: NULL, or a fingerprint. False: without memory; the session has failed. */
bool gcoll_shm_put_control(gcoll_shm_pair *pair, const gcoll_ring_head *head, const uint8_t *open);
/* As in gcoll_lane. */
bool gcoll_shm_send_now(gcoll_session *session, gcoll_message *message);
bool gcoll_shm_recv_now(gcoll_session *session, gcoll_message *message, uint32_t looks);
/* Wakes the peer if it sleeps and something has come for it. */
void gcoll_shm_ring_bell(gcoll_shm_pair *pair);
/* Forgets all messages. */
void gcoll_shm_drop(gcoll_session *session);

/* ---- reach.c ---------------------------------------------------------------------------------------- */

/* Sets pair->reaches, when the peer is known. */
void gcoll_shm_try_reach(gcoll_shm_pair *pair);
/* Copies memory of the peer, from its address `from`. Returns 0 or an error number: ESRCH: the peer's process
 * is gone. */
int gcoll_shm_read_memory(const gcoll_shm_pair *pair, void *to, uint64_t from, uint64_t bytes);
/* Whether the peer can read this message where it lies. */
bool gcoll_shm_is_in_reach(const gcoll_shm_pair *pair, const gcoll_message *message);

/* ---- land.c ----------------------------------------------------------------------------------------- */

/* The least bytes of a message that is put past the caches, with so many ranks. */
uint64_t gcoll_shm_past_bytes(uint64_t ranks);
/* As memcpy; leaves `to` in no cache. */
void gcoll_shm_copy_past(void *to, const void *from, size_t bytes);
/* Puts the next `count` bytes of a message where its receive wants them, and returns NULL; or leaves that to
 * the session and returns `bytes`. Either is what gcoll_session_accept and gcoll_session_put take. */
const uint8_t *gcoll_shm_land(const gcoll_shm_pair *pair, const gcoll_slot *slot, const uint8_t *bytes,
                              uint64_t count);

extern const gcoll_lane_option gcoll_shm_options[];

#endif
