/* average.h - what makes training data-parallel: the mean of all ranks' gradients, after each step. */
#ifndef TRAIN_AVERAGE_H
#define TRAIN_AVERAGE_H

#include "job.h"

#define ALGORITHM_BYTES 128

typedef struct average {
    train_job *job;
    gcoll_allreduce_options options;
    char algorithm[ALGORITHM_BYTES];
    float *gradients; /* borrowed */
    uint64_t count;
    /* So far, on this rank: */
    uint64_t steps;
    double begun_at;  /* clock_now() */
    double compute_s; /* from average_begin to average_gradients, summed up */
    double elapsed_s; /* in average_gradients, summed up */
} average;

/* algorithm: gcoll's name for one, or "auto", which becomes the one that gcoll would take now. The same on
 * all ranks. */
bool average_make(average *self, train_job *job, const char *algorithm, float *gradients, uint64_t count);

/* The computation of a step begins. */
bool average_begin(average *self);

/* The computation is over: all ranks' gradients become their mean, with the same bits on each of them. */
bool average_gradients(average *self);

#endif
