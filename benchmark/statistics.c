/* benchmark/statistics.c - computes the figures of a line from measured times. */
#include <stdlib.h>

#include "benchmark/statistics.h"

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest time that at least `percent` of all times do not exceed. */
static double percentile(const double *sorted, size_t count, unsigned percent) {
    size_t position = (count * percent + 99) / 100;
    return sorted[position > 0 ? position - 1 : 0];
}

void bench_statistics_of(double *times_us, size_t count, bench_statistics *statistics) {
    qsort(times_us, count, sizeof *times_us, ascending);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += times_us[i];
    statistics->min_us = times_us[0];
    statistics->p50_us = percentile(times_us, count, 50);
    statistics->p95_us = percentile(times_us, count, 95);
    statistics->p99_us = percentile(times_us, count, 99);
    statistics->max_us = times_us[count - 1];
    statistics->mean_us = sum / (double)count;
}
