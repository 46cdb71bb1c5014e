/* gcoll/context/context.c - memory, log and options of a context. */
#include "gcoll/context/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE 64

/* ---- Memory and log ----------------------------------------------------------------------- */

static void *default_allocate(void *arg, size_t bytes, size_t alignment) {
    (void)arg;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void default_release(void *arg, void *memory, size_t bytes) {
    (void)arg;
    (void)bytes;
    free(memory);
}

const gcoll_allocator gcoll_default_allocator = {default_allocate, default_release, NULL};

void *gcoll_allocate(gcoll_context *context, uint64_t bytes) {
    const gcoll_allocator *allocator = &context->settings.allocator;
    uint64_t wanted = bytes > 0 ? bytes : 1;
    void *memory = NULL;
    if (wanted <= SIZE_MAX - CACHE_LINE)
        memory = allocator->allocate(allocator->arg, (size_t)wanted, CACHE_LINE);
    if (!memory)
        gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %llu bytes", (unsigned long long)bytes);
    return memory;
}

void *gcoll_allocate_zeroed(gcoll_context *context, uint64_t bytes) {
    void *memory = gcoll_allocate(context, bytes);
    if (memory)
        memset(memory, 0, (size_t)bytes);
    return memory;
}

void gcoll_release(gcoll_context *context, void *memory, uint64_t bytes) {
    const gcoll_allocator *allocator = &context->settings.allocator;
    if (memory)
        allocator->release(allocator->arg, memory, (size_t)(bytes > 0 ? bytes : 1));
}

void gcoll_log(gcoll_context *context, gcoll_log_level level, const char *format, ...) {
    if (!context->settings.log)
        return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    context->settings.log(context->settings.log_arg, level, text);
}

/* ---- Options ------------------------------------------------------------------------------ */

gcoll_status gcoll_options_read_named(void *to, size_t size, size_t first_size, const void *from,
                                      const char *name) {
    if (!from)
        return GCOLL_OK;
    size_t given;
    memcpy(&given, from, sizeof given);
    if (given < first_size || given > size)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: is %zu; allowed are %zu to %zu (call the init function first)", name, given,
                           first_size, size);
    memcpy(to, from, given);
    return GCOLL_OK;
}

gcoll_status gcoll_options_read(void *to, size_t size, size_t first_size, const void *from) {
    return gcoll_options_read_named(to, size, first_size, from, "options.struct_size");
}

gcoll_status gcoll_timeout_check(const char *name, int64_t timeout_ms) {
    if (timeout_ms < -1 || timeout_ms > GCOLL_TIMEOUT_MAX_MS)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: is %lld; allowed are -1 (none), 0 (the context's) and up to %lld", name,
                           (long long)timeout_ms, (long long)GCOLL_TIMEOUT_MAX_MS);
    return GCOLL_OK;
}

/* ---- Rank and size ------------------------------------------------------------------------ */

static bool is_there(const gcoll_context *context) {
    if (!context)
        gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
    return context;
}

uint32_t gcoll_context_rank(const gcoll_context *context) {
    return is_there(context) ? context->rank : GCOLL_NO_RANK;
}
uint32_t gcoll_context_size(const gcoll_context *context) {
    return is_there(context) ? context->size : 0;
}
uint32_t gcoll_context_parent_rank(const gcoll_context *context, uint32_t rank) {
    if (!is_there(context))
        return GCOLL_NO_RANK;
    if (rank >= context->size) {
        gcoll_error(GCOLL_ERR_INVALID, "rank: is %u; allowed are 0 to %u", rank, context->size - 1);
        return GCOLL_NO_RANK;
    }
    return context->parent_ranks ? context->parent_ranks[rank] : rank;
}
