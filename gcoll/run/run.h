/*
 * gcoll/run/run.h - what is in flight: runs of plans, requests that stand for them and for messages,
 * operations that are run many times, and pairs.
 */
#ifndef GCOLL_RUN_RUN_H
#define GCOLL_RUN_RUN_H

#include "gcoll/call/call.h"
#include "gcoll/live/live.h"

/* ---- What a context keeps of this: the folder's own ---------------------------------------- */

/* Fingerprints of this many latest operations are kept, to compare them with messages that come late or
 * early. An operation further away than this goes unchecked, never unmatched. */
#define GCOLL_HISTORY 64

/* A fingerprint of an operation that this rank began. */
typedef struct gcoll_begun {
    uint64_t sequence;
    gcoll_fingerprint fingerprint;
    gcoll_cache_entry *entry; /* held, of an alltoall_v: its blocks are compared with those of each peer */
    bool mismatched;          /* a peer called something else */
} gcoll_begun;

/* Which fingerprints a peer has sent. */
typedef struct gcoll_opened {
    uint32_t newest; /* the low bits of the latest operation of which its fingerprint came */
    uint16_t mask;   /* bit i: that of the operation i before the newest came. 0: none has */
    uint16_t early;  /* fingerprints held of it, GCOLL_HISTORY at most */
} gcoll_opened;

typedef struct gcoll_early gcoll_early;

typedef struct gcoll_openings {
    gcoll_begun history[GCOLL_HISTORY];
    gcoll_early *early[GCOLL_HISTORY]; /* of operations not begun, by sequence modulo the size */
    gcoll_early *spare;                /* entries not in use */
    struct gcoll_early_block *blocks;  /* that the entries lie in */
    gcoll_opened *peers;
} gcoll_openings;

struct gcoll_runs {
    uint64_t sequence;       /* of the latest operation begun; the first is 1 */
    gcoll_run *first;        /* in flight, oldest first */
    gcoll_request *requests; /* live */
    gcoll_request *spare_requests;
    uint32_t requests_made; /* and taken anew */
    uint32_t requests_ended;
    uint32_t tellers; /* live requests with options.done that was not told yet */
    gcoll_operation *operations;
    const struct gcoll_any *any; /* the receive from any of several that is being waited for, or NULL */
    gcoll_pair **pairs;          /* by peer; NULL until one is asked for */
    gcoll_openings openings;
};

gcoll_status gcoll_runs_create(gcoll_context *context);
/* Takes all runs off, finished or not. */
void gcoll_runs_stop(gcoll_context *context);
/* Of a context that is broken or ends: tells options.done of all runs in flight how they ended. */
void gcoll_requests_tell_all(gcoll_context *context);
/* Ends requests, and takes the runs of operations that still exist: their shells stay with the caller. The
 * endpoint must be closed. */
void gcoll_runs_orphan(gcoll_context *context);
/* After the plans are gone. */
void gcoll_runs_free(gcoll_context *context);
/* In a forked child: devices have been given nothing. */
void gcoll_runs_forget_devices(gcoll_context *context);
/* How many operations this rank has begun. */
static inline uint64_t gcoll_runs_begun(const gcoll_context *context) {
    return context->runs->sequence;
}
static inline bool gcoll_runs_are_in_flight(const gcoll_context *context) {
    return context->runs->first;
}

extern const gcoll_activity gcoll_run_activity, gcoll_request_activity;

/* ---- Runs (engine.c, runs.c) ---------------------------------------------------------------- */

/* A blocking collective, inside a call. */
gcoll_status gcoll_collective_run(gcoll_context *context, const gcoll_given *given);
const gcoll_cache_entry *gcoll_run_entry(const gcoll_run *run);
/* NULL is fine. */
void gcoll_run_destroy(gcoll_run *run);

/* A peer's fingerprint of an operation has come (openings.c). */
void gcoll_opening_arrived(gcoll_context *context, uint32_t peer, uint64_t sequence,
                           const uint8_t bytes[GCOLL_FINGERPRINT_BYTES]);

/* ---- Requests (request.c) ------------------------------------------------------------------- */

/* A live one, of something that moves to or from the peer. */
gcoll_status gcoll_request_create(gcoll_context *context, uint32_t peer, gcoll_request **request);
/* What it stands for is done. */
void gcoll_request_set_done(gcoll_request *request);
/* Takes it out of the list; unless it is an operation's, its run goes back to where it came from, and it is
 * spare. */
void gcoll_request_end(gcoll_request *request);
/* Inside a call: waits for a live one, and ends it. */
gcoll_status gcoll_request_finish(gcoll_request **request);

#endif
