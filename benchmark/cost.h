/* benchmark/cost.h - functions that the programs embed_cost and monitor_cost share. */
#ifndef GCOLL_BENCH_COST_H
#define GCOLL_BENCH_COST_H

#include <stdint.h>

#include "gcoll/gcoll.h"

/* Ends the program with gcoll's error text unless the status is GCOLL_OK. */
void cost_check(gcoll_status status);

double cost_now_us(void);

typedef struct cost_quartiles {
    double lower, median, upper;
} cost_quartiles;

/* Sorts the values. count >= 1. */
cost_quartiles cost_quartiles_of(double *values, uint32_t count);

#endif
