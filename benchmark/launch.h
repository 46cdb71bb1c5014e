/* benchmark/launch.h - --local: the ranks of this machine, as processes or as threads. */
#ifndef GCOLL_BENCH_LAUNCH_H
#define GCOLL_BENCH_LAUNCH_H

#include <stdio.h>

#include "benchmark/options.h"

/* Each returns the exit status. bench_local_processes returns in every child, too, with the child's status.
 */
int bench_local_processes(const bench_options *options, FILE *output);
int bench_local_threads(const bench_options *options, FILE *output); /* threads.c */

#endif
