/* algorithms/allreduce/allreduce_bcube.h - the options of bcube, which cuda_bcube has as well. */
#ifndef GCOLL_ALLREDUCE_BCUBE_H
#define GCOLL_ALLREDUCE_BCUBE_H

#include "algorithms/planners.h"

extern const gcoll_option gcoll_bcube_options[];

#endif
