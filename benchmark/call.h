/* benchmark/call.h - a case at one size, as a call of the library. */
#ifndef GCOLL_BENCH_CALL_H
#define GCOLL_BENCH_CALL_H

#include "benchmark/state.h"

typedef enum bench_outcome {
    BENCH_DONE = 0,
    BENCH_SKIPPED = 1, /* the algorithm does not apply, and was not asked for by name */
    BENCH_BROKEN = 2   /* has been said; the context may not be usable any more */
} bench_outcome;

/* A case at one size, as a call of the library. */
typedef struct bench_call {
    bench_state *state;
    const bench_case *what;
    uint64_t bytes, count; /* of the whole vector */
    bool in_place;         /* this rank's input and output share memory */
    const void *input;
    void *output;
    uint64_t *counts;             /* blocks of uneven size: one entry a rank. Else NULL */
    uint64_t in_count, out_count; /* elements of this rank's input and output */
    gcoll_collective_options common;
    gcoll_allreduce_options allreduce;
    gcoll_broadcast_options broadcast;
    gcoll_barrier_options barrier;
    gcoll_operation *operation;
} bench_call;

/* On anything but BENCH_DONE there is nothing to destroy. */
bench_outcome bench_call_create(bench_call *call, bench_state *state, const bench_case *what, uint64_t bytes,
                                bool in_place);
/* One collective call, by the operation or (--one-shot) the plain function. False has been said. */
bool bench_call_run(bench_call *call);
void bench_call_destroy(bench_call *call);

/* Where input and output of buffer k are. */
void *bench_input_of(const bench_call *call, uint32_t k);
void *bench_output_of(const bench_call *call, uint32_t k);

#endif
