/*
 * gcoll/plan/verify_internal.h - what the files of the verifier share.
 *
 * gcoll_verify (verify.c) runs the phases in this order, each relying on the ones before it:
 *   verify_structure.c  every plan by itself: kinds, bounds, rounds, edges
 *   verify_spaces.c     ... and which memories its steps touch
 *   verify_messages.c   pairs each send with its receive
 *   verify_races.c      conflicting steps of a rank are ordered
 *   verify_run.c        runs all ranks to the end, or names the deadlock; calls the next four as steps end
 *   verify_memory.c     the symbolic value of each element
 *   verify_values.c     ... the algebra of these values
 *   verify_codec.c      ... the effect of encoding and decoding on them
 *   verify_causal.c     what must have happened before a step: chain lengths, barriers
 *   verify_expect.c     what the collective promises
 *   verify_result.c     what the outputs hold in the end
 */
#ifndef GCOLL_VERIFY_INTERNAL_H
#define GCOLL_VERIFY_INTERNAL_H

#include "gcoll/plan/steps.h"

/* ---- A hash table from 64 bits to 32 (verify_map.c) --------------------------------------------- */

typedef struct gcoll_verify_entry {
    uint64_t key;
    uint32_t value; /* 0: empty */
} gcoll_verify_entry;

typedef struct gcoll_verify_map {
    gcoll_verify_entry *entries;
    uint64_t mask, used;
} gcoll_verify_map;

/* The value at key, 0 for a new one, which the caller must then set to something else than 0. Valid until the
 * next call. NULL when memory ran out. */
uint32_t *gcoll_verify_map_at(gcoll_verify_map *map, uint64_t key);
/* The value at key, 0 if there is none. */
uint32_t gcoll_verify_map_find(const gcoll_verify_map *map, uint64_t key);
void gcoll_verify_map_free(gcoll_verify_map *map);

/* ---- What an element may hold (verify_values.c) ------------------------------------------------------ */

/* A value is a node (which operations were applied to which contributions, up to swapping operands) and one
 * bit that says whether some operation had its operands out of rank order. Equal values are equal numbers. */
typedef uint32_t gcoll_verify_value;
#define GCOLL_VERIFY_UNSET 0u /* never written */

/* A set of contributions: an arc of the circle of all of them, or bits. */
typedef struct gcoll_verify_set {
    uint32_t first, count;
    uint64_t bits; /* 0: the `count` contributions from `first` on, modulo all; else 1 + index in the pool */
} gcoll_verify_set;

typedef struct gcoll_verify_values {
    uint32_t all;            /* contributions, of all ranks; rank order is their order */
    gcoll_verify_map pairs;  /* two nodes -> their combination */
    gcoll_verify_map unions; /* two sets -> 1 + their union */
    uint32_t *nodes;         /* by node: its set, twice, + 1 if divided */
    gcoll_verify_set *sets;
    uint64_t *pool; /* words of bits */
    bool trees_known;
    uint32_t left, pairs_tree; /* nodes of the trees of gcoll_order; 0 if nobody built them */
    /* With a codec, else NULL: by node, how often an input of it was rounded at most; and its origin, see
     * verify_codec.c. */
    uint32_t *rounded, *origin;
    uint64_t rounded_room, origin_room;
    bool has_codec;
    gcoll_verify_map roundings; /* node and origin -> the rounded value's node */
    uint64_t node_count, node_room, set_count, set_room, word_count, word_room;
} gcoll_verify_values;

/* ---- The memory of a rank (verify_memory.c) --------------------------------------------------------------
 */

/* Elements from `begin` up to the next piece hold `value`; element e belongs to position e + shift (modulo
 * 2^64) of the vector that the collective is about (in an alltoall: of what its sender has in IN). */
typedef struct gcoll_verify_piece {
    uint64_t begin, shift;
    gcoll_verify_value value;
} gcoll_verify_piece;

/* A list of pieces that covers [0, size). */
typedef struct gcoll_verify_pieces {
    gcoll_verify_piece *at;
    uint64_t count, room, size;
} gcoll_verify_pieces;

/* ---- Encoded elements (verify_codec.c) -------------------------------------------------------------- */

/* What one ENCODE wrote: the values that decoding it gives. */
typedef struct gcoll_verify_encoding {
    gcoll_verify_pieces decoded;
    uint64_t position; /* of its first element in the vector */
} gcoll_verify_encoding;

typedef struct gcoll_verify_encodings {
    gcoll_verify_encoding *at;
    uint64_t count, room;
} gcoll_verify_encodings;

/* ---- What happened before (verify_causal.c) -------------------------------------------------------- */

typedef struct gcoll_verify_causal {
    uint32_t *depth;  /* by step: messages in the longest chain that ends there */
    uint32_t *prefix; /* by step: the greatest depth of this and all older steps of its rank */
    uint32_t *known;  /* by rank: how far prefix is filled in */
    uint64_t words;   /* of a set of ranks; 0 unless the collective is a barrier */
    uint64_t *started, *started_prefix; /* by step: the ranks that must have started, and as prefix */
    uint32_t longest;
} gcoll_verify_causal;

/* ---- The whole ------------------------------------------------------------------------------------------
 */

typedef struct gcoll_verifier {
    const gcoll_plan *const *plans;
    uint32_t size;
    uint64_t *base;      /* size + 1: where the steps of a rank begin in arrays over all steps */
    uint32_t *partner;   /* by step: the step at the peer that is the other end of the message */
    uint32_t *leaf;      /* size + 1: the number of a rank's first contribution */
    uint64_t *memory_at; /* size + 1: where the memories of a rank begin */
    gcoll_verify_pieces *memories;
    gcoll_verify_pieces list[3]; /* verify_memory.c: operands and result of the step in hand */
    gcoll_verify_values values;
    gcoll_verify_encodings encodings;
    gcoll_verify_causal causal;
} gcoll_verifier;

/* Makes room for `needed` elements of `element_bytes`, at least doubling. */
gcoll_status gcoll_verify_reserve(void *array, uint64_t *room, uint64_t needed, size_t element_bytes);
/* Zeroed memory; at least one element. NULL with the error text set. */
void *gcoll_verify_allocate(uint64_t count, size_t element_bytes);

#define GCOLL_VERIFY_TEXT 96
/* "recv from 2, 5 elements" */
const char *gcoll_verify_describe(const gcoll_step *step, char text[GCOLL_VERIFY_TEXT]);
/* "rank 3, step 7 (recv from 2, 5 elements): ..." as GCOLL_ERR_INVALID. */
gcoll_status gcoll_verify_fail(const gcoll_verifier *v, uint32_t rank, uint32_t step, const char *format, ...)
    GCOLL_PRINTF(4, 5);

static inline bool gcoll_verify_is_recv(const gcoll_step *step) {
    return step->kind == GCOLL_STEP_RECV || step->kind == GCOLL_STEP_RECV_REDUCE;
}

/* What a step touches: the ranges that it reads, then the one that it writes. */
typedef struct gcoll_verify_access {
    gcoll_ref ref;
    bool write;
    uint64_t count;
} gcoll_verify_access;
uint32_t gcoll_verify_access_count(const gcoll_step *step);
/* The k-th of them. The operands of a fold must be within the plan's. */
gcoll_verify_access gcoll_verify_access_at(const gcoll_plan *plan, const gcoll_step *step, uint32_t k);

/* The distinct memories of a rank: IN[k] (and OUT[k], in place), then OUT[k] (out of place), then SCRATCH. */
static inline uint32_t gcoll_verify_memory_count(const gcoll_problem *problem) {
    return problem->buffers * (problem->in_place ? 1u : 2u) + 1;
}
static inline uint32_t gcoll_verify_memory_index(const gcoll_problem *problem, gcoll_ref ref) {
    if (ref.space == GCOLL_SCRATCH)
        return gcoll_verify_memory_count(problem) - 1;
    return ref.index + (ref.space == GCOLL_OUT && !problem->in_place ? problem->buffers : 0);
}
static inline uint64_t gcoll_verify_memory_size(const gcoll_plan *plan, uint32_t index) {
    const gcoll_problem *problem = &plan->problem;
    if (index == gcoll_verify_memory_count(problem) - 1)
        return plan->scratch;
    return gcoll_problem_space_count(problem,
                                     index < problem->buffers && !problem->in_place ? GCOLL_IN : GCOLL_OUT);
}
const char *gcoll_verify_memory_name(const gcoll_problem *problem, uint32_t index,
                                     char text[GCOLL_VERIFY_TEXT]);

gcoll_status gcoll_verify_structure(const gcoll_plan *const *plans, uint32_t size);
/* Of a rank whose steps are within bounds. */
gcoll_status gcoll_verify_spaces(const gcoll_verifier *v, uint32_t rank);
gcoll_status gcoll_verify_messages(gcoll_verifier *v);
gcoll_status gcoll_verify_races(const gcoll_verifier *v);
gcoll_status gcoll_verify_run(gcoll_verifier *v);
gcoll_status gcoll_verify_result(gcoll_verifier *v, gcoll_verify_report *report);

/* What elements [begin, begin + count) of OUT must hold in the end (verify_expect.c). */
typedef struct gcoll_verify_expected {
    uint64_t count;
    uint64_t position; /* of the first of them */
    uint32_t owner;    /* whose contribution (buffer 0); GCOLL_VERIFY_SUM: the reduction of all */
} gcoll_verify_expected;
#define GCOLL_VERIFY_SUM UINT32_MAX
/* For the elements of rank's OUT from `begin` (< its size) on: as many as are alike. */
gcoll_verify_expected gcoll_verify_expect(const gcoll_verifier *v, uint32_t rank, uint64_t begin);
/* Whether rank's IN counts at the start, and the position of its first element. */
bool gcoll_verify_contributes(const gcoll_problem *problem, uint64_t *position);
/* Whether what each rank sends to and expects from the others agrees. */
gcoll_status gcoll_verify_blocks(const gcoll_plan *const *plans, uint32_t size);

gcoll_status gcoll_verify_values_create(gcoll_verifier *v);
void gcoll_verify_values_free(gcoll_verify_values *values);
/* *result = left op right, for the step named. Contributions in both, or divided ones, are an error. */
gcoll_status gcoll_verify_combine(gcoll_verifier *v, uint32_t rank, uint32_t step, gcoll_verify_value left,
                                  gcoll_verify_value right, gcoll_verify_value *result);
/* *result = value / divisor. Only a complete sum may be divided, once. */
gcoll_status gcoll_verify_divide(gcoll_verifier *v, uint32_t rank, uint32_t step, gcoll_verify_value value,
                                 gcoll_verify_value *result);
/* A value that rounding gives: another one for each origin. */
gcoll_status gcoll_verify_round(gcoll_verifier *v, gcoll_verify_value value, uint32_t origin,
                                gcoll_verify_value *result);
/* The value of words that hold encoded elements, a new one. */
gcoll_status gcoll_verify_words(gcoll_verifier *v, uint32_t origin, gcoll_verify_value *result);
uint32_t gcoll_verify_origin(const gcoll_verifier *v, gcoll_verify_value value);
uint32_t gcoll_verify_rounded(const gcoll_verifier *v, gcoll_verify_value value);
/* Whether a value is a contribution, rounded or not. */
bool gcoll_verify_is_from(const gcoll_verifier *v, gcoll_verify_value value, gcoll_verify_value leaf);
gcoll_verify_value gcoll_verify_leaf(const gcoll_verifier *v, uint32_t rank, uint32_t buffer);
bool gcoll_verify_is_divided(const gcoll_verifier *v, gcoll_verify_value value);
bool gcoll_verify_is_ordered(gcoll_verify_value value);
/* Whether two values come from the same operations, whichever side the operands stood. */
bool gcoll_verify_same_tree(gcoll_verify_value x, gcoll_verify_value y);
/* Which trees of gcoll_order a complete sum comes from: GCOLL_CLAIM_LEFT and GCOLL_CLAIM_PAIRS. */
uint32_t gcoll_verify_trees(gcoll_verifier *v, gcoll_verify_value value);
/* The first contribution that value lacks, false if none. */
bool gcoll_verify_lacks(const gcoll_verifier *v, gcoll_verify_value value, uint32_t *leaf);
/* Whose a contribution is. */
void gcoll_verify_leaf_owner(const gcoll_verifier *v, uint32_t leaf, uint32_t *rank, uint32_t *buffer);

gcoll_status gcoll_verify_memory_create(gcoll_verifier *v);
void gcoll_verify_memory_free(gcoll_verifier *v);
/* Does what a local step does. */
gcoll_status gcoll_verify_apply(gcoll_verifier *v, uint32_t rank, uint32_t step);
/* Moves a message from the step of one rank to the partner at another. */
gcoll_status gcoll_verify_transfer(gcoll_verifier *v, uint32_t sender, uint32_t send, uint32_t receiver,
                                   uint32_t receive);

/* Encodes the elements of `list`, and makes it the list of the words. */
gcoll_status gcoll_verify_encode(gcoll_verifier *v, gcoll_verify_pieces *list);
/* Makes the list of words the list of `count` elements that they hold. */
gcoll_status gcoll_verify_decode(gcoll_verifier *v, uint32_t rank, uint32_t step, uint64_t count,
                                 gcoll_verify_pieces *list);
/* Whether words hold encoded elements. */
bool gcoll_verify_is_encoded(const gcoll_verifier *v, gcoll_verify_value value);
void gcoll_verify_encodings_free(gcoll_verify_encodings *encodings);
/* Appends a piece, or lengthens the last one if it is of the same kind. */
gcoll_status gcoll_verify_append(gcoll_verify_pieces *list, gcoll_verify_piece piece);
/* Where piece i of a list ends. */
static inline uint64_t gcoll_verify_end(const gcoll_verify_pieces *list, uint64_t i) {
    return i + 1 < list->count ? list->at[i + 1].begin : list->size;
}

gcoll_status gcoll_verify_causal_create(gcoll_verifier *v);
void gcoll_verify_causal_free(gcoll_verify_causal *causal);
/* In the order in which steps end. */
void gcoll_verify_causal_local(gcoll_verifier *v, uint32_t rank, uint32_t step);
void gcoll_verify_causal_message(gcoll_verifier *v, uint32_t sender, uint32_t send, uint32_t receiver,
                                 uint32_t receive);
/* At the end: every rank's end must come after every rank's start. */
gcoll_status gcoll_verify_causal_barrier(gcoll_verifier *v);

#endif
