/* gcoll/accelerate/accelerate.h - the accelerator of a context: devices with memory of their own, and the
 * work that they do. call/places.c looks up where buffers lie. */
#ifndef GCOLL_ACCELERATE_ACCELERATE_H
#define GCOLL_ACCELERATE_ACCELERATE_H

#include "cuda/accelerator.h"
#include "gcoll/context/context.h"

/* The accelerator of a context. Only this folder reads the fields. */
struct gcoll_acceleration {
    const gcoll_accelerator_table *table;
    gcoll_accelerator *accelerator;
    gcoll_accelerator_options options;
    uint32_t in_flight; /* device steps in progress */
    uint32_t idle;      /* polls in a row that found no step done */
    bool has_no_direct; /* the network adapter cannot access device memory */
    bool was_told;      /* the log has been told of staging */
    bool is_stuck;      /* work never ended; memory that devices may still touch is not freed */
    gcoll_device_times times;
    uint32_t ended; /* number of finished device steps */
    uint32_t
        memory[2 * GCOLL_MAX_BUFFERS]; /* memories of the inputs, then the outputs, of the current call */
};

/* Opens the accelerator that options.accelerator names: NULL, "auto", "none", "cuda". */
gcoll_status gcoll_memory_open(gcoll_context *context, const char *name, bool times);
/* Opens an accelerator of any kind. A context has at most one. */
gcoll_status gcoll_context_accelerate(gcoll_context *context, const gcoll_accelerator_table *table,
                                      const gcoll_accelerator_options *options);
/* Opens the parent's kind of accelerator; nothing if it has none. */
gcoll_status gcoll_memory_duplicate(gcoll_context *context, const gcoll_context *parent);
/* In a forked child, where the devices' library must not be called: gives up all device work. */
void gcoll_memory_abandon(gcoll_acceleration *acceleration);
/* Call after all runs have been destroyed. */
void gcoll_memory_close(gcoll_context *context);
/* How the network adapter may access device memory: GCOLL_IB_DEVICE_MEMORY_... */
static inline uint32_t gcoll_memory_direct(const gcoll_context *context) {
    return context->endpoint && context->transport->device_memory
               ? context->transport->device_memory(context->endpoint)
               : GCOLL_IB_DEVICE_MEMORY_NEVER;
}
/* Whether the network adapter may access device memory. gcoll_memory_set_direct records whether an
 * attempt worked. */
bool gcoll_memory_may_be_direct(const gcoll_context *context);
void gcoll_memory_set_direct(gcoll_acceleration *acceleration, bool works);
/* Logs, once, that device memory is staged for the reason in the last error. */
void gcoll_memory_tell_staged(gcoll_context *context);
/* An array for the memories of the current call's buffers: inputs, then outputs. */
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

/* ---- Work on devices (cuda/accelerator.h) ----------------------------------------- */

gcoll_status gcoll_memory_make_gate(gcoll_acceleration *acceleration, uint32_t memory, void *stream,
                                    gcoll_gate **gate);
void gcoll_memory_put_gate(gcoll_acceleration *acceleration, gcoll_gate *gate);
gcoll_status gcoll_memory_test_gate(gcoll_acceleration *acceleration, gcoll_gate *gate, bool *done);
/* The gates that work must wait for. */
typedef struct gcoll_gates {
    gcoll_gate *const *gates;
    uint32_t count;
} gcoll_gates;
/* Each starts work on a device. It is in flight until gcoll_memory_test reports that it is done or
 * failed. */
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
/* Tells a device that a network adapter wrote to its memory. */
gcoll_status gcoll_memory_arrived(gcoll_acceleration *acceleration, uint32_t memory);

/* ---- Work in flight --------------------------------------------------------------- */

/* Whether devices have work in progress. Nothing wakes this thread when it ends. */
static inline bool gcoll_memory_is_busy(const gcoll_acceleration *acceleration) {
    return acceleration && acceleration->in_flight > 0;
}
/* Count work that no call above starts: it began, it is done, it was given up. */
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
/* Waits until all device work ends. Memory of work that does not end is never freed. */
void gcoll_memory_drain(gcoll_context *context);
/* The times, for callers to add to. */
static inline gcoll_device_times *gcoll_memory_times(gcoll_acceleration *acceleration) {
    return &acceleration->times;
}
/* The number of finished device steps. */
static inline uint32_t gcoll_memory_ended(const gcoll_acceleration *acceleration) {
    return acceleration ? acceleration->ended : 0;
}
/* Pauses between polls, longer the longer no step finished. */
void gcoll_memory_rest(gcoll_acceleration *acceleration);

#endif
