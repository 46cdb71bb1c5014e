/* gcoll/accelerate/accelerate.c - the accelerator of a context: opening it, pinned memory, work on its
 * devices, and the times of that work. */
#include "gcoll/accelerate/accelerate.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#define DRAIN_LIMIT_MS 2000 /* limit for work in progress when a run is given up */

gcoll_status gcoll_context_accelerate(gcoll_context *context, const gcoll_accelerator_table *table,
                                      const gcoll_accelerator_options *options) {
    if (context->acceleration)
        return gcoll_error(GCOLL_ERR_STATE, "options.accelerator: the context has %s already",
                           context->acceleration->table->name);
    gcoll_acceleration *acceleration = gcoll_allocate_zeroed(context, sizeof *acceleration);
    if (!acceleration)
        return GCOLL_ERR_NO_MEMORY;
    acceleration->table = table;
    acceleration->options = *options;
    gcoll_status status = table->open(options, &acceleration->accelerator);
    if (status != GCOLL_OK) {
        gcoll_release(context, acceleration, sizeof *acceleration);
        return status;
    }
    context->acceleration = acceleration;
    return GCOLL_OK;
}

gcoll_status gcoll_memory_open(gcoll_context *context, const char *name, bool times) {
    const gcoll_accelerator_options options = {.times = times};
    const bool chooses = !name || strcmp(name, "auto") == 0;
    if (!chooses && strcmp(name, "none") != 0 && strcmp(name, "cuda") != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "options.accelerator: is '%.40s'; allowed are auto, none, cuda",
                           name);
    if (chooses ? !gcoll_cuda_is_in_use() : strcmp(name, "none") == 0)
        return GCOLL_OK;
    gcoll_status status = gcoll_context_accelerate(context, &gcoll_accelerator_cuda, &options);
    if (status == GCOLL_OK)
        return GCOLL_OK;
    if (!chooses)
        return gcoll_error(status, "options.accelerator: %s", gcoll_last_error());
    gcoll_log(context, GCOLL_LOG_WARNING,
              "rank %u takes buffers in host memory only, though a CUDA driver is open: %s", context->rank,
              gcoll_last_error());
    return GCOLL_OK;
}

gcoll_status gcoll_memory_duplicate(gcoll_context *context, const gcoll_context *parent) {
    const gcoll_acceleration *other = parent->acceleration;
    return other ? gcoll_context_accelerate(context, other->table, &other->options) : GCOLL_OK;
}

void gcoll_memory_abandon(gcoll_acceleration *acceleration) {
    acceleration->is_stuck = true;
    acceleration->in_flight = 0;
}

void gcoll_memory_close(gcoll_context *context) {
    gcoll_acceleration *acceleration = context->acceleration;
    if (!acceleration)
        return;
    if (!acceleration->is_stuck) /* a stuck accelerator may still be at work, and is not freed */
        acceleration->table->close(acceleration->accelerator);
    gcoll_release(context, acceleration, sizeof *acceleration);
    context->acceleration = NULL;
}

bool gcoll_memory_may_be_direct(const gcoll_context *context) {
    return gcoll_memory_direct(context) != GCOLL_IB_DEVICE_MEMORY_NEVER &&
           !context->acceleration->has_no_direct;
}

void gcoll_memory_set_direct(gcoll_acceleration *acceleration, bool works) {
    acceleration->has_no_direct = !works;
}

void gcoll_memory_tell_staged(gcoll_context *context) {
    gcoll_acceleration *acceleration = context->acceleration;
    if (!acceleration->was_told)
        gcoll_log(context, GCOLL_LOG_WARNING,
                  "rank %u stages buffers in device memory, as the network cannot reach them: %s",
                  context->rank, gcoll_last_error());
    acceleration->was_told = true;
}

void gcoll_memory_drain(gcoll_context *context) {
    gcoll_acceleration *acceleration = context->acceleration;
    if (!acceleration->is_stuck &&
        acceleration->table->drain(acceleration->accelerator, DRAIN_LIMIT_MS) != GCOLL_OK) {
        acceleration->is_stuck = true;
        gcoll_log(context, GCOLL_LOG_ERROR, "rank %u gives up memory that a device may still use: %s",
                  context->rank, gcoll_last_error());
    }
    acceleration->in_flight = 0;
}

gcoll_status gcoll_memory_pin(gcoll_context *context, uint64_t bytes, char **memory) {
    gcoll_acceleration *acceleration = context->acceleration;
    void *pinned = NULL;
    gcoll_status status = acceleration->table->pin(acceleration->accelerator, bytes, &pinned);
    *memory = pinned;
    return status;
}

void gcoll_memory_unpin(gcoll_context *context, char *memory, uint64_t bytes) {
    gcoll_acceleration *acceleration = context->acceleration;
    if (memory && !acceleration->is_stuck)
        acceleration->table->unpin(acceleration->accelerator, memory, bytes);
}

/* ---- Where buffers lie -------------------------------------------------------------------- */

/* The device of a memory. */
static uint32_t device_of(uint32_t memory) {
    return memory - 1;
}

gcoll_status gcoll_memory_locate(gcoll_acceleration *acceleration, const void *address, gcoll_place *place) {
    return acceleration->table->locate(acceleration->accelerator, address, place);
}

gcoll_status gcoll_memory_reaches(gcoll_acceleration *acceleration, gcoll_reach reach, uint32_t from_memory,
                                  uint32_t to_memory) {
    return acceleration->table->reaches(acceleration->accelerator, reach, device_of(from_memory),
                                        device_of(to_memory));
}

gcoll_status gcoll_memory_share(gcoll_acceleration *acceleration, const void *address, uint64_t bytes,
                                gcoll_shared *shared) {
    return acceleration->table->share(acceleration->accelerator, address, bytes, shared);
}

/* ---- Work on devices ---------------------------------------------------------------------- */

gcoll_status gcoll_memory_make_gate(gcoll_acceleration *acceleration, uint32_t memory, void *stream,
                                    gcoll_gate **gate) {
    return acceleration->table->make_gate(acceleration->accelerator, device_of(memory), stream, gate);
}

void gcoll_memory_put_gate(gcoll_acceleration *acceleration, gcoll_gate *gate) {
    acceleration->table->put_gate(acceleration->accelerator, gate);
}

gcoll_status gcoll_memory_test_gate(gcoll_acceleration *acceleration, gcoll_gate *gate, bool *done) {
    return acceleration->table->test_gate(acceleration->accelerator, gate, done);
}

/* Counts the work as in flight if it was started. */
static gcoll_status count_begun(gcoll_acceleration *acceleration, gcoll_status status) {
    if (status == GCOLL_OK)
        gcoll_memory_begun(acceleration);
    return status;
}

gcoll_status gcoll_memory_copy(gcoll_acceleration *acceleration, void *dst, uint32_t dst_memory,
                               const void *src, uint32_t src_memory, uint64_t bytes, gcoll_gates behind,
                               gcoll_ticket **ticket) {
    return count_begun(acceleration,
                       acceleration->table->copy(acceleration->accelerator, dst, dst_memory, src, src_memory,
                                                 bytes, behind.gates, behind.count, ticket));
}

gcoll_status gcoll_memory_fold(gcoll_acceleration *acceleration, const gcoll_fold *fold, gcoll_gates behind,
                               gcoll_ticket **ticket) {
    return count_begun(acceleration, acceleration->table->fold(acceleration->accelerator, fold, behind.gates,
                                                               behind.count, ticket));
}

gcoll_status gcoll_memory_divide(gcoll_acceleration *acceleration, uint32_t memory, void *data,
                                 uint64_t count, gcoll_type type, uint32_t divisor, gcoll_gates behind,
                                 gcoll_ticket **ticket) {
    return count_begun(acceleration,
                       acceleration->table->divide(acceleration->accelerator, device_of(memory), data, count,
                                                   type, divisor, behind.gates, behind.count, ticket));
}

gcoll_status gcoll_memory_test(gcoll_acceleration *acceleration, gcoll_ticket *ticket, bool *done,
                               gcoll_ticket_time *time) {
    gcoll_status status = acceleration->table->test(acceleration->accelerator, ticket, done, time);
    if (status != GCOLL_OK || *done)
        gcoll_memory_done(acceleration);
    return status;
}

gcoll_status gcoll_memory_arrived(gcoll_acceleration *acceleration, uint32_t memory) {
    return acceleration->table->arrived(acceleration->accelerator, device_of(memory));
}

/* Pauses between two polls of devices, as no event reports that a device is done: shortly at first, then
 * longer. A step takes 10 us and more, and ranks may share processors. */
void gcoll_memory_rest(gcoll_acceleration *acceleration) {
    const uint32_t looks = acceleration->idle < 1000 ? acceleration->idle++ : 1000;
    if (looks < 100)
        sched_yield();
    else
        usleep(looks < 200 ? 20 : 100);
}

/* ---- Times -------------------------------------------------------------------------------- */

gcoll_status gcoll_context_device_times(gcoll_context *context, gcoll_device_times *times) {
    if (!context || !times)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "times" : "context");
    if (times->struct_size != sizeof *times)
        return gcoll_error(GCOLL_ERR_INVALID, "times.struct_size: is %zu; allowed is %zu", times->struct_size,
                           sizeof *times);
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    gcoll_acceleration *acceleration = context->acceleration;
    *times = acceleration ? acceleration->times : (gcoll_device_times){0};
    times->struct_size = sizeof *times;
    if (acceleration)
        acceleration->times = (gcoll_device_times){0};
    gcoll_leave(context);
    return GCOLL_OK;
}
