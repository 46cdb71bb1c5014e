/* gcoll/core/operation.c - the persistent form: a plan bound to buffers once, run many times. */
#include <stdlib.h>

#include "gcoll/core/core_internal.h"

/* A run of its own, bound and attached. */
static gcoll_status create_run(gcoll_context *context, const gcoll_call *call,
                               const gcoll_arguments *arguments, gcoll_run **out) {
    gcoll_cache_entry *entry;
    gcoll_run *run = NULL;
    gcoll_status status = gcoll_cache_get(context, call, &arguments->blocks, &entry);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_run_create(context, entry, &run);
    gcoll_cache_put(entry); /* the run holds it */
    if (status != GCOLL_OK)
        return status;
    gcoll_run_bind(run, &arguments->buffers, arguments->user_op);
    status = gcoll_run_attach(run, &arguments->buffers);
    if (status != GCOLL_OK) {
        gcoll_run_destroy(run);
        return status;
    }
    *out = run;
    return GCOLL_OK;
}

/* The shell is not the context's memory: it may be destroyed after the context, which is a mistake of the
 * caller's that shall be harmless. */
gcoll_status gcoll_operation_create(gcoll_context *context, const gcoll_arguments *arguments,
                                    gcoll_operation **out) {
    gcoll_operation *operation = calloc(1, sizeof *operation);
    if (!operation)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an operation");
    operation->request.context = context;
    operation->request.kept = true;
    gcoll_call staged = arguments->call;
    staged.direct = 0;
    gcoll_status status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = create_run(context, &arguments->call, arguments, &operation->request.run);
    if (status != GCOLL_OK && gcoll_memory_gives_way(context, &arguments->call, status))
        status = create_run(context, &staged, arguments, &operation->request.run);
    if (status != GCOLL_OK) {
        free(operation);
        return status;
    }
    operation->link = &context->operations;
    operation->next = context->operations;
    if (operation->next)
        operation->next->link = &operation->next;
    context->operations = operation;
    *out = operation;
    return GCOLL_OK;
}

static gcoll_status check_operation(const gcoll_operation *operation, bool started) {
    if (!operation)
        return gcoll_error(GCOLL_ERR_INVALID, "operation: is NULL");
    if (!operation->request.context)
        return gcoll_error(GCOLL_ERR_STATE, "operation: its context was destroyed");
    if ((operation->request.state == GCOLL_REQUEST_LIVE) != started)
        return gcoll_error(GCOLL_ERR_STATE, "operation: %s",
                           started ? "was not started"
                                   : "is in flight; wait for it before it is started again");
    return GCOLL_OK;
}

static gcoll_status start(gcoll_operation *operation) {
    gcoll_context *context = operation->request.context;
    gcoll_status status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = gcoll_run_start(operation->request.run);
    if (status != GCOLL_OK)
        return status;
    gcoll_request_begin(&operation->request);
    if (context->endpoint && !context->broken)
        context->transport->flush(context->endpoint);
    return GCOLL_OK;
}

gcoll_status gcoll_operation_start(gcoll_operation *operation) {
    gcoll_status status = check_operation(operation, false);
    if (status != GCOLL_OK)
        return status;
    gcoll_enter(operation->request.context);
    status = start(operation);
    gcoll_leave(operation->request.context);
    return status;
}

gcoll_status gcoll_operation_wait(gcoll_operation *operation) {
    gcoll_status status = check_operation(operation, true);
    gcoll_request *request = operation ? &operation->request : NULL;
    return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
}

gcoll_status gcoll_operation_test(gcoll_operation *operation, int *done) {
    gcoll_status status = check_operation(operation, true);
    gcoll_request *request = operation ? &operation->request : NULL;
    return status == GCOLL_OK ? gcoll_request_test(&request, done) : status;
}

gcoll_status gcoll_operation_run(gcoll_operation *operation) {
    gcoll_status status = gcoll_operation_start(operation);
    return status == GCOLL_OK ? gcoll_operation_wait(operation) : status;
}

gcoll_request *gcoll_operation_request(gcoll_operation *operation) {
    return operation ? &operation->request : NULL;
}

const char *gcoll_operation_algorithm(const gcoll_operation *operation) {
    return operation->request.run ? gcoll_run_entry(operation->request.run)->algorithm : "";
}

static void detach(gcoll_operation *operation) {
    if (operation->request.state == GCOLL_REQUEST_LIVE)
        gcoll_request_end(&operation->request);
    gcoll_run_destroy(operation->request.run);
    operation->request.run = NULL;
    operation->request.context = NULL;
    *operation->link = operation->next;
    if (operation->next)
        operation->next->link = operation->link;
}

void gcoll_operations_orphan(gcoll_context *context) {
    if (context->operations)
        gcoll_log(context, GCOLL_LOG_WARNING, "rank %u destroyed its context before its operations",
                  context->rank);
    while (context->operations)
        detach(context->operations);
}

void gcoll_operation_destroy(gcoll_operation *operation) {
    if (!operation)
        return;
    gcoll_context *context = operation->request.context;
    gcoll_enter(context);
    if (context) {
        const gcoll_run *run = operation->request.run;
        if (operation->request.state == GCOLL_REQUEST_LIVE && !gcoll_run_finished(run)) {
            gcoll_break(context, GCOLL_ERR_PEER, context->rank, "rank %u destroyed operation #%llu in flight",
                        context->rank, (unsigned long long)gcoll_run_sequence(run));
            gcoll_context_settle(context);
        }
        detach(operation);
    }
    gcoll_leave(context);
    free(operation);
}
