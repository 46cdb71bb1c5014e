/*
 * gcoll/core/collectives.c - the collective calls, each in three forms: blocking, started, persistent.
 *
 * A call that blocks or starts borrows the idle run of its plan, so a repeated call allocates nothing, unless
 * its run needs so much memory that keeping it for every shape would hurt more than getting it anew.
 */
#include <string.h>

#include "gcoll/core/core_internal.h"

#define KEPT_BYTES                                                                                           \
    (UINT64_C(4) << 20) /* of a run; what moves through it takes far longer than the allocation */

/* ---- Runs that come and go ---------------------------------------------------------------- */

static gcoll_status borrow(gcoll_context *context, const gcoll_call *call, const gcoll_arguments *arguments,
                           gcoll_run **out) {
    gcoll_cache_entry *entry;
    gcoll_status status = gcoll_cache_get(context, call, &arguments->blocks, &entry);
    if (status != GCOLL_OK)
        return status;
    gcoll_run *run = entry->idle;
    entry->idle = NULL;
    if (!run)
        status = gcoll_run_create(context, entry, &run);
    gcoll_cache_put(entry); /* the run holds it */
    if (status != GCOLL_OK)
        return status;
    gcoll_run_bind(run, &arguments->buffers, arguments->user_op);
    if (gcoll_problem_is_direct(&entry->plan->problem))
        status = gcoll_run_attach(run, &arguments->buffers);
    if (status != GCOLL_OK) {
        gcoll_run_return(run);
        return status;
    }
    *out = run;
    return GCOLL_OK;
}

gcoll_status gcoll_run_borrow(gcoll_context *context, const gcoll_arguments *arguments, gcoll_run **out) {
    gcoll_status status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = borrow(context, &arguments->call, arguments, out);
    if (status == GCOLL_OK || !gcoll_memory_gives_way(context, &arguments->call, status))
        return status;
    gcoll_call staged = arguments->call;
    staged.direct = 0;
    return borrow(context, &staged, arguments, out);
}

void gcoll_run_return(gcoll_run *run) {
    gcoll_cache_entry *entry = gcoll_run_cache_entry(run);
    gcoll_run_drop(run);
    gcoll_run_detach(run);
    if (!entry->idle && gcoll_run_memory_bytes(run) <= KEPT_BYTES)
        entry->idle = run;
    else
        gcoll_run_destroy(run);
}

/* ---- The three forms ---------------------------------------------------------------------- */

static gcoll_status run_inside(gcoll_context *context, const gcoll_given *given) {
    gcoll_arguments arguments = {0};
    gcoll_arrival_visit visit = {0};
    gcoll_run *run = NULL;
    gcoll_status status = gcoll_arguments_read(&arguments, context, given);
    if (status == GCOLL_OK && context->arrival)
        status = gcoll_arrival_enter(context, &arguments.call, &visit);
    if (status == GCOLL_OK)
        status = gcoll_run_borrow(context, &arguments, &run);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_run_start(run);
    if (status != GCOLL_OK) { /* it has no steps under way, and must not count as finished */
        gcoll_run_return(run);
        return status;
    }
    if (context->endpoint || !gcoll_run_finished(run))
        status = gcoll_context_wait_run(context, run);
    status = gcoll_run_result(context, run, status);
    if (status == GCOLL_OK && context->arrival)
        gcoll_arrival_leave(context, &visit, run);
    gcoll_run_return(run);
    return status;
}

static void flush(gcoll_context *context) {
    if (context->endpoint && !context->broken)
        context->transport->flush(context->endpoint);
}

static gcoll_status start_inside(gcoll_context *context, const gcoll_given *given, gcoll_request **out) {
    gcoll_arguments arguments = {0};
    gcoll_request *request = NULL;
    gcoll_run *run = NULL;
    gcoll_status status = gcoll_arguments_read(&arguments, context, given);
    if (status == GCOLL_OK && !out)
        status = gcoll_error(GCOLL_ERR_INVALID, "request: is NULL");
    if (status == GCOLL_OK)
        status = gcoll_run_borrow(context, &arguments, &run);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_request_create(context, &request);
    if (status != GCOLL_OK) {
        gcoll_run_return(run);
        return status;
    }
    request->run = run;
    status = gcoll_run_start(run);
    if (status != GCOLL_OK) {
        gcoll_request_end(request);
        return status;
    }
    flush(context);
    *out = request;
    return GCOLL_OK;
}

static gcoll_status create_inside(gcoll_context *context, const gcoll_given *given, gcoll_operation **out) {
    gcoll_arguments arguments = {0};
    gcoll_status status = gcoll_arguments_read(&arguments, context, given);
    if (status == GCOLL_OK && !out)
        status = gcoll_error(GCOLL_ERR_INVALID, "operation: is NULL");
    return status == GCOLL_OK ? gcoll_operation_create(context, &arguments, out) : status;
}

static gcoll_status run_blocking(gcoll_context *context, const gcoll_given *given) {
    gcoll_enter(context);
    gcoll_status status = run_inside(context, given);
    gcoll_leave(context);
    return status;
}

static gcoll_status start(gcoll_context *context, const gcoll_given *given, gcoll_request **request) {
    gcoll_enter(context);
    gcoll_status status = start_inside(context, given, request);
    gcoll_leave(context);
    return status;
}

static gcoll_status create(gcoll_context *context, const gcoll_given *given, gcoll_operation **operation) {
    gcoll_enter(context);
    gcoll_status status = create_inside(context, given, operation);
    gcoll_leave(context);
    return status;
}

#define LIST(...) __VA_ARGS__
/* Defines the three forms; what follows the parameters fills in a gcoll_given. */
#define FORMS(name, parameters, ...)                                                                         \
    gcoll_status gcoll_##name(LIST parameters) {                                                             \
        return run_blocking(context, &(const gcoll_given){__VA_ARGS__});                                     \
    }                                                                                                        \
    gcoll_status gcoll_##name##_start(LIST parameters, gcoll_request **request) {                            \
        return start(context, &(const gcoll_given){__VA_ARGS__}, request);                                   \
    }                                                                                                        \
    gcoll_status gcoll_##name##_create(LIST parameters, gcoll_operation **operation) {                       \
        return create(context, &(const gcoll_given){__VA_ARGS__}, operation);                                \
    }

FORMS(allreduce,
      (gcoll_context * context, const void *input, void *output, uint64_t count, gcoll_type type, gcoll_op op,
       const gcoll_allreduce_options *options),
      .collective = GCOLL_ALLREDUCE, .input = input, .output = output, .count = count, .type = type, .op = op,
      .options = options)

FORMS(reduce,
      (gcoll_context * context, const void *input, void *output, uint64_t count, gcoll_type type, gcoll_op op,
       uint32_t root, const gcoll_collective_options *options),
      .collective = GCOLL_REDUCE, .input = input, .output = output, .count = count, .type = type, .op = op,
      .root = root, .options = options)

FORMS(reduce_scatter,
      (gcoll_context * context, const void *input, void *output, uint64_t count, gcoll_type type, gcoll_op op,
       const gcoll_collective_options *options),
      .collective = GCOLL_REDUCE_SCATTER, .input = input, .output = output, .count = count, .type = type,
      .op = op, .options = options)

FORMS(reduce_scatter_v,
      (gcoll_context * context, const void *input, void *output, const uint64_t *counts, gcoll_type type,
       gcoll_op op, const gcoll_collective_options *options),
      .collective = GCOLL_REDUCE_SCATTER, .input = input, .output = output, .has_counts = true,
      .counts = counts, .type = type, .op = op, .options = options)

FORMS(broadcast,
      (gcoll_context * context, void *data, uint64_t count, gcoll_type type, uint32_t root,
       const gcoll_broadcast_options *options),
      .collective = GCOLL_BROADCAST, .output = data, .count = count, .type = type, .root = root,
      .options = options)

FORMS(allgather,
      (gcoll_context * context, const void *input, void *output, uint64_t count, gcoll_type type,
       const gcoll_collective_options *options),
      .collective = GCOLL_ALLGATHER, .input = input, .output = output, .count = count, .type = type,
      .options = options)

FORMS(allgather_v,
      (gcoll_context * context, const void *input, void *output, const uint64_t *counts, gcoll_type type,
       const gcoll_collective_options *options),
      .collective = GCOLL_ALLGATHER, .input = input, .output = output, .has_counts = true, .counts = counts,
      .type = type, .options = options)

FORMS(gather,
      (gcoll_context * context, const void *input, void *output, uint64_t count, gcoll_type type,
       uint32_t root, const gcoll_collective_options *options),
      .collective = GCOLL_GATHER, .input = input, .output = output, .count = count, .type = type,
      .root = root, .options = options)

FORMS(gather_v,
      (gcoll_context * context, const void *input, void *output, const uint64_t *counts, gcoll_type type,
       uint32_t root, const gcoll_collective_options *options),
      .collective = GCOLL_GATHER, .input = input, .output = output, .has_counts = true, .counts = counts,
      .type = type, .root = root, .options = options)

FORMS(scatter,
      (gcoll_context * context, const void *input, void *output, uint64_t count, gcoll_type type,
       uint32_t root, const gcoll_collective_options *options),
      .collective = GCOLL_SCATTER, .input = input, .output = output, .count = count, .type = type,
      .root = root, .options = options)

FORMS(scatter_v,
      (gcoll_context * context, const void *input, void *output, const uint64_t *counts, gcoll_type type,
       uint32_t root, const gcoll_collective_options *options),
      .collective = GCOLL_SCATTER, .input = input, .output = output, .has_counts = true, .counts = counts,
      .type = type, .root = root, .options = options)

FORMS(alltoall,
      (gcoll_context * context, const void *input, void *output, uint64_t count, gcoll_type type,
       const gcoll_collective_options *options),
      .collective = GCOLL_ALLTOALL, .input = input, .output = output, .count = count, .type = type,
      .options = options)

FORMS(alltoall_v,
      (gcoll_context * context, const void *input, void *output, const uint64_t *send_counts,
       const uint64_t *recv_counts, gcoll_type type, const gcoll_collective_options *options),
      .collective = GCOLL_ALLTOALL, .input = input, .output = output, .has_counts = true,
      .counts = send_counts, .recv_counts = recv_counts, .type = type, .options = options)

FORMS(pairwise_exchange,
      (gcoll_context * context, const void *input, void *output, uint64_t count, gcoll_type type,
       uint32_t exchanges, const gcoll_collective_options *options),
      .collective = GCOLL_PAIRWISE_EXCHANGE, .input = input, .output = output, .count = count, .type = type,
      .exchanges = exchanges, .options = options)

FORMS(barrier, (gcoll_context * context, const gcoll_barrier_options *options), .collective = GCOLL_BARRIER,
      .type = GCOLL_UINT8, .options = options)

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
