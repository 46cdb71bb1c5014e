/* tools/options.h - what gcoll_plan was asked for. */
#ifndef GCOLL_TOOL_OPTIONS_H
#define GCOLL_TOOL_OPTIONS_H

#include "algorithms/algorithms.h"
#include "tools/cli.h"
#include "tools/cli_arrival.h"
#include "tools/network.h"

/* Exit statuses; CLI_USAGE besides. */
#define TOOL_OK     0
#define TOOL_FAILED 1

typedef enum tool_format { TOOL_TABLE = 0, TOOL_JSON = 1, TOOL_TUNING = 2 } tool_format;

typedef enum tool_memory {
    TOOL_MEMORY_BY_ROW = 0, /* not given: as the algorithm likes */
    TOOL_HOST_MEMORY = 1,
    TOOL_DEVICE_MEMORY = 2
} tool_memory;

typedef struct tool_options {
    const char *collective; /* a name, or "all" */
    const char *algorithm;  /* a choice, or "all", or a list */
    cli_list ranks, count, bytes;
    cli_list tour; /* by position, its rank; empty: not given */
    const char *output, *timeline, *plot;
    const char *transport; /* order: of the section of a tuning file */
    const char *plan;      /* a file of plans, which take the place of an algorithm's; NULL: none */
    int64_t rank;          /* show: -1 for all */
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
    uint64_t seed;              /* order */
    uint32_t tours;             /* order: tries of each search */
    uint32_t ports, node_ports, memory_ports, ranks_per_node;
    uint32_t local_ranks; /* order: of the tuning file; 0: those of rank 0's host */
    cli_arrival arrival;
    tool_network network;

    gcoll_type type;
    gcoll_codec codec;
    tool_format format;
    uint32_t root, inputs;
    uint32_t exchanges; /* pairwise_exchange; 0: as many as ranks can be doubled up to size */
    uint32_t devices;   /* 0: not given */
    tool_memory memory;
    gcoll_local local;
    uint32_t jobs;   /* 0: as many as there are processors */
    uint32_t claims; /* that explain asks for */
    uint32_t plugin_count;
    int same;                   /* gcoll_same; -1: not given */
    int order;                  /* gcoll_order; 0: not given */
    bool roots_all, root_given; /* verify */
    bool in_place;
    int average; /* --op avg */
    bool local_given, whole;
    bool alpha_given, beta_given;
    bool rank_given; /* show */
    bool surprise;   /* planners do not know who is late */
    int by_formula;  /* compare; else by simulation */
    bool help;
} tool_options;

#endif
