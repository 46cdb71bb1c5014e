/*
 * gcoll/run/run.h - everything in flight on a context: runs of plans, requests for runs and messages,
 * persistent operations, and pairs.
 */
#ifndef GCOLL_RUN_RUN_H
#define GCOLL_RUN_RUN_H

#include "gcoll/call/call.h"
#include "gcoll/context/hooks.h"
#include "gcoll/live/live.h"

/* ---- The state of this folder in a context -------------------------------------------------- */

/* The fingerprints of this many latest operations are kept, to compare them with messages that arrive
 * late or early. Older operations go unchecked; their messages still match correctly. */
#define GCOLL_HISTORY 64

/* A fingerprint of an operation that this rank began. */
typedef struct gcoll_begun {
    uint64_t sequence;
    gcoll_fingerprint fingerprint;
    gcoll_cache_entry
        *entry;      /* of an alltoall_v: referenced, to compare its blocks with those of each peer */
    bool mismatched; /* a peer called another operation */
} gcoll_begun;

/* Which fingerprints have arrived from a peer. */
typedef struct gcoll_opened {
    uint32_t newest; /* low bits of the latest operation whose fingerprint arrived */
    uint16_t mask;   /* bit i: the fingerprint of operation `newest` - i arrived; 0: none did */
    uint16_t early;  /* held fingerprints of this peer, GCOLL_HISTORY at most */
} gcoll_opened;

typedef struct gcoll_early gcoll_early;
typedef struct gcoll_held gcoll_held;
typedef struct gcoll_members gcoll_members;
typedef struct gcoll_any gcoll_any;
typedef struct gcoll_roll gcoll_roll;

typedef struct gcoll_openings {
    gcoll_begun history[GCOLL_HISTORY];
    gcoll_early
        *early[GCOLL_HISTORY]; /* of operations that this rank has not begun, by sequence modulo the size */
    gcoll_early *spare;        /* entries not in use */
    struct gcoll_early_block *blocks; /* memory of the entries */
    gcoll_opened *peers;
} gcoll_openings;

struct gcoll_runs {
    uint64_t sequence;       /* number of the latest operation begun; the first is 1 */
    uint64_t fallen;         /* number of the first operation that ended without success; 0: none did */
    gcoll_run *first;        /* in flight, oldest first */
    gcoll_request *requests; /* live requests */
    gcoll_held *held;        /* started calls whose turn has not come, oldest first (held.c), */
    gcoll_held **held_end;   /* and where the next one goes */
    gcoll_request *spare_requests;
    uint32_t requests_made; /* requests made or reused */
    uint32_t requests_ended;
    uint32_t tellers; /* live requests whose options.done was not called yet */
    gcoll_operation *operations;
    gcoll_any *anys, *last_any; /* receives from any of several ranks that look for a message */
    bool has_received;          /* a receive of a pair has ended; the latest one had: */
    uint32_t last_source;
    uint64_t last_bytes;
    gcoll_pair **pairs;           /* by peer; NULL until the first pair is made */
    gcoll_pair **member_pairs;    /* the same, for exchanges among members (members.c) */
    const gcoll_members *members; /* the exchange that is in progress, or NULL */
    gcoll_roll *roll;             /* state of barrier reports (roll_call.c); NULL until the first */
    uint64_t reports;             /* barrier reports that this rank has called, also those that failed */
    gcoll_openings openings;
};

gcoll_status gcoll_runs_create(gcoll_context *context);
/* Takes all runs off the list, finished or not. */
void gcoll_runs_stop(gcoll_context *context);
/* What the first of the held calls takes (held.c); NULL: none is held. */
const gcoll_taught *gcoll_held_first(const gcoll_context *context);
/* Begins started calls whose turn has come, as what was open has been decided (held.c). */
void gcoll_runs_release(gcoll_context *context);
/* Calls options.done of all runs in flight, on a context that is broken or about to end. */
void gcoll_requests_tell_all(gcoll_context *context);
/* Ends all requests, and frees the runs of operations that the caller has not destroyed: their structs
 * stay valid until the caller destroys them. Requires a closed endpoint. */
void gcoll_runs_orphan(gcoll_context *context);
/* Call after the plans have been destroyed. */
void gcoll_runs_free(gcoll_context *context);
/* In a forked child: forgets all device work. */
void gcoll_runs_forget_devices(gcoll_context *context);
/* The number of operations that this rank has begun. */
static inline uint64_t gcoll_runs_begun(const gcoll_context *context) {
    return context->runs->sequence;
}
/* The number of the latest operation such that it and all before it have completed. */
uint64_t gcoll_runs_completed(const gcoll_context *context);
static inline bool gcoll_runs_are_in_flight(const gcoll_context *context) {
    return context->runs->first;
}

extern const gcoll_activity gcoll_run_activity, gcoll_request_activity;

/* ---- Exchanges among members (members.c) ---------------------------------------------------- */

/* The members of an exchange: some ranks of a context, which alone take part in it. */
struct gcoll_members {
    const uint32_t *ranks;  /* as the caller lists them */
    const uint32_t *sorted; /* the same, increasing */
    uint32_t count;         /* 1 and more */
    uint32_t place;         /* of this rank in `sorted` */
    uint32_t tag;
};

/* Inside a call. Checks that all members have the same list of ranks, and gives them `word` of the lowest
 * rank. A difference is GCOLL_ERR_MISMATCH and breaks the context, as every failure between ranks does. */
gcoll_status gcoll_members_agree(gcoll_context *context, const gcoll_members *members, void *word,
                                 uint32_t bytes);
/* Gives each member the blocks of all members. *all, which the caller frees, has for each member, in any
 * order: its place, the size of its block (both 32 bits, little-endian) and the block. `most` is the largest
 * size of a block. */
gcoll_status gcoll_members_gather(gcoll_context *context, const gcoll_members *members, const void *block,
                                  uint32_t bytes, uint32_t most, uint8_t **all, uint64_t *all_bytes);

/* ---- Runs (engine.c, runs.c) ---------------------------------------------------------------- */

/* Runs a blocking collective. The caller has entered the context. */
gcoll_status gcoll_collective_run(gcoll_context *context, const gcoll_given *given);
const gcoll_cache_entry *gcoll_run_entry(const gcoll_run *run);
/* NULL is fine. */
void gcoll_run_destroy(gcoll_run *run);

/* Handles the arrival of a peer's fingerprint (openings.c). */
void gcoll_opening_arrived(gcoll_context *context, uint32_t peer, uint64_t sequence,
                           const uint8_t bytes[GCOLL_FINGERPRINT_BYTES]);

/* ---- Requests (request.c) ------------------------------------------------------------------- */

/* Makes a live request for a message to or from the peer. */
gcoll_status gcoll_request_create(gcoll_context *context, uint32_t peer, gcoll_request **request);
/* Marks the message as complete. */
void gcoll_request_set_done(gcoll_request *request);
/* Takes a request out of the list of live ones. An operation keeps its request and run. Otherwise the run
 * is returned, and the request becomes spare. */
void gcoll_request_end(gcoll_request *request);
/* Waits for a live request and ends it. The caller has entered the context. */
gcoll_status gcoll_request_finish(gcoll_request **request);

/* gcoll_context_last_received knows of no receive until the next one ends. */
void gcoll_requests_forget_received(gcoll_context *context);

#endif
