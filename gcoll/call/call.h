/* gcoll/call/call.h - from the arguments of a call to its plan: arguments.c checks them, places.c finds
 * buffers in device memory, choose.c the algorithm, cache.c the plan, and fingerprint.c says what it is. */
#ifndef GCOLL_CALL_CALL_H
#define GCOLL_CALL_CALL_H

#include "algorithms/algorithms.h"
#include "gcoll/accelerate/accelerate.h"
#include "gcoll/context/context.h"
#include "gcoll/plan/steps.h"

typedef struct gcoll_run gcoll_run;
typedef struct gcoll_cache_entry gcoll_cache_entry;

/* ---- Calls --------------------------------------------------------------------------------- */

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
    uint64_t arrival;      /* the plan by arrival (hooks.h); 0: none */
    char algorithm[GCOLL_ALGORITHM_TEXT_MAX]; /* "" is auto */
} gcoll_call;
_Static_assert(sizeof(gcoll_call) == 12 * sizeof(uint32_t) + 5 * sizeof(uint64_t) + GCOLL_ALGORITHM_TEXT_MAX,
               "there is no padding, which would not compare equal");

/* Its result is to be the same in every run: nothing that was measured may decide. */
static inline bool gcoll_call_is_fixed(const gcoll_call *call) {
    return (call->needs & GCOLL_CLAIM_RUN_IDENTICAL) != 0;
}

/* What the call asks for, and where it matters; else NOWHERE. */
static inline gcoll_same gcoll_call_same(const gcoll_call *call) {
    return gcoll_call_is_fixed(call)                  ? GCOLL_SAME_IN_RUNS
           : call->needs & GCOLL_CLAIM_RANK_IDENTICAL ? GCOLL_SAME_ON_RANKS
                                                      : GCOLL_SAME_NOWHERE;
}

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

/* The problem that a call makes, without algorithm options. */
gcoll_problem gcoll_call_problem(const gcoll_context *context, const gcoll_call *call,
                                 const gcoll_blocks *blocks);
/* Finds the algorithm for it (choose.c): options and segment are set in *problem. *mark tells a plan by
 * arrival apart from others; else it is 0. */
gcoll_status gcoll_call_choose(gcoll_context *context, const gcoll_call *call, gcoll_problem *problem,
                               gcoll_choice *choice, uint64_t *mark);

/* ---- Fingerprints (fingerprint.c) ----------------------------------------------------------- */

/* What an operation is, as both sides of a pair must agree on. */
typedef struct gcoll_fingerprint {
    uint8_t bytes[GCOLL_FINGERPRINT_BYTES];
} gcoll_fingerprint;

/* What a fingerprint says besides the call. */
typedef struct gcoll_planned {
    const gcoll_choice *choice;
    bool by_hosts; /* by which ranks share a host */
    uint64_t mark; /* as gcoll_call_choose gave it */
} gcoll_planned;

void gcoll_fingerprint_make(const gcoll_context *context, const gcoll_call *call,
                            const gcoll_planned *planned, gcoll_fingerprint *fingerprint);
/* The fingerprint of a call with own blocks as it goes to a peer for whom there are `count` elements. */
void gcoll_fingerprint_for_peer(const gcoll_fingerprint *fingerprint, uint64_t count,
                                gcoll_fingerprint *sent);
/* Makes such a one what it was for all; *count is what it said. False if it is not such. */
bool gcoll_fingerprint_for_all(gcoll_fingerprint *fingerprint, uint64_t *count);
/* "allreduce of 400 float32, sum, by ring" */
void gcoll_fingerprint_describe(const gcoll_fingerprint *fingerprint, char *text, size_t bytes);
/* What two differ in that are described alike (else each can see it), or why they chose differently. */
void gcoll_fingerprint_hint(const gcoll_fingerprint *theirs, const gcoll_fingerprint *ours, uint32_t peer,
                            uint32_t rank, bool reads_the_same, char *text, size_t bytes);

/* ---- Plans (cache.c) ------------------------------------------------------------------------ */

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

/* What a context keeps of this: the folder's own. */
struct gcoll_calls {
    gcoll_cache_entry *cache; /* the latest used first */
    uint32_t cache_count;
    void (*destroy_run)(gcoll_run *run); /* of idle ones */
    gcoll_registry registry;             /* the caller's algorithms */
    uint64_t *offsets; /* 2 * (size + 1) entries for the blocks of the call at hand; NULL until needed */
};

void gcoll_calls_create(gcoll_context *context, void (*destroy_run)(gcoll_run *run));
/* The parent's algorithms. */
gcoll_status gcoll_calls_duplicate(gcoll_context *context, const gcoll_context *parent);
/* Destroys idle runs, and plans; nobody holds one. */
void gcoll_calls_free(gcoll_context *context);

#define GCOLL_CACHE_ENTRIES 128 /* more shapes than a training step or a solver uses; each costs a plan */

/* Finds or makes the entry, and takes a hold on it. */
gcoll_status gcoll_cache_get(gcoll_context *context, const gcoll_call *call, const gcoll_blocks *blocks,
                             gcoll_cache_entry **entry);
static inline void gcoll_cache_hold(gcoll_cache_entry *entry) {
    entry->users++;
}
static inline void gcoll_cache_put(gcoll_cache_entry *entry) {
    entry->users--;
}
/* Drops what nobody uses of a plan by arrival. */
void gcoll_cache_forget(gcoll_context *context, uint64_t arrival);
/* The idle run, if there is one; and gives one back: false if there is one already. */
static inline gcoll_run *gcoll_cache_take_idle(gcoll_cache_entry *entry) {
    gcoll_run *run = entry->idle;
    entry->idle = NULL;
    return run;
}
static inline bool gcoll_cache_keep_idle(gcoll_cache_entry *entry, gcoll_run *run) {
    if (entry->idle)
        return false;
    entry->idle = run;
    return true;
}

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
    const void *options; /* of the collective's own type, */
    bool is_general;     /* or gcoll_collective_options for any; then also, before what these say: */
    const char *algorithm;
    int64_t timeout_ms;
} gcoll_given;

/* A call as the user made it, checked. Not to be copied: buffers may point into it. */
typedef struct gcoll_arguments {
    gcoll_call call;
    gcoll_blocks blocks; /* in the context's memory, until the next call */
    gcoll_buffers buffers;
    const void *in;
    void *out;
    const gcoll_user_op *user_op;
    int64_t timeout_ms; /* of the options: 0 the context's, -1 none */
    gcoll_done_fn done;
    void *done_arg;
} gcoll_arguments;

/* Fills in zeroed arguments. Errors name the argument. */
gcoll_status gcoll_arguments_read(gcoll_arguments *arguments, gcoll_context *context,
                                  const gcoll_given *given);
/* The call of a blocking collective without its buffers. */
gcoll_status gcoll_arguments_shape(gcoll_call *call, gcoll_context *context, gcoll_collective collective,
                                   uint64_t count, gcoll_type type, gcoll_op op, uint32_t root,
                                   const gcoll_collective_options *given);
/* GCOLL_ERR_INVALID if options.same is none. */
gcoll_status gcoll_same_check(int same);
/* Whether the order of evaluation shows in the bits of the result. */
bool gcoll_order_matters(gcoll_type type, gcoll_op op);

/* ---- Buffers in device memory (places.c) ---------------------------------------------------- */

/* Looks up where the buffers lie, and compares that with what the caller says of it, if he does. */
gcoll_status gcoll_memory_read(gcoll_arguments *arguments, gcoll_context *context, const gcoll_memory *given);
/* The plan of a call cannot run for this reason, the last error: whether it is to be staged instead. */
bool gcoll_memory_gives_way(gcoll_context *context, const gcoll_call *call, gcoll_status status);

#endif
