/* train.h - the training, as one rank does it. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "average.h"
#include "checkpoint.h"
#include "net.h"
#include "pace.h"

typedef struct trainer {
    train_options options; /* in what concerns all ranks, those of rank 0 */
    train_job *job;
    net net;
    float *velocity; /* of each parameter */
    uint32_t *order; /* of the images in this epoch */
    checkpoint state;
    average average;
    pace pace;
    /* On this rank: */
    double train_s;   /* in steps */
    uint64_t images;  /* used in steps */
    uint64_t weights; /* their hash after the latest epoch */
    bool tested;      /* there are images for testing, and was an epoch */
    double accuracy;  /* if tested: of all ranks' images after the latest epoch, in percent */
} trainer;

/* What is counted over images. */
typedef struct tally {
    double loss, right, seen;
} tally;

/* One pass over the images for training, and over those for testing, as far as they are this rank's. */
bool train_epoch(trainer *self, tally *counts);
void train_test(trainer *self, tally *counts);

/* All ranks with the same weights: new ones, or those of the checkpoint. False: has been said. trainer_free
 * is due in any case. */
bool trainer_make(trainer *self, train_job *job, const train_options *options);
void trainer_free(trainer *self);

/* The epochs that are left. */
bool trainer_run(trainer *self);

#endif
