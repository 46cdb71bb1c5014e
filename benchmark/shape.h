/* benchmark/shape.h - what collectives have, and which elements of a vector a rank has where. */
#ifndef GCOLL_BENCH_SHAPE_H
#define GCOLL_BENCH_SHAPE_H

#include "benchmark/call.h"

/* Elements that belong together: `count` of them, which `owner` has at `position` of its vector. */
typedef struct bench_piece {
    uint64_t count, position;
    int64_t owner;
} bench_piece;

/* The pieces of input and output of buffer k, from element `at` on (below in_count, out_count). */
bench_piece bench_input_piece(const bench_call *call, uint32_t k, uint64_t at);
bench_piece bench_output_piece(const bench_call *call, uint64_t at);

bool bench_has_exchanges(gcoll_collective collective);
bool bench_takes_codec(gcoll_collective collective);
double bench_bus_factor(gcoll_collective collective, uint32_t ranks);
/* Elements of the vector: `count` or, where all blocks must be equal, the next multiple of ranks below. */
uint64_t bench_round_count(gcoll_collective collective, uint64_t count, uint32_t ranks);

#endif
