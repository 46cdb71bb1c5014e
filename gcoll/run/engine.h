/*
 * gcoll/run/engine.h - a run, as the files see it that run it: engine.c runs plans, device_work.c what
 * devices do of them, attach.c keeps their memory registered, openings.c knows which operations peers are in,
 * runs.c begins and ends.
 */
#ifndef GCOLL_RUN_ENGINE_H
#define GCOLL_RUN_ENGINE_H

#include "gcoll/run/run.h"

typedef struct gcoll_attachment gcoll_attachment;
typedef struct gcoll_device_work gcoll_device_work;

/* What a step is once offsets have become addresses. */
typedef struct bound_step {
    gcoll_run *run;
    const gcoll_step *step;
    char *dst;
    const char *a, *b;
    uint32_t slot; /* of the peer, in run->opened */
    bool posted;   /* its message is in flight */
    gcoll_message *message;
} bound_step;

struct gcoll_run {
    gcoll_context *context;
    gcoll_cache_entry *entry;
    const gcoll_plan *plan;
    size_t type_bytes;
    gcoll_kernel kernel;
    gcoll_user_op user;
    bool in_flight;
    uint64_t sequence;

    bound_step *steps;
    gcoll_message *messages; /* one for each SEND, RECV, RECV_REDUCE */
    uint32_t *waiting;       /* dependencies not yet done; of a step that is done, and between runs, all */
    uint32_t *ready;         /* a queue: each step enters it once */
    uint32_t *round_left;    /* unfinished steps of each round; NULL if the window holds all rounds */
    uint64_t *opened;        /* by slot: the latest sequence of which the fingerprint went to that peer */
    gcoll_fingerprint *told; /* by slot: what goes to that peer; NULL: the entry's goes to all */
    uint32_t slots;
    uint32_t ready_head, ready_tail;
    uint32_t unfinished;
    uint32_t oldest_round;
    bool is_gated;     /* nothing starts before what the caller's streams were given is done */
    uint32_t released; /* steps before this one are within the window */

    char *scratch;
    uint64_t scratch_bytes, memory_bytes;
    gcoll_attachment *attached, *scratch_attached;
    void *memory;
    gcoll_device_work *work; /* NULL: the plan touches host memory only */
    gcoll_run *next;
    gcoll_request *tells; /* its request, if that has options.done; else NULL */

    uint64_t *heard; /* by slot: the latest sequence of which that peer's fingerprint is known to have come */
    bool is_doubtful; /* data of a peer were taken of which this is not known */
};

/* ---- The engine (engine.c) ----------------------------------------------------------------- */

gcoll_status gcoll_run_create(gcoll_context *context, gcoll_cache_entry *entry, gcoll_run **run);
/* Sets where IN and OUT are and the reduction. Not while in flight. */
void gcoll_run_bind(gcoll_run *run, const gcoll_buffers *buffers, const gcoll_user_op *user_op);
#if defined(__SANITIZE_ADDRESS__)
/* Under AddressSanitizer it is known of buffers whether they were freed since they were given. */
gcoll_status gcoll_run_check_buffers(const gcoll_run *run);
#else
static inline gcoll_status gcoll_run_check_buffers(const gcoll_run *run) {
    (void)run;
    return GCOLL_OK;
}
#endif
/* Anew: nothing of it has been done yet. Starts what can start. */
void gcoll_run_start(gcoll_run *run);
/* Whether gcoll_run_advance has anything to look at. */
static inline bool gcoll_run_has_ready(const gcoll_run *run) {
    return run->ready_head != run->ready_tail || run->work;
}
/* Runs what became ready. */
void gcoll_run_advance(gcoll_run *run);
/* State and scratch. */
static inline uint64_t gcoll_run_memory_bytes(const gcoll_run *run) {
    return run->memory_bytes + run->scratch_bytes;
}
static inline bool gcoll_run_is_finished(const gcoll_run *run) {
    return run->unfinished == 0;
}

/* ---- From the cache to the end (runs.c) ------------------------------------------------------ */

/* A run of the arguments' plan, bound: the idle one if there is one, or (is_own) one that nobody else gets,
 * whose buffers stay attached. */
gcoll_status gcoll_run_obtain(gcoll_context *context, const gcoll_arguments *arguments, bool is_own,
                              gcoll_run **run);
/* Gives it back: it is idle, or no more. */
void gcoll_run_return(gcoll_run *run);
/* Takes the next sequence number, starts it, and sends what can be sent. May already be finished on return.
 */
gcoll_status gcoll_run_begin(gcoll_run *run);
/* Takes it off the context's list, finished or not. */
void gcoll_run_drop(gcoll_run *run);
/* What a run came to, with the status of the context after its progress: a run that finished before the
 * context broke is valid, unless what broke it is that other ranks ran something else. Takes it off the list.
 */
gcoll_status gcoll_run_result(gcoll_context *context, gcoll_run *run, gcoll_status status);
/* Calls fn for the peer of each message in flight, in step order, until it returns false. */
void gcoll_run_each_waited(const gcoll_run *run, gcoll_waited_fn fn, void *arg);

/* ---- Memory that stays registered with the transport (attach.c) ---------------------------- */

/* What messages of the entry's plan touch of the buffers, and of scratch: NULL for what is not to be
 * attached. *attachment is NULL if there is nothing to attach, or the transport has no use for it. Where
 * messages go from and to device memory, buffers must be attached; UNSUPPORTED says why one cannot be. */
gcoll_status gcoll_attach(gcoll_context *context, const gcoll_cache_entry *entry,
                          const gcoll_buffers *buffers, const void *scratch, gcoll_attachment **attachment);
/* NULL is fine. Before the memory is freed; also after the endpoint is closed. */
void gcoll_detach(gcoll_attachment *attachment);
/* Keeps the buffers that it was bound to registered as long as it lives, or until it is returned. Once. */
gcoll_status gcoll_run_attach(gcoll_run *run, const gcoll_buffers *buffers);
/* Attached buffers no longer are. */
void gcoll_run_detach(gcoll_run *run);

/* ---- Who is in which operation (openings.c) -------------------------------------------------- */

typedef enum gcoll_opening {
    GCOLL_OPENING_CAME,
    GCOLL_OPENING_MISSING,
    GCOLL_OPENING_FORGOTTEN /* the peer is far ahead: it may have come */
} gcoll_opening;

gcoll_status gcoll_openings_create(gcoll_context *context);
void gcoll_openings_free(gcoll_context *context);
/* Compares what others said of an operation that this rank now begins. */
void gcoll_opening_begin(gcoll_context *context, uint64_t sequence, gcoll_cache_entry *entry);
/* Whether a peer is known to have called something else. */
bool gcoll_opening_mismatched(const gcoll_context *context, uint64_t sequence);
/* Whether the peer's fingerprint of that operation came. */
gcoll_opening gcoll_opening_of(const gcoll_context *context, uint32_t peer, uint64_t sequence);

/* ---- Steps ----------------------------------------------------------------------------------- */

/* The step is done: what waited for it may start. */
void gcoll_run_finish_step(gcoll_run *run, uint32_t index);

/* ---- What devices do (device_work.c) ----------------------------------------------------- */

/* Of a run whose plan touches device memory. */
gcoll_status gcoll_device_work_create(gcoll_run *run);
void gcoll_device_work_destroy(gcoll_run *run);
void gcoll_device_work_bind(gcoll_run *run, const gcoll_buffers *buffers);
/* Notes what the caller's streams have been given. */
gcoll_status gcoll_device_work_start(gcoll_run *run);
/* Begins a step; false if that broke the context. */
bool gcoll_device_work_begin(gcoll_run *run, uint32_t index);
/* Finishes the steps that are done. */
void gcoll_device_work_poll(gcoll_run *run);
/* Whether all is done that the caller's streams were given before the run: no device waits for it in the
 * place of a message. False, too, if the context broke. */
bool gcoll_device_work_is_open(gcoll_run *run);
/* A message has come to a buffer on a device. False if the context broke. */
bool gcoll_device_work_arrived(gcoll_run *run, const gcoll_step *step);
/* `more` (or, negative, less) messages are under way. */
void gcoll_device_work_messages(gcoll_run *run, int32_t more);
/* The run has finished, or is given up: then it waits for what devices are in the middle of. */
void gcoll_device_work_end(gcoll_run *run);
/* In a forked child: as if devices had been given nothing. Of any run. */
void gcoll_device_work_forget(gcoll_run *run);

#endif
