/* main.c - data-parallel training of a small network over gcoll. README.md says what it shows. */
#include <stdio.h>

#include "local.h"
#include "report.h"

static void introduce(const trainer *t) {
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
        if (good && job.rank == 0) {
            introduce(&t);
        }
        good = good && trainer_run(&t) && report(&t);
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
