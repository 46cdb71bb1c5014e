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
#define GCOLL_IB_BATCH      16
#define GCOLL_IB_FAULT_TEXT 192
/* A queue pair that broke waits so long for the session to say why. */
#define GCOLL_IB_DOUBT_MS 100
/* The same where requests were only flushed: the other end has the cause, and tells after its own doubt. */
#define GCOLL_IB_FLUSHED_MS 1000

/* A proof that no device has acknowledged by then fails, whatever the options let the device try. */
#define GCOLL_IB_PROOF_MS 5000

/* wr_id: the rank, what it was, and the number of a send or the slot of a receive. */
#define GCOLL_IB_WORK_RECEIVE                0U
#define GCOLL_IB_WORK_SEND                   1U
#define GCOLL_IB_WORK_ID(rank, what, number) ((uint64_t)(rank) << 33 | (uint64_t)(what) << 32 | (number))

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

struct gcoll_ib_pair {
    gcoll_ib *ib;
    gcoll_session *session;
    gcoll_flow *flow; /* the session's */
    uint32_t rank;
    uint32_t psn;
    gcoll_ib_hello peer; /* once has_hello */

    /* The queue pair, and its memory: slots to receive into, then as many to send from. */
    struct ibv_qp *qp;
    uint8_t *memory;
    gcoll_ib_region *region;
    uint32_t inline_bytes;
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
    uint32_t chunks_used; /* a bit each */
    uint8_t *ring;        /* GCOLL_IB_CHUNKS of GCOLL_IB_CHUNK_BYTES; NULL until needed */
    gcoll_ib_region *ring_region;

    /* Outgoing. */
    gcoll_message_queue messages; /* small ones that may be sent */
    gcoll_message_queue accesses; /* each the first member of a gcoll_remote_access */
    gcoll_ib_target targets[GCOLL_IB_PIECES];
    uint32_t writes[GCOLL_IB_PIECES]; /* handles of targets to be written, a queue */
    uint32_t write_head, write_count;
    gcoll_byte_queue control; /* frames of GCOLL_IB_FIXED_BYTES each; shorter ones say so by their kind */

    gcoll_ib_pair *next_output, *next_known;
    bool in_outputs;

    /* Meeting (hello.c). is_ready: our queue pair receives; proves: both ends have to prove themselves. */
    bool has_hello, is_ready, peer_ready, proves, says_proof, proved, peer_proved;
    uint32_t packet_bytes;  /* the MTU of the path, once has_hello */
    int64_t proof_until_ms; /* while our proof is on its way; else 0 */
    bool stands;            /* messages go */
    bool says_goodbye, said_goodbye;
    bool goodbye; /* the peer's last frame came */
    bool ended;   /* the session has no use for it any more */
};

/* Whether messages go, and nothing is wrong. */
static inline bool gcoll_ib_stands(const gcoll_ib_pair *pair) {
    return pair->stands && gcoll_session_is_well(pair->session);
}

/* pair.c */
/* Of a session that takes this lane. NULL without memory. */
gcoll_ib_pair *gcoll_ib_pair_new(gcoll_ib *ib, gcoll_session *session);
/* The queue pair cannot be used, or not any more. text as in gcoll_events.failed. */
void gcoll_ib_broke(gcoll_ib_pair *pair, const char *format, ...) GCOLL_PRINTF(2, 3);
/* Gives back the registration of a message's memory, if it has one. */
void gcoll_ib_release(gcoll_ib_pair *pair, gcoll_message *message);
/* The operations of the lane. */
void gcoll_ib_drop(gcoll_session *session);
void gcoll_ib_end(gcoll_session *session);
void gcoll_ib_leave(gcoll_session *session);
bool gcoll_ib_is_leaving(const gcoll_session *session);

/* hello.c */
void gcoll_ib_begin(gcoll_session *session, gcoll_lane_port *port);
void gcoll_ib_hear(gcoll_session *session, const uint8_t *bytes, uint32_t count);
/* A frame came before the lane stands. */
void gcoll_ib_heard_early(gcoll_ib_pair *pair, bool is_proof);
/* The proof is posted; the peer's device has acknowledged it; it does not matter any more. */
void gcoll_ib_proof_sent(gcoll_ib_pair *pair);
void gcoll_ib_proved(gcoll_ib_pair *pair);
void gcoll_ib_proof_ended(gcoll_ib_pair *pair);
/* Refuses the lane where a proof takes too long. */
void gcoll_ib_limit_proofs(gcoll_ib *ib);

/* queue_pair.c */
gcoll_status gcoll_ib_queue_create(gcoll_ib_pair *pair);
/* Posts the receive of slot `slot`. */
bool gcoll_ib_queue_receive(gcoll_ib_pair *pair, uint32_t slot);
/* The bytes of a frame that came. */
const uint8_t *gcoll_ib_received(const gcoll_ib_pair *pair, uint32_t slot);
/* No access of the device to any memory by this pair afterwards. */
void gcoll_ib_queue_destroy(gcoll_ib_pair *pair);
void gcoll_ib_append_control(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *fingerprint);
void gcoll_ib_enqueue(gcoll_ib_pair *pair, gcoll_message *message);
void gcoll_ib_want_output(gcoll_ib_pair *pair);
/* The oldest work requests are finished, up to number `count`. */
void gcoll_ib_queue_finished(gcoll_ib_pair *pair, uint32_t count);

/* messages.c */
extern const gcoll_flow_lane gcoll_ib_flow_lane;
void gcoll_ib_on_offer(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *extra);
void gcoll_ib_on_data(gcoll_ib_pair *pair, const gcoll_ib_frame *frame, const uint8_t *extra);
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

#endif
