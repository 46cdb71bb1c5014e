/*
 * gcoll/plan/plan.h - a schedule as data: what one rank does in one collective operation.
 *
 * A planner (algorithms/) emits a sequential program through the builder; the builder infers which step
 * must wait for which from the elements they touch. The engine, the verifier and the simulator all
 * run the same plan by the same rules:
 *
 *   1. A step may start when every step that it depends on is done, and its round is at most `window`
 *      rounds newer than the oldest round on this rank with an unfinished step.
 *   2. The i-th message from A to B in A's plan is the i-th from A in B's plan (gcoll_step.message).
 *      They may start in any order and carry the same count.
 *   3. A send may complete only when its receive has started (the hardest transport); a receive when
 *      all bytes are there (and reduced).
 *
 * Offsets and counts are in elements, so a plan does not know the element's type. Plans hold no
 * pointers to user data and are immutable once finished, hence shared and cached.
 */
#ifndef GCOLL_PLAN_H
#define GCOLL_PLAN_H

#include "gcoll/base/base.h"

typedef enum gcoll_collective {
    GCOLL_ALLREDUCE = 0,
    GCOLL_BROADCAST = 1,
    GCOLL_BARRIER = 2,
    GCOLL_COLLECTIVE_COUNT = 3
} gcoll_collective;

const char *gcoll_collective_name(gcoll_collective collective);

#define GCOLL_MAX_OPTIONS      8
#define GCOLL_WINDOW_UNBOUNDED UINT32_MAX
#define GCOLL_MAX_RANKS        1048576u
#define GCOLL_MAX_BUFFERS      1024u

/* What is to be done: the shape of an operation, seen by one rank. Same on every rank but for rank,
 * in_place, buffers and (never affecting messages) what follows from them. */
typedef struct gcoll_problem {
    gcoll_collective collective;
    uint32_t rank, size;
    uint32_t root;    /* broadcast; else 0 */
    uint32_t buffers; /* buffers of this process, >= 1: IN[k] and OUT[k], k < buffers */
    bool in_place;    /* OUT[k] is IN[k] for every k */
    bool average;     /* divide the result by size * buffers' contributions */
    uint64_t count;   /* elements of each buffer */
    uint64_t segment; /* 0, or the most elements one message or step carries (the splitting pass) */
    int64_t option[GCOLL_MAX_OPTIONS]; /* as the algorithm's option table orders them */
} gcoll_problem;

typedef enum gcoll_space { GCOLL_IN = 0, GCOLL_OUT = 1, GCOLL_SCRATCH = 2 } gcoll_space;

/* A place in a buffer: element `offset` of IN[index], OUT[index] or SCRATCH (index 0). */
typedef struct gcoll_ref {
    uint16_t space;
    uint16_t index;
    uint64_t offset;
} gcoll_ref;

static inline gcoll_ref gcoll_in(uint32_t k, uint64_t offset) {
    return (gcoll_ref){GCOLL_IN, (uint16_t)k, offset};
}
static inline gcoll_ref gcoll_out(uint32_t k, uint64_t offset) {
    return (gcoll_ref){GCOLL_OUT, (uint16_t)k, offset};
}
static inline gcoll_ref gcoll_scratch(uint64_t offset) {
    return (gcoll_ref){GCOLL_SCRATCH, 0, offset};
}
static inline gcoll_ref gcoll_ref_add(gcoll_ref ref, uint64_t elements) {
    ref.offset += elements;
    return ref;
}

typedef enum gcoll_step_kind {
    GCOLL_STEP_SEND = 0,    /* a -> peer; count 0 is a bare signal */
    GCOLL_STEP_RECV,        /* peer -> dst */
    GCOLL_STEP_RECV_REDUCE, /* dst = a op received (received op a if `received_first`) */
    GCOLL_STEP_REDUCE,      /* dst = a op b */
    GCOLL_STEP_COPY,        /* dst = a */
    GCOLL_STEP_DIVIDE,      /* dst = dst / plan->divisor, for averages */
    GCOLL_STEP_KIND_COUNT
} gcoll_step_kind;

typedef struct gcoll_step {
    uint8_t kind;          /* gcoll_step_kind */
    bool received_first;   /* RECV_REDUCE: the received operand stands on the left */
    uint32_t peer;         /* SEND, RECV, RECV_REDUCE */
    uint32_t message;      /* index among this rank's messages to (SEND) or from (RECV*) peer, from 0 */
    uint32_t round;        /* never falls from step to step */
    uint32_t dependencies; /* how many steps must be done first */
    uint32_t first_successor, successors; /* plan->successors[first .. first + successors) wait for it */
    uint64_t count;
    gcoll_ref dst, a, b;
} gcoll_step;

typedef struct gcoll_plan {
    gcoll_problem problem;
    uint32_t step_count;
    uint32_t successor_count;
    uint32_t rounds; /* the last step's round + 1; 0 if empty */
    uint32_t window; /* GCOLL_WINDOW_UNBOUNDED: pure data flow */
    uint32_t divisor;
    uint64_t scratch; /* elements of SCRATCH */
    gcoll_step *steps;
    uint32_t *successors;
} gcoll_plan;

void gcoll_plan_destroy(gcoll_plan *plan);

/* Bytes that the plan itself occupies. */
uint64_t gcoll_plan_memory_bytes(const gcoll_plan *plan);

/* One line a step, in plain words, to `file` (FILE *, void here to keep stdio out of planners). */
void gcoll_plan_print(const gcoll_plan *plan, void *file);

/* ---- What a planner writes with -------------------------------------------------------------- */

/* Errors stick: after the first, every call does nothing and gcoll_builder_finish reports it.
 * Data steps of count 0 are dropped (both sides know the count); signal and await are messages of 0
 * elements that are kept. A COPY onto itself is dropped. */
typedef struct gcoll_builder gcoll_builder;

void gcoll_plan_send(gcoll_builder *b, uint32_t peer, gcoll_ref a, uint64_t count);
void gcoll_plan_recv(gcoll_builder *b, uint32_t peer, gcoll_ref dst, uint64_t count);
/* dst = a op received. */
void gcoll_plan_recv_reduce(gcoll_builder *b, uint32_t peer, gcoll_ref dst, gcoll_ref a, uint64_t count);
/* dst = received op a: the sender's ranks stand before this rank's. */
void gcoll_plan_recv_reduce_left(gcoll_builder *b, uint32_t peer, gcoll_ref dst, gcoll_ref a, uint64_t count);
void gcoll_plan_reduce(gcoll_builder *b, gcoll_ref dst, gcoll_ref a, gcoll_ref x, uint64_t count);
void gcoll_plan_copy(gcoll_builder *b, gcoll_ref dst, gcoll_ref a, uint64_t count);
void gcoll_plan_divide(gcoll_builder *b, gcoll_ref dst, uint64_t count);
void gcoll_plan_signal(gcoll_builder *b, uint32_t peer);
void gcoll_plan_await(gcoll_builder *b, uint32_t peer);
/* What follows belongs to the next round. */
void gcoll_plan_round(gcoll_builder *b);
/* Every later step waits for every earlier one. */
void gcoll_plan_fence(gcoll_builder *b);
/* Reserves scratch and returns its start. */
gcoll_ref gcoll_plan_scratch(gcoll_builder *b, uint64_t count);
void gcoll_plan_window(gcoll_builder *b, uint32_t window);

gcoll_status gcoll_builder_create(const gcoll_problem *problem, gcoll_builder **builder);
/* Consumes the builder, also on failure. */
gcoll_status gcoll_builder_finish(gcoll_builder *builder, gcoll_plan **plan);
void gcoll_builder_destroy(gcoll_builder *builder);

/* ---- Chunks: chunk c of `parts` is elements [c*n/parts, (c+1)*n/parts) rounded down -------------- */

static inline uint64_t gcoll_chunk_begin(uint64_t n, uint32_t parts, uint32_t c) {
    return (n / parts) * c + (n % parts) * c / parts;
}
static inline uint64_t gcoll_chunk_count(uint64_t n, uint32_t parts, uint32_t c) {
    return gcoll_chunk_begin(n, parts, c + 1) - gcoll_chunk_begin(n, parts, c);
}

/* ---- Passes: plan in, new plan out; the input is unchanged --------------------------------------- */

/* Cuts every step into segments of at most `segment` elements (a multiple for every step, so both sides of
 * a message cut alike) and infers dependencies anew. Rounds are kept. */
gcoll_status gcoll_pass_split(const gcoll_plan *plan, uint64_t segment, gcoll_plan **split);

/* Makes a plan of one buffer into one of `buffers`: reduces IN[0..] into OUT[0] first, copies OUT[0]
 * to the others last. For broadcast: the root's buffer 0 goes to every buffer of every rank. */
gcoll_status gcoll_pass_buffers(const gcoll_plan *plan, uint32_t buffers, gcoll_plan **multi);

/* Appends the division by `divisor` that makes a sum an average. */
gcoll_status gcoll_pass_average(const gcoll_plan *plan, uint32_t divisor, gcoll_plan **averaged);

/* ---- Verifier (needs every rank's plan) ------------------------------------------------------- */

typedef struct gcoll_verify_report {
    uint32_t steps;        /* the longest chain of messages */
    uint64_t sent_max;     /* elements sent by the rank that sends most */
    uint64_t sent_total;   /* elements, all ranks */
    uint64_t reduced_max;  /* elements reduced (RECV_REDUCE, REDUCE) by the rank that reduces most */
    uint64_t scratch_max;  /* elements */
    uint64_t messages_max; /* messages sent by the rank that sends most */
    bool rank_identical;   /* every rank's result is built by the same tree of operations */
    bool ordered;          /* operands stand in rank order, so the operation need not commute */
} gcoll_verify_report;

/* Runs all plans (plans[r] is rank r's; same size, collective and count) symbolically by the rules
 * above, in the hardest model. GCOLL_OK if every output element of every rank holds what the collective
 * promises; else GCOLL_ERR_INVALID with a text that names rank and step: a message without partner or of
 * another size, an access out of bounds, two unordered steps on the same elements, a deadlock, uninitialised
 * or written input, a contribution missing or twice. */
gcoll_status gcoll_verify(const gcoll_plan *const *plans, uint32_t size, gcoll_verify_report *report);

#endif
