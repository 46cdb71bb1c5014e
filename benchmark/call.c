/* benchmark/call.c - a case at one size as a call of the library: prepared once, then run in either form. */
#include <inttypes.h>

#include "bench.h"

static void prepare_allreduce(bench_call *call) {
    bench_state *state = call->state;
    gcoll_allreduce_options_init(&call->allreduce);
    call->allreduce.algorithm = call->what->algorithm;
    if (state->options->inputs == 1) {
        call->input = call->in_place ? NULL : state->in[0];
        call->output = state->out[0];
        return;
    }
    call->allreduce.buffers = state->options->inputs;
    call->allreduce.inputs = (const void *const *)(call->in_place ? state->out : state->in);
    call->allreduce.outputs = state->out;
}

static void prepare_broadcast(bench_call *call) {
    bench_state *state = call->state;
    gcoll_broadcast_options_init(&call->broadcast);
    call->broadcast.algorithm = call->what->algorithm;
    if (state->options->inputs == 1) {
        call->output = state->out[0];
        return;
    }
    call->broadcast.buffers = state->out;
    call->broadcast.buffer_count = state->options->inputs;
}

static gcoll_status create(bench_call *call) {
    const bench_options *options = call->state->options;
    gcoll_context *context = call->state->context;
    switch (call->what->collective) {
    case BENCH_ALLREDUCE:
        return gcoll_allreduce_create(context, call->input, call->output, call->count, options->type,
                                      options->op, &call->allreduce, &call->operation);
    case BENCH_BROADCAST:
        return gcoll_broadcast_create(context, call->output, call->count, options->type, options->root,
                                      &call->broadcast, &call->operation);
    default:
        return gcoll_barrier_create(context, &call->barrier, &call->operation);
    }
}

static gcoll_status call_once(const bench_call *call) {
    const bench_options *options = call->state->options;
    gcoll_context *context = call->state->context;
    switch (call->what->collective) {
    case BENCH_ALLREDUCE:
        return gcoll_allreduce(context, call->input, call->output, call->count, options->type, options->op,
                               &call->allreduce);
    case BENCH_BROADCAST:
        return gcoll_broadcast(context, call->output, call->count, options->type, options->root,
                               &call->broadcast);
    default:
        return gcoll_barrier(context, &call->barrier);
    }
}

static void complain(const bench_call *call, gcoll_status status) {
    /* Every rank is told the same of an algorithm that does not apply; one voice is enough. */
    if (status == GCOLL_ERR_UNSUPPORTED && call->state->rank != 0) {
        return;
    }
    const char *name = bench_collective_names[call->what->collective];
    if (call->what->collective == BENCH_BARRIER) {
        cli_complain("rank %u: %s by %s: %s", call->state->rank, name, call->what->algorithm,
                     gcoll_last_error());
    } else {
        cli_complain("rank %u: %s by %s of %" PRIu64 " bytes: %s", call->state->rank, name,
                     call->what->algorithm, call->bytes, gcoll_last_error());
    }
}

bench_outcome bench_call_create(bench_call *call, bench_state *state, const bench_case *what, uint64_t bytes,
                                bool in_place) {
    *call = (bench_call){.state = state, .what = what, .bytes = bytes};
    call->count = bytes / gcoll_type_size(state->options->type);
    call->in_place = in_place;
    if (what->collective == BENCH_ALLREDUCE) {
        prepare_allreduce(call);
    } else if (what->collective == BENCH_BROADCAST) {
        prepare_broadcast(call);
    } else {
        gcoll_barrier_options_init(&call->barrier);
        call->barrier.algorithm = what->algorithm;
    }
    gcoll_status status = create(call);
    if (status == GCOLL_OK) {
        return BENCH_DONE;
    }
    if (status == GCOLL_ERR_UNSUPPORTED && what->optional) {
        return BENCH_SKIPPED;
    }
    complain(call, status);
    return BENCH_BROKEN;
}

bool bench_call_run(bench_call *call) {
    gcoll_status status =
        call->state->options->one_shot ? call_once(call) : gcoll_operation_run(call->operation);
    if (status != GCOLL_OK) {
        complain(call, status);
    }
    return status == GCOLL_OK;
}

void bench_call_destroy(bench_call *call) {
    gcoll_operation_destroy(call->operation);
    call->operation = NULL;
}
