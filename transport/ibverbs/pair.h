/*
 * transport/ibverbs/pair.h - an endpoint's state for one peer: the queue pair, and the messages to and from
 * it.
 */
#ifndef GCOLL_IB_PAIR_H
#define GCOLL_IB_PAIR_H

#include "transport/flow/flow.h"
#include "transport/ibverbs/frame.h"
#include "transport/ibverbs/ib.h"
#include "transport/queue.h"

/* A completion is asked for at least every so many work requests. */
#define GCOLL_IB_SIGNAL_EVERY 8
/* Work requests handed over at one doorbell, and completions taken at one look. */
#define GCOLL_IB_BATCH        16
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

/* gcoll_slot.flags, beside those of transport/flow: incoming messages */
enum {
    GCOLL_IB_IN_AHEAD = GCOLL_FLOW_LANE,      /* large, and not asked for */
    GCOLL_IB_IN_WANTED = 2 * GCOLL_FLOW_LANE, /* large, and certain to come */
};

/* ... and outgoing ones */
enum { GCOLL_IB_PIECES_WAIT = GCOLL_FLOW_LANE };

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
    gcoll_flow flow; /* the first member */
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

    /* Incoming. */
    gcoll_slot_list ahead, wanted; /* of large messages */
    gcoll_ib_piece pieces[GCOLL_IB_PIECES];
    uint32_t piece_count;
    uint8_t *ring; /* GCOLL_IB_CHUNKS of GCOLL_IB_CHUNK_BYTES; NULL until needed */
    gcoll_ib_region *ring_region;
    uint32_t chunks_used; /* a bit each */

    /* Outgoing. */
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
/* Gives back the registration of a message's memory, if it has one. */
void gcoll_ib_release(gcoll_ib_pair *pair, gcoll_message *message);
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

/* messages.c */
extern const gcoll_flow_lane gcoll_ib_flow_lane;
void gcoll_ib_on_offer(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *extra);
void gcoll_ib_on_data(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *payload);
/* A CREDIT frame that brings a fingerprint, or says of which message an earlier one was. */
void gcoll_ib_on_opening(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);

/* pieces.c */
extern const gcoll_flow_pieces gcoll_ib_flow_pieces;
/* Grants as much as may be granted. */
void gcoll_ib_grant_pieces(gcoll_ib_pair *pair);
void gcoll_ib_on_piece(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
/* The grants of a message's pieces are taken back. */
void gcoll_ib_on_pieces_revoked(gcoll_ib_pair *pair, const gcoll_ib_frame *frame);
/* The peer has written the piece that was granted under that handle. */
void gcoll_ib_on_written(gcoll_ib_pair *pair, uint32_t handle, uint32_t bytes);
/* The receive waits for no piece any more. */
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
