/*
 * benchmark/monitor_cost.c - measures the cost of the monitor for ranks that are never late.
 *
 * The cost is a few percent, less than the variation between two runs. So each rank has three contexts, one
 * with the monitor and two without. They take turns of some milliseconds, in an order that changes from round
 * to round. Only ratios within a round are used; the ratio of the two contexts without the monitor shows the
 * error.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "benchmark/cost.h"
#include "tools/cli_value.h"

const char cli_program[] = "monitor_cost";

enum { MONITOR, PLAIN, PLAIN_AGAIN, KINDS };

typedef struct setting {
    uint32_t rank, size, calls, rounds;
    uint64_t bytes;
    const char *store;
} setting;

static const char usage[] =
    "monitor_cost RANK SIZE STORE BYTES [CALLS [ROUNDS]] - what the monitor costs ranks that are never late\n"
    "Rank RANK of SIZE ranks, which meet in STORE (file:DIR or redis://host), makes CALLS allreduces (200) "
    "of BYTES\n"
    "bytes of float32 with the monitor, without, and without again, in turn, ROUNDS times (101). Rank 0 "
    "prints.\n";

static void print(const char *what, double *values, uint32_t count) {
    const cost_quartiles q = cost_quartiles_of(values, count);
    printf("%-22s %9.3f   (quartiles %.3f, %.3f)\n", what, q.median, q.lower, q.upper);
}

static gcoll_context *open_context(const setting *s, int kind, gcoll_store *store) {
    static const char *const jobs[KINDS] = {"monitor", "plain", "plain-again"};
    gcoll_context *context;
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.rank = s->rank;
    options.size = s->size;
    options.store = store;
    options.job = jobs[kind];
    options.tuning = "default"; /* so that all three choose alike */
    options.monitor = kind == MONITOR;
    cost_check(gcoll_context_create(&options, &context));
    return context;
}

/* Microseconds a call. */
static double time_calls(gcoll_context *context, float *data, const setting *s) {
    const uint64_t count = s->bytes / sizeof *data;
    const double begin = cost_now_us();
    for (uint32_t i = 0; i < s->calls; i++)
        cost_check(gcoll_allreduce(context, NULL, data, count, GCOLL_FLOAT32, GCOLL_MAX, NULL));
    return (cost_now_us() - begin) / s->calls;
}

static void report(double *us, const setting *s) {
    double *const ratio = us + (size_t)KINDS * s->rounds;
    printf("%u ranks, %" PRIu64 " bytes, %u calls a turn, %u rounds\n", s->size, s->bytes, s->calls,
           s->rounds);
    static const char *const names[] = {"monitor / without", "", "without / without"};
    for (int kind = MONITOR; kind < KINDS; kind += PLAIN_AGAIN) {
        for (uint32_t i = 0; i < s->rounds; i++)
            ratio[i] = us[(size_t)kind * s->rounds + i] / us[(size_t)PLAIN * s->rounds + i];
        print(names[kind], ratio, s->rounds);
    }
    print("monitor, us", us, s->rounds);
    print("without, us", us + s->rounds, s->rounds);
}

static void run(const setting *s) {
    gcoll_store *store;
    gcoll_context *contexts[KINDS];
    cost_check(gcoll_store_open(s->store, 30000, &store));
    for (int kind = 0; kind < KINDS; kind++)
        contexts[kind] = open_context(s, kind, store);
    float *data = calloc(s->bytes / sizeof *data, sizeof *data);
    double *us = calloc((size_t)s->rounds * (KINDS + 1), sizeof *us);
    if (!data || !us) {
        cli_complain("no memory for %" PRIu64 " bytes", s->bytes);
        exit(1);
    }
    for (int kind = 0; kind < KINDS; kind++)
        (void)time_calls(contexts[kind], data, s);
    for (uint32_t i = 0; i < s->rounds; i++)
        for (uint32_t turn = 0; turn < KINDS; turn++) {
            const uint32_t kind = i % 2 ? (i / 2 + turn) % KINDS : (i / 2 + KINDS - turn) % KINDS;
            us[(size_t)kind * s->rounds + i] = time_calls(contexts[kind], data, s);
        }
    if (s->rank == 0)
        report(us, s);
    for (int kind = 0; kind < KINDS; kind++)
        gcoll_context_destroy(contexts[kind]);
    gcoll_store_destroy(store);
    free(data);
    free(us);
}

static bool read_setting(int argc, char **argv, setting *s) {
    if (argc < 5 || argc > 7) {
        (void)fputs(usage, stderr);
        return false;
    }
    s->store = argv[3];
    return cli_whole32("SIZE", argv[2], 1, 1000, &s->size) &&
           cli_whole32("RANK", argv[1], 0, s->size - 1, &s->rank) &&
           cli_whole("BYTES", argv[4], 4, 1 << 30, &s->bytes) &&
           cli_whole32("CALLS", argc > 5 ? argv[5] : "200", 1, 1000000, &s->calls) &&
           cli_whole32("ROUNDS", argc > 6 ? argv[6] : "101", 1, 10000, &s->rounds);
}

int main(int argc, char **argv) {
    setting s = {0};
    if (!read_setting(argc, argv, &s))
        return 2;
    run(&s);
    return 0;
}
