/* benchmark/device_times.h - what timed calls had to do with devices. */
#ifndef GCOLL_BENCH_DEVICE_TIMES_H
#define GCOLL_BENCH_DEVICE_TIMES_H

#include "benchmark/state.h"

/* Around timed calls; the second is collective. Nothing where no rank has buffers on a device. False has been
 * said. */
bool bench_device_begin(const bench_state *state);
bool bench_device_end(bench_state *state, bench_device_figures *figures);

#endif
