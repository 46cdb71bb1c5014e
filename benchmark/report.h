/* benchmark/report.h - the table of results, as text, JSON or CSV. */
#ifndef GCOLL_BENCH_REPORT_H
#define GCOLL_BENCH_REPORT_H

#include <stdio.h>

#include "benchmark/options.h"
#include "benchmark/statistics.h"

/* What the timed calls of all ranks had to do with devices (docs/benchmark.md). Shares are of the calls'
 * time. */
typedef struct bench_device_figures {
    bool any; /* else the rest is of no meaning */
    double copy, reduce, network;
    double overlap; /* part of the possible overlap, 0 to 1; negative: none is possible */
    double copy_event_us, reduce_event_us; /* of a call of a rank */
    double copy_GBps;                      /* negative: nothing was copied */
    uint64_t pinned_bytes;
} bench_device_figures;

/* Of paced calls; means over calls (docs/benchmark.md). */
typedef struct bench_arrival_figures {
    bool any; /* else the rest is of no meaning */
    double elapsed_us, from_mean_us, from_last_us;
    double imbalance_us, message_us; /* message_us: 0: there is none */
    bool watched;                    /* by the monitor */
    uint64_t heeded;                 /* watched: timed calls whose algorithm was chosen by arrival */
} bench_arrival_figures;

/* One line of the table. */
typedef struct bench_result {
    gcoll_collective collective;
    const char *algorithm; /* as the library names it, options included */
    const char *asked;     /* as it was asked for, for instance auto */
    uint64_t bytes, count; /* not for barrier */
    uint32_t iterations;
    bench_statistics time;
    bool checked;
    uint64_t wrong;
    bool has_rounding;
    double rounding; /* --rounding */
    bench_device_figures devices;
    bench_arrival_figures arrivals;
} bench_result;

/* Decimal GB/s by the median. The second is times what bench_bus_factor says. */
double bench_algbw(const bench_result *result);
double bench_busbw(const bench_result *result, uint32_t ranks);

typedef struct bench_report {
    FILE *file; /* NULL: not rank 0, nothing is printed */
    const bench_options *options;
    bool has_devices;            /* some rank's buffers are in the memory of one */
    gcoll_collective collective; /* of the last line */
    uint64_t wrong, lines;
    struct json_object *kept; /* array of the results, for options->report; else NULL */
} bench_report;

void bench_report_begin(bench_report *report, const bench_options *options, bool has_devices, FILE *file);
/* False if it could not be written. */
bool bench_report_add(bench_report *report, const bench_result *result);
/* Writes the last lines, and the page that --report names. */
bool bench_report_end(bench_report *report);
void bench_report_free(bench_report *report);

#endif
