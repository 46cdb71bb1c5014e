/* gcoll/call/save.c - copies the arguments of a call, for runs that are made after it has returned. */
#include <stdlib.h>
#include <string.h>

#include "gcoll/call/call.h"

/* Copies what *from points to to *at, and moves *at behind it; only measures it if copies is false. */
static void copy_array(const void **from, size_t bytes, char **at, bool copies) {
    const size_t room = (bytes + 15) & ~(size_t)15;
    if (!*from)
        return;
    if (copies) {
        memcpy(*at, *from, bytes);
        *from = *at;
    }
    *at += room;
}

#define COPY_ARRAY(pointer, count)                                                                           \
    copy_array((const void **)(uintptr_t) & (pointer), (count) * sizeof *(pointer), &at, copies)

static void copy_list(gcoll_list *list, char **to, bool copies) {
    char *at = *to;
    if (list->entries > 0) {
        COPY_ARRAY(list->at, list->entries);
        COPY_ARRAY(list->offsets, list->entries + (size_t)1);
    }
    *to = at;
}

/* Lets all pointers of arguments point to copies behind `base`; returns their bytes. */
static size_t copy_arguments(gcoll_arguments *arguments, uint32_t size, char *base, bool copies) {
    gcoll_buffers *buffers = &arguments->buffers;
    gcoll_blocks *blocks = &arguments->blocks;
    const uint32_t count = arguments->call.buffers;
    char *at = base;
    COPY_ARRAY(buffers->in, count);
    COPY_ARRAY(buffers->out, count);
    COPY_ARRAY(buffers->streams, count);
    copy_list(&buffers->in_list, &at, copies);
    copy_list(&buffers->out_list, &at, copies);
    COPY_ARRAY(blocks->offsets, size + (size_t)1);
    COPY_ARRAY(blocks->recv_offsets, size + (size_t)1);
    COPY_ARRAY(blocks->in_memory, count);
    COPY_ARRAY(blocks->out_memory, count);
    return (size_t)(at - base);
}

gcoll_status gcoll_arguments_save(const gcoll_context *context, const gcoll_arguments *arguments,
                                  gcoll_saved **out) {
    gcoll_arguments measured = *arguments;
    const size_t head = (sizeof(gcoll_saved) + 15) & ~(size_t)15;
    char *memory = calloc(1, head + copy_arguments(&measured, context->size, NULL, false));
    if (!memory)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the arguments of a call");
    gcoll_saved *saved = (gcoll_saved *)(void *)memory;
    saved->arguments = *arguments;
    copy_arguments(&saved->arguments, context->size, memory + head, true);
    if (arguments->user_op) {
        saved->user = *arguments->user_op;
        saved->arguments.user_op = &saved->user;
    }
    *out = saved;
    return GCOLL_OK;
}
