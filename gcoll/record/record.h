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

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "gcoll/base/ticks.h"
#include "gcoll/context/context.h"
#include "gcoll/plan/steps.h"

#define GCOLL_RECORD_OPERATIONS 1024  /* a power of two */
#define GCOLL_RECORD_STEPS      16384 /* a power of two; only if steps are recorded */
#define GCOLL_RECORD_NAMES      256   /* algorithms with their options; later ones are "other" */
#define GCOLL_RECORD_TRIES      100   /* of reading what is being written */
#define GCOLL_RECORD_PEERS      4     /* ranks named of those that are waited for */

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

/* Words of a step of an operation. */
enum {
    GCOLL_RECORD_STEP_ID,        /* 0: it is being written */
    GCOLL_RECORD_STEP_OPERATION, /* number */
    GCOLL_RECORD_STEP_WHAT,      /* kind (8 bits), round (24), peer (32) */
    GCOLL_RECORD_STEP_MESSAGE,   /* its index, by which the two ranks mean the same */
    GCOLL_RECORD_STEP_BYTES,
    GCOLL_RECORD_STEP_BEGUN,
    GCOLL_RECORD_STEP_DONE, /* 0: in flight */
    GCOLL_RECORD_STEP_WORDS
};

/* Counters: the thread inside writes them, any thread reads them. */
typedef _Atomic uint64_t gcoll_count;
static inline void gcoll_count_add(gcoll_count *count, uint64_t more) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
                          memory_order_relaxed);
}
static inline void gcoll_count_set(gcoll_count *count, uint64_t now) {
    atomic_store_explicit(count, now, memory_order_relaxed);
}
static inline uint64_t gcoll_count_get(const gcoll_count *count) {
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* Counters of one collective: what shapes had counted when they were forgotten. */
typedef struct gcoll_record_collective {
    gcoll_count done, failed, bytes, sent_bytes;
    gcoll_count ticks; /* from the begin to the end of those that are done */
} gcoll_record_collective;

/* The most that a reader was told of waits. A reader may see a wait later than the moment at which it is then
 * counted as over; later readers are told no less. */
typedef struct gcoll_record_told {
    uint64_t waits, waited_ticks;
} gcoll_record_told;

/* Counters of one peer: messages of no plan, and what shapes had counted when they were forgotten. */
typedef struct gcoll_record_peer {
    gcoll_count sent_messages, sent_bytes, received_messages, received_bytes;
    gcoll_count waits, waited_ticks;
    gcoll_count retransmitted; /* on all connections so far; these two as the transport said last */
    const char *_Atomic lane;  /* NULL: not connected */
    uint64_t resent;           /* on those that there are; inside */
    gcoll_record_told told;    /* by the record's lock */
} gcoll_record_peer;

/* What a run of a plan exchanges with one peer. */
typedef struct gcoll_record_flow {
    uint32_t peer, sent_messages, received_messages;
    uint64_t sent_bytes, received_bytes;
} gcoll_record_flow;

/* What the calls of one plan have in common, as it stands in the words from COUNT to ROUNDS; and how many of
 * them there were, from which follows what each peer was sent: so a call costs two additions, whatever its
 * algorithm does. */
typedef struct gcoll_record_shape gcoll_record_shape;
struct gcoll_record_shape {
    uint64_t words[GCOLL_RECORD_ROUNDS - GCOLL_RECORD_COUNT + 1];
    gcoll_count done, ticks;
    uint64_t bytes;                  /* of the whole problem */
    gcoll_record_collective *counts; /* of its collective */
    gcoll_record_flow *flows;
    uint32_t flow_count;
    gcoll_record_shape *next, **link; /* in record->shapes; link NULL: it is not there */
};

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
    _Atomic uint64_t (*steps)[GCOLL_RECORD_STEP_WORDS]; /* NULL: they are not recorded */
    _Atomic uint64_t step_count;                        /* begun so far */
    gcoll_count alpha_ps,
        beta_fs; /* of a message by the cost model: an empty one, and a byte more; 0: unknown */
    gcoll_count host_alpha_ps, host_beta_fs; /* within a host */
    _Atomic uint64_t version; /* version counter of `wait` (a seqlock): odd while `wait` is being written */
    _Atomic uint64_t wait[4 + GCOLL_RECORD_PEERS / 2];
    _Atomic uint32_t name_count;
    char names[GCOLL_RECORD_NAMES][64];
    gcoll_tick_mark began;
    int64_t began_unix_ns;
    pthread_mutex_t lock; /* of the list of shapes, and of all `told` */
    gcoll_record_shape *shapes;
    gcoll_record_collective collectives[GCOLL_COLLECTIVE_COUNT];
    gcoll_record_peer *_Atomic
        *peers; /* by rank; NULL: nothing was counted of that one. The thread inside makes them */
    gcoll_record_peer crowd; /* takes what is counted of a peer for which there is no memory */
    gcoll_count waits, waited_ticks, sleeps, asleep_ns, registrations;
    gcoll_record_told told;
    gcoll_endpoint_counts before;    /* what the transport had counted when the context was made; inside */
    gcoll_count rate_ticks, rate_ns; /* so many ticks take so long; 0: nobody has asked */
    uint32_t number;                 /* of the recorders of this process */
    gcoll_count refreshed;           /* ticks when the transport was last asked */
    atomic_bool is_asked;     /* somebody wants what the transport says: the next thread inside asks it */
    atomic_bool is_broken;    /* the context is, */
    gcoll_count broke;        /* since then: ticks */
    _Atomic uint32_t culprit; /* then; GCOLL_NO_RANK: none */
    pthread_mutex_t
        files; /* held while one of the folder is written: the one with the cause is not replaced */
    atomic_bool
        has_cause; /* the file of the broken context is written, and is not to be replaced by another */
    gcoll_context *context; /* service.c: its context, */
    gcoll_record *next;     /* and the next one of the process */
};

/* Makes the recorder, unless GCOLL_RECORD says off. NO_MEMORY. */
gcoll_status gcoll_record_create(gcoll_context *context);
void gcoll_record_free(gcoll_context *context);

/* What a shape is made of. */
typedef struct gcoll_record_call {
    uint32_t collective, type, op, form, root, element_bytes;
    uint64_t count;
    double seconds; /* the model's prediction; negative: none */
    const char *algorithm;
    const gcoll_plan *plan;
} gcoll_record_call;

/* Once a plan; until gcoll_record_forget, which may be called for a shape of zeros, too. NO_MEMORY. */
gcoll_status gcoll_record_describe(gcoll_context *context, const gcoll_record_call *call,
                                   gcoll_record_shape *shape);
void gcoll_record_forget(gcoll_context *context, gcoll_record_shape *shape);

static inline _Atomic uint64_t *gcoll_record_slot(gcoll_record *record, uint64_t number) {
    return record->operations[number & (GCOLL_RECORD_OPERATIONS - 1)];
}

/* The time, for gcoll_record_begin; 0 without a recorder. */
static inline uint64_t gcoll_record_time(const gcoll_context *context) {
    return context->record ? gcoll_ticks() : 0;
}

static inline void gcoll_record_count(gcoll_record_shape *shape, uint64_t ticks) {
    gcoll_count_add(&shape->done, 1);
    gcoll_count_add(&shape->ticks, ticks);
}

/* An operation has begun. entered: 0 stands for `begun`. is_done: it is over already. Called when its first
 * messages are on their way, as writing costs as much as reading the counter. */
static inline void gcoll_record_begin(gcoll_context *context, uint64_t number, uint64_t entered,
                                      uint64_t begun, gcoll_record_shape *shape, bool is_done) {
    gcoll_record *record = context->record;
    if (!record)
        return;
    _Atomic uint64_t *slot = gcoll_record_slot(record, number);
    atomic_store_explicit(&slot[GCOLL_RECORD_NUMBER], 0, memory_order_relaxed);
    atomic_store_explicit(&slot[GCOLL_RECORD_ENTERED], entered ? entered : begun, memory_order_release);
    atomic_store_explicit(&slot[GCOLL_RECORD_BEGUN], begun, memory_order_release);
    const uint64_t done = is_done ? gcoll_ticks() : 0;
    atomic_store_explicit(&slot[GCOLL_RECORD_DONE], done, memory_order_release);
    if (is_done)
        gcoll_record_count(shape, done - begun);
#pragma GCC unroll 6
    for (int i = 0; i <= GCOLL_RECORD_ROUNDS - GCOLL_RECORD_COUNT; i++)
        atomic_store_explicit(&slot[GCOLL_RECORD_COUNT + i], shape->words[i], memory_order_release);
    atomic_store_explicit(&slot[GCOLL_RECORD_NUMBER], number, memory_order_release);
}

/* It has ended well; `begun` as for gcoll_record_begin, before which this does nothing: that is told. */
static inline void gcoll_record_end(gcoll_context *context, uint64_t number, uint64_t begun,
                                    gcoll_record_shape *shape) {
    gcoll_record *record = context->record;
    if (!record)
        return;
    _Atomic uint64_t *slot = gcoll_record_slot(record, number);
    const uint64_t there = atomic_load_explicit(&slot[GCOLL_RECORD_NUMBER], memory_order_relaxed);
    if (there < number)
        return;
    const uint64_t done = gcoll_ticks();
    if (there == number) /* else so many were begun since that its record is gone */
        atomic_store_explicit(&slot[GCOLL_RECORD_DONE], done, memory_order_relaxed);
    gcoll_record_count(shape, done - begun);
}

/* NULL: nothing was counted of that peer. From any thread. */
static inline gcoll_record_peer *gcoll_record_peer_of(const gcoll_record *record, uint32_t rank) {
    return atomic_load_explicit(&record->peers[rank], memory_order_acquire);
}

/* Makes it first, if need be. Inside. */
gcoll_record_peer *gcoll_record_meet(gcoll_context *context, uint32_t rank);

/* A message that belongs to no plan has gone to a peer, or has come from it. */
static inline void gcoll_record_sent(gcoll_context *context, uint32_t peer, uint64_t bytes) {
    if (!context->record)
        return;
    gcoll_record_peer *counts = gcoll_record_meet(context, peer);
    gcoll_count_add(&counts->sent_messages, 1);
    gcoll_count_add(&counts->sent_bytes, bytes);
}

static inline void gcoll_record_received(gcoll_context *context, uint32_t peer, uint64_t bytes) {
    if (!context->record)
        return;
    gcoll_record_peer *counts = gcoll_record_meet(context, peer);
    gcoll_count_add(&counts->received_messages, 1);
    gcoll_count_add(&counts->received_bytes, bytes);
}

/* An operation that has ended well is none after all. */
static inline void gcoll_record_take_back(gcoll_context *context, gcoll_record_shape *shape) {
    if (context->record)
        gcoll_count_add(&shape->done, UINT64_MAX);
}

static inline bool gcoll_record_has_steps(const gcoll_context *context) {
    return context->record && context->record->steps;
}

/* A step begins, if steps are recorded: a message is posted, a local step starts. Returns its id. */
uint64_t gcoll_record_step_begin(gcoll_record *record, uint64_t number, const gcoll_step *step,
                                 uint64_t bytes);
void gcoll_record_step_end(gcoll_record *record, uint64_t id);
/* Copies step `id`, if it is there, whole. From any thread. */
bool gcoll_record_read_step(gcoll_record *record, uint64_t id, uint64_t words[GCOLL_RECORD_STEP_WORDS]);
/* What the cost model says of messages; of those within a host 0, if they cost the same. */
void gcoll_record_model(gcoll_context *context, double alpha_s, double beta_s, double host_alpha_s,
                        double host_beta_s);

/* It ends by an error. round and peer are those of a step that was in flight; GCOLL_NO_RANK: none was. */
void gcoll_record_fail(gcoll_context *context, uint64_t number, const gcoll_record_shape *shape,
                       uint32_t round, uint32_t peer);
void gcoll_record_wait_for(gcoll_context *context, const gcoll_record_wait *wait);
/* It waits for nothing any more. */
void gcoll_record_wait_over(gcoll_context *context);
/* Copies operation `number`, if it is there, whole. From any thread. */
bool gcoll_record_read(gcoll_record *record, uint64_t number, uint64_t words[GCOLL_RECORD_WORDS]);
/* Tells contexts of one job apart: the group in hexadecimal digits; of a context of one rank, which has none,
 * the process and a number. */
#define GCOLL_RECORD_GROUP 48
void gcoll_record_group(const gcoll_context *context, char text[GCOLL_RECORD_GROUP]);
/* The same, of 8 digits, where that is enough. */
void gcoll_record_short_group(const gcoll_context *context, char text[GCOLL_RECORD_GROUP]);
/* The number of the newest operation that is there; 0: none is. From any thread. */
uint64_t gcoll_record_newest(gcoll_record *record);
/* False: nothing was ever waited for, or it changes all the time. */
bool gcoll_record_read_wait(gcoll_record *record, gcoll_record_wait *wait);
/* Changes with every wait, and is odd while one is written and counted. */
uint64_t gcoll_record_read_version(gcoll_record *record);

/* ---- What was counted (counts.c, metrics.c) ------------------------------------------------------ */

/* Asks the transport for what it has counted. Inside. */
void gcoll_record_refresh(gcoll_context *context);
/* The same, if somebody has asked for it. */
static inline void gcoll_record_heed(gcoll_context *context) {
    if (context->record && atomic_load_explicit(&context->record->is_asked, memory_order_relaxed))
        gcoll_record_refresh(context);
}
/* From any thread: has gcoll_record_refresh called by the next thread inside. */
void gcoll_record_ask(gcoll_context *context);

typedef struct gcoll_record_totals {
    struct gcoll_record_collective_total {
        uint64_t done, failed, bytes, sent_bytes, ticks;
    } collectives[GCOLL_COLLECTIVE_COUNT];
    uint64_t waits, waited_ticks; /* with the wait that goes on */
    struct gcoll_record_peer_total {
        uint64_t sent_messages, sent_bytes, received_messages, received_bytes, waits, waited_ticks;
        uint64_t retransmitted;
        const char *lane;
    } peers[]; /* by rank */
} gcoll_record_totals;
/* All that was counted so far, to be freed by free(). From any thread. NULL: out of memory, and the last
 * error says so. */
gcoll_record_totals *gcoll_record_add_up(const gcoll_context *context);
/* The duration of so many ticks. */
uint64_t gcoll_record_duration_ns(const gcoll_record *record, uint64_t ticks);

/* What was done so far was for the context's creation, and is none of the caller's. Nobody else has the
 * context yet. */
void gcoll_record_begin_counts(gcoll_context *context);

/* ---- Files (file.c) ------------------------------------------------------------------------------ */

typedef void (*gcoll_record_write_fn)(FILE *file, const void *arg);
/* Writes a new file beside `path`, and renames it: who reads it finds a whole file, whoever else writes one.
 * mode: who may read it. INVALID, IO. */
gcoll_status gcoll_record_write_file(const char *path, unsigned mode, gcoll_record_write_fn write,
                                     const void *arg);

/* ---- Dumps (dump.c) --------------------------------------------------------------------------- */

/* Writes a file into GCOLL_DUMP_DIR, if that is set; once a context. Inside. */
void gcoll_record_dump_broken(gcoll_context *context);
/* Writes a file named after job, group and rank, unless the one with the cause is there. is_inside: the
 * caller is inside the context, which is broken, and writes that one. */
gcoll_status gcoll_record_dump_to(const gcoll_context *context, const char *folder, bool is_inside);

/* Writes what the context does now, and what it has done in all, for gcoll_top: a JSON object. From any
 * thread. */
void gcoll_record_write_view(FILE *file, gcoll_context *context);

/* ---- For who asks from outside (signal.c, watch.c, service.c) ------------------------------------- */

/* Takes the signal of GCOLL_DUMP_SIGNAL, if there is one. INVALID: the variable names no signal that can be
 * taken. */
gcoll_status gcoll_record_take_signal(void);
/* Offers the socket of GCOLL_WATCH, if it is wanted; where that fails, the log says so. INVALID: the variable
 * makes no sense. */
gcoll_status gcoll_record_take_watch(gcoll_context *context);
/* Makes the context one of those that can be asked. */
void gcoll_record_watch(gcoll_context *context);
void gcoll_record_unwatch(gcoll_context *context);

#endif
