/*
 * transport/flow/flow.h - flow control of one pair of ranks, and matching: decides when a message may be
 * sent, and finds its receive.
 *
 * A flow is one rank's state for one peer, in both directions. It knows no connection, no memory of devices
 * and no clock. What has to be sent or reported it hands to its lane, which moves the bytes, by a table of
 * functions; the lane hands it what came. Both ends follow the same rules:
 *
 * Credit and grants. The receiver has a pool of pool_bytes for messages that no receive waits for; the peer
 * starts with that much credit. A message of at most eager_bytes is sent at once if there is credit for its
 * bytes and an overhead. When a receive has taken the message, the credit returns with the next message, or
 * by itself once a quarter of the pool is owed. Any other message waits for a grant, which the receiver sends
 * when it posts a large receive, even before the sender asks.
 *
 * No deadlock. eager_bytes is less than half the pool, so a small message that waits for credit implies that
 * more than half the pool is used once everything has arrived. While more than half is used, the receiver
 * grants every posted receive, small ones too. So a message with a posted receive always moves, however full
 * the pool is.
 *
 * Grants that cross. A grant for a small message may cross the message, sent on credit. The receiver notices
 * (the message used credit although it was granted) and sends a revoke. The sender remembers grants without a
 * matching send, and on the revoke forgets this one. Control frames keep their order, so the grant is always
 * among the remembered ones when its revoke arrives. So memory is bounded: the sender remembers at most as
 * many grants as the receiver has open, and the receiver opens at most GCOLL_FLOW_PROMISES_MAX.
 *
 * Offers. A waiting send that is large or carries a fingerprint is announced by an offer. So the receiver
 * sees fingerprints and wrong sizes of messages that would otherwise wait unseen. It grants every offered
 * message for which it posts a receive. A send that the receiver may peek for (`announced`) is offered, too.
 * At most GCOLL_FLOW_PROMISES_MAX offers are open. Beyond that a message is untold: its fingerprint travels
 * ahead of it, and the offer follows when an earlier offer has ended, in the order of posting. A grant may
 * come before that; then no offer is needed.
 *
 * What the lane owes the flow: control frames arrive in the order in which they were sent, none is lost, and
 * a control frame that is sent after a message's first byte arrives after it.
 */
#ifndef GCOLL_FLOW_H
#define GCOLL_FLOW_H

#include "transport/match.h"

/* Credit that a message costs beyond its bytes: so a flood of empty messages is bounded, too. */
#define GCOLL_FLOW_OVERHEAD_BYTES 64
/* The pool: by default, the least and the most. Credit must fit the 32 bits of a header. */
#define GCOLL_FLOW_POOL_BYTES (UINT64_C(4) << 20)
#define GCOLL_FLOW_POOL_MIN   UINT64_C(1024)
#define GCOLL_FLOW_POOL_MAX   (UINT64_C(1) << 31)
/* Most grants, and most offers, that may be open in one direction: what a peer can make us remember. */
#define GCOLL_FLOW_PROMISES_MAX UINT32_C(65536)

/* gcoll_slot.flags of incoming messages; lanes have the bits from GCOLL_FLOW_LANE on */
enum {
    GCOLL_FLOW_STARTED = 1,    /* bytes have come */
    GCOLL_FLOW_CREDITED = 2,   /* STARTED, and uses credit */
    GCOLL_FLOW_GRANTED = 4,    /* not STARTED; we have sent a grant */
    GCOLL_FLOW_OFFERED = 8,    /* not STARTED; the peer said that it waits */
    GCOLL_FLOW_UNGRANTED = 16, /* in the list of that name */
    GCOLL_FLOW_HAS_OPEN = 32,  /* its fingerprint came: with it, with its offer, or ahead of it */
    GCOLL_FLOW_LANE = 64
};

/* gcoll_slot.flags of outgoing messages; lanes have the bits from GCOLL_FLOW_LANE on */
enum {
    GCOLL_FLOW_PROMISED = 1, /* a grant came before the send was posted */
    GCOLL_FLOW_ASKED = 2,    /* we have sent an offer */
    GCOLL_FLOW_LISTED = 4,   /* in the list of those that wait for credit */
    GCOLL_FLOW_UNTOLD = 8,   /* in the list of that name */
    GCOLL_FLOW_PLAIN = 16    /* PROMISED, and the receive is plain */
};

/* gcoll_message.flags of sends; lanes have the bits from GCOLL_FLOW_SEND_LANE on */
enum {
    GCOLL_FLOW_ON_CREDIT = 1,
    GCOLL_FLOW_OPENED = 2,  /* the fingerprint has travelled */
    GCOLL_FLOW_FOLLOWS = 4, /* an offer, which counts until the message's first byte has left */
    GCOLL_FLOW_AHEAD = 8,   /* OPENED, in a frame of its own */
    GCOLL_FLOW_GRANTED_PLAIN = 16,
    GCOLL_FLOW_SEND_LANE = 32
};

typedef enum gcoll_flow_kind {
    GCOLL_FLOW_DATA = 1, /* bytes of the message */
    GCOLL_FLOW_OFFER,    /* the message waits: stream, index, total, perhaps a fingerprint */
    GCOLL_FLOW_GRANT,    /* the message may be sent: stream, index */
    GCOLL_FLOW_REVOKE,   /* the grant is not needed: stream, index */
    GCOLL_FLOW_OPENING   /* the fingerprint of some message of the stream */
} gcoll_flow_kind;

/* What a frame says, however a lane writes it. */
typedef struct gcoll_flow_frame {
    gcoll_flow_kind kind;
    uint32_t index;
    uint64_t stream;
    uint64_t total;      /* OFFER, DATA: the message's bytes */
    const uint8_t *open; /* NULL, or GCOLL_FINGERPRINT_BYTES that come with it */
    bool on_credit;      /* DATA: without a grant */
    bool is_ahead;       /* DATA: its fingerprint came in a frame of its own */
    bool is_plain;       /* GRANT: the receive copies what comes, and reduces nothing; lanes need not tell */
} gcoll_flow_frame;

typedef struct gcoll_flow gcoll_flow;

/* Messages that the receiver grants piece by piece, as memory to write to. They are never sent otherwise. */
typedef struct gcoll_flow_pieces {
    /* Whether the message is one. The same on both sides. */
    bool (*takes)(const gcoll_flow *flow, const gcoll_message *message);
    /* A receive is posted, or its message, which is OFFERED by now, has become certain to come. */
    void (*await)(gcoll_flow *flow, gcoll_slot *slot);
    /* Takes back what was granted for a receive of which nothing has come; it is in no list afterwards. */
    void (*withdraw)(gcoll_flow *flow, gcoll_slot *slot);
    /* A send is posted that has a slot, and is not PROMISED: pieces came before. */
    void (*post)(gcoll_flow *flow, gcoll_slot *slot, gcoll_message *message);
} gcoll_flow_pieces;

/* What a flow calls. None of these may call the flow back, but for `deliver`, `pieces`, `complete`, and what
 * they say. */
typedef struct gcoll_flow_lane {
    void (*control)(gcoll_flow *flow, const gcoll_flow_frame *frame);
    /* The message may be sent. When its first byte has left, perhaps at once, gcoll_flow_sent is called. */
    void (*enqueue)(gcoll_flow *flow, gcoll_message *message);
    /* Credit is owed that is to be sent even without a message. */
    void (*owe)(gcoll_flow *flow);
    /* Hands the slot->received bytes at slot->held to the receive that has been posted for them. */
    void (*deliver)(gcoll_flow *flow, gcoll_slot *slot);
    /* A receive has all its bytes. */
    void (*complete)(gcoll_flow *flow, gcoll_message *message);
    /* A message without a receive has come, or is offered. */
    void (*unexpected)(gcoll_flow *flow);
    /* The pair is broken; text as in gcoll_events.failed. Nothing more is called then. */
    void (*fail)(gcoll_flow *flow, gcoll_status status, const char *text);
    /* NULL, or: the message is dropped. */
    void (*forget)(gcoll_flow *flow, gcoll_message *message);
    const gcoll_flow_pieces *pieces; /* NULL: all are granted as a whole */
} gcoll_flow_lane;

struct gcoll_flow {
    const gcoll_flow_lane *lane;
    uint32_t peer;
    bool is_connected; /* else all messages wait */
    uint64_t eager_bytes, pool_bytes;
    uint64_t peer_eager, peer_pool; /* once it is connected */
    uint32_t promises_max;          /* GCOLL_FLOW_PROMISES_MAX, but in tests; the same on both sides */

    /* Incoming. */
    gcoll_match incoming;
    gcoll_slot_list ungranted; /* posted, not started, not granted, no pieces; before the connection: all */
    uint32_t granted;          /* grants that no message has answered */
    uint32_t offered;          /* offers of the peer that no message has followed */
    bool is_starved;           /* some grant waits for `granted` to fall */
    uint64_t used;             /* of our pool: held, being received, or owed */
    uint64_t owed;             /* consumed but not given back yet */
    uint64_t held;             /* bytes in memory that no receive waits for */
    uint64_t opened_ahead;     /* fingerprints that came by themselves, and whose messages have not come */

    /* Outgoing. */
    gcoll_match outgoing;
    gcoll_slot_list waiting; /* for credit; before the connection: all sends */
    gcoll_slot_list untold;  /* to be offered when `asked` falls; empty unless that is at its limit */
    uint32_t promised;       /* grants that we remember */
    uint32_t asked;          /* offers of ours that no message has followed */
    uint64_t credit;
};

/* A zeroed flow owns nothing; this makes it ready. eager_bytes: less than half of pool_bytes. */
void gcoll_flow_init(gcoll_flow *flow, const gcoll_flow_lane *lane, uint32_t peer, uint64_t eager_bytes,
                     uint64_t pool_bytes);
/* Before it is connected: another lane, with limits of its own, moves the bytes. */
void gcoll_flow_set_lane(gcoll_flow *flow, const gcoll_flow_lane *lane, uint64_t eager_bytes,
                         uint64_t pool_bytes);
/* Drops all sends that have not been enqueued. */
void gcoll_flow_drop_sends(gcoll_flow *flow);
/* Drops all messages; the flow owns nothing then. */
void gcoll_flow_drop(gcoll_flow *flow);
/* The peer left: drops all but messages that have come whole. */
void gcoll_flow_depart(gcoll_flow *flow);

/* ---- Sending ------------------------------------------------------------------------------------- */

/* The connection stands: sorts out the messages that waited for it. */
void gcoll_flow_connect(gcoll_flow *flow, uint64_t peer_eager, uint64_t peer_pool);
void gcoll_flow_post_send(gcoll_flow *flow, gcoll_message *message);
/* Whether the message, which is not posted, may be sent on credit before all that are. It counts as sent
 * then: the lane must send it at once. */
bool gcoll_flow_send_now(gcoll_flow *flow, gcoll_message *message);
/* An offered message is on its way: another one may be offered in its place. */
void gcoll_flow_offer_ended(gcoll_flow *flow);
/* The first byte of an enqueued message has left. */
static inline void gcoll_flow_sent(gcoll_flow *flow, gcoll_message *message) {
    if (message->flags & GCOLL_FLOW_FOLLOWS) { /* from now on later offers cannot overtake it */
        message->flags &= ~(uint32_t)GCOLL_FLOW_FOLLOWS;
        gcoll_flow_offer_ended(flow);
    }
}
/* Frames that came. on_control: any but data and credit, by its kind. */
void gcoll_flow_on_control(gcoll_flow *flow, const gcoll_flow_frame *frame);
void gcoll_flow_on_credit(gcoll_flow *flow, uint32_t credit);
void gcoll_flow_on_grant(gcoll_flow *flow, uint64_t stream, uint32_t index, bool is_plain);
void gcoll_flow_on_revoke(gcoll_flow *flow, uint64_t stream, uint32_t index);

/* For `pieces`. Sends a message that has no slot, or makes it wait. is_granted: the receiver has granted
 * another size, so it is told at once. */
void gcoll_flow_send(gcoll_flow *flow, gcoll_message *message, bool is_granted);
/* Tells the peer that the message waits; beyond the limit of offers, later. */
void gcoll_flow_offer(gcoll_flow *flow, gcoll_slot *slot);
/* The same at once: the peer has granted the message, but as one of another size. */
void gcoll_flow_offer_granted(gcoll_flow *flow, gcoll_slot *slot);
/* The message needs no offer any more. */
void gcoll_flow_leave_untold(gcoll_flow *flow, gcoll_slot *slot);
/* Takes a waiting send out of the table. */
gcoll_message *gcoll_flow_stop_waiting(gcoll_flow *flow, gcoll_slot *slot);

/* ---- Receiving ----------------------------------------------------------------------------------- */

/* is_last: the peer left, and only what has come can be received. False: nothing will come for it. */
bool gcoll_flow_post_recv(gcoll_flow *flow, gcoll_message *message, bool is_last);
/* Whether a message that has come whole, in one frame, is for this receive, which is not posted, and needs
 * nothing but to be handed to it. It counts as received then. */
bool gcoll_flow_recv_now(gcoll_flow *flow, const gcoll_flow_frame *data, gcoll_message *message);
/* Whether the message is here, or offered, and no receive is posted for it; *bytes is then its size. */
bool gcoll_flow_peek(const gcoll_flow *flow, uint64_t stream, uint32_t index, uint64_t *bytes);
/* The slot of a posted receive; NULL if it is done or was dropped. */
gcoll_slot *gcoll_flow_posted(const gcoll_flow *flow, const gcoll_message *message);
/* Cancels a posted receive. False once it is granted or has begun, as the peer may already be sending. */
bool gcoll_flow_take_back(gcoll_flow *flow, gcoll_slot *slot);
void gcoll_flow_on_offer(gcoll_flow *flow, const gcoll_flow_frame *offer);
/* A fingerprint came by itself. */
void gcoll_flow_on_opening(gcoll_flow *flow);
/* A message begins to come. Returns its slot, with memory at `held` if no receive is posted; NULL if the pair
 * failed. */
gcoll_slot *gcoll_flow_begin(gcoll_flow *flow, const gcoll_flow_frame *data);
/* The slot of a message of which the fragment with these bytes comes; otherwise as gcoll_flow_begin. */
gcoll_slot *gcoll_flow_fragment(gcoll_flow *flow, const gcoll_flow_frame *data, uint64_t bytes);
/* All bytes are there, and a receive is posted. */
void gcoll_flow_finish(gcoll_flow *flow, gcoll_slot *slot);

/* For `pieces`: a message that they bring begins to come. */
void gcoll_flow_start(gcoll_flow *flow, gcoll_slot *slot, bool on_credit);
/* A message says that its fingerprint came by itself. False: the pair failed, as there is none left. */
bool gcoll_flow_take_ahead(gcoll_flow *flow);
void gcoll_flow_out_of_memory(gcoll_flow *flow);

/* ---- Credit that is owed to the peer --------------------------------------------------------------- */

/* Whether so much is owed that it is sent by itself. */
static inline bool gcoll_flow_owes(const gcoll_flow *flow) {
    return flow->owed > 0 && flow->owed >= flow->pool_bytes / 4;
}

/* The peer was given back that much. */
static inline void gcoll_flow_give_back(gcoll_flow *flow, uint64_t credit) {
    flow->owed -= credit;
    flow->used -= credit;
}

#endif
