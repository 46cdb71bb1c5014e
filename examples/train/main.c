/* main.c - data-parallel training of a small network over gcoll. README.md says what it shows. */
#include <inttypes.h>
#include <stdio.h>

#include "local.h"
#include "report.h"

static void introduce(const trainer *t) {
    if (t->options.monitor != MONITOR_OFF &&
        (t->job->size < GCOLL_ARRIVAL_LEAST_RANKS || t->job->size > GCOLL_ARRIVAL_MOST_RANKS)) {
        complain("--monitor %s: found with %u rank%s; who is late is heeded with %u to %u",
                 monitoring_name(t->options.monitor), t->job->size, t->job->size == 1 ? "" : "s",
                 GCOLL_ARRIVAL_LEAST_RANKS, GCOLL_ARRIVAL_MOST_RANKS);
    }
    (void)printf("%zu parameters, %u rank%s, %u images a step each, %s\n", t->net.count, t->job->size,
                 t->job->size == 1 ? "" : "s", t->options.batch, t->average.algorithm);
    if (t->state.epoch > 0) {
        (void)printf("goes on after epoch %u\n", (unsigned)t->state.epoch);
    }
    (void)fflush(stdout);
}

static int run_rank(const train_options *options) {
    train_job job;
    trainer t = {0};
    bool good = job_open(&job, options);
    if (good) {
        good = trainer_make(&t, &job, options);
        const bool is_done = good && t.state.epoch >= t.options.epochs;
        if (good && job.rank == 0 && is_done) {
            (void)printf("nothing left to do: %" PRIu64 " of %u epochs are done\n", t.state.epoch,
                         t.options.epochs);
        } else if (good && job.rank == 0) {
            introduce(&t);
        }
        good = good && trainer_run(&t) && (is_done || report(&t));
        trainer_free(&t);
    }
    job_close(&job);
    return good ? TRAIN_GOOD : TRAIN_FAILED;
}

int main(int argc, char **argv) {
    train_options options;
    int status;
    if (!options_read(argc, argv, &options, &status)) {
        return status;
    }
    return options.local > 0 ? local_run(&options, run_rank) : run_rank(&options);
}
