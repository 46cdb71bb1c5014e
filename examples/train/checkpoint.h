/* checkpoint.h - the state of a training in a file, for this processor's order of bytes. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "average.h"

/* Stands at the beginning of the file. What the training is must be the same in a run that goes on; random
 * numbers follow from seed and epoch. */
typedef struct checkpoint {
    char magic[16]; /* with the version */
    uint64_t seed, images, batch, ranks, channels, parameters;
    double rate;
    uint64_t epoch; /* done */
    char algorithm[ALGORITHM_BYTES];
    uint64_t hash; /* of the whole file, with 0 here */
} checkpoint;

/* Where a training by these options begins. */
checkpoint checkpoint_new(const train_options *options, uint64_t parameters);

/* Is it the same training? False: `what` says what differs. */
bool checkpoint_matches(const checkpoint *self, const checkpoint *other, char *what, size_t bytes);

/* Replaces the file in one step: whatever happens meanwhile, the old one or the new one is there. */
bool checkpoint_write(const char *path, const checkpoint *self, const float *weights, const float *velocity,
                      char *what, size_t bytes);

/* Asked before anything is trained, so that it fails then. */
bool checkpoint_can_be_written(const char *path, char *what, size_t bytes);

/* Reads a file of the same training as *self, and replaces all three. */
bool checkpoint_read(const char *path, checkpoint *self, float *weights, float *velocity, char *what,
                     size_t bytes);

#endif
