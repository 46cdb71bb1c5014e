/* gcoll/core/core_internal.h - what the files of the core share: context, runs, operations, cache. */
#ifndef GCOLL_CORE_INTERNAL_H
#define GCOLL_CORE_INTERNAL_H

#include <stdatomic.h>

#include "algorithms/algorithms.h"
#include "gcoll/gcoll.h"
#include "gcoll/plan/plan.h"
#include "transport/transport.h"

#define GCOLL_NO_RANK UINT32_MAX

/* Fingerprints of this many latest operations are kept, to compare them with messages that come late or
 * early. An operation further away than this goes unchecked, never unmatched. */
#define GCOLL_HISTORY 64

/* What an operation is, as both sides of a pair must agree on. */
typedef struct gcoll_fingerprint {
    uint8_t bytes[GCOLL_FINGERPRINT_BYTES];
} gcoll_fingerprint;

typedef struct gcoll_run gcoll_run;
typedef struct gcoll_cache_entry gcoll_cache_entry;

/* ---- Calls and plans ---------------------------------------------------------------------- */

#define GCOLL_ALGORITHM_TEXT_MAX 128

/* The arguments of a collective call that decide its plan. Zeroed before it is filled, so that two equal
 * calls compare equal byte by byte. */
typedef struct gcoll_call {
    uint32_t collective, type, op, root, buffers, needs;
    uint32_t in_place;
    uint32_t commutative;
    uint64_t count;
    char algorithm[GCOLL_ALGORITHM_TEXT_MAX]; /* "" is auto */
} gcoll_call;

/* A plan by its call, shared by operations; holds one idle run for blocking calls. */
struct gcoll_cache_entry {
    gcoll_call call;
    uint64_t hash;
    gcoll_choice choice;
    char algorithm[GCOLL_ALGORITHM_TEXT_MAX]; /* the choice as text */
    gcoll_plan *plan;
    gcoll_fingerprint fingerprint;
    gcoll_run *idle;
    uint32_t users; /* operations and runs that hold it */
    gcoll_cache_entry *next;
};

#define GCOLL_CACHE_ENTRIES 128 /* more shapes than a training step or a solver uses; each costs a plan */

/* Finds or makes the entry, and takes a hold on it. */
gcoll_status gcoll_cache_get(gcoll_context *context, const gcoll_call *call, gcoll_cache_entry **entry);
void gcoll_cache_put(gcoll_cache_entry *entry);
void gcoll_cache_clear(gcoll_context *context);

/* ---- Runs: a plan bound to buffers, and its state while it is in flight (engine.c) -------- */

typedef struct gcoll_buffers {
    const void *const *in; /* entry->call.buffers pointers each; not read when in place */
    void *const *out;
} gcoll_buffers;

/* A call as the user made it, checked. Not to be copied: buffers may point into it. */
typedef struct gcoll_arguments {
    gcoll_call call;
    gcoll_buffers buffers;
    const void *in;
    void *out;
    const gcoll_user_op *user_op;
} gcoll_arguments;

/* Fill in zeroed arguments. Errors name the argument. */
gcoll_status gcoll_allreduce_arguments(gcoll_arguments *arguments, const gcoll_context *context,
                                       const void *input, void *output, uint64_t count, gcoll_type type,
                                       gcoll_op op, const gcoll_allreduce_options *options);
gcoll_status gcoll_broadcast_arguments(gcoll_arguments *arguments, const gcoll_context *context, void *data,
                                       uint64_t count, gcoll_type type, uint32_t root,
                                       const gcoll_broadcast_options *options);
gcoll_status gcoll_barrier_arguments(gcoll_arguments *arguments, const gcoll_context *context,
                                     const gcoll_barrier_options *options);

gcoll_status gcoll_run_create(gcoll_context *context, gcoll_cache_entry *entry, gcoll_run **run);
void gcoll_run_destroy(gcoll_run *run);
/* Sets where IN and OUT are and the reduction. Not while in flight. */
void gcoll_run_bind(gcoll_run *run, const gcoll_buffers *buffers, const gcoll_user_op *user_op);
/* Takes the next sequence number and starts. May already be finished on return. */
gcoll_status gcoll_run_start(gcoll_run *run);
bool gcoll_run_finished(const gcoll_run *run);
/* State and scratch. */
uint64_t gcoll_run_memory_bytes(const gcoll_run *run);
/* Runs what became ready. */
void gcoll_run_advance(gcoll_run *run);
/* The first step in flight that involves peer, or the first in flight if there is none; false if no step is.
 */
bool gcoll_run_blocked_step(const gcoll_run *run, uint32_t peer, uint32_t *step);
/* Calls fn for the peer of each message in flight, in step order, until it returns false. */
void gcoll_run_each_waited(const gcoll_run *run, bool (*fn)(void *arg, uint32_t peer), void *arg);
bool gcoll_run_waits_for(const gcoll_run *run, uint32_t peer);
uint64_t gcoll_run_sequence(const gcoll_run *run);
const gcoll_cache_entry *gcoll_run_entry(const gcoll_run *run);
gcoll_run *gcoll_run_next(const gcoll_run *run);
/* Takes it off the context's list, finished or not. */
void gcoll_run_drop(gcoll_run *run);

/* ---- Peers -------------------------------------------------------------------------------- */

/* A fingerprint of an operation that this rank began. */
typedef struct gcoll_begun {
    uint64_t sequence;
    gcoll_fingerprint fingerprint;
} gcoll_begun;

/* One that a peer began first. */
typedef struct gcoll_early {
    uint64_t sequence;
    gcoll_fingerprint fingerprint;
    uint32_t peer;
    struct gcoll_early *next;
} gcoll_early;

typedef struct gcoll_early_block {
    struct gcoll_early_block *next;
    gcoll_early entries[GCOLL_HISTORY];
} gcoll_early_block;

typedef struct gcoll_peer {
    bool connecting;       /* connect was asked for, or it came to us */
    bool departed;         /* its endpoint has closed in good order, or is about to */
    bool met;              /* a message came from it */
    uint32_t asked;        /* the latest round of probes that included it */
    bool answered;         /* since then */
    uint32_t suspect;      /* the rank that it believes is stuck, by its last answer */
    uint64_t position;     /* how many operations it has begun, by its last answer */
    uint32_t suspect_hops; /* that this belief has come */
    uint32_t early;        /* fingerprints held of it, GCOLL_HISTORY at most */
    gcoll_pair *pair;
} gcoll_peer;

/* ---- Context ------------------------------------------------------------------------------ */

struct gcoll_context {
    uint32_t rank, size;
    int64_t timeout_ms;
    int64_t spin_us;
    gcoll_store *store;
    char job[72];
    char generation[33]; /* random hex, the same on every rank of this run of the job */
    char host_key[64];
    bool joined;      /* keys of ours are in the store */
    char **addresses; /* of every rank, in a duplicate; else NULL and they are looked up in the store */

    const gcoll_transport *transport;
    gcoll_endpoint *endpoint;                /* NULL if size is 1 */
    gcoll_endpoint_options endpoint_options; /* as opened, for duplicates */
    char *interface;
    gcoll_peer *peers;

    uint64_t sequence; /* of the latest operation begun; the first is 1 */
    gcoll_begun history[GCOLL_HISTORY];
    gcoll_early *early[GCOLL_HISTORY]; /* of operations not begun, by sequence modulo the size */
    gcoll_early *spare;                /* entries not in use */
    gcoll_early_block *blocks;         /* that the entries lie in */
    uint64_t mismatched;               /* the operation that the ranks disagree on; 0: none is known */
    gcoll_run *runs;                   /* in flight, oldest first */
    uint32_t probe_round;
    uint32_t suspect;      /* rank that did not answer this one's probe */
    uint32_t suspect_hops; /* 0: it was this rank that asked */
    int64_t doubt_ms;      /* when receives from a departed rank are given up; 0: there are none */

    bool broken;
    bool told; /* peers know of it */
    gcoll_note cause;

    atomic_int abort_state; /* 0, 1 being written, 2 to be read by the context's thread */
    char abort_reason[GCOLL_NOTE_TEXT_MAX];

    gcoll_cache_entry *cache;
    uint32_t cache_count;
    gcoll_cost_parameters cost;

    gcoll_log_fn log;
    void *log_arg;
    gcoll_allocator allocator;
    gcoll_request *requests; /* of pairs, not yet ended */
};

void gcoll_log(gcoll_context *context, gcoll_log_level level, const char *format, ...) GCOLL_PRINTF(3, 4);
/* Aligned to a cache line; NULL sets the last error. */
void *gcoll_allocate(gcoll_context *context, uint64_t bytes);
void gcoll_release(gcoll_context *context, void *memory, uint64_t bytes);

/* ---- Rendezvous (rendezvous.c) ------------------------------------------------------------ */

/* Fills in a fresh generation. */
gcoll_status gcoll_generation_make(char generation[33]);
/* The generation as the 16 bytes that endpoints compare. */
void gcoll_generation_bytes(const char generation[33], uint8_t bytes[16]);
/* Agrees on a generation with all ranks: on return context->generation is set. */
gcoll_status gcoll_rendezvous_begin(gcoll_context *context, int64_t deadline_ms);
/* Publishes the address and returns when every rank has; counts the ranks of this host. */
gcoll_status gcoll_rendezvous_finish(gcoll_context *context, const char *address, int64_t deadline_ms,
                                     uint32_t *local_ranks);
/* Tells the ranks that wait for "go" that it will not come, for the reason in the last error, which stays. */
void gcoll_rendezvous_refuse(gcoll_context *context, gcoll_status status);
/* GCOLL_ERR_NOT_FOUND if the peer has left. One that broke leaves the cause in place of its address: then
 * GCOLL_ERR_STATE, and *cause is set. */
gcoll_status gcoll_rendezvous_lookup(gcoll_context *context, uint32_t peer, char *address, size_t bytes,
                                     gcoll_note *cause);
/* Puts the cause that the context broke for in place of this rank's address. */
void gcoll_rendezvous_leave_cause(gcoll_context *context);
void gcoll_rendezvous_leave(gcoll_context *context);
uint32_t gcoll_host_cores(void);
/* Opens the endpoint of a context whose generation is known. */
gcoll_status gcoll_context_open(gcoll_context *context);
/* How long a wait polls, by the ranks and cores of this host, where the caller did not say. */
void gcoll_context_tune_spin(gcoll_context *context, uint32_t local_ranks);
/* Copies what the caller's version of an options struct has, its size standing first; the rest stays zero,
 * which means default. first_size is what the first version had. from may be NULL. */
gcoll_status gcoll_options_read(void *to, size_t size, size_t first_size, const void *from);
gcoll_status gcoll_context_allocate(const gcoll_context_options *options, gcoll_context **context);

/* ---- Peers and failure (peers.c, failure.c) ----------------------------------------------- */

extern const gcoll_events gcoll_context_events; /* arg to be set */
/* Breaks the context with the cause that another rank had. */
void gcoll_break_reported(gcoll_context *context, const gcoll_note *note, uint32_t from);

/* Connects if that was not asked for yet; false if the context is or gets broken. One that has left gets no
 * more messages, but what it sent before may still be received. */
bool gcoll_peer_need(gcoll_context *context, uint32_t peer, bool sends);

/* Breaks the context with this cause, unless it is broken already. The peers are told at the next
 * gcoll_context_settle, as this may be called in the middle of the transport's work. */
void gcoll_break(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *format, ...)
    GCOLL_PRINTF(4, 5);
/* The same, with the operation in flight that waits for culprit named in front. */
void gcoll_break_operation(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *format,
                           ...) GCOLL_PRINTF(4, 5);
/* Tells the peers if the context broke, and drops what is in flight. Returns the context's status, with the
 * cause as last error. */
gcoll_status gcoll_context_settle(gcoll_context *context);

/* Progress until *done is set or the context breaks or its timeout passes (which breaks it). */
gcoll_status gcoll_context_wait(gcoll_context *context, bool (*done)(const void *arg), const void *arg);
/* What a run came to, with the status of the context after its progress: a run that finished before the
 * context broke is valid, unless what broke it is that other ranks ran something else. Takes it off the list.
 */
gcoll_status gcoll_run_result(gcoll_context *context, gcoll_run *run, gcoll_status status);
/* What this rank answers to probes from now on. */
void gcoll_publish_position(gcoll_context *context);
gcoll_status gcoll_context_wait_run(gcoll_context *context, const gcoll_run *run);
/* Progress without waiting. */
gcoll_status gcoll_context_poll(gcoll_context *context);

/* ---- Fingerprints (fingerprint.c) --------------------------------------------------------- */

void gcoll_fingerprint_make(const gcoll_call *call, const gcoll_choice *choice,
                            gcoll_fingerprint *fingerprint);
/* "allreduce of 400 float32, sum, by ring" */
void gcoll_fingerprint_describe(const gcoll_fingerprint *fingerprint, char *text, size_t bytes);
/* Compares what others said of an operation that this rank now begins. */
void gcoll_fingerprint_begin(gcoll_context *context, uint64_t sequence, const gcoll_fingerprint *fingerprint);
void gcoll_fingerprint_forget(gcoll_context *context);
void gcoll_fingerprint_arrived(gcoll_context *context, uint32_t peer, uint64_t sequence,
                               const uint8_t bytes[GCOLL_FINGERPRINT_BYTES]);

/* ---- Streams: operations by their sequence, pairs by their tag ---------------------------- */

#define GCOLL_STREAM_TAG (UINT64_C(1) << 63)

void gcoll_pair_destroy(gcoll_pair *pair);
/* Frees those that were never ended. The endpoint must be closed. */
void gcoll_requests_free(gcoll_context *context);
bool gcoll_requests_wait_for(const gcoll_context *context, uint32_t peer);
void gcoll_requests_each_waited(gcoll_context *context, bool (*fn)(void *arg, uint32_t peer), void *arg);

#endif
