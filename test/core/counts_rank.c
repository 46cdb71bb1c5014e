/*
 * test/core/counts_rank.c - one rank of a job, whose system calls strace counts from outside
 * (counts_strace.sh).
 *
 * Usage: counts_rank RANK SIZE STORE BYTES RUNS SPIN_US
 *
 * Runs a persistent allreduce of float32 a few times to warm up, then RUNS times. The counted part begins and
 * ends with getppid, a system call that nothing else makes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gcoll/gcoll.h"

enum { WARM_RUNS = 20 };

static void check(gcoll_status status) {
    if (status == GCOLL_OK)
        return;
    fprintf(stderr, "%s: %s\n", gcoll_status_text(status), gcoll_last_error());
    exit(1);
}

static void run(gcoll_operation *operation, uint64_t runs) {
    for (uint64_t i = 0; i < runs; i++)
        check(gcoll_operation_run(operation));
}

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: counts_rank RANK SIZE STORE BYTES RUNS SPIN_US\n");
        return 2;
    }
    gcoll_store *store = NULL;
    gcoll_context *context = NULL;
    gcoll_operation *operation = NULL;
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.rank = (uint32_t)strtoul(argv[1], NULL, 10);
    options.size = (uint32_t)strtoul(argv[2], NULL, 10);
    options.spin_us = strtoll(argv[6], NULL, 10);
    options.transport = "tcp";
    options.tuning = "default"; /* what is fitted differs from day to day, and with it the algorithm */
    const uint64_t bytes = strtoull(argv[4], NULL, 10), runs = strtoull(argv[5], NULL, 10);
    float *data = calloc(bytes / sizeof *data + 1, sizeof *data);
    if (!data)
        return 1;
    check(gcoll_store_open(argv[3], 30000, &store));
    options.store = store;
    check(gcoll_context_create(&options, &context));
    check(gcoll_allreduce_create(context, NULL, data, bytes / sizeof *data, GCOLL_FLOAT32, GCOLL_SUM, NULL,
                                 &operation));
    run(operation, WARM_RUNS);
    syscall(SYS_getppid);
    run(operation, runs);
    syscall(SYS_getppid);
    gcoll_operation_destroy(operation);
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    free(data);
    return 0;
}
