/*
 * gcoll/run/attach.c - registers the memory that a plan's messages use with the transport.
 *
 * One piece of each buffer is registered, from the first to the last byte that a message sends or receives:
 * the blocks of a ring lie side by side. Data that is reduced on arrival goes through the transport's own
 * memory, and needs no registration.
 */
#include <string.h>
#include <unistd.h>

#include "gcoll/run/engine.h"

/* The part of one buffer that messages send or receive. */
struct extent {
    uint64_t begin, end; /* elements; empty if end is 0 */
    uint64_t largest;    /* message */
    bool is_written;
};

struct gcoll_attachment {
    gcoll_context *context;
    uint64_t bytes; /* size of this struct */
    uint32_t count;
    void *handles[];
};

static void note(struct extent *extent, gcoll_ref ref, uint64_t count, bool is_written) {
    if (extent->end == 0 || ref.offset < extent->begin)
        extent->begin = ref.offset;
    if (ref.offset + count > extent->end)
        extent->end = ref.offset + count;
    if (count > extent->largest)
        extent->largest = count;
    extent->is_written = extent->is_written || is_written;
}

static struct extent find_extent(const gcoll_plan *plan, gcoll_space space, uint32_t index) {
    struct extent extent = {0};
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        const bool sends = step->kind == GCOLL_STEP_SEND;
        const gcoll_ref ref = sends ? step->a : step->dst;
        if ((sends || step->kind == GCOLL_STEP_RECV) && step->count > 0 && ref.space == space &&
            ref.index == index)
            note(&extent, ref, step->count, !sends);
    }
    return extent;
}

/* Registers device memory; its accelerator tells how the transport can reach it. */
static gcoll_status attach_device(gcoll_attachment *attachment, const struct extent *extent, void *data,
                                  uint64_t bytes, void **handle) {
    gcoll_context *context = attachment->context;
    gcoll_acceleration *devices = context->acceleration;
    gcoll_shared shared = {.dmabuf = -1};
    gcoll_status status = gcoll_memory_share(devices, data, bytes, &shared);
    if (status != GCOLL_OK)
        return status;
    const gcoll_foreign_memory memory = {data, bytes, shared.dmabuf, shared.offset, shared.pages};
    status = context->transport->attach_device(context->endpoint, &memory, extent->is_written, handle);
    if (shared.dmabuf >= 0)
        close(shared.dmabuf); /* the registration keeps its own reference */
    gcoll_memory_set_direct(devices, status == GCOLL_OK ||
                                         gcoll_memory_direct(context) == GCOLL_IB_DEVICE_MEMORY_REQUIRED);
    return status;
}

static gcoll_status attach_one(gcoll_attachment *attachment, const gcoll_plan *plan, size_t type_bytes,
                               gcoll_space space, uint32_t index, const void *base) {
    gcoll_context *context = attachment->context;
    const struct extent extent = find_extent(plan, space, index);
    void *handle = NULL;
    if (extent.end == 0 || !base)
        return GCOLL_OK;
    char *data = (char *)(uintptr_t)base + extent.begin * type_bytes;
    const uint64_t bytes = (extent.end - extent.begin) * type_bytes;
    gcoll_status status =
        gcoll_problem_memory(&plan->problem, gcoll_ref_make(space, index, 0)) != GCOLL_HOST_MEMORY
            ? attach_device(attachment, &extent, data, bytes, &handle)
            : context->transport->attach(context->endpoint, data, bytes, extent.is_written,
                                         extent.largest * type_bytes, &handle);
    if (status == GCOLL_OK && handle)
        attachment->handles[attachment->count++] = handle;
    return status;
}

gcoll_status gcoll_attach(gcoll_context *context, const gcoll_cache_entry *entry,
                          const gcoll_buffers *buffers, const void *scratch, gcoll_attachment **out) {
    const size_t type_bytes = entry->call.element_bytes;
    const uint32_t count = buffers ? entry->call.buffers : 0;
    const uint64_t bytes =
        sizeof(gcoll_attachment) +
        (2 * (uint64_t)count + 1) * sizeof(void *); /* a handle for each IN, each OUT, and scratch */
    *out = NULL;
    if (!context->endpoint || !context->transport->attach || (!buffers && !scratch))
        return GCOLL_OK;
    gcoll_attachment *attachment = gcoll_allocate(context, bytes);
    if (!attachment)
        return GCOLL_ERR_NO_MEMORY;
    memset(attachment, 0, bytes);
    attachment->context = context;
    attachment->bytes = bytes;
    gcoll_status status = attach_one(attachment, entry->plan, type_bytes, GCOLL_SCRATCH, 0, scratch);
    for (uint32_t k = 0; k < count && status == GCOLL_OK; k++) {
        if (buffers->in)
            status = attach_one(attachment, entry->plan, type_bytes, GCOLL_IN, k, buffers->in[k]);
        if (status == GCOLL_OK && buffers->out)
            status = attach_one(attachment, entry->plan, type_bytes, GCOLL_OUT, k, buffers->out[k]);
    }
    if (status != GCOLL_OK) {
        gcoll_detach(attachment);
        return status;
    }
    *out = attachment;
    return GCOLL_OK;
}

void gcoll_detach(gcoll_attachment *attachment) {
    if (!attachment)
        return;
    gcoll_context *context = attachment->context;
    for (uint32_t i = 0; i < attachment->count && context->endpoint;
         i++) /* without an endpoint, closing has dropped all handles */
        context->transport->detach(context->endpoint, attachment->handles[i]);
    gcoll_release(context, attachment, attachment->bytes);
}

gcoll_status gcoll_run_attach(gcoll_run *run, const gcoll_buffers *buffers) {
    return gcoll_attach(run->context, run->entry, buffers, NULL, &run->attached);
}

void gcoll_run_detach(gcoll_run *run) {
    gcoll_detach(run->attached);
    run->attached = NULL;
}
