/* benchmark/state.c - combines figures of all ranks. */
#include "benchmark/state.h"

bool bench_gather(bench_state *state, void *data, uint64_t count, gcoll_type type, gcoll_op op) {
    if (gcoll_allreduce(state->context, NULL, data, count, type, op, NULL) != GCOLL_OK) {
        cli_complain("rank %u: gathering figures: %s", state->rank, gcoll_last_error());
        return false;
    }
    return true;
}
