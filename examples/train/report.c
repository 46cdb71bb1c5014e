/* report.c - times by rank, and as in table 5 of the paper (README.md): the mean over ranks and steps of what
 * an allreduce takes from a rank's own arrival, and the time of the training. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank_report {
    double images, train_s, compute_s, allreduce_s;
} rank_report;

#define NUMBERS (sizeof(rank_report) / sizeof(double))

static void print_ranks(const rank_report *ranks, uint32_t size, double steps) {
    (void)printf("\n%6s  %8s  %10s  %13s\n", "rank", "images", "compute s", "allreduce ms");
    for (uint32_t r = 0; r < size; r++) {
        (void)printf("%6u  %8.0f  %10.3f  %13.3f\n", r, ranks[r].images, ranks[r].compute_s,
                     1000 * ranks[r].allreduce_s / steps);
    }
}

static void print_whole(const trainer *t, const rank_report *ranks, double steps) {
    rank_report mean = {0};
    double total_s = 0;
    for (uint32_t r = 0; r < t->job->size; r++) {
        mean.compute_s += ranks[r].compute_s / t->job->size;
        mean.allreduce_s += ranks[r].allreduce_s / t->job->size;
        total_s = fmax(total_s, ranks[r].train_s);
    }
    (void)printf("\n%-24s  %7s  %6s  %10s  %10s  %13s  %10s  %16s\n", "algorithm", "monitor", "steps",
                 "total s", "compute s", "allreduce ms", "accuracy %", "weights");
    char accuracy[16] = "-"; /* nothing was tested */
    if (t->tested) {
        (void)snprintf(accuracy, sizeof accuracy, "%.1f", t->accuracy);
    }
    (void)printf("%-24s  %7s  %6.0f  %10.3f  %10.3f  %13.3f  %10s  %016" PRIx64 "\n", t->average.algorithm,
                 monitoring_name(t->options.monitor), (double)t->average.steps, total_s, mean.compute_s,
                 1000 * mean.allreduce_s / steps, accuracy, t->weights);
}

bool report(trainer *t) {
    const rank_report own = {(double)t->images, t->train_s, t->average.compute_s, t->average.elapsed_s};
    const double steps = fmax((double)t->average.steps, 1);
    uint64_t heeded;
    rank_report *ranks = calloc(t->job->size, sizeof *ranks);
    bool good = ranks != NULL;
    if (!good) {
        complain("rank %u: no memory", t->job->rank);
    }
    good =
        good && job_good(t->job, gcoll_gather(t->job->context, &own, ranks, NUMBERS, GCOLL_FLOAT64, 0, NULL));
    good = good && average_look(&t->average, &heeded);
    if (good && t->job->rank == 0) {
        print_ranks(ranks, t->job->size, steps);
        if (t->options.monitor != MONITOR_OFF) {
            (void)printf("\nlate ranks were heeded in %" PRIu64 " steps\n", heeded);
        }
        print_whole(t, ranks, steps);
    }
    free(ranks);
    if (good && (fflush(stdout) != 0 || ferror(stdout))) {
        complain("rank %u: writing the results: %s", t->job->rank, strerror(errno));
        good = false;
    }
    return good;
}
