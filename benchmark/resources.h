/* benchmark/resources.h - --resources: what a rank costs. */
#ifndef GCOLL_BENCH_RESOURCES_H
#define GCOLL_BENCH_RESOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "gcoll/gcoll.h"

/* What a rank had cost when it had joined. */
typedef struct bench_resources {
    uint64_t startup_us, dirty_kib, pss_kib, sockets, cpu_us, switches;
} bench_resources;

void bench_resources_joined(bench_resources *resources, int64_t started_ns);
/* Collective. Rank 0 prints what the ranks have cost until now, to standard error. False has been said. */
bool bench_resources_report(const bench_resources *resources, gcoll_context *context);

#endif
