/*
 * gcoll/core/collectives.c - the blocking calls.
 *
 * A call borrows the idle run of its plan, so a repeated call allocates nothing, unless its run needs so much
 * memory that keeping it for every shape would hurt more than getting it anew.
 */
#include <string.h>

#include "gcoll/core/core_internal.h"

#define KEPT_BYTES                                                                                           \
    (UINT64_C(4) << 20) /* of a run; what moves through it takes far longer than the allocation */

static gcoll_status run_to_end(gcoll_context *context, gcoll_run *run) {
    gcoll_status status = gcoll_run_start(run);
    if (status == GCOLL_OK)
        status = context->endpoint ? gcoll_context_wait_run(context, run) : GCOLL_OK;
    return gcoll_run_result(context, run, status);
}

static gcoll_status run_blocking(gcoll_context *context, const gcoll_arguments *arguments) {
    gcoll_cache_entry *entry;
    gcoll_status status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = gcoll_cache_get(context, &arguments->call, &entry);
    if (status != GCOLL_OK)
        return status;
    gcoll_run *run = entry->idle;
    entry->idle = NULL;
    if (!run)
        status = gcoll_run_create(context, entry, &run);
    if (status == GCOLL_OK) {
        gcoll_run_bind(run, &arguments->buffers, arguments->user_op);
        status = run_to_end(context, run);
        if (gcoll_run_memory_bytes(run) <= KEPT_BYTES)
            entry->idle = run;
        else
            gcoll_run_destroy(run);
    }
    gcoll_cache_put(entry);
    return status;
}

gcoll_status gcoll_allreduce(gcoll_context *context, const void *input, void *output, uint64_t count,
                             gcoll_type type, gcoll_op op, const gcoll_allreduce_options *options) {
    gcoll_arguments arguments = {0};
    gcoll_status status =
        gcoll_allreduce_arguments(&arguments, context, input, output, count, type, op, options);
    return status == GCOLL_OK ? run_blocking(context, &arguments) : status;
}

gcoll_status gcoll_broadcast(gcoll_context *context, void *data, uint64_t count, gcoll_type type,
                             uint32_t root, const gcoll_broadcast_options *options) {
    gcoll_arguments arguments = {0};
    gcoll_status status = gcoll_broadcast_arguments(&arguments, context, data, count, type, root, options);
    return status == GCOLL_OK ? run_blocking(context, &arguments) : status;
}

gcoll_status gcoll_barrier(gcoll_context *context, const gcoll_barrier_options *options) {
    gcoll_arguments arguments = {0};
    gcoll_status status = gcoll_barrier_arguments(&arguments, context, options);
    return status == GCOLL_OK ? run_blocking(context, &arguments) : status;
}

/* ---- Algorithms by name ------------------------------------------------------------------- */

gcoll_status gcoll_algorithm_at(const char *collective, uint32_t index, const char **name,
                                const char **summary) {
    gcoll_collective wanted = GCOLL_ALLREDUCE;
    gcoll_status status = gcoll_collective_parse(collective, &wanted);
    if (status != GCOLL_OK)
        return status;
    const gcoll_algorithm *row = gcoll_registry_at(NULL, wanted, index);
    if (!row)
        return gcoll_error(GCOLL_ERR_NOT_FOUND, "index: %s has no more algorithms", collective);
    if (name)
        *name = row->name;
    if (summary)
        *summary = row->summary;
    return GCOLL_OK;
}

gcoll_status gcoll_algorithm_check(const char *collective, const char *text) {
    gcoll_collective wanted = GCOLL_ALLREDUCE;
    gcoll_choice choice;
    gcoll_status status = gcoll_collective_parse(collective, &wanted);
    return status == GCOLL_OK ? gcoll_choice_parse(NULL, text, wanted, &choice) : status;
}
