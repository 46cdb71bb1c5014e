/* benchmark/state.c - combines figures of all ranks. */
#include "benchmark/state.h"

#include "tools/progress.h"

bool bench_gather(bench_state *state, void *data, uint64_t count, gcoll_type type, gcoll_op op) {
    if (gcoll_allreduce(state->context, NULL, data, count, type, op, NULL) != GCOLL_OK) {
        cli_complain("rank %u: gathering figures: %s", state->rank, gcoll_last_error());
        return false;
    }
    return true;
}

void bench_point_progress(const bench_state *state, double part) {
    if (state->rank == 0)
        cli_progress(state->points + (part < 1 ? part : 1), NULL);
}
