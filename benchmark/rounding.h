/* benchmark/rounding.h - --rounding: how far sums of random numbers are off. */
#ifndef GCOLL_BENCH_ROUNDING_H
#define GCOLL_BENCH_ROUNDING_H

#include "benchmark/call.h"

/* Runs on random floating-point inputs: *largest is the largest difference of any result on any rank from the
 * sum in double precision, relative to the sum of magnitudes. False has been said. */
bool bench_rounding(bench_call *call, double *largest);

#endif
