/* benchmark/state.c - combines figures of all ranks. */
#include "benchmark/state.h"

#include "benchmark/clock.h"
#include "tools/progress.h"

/* Nothing is learned from these calls: vectors of figures have many lengths, and each
 * length would be a kind of call to learn about. */
bool bench_gather(bench_state *state, void *data, uint64_t count, gcoll_type type, gcoll_op op) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.same = GCOLL_SAME_IN_RUNS;
    if (gcoll_allreduce(state->context, NULL, data, count, type, op, &options) != GCOLL_OK) {
        cli_complain("rank %u: gathering figures: %s", state->rank, gcoll_last_error());
        return false;
    }
    return true;
}

bool bench_settle(bench_state *state) {
    const int64_t start = bench_now_ns();
    uint8_t is_over = !(state->options->settle_s > 0);
    while (!is_over) {
        if (gcoll_operation_run(state->barrier) != GCOLL_OK) {
            cli_complain("rank %u: barriers before the first size: %s", state->rank, gcoll_last_error());
            return false;
        }
        is_over = (double)(bench_now_ns() - start) > 1e9 * state->options->settle_s;
        if (!bench_gather(state, &is_over, 1, GCOLL_UINT8, GCOLL_MAX))
            return false;
    }
    return true;
}

void bench_point_progress(const bench_state *state, double part) {
    if (state->rank == 0)
        cli_progress(state->points + (part < 1 ? part : 1), NULL);
}
