/* benchmark/arrival.h - --arrival, --compute, --monitor: ranks that compute before each timed call. */
#ifndef GCOLL_BENCH_ARRIVAL_H
#define GCOLL_BENCH_ARRIVAL_H

#include "benchmark/call.h"

/* Timed calls of this rank. */
typedef struct bench_times {
    double *us;
    double *entered_us; /* paced: after this rank has left the barriers before. Else NULL */
    uint32_t count;
} bench_times;

/* What --monitor takes. */
extern const cli_word bench_monitors[];
/* Those functions here that return bool have said what is wrong. */
bool bench_arrival_check(bench_options *options);
const char *bench_monitor_name(bench_monitor monitor);
/* Barriers, and then this rank's computation. *zero_ns: when it had left them. */
bool bench_arrive(bench_state *state, uint64_t operation, int64_t *zero_ns);
/* Collective. Nothing where calls are not paced. */
bool bench_arrival_figures_of(bench_call *call, const bench_times *times, bench_arrival_figures *figures);
/* To the monitor calls that follow are those that are timed or warm up, or the benchmark's own. */
typedef enum bench_site { BENCH_SITE_TIMED = 0, BENCH_SITE_OWN = 1 } bench_site;
bool bench_monitor_site(const bench_state *state, bench_site site);
/* What the monitor has seen of the timed call. False: it does not watch it. */
bool bench_monitor_look(const bench_call *call, gcoll_site_stats *stats);
void bench_monitor_print(const bench_state *state);

#endif
