/* benchmark/state.h - what one rank works with. */
#ifndef GCOLL_BENCH_STATE_H
#define GCOLL_BENCH_STATE_H

#include "benchmark/line_up.h"
#include "benchmark/memory.h"
#include "benchmark/options.h"
#include "benchmark/report.h"

/* What one rank works with. */
typedef struct bench_state {
    const bench_options *options;
    gcoll_context *context;
    gcoll_operation *barrier; /* lines the ranks up before an iteration, */
    bench_line_up line_up;    /* if this has no page */
    uint32_t rank;
    void **in; /* options->inputs buffers each, of the largest size */
    void **out;
    const bench_memory *memory; /* that they lie in */
    uint32_t *devices;          /* where buffer k is */
    void **streams;             /* by which it is written and read; NULL: by the host */
    unsigned char *mirror;      /* NULL: the host reaches the buffers */
    gcoll_memory where;         /* what the library is told of them, if there is a mirror */
    bool has_devices;           /* some rank's buffers are in the memory of one */
    bench_report report;
    uint32_t points; /* collectives at sizes that are done, of those that cli_progress_begin was told */
    uint64_t deals;  /* how often ranks were dealt out to cores */
    bool is_dealt;   /* they stay where they are until bench_release, */
    bool is_bound;   /* and this rank is bound to a core */
} bench_state;

/* Says how much of the present collective and size is done, 0 to 1. */
void bench_point_progress(const bench_state *state, double part);
/* Keeps the ranks busy, as options->settle_s says, until the scheduler has given each the core that it keeps.
 * False has been said. */
bool bench_settle(bench_state *state);
/* Combines figures of all ranks, in place. False has been said. */
bool bench_gather(bench_state *state, void *data, uint64_t count, gcoll_type type, gcoll_op op);

#endif
