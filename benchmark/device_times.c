/* benchmark/device_times.c - what the timed calls of all ranks had to do with devices. */
#include "benchmark/device_times.h"

static bool take(const bench_state *state, gcoll_device_times *times) {
    times->struct_size = sizeof *times;
    if (gcoll_context_device_times(state->context, times) == GCOLL_OK)
        return true;
    cli_complain("rank %u: %s", state->rank, gcoll_last_error());
    return false;
}

bool bench_device_begin(const bench_state *state) {
    gcoll_device_times before;
    return !state->has_devices || take(state, &before);
}

/* Negative: of nothing. */
static double part(double of, double whole) {
    return whole > 0 ? of / whole : -1;
}

bool bench_device_end(bench_state *state, bench_device_figures *figures) {
    enum { CALLS, ELAPSED, COPY, REDUCE, NETWORK, OVERLAP, COPY_EVENT, REDUCE_EVENT, COPIED, SUMS };
    gcoll_device_times t;
    *figures = (bench_device_figures){.any = false};
    if (!state->has_devices)
        return true;
    if (!take(state, &t))
        return false;
    double sums[SUMS] = {[CALLS] = (double)t.operations,
                         [ELAPSED] = (double)t.elapsed_ns,
                         [COPY] = (double)t.copy_ns,
                         [REDUCE] = (double)t.reduce_ns,
                         [NETWORK] = (double)t.network_ns,
                         [OVERLAP] = (double)t.overlap_ns,
                         [COPY_EVENT] = (double)t.copy_event_ns,
                         [REDUCE_EVENT] = (double)t.reduce_event_ns,
                         [COPIED] = (double)t.copied_in_bytes + (double)t.copied_out_bytes};
    uint64_t pinned = t.pinned_bytes;
    if (!bench_gather(state, sums, SUMS, GCOLL_FLOAT64, GCOLL_SUM) ||
        !bench_gather(state, &pinned, 1, GCOLL_UINT64, GCOLL_MAX))
        return false;
    if (!(sums[ELAPSED] > 0))
        return true;
    const double device = sums[COPY] + sums[REDUCE];
    *figures = (bench_device_figures){
        .any = true,
        .copy = part(sums[COPY], sums[ELAPSED]),
        .reduce = part(sums[REDUCE], sums[ELAPSED]),
        .network = part(sums[NETWORK], sums[ELAPSED]),
        .overlap = part(sums[OVERLAP], sums[NETWORK] < device ? sums[NETWORK] : device),
        .copy_event_us = sums[COPY_EVENT] / sums[CALLS] / 1e3,
        .reduce_event_us = sums[REDUCE_EVENT] / sums[CALLS] / 1e3,
        .copy_GBps = part(sums[COPIED], sums[COPY_EVENT]),
        .pinned_bytes = pinned,
    };
    return true;
}
