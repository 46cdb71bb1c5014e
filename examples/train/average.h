/* average.h - what makes training data-parallel: the mean of all ranks' gradients, after each step. */
#ifndef TRAIN_AVERAGE_H
#define TRAIN_AVERAGE_H

#include "job.h"

typedef struct average {
    train_job *job;
    gcoll_allreduce_options options;
    monitoring monitor;
    char algorithm[ALGORITHM_BYTES];
    float *gradients; /* borrowed */
    uint64_t count;
    /* So far, on this rank: */
    uint64_t steps;
    double begun_at;  /* clock_now() */
    double compute_s; /* from average_begin to average_gradients, summed up */
    double elapsed_s; /* in average_gradients, summed up */
} average;

/* algorithm: gcoll's name for one, or "auto": with a monitor it stays that, without one it becomes the one
 * that gcoll would take now. The same on all ranks. */
bool average_make(average *self, train_job *job, const char *algorithm, monitoring monitor, float *gradients,
                  uint64_t count);

/* The computation of a step begins. */
bool average_begin(average *self);

/* This part of it is done, 0 < fraction < 1. */
bool average_part(average *self, double fraction);

/* The computation is over: all ranks' gradients become their mean, with the same bits on each of them. */
bool average_gradients(average *self);

/* With a monitor: *heeded is the number of steps in which it was heeded who comes late, and self->algorithm
 * becomes that of the latest step. */
bool average_look(average *self, uint64_t *heeded);

#endif
