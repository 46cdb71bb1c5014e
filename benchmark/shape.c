/* benchmark/shape.c - the contract of each collective: which rank has which elements before and after it. */
#include "benchmark/shape.h"
#include "benchmark/values.h"

bool bench_has_exchanges(gcoll_collective c) {
    return c == GCOLL_PAIRWISE_EXCHANGE;
}

bool bench_takes_codec(gcoll_collective c) {
    return c == GCOLL_ALLREDUCE || c == GCOLL_REDUCE_SCATTER || c == GCOLL_ALLGATHER || c == GCOLL_BROADCAST;
}

double bench_bus_factor(gcoll_collective c, uint32_t ranks) {
    double others = (double)(ranks - 1) / ranks;
    if (c == GCOLL_ALLREDUCE)
        return 2 * others;
    return gcoll_collective_has_blocks(c) ? others : 1;
}

uint64_t bench_round_count(gcoll_collective c, uint64_t count, uint32_t ranks) {
    return c == GCOLL_ALLTOALL ? count - count % ranks : count;
}

/* The last index i below parts whose chunk of `count` elements begins at or before `at`. */
static uint32_t chunk_at(uint64_t count, uint32_t parts, uint64_t at) {
    uint32_t low = 0, high = parts;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (gcoll_chunk_begin(count, parts, middle) <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

bench_piece bench_input_piece(const bench_call *call, uint32_t k, uint64_t at) {
    const bench_options *options = call->state->options;
    uint64_t rest = call->in_count - at;
    uint32_t rank = call->state->rank;
    switch (call->what->collective) {
    case GCOLL_BROADCAST:
        return (bench_piece){rest, at, rank == options->root && k == 0 ? (int64_t)rank : BENCH_GARBAGE};
    case GCOLL_ALLGATHER:
    case GCOLL_GATHER:
        return (bench_piece){rest, gcoll_chunk_begin(call->count, options->size, rank) + at, rank};
    case GCOLL_ALLREDUCE:
    case GCOLL_REDUCE_SCATTER:
        return (bench_piece){rest, at, (int64_t)rank * options->inputs + k};
    default:
        return (bench_piece){rest, at, rank};
    }
}

static bench_piece exchanged_piece(const bench_call *call, uint64_t at) {
    uint32_t rank = call->state->rank, size = call->state->options->size;
    uint32_t chunks = call->state->options->exchanges;
    while (call->state->options->exchanges == 0 && UINT64_C(1) << chunks < size)
        chunks++;
    if (chunks == 0)
        return (bench_piece){call->count - at, at, rank};
    uint32_t c = chunk_at(call->count, chunks, at);
    uint64_t partner = rank ^ UINT64_C(1) << c;
    return (bench_piece){gcoll_chunk_begin(call->count, chunks, c + 1) - at, at,
                         partner < size ? (int64_t)partner : (int64_t)rank};
}

bench_piece bench_output_piece(const bench_call *call, uint64_t at) {
    const bench_options *options = call->state->options;
    uint64_t rest = call->out_count - at;
    uint64_t own = gcoll_chunk_begin(call->count, options->size, call->state->rank);
    switch (call->what->collective) {
    case GCOLL_BROADCAST:
        return (bench_piece){rest, at, options->root};
    case GCOLL_SCATTER:
        return (bench_piece){rest, own + at, options->root};
    case GCOLL_REDUCE_SCATTER:
        return (bench_piece){rest, own + at, BENCH_RESULT};
    case GCOLL_ALLGATHER:
    case GCOLL_GATHER: {
        uint32_t owner = chunk_at(call->count, options->size, at);
        return (bench_piece){gcoll_chunk_begin(call->count, options->size, owner + 1) - at, at, owner};
    }
    case GCOLL_ALLTOALL: {
        uint64_t block = call->count / options->size;
        return (bench_piece){block - at % block, own + at % block, (int64_t)(at / block)};
    }
    case GCOLL_PAIRWISE_EXCHANGE:
        return exchanged_piece(call, at);
    default:
        return (bench_piece){rest, at, BENCH_RESULT};
    }
}
