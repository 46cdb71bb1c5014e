/* benchmark/processes.h - ranks as processes of this machine, and a parent that looks after them. */
#ifndef GCOLL_BENCH_PROCESSES_H
#define GCOLL_BENCH_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one of them does. folder: for the ranks to meet in, or NULL; started_ns: bench_now_ns before its fork.
 * Returns its exit status, of which 1 means that it has said what was wrong. */
typedef int bench_process(void *arg, uint32_t rank, const char *folder, int64_t started_ns);

typedef struct bench_processes {
    uint32_t count;
    bool makes_folder;     /* which goes with the last process */
    int64_t limit_ms;      /* for all of it; 0: none */
    int64_t after_end_ms;  /* from the first one's end, if that was good, until the others are killed; 0: for
                              ever */
    int64_t after_loss_ms; /* the same if one failed */
    bench_process *run;
    void *arg;
} bench_processes;

/* Starts all and waits for all. Returns the exit status, in every child, too, with the child's own. */
int bench_processes_run(const bench_processes *processes);

#ifdef __cplusplus
}
#endif

#endif
