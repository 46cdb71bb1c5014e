/* benchmark/call.c - a case at one size as a call of the library: prepared once, then run in either form. */
#include <inttypes.h>
#include <stdlib.h>

#include "benchmark/call.h"
#include "benchmark/shape.h"

/* ---- Where things are --------------------------------------------------------------------------------- */

/* This rank's block, in bytes from the beginning of the vector. */
static size_t block_bytes(const bench_call *call) {
    const bench_options *options = call->state->options;
    return (size_t)gcoll_chunk_begin(call->count, options->size, call->state->rank) *
           gcoll_type_size(options->type);
}

/* The input buffer k. In place, the smaller of input and output lies in the larger one, which is output
 * buffer 0. */
void *bench_input_of(const bench_call *call, uint32_t k) {
    unsigned char *in = call->state->in[k], *out = call->state->out[k];
    if (!call->in_place)
        return in;
    gcoll_collective c = call->what->collective;
    return c == GCOLL_ALLGATHER || c == GCOLL_GATHER ? out + block_bytes(call) : out;
}

void *bench_output_of(const bench_call *call, uint32_t k) {
    unsigned char *out = call->state->out[k];
    gcoll_collective c = call->what->collective;
    return call->in_place && (c == GCOLL_REDUCE_SCATTER || c == GCOLL_SCATTER) ? out + block_bytes(call)
                                                                               : out;
}

/* NULL: host memory, which the library finds out by itself. */
static const gcoll_memory *memory_of(const bench_state *state) {
    return state->mirror ? &state->where : NULL;
}

/* Prepares the options that all collectives share. In place, the library finds the outputs in the inputs. */
static void prepare_common(bench_call *call) {
    bench_state *state = call->state;
    gcoll_collective_options_init(&call->common);
    call->common.algorithm = call->what->algorithm;
    call->common.memory = memory_of(state);
    if (gcoll_collective_reduces(call->what->collective)) {
        call->common.prescale = state->options->prescale;
        call->common.postscale = state->options->postscale;
    }
    if (bench_takes_codec(call->what->collective))
        call->common.codec = state->options->codec;
    if (state->options->inputs > 1 && call->what->collective == GCOLL_REDUCE_SCATTER) {
        call->common.buffers = state->options->inputs;
        call->common.inputs = (const void *const *)(call->in_place ? state->out : state->in);
        call->common.outputs = call->in_place ? NULL : state->out;
        call->input = NULL;
        call->output = NULL;
    }
}

static void prepare_allreduce(bench_call *call) {
    bench_state *state = call->state;
    gcoll_allreduce_options_init(&call->allreduce);
    call->allreduce.algorithm = call->what->algorithm;
    call->allreduce.memory = memory_of(state);
    call->allreduce.prescale = state->options->prescale;
    call->allreduce.postscale = state->options->postscale;
    call->allreduce.codec = state->options->codec;
    if (state->options->inputs > 1) {
        call->allreduce.buffers = state->options->inputs;
        call->allreduce.inputs = (const void *const *)(call->in_place ? state->out : state->in);
        call->allreduce.outputs = state->out;
        call->input = NULL;
        call->output = NULL;
    }
}

static void prepare_broadcast(bench_call *call) {
    bench_state *state = call->state;
    gcoll_broadcast_options_init(&call->broadcast);
    call->broadcast.algorithm = call->what->algorithm;
    call->broadcast.memory = memory_of(state);
    call->broadcast.codec = state->options->codec;
    if (state->options->inputs > 1) {
        call->broadcast.buffers = state->out;
        call->broadcast.buffer_count = state->options->inputs;
        call->output = NULL;
    }
}

/* Blocks of a vector that the ranks do not divide. */
static bool prepare_counts(bench_call *call) {
    const uint32_t size = call->state->options->size;
    if (!gcoll_collective_has_blocks(call->what->collective) || call->count % size == 0)
        return true;
    call->counts = calloc(size, sizeof *call->counts);
    if (!call->counts) {
        cli_complain("rank %u: out of memory for %u counts", call->state->rank, size);
        return false;
    }
    for (uint32_t r = 0; r < size; r++)
        call->counts[r] = gcoll_chunk_count(call->count, size, r);
    return true;
}

static bool prepare(bench_call *call, bool in_place) {
    const bench_state *state = call->state;
    const gcoll_problem shape = {.collective = call->what->collective,
                                 .rank = state->rank,
                                 .size = state->options->size,
                                 .root = state->options->root,
                                 .count = call->count};
    call->in_count = gcoll_problem_in_count(&shape);
    call->out_count = gcoll_problem_out_count(&shape);
    const gcoll_traits traits = gcoll_collective_traits(call->what->collective);
    call->in_place = in_place && traits.takes_in_place &&
                     (!traits.in_place_at_root || state->rank == state->options->root);
    call->input = call->in_count > 0 ? bench_input_of(call, 0) : NULL;
    call->output = call->out_count > 0 ? bench_output_of(call, 0) : NULL;
    prepare_common(call);
    gcoll_barrier_options_init(&call->barrier);
    call->barrier.algorithm = call->what->algorithm;
    prepare_allreduce(call);
    prepare_broadcast(call);
    return prepare_counts(call);
}

/* ---- Both forms --------------------------------------------------------------------------------------- */

/* NAME or NAME_v with their arguments, in the form that SUFFIX and the last argument say. */
#define BLOCKS(NAME, SUFFIX, ...)                                                                            \
    (call->counts                                                                                            \
         ? gcoll_##NAME##_v##SUFFIX(context, call->input, call->output, call->counts, __VA_ARGS__)           \
         : gcoll_##NAME##SUFFIX(context, call->input, call->output, call->count / o->size, __VA_ARGS__))

static gcoll_status create(bench_call *call) {
    const bench_options *o = call->state->options;
    gcoll_context *context = call->state->context;
    gcoll_operation **operation = &call->operation;
    switch (call->what->collective) {
    case GCOLL_ALLREDUCE:
        return gcoll_allreduce_create(context, call->input, call->output, call->count, o->type, o->op,
                                      &call->allreduce, operation);
    case GCOLL_BROADCAST:
        return gcoll_broadcast_create(context, call->output, call->count, o->type, o->root, &call->broadcast,
                                      operation);
    case GCOLL_REDUCE:
        return gcoll_reduce_create(context, call->input, call->output, call->count, o->type, o->op, o->root,
                                   &call->common, operation);
    case GCOLL_REDUCE_SCATTER:
        return BLOCKS(reduce_scatter, _create, o->type, o->op, &call->common, operation);
    case GCOLL_ALLGATHER:
        return BLOCKS(allgather, _create, o->type, &call->common, operation);
    case GCOLL_GATHER:
        return BLOCKS(gather, _create, o->type, o->root, &call->common, operation);
    case GCOLL_SCATTER:
        return BLOCKS(scatter, _create, o->type, o->root, &call->common, operation);
    case GCOLL_ALLTOALL:
        return gcoll_alltoall_create(context, call->input, call->output, call->count / o->size, o->type,
                                     &call->common, operation);
    case GCOLL_PAIRWISE_EXCHANGE:
        return gcoll_pairwise_exchange_create(context, call->input, call->output, call->count, o->type,
                                              o->exchanges, &call->common, operation);
    default:
        return gcoll_barrier_create(context, &call->barrier, operation);
    }
}

static gcoll_status call_once(const bench_call *call) {
    const bench_options *o = call->state->options;
    gcoll_context *context = call->state->context;
    switch (call->what->collective) {
    case GCOLL_ALLREDUCE:
        return gcoll_allreduce(context, call->input, call->output, call->count, o->type, o->op,
                               &call->allreduce);
    case GCOLL_BROADCAST:
        return gcoll_broadcast(context, call->output, call->count, o->type, o->root, &call->broadcast);
    case GCOLL_REDUCE:
        return gcoll_reduce(context, call->input, call->output, call->count, o->type, o->op, o->root,
                            &call->common);
    case GCOLL_REDUCE_SCATTER:
        return BLOCKS(reduce_scatter, , o->type, o->op, &call->common);
    case GCOLL_ALLGATHER:
        return BLOCKS(allgather, , o->type, &call->common);
    case GCOLL_GATHER:
        return BLOCKS(gather, , o->type, o->root, &call->common);
    case GCOLL_SCATTER:
        return BLOCKS(scatter, , o->type, o->root, &call->common);
    case GCOLL_ALLTOALL:
        return gcoll_alltoall(context, call->input, call->output, call->count / o->size, o->type,
                              &call->common);
    case GCOLL_PAIRWISE_EXCHANGE:
        return gcoll_pairwise_exchange(context, call->input, call->output, call->count, o->type, o->exchanges,
                                       &call->common);
    default:
        return gcoll_barrier(context, &call->barrier);
    }
}

static void complain(const bench_call *call, gcoll_status status) {
    /* Every rank is told the same of an algorithm that does not apply; one voice is enough. Devices differ.
     */
    if (status == GCOLL_ERR_UNSUPPORTED && call->state->rank != 0 && !call->state->options->on_device)
        return;
    const char *name = gcoll_collective_name(call->what->collective);
    if (call->what->collective == GCOLL_BARRIER) {
        cli_complain("rank %u: %s by %s: %s", call->state->rank, name, call->what->algorithm,
                     gcoll_last_error());
    } else {
        cli_complain("rank %u: %s by %s of %" PRIu64 " bytes: %s", call->state->rank, name,
                     call->what->algorithm, call->bytes, gcoll_last_error());
    }
}

bench_outcome bench_call_create(bench_call *call, bench_state *state, const bench_case *what, uint64_t bytes,
                                bool in_place) {
    const size_t element = gcoll_type_size(state->options->type);
    *call = (bench_call){.state = state, .what = what};
    call->count = bench_round_count(what->collective, bytes / element, state->options->size);
    call->bytes = call->count * element;
    if (!prepare(call, in_place))
        return BENCH_BROKEN;
    gcoll_status status = create(call);
    if (status == GCOLL_OK)
        return BENCH_DONE;
    free(call->counts);
    if (status == GCOLL_ERR_UNSUPPORTED && what->optional)
        return BENCH_SKIPPED;
    complain(call, status);
    return BENCH_BROKEN;
}

bool bench_call_run(bench_call *call) {
    gcoll_status status =
        call->state->options->one_shot ? call_once(call) : gcoll_operation_run(call->operation);
    if (status != GCOLL_OK)
        complain(call, status);
    return status == GCOLL_OK;
}

void bench_call_destroy(bench_call *call) {
    gcoll_operation_destroy(call->operation);
    free(call->counts);
    call->operation = NULL;
    call->counts = NULL;
}
