/* benchmark/statistics.h - times to figures. */
#ifndef GCOLL_BENCH_STATISTICS_H
#define GCOLL_BENCH_STATISTICS_H

#include <stddef.h>

typedef struct bench_statistics {
    double min_us, p50_us, p95_us, p99_us, max_us, mean_us;
} bench_statistics;

/* Sorts times_us. count >= 1. Percentiles by nearest rank. */
void bench_statistics_of(double *times_us, size_t count, bench_statistics *statistics);

#endif
