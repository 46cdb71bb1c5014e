/* gcoll/accelerate/accelerate.h - the devices with memory of their own that a context uses, and the work that
 * they do for it. call/places.c finds out where buffers lie. */
#ifndef GCOLL_ACCELERATE_ACCELERATE_H
#define GCOLL_ACCELERATE_ACCELERATE_H

#include "cuda/accelerator.h"
#include "gcoll/context/context.h"

/* A context's devices. The fields are this folder's own. */
struct gcoll_acceleration {
    const gcoll_accelerator_table *table;
    gcoll_accelerator *accelerator;
    gcoll_accelerator_options options;
    uint32_t in_flight; /* steps that devices have begun */
    uint32_t idle;      /* looks in a row that found none of them done */
    bool has_no_direct; /* the network's device was found not to read and write the devices' memory */
    bool was_told;      /* the log says that something was staged, and why */
    bool is_stuck;      /* something never ended: memory that devices may still touch is not freed */
    gcoll_device_times times;
    uint32_t ended;                         /* counts what devices have done */
    uint32_t memory[2 * GCOLL_MAX_BUFFERS]; /* of the inputs, then the outputs of the call at hand */
};

/* As options.accelerator says: NULL, "auto", "none", "cuda". */
gcoll_status gcoll_memory_open(gcoll_context *context, const char *name, bool times);
/* By an accelerator of any kind. A context has one at most. */
gcoll_status gcoll_context_accelerate(gcoll_context *context, const gcoll_accelerator_table *table,
                                      const gcoll_accelerator_options *options);
/* The same as the parent has; nothing if it has none. */
gcoll_status gcoll_memory_duplicate(gcoll_context *context, const gcoll_context *parent);
/* In a forked child, where no call of the devices' library may be made any more. */
void gcoll_memory_abandon(gcoll_acceleration *acceleration);
/* After all runs are gone. */
void gcoll_memory_close(gcoll_context *context);
/* How the network may use device memory: GCOLL_IB_DEVICE_MEMORY_... */
static inline uint32_t gcoll_memory_direct(const gcoll_context *context) {
    return context->endpoint && context->transport->device_memory
               ? context->transport->device_memory(context->endpoint)
               : GCOLL_IB_DEVICE_MEMORY_NEVER;
}
/* Whether it may at all; and, where the network's device was found not to, never again. */
bool gcoll_memory_may_be_direct(const gcoll_context *context);
void gcoll_memory_set_direct(gcoll_acceleration *acceleration, bool works);
/* Says in the log, once, that something is staged for the reason in the last error. */
void gcoll_memory_tell_staged(gcoll_context *context);
/* Room for where the buffers of the call at hand lie: the inputs, then the outputs. */
static inline uint32_t *gcoll_memory_room(gcoll_acceleration *acceleration) {
    return acceleration->memory;
}
gcoll_status gcoll_memory_pin(gcoll_context *context, uint64_t bytes, char **memory);
void gcoll_memory_unpin(gcoll_context *context, char *memory, uint64_t bytes);

/* ---- Where buffers lie (cuda/accelerator.h). Memories are numbered as in plans ---- */

gcoll_status gcoll_memory_locate(gcoll_acceleration *acceleration, const void *address, gcoll_place *place);
gcoll_status gcoll_memory_reaches(gcoll_acceleration *acceleration, gcoll_reach reach, uint32_t from_memory,
                                  uint32_t to_memory);
gcoll_status gcoll_memory_share(gcoll_acceleration *acceleration, const void *address, uint64_t bytes,
                                gcoll_shared *shared);

/* ---- Work on devices (cuda/accelerator.h) ---- */

gcoll_status gcoll_memory_make_gate(gcoll_acceleration *acceleration, uint32_t memory, void *stream,
                                    gcoll_gate **gate);
void gcoll_memory_put_gate(gcoll_acceleration *acceleration, gcoll_gate *gate);
gcoll_status gcoll_memory_test_gate(gcoll_acceleration *acceleration, gcoll_gate *gate, bool *done);
/* The gates that a piece of work stands behind. */
typedef struct gcoll_gates {
    gcoll_gate *const *gates;
    uint32_t count;
} gcoll_gates;
/* Each begins a piece of work, which is in flight until gcoll_memory_test says that it is done, or fails. */
gcoll_status gcoll_memory_copy(gcoll_acceleration *acceleration, void *dst, uint32_t dst_memory,
                               const void *src, uint32_t src_memory, uint64_t bytes, gcoll_gates behind,
                               gcoll_ticket **ticket);
gcoll_status gcoll_memory_fold(gcoll_acceleration *acceleration, const gcoll_fold *fold, gcoll_gates behind,
                               gcoll_ticket **ticket);
gcoll_status gcoll_memory_divide(gcoll_acceleration *acceleration, uint32_t memory, void *data,
                                 uint64_t count, gcoll_type type, uint32_t divisor, gcoll_gates behind,
                                 gcoll_ticket **ticket);
gcoll_status gcoll_memory_test(gcoll_acceleration *acceleration, gcoll_ticket *ticket, bool *done,
                               gcoll_ticket_time *time);
/* A network's device has written to this memory of a device. */
gcoll_status gcoll_memory_arrived(gcoll_acceleration *acceleration, uint32_t memory);

/* ---- What is in flight ---- */

/* Whether devices are in the middle of something, which nobody wakes this thread for. */
static inline bool gcoll_memory_is_busy(const gcoll_acceleration *acceleration) {
    return acceleration && acceleration->in_flight > 0;
}
/* Devices have something to do that no call above began; have done it; nobody waits for it any more. */
static inline void gcoll_memory_begun(gcoll_acceleration *acceleration) {
    acceleration->in_flight++;
    acceleration->idle = 0;
}
static inline void gcoll_memory_done(gcoll_acceleration *acceleration) {
    acceleration->in_flight--;
    acceleration->idle = 0;
    acceleration->ended++;
}
static inline void gcoll_memory_given_up(gcoll_acceleration *acceleration) {
    acceleration->in_flight--;
}
/* Ends all that they have been given; what does not end keeps its memory for good. */
void gcoll_memory_drain(gcoll_context *context);
/* To be added to. */
static inline gcoll_device_times *gcoll_memory_times(gcoll_acceleration *acceleration) {
    return &acceleration->times;
}
/* Counts what devices have done. */
static inline uint32_t gcoll_memory_ended(const gcoll_acceleration *acceleration) {
    return acceleration ? acceleration->ended : 0;
}
/* Gives the processor away for a moment, longer the longer nothing was done. */
void gcoll_memory_rest(gcoll_acceleration *acceleration);

#endif
