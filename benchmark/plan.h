/* benchmark/plan.h - --plan: the plans of a file (docs/plans-as-files.md), run as an algorithm. */
#ifndef GCOLL_BENCH_PLAN_H
#define GCOLL_BENCH_PLAN_H

#include "benchmark/options.h"

/* Reads the file, once for each size if it is a schedule for any size, and proves its plans. Sets the
 * collective, algorithm, root and sizes in the options, which must not be set otherwise. False: it has
 * been said what is wrong, with the file and the line or step. */
bool bench_plan_read(bench_options *options);
/* The algorithm that runs the plans, to be registered; NULL without --plan. */
const gcoll_algorithm *bench_plan_algorithm(const bench_options *options);
/* How many ranks the file is for. */
uint32_t bench_plan_ranks(const bench_options *options);
void bench_plan_free(bench_options *options);

#endif
