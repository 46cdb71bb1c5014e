/* gcoll/core/operation.c - the persistent form: a plan bound to buffers once, run many times. */
#include "gcoll/core/core_internal.h"

struct gcoll_operation {
    gcoll_context *context;
    gcoll_run *run;
    bool started; /* and neither waited for nor tested to its end */
};

static gcoll_status create(gcoll_context *context, const gcoll_arguments *arguments, gcoll_operation **out) {
    if (!out)
        return gcoll_error(GCOLL_ERR_INVALID, "operation: is NULL");
    gcoll_operation *operation = gcoll_allocate(context, sizeof *operation);
    if (!operation)
        return GCOLL_ERR_NO_MEMORY;
    *operation = (gcoll_operation){.context = context};
    gcoll_cache_entry *entry;
    gcoll_status status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = gcoll_cache_get(context, &arguments->call, &entry);
    if (status == GCOLL_OK) {
        status = gcoll_run_create(context, entry, &operation->run);
        gcoll_cache_put(entry); /* the run holds it */
    }
    if (status != GCOLL_OK) {
        gcoll_release(context, operation, sizeof *operation);
        return status;
    }
    gcoll_run_bind(operation->run, &arguments->buffers, arguments->user_op);
    *out = operation;
    return GCOLL_OK;
}

gcoll_status gcoll_allreduce_create(gcoll_context *context, const void *input, void *output, uint64_t count,
                                    gcoll_type type, gcoll_op op, const gcoll_allreduce_options *options,
                                    gcoll_operation **operation) {
    gcoll_arguments arguments = {0};
    gcoll_status status =
        gcoll_allreduce_arguments(&arguments, context, input, output, count, type, op, options);
    return status == GCOLL_OK ? create(context, &arguments, operation) : status;
}

gcoll_status gcoll_broadcast_create(gcoll_context *context, void *data, uint64_t count, gcoll_type type,
                                    uint32_t root, const gcoll_broadcast_options *options,
                                    gcoll_operation **operation) {
    gcoll_arguments arguments = {0};
    gcoll_status status = gcoll_broadcast_arguments(&arguments, context, data, count, type, root, options);
    return status == GCOLL_OK ? create(context, &arguments, operation) : status;
}

gcoll_status gcoll_barrier_create(gcoll_context *context, const gcoll_barrier_options *options,
                                  gcoll_operation **operation) {
    gcoll_arguments arguments = {0};
    gcoll_status status = gcoll_barrier_arguments(&arguments, context, options);
    return status == GCOLL_OK ? create(context, &arguments, operation) : status;
}

static gcoll_status check_operation(const gcoll_operation *operation, bool started) {
    if (!operation)
        return gcoll_error(GCOLL_ERR_INVALID, "operation: is NULL");
    if (operation->started != started)
        return gcoll_error(GCOLL_ERR_STATE, "operation: %s",
                           started ? "was not started"
                                   : "is in flight; wait for it before it is started again");
    return GCOLL_OK;
}

gcoll_status gcoll_operation_start(gcoll_operation *operation) {
    gcoll_status status = check_operation(operation, false);
    if (status == GCOLL_OK)
        status = gcoll_context_settle(operation->context);
    if (status == GCOLL_OK)
        status = gcoll_run_start(operation->run);
    if (status != GCOLL_OK)
        return status;
    operation->started = true;
    if (operation->context->endpoint && !operation->context->broken)
        operation->context->transport->flush(operation->context->endpoint);
    return GCOLL_OK;
}

/* What a started operation came to, with the status of the context after it made progress. */
static gcoll_status end(gcoll_operation *operation, gcoll_status status) {
    operation->started = false;
    return gcoll_run_result(operation->context, operation->run, status);
}

gcoll_status gcoll_operation_wait(gcoll_operation *operation) {
    gcoll_status status = check_operation(operation, true);
    if (status != GCOLL_OK)
        return status;
    if (!gcoll_run_finished(operation->run))
        status = gcoll_context_wait_run(operation->context, operation->run);
    return end(operation, status);
}

gcoll_status gcoll_operation_test(gcoll_operation *operation, int *done) {
    gcoll_status status = check_operation(operation, true);
    if (status == GCOLL_OK && !done)
        status = gcoll_error(GCOLL_ERR_INVALID, "done: is NULL");
    if (status != GCOLL_OK)
        return status;
    if (!gcoll_run_finished(operation->run))
        status = gcoll_context_poll(operation->context);
    if (status == GCOLL_OK && !gcoll_run_finished(operation->run)) {
        *done = 0;
        return GCOLL_OK;
    }
    status = end(operation, status);
    if (status == GCOLL_OK)
        *done = 1;
    return status;
}

gcoll_status gcoll_operation_run(gcoll_operation *operation) {
    gcoll_status status = gcoll_operation_start(operation);
    return status == GCOLL_OK ? gcoll_operation_wait(operation) : status;
}

const char *gcoll_operation_algorithm(const gcoll_operation *operation) {
    return gcoll_run_entry(operation->run)->algorithm;
}

void gcoll_operation_destroy(gcoll_operation *operation) {
    if (!operation)
        return;
    gcoll_context *context = operation->context;
    if (operation->started && !gcoll_run_finished(operation->run)) {
        gcoll_break(context, GCOLL_ERR_PEER, context->rank, "rank %u destroyed operation #%llu in flight",
                    context->rank, (unsigned long long)gcoll_run_sequence(operation->run));
        gcoll_context_settle(context);
    }
    gcoll_run_destroy(operation->run);
    gcoll_release(context, operation, sizeof *operation);
}
