/*
 * gcoll/plan/steps.h - what a plan is made of, and the passes over it. gcoll/plan.h, which is public, has the
 * rules.
 */
#ifndef GCOLL_PLAN_INTERNAL_H
#define GCOLL_PLAN_INTERNAL_H

#include "gcoll/base/base.h"
#include "gcoll/base/codec.h"
#include "gcoll/plan.h"

typedef enum gcoll_step_kind {
    GCOLL_STEP_SEND = 0,    /* a -> peer; count 0 is a bare signal */
    GCOLL_STEP_RECV,        /* peer -> dst */
    GCOLL_STEP_RECV_REDUCE, /* dst = a op received (received op a if `received_first`) */
    GCOLL_STEP_REDUCE,      /* dst = a op b */
    GCOLL_STEP_COPY,        /* dst = a; count 0 is a fence */
    GCOLL_STEP_DIVIDE,      /* dst = dst / plan->divisor, for averages */
    GCOLL_STEP_FOLD, /* dst = x[0] op x[1] op ..., by a device, where x[i] is a with its index replaced by
                      * plan->operands[first_operand + i]; dst may be one of them */
    /* With a codec. Encoded elements lie in SCRATCH, gcoll_codec_words of `count` elements. */
    GCOLL_STEP_ENCODE,        /* dst = encoded a */
    GCOLL_STEP_DECODE,        /* dst = decoded a */
    GCOLL_STEP_DECODE_REDUCE, /* dst = a op decoded b (decoded b op a if `received_first`) */
    GCOLL_STEP_KIND_COUNT
} gcoll_step_kind;

typedef struct gcoll_step {
    uint8_t kind;        /* gcoll_step_kind */
    bool received_first; /* RECV_REDUCE, DECODE_REDUCE: the received operand stands on the left */
    union {
        uint32_t peer;          /* SEND, RECV, RECV_REDUCE */
        uint32_t operand_count; /* FOLD: 2 and more */
    };
    union {
        uint32_t message;       /* index among this rank's messages to (SEND) or from (RECV*) peer, from 0 */
        uint32_t first_operand; /* FOLD */
    };
    uint32_t round;                       /* never falls from step to step */
    uint32_t dependencies;                /* how many steps must be done first */
    uint32_t first_successor, successors; /* plan->successors[first .. first + successors) wait for it */
    uint64_t count;
    gcoll_ref dst, a, b;
} gcoll_step;

struct gcoll_plan {
    gcoll_problem problem; /* its offsets are the plan's own; node, arrival_ns and tour are NULL */
    uint32_t step_count;
    uint32_t successor_count;
    uint32_t rounds; /* the last step's round + 1; 0 if empty */
    uint32_t window; /* GCOLL_WINDOW_UNBOUNDED: pure data flow */
    uint32_t divisor;
    bool is_stated;   /* the planner said what waits for what (gcoll_plan_after) */
    uint64_t scratch; /* elements of SCRATCH */
    uint64_t encoded; /* the part of `scratch` that holds encoded messages */
    gcoll_step *steps;
    uint32_t *successors;
    uint64_t *offsets;  /* what problem.offsets and recv_offsets point into; NULL if they are */
    uint32_t *memory;   /* what problem.in_memory and out_memory point into; NULL if they are */
    uint16_t *operands; /* of FOLD steps: numbers of buffers; NULL if there are none */
    uint32_t operand_count;
};

/* Whether two plans of one problem do the same, in the same order. */
bool gcoll_plan_equals(const gcoll_plan *a, const gcoll_plan *b);

/* In place, IN and OUT of index k are one memory, which steps name OUT[k]: the larger of both, in which IN
 * begins at gcoll_problem_in_shift and OUT at gcoll_problem_out_shift (one of them is 0). */
static inline uint64_t gcoll_problem_in_shift(const gcoll_problem *p) {
    const bool inside = p->collective == GCOLL_ALLGATHER || p->collective == GCOLL_GATHER;
    return p->in_place && inside ? gcoll_block_begin(p, p->rank) : 0;
}
static inline uint64_t gcoll_problem_out_shift(const gcoll_problem *p) {
    const bool inside = p->collective == GCOLL_REDUCE_SCATTER || p->collective == GCOLL_SCATTER;
    return p->in_place && inside ? gcoll_block_begin(p, p->rank) : 0;
}
/* Elements of the memory that refs of this space other than SCRATCH point into. */
uint64_t gcoll_problem_space_count(const gcoll_problem *problem, uint16_t space);
/* Entries of offsets and recv_offsets together. */
static inline uint64_t gcoll_problem_offset_entries(const gcoll_problem *p) {
    return ((p->offsets ? UINT64_C(1) : 0) + (p->recv_offsets ? 1 : 0)) * (p->size + UINT64_C(1));
}
/* Entries of in_memory and out_memory together. */
static inline uint64_t gcoll_problem_memory_entries(const gcoll_problem *p) {
    return ((p->in_memory ? UINT64_C(1) : 0) + (p->out_memory ? 1 : 0)) * p->buffers;
}
/* The memory that a place lies in, GCOLL_HOST_MEMORY or a device's. SCRATCH is the host's. */
static inline uint32_t gcoll_problem_memory(const gcoll_problem *p, gcoll_ref ref) {
    const uint32_t *memory = ref.space == GCOLL_IN && !p->in_place ? p->in_memory : p->out_memory;
    if (p->in_place && !memory)
        memory = p->in_memory;
    return ref.space == GCOLL_SCRATCH || !memory ? GCOLL_HOST_MEMORY : memory[ref.index];
}
/* Whether some buffer of this rank lies in device memory. */
bool gcoll_problem_is_staged(const gcoll_problem *problem);
/* Whether its messages go from and to device memory, as problem->staging says. */
bool gcoll_problem_is_direct(const gcoll_problem *problem);
/* Whether a step touches device memory, so that a device has to do it. */
bool gcoll_step_is_on_device(const gcoll_plan *plan, const gcoll_step *step);
/* "send", "receive and reduce", ... */
static inline const char *gcoll_step_kind_name(uint32_t kind) {
    static const char *const names[GCOLL_STEP_KIND_COUNT] = {
        "send",   "receive", "receive and reduce", "reduce", "copy", "divide", "fold",
        "encode", "decode",  "decode and reduce"};
    return kind < GCOLL_STEP_KIND_COUNT ? names[kind] : "?";
}
static inline bool gcoll_step_is_message(const gcoll_step *step) {
    return step->kind <= GCOLL_STEP_RECV_REDUCE;
}
/* Elements that a step touches at dst, a and b. They are `count`, except for places of encoded elements. */
static inline uint64_t gcoll_step_dst_count(const gcoll_problem *p, const gcoll_step *s) {
    return s->kind == GCOLL_STEP_ENCODE ? gcoll_codec_words(&p->codec, s->count) : s->count;
}
static inline uint64_t gcoll_step_a_count(const gcoll_problem *p, const gcoll_step *s) {
    return s->kind == GCOLL_STEP_DECODE ? gcoll_codec_words(&p->codec, s->count) : s->count;
}
static inline uint64_t gcoll_step_b_count(const gcoll_problem *p, const gcoll_step *s) {
    return s->kind == GCOLL_STEP_DECODE_REDUCE ? gcoll_codec_words(&p->codec, s->count) : s->count;
}
/* Whether a step reads b. */
static inline bool gcoll_step_has_b(const gcoll_step *s) {
    return s->kind == GCOLL_STEP_REDUCE || s->kind == GCOLL_STEP_DECODE_REDUCE;
}
/* Whether a step encodes or decodes. */
static inline bool gcoll_step_is_codec(const gcoll_step *s) {
    return s->kind >= GCOLL_STEP_ENCODE;
}
/* Whether several inputs are summed in scratch, because no output has room for a whole vector. */
static inline bool gcoll_problem_sums_in_scratch(const gcoll_problem *p) {
    return p->buffers > 1 && p->collective == GCOLL_REDUCE_SCATTER;
}
/* "any", "pairs", "left"; any other number is "any". */
static inline const char *gcoll_order_name(gcoll_order order) {
    return order == GCOLL_ORDER_PAIRS ? "pairs" : order == GCOLL_ORDER_LEFT ? "left" : "any";
}
/* Whether results must be built by one tree. */
static inline bool gcoll_problem_has_tree(const gcoll_problem *p) {
    return p->order == GCOLL_ORDER_PAIRS || p->order == GCOLL_ORDER_LEFT;
}
/* Whether the algorithm's planner reads all buffers of the process, so that no pass reduces them before. */
static inline bool gcoll_takes_buffers(const gcoll_algorithm *algorithm, const gcoll_problem *p) {
    return algorithm->takes_order && gcoll_problem_has_tree(p);
}
/* Whether messages of a collective may carry encoded elements. */
bool gcoll_collective_takes_codec(gcoll_collective collective);
/* GCOLL_ERR_UNSUPPORTED if the problem has a codec, and the algorithm takes none. */
gcoll_status gcoll_codec_applies(const gcoll_algorithm *algorithm, const gcoll_problem *problem);
/* GCOLL_ERR_INVALID names the field. */
gcoll_status gcoll_problem_check(const gcoll_problem *problem);
/* Checks its tour alone: INVALID unless each rank stands in it once. */
gcoll_status gcoll_tour_check(const gcoll_problem *problem);

void gcoll_plan_divide(gcoll_builder *b, gcoll_ref dst, uint64_t count);

gcoll_status gcoll_builder_create(const gcoll_problem *problem, gcoll_builder **builder);
/* Consumes the builder, also on failure. */
gcoll_status gcoll_builder_finish(gcoll_builder *builder, gcoll_plan **plan);
void gcoll_builder_destroy(gcoll_builder *builder);

/* ---- Plans that were made elsewhere, as files have them --------------------------------------------- */

/* Appends a step as it stands, but for its message number, which follows from its place. It waits for the
 * steps `after`, which come before it, and for no others: the verifier finds steps that should wait and do
 * not. Its round is not less than that of the step before. operands: of a fold; else NULL. Places are named
 * as finished plans name them: see gcoll_plan_canonical. */
void gcoll_plan_step(gcoll_builder *builder, const gcoll_step *step, const uint16_t *operands,
                     const uint32_t *after, uint32_t after_count);
/* The name of a place in finished plans: in place, a place of IN is one of OUT. */
gcoll_ref gcoll_plan_canonical(const gcoll_builder *builder, gcoll_ref ref);

/* ---- Passes: plan in, new plan out; the input is unchanged --------------------------------------- */

/* Cuts every step into segments of at most `segment` elements (a multiple for every step, so both sides of
 * a message cut alike) and infers dependencies anew. Rounds are kept. */
gcoll_status gcoll_pass_split(const gcoll_plan *plan, uint64_t segment, gcoll_plan **split);

/* Reduces IN[first] to IN[first + count - 1] into `sum`, n elements each: by pairs if `order` says so, which
 * takes a vector of scratch for each subtree on the right, else one after the other. Returns where the result
 * lies: `sum`, or for one buffer that. */
gcoll_ref gcoll_sum_buffers(gcoll_builder *b, gcoll_order order, gcoll_ref sum, uint32_t first,
                            uint32_t count, uint64_t n);

/* Makes a plan of one buffer into one of `buffers`: reduces IN[0..] first, into OUT[0], or into scratch where
 * an output is but a block of an input (gcoll_problem_sums_in_scratch), and copies OUT[0] to the others last.
 * For broadcast: the root's buffer 0 goes to every buffer of every rank. `in_place` is that of the made plan;
 * where inputs are summed in scratch, the given one must not be in place, else both are. */
gcoll_status gcoll_pass_buffers(const gcoll_plan *plan, uint32_t buffers, bool in_place, gcoll_plan **multi);

/* Appends the division by `divisor` that makes a sum an average. */
gcoll_status gcoll_pass_average(const gcoll_plan *plan, uint32_t divisor, gcoll_plan **averaged);

/* Makes messages carry elements as plan->problem.codec encodes them. Comes last: after the cut into segments.
 * encode.c has the rules. */
gcoll_status gcoll_pass_encode(const gcoll_plan *plan, gcoll_plan **encoded);

/* Makes the plan of one buffer in host memory into one of the buffers of `problem`, some of which lie in
 * device memory, staged as problem->staging says: takes the place of gcoll_pass_buffers, and wants as that
 * does a plan that is not in place where inputs are summed in scratch. Cut the plan before: copies follow its
 * steps. stage.c has the rules. */
gcoll_status gcoll_pass_stage(const gcoll_plan *plan, const gcoll_problem *problem, gcoll_plan **staged);

/* The most scratch that staging adds, elements: the vector once a buffer of this process, for one that is
 * read and one that is written. */
uint64_t gcoll_staging_bound(const gcoll_problem *problem);

/* Appends the plan of a sub-group to what `b` has: its rank i is ranks[i], its IN and OUT begin at `in` and
 * `out` (a plan in place has all in `out`), its scratch is reserved anew, its rounds follow those of b, its
 * window is ignored. Elements that it shares with earlier steps order the two, so sub-groups overlap where
 * they can. */
void gcoll_plan_append(gcoll_builder *b, const gcoll_plan *plan, const uint32_t *ranks, gcoll_ref in,
                       gcoll_ref out);

#endif
