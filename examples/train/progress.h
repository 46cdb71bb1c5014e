/* progress.h - a bar on a terminal, and nothing where standard error is none. */
#ifndef TRAIN_PROGRESS_H
#define TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool shown;
    uint32_t epoch, epochs, steps;
    double drawn_at;
} progress;

/* wanted: on one rank only. */
progress progress_begin(bool wanted, uint32_t epoch, uint32_t epochs, uint32_t steps);
void progress_step(progress *self, uint32_t done, double loss);
void progress_end(const progress *self);

#endif
