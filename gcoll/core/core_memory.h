/* gcoll/core/core_memory.h - device memory (memory.c): whose it is, and where buffers lie. Included by
 * core_internal.h. */
#ifndef GCOLL_CORE_MEMORY_H
#define GCOLL_CORE_MEMORY_H

#include "gcoll/core/core_internal.h"

/* A context's devices. */
typedef struct gcoll_acceleration {
    const gcoll_accelerator_table *table;
    gcoll_accelerator_options options;
    gcoll_accelerator *accelerator;
    uint32_t in_flight; /* steps that devices have begun */
    uint32_t idle;      /* looks in a row that found none of them done */
    bool has_no_direct; /* the network's device was found not to read and write the devices' memory */
    bool was_told;      /* the log says that something was staged, and why */
    bool is_stuck;      /* something never ended: memory that devices may still touch is not freed */
    gcoll_device_times times;
    uint32_t memory[2 * GCOLL_MAX_BUFFERS]; /* of the inputs, then the outputs of the call at hand */
} gcoll_acceleration;

/* As options.accelerator says: NULL, "auto", "none", "cuda". */
gcoll_status gcoll_memory_open(gcoll_context *context, const char *name, bool times);
/* By an accelerator of any kind. A context has one at most. */
gcoll_status gcoll_context_accelerate(gcoll_context *context, const gcoll_accelerator_table *table,
                                      const gcoll_accelerator_options *options);
/* After all runs are gone. */
void gcoll_memory_close(gcoll_context *context);
/* Looks up where the buffers lie, and compares that with what the caller says of it, if he does. */
gcoll_status gcoll_memory_read(gcoll_arguments *arguments, gcoll_context *context, const gcoll_memory *given);
/* How the network may use device memory: GCOLL_IB_DEVICE_MEMORY_... */
static inline uint32_t gcoll_memory_direct(const gcoll_context *context);
/* The plan of a call cannot run for this reason, the last error: whether it is to be staged instead. */
bool gcoll_memory_gives_way(gcoll_context *context, const gcoll_call *call, gcoll_status status);
gcoll_status gcoll_memory_pin(gcoll_context *context, uint64_t bytes, char **memory);
void gcoll_memory_unpin(gcoll_context *context, char *memory, uint64_t bytes);
/* Whether devices are in the middle of something, which nobody wakes this thread for. */
static inline bool gcoll_memory_is_busy(const gcoll_acceleration *acceleration) {
    return acceleration && acceleration->in_flight > 0;
}
/* Gives the processor away for a moment, longer the longer nothing was done. */
void gcoll_memory_rest(gcoll_acceleration *acceleration);

#endif
