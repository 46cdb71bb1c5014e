/* gcoll/core/core_internal.h - what the files of the core share: context, runs, operations, cache. */
#ifndef GCOLL_CORE_INTERNAL_H
#define GCOLL_CORE_INTERNAL_H

#include <stdatomic.h>

#include "algorithms/tuning.h"
#include "cuda/accelerator.h"
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
typedef struct gcoll_thread gcoll_thread;
typedef struct gcoll_access gcoll_access;
typedef struct gcoll_acceleration gcoll_acceleration;
typedef struct gcoll_arrival gcoll_arrival;
typedef struct gcoll_site gcoll_site;
typedef struct gcoll_cache_entry gcoll_cache_entry;

/* ---- Calls and plans ---------------------------------------------------------------------- */

#define GCOLL_ALGORITHM_TEXT_MAX 128

/* The arguments of a collective call that decide its plan, but for the blocks. Zeroed before it is filled, so
 * that two equal calls compare equal byte by byte. */
typedef struct gcoll_call {
    uint32_t collective, type, op, root, exchanges, buffers, needs;
    uint32_t in_place;
    uint32_t commutative;
    uint32_t registered;   /* algorithms that the context had been given: with more, auto chooses anew */
    uint32_t local;        /* gcoll_local, of buffers in device memory; never AUTO where there are several */
    uint32_t direct;       /* the network is to read and write the memory of devices by itself */
    uint64_t places;       /* a hash of where the buffers lie; 0: all in host memory */
    uint64_t count;        /* of the problem: all blocks */
    uint64_t memory_limit; /* bytes of scratch; 0: any */
    uint64_t blocks_hash;  /* of the blocks; 0 if they are equal */
    uint64_t arrival;      /* the plan by arrival (arrival.c); 0: none */
    char algorithm[GCOLL_ALGORITHM_TEXT_MAX]; /* "" is auto */
} gcoll_call;
_Static_assert(sizeof(gcoll_call) == 12 * sizeof(uint32_t) + 5 * sizeof(uint64_t) + GCOLL_ALGORITHM_TEXT_MAX,
               "there is no padding, which would not compare equal");

/* An alltoall_v: each rank has sizes of its own. */
static inline bool gcoll_call_has_own_blocks(const gcoll_call *call) {
    return call->collective == GCOLL_ALLTOALL && call->blocks_hash != 0;
}

/* Where blocks of different sizes lie, as gcoll_problem has it; NULL if they are equal. And the memories that
 * buffers lie in; NULL if that is the host's. */
typedef struct gcoll_blocks {
    const uint64_t *offsets, *recv_offsets;
    const uint32_t *in_memory, *out_memory;
} gcoll_blocks;

/* A plan by its call, shared by operations; holds one idle run for calls that come and go. */
struct gcoll_cache_entry {
    gcoll_call call; /* its blocks are those of the plan */
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
gcoll_status gcoll_cache_get(gcoll_context *context, const gcoll_call *call, const gcoll_blocks *blocks,
                             gcoll_cache_entry **entry);
void gcoll_cache_put(gcoll_cache_entry *entry);
/* Drops what nobody uses of a plan by arrival. */
void gcoll_cache_forget(gcoll_context *context, uint64_t arrival);
void gcoll_cache_clear(gcoll_context *context);

/* The problem that a call makes, without algorithm options. */
gcoll_problem gcoll_call_problem(const gcoll_context *context, const gcoll_call *call,
                                 const gcoll_blocks *blocks);
/* Finds the algorithm for it (choose.c): options and segment are set in *problem. */
gcoll_status gcoll_call_choose(gcoll_context *context, const gcoll_call *call, gcoll_problem *problem,
                               gcoll_choice *choice);

/* ---- Arguments (arguments.c) -------------------------------------------------------------- */

typedef struct gcoll_buffers {
    /* entry->call.buffers pointers each. In place, `in` is not read and `out` is the larger of both. */
    const void *const *in;
    void *const *out;
    void *const *streams; /* of the caller, one a buffer, or NULL; only for buffers in device memory */
    gcoll_reach reach;
} gcoll_buffers;

/* What a public call was given. What does not belong to its collective is zero. */
typedef struct gcoll_given {
    gcoll_collective collective;
    const void *input;
    void *output;
    uint64_t count; /* as the call counts: of the vector or of a block */
    bool has_counts;
    const uint64_t *counts, *recv_counts; /* of blocks, if has_counts */
    gcoll_type type;
    gcoll_op op;
    uint32_t root, exchanges;
    const void *options; /* of the collective's own type */
} gcoll_given;

/* A call as the user made it, checked. Not to be copied: buffers may point into it. */
typedef struct gcoll_arguments {
    gcoll_call call;
    gcoll_blocks blocks; /* in the context's memory, until the next call */
    gcoll_buffers buffers;
    const void *in;
    void *out;
    const gcoll_user_op *user_op;
} gcoll_arguments;

/* Fills in zeroed arguments. Errors name the argument. */
gcoll_status gcoll_arguments_read(gcoll_arguments *arguments, gcoll_context *context,
                                  const gcoll_given *given);
/* The call of a blocking collective without its buffers. */
gcoll_status gcoll_arguments_shape(gcoll_call *call, gcoll_context *context, gcoll_collective collective,
                                   uint64_t count, gcoll_type type, gcoll_op op, uint32_t root,
                                   const gcoll_collective_options *given);
bool gcoll_collective_has_root(gcoll_collective collective);
bool gcoll_collective_has_blocks(gcoll_collective collective);

/* ---- Memory that stays registered with the transport (attach.c) ---------------------------- */

typedef struct gcoll_attachment gcoll_attachment;

/* What messages of the entry's plan touch of the buffers, and of scratch: NULL for what is not to be
 * attached. *attachment is NULL if there is nothing to attach, or the transport has no use for it. Where
 * messages go from and to device memory, buffers must be attached; UNSUPPORTED says why one cannot be. */
gcoll_status gcoll_attach(gcoll_context *context, const gcoll_cache_entry *entry,
                          const gcoll_buffers *buffers, const void *scratch, gcoll_attachment **attachment);
/* NULL is fine. Before the memory is freed; also after the endpoint is closed. */
void gcoll_detach(gcoll_attachment *attachment);

/* ---- Runs: a plan bound to buffers, and its state while it is in flight (engine.c) -------- */

gcoll_status gcoll_run_create(gcoll_context *context, gcoll_cache_entry *entry, gcoll_run **run);
void gcoll_run_destroy(gcoll_run *run);
/* Sets where IN and OUT are and the reduction. Not while in flight. */
void gcoll_run_bind(gcoll_run *run, const gcoll_buffers *buffers, const gcoll_user_op *user_op);
/* Keeps the buffers that it was bound to registered as long as it lives, or until it is returned. Once. */
gcoll_status gcoll_run_attach(gcoll_run *run, const gcoll_buffers *buffers);
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
gcoll_cache_entry *gcoll_run_cache_entry(gcoll_run *run);
const gcoll_cache_entry *gcoll_run_entry(const gcoll_run *run);
gcoll_run *gcoll_run_next(const gcoll_run *run);
/* Takes it off the context's list, finished or not. */
void gcoll_run_drop(gcoll_run *run);
/* Attached buffers no longer are. */
void gcoll_run_detach(gcoll_run *run);

/* ---- Peers -------------------------------------------------------------------------------- */

/* A fingerprint of an operation that this rank began. */
typedef struct gcoll_begun {
    uint64_t sequence;
    gcoll_fingerprint fingerprint;
    gcoll_cache_entry *entry; /* held, of an alltoall_v: its blocks are compared with those of each peer */
    bool mismatched;          /* a peer called something else */
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
    struct gcoll_traffic *traffic; /* accesses to regions; NULL: there were none */
} gcoll_peer;

/* ---- Requests and operations (request.c, operation.c) ------------------------------------- */

typedef enum gcoll_request_state {
    GCOLL_REQUEST_IDLE = 0, /* in the context's list of spare ones, or of an operation that does not run */
    GCOLL_REQUEST_LIVE
} gcoll_request_state;

/* Something begun that somebody will ask for: a message, or a run. */
struct gcoll_request {
    gcoll_context *context; /* NULL: it is gone */
    gcoll_request_state state;
    bool kept;      /* it is an operation's: ending it ends neither the request nor the run */
    gcoll_run *run; /* NULL: a message */
    gcoll_message message;
    uint32_t peer;               /* of the message */
    bool done;                   /* the message is */
    gcoll_request *next, **link; /* in context->requests, or (next) context->spare_requests */
};

struct gcoll_operation {
    gcoll_request request; /* with the run */
    gcoll_operation *next, **link;
};

/* A live one, in the context's list. */
gcoll_status gcoll_request_create(gcoll_context *context, gcoll_request **request);
/* Makes an operation's request live, in the context's list. */
void gcoll_request_begin(gcoll_request *request);
/* Takes it out of the list; unless it is kept, its run goes back to where it came from, and it is spare. */
void gcoll_request_end(gcoll_request *request);
/* A run of the arguments' plan, bound; from the cache if there is an idle one. */
gcoll_status gcoll_run_borrow(gcoll_context *context, const gcoll_arguments *arguments, gcoll_run **run);
void gcoll_run_return(gcoll_run *run);
/* Frees those that were never ended, and the spare. The endpoint must be closed. */
void gcoll_requests_free(gcoll_context *context);
/* Whether one of them has not finished. */
bool gcoll_requests_in_flight(const gcoll_context *context);
bool gcoll_requests_wait_for(const gcoll_context *context, uint32_t peer);
void gcoll_requests_each_waited(gcoll_context *context, bool (*fn)(void *arg, uint32_t peer), void *arg);
gcoll_status gcoll_operation_create(gcoll_context *context, const gcoll_arguments *arguments,
                                    gcoll_operation **operation);
/* Takes the runs of operations that still exist: their shells stay with the caller. */
void gcoll_operations_orphan(gcoll_context *context);

/* ---- Context ------------------------------------------------------------------------------ */

/* What gcoll_context_recv_any waits for. */
typedef struct gcoll_any {
    const uint32_t *peers;
    uint32_t count, tag;
} gcoll_any;

/* ---- What auto goes by (tuning.c, fit.c) --------------------------------------------------- */

typedef enum gcoll_basis_kind {
    GCOLL_BASIS_BUILT_IN = 0,
    GCOLL_BASIS_GIVEN, /* options.cost */
    GCOLL_BASIS_FITTED,
    GCOLL_BASIS_FILE
} gcoll_basis_kind;

#define GCOLL_BASIS_NAME_MAX 256

/* The same on every rank but for name and text. Shared by duplicates. */
typedef struct gcoll_basis {
    atomic_uint users;
    gcoll_basis_kind kind;
    gcoll_cost_parameters cost;
    gcoll_sharing sharing;
    uint32_t local_ranks;                /* on rank 0's host */
    char name[GCOLL_BASIS_NAME_MAX];     /* of the file */
    gcoll_tuning tuning;                 /* what it says */
    const gcoll_tuning_section *section; /* the nearest one, or NULL */
    bool exact;                          /* its rules hold */
    char *text;                          /* rank 0: what the others get */
    size_t text_bytes;
} gcoll_basis;

/* given: the caller's numbers, or NULL. */
gcoll_status gcoll_basis_create(const gcoll_cost_parameters *given, gcoll_basis **basis);
gcoll_basis *gcoll_basis_hold(gcoll_basis *basis);
void gcoll_basis_drop(gcoll_basis *basis);
/* Rank 0, before it announces itself: reads the file, if it goes by one, and publishes it. */
gcoll_status gcoll_tuning_begin(gcoll_context *context, const char *option);
/* All ranks, once all are there: measures if that is wanted, and agrees. */
gcoll_status gcoll_tuning_agree(gcoll_context *context, uint32_t local_ranks, int64_t deadline_ms);
/* What the choice rests on: the rule, or NULL for cost. A line. */
void gcoll_basis_describe(const gcoll_context *context, const gcoll_tuning_rule *rule, char *text,
                          size_t bytes);

/* Rank 0, with rank 1 and the rank half the job away. Leaves context->timeout_ms at what the last wait had.
 */
gcoll_status gcoll_fit_measure(gcoll_context *context, gcoll_cost_parameters *cost, gcoll_sharing *sharing);
gcoll_status gcoll_fit_serve(gcoll_context *context);
/* Whether rank 0 measures with this rank, if it measures. */
bool gcoll_fit_asks(const gcoll_context *context);

struct gcoll_context {
    uint32_t rank, size;
    gcoll_thread *thread; /* that makes progress between calls, or NULL */
    int64_t timeout_ms;
    int64_t spin_us;
    gcoll_store *store;
    char job[72];
    char generation[33];          /* random hex, the same on every rank of this run of the job */
    bool joined;                  /* keys of ours are in the store */
    bool monitor, rank_0_monitor; /* options.monitor */
    char **addresses; /* records of every rank, in a duplicate; else NULL: they are looked up in the store */

    const gcoll_transport *transport;
    gcoll_endpoint *endpoint;                /* NULL if size is 1 */
    gcoll_endpoint_options endpoint_options; /* as opened, for duplicates */
    char *interface;
    gcoll_ibverbs_options ibverbs; /* if endpoint_options name it; with a device name of its own */
    char *ib_device;
    gcoll_peer *peers;

    uint64_t sequence; /* of the latest operation begun; the first is 1 */
    gcoll_begun history[GCOLL_HISTORY];
    gcoll_early *early[GCOLL_HISTORY]; /* of operations not begun, by sequence modulo the size */
    gcoll_early *spare;                /* entries not in use */
    gcoll_early_block *blocks;         /* that the entries lie in */
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
    gcoll_basis *basis;
    gcoll_registry registry; /* the caller's algorithms */
    uint64_t *offsets; /* 2 * (size + 1) entries for the blocks of the call at hand; NULL until needed */
    uint32_t *node;    /* the number of each rank's host; NULL until an algorithm asks */

    gcoll_acceleration *acceleration; /* NULL: buffers lie in host memory */

    gcoll_log_fn log;
    void *log_arg;
    gcoll_allocator allocator;
    gcoll_request *requests; /* live */
    gcoll_request *spare_requests;
    gcoll_operation *operations;
    const gcoll_any *any; /* the receive from any of several that is being waited for, or NULL */
    gcoll_region *regions;
    gcoll_access *accesses; /* of ours and of peers, under way */
    gcoll_access *arrived;  /* of peers, to be served */
    gcoll_access *spare_accesses;
    gcoll_arrival *arrival; /* the monitor, or NULL */
    bool arrival_calls;     /* it has something to do */
};

/* ---- The context's own thread (thread.c) -------------------------------------------------- */

gcoll_status gcoll_thread_start(gcoll_context *context);
/* Waits until it has ended. Nothing if there is none. */
void gcoll_thread_stop(gcoll_context *context);
void gcoll_thread_enter(gcoll_thread *thread);
void gcoll_thread_leave(gcoll_thread *thread);

/* Around each public call that touches what the thread touches; calls may be nested. context may be NULL. */
static inline void gcoll_enter(const gcoll_context *context) {
    if (context && context->thread)
        gcoll_thread_enter(context->thread);
}
static inline void gcoll_leave(const gcoll_context *context) {
    if (context && context->thread)
        gcoll_thread_leave(context->thread);
}

void gcoll_log(gcoll_context *context, gcoll_log_level level, const char *format, ...) GCOLL_PRINTF(3, 4);
/* Aligned to a cache line; NULL sets the last error. */
void *gcoll_allocate(gcoll_context *context, uint64_t bytes);
void gcoll_release(gcoll_context *context, void *memory, uint64_t bytes);

/* ---- Life (context.c) --------------------------------------------------------------------- */

/* Processors that this thread may run on (rendezvous.c). */
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
/* A peer that was asked whether it is alive answers with what it publishes. */
void gcoll_peer_answered(void *arg, uint32_t peer, uint64_t position);
/* Breaks the context with the cause that another rank had. */
void gcoll_break_reported(gcoll_context *context, const gcoll_note *note, uint32_t from);

/* The rare part of gcoll_peer_need. */
bool gcoll_peer_reach(gcoll_context *context, uint32_t peer, bool sends);
/* Connects if that was not asked for yet; false if the context is or gets broken. One that has left gets no
 * more messages, but what it sent before may still be received. */
static inline bool gcoll_peer_need(gcoll_context *context, uint32_t peer, bool sends) {
    const gcoll_peer *state = &context->peers[peer];
    return (state->connecting && !state->departed && !context->broken) ||
           gcoll_peer_reach(context, peer, sends);
}

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
/* Progress for up to wait_us, or until something has moved. */
gcoll_status gcoll_context_drive(gcoll_context *context, int64_t wait_us);
/* Progress without waiting. */
gcoll_status gcoll_context_poll(gcoll_context *context);

/* ---- Fingerprints (fingerprint.c) --------------------------------------------------------- */

void gcoll_fingerprint_make(const gcoll_context *context, const gcoll_call *call, const gcoll_choice *choice,
                            bool by_hosts, gcoll_fingerprint *fingerprint);
/* The fingerprint of a call with own blocks as it goes to a peer for whom there are `count` elements. */
void gcoll_fingerprint_for_peer(const gcoll_fingerprint *fingerprint, uint64_t count,
                                gcoll_fingerprint *sent);
/* "allreduce of 400 float32, sum, by ring" */
void gcoll_fingerprint_describe(const gcoll_fingerprint *fingerprint, char *text, size_t bytes);
/* Compares what others said of an operation that this rank now begins. */
void gcoll_fingerprint_begin(gcoll_context *context, uint64_t sequence, gcoll_cache_entry *entry);
/* Whether a peer is known to have called something else. */
bool gcoll_fingerprint_mismatched(const gcoll_context *context, uint64_t sequence);
void gcoll_fingerprint_forget(gcoll_context *context);
void gcoll_fingerprint_arrived(gcoll_context *context, uint32_t peer, uint64_t sequence,
                               const uint8_t bytes[GCOLL_FINGERPRINT_BYTES]);

/* ---- Streams: operations by their sequence, pairs by their tag ---------------------------- */

#define GCOLL_STREAM_TAG     (UINT64_C(1) << 63)
#define GCOLL_STREAM_ACCESS  (UINT64_C(1) << 62) /* and the number of the access */
#define GCOLL_STREAM_ARRIVAL (UINT64_C(1) << 61) /* of the monitor */

void gcoll_pair_destroy(gcoll_pair *pair);

/* Parts of the core with a header of their own. */
#include "gcoll/core/core_access.h"
#include "gcoll/core/core_arrival.h"
#include "gcoll/core/core_memory.h"

#endif
