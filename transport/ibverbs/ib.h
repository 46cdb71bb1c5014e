/*
 * transport/ibverbs/ib.h - the parts of an ibverbs endpoint. Only transport/ibverbs and its tests include it.
 *
 * ib.h declares the endpoint, pair.h its state for one peer, frame.h the bytes that travel, device.h the
 * chosen device, registration.h the memory that the device may use.
 *
 * An endpoint owns a TCP endpoint, its side channel. The side channel listens, connects, checks who its peers
 * are, carries aborts, probes and departures, and notices at once when a process dies. Messages go by one
 * reliable queue pair (RC) a peer, made when the first message is posted or the peer has begun. Where to find
 * what:
 *
 *   verbs.c         the library
 *   options.c       defaults and the environment
 *   device.c        which device, port and GID
 *   gids.c          reading a port's table of GIDs
 *   list_ports.c    what there is, for gcoll_devices
 *   endpoint.c      the table of operations, opening
 *   pair.c          what the endpoint knows of one peer, dropping it
 *   side.c          events of the side channel
 *   hello.c         exchanging what queue pairs need, connecting them
 *   frame.c         the bytes of a frame
 *   queue_pair.c    posting to the queue pair, credit for its slots
 *   messages.c      posting, arrivals, and what flow control (transport/flow) needs of a queue pair
 *   pieces.c        large messages: grants, writes into granted memory
 *   registration.c  memory that the device may use
 *   access.c        memory that peers access by themselves
 *   complete.c      completions, failures
 *   progress.c      polling, waiting, calling back
 *   leave.c         abort, close
 *
 * Flow control has two levels. Slots: each side posts GCOLL_IB_DEPTH receives of slot_bytes and never sends
 * more than the peer has posted; slots come back as the peer makes progress, whatever its caller does. Pool:
 * bytes that no receive waits for; its rules (credit, grants, revokes, offers) are those of transport/flow,
 * but that a large message is granted memory to write to, piece by piece.
 *
 * Callbacks are called from progress alone, as in TCP.
 */
#ifndef GCOLL_IB_H
#define GCOLL_IB_H

#include "gcoll/base/fork.h"
#include "transport/address.h"
#include "transport/ibverbs/counters.h"
#include "transport/ibverbs/device.h"
#include "transport/ibverbs/frame.h"
#include "transport/ibverbs/options.h"
#include "transport/ibverbs/registration.h"
#include "transport/ibverbs/verbs.h"
#include "transport/queue.h"
#include "transport/session/patience.h"
#include "transport/transport.h"

#define GCOLL_IB_SLOT_BYTES  8192
#define GCOLL_IB_EAGER_BYTES (GCOLL_IB_SLOT_BYTES - GCOLL_IB_FIXED_BYTES)
#define GCOLL_IB_POOL_BYTES  (UINT64_C(4) << 20)
/* No rank uses it: tags have bit 63, and sequences are counted. */
#define GCOLL_IB_STREAM (UINT64_C(3) << 61)

typedef struct gcoll_ib_pair gcoll_ib_pair;

struct gcoll_ib {
    gcoll_endpoint *side;
    uint32_t *moves; /* the side channel's counter of what moved */
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
    gcoll_message_queue completed; /* to be reported */

    uint32_t polls; /* since the last look at the side channel */
    bool moved, busy, curious, leaving;
    gcoll_status problem; /* of this rank's own: what progress returns */
    char problem_text[512];
    gcoll_descriptor commands, async_events, completions; /* of context, context, channel */
};

static inline gcoll_ib *gcoll_ib_of(gcoll_endpoint *endpoint) {
    return (gcoll_ib *)(void *)endpoint;
}

/* Whether the message goes by RDMA WRITE into memory that the receiver grants: because of its size, or
 * because the host must not touch its data. */
static inline bool gcoll_ib_is_granted(const gcoll_ib *ib, const gcoll_message *message) {
    return message->bytes > ib->eager_bytes || (message->by_device && message->bytes > 0);
}

/* device.c */
/* Chooses by options and the addresses of the side channel, and opens it: place, context. */
gcoll_status gcoll_ib_open_device(gcoll_ib *ib, const gcoll_address *own);

/* side.c */
extern const gcoll_events gcoll_ib_side_events; /* arg to be set */
/* Lets the side channel have its turn: 0, or waits. */
void gcoll_ib_side_look(gcoll_ib *ib, int64_t wait_us);

/* messages.c */
void gcoll_ib_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
void gcoll_ib_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);
bool gcoll_ib_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index, uint64_t *bytes);
bool gcoll_ib_take_back(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message);

/* access.c */
gcoll_status gcoll_ib_expose(gcoll_endpoint *endpoint, void *data, uint64_t bytes, gcoll_exposed *exposed);
void gcoll_ib_conceal(gcoll_endpoint *endpoint, gcoll_exposed *exposed);
void gcoll_ib_access(gcoll_endpoint *endpoint, uint32_t peer, gcoll_remote_access *access);

/* queue_pair.c */
void gcoll_ib_flush_all(gcoll_ib *ib);

/* complete.c */
/* Handles the completions in the queue, up to a budget. Returns their number. */
uint32_t gcoll_ib_poll(gcoll_ib *ib);
void gcoll_ib_complete(gcoll_ib *ib, gcoll_message *message);
void gcoll_ib_report_completed(gcoll_ib *ib);
void gcoll_ib_report(gcoll_ib *ib);
/* Ends doubts whose time is over, or all about one pair. */
void gcoll_ib_settle_doubts(gcoll_ib *ib);
/* Records a fault of this rank, not of a peer: the last error. Progress returns it from now on. */
void gcoll_ib_problem(gcoll_ib *ib, gcoll_status status);

/* progress.c */
gcoll_status gcoll_ib_progress(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved);
/* Drops pending events of the completion channel, and asks for the next one. */
bool gcoll_ib_arm(gcoll_ib *ib);
void gcoll_ib_disarm(gcoll_ib *ib);

/* leave.c */
void gcoll_ib_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms);
void gcoll_ib_close(gcoll_endpoint *endpoint, int64_t limit_ms);
void gcoll_ib_abandon(gcoll_endpoint *endpoint);
void gcoll_ib_destroy(gcoll_ib *ib);

#endif
