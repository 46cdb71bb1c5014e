/* gcoll/run/operation.c - the persistent form: a plan bound to buffers once, run many times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/run/engine.h"
#include "gcoll/run/request.h"

/* ---- Runs by other algorithms ----------------------------------------------------------------- */

#define VARIANTS 8
/* A larger run is destroyed when another one takes its place: most of it is scratch. */
#define KEPT_BYTES (UINT64_C(4) << 20)

/* The runs of an operation that may be run by several algorithms, as context->learner says; and its
 * arguments, from which they are made. */
struct gcoll_variants {
    gcoll_saved *saved;
    const char *algorithms[VARIANTS]; /* NULL: auto's own */
    gcoll_run *runs[VARIANTS];        /* NULL: none now */
    uint32_t current;
    bool has_others;        /* there is another run than the current one */
    const gcoll_pace *pace; /* NULL: not known */
};

static gcoll_status make_variants(const gcoll_context *context, const gcoll_arguments *arguments,
                                  gcoll_variants **out) {
    gcoll_variants *variants = calloc(1, sizeof *variants);
    if (!variants)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an operation");
    const gcoll_status status = gcoll_arguments_save(context, arguments, &variants->saved);
    if (status != GCOLL_OK) {
        free(variants);
        return status;
    }
    *out = variants;
    return GCOLL_OK;
}

static gcoll_status obtain_variant(gcoll_operation *operation, const char *algorithm, gcoll_run **out) {
    gcoll_arguments arguments = operation->variants->saved->arguments;
    if (algorithm)
        gcoll_call_name(&arguments.call, algorithm);
    const gcoll_status status = gcoll_run_obtain(operation->request.context, &arguments, true, out);
    if (status == GCOLL_OK && operation->request.tell)
        (*out)->tells = &operation->request;
    return status;
}

/* Where a run by that algorithm is, or may be put. */
static uint32_t place_of(gcoll_variants *variants, const char *algorithm) {
    uint32_t place = (variants->current + 1) % VARIANTS;
    for (uint32_t i = 0; i < VARIANTS; i++) {
        if (variants->runs[i] && variants->algorithms[i] == algorithm)
            return i;
        if (!variants->runs[i])
            place = i;
    }
    gcoll_run_destroy(variants->runs[place]);
    variants->runs[place] = NULL;
    return place;
}

static void name_algorithm(gcoll_operation *operation) {
    snprintf(operation->algorithm, sizeof operation->algorithm, "%s",
             gcoll_run_entry(operation->request.run)->algorithm);
}

/* Makes the run by that algorithm the operation's. */
static gcoll_status take_variant(gcoll_operation *operation, const char *algorithm) {
    gcoll_variants *variants = operation->variants;
    const uint32_t before = variants->current;
    const uint32_t place = place_of(variants, algorithm);
    if (!variants->runs[place]) {
        const gcoll_status status = obtain_variant(operation, algorithm, &variants->runs[place]);
        if (status != GCOLL_OK)
            return status;
        variants->algorithms[place] = algorithm;
    }
    variants->current = place;
    variants->has_others = true;
    operation->request.run = variants->runs[place];
    name_algorithm(operation);
    if (gcoll_run_memory_bytes(variants->runs[before]) > KEPT_BYTES) {
        gcoll_run_destroy(variants->runs[before]);
        variants->runs[before] = NULL;
    }
    return GCOLL_OK;
}

static void drop_others(gcoll_variants *variants) {
    for (uint32_t i = 0; i < VARIANTS; i++)
        if (i != variants->current) {
            gcoll_run_destroy(variants->runs[i]);
            variants->runs[i] = NULL;
        }
    variants->has_others = false;
}

/* Lets the operation take what was learned. */
static gcoll_status take(gcoll_operation *operation, const gcoll_taught *taught) {
    gcoll_variants *variants = operation->variants;
    gcoll_status status = GCOLL_OK;
    if (taught->algorithm != variants->algorithms[variants->current])
        status = take_variant(operation, taught->algorithm);
    if (status == GCOLL_OK && taught->is_settled && variants->has_others)
        drop_others(variants);
    operation->request.run->taught = taught->token;
    return status;
}

gcoll_status gcoll_operation_take(gcoll_request *request, const gcoll_taught *taught) {
    gcoll_operation *operation = (gcoll_operation *)request; /* its first field */
    return operation->variants ? take(operation, taught) : GCOLL_OK;
}

/* Before each run: follows what was learned, if that is decided. */
static gcoll_status vary(gcoll_operation *operation, bool waits, gcoll_taught *taught) {
    gcoll_context *context = operation->request.context;
    const gcoll_arguments *arguments = &operation->variants->saved->arguments;
    gcoll_status status =
        context->learner->enter(context, &arguments->call, &arguments->blocks, operation->request.timeout_ms,
                                waits ? GCOLL_FORM_BLOCKING : GCOLL_FORM_STARTED, taught);
    if (status == GCOLL_OK && taught->undecided_call == 0)
        status = take(operation, taught);
    operation->variants->pace = status == GCOLL_OK ? taught->pace : NULL;
    return gcoll_run_out(context, status); /* the other ranks would wait for this one */
}

/* Whether a run that blocks is like those before it, so that nothing is to be asked. Memory of devices is
 * told of in each lesson. */
static inline bool goes_on(const gcoll_operation *operation) {
    const gcoll_variants *variants = operation->variants;
    const gcoll_pace *pace = variants->pace;
    return pace && pace->calls + 1 < pace->until &&
           pace->algorithm == variants->algorithms[variants->current] && !variants->has_others &&
           variants->saved->arguments.call.places == 0;
}

static void destroy_variants(gcoll_operation *operation) {
    gcoll_variants *variants = operation->variants;
    if (!variants)
        return;
    for (uint32_t i = 0; i < VARIANTS; i++)
        if (i != variants->current)
            gcoll_run_destroy(variants->runs[i]);
    free(variants->saved);
    free(variants);
    operation->variants = NULL;
}

/* ---- Operations -------------------------------------------------------------------------------- */

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
    gcoll_status status = GCOLL_OK;
    if (context->learner && context->learner->teaches(&arguments->call))
        status = make_variants(context, arguments, &operation->variants);
    if (status == GCOLL_OK)
        status = gcoll_run_obtain(context, arguments, true, &operation->request.run);
    if (status != GCOLL_OK) {
        destroy_variants(operation);
        free(operation);
        return status;
    }
    if (operation->variants)
        operation->variants->runs[0] = operation->request.run;
    name_algorithm(operation);
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

/* Takes the algorithm that was learned, or holds the call: then *is_held. There are variants, or calls that
 * are held. */
__attribute__((noinline)) static gcoll_status prepare(gcoll_operation *operation, bool waits, bool *is_held) {
    gcoll_context *context = operation->request.context;
    gcoll_taught taught = {0};
    gcoll_status status = GCOLL_OK;
    if (waits && !context->runs->held && goes_on(operation)) {
        operation->request.run->taught |= GCOLL_TAUGHT_UNTIMED;
        return GCOLL_OK;
    }
    if (waits || operation->request.run->work)
        status = gcoll_held_await(context, operation->request.timeout_ms);
    if (status == GCOLL_OK && operation->variants)
        status = vary(operation, waits, &taught);
    *is_held = status == GCOLL_OK && (taught.undecided_call != 0 || context->runs->held);
    if (!*is_held)
        return status;
    gcoll_request_begin(&operation->request);
    status = gcoll_held_add(&operation->request, operation->request.run, NULL, &taught);
    if (status != GCOLL_OK)
        gcoll_request_end(&operation->request);
    return gcoll_run_out(context, status); /* the other ranks would wait for this one */
}

/* waits: the caller waits for it at once. */
static gcoll_status start(gcoll_operation *operation, bool waits) {
    gcoll_context *context = operation->request.context;
    gcoll_status status = gcoll_context_settle(context);
    bool is_held = false;
    if (status == GCOLL_OK && (operation->variants || context->runs->held))
        status = prepare(operation, waits, &is_held);
    if (status == GCOLL_OK && !is_held) {
        operation->request.run->waits = waits;
        status = gcoll_run_begin(operation->request.run, 0);
        if (status != GCOLL_OK)
            return status;
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
    return operation && operation->request.context ? operation->algorithm : "";
}

static void detach(gcoll_operation *operation) {
    if (operation->request.state == GCOLL_REQUEST_LIVE)
        gcoll_request_end(&operation->request);
    destroy_variants(operation);
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
    const bool is_held = operation->request.held;
    if (operation->request.state == GCOLL_REQUEST_LIVE && (is_held || !gcoll_run_is_finished(run))) {
        gcoll_break(context, GCOLL_ERR_PEER, context->rank, "rank %u destroyed operation #%llu in flight",
                    context->rank,
                    (unsigned long long)(is_held ? context->runs->sequence + 1 : run->sequence));
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
