/*
 * tools/plan_tool.h - gcoll_plan: what its files share.
 *
 *   main.c -> flags.c, plugin.c -> one file a subcommand:
 *     list.c  verify.c (variants.c, workers.c)  stats.c  show.c  draw.c  explain.c  simulate.c (timeline.c)
 *     compare.c (plot.c)  arrival.c (search.c)
 *   job.c makes the plans of all ranks; memory.c lays buffers out on devices; words.c puts things in words
 *
 * Subcommands return an exit status and have said what was wrong.
 */
#ifndef GCOLL_PLAN_TOOL_H
#define GCOLL_PLAN_TOOL_H

#include "algorithms/algorithms.h"
#include "gcoll/simulate.h"
#include "tools/cli.h"
#include "tools/cli_arrival.h"

/* Exit statuses; CLI_USAGE besides. */
#define TOOL_OK     0
#define TOOL_FAILED 1

#define TOOL_TEXT 512u

/* ---- Options (flags.c) -----------------------------------------------------------------------------------
 */

typedef enum tool_format { TOOL_TABLE = 0, TOOL_JSON = 1 } tool_format;

typedef enum tool_memory {
    TOOL_MEMORY_BY_ROW = 0, /* not given: as the algorithm likes */
    TOOL_HOST_MEMORY = 1,
    TOOL_DEVICE_MEMORY = 2
} tool_memory;

typedef struct tool_options {
    const char *collective; /* a name, or "all" */
    const char *algorithm;  /* a choice, or "all", or a list */
    cli_list ranks, count, bytes;
    const char *output, *timeline, *plot;
    int64_t rank; /* show: -1 for all */
    gcoll_registry registry;
    void *plugins[16];

    double alpha_us, beta_ns, gamma_ns, overhead_us; /* overhead_us < 0: all of alpha */
    double host_alpha_us, host_beta_ns;              /* < 0: as between hosts */
    double span_us;                                  /* draw */
    double device_alpha_us, device_in_ns, device_out_ns, device_within_ns;
    double error_ms; /* planners are told arrivals that are wrong by a random part of this */
    uint64_t eager_bytes, memory_limit_bytes;
    uint64_t operation;         /* whose arrivals are meant, from 0 */
    uint64_t operations, tries; /* arrival */
    uint32_t ports, node_ports, ranks_per_node;
    cli_arrival arrival;

    gcoll_type type;
    tool_format format;
    uint32_t root, inputs;
    uint32_t exchanges; /* pairwise_exchange; 0: as many as ranks can be doubled up to size */
    uint32_t devices;   /* 0: not given */
    tool_memory memory;
    gcoll_local local;
    uint32_t jobs;   /* 0: as many as there are processors */
    uint32_t claims; /* that explain asks for */
    uint32_t plugin_count;
    bool roots_all, root_given; /* verify */
    bool in_place, average;
    bool local_given, whole;
    bool surprise;   /* planners do not know who is late */
    bool by_formula; /* compare */
    bool help;
} tool_options;

typedef struct tool_command {
    const char *name;
    int (*run)(const tool_options *options);
    const char *summary;
    const char *example;
} tool_command;

/* The index of a command in this table is its bit in the flags' masks. */
extern const tool_command tool_commands[];
extern const uint32_t tool_command_count;

/* argv[0] is the subcommand. False: it has been said what is wrong. */
bool tool_flags_parse(tool_options *options, uint32_t command, int argc, char **argv);
void tool_flags_print(FILE *file, uint32_t command);

int tool_list(const tool_options *options);
int tool_verify(const tool_options *options);
int tool_stats(const tool_options *options);
int tool_show(const tool_options *options);
int tool_draw(const tool_options *options);
int tool_simulate(const tool_options *options);
int tool_compare(const tool_options *options);
int tool_explain(const tool_options *options);
int tool_arrival(const tool_options *options);

/* ---- Plugins (plugin.c) ----------------------------------------------------------------------------------
 */

/* Opens a shared object of algorithms and adds them to the registry. */
bool tool_load(tool_options *options, const char *flag, const char *path);
void tool_unload(tool_options *options);

/* ---- Buffers in the memory of devices (memory.c)
 * -----------------------------------------------------------
 */

bool tool_set_memory(tool_options *options, const char *flag, const char *text);
bool tool_set_devices(tool_options *options, const char *flag, const char *text);
bool tool_set_local(tool_options *options, const char *flag, const char *text);
bool tool_set_whole(tool_options *options, const char *flag, const char *text);
bool tool_set_device_alpha(tool_options *options, const char *flag, const char *text);
bool tool_set_device_in(tool_options *options, const char *flag, const char *text);
bool tool_set_device_out(tool_options *options, const char *flag, const char *text);
bool tool_set_device_within(tool_options *options, const char *flag, const char *text);

/* False: the flags about devices mean nothing for this algorithm, which has been said. */
bool tool_memory_fits(const tool_options *options, const gcoll_algorithm *algorithm);
/* Where the buffers of every rank lie, into `memory`, an entry a buffer, and how they are staged. */
void tool_place_buffers(const tool_options *options, const gcoll_algorithm *algorithm, gcoll_problem *problem,
                        uint32_t *memory);

/* ---- Jobs (job.c) ---------------------------------------------------------------------------------------
 */

typedef enum tool_blocks {
    TOOL_EVEN = 0,   /* as the library cuts */
    TOOL_UNEVEN = 1, /* of several sizes, some empty */
    TOOL_ONE = 2,    /* one rank has all */
    TOOL_BLOCKS_COUNT = 3
} tool_blocks;

/* What all ranks are to do. */
typedef struct tool_shape {
    gcoll_choice choice;   /* its algorithm is not NULL */
    gcoll_problem problem; /* in_place: of the ranks that may; offsets: see blocks */
    tool_blocks blocks;
    uint32_t *node; /* what problem.node and arrival_ns point to, NULL if they are */
    int64_t *arrival_ns;
    uint32_t *memory;  /* the same of in_memory and out_memory */
    char lateness[80]; /* in words; "": all enter together */
} tool_shape;

typedef struct tool_job {
    uint32_t size;
    gcoll_plan **plans;
} tool_job;

bool tool_has_root(gcoll_collective collective);
bool tool_has_blocks(gcoll_collective collective);
/* False: --root, --inputs or --average mean nothing for this collective, which has been said. */
bool tool_flags_fit(const tool_options *options, gcoll_collective collective);
/* Whether in_place may be set for this rank. */
bool tool_takes_in_place(gcoll_collective collective, bool at_root);

/* The plans of all ranks. On failure *rank is the one whose plan could not be made, and there is nothing to
 * free. */
gcoll_status tool_job_create(const tool_shape *shape, tool_job *job, uint32_t *rank);
/* Says why it failed. */
void tool_job_complain(const tool_shape *shape, uint32_t rank);
void tool_job_free(tool_job *job);
gcoll_status tool_job_verify(const tool_job *job, gcoll_verify_report *report);

/* From the flags, for one algorithm as text; "auto" chooses, and options that are left to cost are found by
 * the model. False: it has been said, and there is nothing to free. */
bool tool_shape_of(const tool_options *options, const char *algorithm, uint32_t size, uint64_t count,
                   tool_shape *shape);
void tool_shape_free(tool_shape *shape);
/* The same without an algorithm, for all of them to be looked at. */
bool tool_problem_of(const tool_options *options, uint32_t size, uint64_t count, tool_shape *shape);
/* All plans; NULL plans: it has been said what is wrong. */
bool tool_job_of(const tool_shape *shape, tool_job *job);
/* When each rank enters options->operation, in seconds: `size` of them, freed by the caller. *arrival is NULL
 * for all together. False: it has been said. */
bool tool_arrivals(const tool_options *options, uint32_t size, double **arrival);
/* --bytes in elements. */
uint64_t tool_elements(const tool_options *options, uint64_t bytes);
gcoll_cost_parameters tool_cost_parameters(const tool_options *options);

/* ---- Running in virtual time (simulate.c) ----------------------------------------------------------------
 */

/* With events, if asked. NULL: it has been said. */
gcoll_simulation *tool_run_job(const tool_options *options, const tool_job *job, bool timeline);
typedef struct tool_time {
    double seconds, own; /* until the last rank is done; a rank's own, on average. < 0: does not apply, and by
                          * formula nothing is known of `own` */
} tool_time;

/* What a shape takes, by simulation or --by formula. False: it has been said. */
bool tool_time_job(const tool_options *options, const tool_shape *shape, tool_time *time);
/* Chrome trace JSON. */
bool tool_write_timeline(const char *path, const tool_job *job, const gcoll_simulation *simulation);

/* ---- Words (words.c) ------------------------------------------------------------------------------------
 */

/* "rank-identical, ordered", or "nothing". */
void tool_claims_text(uint32_t claims, char text[TOOL_TEXT]);
/* The names of single claims: the index-th, its bit in *bit; NULL past the end. */
const char *tool_claim_name(uint32_t index, uint32_t *bit);
/* "0 to 20, or -1: chosen by cost"; "cyclic, xor". */
void tool_allowed_text(const gcoll_option *option, char text[TOOL_TEXT]);
void tool_fallback_text(const gcoll_option *option, char text[TOOL_TEXT]);
/* What a shape is besides its algorithm: "7 ranks, 63 elements, root 3, in place, ...". With a type's name
 * (else NULL) "63 elements of float32". */
void tool_shape_text(const tool_shape *shape, const char *type, char text[TOOL_TEXT]);
/* "", or "s" of more than one. */
const char *tool_plural(uint64_t count);

/* --output or standard output; NULL: it has been said. */
FILE *tool_open_output(const tool_options *options);
/* False: it could not be written, which has been said. */
bool tool_close_output(const tool_options *options, FILE *file);

#endif
