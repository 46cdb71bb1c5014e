/*
 * benchmark/bench.h - gcoll_bench: what its files share. Uses the public headers of gcoll only.
 *
 *   main.c -> options.c (flags.c) -> launch.c (processes, threads) -> run.c (one rank)
 *          -> measure.c (one line of the table) -> call.c, check.c, rounding.c, shape.c, values.c, report.c
 *   arrival.c is what ranks do between calls; buffers.c (buffers_cuda.c or buffers_absent.c) is where the
 * buffers are
 *
 * Functions that can fail say why on standard error and return false (or an exit status).
 */
#ifndef GCOLL_BENCH_H
#define GCOLL_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gcoll/gcoll.h"
#include "tools/cli.h"
#include "tools/cli_arrival.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* A shared object of algorithms. */
typedef struct bench_plugin {
    const gcoll_algorithm *const *algorithms; /* ended by NULL */
    void *object;
    struct bench_plugin *next;
} bench_plugin;

typedef struct bench_options {
    int64_t rank;          /* -1: not given */
    uint32_t local;        /* ranks started here; 0: this process is one rank of a job on several hosts */
    uint32_t size;         /* ranks of the job, with --local too */
    const char *store;     /* NULL: a folder of our own */
    const char *job;       /* NULL: default */
    const char *transport; /* its name, and never "auto" */
    const char *interface;
    gcoll_ibverbs_options ibverbs;
    bool inproc;        /* transport is that one */
    bool has_ibverbs;   /* one of its flags was given */
    bool on_device;     /* buffers lie in the memory of CUDA devices */
    const char *device; /* as given; NULL: host */
    cli_list devices;   /* on_device: their numbers; empty: all */
    int64_t timeout_ms;

    const char *collective; /* as given */
    const char *algorithm;
    const char *bytes;
    bench_plugin *plugins; /* in the order given */
    bench_case *cases;     /* from collective and algorithm */
    size_t case_count;
    cli_list sizes; /* from bytes; multiples of the size of the type */
    gcoll_type type;
    gcoll_op op;
    gcoll_memory_local local_reduction; /* on_device */
    uint32_t root;
    uint32_t inputs;
    uint32_t exchanges; /* pairwise_exchange; 0: as many as ranks can be doubled up to size */

    uint32_t warmup;
    uint32_t iterations; /* 0: as many as fit into seconds */
    double seconds;      /* 0: not given; set to a default unless iterations is given */
    bool no_check;
    bool rounding;
    bool in_place;
    bool one_shot;
    bool back_to_back;

    bool paced; /* ranks compute before each call, as the next four say */
    cli_arrival arrival;
    const char *arrival_text; /* as given; NULL: none */
    double compute_ms;
    bench_monitor monitor;

    const char *tuning; /* of the context: "fit", "default", a file; NULL: the library's own choice */
    const char *tune;   /* the file that --tune writes; NULL: not asked for */
    bool tune_check;

    bench_format format;
    const char *output; /* NULL: standard output */
    bool verbose;
    bool resources;
    bool help, version, list_devices; /* asked for: nothing is run */
} bench_options;

/* One rank, and what it shares with others. */
typedef struct bench_rank {
    const bench_options *options;
    uint32_t rank;
    gcoll_store *store; /* borrowed */
    gcoll_hub *hub;     /* inproc: borrowed */
    const char *job;
    FILE *output;       /* where rank 0 prints; borrowed */
    int64_t started_ns; /* bench_now_ns when it was about to be started */
} bench_rank;

/* ---- options.c, flags.c, plugin.c ------------------------------------------------------------------ */

/* The index-th algorithm of a collective: the library's, then those of plugins; NULL past the end. */
const char *bench_algorithm_at(const bench_options *options, gcoll_collective collective, uint32_t index);
/* Whether the text may name one of them (else the last error says why); whether that heeds arrivals. */
bool bench_algorithm_known(const bench_options *options, gcoll_collective collective, const char *text);
bool bench_uses_arrival(const bench_options *options, gcoll_collective collective, const char *text);
bool bench_load(bench_options *options, const char *flag, const char *path);
void bench_unload(bench_options *options);
/* Makes them known to a context. False has been said. */
bool bench_register(const bench_options *options, gcoll_context *context);

/* Reads the command line. False: something is wrong and has been said; exit with BENCH_USAGE. */
bool bench_options_parse(bench_options *options, int argc, char **argv);
void bench_options_free(bench_options *options);
/* Applies the flags only, each checked by itself. */
bool bench_flags_parse(bench_options *options, int argc, char **argv);
void bench_print_help(FILE *file);
/* Bytes of the buffers of one rank; UINT64_MAX if that is not a number of 64 bits. */
uint64_t bench_buffer_bytes(const bench_options *options);
/* Whether a separate input is used at all. */
bool bench_needs_input(const bench_options *options);
uint64_t bench_largest_size(const bench_options *options);
/* Of a call of the library. */
int64_t bench_timeout_ms(const bench_options *options);

/* ---- launch.c, threads.c, run.c ------------------------------------------------------------------- */

/* Each returns the exit status. bench_local_processes returns in every child, too, with the child's status.
 */
int bench_local_processes(const bench_options *options, FILE *output);
int bench_local_threads(const bench_options *options, FILE *output);
int bench_single_rank(const bench_options *options, FILE *output);

/* Joins the job and measures every case at every size. */
int bench_run_rank(const bench_rank *self);

/* ---- buffers.c, buffers_cuda.c or buffers_absent.c ------------------------------------------------ */

typedef struct bench_state bench_state;

/* A kind of memory. The functions return false when they have said what is wrong. */
typedef struct bench_memory {
    /* How many devices have such memory: 1 and more. */
    bool (*count)(uint32_t *devices);
    /* Aligned to a page; bytes: a multiple of one. */
    bool (*allocate)(uint32_t device, uint64_t bytes, void **buffer);
    void (*release)(uint32_t device, void *buffer); /* NULL is fine */
    /* NULL where the host reaches the memory itself. A copy is ordered by the stream, and done on return. */
    bool (*open_stream)(uint32_t device, void **stream);
    void (*close_stream)(uint32_t device, void *stream);
    bool (*upload)(uint32_t device, void *stream, void *to, const void *from, uint64_t bytes);
    bool (*download)(uint32_t device, void *stream, void *to, const void *from, uint64_t bytes);
} bench_memory;

extern const bench_memory bench_host_memory, bench_cuda_memory;

const bench_memory *bench_memory_of(const bench_options *options);
/* Reads what --device says. False has been said. */
bool bench_device_parse(bench_options *options, const char *flag, const char *text);
/* Whether the devices that were asked for are there. Asked before any rank is started. False has been said.
 */
bool bench_devices_ready(const bench_options *options);

/* False has been said. bench_buffers_close: also after that. */
bool bench_buffers_open(bench_state *state);
void bench_buffers_close(bench_state *state);
/* Where the host writes what is to be in a buffer, and then has it put there. The next use of any buffer ends
 * it. `buffer`: any place in buffer k. */
unsigned char *bench_draft(const bench_state *state, void *buffer);
bool bench_commit(const bench_state *state, uint32_t k, void *buffer, uint64_t bytes);
/* What is in it, until the next use of any buffer. NULL: has been said. */
const unsigned char *bench_read(const bench_state *state, uint32_t k, const void *buffer, uint64_t bytes);

/* ---- devices.c ------------------------------------------------------------------------------------ */

/* Returns the exit status. */
int bench_list_devices(FILE *output);

/* ---- resources.c ---------------------------------------------------------------------------------- */

/* What a rank had cost when it had joined. */
typedef struct bench_resources {
    uint64_t startup_us, dirty_kib, pss_kib, sockets, cpu_us, switches;
} bench_resources;

void bench_resources_joined(bench_resources *resources, int64_t started_ns);
/* Collective. Rank 0 prints what the ranks have cost until now, to standard error. False has been said. */
bool bench_resources_report(const bench_resources *resources, gcoll_context *context);

/* ---- values.c ------------------------------------------------------------------------------------- */

/* Values repeat after this many elements: a prime, so that no chunk of a usual size that lands in the wrong
 * place finds there what it holds. */
#define BENCH_PERIOD 1021u

/* What contributors put in and what their reduction is: patterns of BENCH_PERIOD elements. The element at
 * position i of the vector is element i % BENCH_PERIOD of a pattern. */
typedef struct bench_values {
    gcoll_type type;
    gcoll_op op;
    uint64_t total; /* contributors */
    size_t element_bytes;
    unsigned char *result;      /* a pattern; NULL: nothing is reduced */
    unsigned char *contributor; /* room for one */
} bench_values;

/* A byte of what must be overwritten: no value is made of it, in any type. */
#define BENCH_POISON 0xa5

/* The owner of elements, where it is not a contributor. */
#define BENCH_RESULT  (-1) /* the reduction of all */
#define BENCH_GARBAGE (-2) /* what must be overwritten */

/* Every result is exact in every order of evaluation, as all partial results are small integers. Contributor
 * g is buffer g % inputs of rank g / inputs. */
bool bench_values_create(gcoll_type type, gcoll_op op, uint64_t total, bool reduces, bench_values *values);
/* What `owner` has. Valid until the next call. */
const unsigned char *bench_values_of(bench_values *values, int64_t owner);
void bench_values_free(bench_values *values);

/* Elements from position `position` of a vector that repeats the pattern. */
void bench_fill(void *data, const unsigned char *pattern, size_t element_bytes, uint64_t position,
                uint64_t count);
/* The number of elements that differ from the pattern; the first of them in *first. */
uint64_t bench_count_wrong(const void *data, const unsigned char *pattern, size_t element_bytes,
                           uint64_t position, uint64_t count, uint64_t *first);

/* ---- statistics.c, report.c ----------------------------------------------------------------------- */

typedef struct bench_statistics {
    double min_us, p50_us, p95_us, p99_us, max_us, mean_us;
} bench_statistics;

/* Sorts times_us. count >= 1. Percentiles by nearest rank. */
void bench_statistics_of(double *times_us, size_t count, bench_statistics *statistics);

/* What the timed calls of all ranks had to do with devices (docs/benchmark.md). Shares are of the calls'
 * time. */
typedef struct bench_device_figures {
    bool any; /* else the rest is of no meaning */
    double copy, reduce, network;
    double overlap;                        /* of what it could be at most; negative: there was nothing to */
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
    bool progress;               /* standard error is a terminal */
    bool has_devices;            /* some rank's buffers are in the memory of one */
    gcoll_collective collective; /* of the last line */
    uint64_t wrong, lines;
} bench_report;

void bench_report_begin(bench_report *report, const bench_options *options, bool has_devices, FILE *file);
/* False if it could not be written. */
bool bench_report_add(bench_report *report, const bench_result *result);
bool bench_report_end(bench_report *report);
/* A line that the next one replaces, on a terminal only. */
void bench_report_progress(bench_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- run.c, measure.c, call.c, shape.c, check.c, rounding.c --------------------------------------- */

/* What one rank works with. */
struct bench_state {
    const bench_options *options;
    gcoll_context *context;
    gcoll_operation *barrier; /* lines the ranks up before an iteration */
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
    uint64_t deals; /* how often ranks were dealt out to cores */
};

typedef enum bench_outcome {
    BENCH_DONE = 0,
    BENCH_SKIPPED = 1, /* the algorithm does not apply, and was not asked for by name */
    BENCH_BROKEN = 2   /* has been said; the context may not be usable any more */
} bench_outcome;

/* A case at one size, as a call of the library. */
typedef struct bench_call {
    bench_state *state;
    const bench_case *what;
    uint64_t bytes, count; /* of the whole vector */
    bool in_place;         /* this rank's input and output share memory */
    const void *input;
    void *output;
    uint64_t *counts;             /* blocks of uneven size: one entry a rank. Else NULL */
    uint64_t in_count, out_count; /* elements of this rank's input and output */
    gcoll_collective_options common;
    gcoll_allreduce_options allreduce;
    gcoll_broadcast_options broadcast;
    gcoll_barrier_options barrier;
    gcoll_operation *operation;
} bench_call;

/* On anything but BENCH_DONE there is nothing to destroy. */
bench_outcome bench_call_create(bench_call *call, bench_state *state, const bench_case *what, uint64_t bytes,
                                bool in_place);
/* One collective call, by the operation or (--one-shot) the plain function. False has been said. */
bool bench_call_run(bench_call *call);
void bench_call_destroy(bench_call *call);

/* Where input and output of buffer k are. */
void *bench_input_of(const bench_call *call, uint32_t k);
void *bench_output_of(const bench_call *call, uint32_t k);

/* Elements that belong together: `count` of them, which `owner` has at `position` of its vector. */
typedef struct bench_piece {
    uint64_t count, position;
    int64_t owner;
} bench_piece;

/* The pieces of input and output of buffer k, from element `at` on (below in_count, out_count). */
bench_piece bench_input_piece(const bench_call *call, uint32_t k, uint64_t at);
bench_piece bench_output_piece(const bench_call *call, uint64_t at);

/* What a collective has. */
bool bench_reduces(gcoll_collective collective);
bool bench_has_root(gcoll_collective collective);
bool bench_has_blocks(gcoll_collective collective);
bool bench_takes_inputs(gcoll_collective collective); /* more than one a rank */
bool bench_has_exchanges(gcoll_collective collective);
bool bench_takes_in_place(gcoll_collective collective);
double bench_bus_factor(gcoll_collective collective, uint32_t ranks);
/* Elements of the vector: `count` or, where all blocks must be equal, the next multiple of ranks below. */
uint64_t bench_round_count(gcoll_collective collective, uint64_t count, uint32_t ranks);

/* Inputs as they should be, outputs as they must not stay. False has been said. */
bool bench_check_prepare(const bench_call *call, bench_values *values);
/* Adds the number of elements of this rank that are wrong; says where. False: they could not be read, has
 * been said. */
bool bench_check_results(const bench_call *call, bench_values *values, uint64_t *wrong);
/* Runs on random floating-point inputs: *largest is the largest difference of any result on any rank from the
 * sum in double precision, relative to the sum of magnitudes. False has been said. */
bool bench_rounding(bench_call *call, double *largest);
/* Runs barriers with one rank late each time, and counts those that some rank left before the last one had
 * come. The ranks must be on one host. The same number on every rank. */
bool bench_check_barrier(bench_call *call, uint64_t *wrong);

/* Checks, times, checks again, reports. Adds what was wrong on any rank to *wrong. bytes: 0 for a barrier. */
bench_outcome bench_measure(bench_state *state, const bench_case *what, bench_values *values, uint64_t bytes,
                            uint64_t *wrong);

/* ---- arrival.c ------------------------------------------------------------------------------------- */

/* Timed calls of this rank. */
typedef struct bench_times {
    double *us;
    double *entered_us; /* paced: after this rank has left the barriers before. Else NULL */
    uint32_t count;
} bench_times;

/* Read what the flags say. Those functions here that return bool have said what is wrong. */
bool bench_arrival_parse(bench_options *options, const char *flag, const char *text);
bool bench_compute_parse(bench_options *options, const char *flag, const char *text);
bool bench_monitor_parse(bench_options *options, const char *flag, const char *text);
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

/* ---- device_times.c -------------------------------------------------------------------------------- */

/* Around timed calls; the second is collective. Nothing where no rank has buffers on a device. False has been
 * said. */
bool bench_device_begin(const bench_state *state);
bool bench_device_end(bench_state *state, bench_device_figures *figures);

/* ---- tune.c, tune_race.c, tune_file.c, tune_check.c ----------------------------------------------- */

#define BENCH_MOST_ROUNDS 75

/* Of two candidates: the median over rounds of one's time over the other's, and its standard error. */
typedef struct bench_ratio {
    double median, error;
} bench_ratio;

/* An algorithm with its options at one size, and how it did. */
typedef struct bench_candidate {
    bench_case what;
    char name[128]; /* as the library names it, with what auto or cost has chosen; "" until it has run */
    double round_us[BENCH_MOST_ROUNDS];
    uint32_t rounds;
    double us;         /* the median of its rounds */
    double spent_us;   /* in all of them */
    bench_ratio ratio; /* to the first of its field */
    bool alive;        /* else it does not apply, or others are faster */
} bench_candidate;

typedef struct bench_field {
    bench_candidate *at;
    size_t count;
} bench_field;

/* One round: all candidates that are alive, one after the other, some calls each. False has been said. */
bool bench_field_round(bench_state *state, bench_field *field, uint64_t bytes, bool backwards);
/* Rounds with fewer and fewer, until those that are left are told apart or time is up. The fastest comes
 * first, those that do not apply last. */
bool bench_field_race(bench_state *state, bench_field *field, uint64_t bytes);
bool bench_field_add(bench_field *field, gcoll_collective collective, const char *algorithm);
void bench_field_free(bench_field *field);
/* What the calls of all candidates took until now, the same on every rank. */
double bench_field_spent(const bench_field *field);
/* Over the rounds that both have run. */
bench_ratio bench_ratio_of(const bench_candidate *a, const bench_candidate *b);
/* Sizes of a collective: 1 for a barrier. */
size_t bench_tune_sizes(const bench_options *options, gcoll_collective collective);
uint64_t bench_tune_size(const bench_options *options, gcoll_collective collective, size_t index);

/* Keeps the ranks busy until they run as they will go on, unless the number of calls is given. */
bool bench_settle(bench_state *state);
/* --tune: measures, and rank 0 writes the file. */
bool bench_tune(bench_state *state);
/* --tune-check: auto beside the best. */
bool bench_tune_check(bench_state *state, FILE *output);

/* Whether it can be: the file is one, or can be made. Asked before anything is measured. False has been said.
 */
bool bench_tune_ready(const char *path);
/* Puts the section in place of what the file has for the same transport and ranks. False has been said. */
bool bench_tune_write(const char *path, const char *section);

/* Combines figures of all ranks, in place. False has been said. */
bool bench_gather(bench_state *state, void *data, uint64_t count, gcoll_type type, gcoll_op op);

int64_t bench_now_ns(void);

#ifdef __cplusplus
}
#endif

#endif
