/* benchmark/line_up.h - a barrier of processes of one machine, in a file that they share.
 *
 * It lines ranks up before a timed call without the library that is measured. Otherwise the order in which
 * ranks leave that library's own barrier is part of the time: who leaves it late finds the data waiting. */
#ifndef GCOLL_BENCH_LINE_UP_H
#define GCOLL_BENCH_LINE_UP_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_line_up_page bench_line_up_page;

typedef struct bench_line_up {
    bench_line_up_page *page;
    uint32_t ranks;
    double limit_ms; /* that a rank waits for the others */
} bench_line_up;

/* path: an empty file, or none yet, of this job alone. False has been said. */
bool bench_line_up_open(bench_line_up *line_up, const char *path, uint32_t ranks, double limit_ms);
/* Waits until all ranks have come. False has been said. */
bool bench_line_up_wait(const bench_line_up *line_up);
void bench_line_up_close(bench_line_up *line_up);

#ifdef __cplusplus
}
#endif

#endif
