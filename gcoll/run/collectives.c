/* gcoll/run/collectives.c - the collective calls, each in three forms: blocking, started, persistent. */
#include <stdio.h>
#include <string.h>

#include "gcoll/context/hooks.h"
#include "gcoll/run/engine.h"
#include "gcoll/run/request.h"

#define TEXT_BYTES 1024 /* of an error */

/* ---- The three forms ---------------------------------------------------------------------- */

/* Breaks the context when a call could not begin for lack of memory: the other ranks would wait for this
 * one. */
static gcoll_status give_up(gcoll_context *context, gcoll_status status) {
    if (context->size == 1 || context->health.broken)
        return status;
    gcoll_run_out(context, status);
    return gcoll_context_settle(context);
}

static bool run_finished(const void *arg) {
    return gcoll_run_is_finished(arg);
}

static void run_each_waited(const void *arg, gcoll_waited_fn fn, void *fn_arg) {
    gcoll_run_each_waited(arg, fn, fn_arg);
}

/* The part of this rank in a call. *out: its run, if one was obtained, which the caller returns. */
static gcoll_status run_part(gcoll_context *context, gcoll_arguments *arguments, gcoll_visit *visit,
                             gcoll_run **out) {
    const uint64_t entered = context->hooks ? gcoll_record_time(context) : 0; /* they may wait */
    gcoll_status status = GCOLL_OK;
    if (context->hooks)
        status = context->hooks->enter(context, &arguments->call, visit);
    if (status == GCOLL_OK)
        status = gcoll_held_await(context, arguments->timeout_ms);
    if (status == GCOLL_OK)
        status = gcoll_run_learn(context, arguments, GCOLL_FORM_BLOCKING);
    if (status == GCOLL_OK)
        status = gcoll_run_obtain(context, arguments, false, out);
    if (status != GCOLL_OK)
        return status;
    gcoll_run *run = *out;
    run->waits = true;
    status = gcoll_run_begin(run, entered);
    if (status != GCOLL_OK) /* no step is in flight, but it must not count as finished */
        return status;
    if (gcoll_run_is_finished(run)) {
        gcoll_progress_in_time(context);
    } else {
        /* The monitor relies on what it has found until the call leaves. */
        const gcoll_wait wait = {run_finished, run_each_waited, run, arguments->timeout_ms,
                                 .shares = !context->hooks};
        status = gcoll_progress_wait(context, &wait);
    }
    return gcoll_run_result(context, run, status);
}

/* Gives a call with options.uniform the result that all ranks agree on. If this rank's part failed, that is
 * its own error. run: NULL if none was obtained. */
static gcoll_status agree_on_result(gcoll_context *context, gcoll_run *run, gcoll_status own) {
    char text[TEXT_BYTES] = "";
    if (own == GCOLL_ERR_NO_MEMORY)
        own = give_up(context, own);
    if (own != GCOLL_OK && !run && !context->health.broken)
        return own; /* the arguments were refused: this rank is not in the call */
    if (own != GCOLL_OK) {
        snprintf(text, sizeof text, "%s", gcoll_last_error());
        gcoll_break(context, own, context->rank, "rank %u: %s", context->rank, text);
        gcoll_context_settle(context); /* ranks that wait for this one come to the agreement, too */
        gcoll_error(own, "%s", text);
    }
    const gcoll_status common = context->jury->agree(context, own);
    if (own != GCOLL_OK)
        return gcoll_error(own, "%s", text);
    if (common != GCOLL_OK)
        gcoll_keep_restore(run);
    return common;
}

/* Refuses options of forms that block, and others. */
static gcoll_status check_form(const gcoll_context *context, const gcoll_arguments *arguments, bool blocks) {
    if (blocks && arguments->done)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.done: is set for a call that blocks, whose result says "
                           "how it ended; allowed for NAME_start and NAME_create");
    if (!blocks && arguments->call.uniform)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "options.uniform: is set for NAME_start or NAME_create; "
                                                  "allowed for calls that block");
    if (arguments->call.uniform && !context->jury)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "options.uniform: is set, but the context was created without options.recovery; it must "
            "be 1 on every rank when the context is created");
    return GCOLL_OK;
}

gcoll_status gcoll_collective_run(gcoll_context *context, const gcoll_given *given) {
    gcoll_arguments arguments = {0};
    gcoll_visit visit = {0};
    gcoll_run *run = NULL;
    gcoll_status status = gcoll_arguments_read(&arguments, context, given);
    visit.timeout_ms = arguments.timeout_ms;
    if (status == GCOLL_OK)
        status = check_form(context, &arguments, true);
    if (status != GCOLL_OK)
        return status;
    status = run_part(context, &arguments, &visit, &run);
    if (arguments.call.uniform)
        status = agree_on_result(context, run, status);
    if (status == GCOLL_OK && context->hooks)
        context->hooks->leave(context, &visit, run);
    if (run)
        gcoll_run_return(run);
    return status;
}

/* A request that nobody has is driven by the progress thread alone. */
static gcoll_status check_detached(const gcoll_context *context, const gcoll_arguments *arguments) {
    if (!arguments->done)
        return gcoll_error(GCOLL_ERR_INVALID, "request: is NULL; allowed with options.done");
    if (!context->guard.driver && (context->endpoint || context->acceleration))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "request: is NULL; with options.done that is allowed on a context "
                           "with a progress thread, which this one does not have");
    return GCOLL_OK;
}

/* Begins the started call of a request, or holds it. run: NULL if its algorithm is not decided yet.
 */
static gcoll_status begin_started(gcoll_request *request, const gcoll_arguments *arguments, gcoll_run *run) {
    request->timeout_ms = arguments->timeout_ms;
    if (!run || request->context->runs->held) {
        const gcoll_taught taught = {.token = arguments->taught, .undecided_call = arguments->undecided_call};
        const gcoll_status status = gcoll_held_add(request, run, arguments, &taught);
        if (status != GCOLL_OK && run)
            gcoll_run_return(run);
        return status;
    }
    request->run = run;
    run->waits = false;
    return gcoll_run_begin(run, 0);
}

static gcoll_status start_inside(gcoll_context *context, const gcoll_given *given, gcoll_request **out) {
    gcoll_arguments arguments = {0};
    gcoll_request *request = NULL;
    gcoll_run *run = NULL;
    gcoll_status status = gcoll_arguments_read(&arguments, context, given);
    if (status == GCOLL_OK)
        status = check_form(context, &arguments, false);
    if (status == GCOLL_OK && !out)
        status = check_detached(context, &arguments);
    if (status == GCOLL_OK && arguments.call.places != 0)
        status = gcoll_held_await(context, arguments.timeout_ms);
    if (status == GCOLL_OK)
        status = gcoll_run_learn(context, &arguments, GCOLL_FORM_STARTED);
    if (status == GCOLL_OK && arguments.undecided_call == 0)
        status = gcoll_run_obtain(context, &arguments, false, &run);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_request_create(context, GCOLL_NO_RANK, &request);
    if (status != GCOLL_OK) {
        if (run)
            gcoll_run_return(run);
        return status;
    }
    status = begin_started(request, &arguments, run);
    if (status != GCOLL_OK) {
        gcoll_request_end(request);
        return status;
    }
    if (out)
        *out = request;
    if (arguments.done)
        gcoll_request_tells(request, arguments.done, arguments.done_arg, !out);
    /* If the caller's reduction has failed, the peers learn it now, and this rank by its request. */
    if (context->health.broken)
        gcoll_context_settle(context);
    return GCOLL_OK;
}

static gcoll_status create_inside(gcoll_context *context, const gcoll_given *given, gcoll_operation **out) {
    gcoll_arguments arguments = {0};
    gcoll_status status = gcoll_arguments_read(&arguments, context, given);
    if (status == GCOLL_OK)
        status = check_form(context, &arguments, false);
    if (status == GCOLL_OK && !out)
        status = gcoll_error(GCOLL_ERR_INVALID, "operation: is NULL");
    return status == GCOLL_OK ? gcoll_operation_create(context, &arguments, out) : status;
}

static gcoll_status enter(gcoll_context *context) {
    return context ? gcoll_enter(context) : gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
}

static gcoll_status run_blocking(gcoll_context *context, const gcoll_given *given) {
    gcoll_status status = enter(context);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_collective_run(context, given);
    if (status == GCOLL_ERR_NO_MEMORY)
        status = give_up(context, status);
    gcoll_leave(context);
    return status;
}

static gcoll_status start(gcoll_context *context, const gcoll_given *given, gcoll_request **request) {
    gcoll_status status = enter(context);
    if (status != GCOLL_OK)
        return status;
    status = start_inside(context, given, request);
    if (status == GCOLL_ERR_NO_MEMORY)
        status = give_up(context, status);
    gcoll_leave(context);
    return status;
}

static gcoll_status create(gcoll_context *context, const gcoll_given *given, gcoll_operation **operation) {
    gcoll_status status = enter(context);
    if (status != GCOLL_OK)
        return status;
    status = create_inside(context, given, operation);
    gcoll_leave(context);
    return status;
}

#define LIST(...) __VA_ARGS__
/* Defines the three forms of a collective. The arguments after the parameters initialise a gcoll_given. */
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

FORMS(allreduce_list,
      (gcoll_context * context, const void *const *inputs, void *const *outputs, const uint64_t *counts,
       uint32_t entries, gcoll_type type, gcoll_op op, const gcoll_allreduce_options *options),
      .collective = GCOLL_ALLREDUCE, .lists_input = true, .lists_output = true, .inputs = inputs,
      .outputs = outputs, .counts = counts, .entries = entries, .type = type, .op = op, .options = options)

FORMS(reduce_scatter_list,
      (gcoll_context * context, const void *const *inputs, void *output, const uint64_t *counts,
       gcoll_type type, gcoll_op op, const gcoll_collective_options *options),
      .collective = GCOLL_REDUCE_SCATTER, .lists_input = true, .inputs = inputs, .output = output,
      .has_counts = true, .counts = counts, .type = type, .op = op, .options = options)

FORMS(allgather_list,
      (gcoll_context * context, const void *input, void *const *outputs, const uint64_t *counts,
       gcoll_type type, const gcoll_collective_options *options),
      .collective = GCOLL_ALLGATHER, .lists_output = true, .input = input, .outputs = outputs,
      .has_counts = true, .counts = counts, .type = type, .options = options)

FORMS(alltoall_list,
      (gcoll_context * context, const void *const *inputs, void *const *outputs, const uint64_t *send_counts,
       const uint64_t *recv_counts, gcoll_type type, const gcoll_collective_options *options),
      .collective = GCOLL_ALLTOALL, .lists_input = true, .lists_output = true, .inputs = inputs,
      .outputs = outputs, .has_counts = true, .counts = send_counts, .recv_counts = recv_counts, .type = type,
      .options = options)

FORMS(barrier, (gcoll_context * context, const gcoll_barrier_options *options), .collective = GCOLL_BARRIER,
      .type = GCOLL_UINT8, .options = options)

/* ---- By a struct --------------------------------------------------------------------------- */

void gcoll_collective_call_init(gcoll_collective_call *call) {
    memset(call, 0, sizeof *call);
    call->struct_size = sizeof *call;
}

/* Which sides of a collective may be a list of buffers. */
static bool takes_inputs(gcoll_collective collective) {
    return collective == GCOLL_ALLREDUCE || collective == GCOLL_REDUCE_SCATTER ||
           collective == GCOLL_SCATTER || collective == GCOLL_ALLTOALL;
}
static bool takes_outputs(gcoll_collective collective) {
    return collective == GCOLL_ALLREDUCE || collective == GCOLL_ALLGATHER || collective == GCOLL_GATHER ||
           collective == GCOLL_ALLTOALL;
}

/* Sets the lists of a call by a struct. */
static gcoll_status read_lists(const gcoll_collective_call *call, gcoll_given *given) {
    const gcoll_collective collective = call->collective;
    const bool is_vector = collective == GCOLL_ALLREDUCE;
    const char *wrong = call->inputs && !takes_inputs(collective)     ? "inputs"
                        : call->outputs && !takes_outputs(collective) ? "outputs"
                        : call->entries > 0 && !is_vector             ? "entries"
                                                                      : NULL;
    if (wrong)
        return gcoll_error(GCOLL_ERR_INVALID, "call.%s: is set, but %s has no use for it", wrong,
                           gcoll_collective_name(collective));
    given->inputs = call->inputs;
    given->outputs = call->outputs;
    given->entries = call->entries;
    given->lists_input = call->inputs || (is_vector && (call->outputs || call->entries > 0));
    given->lists_output = call->outputs || (is_vector && given->lists_input);
    if ((given->lists_input && call->input) || (given->lists_output && call->output))
        return gcoll_error(GCOLL_ERR_INVALID, "call.%s: is set beside a list of buffers; allowed is NULL",
                           given->lists_input && call->input ? "input" : "output");
    return GCOLL_OK;
}

static gcoll_status read_call(const gcoll_collective_call *call, gcoll_given *given) {
    gcoll_collective_call known = {0};
    if (!call)
        return gcoll_error(GCOLL_ERR_INVALID, "call: is NULL");
    gcoll_status status = gcoll_options_read_named(
        &known, sizeof known, offsetof(gcoll_collective_call, inputs), call, "call.struct_size");
    if (status != GCOLL_OK)
        return status;
    if ((unsigned)known.collective >= GCOLL_COLLECTIVE_COUNT)
        return gcoll_error(GCOLL_ERR_INVALID, "call.collective: is %u; allowed are 0 to %u",
                           (unsigned)known.collective, GCOLL_COLLECTIVE_COUNT - 1u);
    const bool is_list = known.inputs || known.outputs || known.entries > 0;
    const bool has_counts = known.counts || known.recv_counts;
    if (has_counts && !gcoll_collective_has_blocks(known.collective) &&
        !(is_list && known.collective == GCOLL_ALLREDUCE))
        return gcoll_error(GCOLL_ERR_INVALID, "call.counts: is set, but %s has no blocks",
                           gcoll_collective_name(known.collective));
    if (has_counts && known.count != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "call.count: is %llu beside call.counts; allowed is 0",
                           (unsigned long long)known.count);
    const bool is_barrier = known.collective == GCOLL_BARRIER;
    *given = (gcoll_given){.collective = known.collective,
                           .input = known.collective == GCOLL_BROADCAST || is_barrier ? NULL : known.input,
                           .output = is_barrier ? NULL : known.output,
                           .count = is_barrier ? 0 : known.count,
                           .has_counts = has_counts,
                           .counts = known.counts,
                           .recv_counts = known.recv_counts,
                           .type = is_barrier ? GCOLL_UINT8 : known.type,
                           .op = gcoll_collective_reduces(known.collective) ? known.op : 0,
                           .root = gcoll_collective_has_root(known.collective) ? known.root : 0,
                           .exchanges = known.collective == GCOLL_PAIRWISE_EXCHANGE ? known.exchanges : 0,
                           .options = known.options,
                           .is_general = true,
                           .algorithm = known.algorithm,
                           .timeout_ms = known.timeout_ms};
    return is_list ? read_lists(&known, given) : GCOLL_OK;
}

gcoll_status gcoll_call_run(gcoll_context *context, const gcoll_collective_call *call) {
    gcoll_given given;
    gcoll_status status = read_call(call, &given);
    return status == GCOLL_OK ? run_blocking(context, &given) : status;
}

gcoll_status gcoll_call_start(gcoll_context *context, const gcoll_collective_call *call,
                              gcoll_request **request) {
    gcoll_given given;
    gcoll_status status = read_call(call, &given);
    return status == GCOLL_OK ? start(context, &given, request) : status;
}

gcoll_status gcoll_call_create(gcoll_context *context, const gcoll_collective_call *call,
                               gcoll_operation **operation) {
    gcoll_given given;
    gcoll_status status = read_call(call, &given);
    return status == GCOLL_OK ? create(context, &given, operation) : status;
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

static gcoll_status parse(const char *collective, const char *text, gcoll_choice *choice) {
    gcoll_collective wanted = GCOLL_ALLREDUCE;
    gcoll_status status = gcoll_collective_parse(collective, &wanted);
    return status == GCOLL_OK ? gcoll_choice_parse(NULL, text, wanted, choice) : status;
}

gcoll_status gcoll_algorithm_check(const char *collective, const char *text) {
    gcoll_choice choice;
    return parse(collective, text, &choice);
}

gcoll_status gcoll_algorithm_uses_arrival(const char *collective, const char *text, int *uses) {
    gcoll_choice choice;
    gcoll_status status = parse(collective, text, &choice);
    if (status == GCOLL_OK && !uses)
        status = gcoll_error(GCOLL_ERR_INVALID, "uses: is NULL");
    if (status == GCOLL_OK)
        *uses = choice.algorithm && choice.algorithm->uses_arrival;
    return status;
}
