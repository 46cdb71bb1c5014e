/*
 * transport/ibverbs/ib.h - the lane ibverbs: messages go by queue pairs of an RDMA device. Only
 * transport/ibverbs and its tests include it.
 *
 * ib.h declares what an endpoint has of the lane (its port), pair.h what a session has, frame.h the bytes
 * that travel, device.h the chosen device, registration.h the memory that the device may use.
 *
 * Messages of a session go by one reliable queue pair (RC). The session listens, connects, carries aborts and
 * probes, and notices at once when a process dies.
 *
 * Flow control has two levels. Slots: each side posts GCOLL_IB_DEPTH receives of slot_bytes and never sends
 * more than the peer has posted; slots come back as the peer makes progress, whatever its caller does. Pool:
 * bytes that no receive waits for; its rules (credit, grants, revokes, offers) are those of transport/flow,
 * but that a large message is granted memory to write to, piece by piece.
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
#include "transport/lane.h"
#include "transport/queue.h"

#define GCOLL_IB_SLOT_BYTES  8192
#define GCOLL_IB_EAGER_BYTES (GCOLL_IB_SLOT_BYTES - GCOLL_IB_FIXED_BYTES)

typedef struct gcoll_ib_pair gcoll_ib_pair;

struct gcoll_ib {
    gcoll_net *net;
    uint64_t eager_bytes, pool_bytes;
    uint32_t slot_bytes;
    gcoll_ibverbs_options options;

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

    gcoll_ib_pair *known; /* all that were made */
    gcoll_ib_pair *outputs;
    uint32_t proof_count;                                 /* pairs whose proof is on its way */
    gcoll_descriptor commands, async_events, completions; /* of context, context, channel */
};

static inline gcoll_ib *gcoll_ib_of(gcoll_lane_port *port) {
    return (gcoll_ib *)(void *)port;
}

/* Whether the message goes by RDMA WRITE into memory that the receiver grants: because of its size, or
 * because the host must not touch its data. */
static inline bool gcoll_ib_is_granted(const gcoll_ib *ib, const gcoll_message *message) {
    return message->bytes > ib->eager_bytes || (message->by_device && message->bytes > 0);
}

/* device.c */
/* Chooses by options and the addresses of the endpoint, and opens it: place, context. */
gcoll_status gcoll_ib_open_device(gcoll_ib *ib, const gcoll_address *own);

/* unasked.c */
bool gcoll_ib_is_likely(void);
/* Whether memory that is registered stays right in a program that forks, with a kernel of this release. */
bool gcoll_ib_may_fork(const char *release);
/* UNSUPPORTED: a program that did not ask for ibverbs is better off without it. */
gcoll_status gcoll_ib_check_unasked(void);

/* access.c */
gcoll_status gcoll_ib_expose(gcoll_lane_port *port, void *data, uint64_t bytes, gcoll_exposed *exposed);
void gcoll_ib_conceal(gcoll_lane_port *port, gcoll_exposed *exposed);
void gcoll_ib_access(gcoll_session *session, gcoll_remote_access *access);

/* queue_pair.c */
void gcoll_ib_flush_all(gcoll_ib *ib);

/* complete.c */
/* Handles the completions in the queue, up to a budget. Returns their number. */
uint32_t gcoll_ib_poll(gcoll_ib *ib);

#endif
