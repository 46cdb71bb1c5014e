/* benchmark/tune.h - --tune, --tune-check: the best algorithms of this machine. */
#ifndef GCOLL_BENCH_TUNE_H
#define GCOLL_BENCH_TUNE_H

#include <stdio.h>

#include "benchmark/state.h"

/* Sizes of a collective: 1 for a barrier. */
size_t bench_tune_sizes(const bench_options *options, gcoll_collective collective);
uint64_t bench_tune_size(const bench_options *options, gcoll_collective collective, size_t index);
/* Whether an algorithm of the collective takes part. */
bool bench_tune_has(const bench_options *options, gcoll_collective collective);
/* Begins the line that shows how far rank 0 is with all collectives at all sizes. */
void bench_tune_begin(const bench_state *state);

/* --tune: measures, and rank 0 writes the file. */
bool bench_tune(bench_state *state);
/* --tune-check: auto beside the best (tune_check.c). */
bool bench_tune_check(bench_state *state, FILE *output);

#endif
