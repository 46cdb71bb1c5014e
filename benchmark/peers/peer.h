/*
 * benchmark/peers/peer.h - what the peers' benchmark programs share, so that their figures and those of
 * gcoll_bench are taken by the same rules (docs/benchmark.md, "What is timed").
 *
 *   raw.c, mpi.c, gloo.cc -> options.c, launch.c (processes of this machine), measure.c (one line of JSON)
 *
 * None of it uses gcoll: only tools/cli.h, which reads command lines, and benchmark/processes.h are the same.
 * Functions that can fail say why on standard error and return false (or an exit status).
 */
#ifndef GCOLL_PEER_H
#define GCOLL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/cli.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit statuses; CLI_USAGE besides. */
#define PEER_OK     0
#define PEER_FAILED 1

typedef enum peer_collective {
    PEER_ALLREDUCE,
    PEER_ALLGATHER,
    PEER_REDUCE_SCATTER,
    PEER_BROADCAST,
    PEER_ALLTOALL,
    PEER_BARRIER,
    PEER_COLLECTIVES
} peer_collective;

const char *peer_collective_name(peer_collective collective);

/* ---- options.c ------------------------------------------------------------------------------------------
 */

typedef struct peer_options {
    uint32_t local; /* ranks started here; 0: this process is one rank */
    uint32_t rank, size;
    const char *store; /* a folder; NULL: a temporary one */
    const char *job;
    const char *interface; /* name of a network interface */
    peer_collective collective;
    const char *algorithm; /* NULL: the program's own choice */
    cli_list sizes;
    double settle_s; /* barriers before the first size; 0: none */
    uint32_t warmup;
    uint32_t iterations; /* 0: as many as fit into seconds */
    double seconds;
    bool with_barrier;   /* the barrier before a call is timed, too */
    const char *line_up; /* a file; NULL: ranks are lined up by the library's own barrier */
    double limit_s;      /* the program is ended after so long */
    bool help;
} peer_options;

/* What a program says of itself. */
typedef struct peer_program {
    const char *about;      /* the first lines of the help */
    const char *algorithms; /* the last ones; may be NULL */
    bool starts_ranks;      /* takes --local, --rank and so on: nobody else starts its ranks */
} peer_program;

/* Reads the command line. False: exit with CLI_USAGE. */
bool peer_options_parse(const peer_program *program, int argc, char **argv, peer_options *options);
void peer_options_free(peer_options *options);
void peer_print_help(const peer_program *program);

/* ---- launch.c -------------------------------------------------------------------------------------------
 */

/* One rank from joining to leaving; returns its exit status. */
typedef int (*peer_rank)(const peer_options *options);

/* Runs this process's rank, or with --local all of them as processes that meet in a temporary folder. When
 * one fails the others are killed. All end by the time limit. Returns the exit status, in every process of a
 * rank, too. */
int peer_launch(const peer_options *options, peer_rank rank);

/* What main does in a program that starts its ranks. `accepts` says whether the options make sense to it; if
 * not, it has said why. */
int peer_main(const peer_program *program, int argc, char **argv,
              bool (*accepts)(const peer_options *options), peer_rank rank);

/* From here on the process ends with a message when the time limit has passed, wherever it hangs. */
void peer_limit(double seconds);

/* ---- measure.c ------------------------------------------------------------------------------------------
 */

/* How the program lines up its ranks and combines figures, by means of the library that it measures. */
typedef struct peer_job {
    uint32_t rank, size;
    void *self;
    bool (*barrier)(void *self);
    bool (*max)(void *self, double *values, uint32_t count); /* of all ranks, in place */
} peer_job;

/* A collective at one size. */
typedef struct peer_call {
    const char *program;   /* "gloo" */
    const char *algorithm; /* NULL: the library does not say */
    peer_collective collective;
    uint64_t bytes; /* of the whole vector, as gcoll_bench counts; what peer_round_bytes leaves of it */
    void *in, *out; /* room for the whole vector each; the same where it works in place */
    void *self;
    bool (*run)(void *self);
    /* NULL: inputs and results are those of the collective over float32, with sums. */
    void (*fill)(void *self);
    uint64_t (*count_wrong)(void *self);
} peer_call;

/* Bytes that can be divided into equal blocks of float32 where the collective has blocks. */
uint64_t peer_round_bytes(peer_collective collective, uint64_t bytes, uint32_t ranks);

/* Checks, warms up, times, checks again, and prints a line of JSON on rank 0. A wrong result is a failure. */
bool peer_measure(const peer_job *job, const peer_options *options, const peer_call *call);

/* The same number of calls on every rank; the slowest rank's median. For trying things out. */
bool peer_try(const peer_job *job, const peer_call *call, uint32_t calls, double *median_us);

#ifdef __cplusplus
}
#endif

#endif
