/* local.h - all ranks as processes of this machine. */
#ifndef TRAIN_LOCAL_H
#define TRAIN_LOCAL_H

#include "options.h"

typedef int rank_function(const train_options *options);

/* Runs `run` in options->local processes, each with rank, store and job of its own in its options. Returns
 * the exit status of the program: that of the first rank that failed, if any did. */
int local_run(const train_options *options, rank_function *run);

#endif
