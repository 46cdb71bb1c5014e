/* benchmark/options.h - what gcoll_bench was asked for. */
#ifndef GCOLL_BENCH_OPTIONS_H
#define GCOLL_BENCH_OPTIONS_H

#include <stdio.h>

#include "gcoll/gcoll.h"
#include "tools/cli.h"
#include "tools/cli_arrival.h"

/* Exit statuses. */
#define BENCH_OK     0
#define BENCH_FAILED 1 /* wrong results, an error of the library, a lost rank */
#define BENCH_USAGE  CLI_USAGE

typedef enum bench_monitor {
    BENCH_MONITOR_OFF = 0,
    BENCH_MONITOR_ON = 1,
    BENCH_MONITOR_EDGES = 2 /* and is told how far computations are */
} bench_monitor;

typedef enum bench_format { BENCH_TABLE = 0, BENCH_JSON = 1, BENCH_CSV = 2 } bench_format;

/* One block of the table: a collective run by one algorithm. */
typedef struct bench_case {
    gcoll_collective collective;
    char *algorithm; /* "ring:segment=1Mi", "auto" */
    bool optional;   /* came from "all": where it does not apply it is passed over */
} bench_case;

typedef struct bench_plugin bench_plugin; /* plugin.h */
typedef struct bench_plan bench_plan;     /* plan.h */

typedef struct bench_options {
    int64_t rank;      /* -1: not given */
    uint32_t local;    /* ranks started here; 0: this process is one rank of a job on several hosts */
    uint32_t size;     /* ranks of the job, with --local too */
    const char *store; /* NULL: a folder of our own */
    const char *job;   /* NULL: default */
    const char *transport_text; /* as given; NULL: not given */
    const char *transport;      /* its name, and never "auto" */
    const char *interface;
    gcoll_environment environment; /* of the launcher, for what was not given; store and job may lie here */
    gcoll_ibverbs_options ibverbs;
    bool inproc;        /* transport is that one */
    bool has_ibverbs;   /* one of its flags was given */
    bool on_device;     /* buffers lie in the memory of CUDA devices */
    bool shared;        /* buffers come from gcoll_memory_alloc */
    const char *device; /* as given; NULL: host */
    cli_list devices;   /* on_device: their numbers; empty: all */
    double timeout_ms;

    const char *collective; /* as given */
    const char *algorithm;
    bench_plugin *plugins; /* in the order given */
    const char *plan;      /* a file of plans, or NULL */
    bench_plan *planned;   /* those in it */
    bench_case *cases;     /* from collective and algorithm */
    size_t case_count;
    cli_list sizes; /* multiples of the size of the type */
    gcoll_type type;
    gcoll_op op;
    gcoll_memory_local local_reduction; /* on_device */
    uint32_t root;
    uint32_t inputs;
    uint32_t exchanges;         /* pairwise_exchange; 0: as many as ranks can be doubled up to size */
    double prescale, postscale; /* factors of inputs and of results; 0: none */
    const char *codec;          /* as options.codec; NULL: none */

    uint32_t warmup;
    uint32_t iterations; /* 0: as many as fit into seconds */
    double seconds;
    double settle_s; /* 0: not at all */
    bool time_given;
    bool no_check;
    bool rounding;
    bool in_place;
    bool one_shot;
    bool back_to_back;
    bool with_barrier;
    const char *line_up; /* a file; NULL: by the library's own barrier */

    bool paced; /* ranks compute before each call, as the next four say */
    cli_arrival arrival;
    double compute_ms;
    bench_monitor monitor;

    int same;                /* gcoll_same, of the context; -1: not given */
    int order;               /* gcoll_order, of the context; 0: not given */
    const char *tuning;      /* of the context: "fit", "default", a file; NULL: the library's own choice */
    const char *tune;        /* the file that --tune writes; NULL: not asked for */
    const char *network_out; /* the file that --network-out writes; NULL: not asked for */
    bool tune_check;

    bench_format format;
    const char *output;  /* NULL: standard output */
    const char *trace;   /* a folder for the ranks' dumps, or NULL */
    const char *report;  /* the page that is written, or NULL */
    const char *results; /* of earlier runs, for the page; NULL: this one's */
    char **argv;         /* the command line, for the page */
    int argc;
    bool verbose;
    bool resources;
    bool help, version, list_devices; /* asked for: nothing is run */
    bool checksum;
} bench_options;

/* Reads the command line. False: something is wrong and has been said; exit with BENCH_USAGE. */
bool bench_options_parse(bench_options *options, int argc, char **argv);
void bench_options_free(bench_options *options);
/* Bytes of the buffers of one rank; UINT64_MAX if that is not a number of 64 bits. */
uint64_t bench_buffer_bytes(const bench_options *options);
/* Whether a separate input is used at all. */
bool bench_needs_input(const bench_options *options);
uint64_t bench_largest_size(const bench_options *options);
/* The reproducibility that calls ask for (options.same). --same decides. Without it, runs that name an
 * algorithm ask for none, so that each can be measured, and others take the library's default. */
gcoll_same bench_same(const bench_options *options);
const char *bench_order_name(gcoll_order order);
/* Of a call of the library. */
int64_t bench_timeout_ms(const bench_options *options);

#endif
