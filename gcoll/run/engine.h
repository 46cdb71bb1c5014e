/*
 * gcoll/run/engine.h - struct gcoll_run, for the files that execute runs: engine.c executes plans,
 * device_work.c their device steps, scale.c multiplies their input, lists.c steps that span several buffers,
 * attach.c registers memory with the transport, keep.c copies the input, openings.c compares fingerprints,
 * and runs.c begins and ends runs.
 */
#ifndef GCOLL_RUN_ENGINE_H
#define GCOLL_RUN_ENGINE_H

#include "gcoll/context/hooks.h"
#include "gcoll/run/run.h"

typedef struct gcoll_attachment gcoll_attachment;
typedef struct gcoll_device_work gcoll_device_work;
typedef struct gcoll_keep gcoll_keep;
typedef struct gcoll_lists gcoll_lists;
typedef struct gcoll_multiple gcoll_multiple;

/* A step of the plan with addresses instead of offsets. */
typedef struct bound_step {
    gcoll_run *run;
    const gcoll_step *step;
    char *dst;
    const char *a, *b; /* of a message that bounces (engine.c), b is its place in run->bounce; else NULL */
    uint32_t slot;     /* index of the peer in run->opened */
    bool posted;       /* the message is in flight */
    bool is_split;     /* its elements lie in several buffers of a list */
    gcoll_message *message;
} bound_step;

struct gcoll_run {
    gcoll_context *context;
    gcoll_cache_entry *entry;
    const gcoll_plan *plan;
    size_t type_bytes, alignment; /* of an element */
    gcoll_kernel kernel;
    gcoll_user_op user;
    bool in_flight;
    bool waits; /* the caller waits for the run: it may look for such receives a while */
    uint64_t sequence;

    bound_step *steps;
    gcoll_message *messages; /* one for each SEND, RECV, RECV_REDUCE */
    uint32_t
        *waiting;    /* unfinished dependencies by step; all of them once the step is done and between runs */
    uint32_t *ready; /* a queue; each step enters it once */
    uint32_t *late;  /* receives that are looked for once all else has started; NULL: all are posted */
    uint32_t *round_left;    /* unfinished steps of each round; NULL if the window holds all rounds */
    uint64_t *opened;        /* by slot: the latest operation whose fingerprint was sent to the peer */
    gcoll_fingerprint *told; /* by slot: fingerprint for the peer; NULL: all get the entry's */
    uint32_t slots;
    uint32_t ready_head, ready_tail, late_count;
    uint32_t taught; /* token of context->learner (hooks.h); 0: none */
    bool is_counted; /* the call has counted there before it begins, as it was held */
    uint32_t unfinished;
    uint32_t oldest_round;
    bool is_gated;     /* no step starts before earlier work on the caller's streams is done */
    uint32_t released; /* steps before this one are within the window */

    char *scratch;
    uint64_t scratch_bytes, memory_bytes;
    char *bounce; /* for messages that cannot go straight from or to where the plan says; NULL: there are none
                   */
    uint64_t bounce_bytes;
    gcoll_attachment *attached, *scratch_attached;
    void *memory;
    gcoll_device_work *work;  /* NULL: the plan touches host memory only */
    gcoll_lists *lists;       /* NULL: IN and OUT are one buffer each, or several that are reduced */
    gcoll_keep *keep;         /* for a copy of the input (keep.c); NULL: never needed */
    uint64_t keep_bytes;      /* of that copy's memory */
    gcoll_multiple *multiple; /* of the input by a factor (scale.c); NULL: never needed */
    uint64_t multiple_bytes;  /* of its memory */
    bool scales;              /* makes the multiple when it begins */
    bool keeps;               /* copies its input when it begins */
    bool holds;               /* has a copy of its input, for a call that has not ended yet */
    gcoll_run *next;
    gcoll_request *tells; /* its request, if that has options.done; else NULL */

    int64_t timed_ns;   /* when it began, if the token is timed */
    uint64_t begun;     /* for the recorder */
    uint64_t *recorded; /* by step: its id in the recorder; NULL: steps are not recorded */
    uint64_t *heard;    /* by slot: the latest operation whose fingerprint is known to have arrived */
    bool is_doubtful;   /* data was taken from a peer whose fingerprint is not known to have arrived */
    bool is_refused; /* the caller's reduction failed: the context is broken, and the step never finishes */
};

/* ---- The engine (engine.c) ------------------------------------------------------------------- */

gcoll_status gcoll_run_create(gcoll_context *context, gcoll_cache_entry *entry, gcoll_run **run);
/* Binds the run to its buffers and the reduction. Not while it is in flight. Error: NO_MEMORY. */
gcoll_status gcoll_run_bind(gcoll_run *run, const gcoll_buffers *buffers, const gcoll_user_op *user_op);
/* For a step: dst = a op b. If the caller's own reduction fails, the context breaks, the run is refused, and
 * later reductions of the run are skipped. */
void gcoll_run_reduce(const bound_step *bound, char *dst, const char *a, const char *b, uint64_t count);
/* Reduces received bytes of a RECV_REDUCE, aligned or not: dst = a op data, or data op a. */
void gcoll_run_reduce_received(const bound_step *bound, char *dst, const char *a, const void *data,
                               uint64_t bytes);
/* A gcoll_consume_fn: the same at `offset` of the step. */
void gcoll_run_reduce_whole(void *bound, uint64_t offset, const void *data, uint64_t bytes);
#if defined(__SANITIZE_ADDRESS__)
/* Checks that the bound buffers have not been freed, which only AddressSanitizer knows. */
gcoll_status gcoll_run_check_buffers(const gcoll_run *run);
gcoll_status gcoll_run_check_piece(const void *at, uint64_t bytes);
#else
static inline gcoll_status gcoll_run_check_buffers(const gcoll_run *run) {
    (void)run;
    return GCOLL_OK;
}
#endif
/* Starts the run from its first step. */
void gcoll_run_start(gcoll_run *run);
/* Whether gcoll_run_advance has work. */
static inline bool gcoll_run_has_ready(const gcoll_run *run) {
    return run->ready_head != run->ready_tail || run->work;
}
/* Polls device steps, and starts the steps that have become ready. */
void gcoll_run_advance(gcoll_run *run);
/* Bytes of the run's state, scratch, bounce memory, and copy and multiple of the input. */
static inline uint64_t gcoll_run_memory_bytes(const gcoll_run *run) {
    return run->memory_bytes + run->scratch_bytes + run->bounce_bytes + run->keep_bytes + run->multiple_bytes;
}
static inline bool gcoll_run_is_finished(const gcoll_run *run) {
    return run->unfinished == 0;
}

/* For a DIVIDE step: divides by the plan's divisor if the call is an average, and multiplies by its postscale
 * if it has one. */
void gcoll_run_divide(const gcoll_run *run, void *data, uint64_t count);

/* ---- A multiple of the input (scale.c) ------------------------------------------------------- */

/* Finds where the multiple of each input goes, by the call's arguments, which have a factor. *bound: the
 * buffers to bind the run to; it points to memory of the run and to what the arguments point to. Errors:
 * NO_MEMORY, INVALID. */
gcoll_status gcoll_scale_bind(gcoll_run *run, const gcoll_arguments *arguments, gcoll_buffers *bound);
/* Makes the multiple, before the first step. */
void gcoll_scale_input(const gcoll_run *run);
void gcoll_scale_destroy(gcoll_run *run);
#if defined(__SANITIZE_ADDRESS__)
gcoll_status gcoll_scale_check(const gcoll_run *run);
#endif

/* ---- A copy of the input (keep.c) ------------------------------------------------------------ */

/* Finds what the bound run will overwrite of its input, and makes room for a copy. Errors: NO_MEMORY,
 * UNSUPPORTED. */
gcoll_status gcoll_keep_bind(gcoll_run *run, const gcoll_buffers *buffers);
/* Copies it, before the first step. */
void gcoll_keep_take(gcoll_run *run);
/* Writes it back, once: if the run has a copy. No message and no step may touch the buffers any more. */
void gcoll_keep_restore(gcoll_run *run);
void gcoll_keep_destroy(gcoll_run *run);

/* ---- Lists of buffers (lists.c) ------------------------------------------------------------- */

/* Sets run->lists if its call has any. */
gcoll_status gcoll_lists_create(gcoll_run *run);
void gcoll_lists_destroy(gcoll_run *run);
/* Binds all steps. */
void gcoll_lists_bind(gcoll_run *run, const gcoll_buffers *buffers);
/* Does a local step, gathers the data of a send in its message, and (a gcoll_consume_fn) reduces received
 * data, of steps that are split. */
void gcoll_lists_run_local(bound_step *bound);
void gcoll_lists_gather(bound_step *bound);
void gcoll_lists_reduce_received(void *bound, uint64_t offset, const void *data, uint64_t bytes);
#if defined(__SANITIZE_ADDRESS__)
gcoll_status gcoll_lists_check(const gcoll_lists *lists);
#endif

/* ---- The life of a run (runs.c) -------------------------------------------------------------- */

/* Lets what was learned replace the choice of auto, in arguments->call. */
gcoll_status gcoll_run_learn(gcoll_context *context, gcoll_arguments *arguments, gcoll_form form);
/* Gets a run of the plan, bound to the buffers: the plan's idle run or a new one. With is_own, always a
 * new one, and its buffers stay attached. */
gcoll_status gcoll_run_obtain(gcoll_context *context, const gcoll_arguments *arguments, bool is_own,
                              gcoll_run **run);
/* Returns the run: the plan keeps it as its idle run, or it is destroyed. */
void gcoll_run_return(gcoll_run *run);
/* Takes the next sequence number, starts the run, and sends what can be sent. The run may be finished on
 * return. entered: gcoll_record_time when the call was entered; 0: now. */
gcoll_status gcoll_run_begin(gcoll_run *run, uint64_t entered);
/* Takes the run off the context's list, finished or not. */
void gcoll_run_drop(gcoll_run *run);
/* Returns the result of a run and takes it off the list. `status` is that of the context after its
 * progress. A run that finished before the context broke is valid, unless the cause is that ranks called
 * different operations. */
gcoll_status gcoll_run_result(gcoll_context *context, gcoll_run *run, gcoll_status status);
/* Names a run in an error: "allreduce #3, ring, step 2 of 8". step: NULL names no step. */
void gcoll_run_name(const gcoll_run *run, const gcoll_step *step, char *text, size_t size);
/* Calls fn for the peer of each message in flight, in step order, until it returns false. */
void gcoll_run_each_waited(const gcoll_run *run, gcoll_waited_fn fn, void *arg);

/* ---- Memory that stays registered with the transport (attach.c) ------------------------------ */

/* Registers the memory that messages of the plan use, in the buffers and in scratch; NULL leaves one out.
 * *attachment is NULL if there is nothing to register, or the transport has no use for it. Messages from and
 * to device memory need registered buffers; UNSUPPORTED says why one cannot be registered. */
gcoll_status gcoll_attach(gcoll_context *context, const gcoll_cache_entry *entry,
                          const gcoll_buffers *buffers, const void *scratch, gcoll_attachment **attachment);
/* Ends a registration. Call it before the memory is freed; it may follow the closing of the endpoint.
 * NULL is fine. */
void gcoll_detach(gcoll_attachment *attachment);
/* Registers the bound buffers until the run is returned or destroyed. At most once. */
gcoll_status gcoll_run_attach(gcoll_run *run, const gcoll_buffers *buffers);
/* Ends the registration of the buffers. */
void gcoll_run_detach(gcoll_run *run);

/* ---- Fingerprints of operations (openings.c) ------------------------------------------------- */

typedef enum gcoll_opening {
    GCOLL_OPENING_CAME,
    GCOLL_OPENING_MISSING,
    GCOLL_OPENING_FORGOTTEN /* the peer is far ahead: the fingerprint may have arrived */
} gcoll_opening;

gcoll_status gcoll_openings_create(gcoll_context *context);
void gcoll_openings_free(gcoll_context *context);
/* Compares the fingerprints that peers sent for an operation that this rank now begins. */
void gcoll_opening_begin(gcoll_context *context, uint64_t sequence, gcoll_cache_entry *entry);
/* Whether a peer is known to have called another operation. */
bool gcoll_opening_mismatched(const gcoll_context *context, uint64_t sequence);
/* Whether the peer's fingerprint of that operation arrived. */
gcoll_opening gcoll_opening_of(const gcoll_context *context, uint32_t peer, uint64_t sequence);

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Marks a step as done, and queues the steps that waited for it. */
void gcoll_run_finish_step(gcoll_run *run, uint32_t index);

/* ---- Device steps (device_work.c) ------------------------------------------------------------ */

/* Makes the device part of a run whose plan touches device memory. */
gcoll_status gcoll_device_work_create(gcoll_run *run);
void gcoll_device_work_destroy(gcoll_run *run);
void gcoll_device_work_bind(gcoll_run *run, const gcoll_buffers *buffers);
/* Puts gates behind the work that the caller's streams hold now. */
gcoll_status gcoll_device_work_start(gcoll_run *run);
/* Begins a device step. False if that broke the context. */
bool gcoll_device_work_begin(gcoll_run *run, uint32_t index);
/* Finishes the device steps that are done. */
void gcoll_device_work_poll(gcoll_run *run);
/* Whether all gates are passed, where messages must wait for them because the network adapter accesses
 * device memory itself. False also if the context broke. */
bool gcoll_device_work_is_open(gcoll_run *run);
/* Tells the device that a message arrived in its memory. False if the context broke. */
bool gcoll_device_work_arrived(gcoll_run *run, const gcoll_step *step);
/* Adds `more` to the number of messages in flight. */
void gcoll_device_work_messages(gcoll_run *run, int32_t more);
/* Ends the device work of a run that has finished or is given up. In the latter case, waits for work in
 * progress. */
void gcoll_device_work_end(gcoll_run *run);
/* In a forked child: forgets the device work of a run. */
void gcoll_device_work_forget(gcoll_run *run);

#endif
