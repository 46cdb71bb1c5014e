/* benchmark/measure.h - one line of the table. */
#ifndef GCOLL_BENCH_MEASURE_H
#define GCOLL_BENCH_MEASURE_H

#include "benchmark/call.h"
#include "benchmark/values.h"

/* Checks, times, checks again, reports. Adds what was wrong on any rank to *wrong. bytes: 0 for a barrier. */
bench_outcome bench_measure(bench_state *state, const bench_case *what, bench_values *values, uint64_t bytes,
                            uint64_t *wrong);

#endif
