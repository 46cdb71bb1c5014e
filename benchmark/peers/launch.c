/* benchmark/peers/launch.c - this process's rank, or all of them as processes of this machine, and an end to
 * them. */
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "benchmark/processes.h"
#include "peer.h"

/* The parent waits so much longer than its children, who can say what they were doing. */
#define PARENT_GRACE_MS 2000

static void out_of_time(int signal_number) {
    (void)signal_number;
    static const char text[] = "a peer's program took longer than --limit and was ended\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(PEER_FAILED);
}

void peer_limit(double seconds) {
    (void)signal(SIGALRM, out_of_time);
    (void)alarm((unsigned)ceil(seconds));
}

typedef struct launch {
    const peer_options *options;
    peer_rank rank;
} launch;

static int run_child(void *arg, uint32_t rank, const char *folder, int64_t started_ns) {
    const launch *self = arg;
    peer_options own = *self->options;
    (void)started_ns;
    own.rank = rank;
    own.store = folder ? folder : own.store;
    peer_limit(own.limit_s);
    return self->rank(&own);
}

int peer_launch(const peer_options *options, peer_rank rank) {
    launch self = {options, rank};
    if (options->local == 0) {
        peer_limit(options->limit_s);
        return rank(options);
    }
    const bench_processes processes = {.count = options->local,
                                       .makes_folder = !options->store,
                                       .limit_ms = (int64_t)ceil(options->limit_s * 1e3) + PARENT_GRACE_MS,
                                       .run = run_child,
                                       .arg = &self};
    return bench_processes_run(&processes);
}

int peer_main(const peer_program *program, int argc, char **argv,
              bool (*accepts)(const peer_options *options), peer_rank rank) {
    peer_options options;
    if (!peer_options_parse(program, argc, argv, &options))
        return CLI_USAGE;
    int status = CLI_USAGE;
    if (options.help) {
        peer_print_help(program);
        status = PEER_OK;
    } else if (accepts(&options)) {
        status = peer_launch(&options, rank);
    }
    peer_options_free(&options);
    return status;
}
