/* benchmark/cost.c - checks statuses, reads the clock, and computes quartiles for embed_cost and
 * monitor_cost. */
#include <stdlib.h>

#include "benchmark/clock.h"
#include "benchmark/cost.h"
#include "tools/cli_value.h"

void cost_check(gcoll_status status) {
    if (status != GCOLL_OK) {
        cli_complain("%s: %s", gcoll_status_text(status), gcoll_last_error());
        exit(1);
    }
}

double cost_now_us(void) {
    return (double)bench_now_ns() / 1e3;
}

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

cost_quartiles cost_quartiles_of(double *values, uint32_t count) {
    qsort(values, count, sizeof *values, by_value);
    return (cost_quartiles){
        .lower = values[count / 4], .median = values[count / 2], .upper = values[count - 1 - count / 4]};
}
