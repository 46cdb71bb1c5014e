/* gcoll/run/operation.c - the persistent form: a plan bound to buffers once, run many times. */
#include <stdlib.h>

#include "gcoll/run/engine.h"
#include "gcoll/run/request.h"

/* The operation struct is allocated apart from the context: a caller may by mistake destroy it after the
 * context, and that must be harmless. */
gcoll_status gcoll_operation_create(gcoll_context *context, const gcoll_arguments *arguments,
                                    gcoll_operation **out) {
    gcoll_operation *operation = calloc(1, sizeof *operation);
    if (!operation)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an operation");
    operation->request.context = context;
    operation->request.kept = true;
    operation->request.timeout_ms = arguments->timeout_ms;
    gcoll_status status = gcoll_run_obtain(context, arguments, true, &operation->request.run);
    if (status != GCOLL_OK) {
        free(operation);
        return status;
    }
    operation->request.tell = arguments->done;
    operation->request.tell_arg = arguments->done_arg;
    if (arguments->done)
        operation->request.run->tells = &operation->request;
    operation->link = &context->runs->operations;
    operation->next = context->runs->operations;
    if (operation->next)
        operation->next->link = &operation->next;
    context->runs->operations = operation;
    *out = operation;
    return GCOLL_OK;
}

static gcoll_status refuse_shell(const gcoll_operation *operation) {
    return operation ? gcoll_error(GCOLL_ERR_STATE, "operation: its context was destroyed")
                     : gcoll_error(GCOLL_ERR_INVALID, "operation: is NULL");
}

static gcoll_status refuse_state(const gcoll_operation *operation, bool wants_started) {
    const gcoll_status status = gcoll_request_check_free(&operation->request);
    gcoll_leave(operation->request.context);
    if (status != GCOLL_OK)
        return status;
    return gcoll_error(GCOLL_ERR_STATE, "operation: %s",
                       wants_started ? "was not started"
                                     : "is in flight; wait for it before it is started again");
}

/* Enters the operation's context, and checks that the operation is started, or that it is not. Every run
 * takes this path, so the rare errors are in functions of their own. */
static inline gcoll_status enter(const gcoll_operation *operation, bool wants_started) {
    if (!operation || !operation->request.context)
        return refuse_shell(operation);
    gcoll_status status = gcoll_enter(operation->request.context);
    if (status == GCOLL_OK &&
        ((operation->request.state == GCOLL_REQUEST_LIVE) != wants_started || operation->request.is_waited))
        status = refuse_state(operation, wants_started);
    return status;
}

/* waits: the caller waits for it at once. */
static gcoll_status start(gcoll_operation *operation, bool waits) {
    gcoll_context *context = operation->request.context;
    gcoll_status status = gcoll_context_settle(context);
    operation->request.run->waits = waits;
    if (status == GCOLL_OK)
        status = gcoll_run_begin(operation->request.run, 0);
    if (status == GCOLL_OK) {
        gcoll_request_begin(&operation->request);
        gcoll_request_tell_if_finished(&operation->request);
        if (context->health.broken) /* the caller's reduction has failed: peers learn it now */
            gcoll_context_settle(context);
    }
    return status;
}

gcoll_status gcoll_operation_start(gcoll_operation *operation) {
    gcoll_status status = enter(operation, false);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = operation->request.context;
    status = start(operation, false);
    gcoll_leave(context);
    return status;
}

gcoll_status gcoll_operation_wait(gcoll_operation *operation) {
    gcoll_status status = enter(operation, true);
    if (status != GCOLL_OK)
        return status;
    gcoll_request *request = &operation->request;
    status = gcoll_request_finish(&request);
    gcoll_leave(operation->request.context);
    return status;
}

gcoll_status gcoll_operation_test(gcoll_operation *operation, int *done) {
    gcoll_status status = enter(operation, true);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *context = operation->request.context;
    gcoll_request *request = &operation->request;
    status = done ? gcoll_request_look(&request, done) : gcoll_error(GCOLL_ERR_INVALID, "done: is NULL");
    gcoll_leave(context);
    return status;
}

gcoll_status gcoll_operation_run(gcoll_operation *operation) {
    gcoll_status status = enter(operation, false);
    if (status != GCOLL_OK)
        return status;
    gcoll_request *request = &operation->request;
    status = start(operation, true);
    if (status == GCOLL_OK)
        status = gcoll_request_finish(&request);
    gcoll_leave(operation->request.context);
    return status;
}

gcoll_request *gcoll_operation_request(gcoll_operation *operation) {
    return operation ? &operation->request : NULL;
}

const char *gcoll_operation_algorithm(const gcoll_operation *operation) {
    return operation && operation->request.run ? gcoll_run_entry(operation->request.run)->algorithm : "";
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
    if (context->runs->operations)
        gcoll_log(context, GCOLL_LOG_WARNING, "rank %u destroyed its context before its operations",
                  context->rank);
    gcoll_operation *next;
    for (gcoll_operation *operation = context->runs->operations; operation; operation = next) {
        next = operation->next;
        detach(operation);
        if (operation->is_unwanted)
            free(operation);
    }
}

static void destroy_inside(gcoll_context *context, gcoll_operation *operation) {
    const gcoll_run *run = operation->request.run;
    if (operation->request.state == GCOLL_REQUEST_LIVE && !gcoll_run_is_finished(run)) {
        gcoll_break(context, GCOLL_ERR_PEER, context->rank, "rank %u destroyed operation #%llu in flight",
                    context->rank, (unsigned long long)run->sequence);
        gcoll_context_settle(context);
    }
    if (operation->request.state == GCOLL_REQUEST_LIVE)
        gcoll_request_tell_if_finished(&operation->request);
    detach(operation);
}

/* Destroys an operation. In a forked child its context frees it later. If the context is in use, or another
 * thread waits for the operation, it is not freed. */
void gcoll_operation_destroy(gcoll_operation *operation) {
    if (!operation)
        return;
    gcoll_context *context = operation->request.context;
    if (context && gcoll_enter(context) != GCOLL_OK) {
        operation->is_unwanted |= gcoll_is_forked(context);
        return;
    }
    if (context && gcoll_request_check_free(&operation->request) != GCOLL_OK) {
        gcoll_leave(context);
        return;
    }
    if (context) {
        destroy_inside(context, operation);
        gcoll_leave(context);
    }
    free(operation);
}
