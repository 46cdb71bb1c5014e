/* gcoll/call/call.h - turns the arguments of a collective call into a plan. arguments.c checks the
 * arguments, places.c looks up buffers in device memory, choose.c selects the algorithm, explain.c says why,
 * candidates.c lists what else to try, cache.c keeps the plans, and fingerprint.c makes the description that
 * peers compare. */
#ifndef GCOLL_CALL_CALL_H
#define GCOLL_CALL_CALL_H

#include <string.h>

#include "algorithms/algorithms.h"
#include "gcoll/accelerate/accelerate.h"
#include "gcoll/context/context.h"
#include "gcoll/plan/steps.h"
#include "gcoll/record/record.h"

typedef struct gcoll_run gcoll_run;
typedef struct gcoll_cache_entry gcoll_cache_entry;

/* ---- Calls ---------------------------------------------------------------------------------- */

#define GCOLL_ALGORITHM_TEXT_MAX 128

/* The key of the plan cache: all arguments that decide the plan, except the sizes of unequal blocks
 * (gcoll_blocks). The struct is zeroed before it is filled, so that equal calls have equal bytes. */
typedef struct gcoll_call {
    uint32_t collective, type, op, root, exchanges, buffers, needs;
    uint32_t in_place, commutative;
    uint32_t registered;    /* how many algorithms were registered: auto chooses anew when there are more */
    uint32_t local;         /* gcoll_local, for buffers in device memory; never AUTO for several buffers */
    uint32_t direct;        /* bool: the network adapter reads and writes device memory itself */
    uint32_t element_bytes; /* size of an element of the type, or of the caller's own (gcoll_user_op) */
    uint32_t in_list, out_list; /* number of buffers that IN and OUT consist of; 0: one buffer, no list */
    uint16_t counts_at_root;    /* bool: only the root knows all blocks, every other rank only its own */
    uint16_t uniform;           /* bool: the ranks agree on the result of the call */
    uint64_t places;            /* hash of the memories of the buffers; 0: all in host memory */
    uint64_t count;             /* elements of the whole problem: all blocks */
    uint64_t memory_limit;      /* bytes of scratch; 0: any */
    uint64_t blocks_hash; /* of the block sizes; 0: they are equal. allreduce: of the counts of a list */
    uint64_t arrival;     /* number of the arrival-aware plan (hooks.h); 0: none */
    uint64_t postscale;   /* the bits of the factor of the result, a double; 0: none */
    gcoll_codec codec;    /* all zero: none */
    char algorithm[GCOLL_ALGORITHM_TEXT_MAX]; /* "" is auto */
} gcoll_call;
_Static_assert(sizeof(gcoll_call) == 15 * sizeof(uint32_t) + 2 * sizeof(uint16_t) + 8 * sizeof(uint64_t) +
                                         GCOLL_ALGORITHM_TEXT_MAX,
               "there is no padding, which would not compare equal");

/* The result must be the same in every run, so measured values must not influence the choice. */
static inline bool gcoll_call_is_fixed(const gcoll_call *call) {
    return (call->needs & GCOLL_CLAIM_RUN_IDENTICAL) != 0;
}

/* The tree that the result must be built by. ANY if the tree cannot show in the bits. */
static inline gcoll_order gcoll_call_order(const gcoll_call *call) {
    return call->needs & GCOLL_CLAIM_PAIRS  ? GCOLL_ORDER_PAIRS
           : call->needs & GCOLL_CLAIM_LEFT ? GCOLL_ORDER_LEFT
                                            : GCOLL_ORDER_ANY;
}

/* Whether the choice of the algorithm depends on the number of buffers, which then is the same on all ranks.
 */
static inline bool gcoll_call_counts_buffers(const gcoll_call *call) {
    return call->buffers > 1 && gcoll_call_order(call) != GCOLL_ORDER_ANY;
}

/* Whether the call names no algorithm. */
static inline bool gcoll_call_is_auto(const gcoll_call *call) {
    return call->algorithm[0] == '\0' || memcmp(call->algorithm, "auto", sizeof "auto") == 0;
}

/* The alignment of elements in bytes. Elements of the caller's own, whose type is uint8: the largest power of
 * two that divides their size, 16 at most. */
static inline size_t gcoll_element_alignment(const gcoll_call *call) {
    const uint32_t divides = call->element_bytes & (0U - call->element_bytes);
    if (call->type != GCOLL_UINT8)
        return gcoll_type_alignment((gcoll_type)call->type);
    return divides < 16 ? divides : 16;
}

/* Where the result must have the same bits. NOWHERE if the order of evaluation cannot show in the bits. */
static inline gcoll_same gcoll_call_same(const gcoll_call *call) {
    return gcoll_call_is_fixed(call) || gcoll_call_order(call) != GCOLL_ORDER_ANY ? GCOLL_SAME_IN_RUNS
           : call->needs & GCOLL_CLAIM_RANK_IDENTICAL                             ? GCOLL_SAME_ON_RANKS
                                                                                  : GCOLL_SAME_NOWHERE;
}

/* Whether ranks know different block sizes: an alltoall_v, or a call with counts at the root. The receiver
 * then compares its count with that of the sender. */
static inline bool gcoll_call_has_own_blocks(const gcoll_call *call) {
    return (call->collective == GCOLL_ALLTOALL && call->blocks_hash != 0) || call->counts_at_root;
}

/* Whether the elements are the caller's own, so that the type does not describe them. */
static inline bool gcoll_call_has_own_elements(const gcoll_call *call) {
    return call->element_bytes != gcoll_type_size((gcoll_type)call->type);
}

/* The factor of the result; 0: none. */
static inline double gcoll_call_postscale(const gcoll_call *call) {
    double factor;
    memcpy(&factor, &call->postscale, sizeof factor);
    return factor;
}

/* Offsets of unequal blocks, as in gcoll_problem; NULL if the blocks are equal. And the memory that each
 * buffer lies in; NULL if all lie in host memory. */
typedef struct gcoll_blocks {
    const uint64_t *offsets, *recv_offsets;
    const uint32_t *in_memory, *out_memory;
} gcoll_blocks;

/* Names the algorithm. The rest of the text stays zero, as calls are compared by their bytes. */
void gcoll_call_name(gcoll_call *call, const char *algorithm);
/* Returns a copy of the call with only the fields that decide the choice of auto and are equal on every rank.
 */
gcoll_call gcoll_call_alike(const gcoll_call *call);
/* Whether two calls have equal copies of that kind. */
static inline bool gcoll_call_is_alike(const gcoll_call *a, const gcoll_call *b) {
    return a->collective == b->collective && a->type == b->type && a->element_bytes == b->element_bytes &&
           a->op == b->op && a->root == b->root && a->needs == b->needs && a->commutative == b->commutative &&
           a->count == b->count && a->memory_limit == b->memory_limit && a->blocks_hash == b->blocks_hash &&
           a->codec.kind == b->codec.kind && a->codec.is_stochastic == b->codec.is_stochastic &&
           a->codec.block == b->codec.block;
}

/* The problem for the planner, without the algorithm's options. */
gcoll_problem gcoll_call_problem(const gcoll_context *context, const gcoll_call *call,
                                 const gcoll_blocks *blocks);
/* Selects the algorithm (choose.c) and sets options and segment in *problem. *mark identifies an
 * arrival-aware plan in fingerprints; otherwise it is 0. *seconds: what the cost model says; negative:
 * nothing.
 */
gcoll_status gcoll_call_choose(gcoll_context *context, const gcoll_call *call, gcoll_problem *problem,
                               gcoll_choice *choice, uint64_t *mark, double *seconds);
/* The algorithm that calls like this one take as long as nothing else is tried, valid as long as the context;
 * NULL: what auto chooses, as nothing was learned. */
const char *gcoll_call_learned(gcoll_context *context, const gcoll_call *call);
/* Lists up to `room` algorithms that can serve the call with little scratch, as texts, and their seconds by
 * the cost model, and the bytes that the busiest rank sends: the choice of auto first, then the fastest
 * others, the ones that send the fewest bytes, take the fewest steps and send the fewest messages, and the
 * ring along a tour. A plan that has several names is listed once. Behind them, those whose messages segments
 * cut, once more with segments. variants: for these the place of the algorithm, for the others UINT32_MAX.
 * The arrays have 2 * room places. The same on every rank for calls that are alike. */
gcoll_status gcoll_call_candidates(gcoll_context *context, const gcoll_call *call, const gcoll_blocks *blocks,
                                   char (*texts)[GCOLL_ALGORITHM_TEXT_MAX], double *seconds, double *sent,
                                   uint32_t *variants, uint32_t room, uint32_t *count);

/* ---- Fingerprints (fingerprint.c) ----------------------------------------------------------- */

/* Describes an operation. The fingerprints of both sides of a pair must agree. */
typedef struct gcoll_fingerprint {
    uint8_t bytes[GCOLL_FINGERPRINT_BYTES];
} gcoll_fingerprint;

/* The outcome of planning, which the fingerprint includes. */
typedef struct gcoll_planned {
    const gcoll_choice *choice;
    bool by_hosts; /* the plan depends on which ranks share a host */
    uint64_t mark; /* from gcoll_call_choose */
} gcoll_planned;

void gcoll_fingerprint_make(const gcoll_context *context, const gcoll_call *call,
                            const gcoll_planned *planned, gcoll_fingerprint *fingerprint);
/* For a call whose block sizes are each rank's own: the fingerprint to send to a peer whose block has
 * `count` elements. */
void gcoll_fingerprint_for_peer(const gcoll_fingerprint *fingerprint, uint64_t count,
                                gcoll_fingerprint *sent);
/* Reverses gcoll_fingerprint_for_peer: restores the common fingerprint, and returns the peer's count in
 * *count. False if the fingerprint has no count for one peer. */
bool gcoll_fingerprint_for_all(gcoll_fingerprint *fingerprint, uint64_t *count);
/* "allreduce of 400 float32, sum, by ring" */
void gcoll_fingerprint_describe(const gcoll_fingerprint *fingerprint, char *text, size_t bytes);
/* Explains why two fingerprints differ. `reads_the_same`: gcoll_fingerprint_describe gives the same text
 * for both. The text is empty if the descriptions show the difference already. */
void gcoll_fingerprint_hint(const gcoll_fingerprint *theirs, const gcoll_fingerprint *ours, uint32_t peer,
                            uint32_t rank, bool reads_the_same, char *text, size_t bytes);

/* ---- Plans (cache.c) ------------------------------------------------------------------------ */

/* A cached plan. Several operations may use it at once. It keeps one idle run for the next call. */
struct gcoll_cache_entry {
    gcoll_call call; /* unequal block sizes stand in plan->problem */
    uint64_t hash;
    gcoll_choice choice;
    char algorithm[GCOLL_ALGORITHM_TEXT_MAX]; /* the choice as text */
    gcoll_plan *plan;
    gcoll_fingerprint fingerprint;
    gcoll_record_shape record;
    gcoll_run *idle;
    uint32_t users; /* references by operations and runs, the idle run included */
    gcoll_cache_entry *next;
};

/* The state of this folder in a context. Only this folder reads it. */
struct gcoll_calls {
    gcoll_cache_entry *cache; /* most recently used first */
    uint32_t cache_count;
    void (*destroy_run)(gcoll_run *run); /* destroys idle runs */
    gcoll_registry registry;             /* algorithms that the caller registered */
    uint64_t *offsets;   /* room for the blocks and lists of the current call; NULL until needed */
    size_t offsets_room; /* entries */
    void *ranges;        /* room for the check of its buffers; NULL until needed */
    size_t ranges_room;  /* entries */
};

void gcoll_calls_create(gcoll_context *context, void (*destroy_run)(gcoll_run *run));
/* Registers the parent's algorithms. */
gcoll_status gcoll_calls_duplicate(gcoll_context *context, const gcoll_context *parent);
/* Destroys idle runs and plans. No operation may hold a plan. */
void gcoll_calls_free(gcoll_context *context);

#define GCOLL_CACHE_ENTRIES 128 /* a training step or a solver uses fewer shapes; each costs a plan */

/* Finds the entry or makes it, and takes a reference. */
gcoll_status gcoll_cache_get(gcoll_context *context, const gcoll_call *call, const gcoll_blocks *blocks,
                             gcoll_cache_entry **entry);
static inline void gcoll_cache_hold(gcoll_cache_entry *entry) {
    entry->users++;
}
static inline void gcoll_cache_put(gcoll_cache_entry *entry) {
    entry->users--;
}
/* Drops the unused entries of this arrival-aware plan. */
void gcoll_cache_forget(gcoll_context *context, uint64_t arrival);
/* Takes the idle run; NULL if there is none. gcoll_cache_keep_idle gives a run back; it returns false if
 * the entry has an idle run already. */
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

/* ---- Arguments (arguments.c) ---------------------------------------------------------------- */

/* A vector that is made of several buffers: element i lies in the last one that begins at or before i. */
typedef struct gcoll_list {
    const void *const *at;   /* the buffers; those without elements may be NULL */
    const uint64_t *offsets; /* where they begin, and, last, where the vector ends */
    uint32_t entries;        /* 0: the vector is one buffer */
} gcoll_list;

typedef struct gcoll_buffers {
    /* entry->call.buffers pointers each. In place, `in` is not read and `out` is the larger of both. */
    const void *const *in;
    void *const *out;
    gcoll_list in_list, out_list; /* used instead of in[0] or out[0] if they have entries */
    void *const *streams;         /* the caller's, one a buffer, or NULL; only for device memory */
    gcoll_reach reach;
} gcoll_buffers;

/* The arguments of a public call. Fields that its collective does not use are zero. */
typedef struct gcoll_given {
    gcoll_collective collective;
    const void *input;
    void *output;
    bool lists_input, lists_output; /* input or output is a list of buffers: */
    const void *const *inputs;
    void *const *outputs;
    uint32_t entries; /* of the list of an allreduce; other lists have one for each rank */
    uint64_t count;   /* elements as the public call counts them: of the vector, or of one block */
    bool has_counts;
    const uint64_t *counts, *recv_counts; /* block sizes, if has_counts */
    gcoll_type type;
    gcoll_op op;
    uint32_t root, exchanges;
    const void *options; /* the collective's own type, or gcoll_collective_options if is_general */
    bool is_general;     /* then algorithm and timeout_ms override the options, unless they are NULL and 0 */
    const char *algorithm;
    int64_t timeout_ms;
} gcoll_given;

/* The checked arguments of a call. Not to be copied: `buffers` may point into it. */
typedef struct gcoll_arguments {
    gcoll_call call;
    gcoll_blocks blocks; /* points to memory of the context; valid until the next call */
    gcoll_buffers buffers;
    const void *in;
    void *out;
    const gcoll_user_op *user_op;
    int64_t timeout_ms; /* options.timeout_ms: 0 is the context's timeout, -1 none */
    gcoll_done_fn done; /* options.done, or NULL */
    void *done_arg;
    bool keep_input; /* options.keep_input */
    /* Factors of the input, applied one after the other before the first step (run/scale.c); 0: none. With
     * any, `call` is the call that runs on the multiple, and `buffers` are still those of the caller. */
    double factors[2];
    bool was_in_place;       /* the caller's call */
    uint32_t taught;         /* token of context->learner (hooks.h); 0: none */
    uint64_t undecided_call; /* its number, if its algorithm is not decided yet; else 0 */
} gcoll_arguments;

/* Arguments with copies of all that they point to, but for the buffers themselves. Freed by free(). */
typedef struct gcoll_saved {
    gcoll_arguments arguments;
    gcoll_user_op user;
} gcoll_saved;

gcoll_status gcoll_arguments_save(const gcoll_context *context, const gcoll_arguments *arguments,
                                  gcoll_saved **saved);

/* Checks the arguments of a call and fills in `arguments`, which the caller has zeroed. Errors name the
 * argument. */
gcoll_status gcoll_arguments_read(gcoll_arguments *arguments, gcoll_context *context,
                                  const gcoll_given *given);
/* Makes the call of a blocking collective without looking at buffers. */
gcoll_status gcoll_arguments_shape(gcoll_call *call, gcoll_context *context, gcoll_collective collective,
                                   uint64_t count, gcoll_type type, gcoll_op op, uint32_t root,
                                   const gcoll_collective_options *given);
/* GCOLL_ERR_INVALID if `same` is not a gcoll_same. */
gcoll_status gcoll_same_check(int same);
/* GCOLL_ERR_INVALID if `order` is not a gcoll_order. */
gcoll_status gcoll_order_check(int order);
/* Whether the order of evaluation can change the bits of the result. */
bool gcoll_order_matters(gcoll_type type, gcoll_op op);

/* ---- Buffers in device memory (places.c) ---------------------------------------------------- */

/* Looks up the memory of each buffer, and compares it with what the caller declared. */
gcoll_status gcoll_memory_read(gcoll_arguments *arguments, gcoll_context *context, const gcoll_memory *given);
/* Called when planning failed with `status`. True if the call should be planned again with staging
 * instead of direct access by the network adapter; logs that. */
bool gcoll_memory_gives_way(gcoll_context *context, const gcoll_call *call, gcoll_status status);

#endif
