/*
 * gcoll/record/record.h - the flight recorder: the last operations of a context, and what this rank waits
 * for.
 *
 * Recording costs a few stores and two or three readings of a counter an operation, and allocates nothing
 * after a shape of call was seen first. One thread writes, the one inside the context; any thread reads, at
 * any time, and gets whole records only: each has its number in its first word, which is 0 while the record
 * is written.
 */
#ifndef GCOLL_RECORD_RECORD_H
#define GCOLL_RECORD_RECORD_H

#include <stdatomic.h>

#include "gcoll/base/ticks.h"
#include "gcoll/context/context.h"

#define GCOLL_RECORD_OPERATIONS 1024 /* a power of two */
#define GCOLL_RECORD_NAMES      256  /* algorithms with their options; later ones are "other" */
#define GCOLL_RECORD_PEERS      4    /* ranks named of those that are waited for */

/* Words of an operation. */
enum {
    GCOLL_RECORD_NUMBER, /* 0: it is being written */
    GCOLL_RECORD_ENTERED,
    GCOLL_RECORD_BEGUN,
    GCOLL_RECORD_DONE, /* 0: it is in flight */
    GCOLL_RECORD_COUNT,
    GCOLL_RECORD_SENT,      /* bytes that this rank sends */
    GCOLL_RECORD_WHAT,      /* collective, type, operation, form (8 bits each), algorithm (16), FAILED or 0 */
    GCOLL_RECORD_ROOT,      /* root, bytes of an element (32 each) */
    GCOLL_RECORD_PREDICTED, /* picoseconds; UINT64_MAX: unknown */
    GCOLL_RECORD_ROUNDS, /* rounds of the plan (20 bits); of a step that failed: round (20), peer (24), each
                            plus 1 */
    GCOLL_RECORD_WORDS
};

/* Form. OWN_COUNTS: the ranks' counts may differ. */
enum {
    GCOLL_RECORD_IN_PLACE = 1,
    GCOLL_RECORD_LISTS = 2,
    GCOLL_RECORD_DEVICE = 4,
    GCOLL_RECORD_OWN_COUNTS = 8
};
#define GCOLL_RECORD_FAILED 1 /* how it ended; 0: well, or not yet */

/* What the calls of one plan have in common, as it stands in the words from COUNT to ROUNDS. */
typedef struct gcoll_record_shape {
    uint64_t words[GCOLL_RECORD_ROUNDS - GCOLL_RECORD_COUNT + 1];
} gcoll_record_shape;

/* What the thread inside the context waits for. Written when it has found nothing to do. */
typedef struct gcoll_record_wait {
    uint64_t number; /* of the operation; 0: of none */
    uint32_t round, rounds;
    uint32_t peer[GCOLL_RECORD_PEERS];
    uint32_t peers; /* of those; one more: there are more */
    uint64_t since; /* ticks; set by gcoll_record_wait_for */
} gcoll_record_wait;

struct gcoll_record {
    _Atomic uint64_t operations[GCOLL_RECORD_OPERATIONS][GCOLL_RECORD_WORDS];
    _Atomic uint64_t waits; /* version counter of `wait` (a seqlock): odd while `wait` is being written */
    _Atomic uint64_t wait[4 + GCOLL_RECORD_PEERS / 2];
    _Atomic uint32_t name_count;
    char names[GCOLL_RECORD_NAMES][64];
    gcoll_tick_mark began;
    int64_t began_unix_ns;
    atomic_bool
        has_cause; /* the file of the broken context is written, and is not to be replaced by another */
    gcoll_context *context; /* signal.c: its context, */
    gcoll_record *next;     /* and the next one of the process */
};

/* Makes the recorder, unless GCOLL_RECORD says off. NO_MEMORY. */
gcoll_status gcoll_record_create(gcoll_context *context);
void gcoll_record_free(gcoll_context *context);

/* What a shape is made of. */
typedef struct gcoll_record_plan {
    uint32_t collective, type, op, form, root, element_bytes, rounds;
    uint64_t count, sent;
    double seconds; /* the model's prediction; negative: none */
    const char *algorithm;
} gcoll_record_plan;

/* Once a plan. */
void gcoll_record_describe(gcoll_context *context, const gcoll_record_plan *plan, gcoll_record_shape *shape);

static inline _Atomic uint64_t *gcoll_record_slot(gcoll_record *record, uint64_t number) {
    return record->operations[number & (GCOLL_RECORD_OPERATIONS - 1)];
}

/* The time, for gcoll_record_begin; 0 without a recorder. */
static inline uint64_t gcoll_record_time(const gcoll_context *context) {
    return context->record ? gcoll_ticks() : 0;
}

/* An operation has begun. entered: 0 stands for `begun`. is_done: it is over already. Called when its first
 * messages are on their way, as writing costs as much as reading the counter. */
static inline void gcoll_record_begin(gcoll_context *context, uint64_t number, uint64_t entered,
                                      uint64_t begun, const gcoll_record_shape *shape, bool is_done) {
    gcoll_record *record = context->record;
    if (!record)
        return;
    _Atomic uint64_t *slot = gcoll_record_slot(record, number);
    atomic_store_explicit(&slot[GCOLL_RECORD_NUMBER], 0, memory_order_relaxed);
    atomic_store_explicit(&slot[GCOLL_RECORD_ENTERED], entered ? entered : begun, memory_order_release);
    atomic_store_explicit(&slot[GCOLL_RECORD_BEGUN], begun, memory_order_release);
    atomic_store_explicit(&slot[GCOLL_RECORD_DONE], is_done ? gcoll_ticks() : 0, memory_order_release);
#pragma GCC unroll 6
    for (int i = 0; i <= GCOLL_RECORD_ROUNDS - GCOLL_RECORD_COUNT; i++)
        atomic_store_explicit(&slot[GCOLL_RECORD_COUNT + i], shape->words[i], memory_order_release);
    atomic_store_explicit(&slot[GCOLL_RECORD_NUMBER], number, memory_order_release);
}

/* It has ended well. */
static inline void gcoll_record_end(gcoll_context *context, uint64_t number) {
    gcoll_record *record = context->record;
    if (!record)
        return;
    _Atomic uint64_t *slot = gcoll_record_slot(record, number);
    if (atomic_load_explicit(&slot[GCOLL_RECORD_NUMBER], memory_order_relaxed) == number)
        atomic_store_explicit(&slot[GCOLL_RECORD_DONE], gcoll_ticks(), memory_order_relaxed);
}

/* It ends by an error. round and peer are those of a step that was in flight; GCOLL_NO_RANK: none was. */
void gcoll_record_fail(gcoll_context *context, uint64_t number, uint32_t round, uint32_t peer);
void gcoll_record_wait_for(gcoll_context *context, const gcoll_record_wait *wait);
/* It waits for nothing any more. */
void gcoll_record_wait_over(gcoll_context *context);
/* Copies operation `number`, if it is there, whole. From any thread. */
bool gcoll_record_read(gcoll_record *record, uint64_t number, uint64_t words[GCOLL_RECORD_WORDS]);
/* False: nothing was ever waited for, or it changes all the time. */
bool gcoll_record_read_wait(gcoll_record *record, gcoll_record_wait *wait);

/* ---- Dumps (dump.c) --------------------------------------------------------------------------- */

/* Writes a file into GCOLL_DUMP_DIR, if that is set; once a context. Inside. */
void gcoll_record_dump_broken(gcoll_context *context);
/* Writes a file named after job, group and rank. is_inside: the caller is inside the context. */
gcoll_status gcoll_record_dump_to(const gcoll_context *context, const char *folder, bool is_inside);

/* ---- On a signal (signal.c) -------------------------------------------------------------------- */

/* Takes the signal of GCOLL_DUMP_SIGNAL, if there is one, and makes the thread. INVALID: the variable names
 * no signal that can be taken. */
gcoll_status gcoll_record_take_signal(void);
/* Has the context's file written when the signal comes. */
void gcoll_record_watch(gcoll_context *context);
void gcoll_record_unwatch(gcoll_context *context);

#endif
