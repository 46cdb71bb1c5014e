/* train.c - stochastic gradient descent with momentum.
 *
 * Each step takes the next batch * size images of the epoch, and each rank computes the gradients for its
 * share of them. Their mean over the ranks is the gradient that one rank would have got from all these
 * images, so training by many ranks is training by one with a larger batch. */
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"

#define MOMENTUM 0.9F

static void count_image(tally *counts, double loss, bool right) {
    counts->loss += loss;
    counts->right += right ? 1 : 0;
    counts->seen += 1;
}

/* Of `count` things: where this rank's share begins. Shares differ by one at most. */
static uint64_t share_begins(const train_job *job, uint64_t count, uint32_t rank) {
    return count * rank / job->size;
}

static bool compute_gradients(trainer *self, uint32_t first, uint32_t count, tally *counts) {
    const uint64_t seed = self->options.seed;
    const uint64_t begin = share_begins(self->job, count, self->job->rank);
    const uint64_t end = share_begins(self->job, count, self->job->rank + 1);
    /* The mean over ranks divides by their number; the mean over images is wanted. */
    const real scale = (real)self->job->size / (real)count;
    real pixels[IMAGE_PIXELS];
    memset(self->net.gradients, 0, self->net.count * sizeof(real));
    for (uint64_t i = begin; i < end; i++) {
        const double begun_at = clock_now();
        const uint32_t number = self->order[first + i], label = data_class(number);
        bool right;
        data_image(seed, number, pixels);
        const double loss = net_forward(&self->net, pixels, label, &right);
        net_backward(&self->net, label, scale);
        count_image(counts, loss, right);
        pace_keep(&self->pace, begun_at);
        if (i + 1 == (begin + end) / 2 &&
            !average_part(&self->average, (double)(i + 1 - begin) / (double)(end - begin))) {
            return false;
        }
    }
    self->images += end - begin;
    return true;
}

static void update_weights(trainer *self) {
    const float rate = (float)self->options.rate;
    for (size_t i = 0; i < self->net.count; i++) {
        self->velocity[i] = MOMENTUM * self->velocity[i] - rate * self->net.gradients[i];
        self->net.parameters[i] += self->velocity[i];
    }
}

bool train_epoch(trainer *self, tally *counts) {
    const uint32_t images = self->options.images;
    const uint64_t batch = (uint64_t)self->options.batch * self->job->size;
    const uint32_t steps = (uint32_t)((images + batch - 1) / batch);
    const double begun_at = clock_now();
    progress bar =
        progress_begin(self->job->rank == 0, (uint32_t)self->state.epoch + 1, self->options.epochs, steps);
    bool good = true;
    data_order(self->options.seed, (uint32_t)self->state.epoch, images, self->order);
    for (uint32_t s = 0; good && s < steps; s++) {
        const uint64_t first = s * batch;
        const uint64_t count = images - first < batch ? images - first : batch;
        good = average_begin(&self->average) &&
               compute_gradients(self, (uint32_t)first, (uint32_t)count, counts) &&
               average_gradients(&self->average);
        if (good) {
            update_weights(self);
            progress_step(&bar, s + 1, counts->loss / fmax(counts->seen, 1));
        }
    }
    progress_end(&bar);
    self->train_s += clock_now() - begun_at;
    return good;
}

void train_test(trainer *self, tally *counts) {
    const uint64_t count = self->options.test_images;
    const uint64_t begin = share_begins(self->job, count, self->job->rank);
    const uint64_t end = share_begins(self->job, count, self->job->rank + 1);
    real pixels[IMAGE_PIXELS];
    for (uint64_t i = begin; i < end; i++) {
        const uint64_t number = DATA_TEST + i;
        bool right;
        data_image(self->options.seed, number, pixels);
        const double loss = net_forward(&self->net, pixels, data_class(number), &right);
        count_image(counts, loss, right);
    }
}
