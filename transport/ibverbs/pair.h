/*
 * transport/ibverbs/pair.h - an endpoint's state for one peer: the queue pair, and the messages to and from
 * it.
 */
#ifndef GCOLL_IB_PAIR_H
#define GCOLL_IB_PAIR_H

#include "transport/ibverbs/frame.h"
#include "transport/ibverbs/ib.h"
#include "transport/match.h"
#include "transport/queue.h"

/* A completion is asked for at least every so many work requests. */
#define GCOLL_IB_SIGNAL_EVERY 8
/* Work requests handed over at one doorbell, and completions taken at one look. */
#define GCOLL_IB_BATCH 16
/* Grants of small messages, and offers, that may be open on a pair in one direction; and beyond them an offer
 * for each posted receive. */
#define GCOLL_IB_PROMISES_MAX UINT32_C(65536)
#define GCOLL_IB_VERDICT_TEXT 192
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
    GCOLL_IB_IN_AHEAD = 32,  /* large, and not asked for */
    GCOLL_IB_IN_WANTED = 64, /* large, and certain to come */
    GCOLL_IB_HAS_OPEN = 128  /* its fingerprint came: with it, with its offer, or ahead of it */
};
#define GCOLL_IB_IN_ANY (GCOLL_IB_IN_UNGRANTED | GCOLL_IB_IN_AHEAD | GCOLL_IB_IN_WANTED)

/* gcoll_slot.flags of outgoing messages */
enum {
    GCOLL_IB_PROMISED = 1, /* small: a grant came before the send was posted */
    GCOLL_IB_ASKED = 2,
    GCOLL_IB_LISTED = 4, /* in `waiting` */
    GCOLL_IB_PIECES_WAIT = 8,
    GCOLL_IB_UNTOLD = 16 /* in the list of that name */
};

/* gcoll_message.flags of sends */
enum {
    GCOLL_IB_ON_CREDIT = 1,
    GCOLL_IB_OPENED = 2, /* the fingerprint has travelled */
    GCOLL_IB_FOLLOWS = 4,
    GCOLL_IB_OPENED_AHEAD = 8 /* in a CREDIT frame */
};

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
    uint64_t heard;      /* frames and writes that came */
    uint32_t slots;      /* of the peer's, that we may use */
    uint32_t slots_owed; /* of ours, that the peer does not know of */

    /* Incoming, as in TCP. */
    gcoll_match incoming;
    gcoll_slot_list ungranted; /* small ones */
    gcoll_slot_list ahead, wanted;
    uint32_t granted, offered;
    bool starved;
    uint64_t used, owed, held;
    uint64_t opened_ahead; /* fingerprints that came in CREDIT frames, and whose messages have not come */
    gcoll_ib_piece pieces[GCOLL_IB_PIECES];
    uint32_t piece_count;
    uint8_t *ring; /* GCOLL_IB_CHUNKS of GCOLL_IB_CHUNK_BYTES; NULL until needed */
    gcoll_ib_region *ring_region;
    uint32_t chunks_used; /* a bit each */

    /* Outgoing. */
    gcoll_match outgoing;
    gcoll_slot_list waiting;
    gcoll_slot_list untold; /* as in TCP */
    uint32_t promised, asked;
    uint64_t credit;
    gcoll_message_queue messages; /* small ones that may be sent */
    gcoll_message_queue accesses; /* each the first member of a gcoll_remote_access */
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
/* Counts the pair as connected if both queue pairs are known to receive. */
void gcoll_ib_connect_if_ready(gcoll_ib_pair *pair);

/* queue_pair.c */
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
/* The oldest work requests are finished, up to number `count`. */
void gcoll_ib_queue_finished(gcoll_ib_pair *pair, uint32_t count);

/* send.c */
/* The pair is connected: sorts out what waited. */
void gcoll_ib_send_start(gcoll_ib_pair *pair);
void gcoll_ib_on_grant(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
void gcoll_ib_on_revoke(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
void gcoll_ib_on_credit(gcoll_ib_pair *pair, uint32_t credit);
/* Tells the peer that the message waits; beyond the limit of offers, later. */
void gcoll_ib_offer(gcoll_ib_pair *pair, gcoll_slot *slot);
/* The same at once: the peer has granted the message, but as one of another size. */
void gcoll_ib_offer_granted(gcoll_ib_pair *pair, gcoll_slot *slot);
/* An offered message is in the send queue: another one may be offered in its place. */
void gcoll_ib_offer_ended(gcoll_ib_pair *pair);
/* The message needs no offer any more. */
void gcoll_ib_leave_untold(gcoll_ib_pair *pair, gcoll_slot *slot);
/* Takes a waiting send out of the table. */
gcoll_message *gcoll_ib_stop_waiting(gcoll_ib_pair *pair, gcoll_slot *slot);

/* recv.c */
void gcoll_ib_on_offer(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
void gcoll_ib_on_data(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *payload);
/* A CREDIT frame that brings a fingerprint, or says of which message an earlier one was. */
void gcoll_ib_on_opening(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
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
/* Takes back what was granted for a receive of which nothing has come. */
void gcoll_ib_withdraw_pieces(gcoll_ib_pair *pair, const gcoll_slot *slot);
/* The peer has written the piece that was granted under that handle. */
void gcoll_ib_on_written(gcoll_ib_pair *pair, uint32_t handle, uint32_t bytes);
/* The send of a large message for which pieces were granted before it was posted. */
void gcoll_ib_take_targets(gcoll_ib_pair *pair, gcoll_slot *slot, gcoll_message *message);
/* Forgets the pieces that were granted for a message that is not posted, and removes their slot. */
void gcoll_ib_forget_targets(gcoll_ib_pair *pair, gcoll_slot *slot);
void gcoll_ib_leave_list(gcoll_ib_pair *pair, gcoll_slot *slot);

/* access.c */
/* Fills in the work request for the next part of the oldest access, and returns its bytes. */
uint32_t gcoll_ib_next_access(gcoll_ib_pair *pair, struct ibv_send_wr *work);

/* complete.c */
/* Marks the pair as broken; `failed` follows from progress. The first failure counts. */
void gcoll_ib_fail(gcoll_ib_pair *pair, gcoll_status status, const char *format, ...) GCOLL_PRINTF(3, 4);
/* The same, but the side channel may yet know better. */
void gcoll_ib_doubt(gcoll_ib_pair *pair, const char *format, ...) GCOLL_PRINTF(2, 3);
/* The peer left; its last frame may still be on its way. */
void gcoll_ib_linger(gcoll_ib_pair *pair);
void gcoll_ib_depart(gcoll_ib_pair *pair);

#endif
