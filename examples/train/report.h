/* report.h - what a training took. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include "train.h"

/* Rank 0 prints two tables: of the ranks, and of the whole. */
bool report(trainer *self);

#endif
