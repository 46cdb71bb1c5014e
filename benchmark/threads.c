/* benchmark/threads.c - --transport inproc: the ranks are threads of this process and meet in its memory. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/clock.h"
#include "benchmark/launch.h"
#include "benchmark/run.h"

typedef struct thread_rank {
    bench_rank self;
    pthread_t thread;
    int status;
} thread_rank;

static void *run_thread(void *arg) {
    thread_rank *rank = arg;
    rank->status = bench_run_rank(&rank->self);
    return NULL;
}

/* Starts all, waits for all. Where one cannot start, the others give up when the rendezvous times out. */
static int run_all(const bench_options *options, FILE *output, gcoll_store *store, gcoll_hub *hub,
                   thread_rank *ranks) {
    int status = BENCH_OK;
    uint32_t started = 0;
    for (; started < options->local; started++) {
        thread_rank *rank = &ranks[started];
        rank->self = (bench_rank){.options = options,
                                  .rank = started,
                                  .store = store,
                                  .hub = hub,
                                  .job = options->job,
                                  .output = output,
                                  .started_ns = bench_now_ns()};
        int error = pthread_create(&rank->thread, NULL, run_thread, rank);
        if (error != 0) {
            cli_complain("starting the thread of rank %u: %s", started, strerror(error));
            status = BENCH_FAILED;
            break;
        }
    }
    for (uint32_t r = 0; r < started; r++) {
        (void)pthread_join(ranks[r].thread, NULL);
        if (ranks[r].status != BENCH_OK)
            status = BENCH_FAILED;
    }
    return status;
}

int bench_local_threads(const bench_options *options, FILE *output) {
    int status = BENCH_FAILED;
    gcoll_store *store = NULL;
    gcoll_hub *hub = NULL;
    thread_rank *ranks = calloc(options->local, sizeof *ranks);
    if (!ranks) {
        cli_complain("out of memory for %u ranks", options->local);
        return BENCH_FAILED;
    }
    if (gcoll_store_memory_create(&store) != GCOLL_OK || gcoll_hub_create(options->local, &hub) != GCOLL_OK)
        cli_complain("%s", gcoll_last_error());
    else
        status = run_all(options, output, store, hub, ranks);
    gcoll_hub_destroy(hub);
    gcoll_store_destroy(store);
    free(ranks);
    return status;
}
