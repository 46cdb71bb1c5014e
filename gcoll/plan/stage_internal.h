/* gcoll/plan/stage_internal.h - what the files of the staging pass share. stage.c has the rules. */
#ifndef GCOLL_PLAN_STAGE_INTERNAL_H
#define GCOLL_PLAN_STAGE_INTERNAL_H

#include "gcoll/plan/builder_internal.h"

/* ---- When each element is used first and written last (stage_ranges.c) ---------------------------- */

typedef struct gcoll_range {
    uint64_t begin, end;
    uint32_t first; /* the step that uses it first, or GCOLL_NO_STEP */
    uint32_t last;  /* the step that writes it last, or GCOLL_NO_STEP */
    bool reads;     /* its first use is a read, so it must be there by then */
    bool is_loaded; /* to begin with, it is not */
} gcoll_range;

/* Ranges side by side, that cover a buffer; no step's access ends inside of one. */
typedef struct gcoll_ranges {
    gcoll_range *at;
    uint32_t count;
} gcoll_ranges;

/* What a step touches of the buffer in question, as the caller sees it: sets ranges[0..2] to [begin, end) and
 * returns how many are read (those stand first) and whether one more is written. */
typedef struct gcoll_touched {
    uint64_t begin[3], end[3];
    uint32_t reads;
    bool writes; /* range number `reads` */
} gcoll_touched;
typedef gcoll_touched (*gcoll_touched_fn)(const void *arg, const gcoll_step *step);

/* Of a buffer of `count` elements. False: out of memory. */
bool gcoll_ranges_create(const gcoll_plan *plan, uint64_t count, gcoll_touched_fn touched, const void *arg,
                         gcoll_ranges *ranges);
void gcoll_ranges_destroy(gcoll_ranges *ranges);
/* The steps of a plan in the order in which what they use is loaded: round by round, and the first segment of
 * every message of a round before the second of any. A message moves when both of its ends have what they
 * need, so what is sent and what is reduced with what is received are needed together. NULL: out of memory.
 */
uint32_t *gcoll_stage_order(const gcoll_plan *plan);
/* The first range that ends behind offset. */
uint32_t gcoll_ranges_find(const gcoll_ranges *ranges, uint64_t offset);

/* ---- One rank's buffers and where their elements are while messages need them (stage_local.c) ------- */

/* A buffer as the plan of one buffer knows it. */
typedef struct gcoll_home {
    bool is_active; /* its elements come from, or go to, somewhere else */
    gcoll_ref base; /* where the plan's steps find element 0 instead */
    uint64_t count;
    gcoll_ranges ranges;
} gcoll_home;

typedef struct gcoll_stage {
    const gcoll_plan *plan;
    const gcoll_problem *problem;
    gcoll_builder *builder;
    gcoll_local local; /* never AUTO */
    bool is_joint;     /* IN and OUT have one home: out's */
    bool sums;         /* the inputs are reduced while they are loaded */
    gcoll_home in, out;
    uint64_t out_shift;   /* offset in OUT[k] of the first element of the current plan's OUT */
    uint32_t *order;      /* of loading: gcoll_stage_order */
    gcoll_ref slots;      /* the vector once for each further source */
    uint16_t *operands;   /* of a fold at hand: `buffers` entries */
    uint32_t *groups;     /* by group: the memory, in order of first appearance */
    uint32_t group_count; /* of inputs */
} gcoll_stage;

/* Whether the call can be done so. */
gcoll_status gcoll_stage_check_local(const gcoll_stage *stage);
/* Slots that loading the inputs needs beside the home. */
uint32_t gcoll_stage_slots(const gcoll_stage *stage);
/* Makes elements [begin, end) of IN be at its home: of several buffers their reduction. */
void gcoll_stage_load(gcoll_stage *stage, const gcoll_home *home, uint64_t begin, uint64_t end);
/* Puts them from OUT's home to where the caller wants them. */
void gcoll_stage_unload(gcoll_stage *stage, uint64_t begin, uint64_t end);
/* The plan of one rank by itself, done where its buffers are; false if they are not all on one device. */
bool gcoll_stage_alone(gcoll_stage *stage);

#endif
