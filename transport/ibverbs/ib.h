/*
 * transport/ibverbs/ib.h - the parts of an ibverbs endpoint. Only transport/ibverbs and its tests include it.
 *
 * An endpoint owns a TCP endpoint, its side channel, which listens, connects, knows whom it talks to, tells
 * of aborts, probes and departures, and notices at once when a process dies. Messages go by one reliable
 * queue pair (RC) a peer, made when the first message is posted or the peer has begun. Where to find what:
 *
 *   verbs.c     the library           options.c   defaults and the environment
 *   device.c    which device, port and GID        gids.c  reading a port's table of GIDs
 *   list.c      what there is, for gcoll_devices
 *   endpoint.c  the table of operations, opening  pair.c  what the endpoint knows of one peer, dropping it
 *   side.c      events of the side channel        hello.c exchanging what queue pairs need, connecting them
 *   frame.c     the bytes of a frame              queue.c posting to the queue pair, credit for its slots
 *   send.c      when a message may go             recv.c  which receive a message belongs to
 *   pieces.c    large messages: grants, writes into granted memory
 *   memory.c    registration      direct.c  memory that peers access by themselves
 *   complete.c  completions, failures             progress.c  polling, waiting, calling back
 *   leave.c     abort, close
 *
 * Flow control has two levels. Slots: each side posts GCOLL_IB_DEPTH receives of slot_bytes and never sends
 * more than the peer has posted; slots come back as the peer makes progress, whatever its caller does. Pool:
 * bytes that no receive waits for, as in transport/tcp/flow.c, whose rules (credit, grants, revokes, offers)
 * hold here word for word, but that a large message is granted memory to write to, piece by piece.
 *
 * Callbacks are called from progress alone, as in TCP.
 */
#ifndef GCOLL_IB_H
#define GCOLL_IB_H

#include "transport/address.h"
#include "transport/ibverbs/counters.h"
#include "transport/ibverbs/options.h"
#include "transport/ibverbs/verbs.h"
#include "transport/match.h"
#include "transport/tcp/patience.h"
#include "transport/transport.h"

/* Receives that are posted for a peer, and work requests that may be in a send queue. */
#define GCOLL_IB_DEPTH 32
/* A completion is asked for at least every so many work requests. */
#define GCOLL_IB_SIGNAL_EVERY 8
/* Work requests handed over at one doorbell, and completions taken at one look. */
#define GCOLL_IB_BATCH 16
/* What a frame has before its payload: a header, and a fingerprint or the particulars of a grant. */
#define GCOLL_IB_HEADER_BYTES 32
#define GCOLL_IB_EXTRA_BYTES  32
#define GCOLL_IB_FIXED_BYTES  (GCOLL_IB_HEADER_BYTES + GCOLL_IB_EXTRA_BYTES)
#define GCOLL_IB_SLOT_BYTES   8192
#define GCOLL_IB_EAGER_BYTES  (GCOLL_IB_SLOT_BYTES - GCOLL_IB_FIXED_BYTES)
#define GCOLL_IB_EAGER_MAX    (65536 - GCOLL_IB_FIXED_BYTES)
#define GCOLL_IB_POOL_BYTES   (UINT64_C(4) << 20)
#define GCOLL_IB_POOL_MIN     UINT64_C(1024)
#define GCOLL_IB_POOL_MAX     (UINT64_C(1) << 31)
/* Pool that a message costs beyond its bytes. */
#define GCOLL_IB_OVERHEAD_BYTES 64
/* Pieces of large messages that one side has granted, and of those such as the peer has not asked for: the
 * rest is for messages that are certain to come. */
#define GCOLL_IB_PIECES       32
#define GCOLL_IB_PIECES_AHEAD 16
/* Of messages that are consumed: the ring of registered memory that they come by. */
#define GCOLL_IB_CHUNKS       8
#define GCOLL_IB_CHUNKS_AHEAD 4
#define GCOLL_IB_CHUNK_BYTES  (UINT32_C(128) << 10)
#define GCOLL_IB_PIECE_MAX    (UINT32_C(1) << 30)
/* Grants of small messages, and offers, that may be open on a pair in one direction. */
#define GCOLL_IB_PROMISES_MAX UINT32_C(65536)
#define GCOLL_IB_HELLO_BYTES  96
#define GCOLL_IB_VERDICT_TEXT 192
/* No rank uses it: tags have bit 63, and sequences are counted. */
#define GCOLL_IB_STREAM (UINT64_C(3) << 61)
/* A queue pair that broke waits so long for the side channel to say why. */
#define GCOLL_IB_DOUBT_MS 100
/* The same where requests were only flushed: the other end has the cause, and tells after its own doubt. */
#define GCOLL_IB_FLUSHED_MS 1000
/* A peer that left: so long its last messages may take to show. */
#define GCOLL_IB_LINGER_MS 1000

/* wr_id: the rank, what it was, and the number of a send or the slot of a receive. */
#define GCOLL_IB_WORK_RECEIVE                0U
#define GCOLL_IB_WORK_SEND                   1U
#define GCOLL_IB_WORK_ID(rank, what, number) ((uint64_t)(rank) << 33 | (uint64_t)(what) << 32 | (number))

typedef struct gcoll_ib gcoll_ib;
typedef struct gcoll_ib_pair gcoll_ib_pair;
typedef struct gcoll_ib_region gcoll_ib_region;

/* What was chosen, and what the device can do. */
typedef struct gcoll_ib_place {
    char name[IBV_SYSFS_NAME_MAX];
    uint8_t port;
    bool ethernet; /* RoCE: addressed by GIDs; else InfiniBand, by LIDs */
    int gid_index;
    union ibv_gid gid;
    uint16_t lid;
    enum ibv_mtu mtu;
    uint16_t pkey_index;
    uint32_t message_max;
} gcoll_ib_place;

/* ---- Memory ---------------------------------------------------------------------------------------- */

/* What a registration allows; each allows what those before it do. */
typedef enum gcoll_ib_use {
    GCOLL_IB_OWN,       /* reading by this rank's device */
    GCOLL_IB_GRANTABLE, /* writing, also by a peer that is granted it */
    GCOLL_IB_SHARED     /* reading by peers. Is not kept when nobody uses it. */
} gcoll_ib_use;

struct gcoll_ib_region {
    const uint8_t *begin;
    uint64_t bytes;
    gcoll_ib_use use;
    struct ibv_mr *mr;
    uint32_t users;
    bool is_foreign;                  /* memory of a device. Is not kept when nobody uses it */
    gcoll_ib_region *next, *previous; /* from latest to oldest used */
};

typedef struct gcoll_ib_memory {
    gcoll_ib_region *latest, *oldest;
    uint64_t cache_bytes; /* most that stay without a user */
    uint64_t idle_bytes;
    uint64_t registered_bytes;
} gcoll_ib_memory;

/* ---- Frames ---------------------------------------------------------------------------------------- */

typedef enum gcoll_ib_kind {
    GCOLL_IB_DATA = 1,    /* a small message; then its fingerprint if it opens, and its bytes */
    GCOLL_IB_OFFER = 2,   /* as in TCP */
    GCOLL_IB_GRANT = 3,   /* of a small message */
    GCOLL_IB_PIECE = 4,   /* of a large one: where to write a part of it */
    GCOLL_IB_REVOKE = 5,  /* of a grant of a small message, as in TCP */
    GCOLL_IB_CREDIT = 6,  /* slots and pool alone */
    GCOLL_IB_GOODBYE = 7, /* the last frame */
    GCOLL_IB_KINDS = 8
} gcoll_ib_kind;

#define GCOLL_IB_OPEN     0x80U /* a fingerprint follows: DATA, OFFER */
#define GCOLL_IB_CREDITED 0x40U /* DATA: uses the pool's credit, not a grant */

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

/* ---- Pairs ----------------------------------------------------------------------------------------- */

typedef enum gcoll_ib_state {
    GCOLL_IB_IDLE,      /* neither side has begun */
    GCOLL_IB_MEETING,   /* hellos are on their way */
    GCOLL_IB_CONNECTED, /* both queue pairs stand */
    GCOLL_IB_DEPARTED,  /* complete messages may still be received */
    GCOLL_IB_FAILED
} gcoll_ib_state;

/* gcoll_slot.flags of incoming messages */
enum {
    GCOLL_IB_STARTED = 1,
    GCOLL_IB_USES_POOL = 2,
    GCOLL_IB_GRANTED = 4, /* small: not STARTED; we have sent a grant */
    GCOLL_IB_OFFERED = 8, /* not STARTED; the peer said that it waits */
    GCOLL_IB_IN_UNGRANTED = 16,
    GCOLL_IB_IN_AHEAD = 32, /* large, and not asked for */
    GCOLL_IB_IN_WANTED = 64 /* large, and certain to come */
};
#define GCOLL_IB_IN_ANY (GCOLL_IB_IN_UNGRANTED | GCOLL_IB_IN_AHEAD | GCOLL_IB_IN_WANTED)

/* gcoll_slot.flags of outgoing messages */
enum {
    GCOLL_IB_PROMISED = 1, /* small: a grant came before the send was posted */
    GCOLL_IB_ASKED = 2,
    GCOLL_IB_LISTED = 4, /* in `waiting` */
    GCOLL_IB_PIECES_WAIT = 8
};

/* gcoll_message.flags of sends */
enum { GCOLL_IB_ON_CREDIT = 1, GCOLL_IB_OPENED = 2, GCOLL_IB_FOLLOWS = 4 };

/* A part of a large message that we have granted. */
typedef struct gcoll_ib_piece {
    gcoll_slot *slot; /* NULL: the handle is free */
    uint64_t offset;
    uint32_t bytes;
    uint32_t chunk; /* of the ring, or GCOLL_IB_CHUNKS */
} gcoll_ib_piece;

/* A part that the peer has granted. Its handle is its place in the table. */
typedef struct gcoll_ib_target {
    bool used;
    gcoll_message *message; /* once it is posted */
    uint64_t stream, offset, address, total;
    uint32_t index, bytes, rkey;
} gcoll_ib_target;

/* What the peer's hello said. */
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

/* The messages of the side channel that make a pair. */
typedef struct gcoll_ib_meeting {
    gcoll_message say, hear, say_ready, hear_ready;
    uint8_t said[GCOLL_IB_HELLO_BYTES], heard[GCOLL_IB_HELLO_BYTES];
    bool peer_ready; /* its queue pair receives */
    bool ready;      /* so does ours */
} gcoll_ib_meeting;

typedef struct gcoll_ib_control {
    uint8_t *bytes; /* frames of GCOLL_IB_FIXED_BYTES each; those that are shorter say so by their kind */
    size_t begin, end, capacity;
} gcoll_ib_control;

struct gcoll_ib_pair {
    gcoll_ib *ib;
    uint32_t rank;
    gcoll_ib_state state;
    gcoll_ib_meeting *meeting; /* MEETING */
    gcoll_ib_hello peer;       /* CONNECTED */

    /* The queue pair, and its memory: slots to receive into, then as many to send from. */
    struct ibv_qp *qp;
    uint32_t psn;
    uint32_t inline_bytes;
    uint8_t *memory;
    gcoll_ib_region *region;
    uint32_t posted_sends;                   /* ever */
    uint32_t finished_sends;                 /* of them */
    uint32_t unsignalled;                    /* since the last that asks for a completion */
    gcoll_message *sent[GCOLL_IB_DEPTH];     /* is done when that work request is */
    uint32_t writes_posted, writes_finished; /* of the sends: from the callers' memory */
    bool is_write[GCOLL_IB_DEPTH];
    uint32_t slots;      /* of the peer's, that we may use */
    uint32_t slots_owed; /* of ours, that the peer does not know of */

    /* Incoming, as in TCP. */
    gcoll_match incoming;
    gcoll_slot_list ungranted; /* small ones */
    gcoll_slot_list ahead, wanted;
    uint32_t granted, offered;
    bool starved;
    uint64_t used, owed, held;
    gcoll_ib_piece pieces[GCOLL_IB_PIECES];
    uint32_t piece_count;
    uint8_t *ring; /* GCOLL_IB_CHUNKS of GCOLL_IB_CHUNK_BYTES; NULL until needed */
    gcoll_ib_region *ring_region;
    uint32_t chunks_used; /* a bit each */

    /* Outgoing. */
    gcoll_match outgoing;
    gcoll_slot_list waiting;
    uint32_t promised, asked;
    uint64_t credit;
    gcoll_message *head, *tail; /* small ones that may be sent */
    gcoll_direct *directs, *last_direct;
    gcoll_ib_target targets[GCOLL_IB_PIECES];
    uint32_t writes[GCOLL_IB_PIECES]; /* handles of targets to be written, a queue */
    uint32_t write_head, write_count;
    gcoll_ib_control control;
    bool says_goodbye, said_goodbye;

    /* How it ends. */
    bool told;         /* an abort came from it */
    bool goodbye;      /* its last frame came */
    bool side_closed;  /* the side channel said that it left */
    int64_t until_ms;  /* of a verdict that waits for the side channel, or for the last frame */
    bool in_doubt;     /* and is not reported before */
    bool only_flushed; /* the verdict is a consequence, of what is not known */
    gcoll_status verdict;
    char verdict_text[GCOLL_IB_VERDICT_TEXT];

    gcoll_ib_pair *next_output, *next_verdict, *next_known;
    bool in_outputs, in_verdicts;
};

struct gcoll_ib {
    gcoll_endpoint *side;
    gcoll_events events;
    uint32_t rank, size;
    uint64_t eager_bytes, pool_bytes;
    uint32_t slot_bytes;
    gcoll_ibverbs_options options;
    gcoll_patience patience;

    gcoll_verbs verbs;
    gcoll_ib_place place;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    uint32_t cq_entries, cq_promised, cq_most;
    bool armed;
    gcoll_ib_memory memory;
    uint32_t exposed_count;
    gcoll_ib_counters counters;

    gcoll_ib_pair **pairs; /* by rank; NULL until needed */
    gcoll_ib_pair *known;  /* all that are made */
    gcoll_ib_pair *outputs;
    gcoll_ib_pair *verdicts, *last_verdict;
    uint32_t meeting_count;
    uint32_t doubt_count;
    gcoll_message *completed, *last_completed;

    uint32_t polls; /* since the last look at the side channel */
    bool moved, busy, curious, leaving;
    gcoll_status problem; /* of this rank's own: what progress returns */
    char problem_text[512];
};

static inline gcoll_ib *gcoll_ib_of(gcoll_endpoint *endpoint) {
    return (gcoll_ib *)(void *)endpoint;
}

/* gids.c */
typedef struct gcoll_ib_gid {
    int index;
    union ibv_gid gid;
    bool roce_v2;
    gcoll_host_address address; /* what the GID says: IPv4 if it is mapped */
} gcoll_ib_gid;
/* The entries in use of a port's table of `length`: how many, and (to be freed) what. */
uint32_t gcoll_ib_read_gids(const gcoll_verbs *verbs, struct ibv_context *context, const char *device,
                            uint32_t port, uint32_t length, gcoll_ib_gid **gids);

/* device.c */
/* Chooses by options and the addresses of the side channel, and opens it: place, context. */
gcoll_status gcoll_ib_open_device(gcoll_ib *ib, const gcoll_address *own);
uint32_t gcoll_ib_mtu_bytes(enum ibv_mtu mtu);

/* list.c */
void gcoll_ib_list(gcoll_device_fn fn, void *arg);

/* pair.c */
gcoll_ib_pair *gcoll_ib_pair_of(gcoll_ib *ib, uint32_t rank);
/* Forgets all messages, calling nothing: the queue pair is destroyed first if it could touch any. */
void gcoll_ib_pair_drop(gcoll_ib_pair *pair);
/* What remains of a pair that departed or failed. */
void gcoll_ib_pair_release(gcoll_ib_pair *pair);
void gcoll_ib_pair_destroy(gcoll_ib_pair *pair);

/* hello.c */
/* Begins to connect, if that was not done. */
void gcoll_ib_meet(gcoll_ib_pair *pair);
/* Both queue pairs stand, for all that is known. */
void gcoll_ib_connect_if_ready(gcoll_ib_pair *pair);

/* side.c */
extern const gcoll_events gcoll_ib_side_events; /* arg to be set */
/* Lets the side channel have its turn: 0, or waits. */
void gcoll_ib_side_look(gcoll_ib *ib, int64_t wait_us);

/* Whether the receiver grants memory for it, which the sender's device writes: by its size, or because the
 * host must not touch the data. */
static inline bool gcoll_ib_is_granted(const gcoll_ib *ib, const gcoll_message *message) {
    return message->bytes > ib->eager_bytes || (message->by_device && message->bytes > 0);
}

/* frame.c */
/* Returns how many bytes it is, without payload; a fingerprint is left to the caller. */
uint32_t gcoll_ib_put_frame(uint8_t *bytes, const gcoll_ib_frame *frame);
/* A control frame that was put before, with what is owed by now. Returns its bytes. */
uint32_t gcoll_ib_copy_frame(uint8_t *to, const uint8_t *from, const gcoll_ib_frame *owed);
/* NULL, or what is wrong with the `count` bytes that came. */
const char *gcoll_ib_get_frame(const uint8_t *bytes, uint32_t count, gcoll_ib_frame *frame);
uint32_t gcoll_ib_frame_bytes(const gcoll_ib_frame *frame);
void gcoll_ib_put_hello(uint8_t *bytes, const gcoll_ib_hello *hello);
const char *gcoll_ib_get_hello(const uint8_t *bytes, gcoll_ib_hello *hello);

/* queue.c */
gcoll_status gcoll_ib_queue_create(gcoll_ib_pair *pair);
/* Posts the receive of slot `slot`. */
bool gcoll_ib_queue_receive(gcoll_ib_pair *pair, uint32_t slot);
/* No access of the device to any memory by this pair afterwards. */
void gcoll_ib_queue_destroy(gcoll_ib_pair *pair);
void gcoll_ib_append_control(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *fingerprint);
void gcoll_ib_enqueue(gcoll_ib_pair *pair, gcoll_message *message);
void gcoll_ib_want_output(gcoll_ib_pair *pair);
bool gcoll_ib_has_output(const gcoll_ib_pair *pair);
void gcoll_ib_pump(gcoll_ib_pair *pair);
void gcoll_ib_flush_all(gcoll_ib *ib);
/* The oldest work requests are finished, up to number `count`. */
void gcoll_ib_queue_finished(gcoll_ib_pair *pair, uint32_t count);

/* send.c */
void gcoll_ib_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
/* The pair is connected: sorts out what waited. */
void gcoll_ib_send_start(gcoll_ib_pair *pair);
void gcoll_ib_on_grant(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
void gcoll_ib_on_revoke(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
void gcoll_ib_on_credit(gcoll_ib_pair *pair, uint32_t credit);
/* Tells the peer that the message waits. */
void gcoll_ib_offer(gcoll_ib_pair *pair, gcoll_slot *slot);
/* Takes a waiting send out of the table. */
gcoll_message *gcoll_ib_stop_waiting(gcoll_ib_pair *pair, gcoll_slot *slot);

/* recv.c */
void gcoll_ib_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
bool gcoll_ib_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index);
void gcoll_ib_on_offer(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
void gcoll_ib_on_data(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *payload);
/* Books that a message starts. */
void gcoll_ib_start(gcoll_ib_pair *pair, gcoll_slot *slot, bool on_credit);
void gcoll_ib_finish_recv(gcoll_ib_pair *pair, gcoll_slot *slot);
uint64_t gcoll_ib_credit_step(const gcoll_ib_pair *pair);
void gcoll_ib_mismatch(gcoll_ib_pair *pair, uint64_t sent, uint64_t expected);
void gcoll_ib_out_of_memory(gcoll_ib_pair *pair);

/* pieces.c */
/* A large receive is posted, or turned out to be certain to come. */
void gcoll_ib_want_pieces(gcoll_ib_pair *pair, gcoll_slot *slot);
/* Grants as much as may be granted. */
void gcoll_ib_grant_pieces(gcoll_ib_pair *pair);
void gcoll_ib_on_piece(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
/* The peer has written what it was granted by that handle. */
void gcoll_ib_on_written(gcoll_ib_pair *pair, uint32_t handle, uint32_t bytes);
/* The send of a large message for which pieces were granted before it was posted. */
void gcoll_ib_take_targets(gcoll_ib_pair *pair, gcoll_slot *slot, gcoll_message *message);
void gcoll_ib_leave_list(gcoll_ib_pair *pair, gcoll_slot *slot);

/* memory.c */
/* A registration that covers the range; NULL with the last error set. Counted: to be released. */
gcoll_ib_region *gcoll_ib_register(gcoll_ib *ib, const void *data, uint64_t bytes, gcoll_ib_use use);
/* The same for longer than a message. Exposed memory gets a registration of its own, which nothing but
 * messages uses too: when it is concealed, the key that peers have is good for nothing. */
gcoll_ib_region *gcoll_ib_register_for_long(gcoll_ib *ib, const void *data, uint64_t bytes, gcoll_ib_use use);
/* Memory of a device; it is found by the other two then. */
gcoll_ib_region *gcoll_ib_register_device(gcoll_ib *ib, const gcoll_foreign_memory *memory, gcoll_ib_use use);
void gcoll_ib_unregister(gcoll_ib *ib, gcoll_ib_region *region); /* NULL is fine */
void gcoll_ib_memory_clear(gcoll_ib *ib);

/* direct.c */
gcoll_status gcoll_ib_expose(gcoll_endpoint *endpoint, void *data, uint64_t bytes, gcoll_exposed *exposed);
void gcoll_ib_conceal(gcoll_endpoint *endpoint, gcoll_exposed *exposed);
void gcoll_ib_access(gcoll_endpoint *endpoint, uint32_t peer, gcoll_direct *direct);
/* Fills in the work request for the next part of the oldest access, and returns its bytes. */
uint32_t gcoll_ib_next_direct(gcoll_ib_pair *pair, struct ibv_send_wr *work);

/* complete.c */
/* Takes what is in the completion queue; returns how many. */
uint32_t gcoll_ib_poll(gcoll_ib *ib);
void gcoll_ib_complete(gcoll_ib *ib, gcoll_message *message);
void gcoll_ib_report_completed(gcoll_ib *ib);
void gcoll_ib_report(gcoll_ib *ib);
/* Marks the pair as broken; `failed` follows from progress. The first failure counts. */
void gcoll_ib_fail(gcoll_ib_pair *pair, gcoll_status status, const char *format, ...) GCOLL_PRINTF(3, 4);
/* The same, but the side channel may yet know better. */
void gcoll_ib_doubt(gcoll_ib_pair *pair, const char *format, ...) GCOLL_PRINTF(2, 3);
/* The peer left; its last frame may still be on its way. */
void gcoll_ib_linger(gcoll_ib_pair *pair);
void gcoll_ib_depart(gcoll_ib_pair *pair);
/* Ends doubts whose time is over, or all about one pair. */
void gcoll_ib_settle_doubts(gcoll_ib *ib);
/* What is wrong here, and not with a peer: the last error. Progress returns it. */
void gcoll_ib_problem(gcoll_ib *ib, gcoll_status status);

/* progress.c */
gcoll_status gcoll_ib_progress(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved);
/* Lets events of the completion channel be forgotten, and asks for the next one. */
bool gcoll_ib_arm(gcoll_ib *ib);
void gcoll_ib_disarm(gcoll_ib *ib);

/* leave.c */
void gcoll_ib_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms);
void gcoll_ib_close(gcoll_endpoint *endpoint, int64_t limit_ms);
void gcoll_ib_destroy(gcoll_ib *ib);

#endif
