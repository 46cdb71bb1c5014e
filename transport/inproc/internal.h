/*
 * transport/inproc/internal.h - the in-process transport's own structures.
 *
 * A hub holds rooms, one a group (so that a duplicated context can live on its parent's hub). A room has a
 * seat a rank. A seat is where others leave things for a rank: messages on offer, completions, signs. It
 * lives as long as the room, so leaving something at the seat of a rank that has gone is safe.
 *
 * The receiver moves the bytes, in its own thread and under no lock: sends go to the receiver's seat, are
 * matched there, copied, and left as completed at the sender's seat. Messages link into the queues by
 * themselves, so nothing is allocated on the way.
 *
 * Locks, in the order in which they may be nested: hub.lock (rooms), seat.lock (that seat and its row of
 * links), hub.rules_lock (faults). No thread holds two seats' locks. No lock is held while bytes are copied
 * or a caller's function runs.
 */
#ifndef GCOLL_INPROC_INTERNAL_H
#define GCOLL_INPROC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "gcoll/base/crc32c.h"
#include "transport/inproc/inproc.h"
#include "transport/queue.h"

#define GCOLL_INPROC_NOBODY UINT32_MAX

/* The fields of a message that this transport uses: next in a queue, or item in a table; peer is the other
 * rank, as seen by the owner of the queue or table; match of a receive is its send; moved of a receive counts
 * bytes. */

typedef enum gcoll_inproc_seat_state {
    GCOLL_INPROC_SEAT_EMPTY = 0, /* its rank is still to come; takes offers and signs */
    GCOLL_INPROC_SEAT_OPEN,
    GCOLL_INPROC_SEAT_ABORTED, /* takes and gives signs only */
    GCOLL_INPROC_SEAT_DEAD,    /* killed: takes and gives nothing */
    GCOLL_INPROC_SEAT_CLOSED
} gcoll_inproc_seat_state;

/* What one rank has to tell another; bits, so that telling needs no memory. */
#define GCOLL_INPROC_SIGN_CONNECT  1u
#define GCOLL_INPROC_SIGN_PROBE    2u
#define GCOLL_INPROC_SIGN_ANSWER   4u
#define GCOLL_INPROC_SIGN_ABORTED  8u
#define GCOLL_INPROC_SIGN_FAILED   16u
#define GCOLL_INPROC_SIGN_REFUSED  32u
#define GCOLL_INPROC_SIGN_DEPARTED 64u

/* One direction of a pair, at the receiving seat and under its lock. */
typedef struct gcoll_inproc_link {
    gcoll_answer answer; /* with GCOLL_INPROC_SIGN_ANSWER */
    uint64_t offered;    /* messages so far */
    uint32_t next;       /* queue of links with signs: a rank or GCOLL_INPROC_NOBODY */
    uint32_t signs;      /* queued while not 0 */
    bool joined;         /* either rank has connected */
    bool tell;           /* it was joined when this seat's rank aborted, was killed or closed */
} gcoll_inproc_link;

typedef struct gcoll_inproc_seat {
    pthread_mutex_t lock;         /* guards what follows; the atomics are written under it and read without */
    pthread_cond_t wake;          /* its rank sleeps here */
    pthread_cond_t idle;          /* those that withdraw wait here for a copy to stop */
    _Atomic uint32_t state;       /* gcoll_inproc_seat_state */
    _Atomic uint32_t stamp;       /* changes with everything that is left here */
    _Atomic bool woken;           /* by wake, until a waiting progress has returned */
    _Atomic bool stop;            /* the copy under way must stop at the next piece */
    bool sleeping;                /* its rank waits for `wake` to be signalled */
    uint32_t copying_from;        /* whose memory its rank reads right now, or GCOLL_INPROC_NOBODY */
    uint32_t sign_first;          /* links with signs, a rank or GCOLL_INPROC_NOBODY */
    gcoll_message_queue arrivals; /* sends on offer, not looked at yet */
    gcoll_message_queue ready;    /* receives with their send */
    gcoll_message_queue completed; /* sends of its rank that are done */
    _Atomic uint32_t home;         /* its rank's number on the hub; NOBODY: it has not attached to a part */
    gcoll_map offers;              /* sends on offer without a receive */
    gcoll_map receives;            /* receives without an offer */
    bool noted;                    /* its rank aborted, with: */
    gcoll_note note;
    bool concerned; /* its rank's probes carry: */
    uint64_t concern_stream;
    uint8_t concern[GCOLL_FINGERPRINT_BYTES];
} gcoll_inproc_seat;

typedef struct gcoll_inproc_room {
    struct gcoll_inproc_room *next;
    gcoll_hub *hub;
    uint8_t group[16];
    uint32_t number; /* rooms of this hub before it */
    uint32_t attached, attached_ever;
    uint32_t size;            /* of the group, which may be a part of the hub's ranks */
    gcoll_inproc_seat *seats; /* [rank] */
    gcoll_inproc_link *links; /* [to * size + from] */
} gcoll_inproc_room;

typedef enum gcoll_inproc_rule_kind {
    GCOLL_INPROC_RULE_CUT,
    GCOLL_INPROC_RULE_DROP,
    GCOLL_INPROC_RULE_CORRUPT
} gcoll_inproc_rule_kind;

typedef struct gcoll_inproc_rule {
    struct gcoll_inproc_rule *next;
    gcoll_inproc_rule_kind kind;
    uint32_t from, to;
    uint64_t stream; /* CORRUPT */
    uint32_t index;  /* CORRUPT */
    uint64_t number; /* DROP: which message. CORRUPT: which byte */
} gcoll_inproc_rule;

struct gcoll_hub {
    pthread_mutex_t lock; /* guards rooms, who is attached to them, seed and shuffled */
    uint32_t size;
    uint32_t rooms_made;
    gcoll_inproc_room *rooms;
    bool shuffled; /* does not change once there is a room, so is read without the lock */
    uint64_t seed;
    _Atomic bool faulty;        /* any fault was ever asked for */
    _Atomic bool *stalled;      /* [rank] */
    pthread_mutex_t rules_lock; /* guards rules */
    gcoll_inproc_rule *rules;
};

typedef enum gcoll_inproc_peer_state {
    GCOLL_INPROC_PEER_APART = 0,
    GCOLL_INPROC_PEER_CONNECTED,
    GCOLL_INPROC_PEER_BROKEN /* failed or departed, and said so */
} gcoll_inproc_peer_state;

/* Touched by its own thread only. */
struct gcoll_endpoint {
    gcoll_inproc_room *room;
    gcoll_inproc_seat *seat;
    uint32_t rank;
    gcoll_events events;
    uint8_t *peers;           /* [rank], gcoll_inproc_peer_state */
    gcoll_message_queue held; /* sends to peers that are not connected yet */
    gcoll_answer answer;      /* to probes */
    uint64_t *heard;          /* [rank]: how often something came from it */
    int64_t spin_us;
    uint32_t seen; /* seat->stamp when there was nothing left to do */
    bool again;    /* there is more to do all the same: it was held back, or too much for one call */
    bool hurries;  /* signs are heard before more is copied */
    bool moving;   /* inside gcoll_inproc_move */
    bool curious;  /* an offer without a receive counts as something that moved, until progress returns */
    uint64_t random;
    gcoll_crc32c_fn crc; /* NULL: copies are not checked */
};

/* queue.c */
/* Takes out *slot; before is the message ahead of it, or NULL. */
gcoll_message *gcoll_inproc_queue_take(gcoll_message_queue *queue, gcoll_message **slot,
                                       gcoll_message *before);
bool gcoll_inproc_queue_has(const gcoll_message_queue *queue, uint32_t peer);
/* Forgets the messages with `peer`. */
void gcoll_inproc_queue_drop(gcoll_message_queue *queue, uint32_t peer);
/* Tables of messages by (peer, stream, index). After init, put cannot fail. */
gcoll_status gcoll_inproc_table_init(gcoll_map *table);
void gcoll_inproc_table_put(gcoll_map *table, gcoll_message *message);
/* The message of that key, or NULL. */
gcoll_message *gcoll_inproc_table_find(const gcoll_map *table, uint32_t peer, uint64_t stream,
                                       uint32_t index);
/* The same, and takes it out. */
gcoll_message *gcoll_inproc_table_take(gcoll_map *table, uint32_t peer, uint64_t stream, uint32_t index);
void gcoll_inproc_table_drop(gcoll_map *table, uint32_t peer);

/* hub.c */
static inline gcoll_inproc_link *gcoll_inproc_link_of(const gcoll_inproc_room *room, uint32_t to,
                                                      uint32_t from) {
    return &room->links[(size_t)to * room->size + from];
}
gcoll_status gcoll_inproc_room_attach(const gcoll_endpoint_options *options, gcoll_inproc_room **room);
void gcoll_inproc_room_detach(gcoll_inproc_room *room);

/* seat.c */
/* Tells the seat's rank that there is something; the lock is held. */
void gcoll_inproc_seat_ring(gcoll_inproc_seat *seat);
/* Leaves signs of `from` at the seat of `to`. */
void gcoll_inproc_seat_sign(gcoll_inproc_room *room, uint32_t to, uint32_t from, uint32_t signs);
/* The same with the seat's lock held. */
void gcoll_inproc_seat_sign_locked(gcoll_inproc_room *room, uint32_t to, uint32_t from, uint32_t signs);
/* Leaves the answer to a probe. */
void gcoll_inproc_seat_answer(gcoll_inproc_room *room, uint32_t to, uint32_t from,
                              const gcoll_answer *answer);
/* Forgets all messages between the seat's rank and `peer`; the lock is held. */
void gcoll_inproc_seat_drop(gcoll_inproc_seat *seat, uint32_t peer);
/* Forgets all messages; the lock is held. */
void gcoll_inproc_seat_clear(gcoll_inproc_seat *seat);
/* Takes back everything that `from` offers at the seat of `at`; afterwards none of its bytes is read. Waits
 * for a copy to stop, which is a piece of it at most. */
void gcoll_inproc_seat_withdraw(gcoll_inproc_room *room, uint32_t at, uint32_t from);

/* Changes the seat's state to one that takes no messages, and marks whom to tell; the lock is held. */
void gcoll_inproc_seat_end(gcoll_inproc_room *room, uint32_t rank, gcoll_inproc_seat_state state);
/* Leaves `sign` with those that were marked. */
void gcoll_inproc_seat_tell(gcoll_inproc_room *room, uint32_t rank, uint32_t sign);

/* Returns the number on the hub of a rank of the room. Faults use this number. */
static inline uint32_t gcoll_inproc_home(const gcoll_inproc_room *room, uint32_t rank) {
    return atomic_load_explicit(&room->seats[rank].home, memory_order_relaxed);
}

/* move.c */
/* Delivers what can be delivered. True if any `done` or event was called. */
bool gcoll_inproc_move(gcoll_endpoint *endpoint);
static inline bool gcoll_inproc_stalled(const gcoll_endpoint *endpoint) {
    return atomic_load_explicit(
        &endpoint->room->hub->stalled[gcoll_inproc_home(endpoint->room, endpoint->rank)],
        memory_order_relaxed);
}
/* A number of the endpoint's own pseudo-random sequence. */
uint64_t gcoll_inproc_random(gcoll_endpoint *endpoint);
/* Leaves a send at its receiver's seat. */
void gcoll_inproc_offer(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
/* The pair is connected: sends held for it may go. */
void gcoll_inproc_join(gcoll_endpoint *endpoint, uint32_t peer);

/* fault.c */
bool gcoll_inproc_rule_cuts(gcoll_hub *hub, uint32_t from, uint32_t to);
bool gcoll_inproc_rule_drops(gcoll_hub *hub, uint32_t from, uint32_t to, uint64_t number);
/* Whether, and at which byte, a message is to be corrupted; the rule is used up. */
bool gcoll_inproc_rule_corrupts(gcoll_hub *hub, uint32_t from, uint32_t to, const gcoll_message *message,
                                uint64_t *byte);
void gcoll_inproc_rules_free(gcoll_hub *hub);

#endif
