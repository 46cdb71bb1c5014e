/*
 * gcoll/core/run.h - a run, as the engine's files see it: engine.c runs plans, engine_device.c what devices
 * do of them.
 */
#ifndef GCOLL_CORE_RUN_H
#define GCOLL_CORE_RUN_H

#include "gcoll/core/core_internal.h"

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
};

/* The step is done: what waited for it may start. */
void gcoll_run_finish_step(gcoll_run *run, uint32_t index);

/* ---- What devices do (engine_device.c) ----------------------------------------------------- */

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

#endif
