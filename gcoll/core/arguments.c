/*
 * gcoll/core/arguments.c - the arguments of public calls: checked, and made into what plans and runs are made
 * from.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/core/core_internal.h"

/* ---- Options ------------------------------------------------------------------------------ */

#define OPTIONS_INIT(name)                                                                                   \
    void gcoll_##name##_options_init(gcoll_##name##_options *options) {                                      \
        memset(options, 0, sizeof *options);                                                                 \
        options->struct_size = sizeof *options;                                                              \
    }
OPTIONS_INIT(allreduce)
OPTIONS_INIT(broadcast)
OPTIONS_INIT(barrier)

static gcoll_status set_algorithm(gcoll_call *call, const char *text) {
    if (!text)
        return GCOLL_OK;
    if (strlen(text) >= sizeof call->algorithm)
        return gcoll_error(GCOLL_ERR_INVALID, "options.algorithm: has %zu bytes; allowed are up to %zu",
                           strlen(text), sizeof call->algorithm - 1);
    snprintf(call->algorithm, sizeof call->algorithm, "%s", text);
    return GCOLL_OK;
}

/* ---- Buffers ------------------------------------------------------------------------------ */

struct range {
    uintptr_t begin, end;
};

static int by_begin(const void *a, const void *b) {
    uintptr_t x = ((const struct range *)a)->begin, y = ((const struct range *)b)->begin;
    return (x > y) - (x < y);
}

static gcoll_status check_buffer(const void *buffer, const char *name, uint32_t index, uint64_t bytes,
                                 size_t alignment, struct range *range) {
    if (!buffer && bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s[%u]: is NULL, but count is not 0", name, index);
    if ((uintptr_t)buffer % alignment != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s[%u]: %p is not aligned to its element, %zu bytes", name,
                           index, buffer, alignment);
    if (bytes > UINTPTR_MAX - (uintptr_t)buffer)
        return gcoll_error(GCOLL_ERR_INVALID, "count: %s[%u] would end beyond the address space", name,
                           index);
    range->begin = (uintptr_t)buffer;
    range->end = (uintptr_t)buffer + bytes;
    return GCOLL_OK;
}

/* Outputs (and inputs unless in place) must not overlap one another: steps on them run in any order. */
static gcoll_status check_buffers(const gcoll_arguments *arguments, uint64_t bytes) {
    const gcoll_call *call = &arguments->call;
    struct range few[4], *ranges = few;
    size_t used = 0, alignment = gcoll_type_size((gcoll_type)call->type);
    if (call->buffers > 2 && !(ranges = malloc(2 * call->buffers * sizeof *ranges)))
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.buffers: no memory to check %u", call->buffers);
    gcoll_status status = GCOLL_OK;
    for (uint32_t k = 0; k < call->buffers && status == GCOLL_OK; k++) {
        status = check_buffer(arguments->buffers.out[k], "output", k, bytes, alignment, &ranges[used++]);
        if (status == GCOLL_OK && !call->in_place)
            status = check_buffer(arguments->buffers.in[k], "input", k, bytes, alignment, &ranges[used++]);
    }
    if (status == GCOLL_OK && bytes > 0) {
        qsort(ranges, used, sizeof *ranges, by_begin);
        for (size_t i = 1; i < used && status == GCOLL_OK; i++)
            if (ranges[i].begin < ranges[i - 1].end)
                status = gcoll_error(
                    GCOLL_ERR_INVALID,
                    "buffers: two of them overlap at %p; an input may equal its own output in all "
                    "buffers or in none, and nothing else may overlap",
                    (void *)ranges[i].begin);
    }
    if (ranges != few)
        free(ranges);
    return status;
}

static gcoll_status check_type(uint64_t count, gcoll_type type, uint64_t *bytes) {
    size_t size = gcoll_type_size(type);
    if (size == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "type: is %d; allowed are 0 to %d", (int)type,
                           GCOLL_TYPE_COUNT - 1);
    if (!gcoll_mul_u64(count, size, bytes) || *bytes > PTRDIFF_MAX)
        return gcoll_error(GCOLL_ERR_INVALID, "count: is %llu; %zu-byte elements exceed the address space",
                           (unsigned long long)count, size);
    return GCOLL_OK;
}

static gcoll_status check_context(const gcoll_context *context) {
    return context ? GCOLL_OK : gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
}

/* ---- Calls -------------------------------------------------------------------------------- */

static gcoll_status set_user_op(gcoll_arguments *arguments, const gcoll_allreduce_options *options) {
    gcoll_call *call = &arguments->call;
    if (call->op != GCOLL_USER)
        return gcoll_op_check((gcoll_type)call->type, (gcoll_op)call->op);
    if (!options->user_op || !options->user_op->reduce)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.user_op: is NULL or has no function, but op is GCOLL_USER");
    arguments->user_op = options->user_op;
    call->commutative = options->user_op->commutative ? 1 : 0;
    if (!call->commutative)
        call->needs |= GCOLL_CLAIM_ORDERED;
    return GCOLL_OK;
}

/* Sets buffers, and whether the operation is in place. */
static gcoll_status set_allreduce_buffers(gcoll_arguments *arguments, const void *input, void *output,
                                          const gcoll_allreduce_options *options) {
    gcoll_call *call = &arguments->call;
    if (options->buffers == 0) {
        arguments->in = input && input != output ? input : output;
        arguments->out = output;
        call->buffers = 1;
        call->in_place = arguments->in == output;
        return GCOLL_OK;
    }
    if (options->buffers > GCOLL_MAX_BUFFERS)
        return gcoll_error(GCOLL_ERR_INVALID, "options.buffers: is %u; allowed are 0 to %u", options->buffers,
                           GCOLL_MAX_BUFFERS);
    if (input || output)
        return gcoll_error(GCOLL_ERR_INVALID, "input, output: must be NULL, as options.buffers is %u",
                           options->buffers);
    if (!options->inputs)
        return gcoll_error(GCOLL_ERR_INVALID, "options.inputs: is NULL, but options.buffers is %u",
                           options->buffers);
    call->buffers = options->buffers;
    arguments->buffers.in = options->inputs;
    /* In place means that the inputs are written; the caller who gives no outputs says so. */
    arguments->buffers.out = options->outputs ? options->outputs : (void *const *)(uintptr_t)options->inputs;
    uint32_t equal = 0;
    for (uint32_t k = 0; k < options->buffers; k++)
        equal += arguments->buffers.in[k] == arguments->buffers.out[k];
    call->in_place = equal == options->buffers;
    return GCOLL_OK;
}

gcoll_status gcoll_allreduce_arguments(gcoll_arguments *arguments, const gcoll_context *context,
                                       const void *input, void *output, uint64_t count, gcoll_type type,
                                       gcoll_op op, const gcoll_allreduce_options *given) {
    gcoll_allreduce_options options = {0};
    uint64_t bytes = 0;
    gcoll_call *call = &arguments->call;
    gcoll_status status = check_context(context);
    if (status == GCOLL_OK)
        status = gcoll_options_read(&options, sizeof options, sizeof options, given);
    if (status == GCOLL_OK)
        status = check_type(count, type, &bytes);
    if (status != GCOLL_OK)
        return status;
    call->collective = GCOLL_ALLREDUCE;
    call->type = (uint32_t)type;
    call->op = (uint32_t)op;
    call->commutative = 1;
    call->count = count;
    call->needs = options.rank_identical ? GCOLL_CLAIM_RANK_IDENTICAL : 0;
    status = set_algorithm(call, options.algorithm);
    if (status == GCOLL_OK)
        status = set_user_op(arguments, &options);
    if (status == GCOLL_OK)
        status = set_allreduce_buffers(arguments, input, output, &options);
    if (status == GCOLL_OK && options.buffers == 0) {
        arguments->buffers.in = &arguments->in;
        arguments->buffers.out = &arguments->out;
    }
    return status == GCOLL_OK ? check_buffers(arguments, bytes) : status;
}

gcoll_status gcoll_broadcast_arguments(gcoll_arguments *arguments, const gcoll_context *context, void *data,
                                       uint64_t count, gcoll_type type, uint32_t root,
                                       const gcoll_broadcast_options *given) {
    gcoll_broadcast_options options = {0};
    uint64_t bytes = 0;
    gcoll_call *call = &arguments->call;
    gcoll_status status = check_context(context);
    if (status == GCOLL_OK)
        status = gcoll_options_read(&options, sizeof options, sizeof options, given);
    if (status == GCOLL_OK)
        status = check_type(count, type, &bytes);
    if (status != GCOLL_OK)
        return status;
    if (root >= context->size)
        return gcoll_error(GCOLL_ERR_INVALID, "root: is %u; allowed are 0 to %u", root, context->size - 1);
    if (options.buffer_count > GCOLL_MAX_BUFFERS || (options.buffer_count > 0 && (!options.buffers || data)))
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "options.buffer_count: is %u; allowed are 0 with data, or 1 to %u with options.buffers and "
            "without data",
            options.buffer_count, GCOLL_MAX_BUFFERS);
    call->collective = GCOLL_BROADCAST;
    call->type = (uint32_t)type;
    call->root = root;
    call->commutative = 1;
    call->count = count;
    call->in_place = 1;
    call->buffers = options.buffer_count ? options.buffer_count : 1;
    arguments->out = data;
    arguments->buffers.out = options.buffer_count ? options.buffers : &arguments->out;
    status = set_algorithm(call, options.algorithm);
    return status == GCOLL_OK ? check_buffers(arguments, bytes) : status;
}

gcoll_status gcoll_barrier_arguments(gcoll_arguments *arguments, const gcoll_context *context,
                                     const gcoll_barrier_options *given) {
    gcoll_barrier_options options = {0};
    gcoll_status status = check_context(context);
    if (status == GCOLL_OK)
        status = gcoll_options_read(&options, sizeof options, sizeof options, given);
    if (status != GCOLL_OK)
        return status;
    gcoll_call *call = &arguments->call;
    call->collective = GCOLL_BARRIER;
    call->type = GCOLL_UINT8;
    call->commutative = 1;
    call->in_place = 1;
    call->buffers = 1;
    arguments->buffers.out = &arguments->out;
    return set_algorithm(call, options.algorithm);
}
