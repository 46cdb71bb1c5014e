/* benchmark/check.h - whether results are right. */
#ifndef GCOLL_BENCH_CHECK_H
#define GCOLL_BENCH_CHECK_H

#include "benchmark/call.h"
#include "benchmark/values.h"

/* Inputs as they should be, outputs as they must not stay. False has been said. */
bool bench_check_prepare(const bench_call *call, bench_values *values);
/* Adds the number of elements of this rank that are wrong; says where. False: they could not be read, has
 * been said. */
bool bench_check_results(const bench_call *call, bench_values *values, uint64_t *wrong);
/* Runs barriers with one rank late each time, and counts those that some rank left before the last one had
 * come. The ranks must be on one host. The same number on every rank. */
bool bench_check_barrier(bench_call *call, uint64_t *wrong);

#endif
