/* trainer.c - how a training begins, goes on and is kept. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train.h"

#define REASON_BYTES 200

/* Rank 0's state, from the checkpoint if it goes on from one. */
static bool make_state(trainer *self, char *reason) {
    const train_options *o = &self->options;
    net_initialise(&self->net, o->seed);
    if (!o->resume) {
        return o->checkpoint == NULL || checkpoint_can_be_written(o->checkpoint, reason, REASON_BYTES);
    }
    if (!checkpoint_read(o->checkpoint, &self->state, self->net.parameters, self->velocity, reason,
                         REASON_BYTES)) {
        return false;
    }
    if (strcmp(o->algorithm, "auto") != 0 || o->monitor != MONITOR_OFF) {
        (void)snprintf(self->state.algorithm, sizeof self->state.algorithm, "%s", o->algorithm);
    }
    return self->state.epoch >= o->epochs || checkpoint_can_be_written(o->checkpoint, reason, REASON_BYTES);
}

/* What rank 0 tells the others before anything is trained. */
typedef struct announcement {
    checkpoint state;
    uint32_t epochs, test_images;
} announcement;

static bool share_header(trainer *self) {
    announcement all = {
        .state = self->state, .epochs = self->options.epochs, .test_images = self->options.test_images};
    if (!job_share(self->job, &all, sizeof all)) {
        return false;
    }
    self->state = all.state;
    self->state.algorithm[sizeof self->state.algorithm - 1] = '\0';
    self->options.epochs = all.epochs;
    self->options.test_images = all.test_images;
    return true;
}

/* All ranks get rank 0's. One that was started with other options ends the job. */
static bool share_state(trainer *self) {
    const checkpoint own = self->state;
    char reason[REASON_BYTES], difference[100];
    if (self->job->rank == 0 && !make_state(self, reason)) {
        job_stop(self->job, reason);
    }
    if (!share_header(self)) {
        return false;
    }
    if (!checkpoint_matches(&own, &self->state, difference, sizeof difference)) {
        (void)snprintf(reason, sizeof reason, "rank %u was not started like rank 0: %s", self->job->rank,
                       difference);
        job_stop(self->job, reason);
    }
    const uint64_t bytes = self->net.count * sizeof(float);
    return job_share(self->job, self->net.parameters, bytes) && job_share(self->job, self->velocity, bytes);
}

bool trainer_make(trainer *self, train_job *job, const train_options *options) {
    *self = (trainer){.job = job, .options = *options};
    const bool made = net_make(&self->net, options->channels);
    self->velocity = calloc(self->net.count, sizeof(float));
    self->order = calloc(options->images, sizeof(uint32_t));
    if (!made || self->velocity == NULL || self->order == NULL) {
        complain("rank %u: no memory", job->rank);
        return false;
    }
    self->state = checkpoint_new(options, self->net.count);
    self->pace.least = options->step_ms / 1000 / options->batch;
    self->pace.slow = job->rank == options->slow_rank ? options->slow_percent / 100 : 0;
    if (!share_state(self) || !average_make(&self->average, job, self->state.algorithm, options->monitor,
                                            self->net.gradients, self->net.count)) {
        return false;
    }
    (void)snprintf(self->state.algorithm, sizeof self->state.algorithm, "%s", self->average.algorithm);
    return true;
}

void trainer_free(trainer *self) {
    free(self->order);
    free(self->velocity);
    net_free(&self->net);
}

/* Sums over the ranks, and what rank 0 says of them. */
static bool tell(trainer *self, const tally *training, const tally *testing, double seconds) {
    double sums[] = {training->loss, training->right, training->seen,
                     testing->loss,  testing->right,  testing->seen};
    if (!job_good(self->job, gcoll_allreduce(self->job->context, NULL, sums, sizeof sums / sizeof sums[0],
                                             GCOLL_FLOAT64, GCOLL_SUM, NULL))) {
        return false;
    }
    self->tested = sums[5] > 0;
    self->accuracy = 100 * sums[4] / fmax(sums[5], 1);
    if (self->job->rank == 0) {
        (void)printf("epoch %" PRIu64 "/%u   training: loss %.4f, %5.1f %% right", self->state.epoch,
                     self->options.epochs, sums[0] / sums[2], 100 * sums[1] / sums[2]);
        if (self->tested) {
            (void)printf("   test: loss %.4f, %5.1f %% right", sums[3] / sums[5], self->accuracy);
        }
        (void)printf("   %.2f s\n", seconds);
        (void)fflush(stdout);
    }
    return true;
}

static void keep(trainer *self) {
    char reason[REASON_BYTES];
    if (self->job->rank == 0 && self->options.checkpoint != NULL &&
        !checkpoint_write(self->options.checkpoint, &self->state, self->net.parameters, self->velocity,
                          reason, sizeof reason)) {
        job_stop(self->job, reason);
    }
}

/* Too high a rate lets them grow without end. All ranks have the same, so all of them find it. */
static bool weights_are_numbers(const trainer *self) {
    for (size_t i = 0; i < self->net.count; i++) {
        if (!isfinite(self->net.parameters[i])) {
            complain("rank %u: after epoch %" PRIu64
                     " weights are no numbers any more; a smaller --rate than %g may help",
                     self->job->rank, self->state.epoch, self->options.rate);
            return false;
        }
    }
    return true;
}

bool trainer_run(trainer *self) {
    const uint64_t bytes = self->net.count * sizeof(float);
    while (self->state.epoch < self->options.epochs) {
        tally training = {0}, testing = {0};
        const double before = self->train_s;
        if (!train_epoch(self, &training)) {
            return false;
        }
        self->state.epoch++;
        if (!weights_are_numbers(self)) {
            return false;
        }
        train_test(self, &testing);
        if (!tell(self, &training, &testing, self->train_s - before) ||
            !job_agree(self->job, self->net.parameters, bytes, &self->weights)) {
            return false;
        }
        keep(self);
    }
    /* Once more for runs without epochs, and so that nobody leaves before rank 0 has written. */
    return job_agree(self->job, self->net.parameters, bytes, &self->weights);
}
