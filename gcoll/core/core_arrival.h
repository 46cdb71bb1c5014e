/* gcoll/core/core_arrival.h - what the core asks of the monitor (arrival.c). Included by core_internal.h. */
#ifndef GCOLL_CORE_ARRIVAL_H
#define GCOLL_CORE_ARRIVAL_H

#include "gcoll/core/core_internal.h"

/* A blocking call as the monitor sees it. */
typedef struct gcoll_arrival_visit {
    gcoll_site *site; /* NULL: it is not watched */
    int64_t entered_ns, since_ns;
    bool is_meeting;
} gcoll_arrival_visit;

gcoll_status gcoll_arrival_create(gcoll_context *context);
/* The endpoint must be closed. Nothing if there is none. */
void gcoll_arrival_destroy(gcoll_context *context);
/* Writes what was seen to standard error, if the environment asks for it. */
void gcoll_arrival_print(gcoll_context *context);
/* Around each blocking call, if there is a monitor; leave only after one that ended well. enter may wait for
 * an announcement, and says in the call how it is to be planned. */
gcoll_status gcoll_arrival_enter(gcoll_context *context, gcoll_call *call, gcoll_arrival_visit *visit);
void gcoll_arrival_leave(gcoll_context *context, const gcoll_arrival_visit *visit, const gcoll_run *run);
/* Where the context makes progress, if context->arrival_calls. */
void gcoll_arrival_tend(gcoll_context *context);
/* Whether this rank waits for an announcement of rank 0. */
bool gcoll_arrival_waits(const gcoll_context *context);
/* For the progress thread. */
bool gcoll_arrival_has_work(const gcoll_context *context);
/* The choice and the arrivals of a call whose `arrival` is not 0. */
void gcoll_arrival_take(const gcoll_context *context, gcoll_problem *problem, gcoll_problem *common,
                        gcoll_choice *choice);
/* What tells it apart in fingerprints; 0 of an ordinary call. */
uint64_t gcoll_arrival_mark(const gcoll_context *context, const gcoll_call *call);

static inline uint32_t gcoll_memory_direct(const gcoll_context *context) {
    return context->endpoint && context->transport->device_memory
               ? context->transport->device_memory(context->endpoint)
               : GCOLL_IB_DEVICE_MEMORY_NEVER;
}

#endif
