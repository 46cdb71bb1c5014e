/* gcoll/plan/builder_internal.h - what the builder, its maps of touched elements and the passes share. */
#ifndef GCOLL_PLAN_BUILDER_INTERNAL_H
#define GCOLL_PLAN_BUILDER_INTERNAL_H

#include "gcoll/plan/steps.h"

#define GCOLL_NO_STEP UINT32_MAX

/* A plan of more steps is refused: it is some gigabytes of plan, and a segment far too small. */
#define GCOLL_MAX_STEPS (UINT32_C(1) << 24)

/* ---- What steps must keep to (builder_check.c) ----------------------------------------------------- */

/* Step `number` of a rank with so much scratch; operands are those of its folds. GCOLL_ERR_INTERNAL. */
gcoll_status gcoll_step_check(const gcoll_problem *problem, const gcoll_step *step, uint32_t number,
                              uint64_t scratch, const uint16_t *operands);

/* ---- Which steps a step waits for (builder.c) ---------------------------------------------------- */

/* Appends `from` to what the step under construction waits for; duplicates are dropped. */
void gcoll_builder_wait_for(gcoll_builder *builder, uint32_t from);

/* ---- Messages to and from each peer so far (builder_peers.c) --------------------------------------- */

typedef struct gcoll_peer_count gcoll_peer_count;

/* Open addressing; capacity is a power of two. All zero is empty. */
typedef struct gcoll_peer_counts {
    gcoll_peer_count *entries;
    uint32_t count, capacity;
} gcoll_peer_counts;

/* Sets step->message. False: out of memory. */
bool gcoll_peer_counts_number(gcoll_peer_counts *counts, gcoll_step *step);
void gcoll_peer_counts_clear(gcoll_peer_counts *counts);

/* ---- Who touched which elements of one buffer last (spans.c) ------------------------------------- */

typedef struct gcoll_span_block gcoll_span_block;

/* A step that read a span since its last write. Lists share their tails, so that cutting a span in two copies
 * an index and no list. */
typedef struct gcoll_span_reader {
    uint32_t step, next;
} gcoll_span_reader;

/* An ordered map of spans, kept in small sorted blocks so that a look-up is two binary searches and an
 * insertion moves one block at most: plans of 100,000 segments stay near-linear. All zero is an empty map. */
typedef struct gcoll_spans {
    gcoll_span_block **blocks;
    gcoll_span_reader *readers;
    uint32_t block_count, block_capacity;
    uint32_t reader_count, reader_capacity;
    uint32_t hint; /* the block found last: plans walk through buffers in order */
} gcoll_spans;

/* `step` reads or writes elements [begin, end), end > begin: tells the builder which steps it has to wait
 * for. False: out of memory. */
bool gcoll_spans_read(gcoll_spans *spans, gcoll_builder *builder, uint64_t begin, uint64_t end,
                      uint32_t step);
bool gcoll_spans_write(gcoll_spans *spans, gcoll_builder *builder, uint64_t begin, uint64_t end,
                       uint32_t step);
void gcoll_spans_clear(gcoll_spans *spans);

/* ---- For passes (builder.c, pass.c) --------------------------------------------------------------- */

/* Emits elements [from, from + count) of a step of another plan, in the step's round or the present one if
 * that is later. A step of no elements is emitted as what it is: a signal, an await or a fence.
 * In place, its places are named as finished plans name them. */
void gcoll_builder_emit(gcoll_builder *builder, const gcoll_step *step, uint64_t from, uint64_t count);

/* dst = x[0] op x[1] op ..., x[i] being a with the index operands[i]. Places are named as finished plans name
 * them. */
void gcoll_builder_fold(gcoll_builder *builder, gcoll_ref dst, gcoll_ref a, const uint16_t *operands,
                        uint32_t operand_count, uint64_t count);

/* The round after the present one, or the present one if it is the first and has no step. */
uint32_t gcoll_builder_next_round(const gcoll_builder *builder);

/* A builder for `problem` that has the scratch and window of `plan`. */
gcoll_status gcoll_builder_create_like(const gcoll_plan *plan, const gcoll_problem *problem,
                                       gcoll_builder **builder);

#endif
