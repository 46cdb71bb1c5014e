/* benchmark/launch.c - --local: the ranks are processes of this machine. */
#include "benchmark/launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "benchmark/clock.h"
#include "benchmark/processes.h"
#include "benchmark/run.h"

/* From the first rank's loss to the end of the others; the library takes about a second to tell them. */
#define GRACE_AFTER_LOSS_MS 3000

typedef struct launch {
    const bench_options *options;
    FILE *output;
    char job[40];
} launch;

static int run_child(void *arg, uint32_t rank, const char *folder, int64_t started_ns) {
    const launch *self = arg;
    const bench_options *options = self->options;
    gcoll_store *store;
    char url[1100];
    if (folder)
        (void)snprintf(url, sizeof url, "file:%s", folder);
    if (gcoll_store_open(folder ? url : options->store, bench_timeout_ms(options), &store) != GCOLL_OK) {
        cli_complain("rank %u: %s", rank, gcoll_last_error());
        return BENCH_FAILED;
    }
    bench_rank child = {.options = options,
                        .rank = rank,
                        .store = store,
                        .job = options->job ? options->job : self->job,
                        .output = self->output,
                        .started_ns = started_ns};
    int status = bench_run_rank(&child);
    gcoll_store_destroy(store);
    return status;
}

/* Gives the ranks that are started here a launch of their own, whatever launched this process. */
static bool name_launch(void) {
    uint64_t random[2];
    char name[40];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        cli_complain("a random name for the launch: %s", strerror(errno));
        return false;
    }
    (void)snprintf(name, sizeof name, "%016llx%016llx", (unsigned long long)random[0],
                   (unsigned long long)random[1]);
    if (setenv("GCOLL_LAUNCH", name, 1) != 0) {
        cli_complain("GCOLL_LAUNCH: %s", strerror(errno));
        return false;
    }
    return true;
}

int bench_local_processes(const bench_options *options, FILE *output) {
    launch self = {.options = options, .output = output};
    /* One name a run, as the store may be one that others use. */
    (void)snprintf(self.job, sizeof self.job, "bench-%d-%llx", (int)getpid(),
                   (unsigned long long)bench_now_ns());
    /* The last call is collective: when one is done, the others are, or will hear of it by their own time
     * limit. */
    const bench_processes processes = {.count = options->local,
                                       .makes_folder = !options->store,
                                       .after_end_ms = bench_timeout_ms(options) + GRACE_AFTER_LOSS_MS,
                                       .after_loss_ms = GRACE_AFTER_LOSS_MS,
                                       .run = run_child,
                                       .arg = &self};
    return name_launch() ? bench_processes_run(&processes) : BENCH_FAILED;
}
