/* benchmark/run.h - one rank, from joining the job to leaving it. */
#ifndef GCOLL_BENCH_RUN_H
#define GCOLL_BENCH_RUN_H

#include <stdio.h>

#include "benchmark/options.h"

/* One rank, and what it shares with others. */
typedef struct bench_rank {
    const bench_options *options;
    uint32_t rank;
    gcoll_store *store; /* borrowed */
    gcoll_hub *hub;     /* inproc: borrowed */
    const char *job;
    FILE *output;       /* where rank 0 prints; borrowed */
    int64_t started_ns; /* bench_now_ns when it was about to be started */
} bench_rank;

/* Joins the job and measures every case at every size. Returns the exit status. */
int bench_run_rank(const bench_rank *self);
/* The same for this process, which is one rank of a job on several hosts. */
int bench_single_rank(const bench_options *options, FILE *output);

#endif
