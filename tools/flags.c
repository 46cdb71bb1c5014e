/* tools/flags.c - the flags of gcoll_plan: a table of what each sets, and which subcommands take it. */
#include <stdlib.h>
#include <string.h>

#include "tools/plan_tool.h"

#define MOST_COUNT (UINT64_C(1) << 40)
#define MOST_TIME  1e9
#define MOST_JOBS  1024u

#define MOST_OPERATIONS 1000000
#define MOST_TRIES      1000000000

/* The library's own guess of a network that nobody has measured. */
#define DEFAULT_ALPHA_US 6.0
#define DEFAULT_BETA_NS  0.25
#define DEFAULT_GAMMA_NS 0.1

typedef bool (*setter)(tool_options *options, const char *flag, const char *text);

static bool set_collective(tool_options *o, const char *flag, const char *text) {
    gcoll_collective found;
    o->collective = text;
    if (strcmp(text, "all") == 0 || gcoll_collective_parse(text, &found) == GCOLL_OK)
        return true;
    cli_complain("%s: %s, all", flag, gcoll_last_error());
    return false;
}

static bool set_algorithm(tool_options *o, const char *flag, const char *text) {
    (void)flag; /* read when the collective and all plugins are known */
    o->algorithm = text;
    return true;
}

static bool within(const char *flag, const char *text, const cli_list *list, uint64_t min, uint64_t max) {
    for (size_t i = 0; i < list->count; i++)
        if (list->values[i] < min || list->values[i] > max) {
            cli_complain("%s: found %llu in '%s'; allowed: %llu to %llu", flag,
                         (unsigned long long)list->values[i], text, (unsigned long long)min,
                         (unsigned long long)max);
            return false;
        }
    return true;
}

static bool set_ranks(tool_options *o, const char *flag, const char *text) {
    return cli_parse_list(flag, text, &o->ranks) && within(flag, text, &o->ranks, 1, GCOLL_MAX_RANKS);
}

static bool set_count(tool_options *o, const char *flag, const char *text) {
    return cli_parse_list(flag, text, &o->count) && within(flag, text, &o->count, 0, MOST_COUNT);
}

static bool set_bytes(tool_options *o, const char *flag, const char *text) {
    return cli_parse_list(flag, text, &o->bytes) && within(flag, text, &o->bytes, 0, MOST_COUNT);
}

static bool set_root(tool_options *o, const char *flag, const char *text) {
    o->root_given = true;
    return cli_whole32(flag, text, 0, GCOLL_MAX_RANKS - 1, &o->root);
}

static bool set_roots(tool_options *o, const char *flag, const char *text) {
    o->roots_all = strcmp(text, "all") == 0;
    if (o->roots_all || strcmp(text, "some") == 0)
        return true;
    if (text[0] < '0' || text[0] > '9')
        return cli_bad(flag, text, "some, all, or a rank");
    return set_root(o, flag, text);
}

static bool set_type(tool_options *o, const char *flag, const char *text) {
    if (gcoll_type_parse(text, &o->type) == GCOLL_OK)
        return true;
    cli_complain("%s: %s", flag, gcoll_last_error());
    return false;
}

static bool set_in_place(tool_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->in_place = true;
}

static bool set_average(tool_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->average = true;
}

static bool set_inputs(tool_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, GCOLL_MAX_BUFFERS, &o->inputs);
}

static bool set_exchanges(tool_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, GCOLL_MAX_EXCHANGES, &o->exchanges);
}

static bool set_rank(tool_options *o, const char *flag, const char *text) {
    uint32_t rank = 0;
    bool all = strcmp(text, "all") == 0;
    bool good = all || cli_whole32(flag, text, 0, GCOLL_MAX_RANKS - 1, &rank);
    o->rank = all ? -1 : (int64_t)rank;
    return good;
}

static bool set_jobs(tool_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, MOST_JOBS, &o->jobs);
}

static bool set_format(tool_options *o, const char *flag, const char *text) {
    o->format = strcmp(text, "json") == 0 ? TOOL_JSON : TOOL_TABLE;
    return o->format == TOOL_JSON || strcmp(text, "table") == 0 || cli_bad(flag, text, "table, json");
}

static bool set_output(tool_options *o, const char *flag, const char *text) {
    (void)flag;
    o->output = text;
    return true;
}

static bool set_timeline(tool_options *o, const char *flag, const char *text) {
    (void)flag;
    o->timeline = text;
    return true;
}

static bool set_plot(tool_options *o, const char *flag, const char *text) {
    const char *end = strrchr(text, '.');
    o->plot = text;
    for (const char *at = text; *at; at++) /* a line of its own would be a command to gnuplot */
        if ((unsigned char)*at < ' ')
            return cli_bad(flag, text, "a file whose name has no control characters");
    return (end && (strcmp(end, ".svg") == 0 || strcmp(end, ".png") == 0)) ||
           cli_bad(flag, text, "a file that ends in .svg or .png");
}

static bool set_alpha(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->alpha_us);
}

static bool set_beta(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->beta_ns);
}

static bool set_gamma(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->gamma_ns);
}

static bool set_overhead(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->overhead_us);
}

static bool set_host_alpha(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->host_alpha_us);
}

static bool set_span(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->span_us);
}

static bool set_host_beta(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->host_beta_ns);
}

static bool set_ports(tool_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, GCOLL_SIMULATE_MAX_PORTS, &o->ports);
}

static bool set_node_ports(tool_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, GCOLL_SIMULATE_MAX_PORTS, &o->node_ports);
}

static bool set_ranks_per_node(tool_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, GCOLL_MAX_RANKS, &o->ranks_per_node);
}

static bool size_of(const char *flag, const char *text, uint64_t *bytes) {
    return (cli_parse_size(text, strlen(text), bytes) && *bytes <= MOST_COUNT) ||
           cli_bad(flag, text, "a size: 64, 4Ki, 1Mi, 2Gi");
}

static bool set_eager(tool_options *o, const char *flag, const char *text) {
    return size_of(flag, text, &o->eager_bytes);
}

static bool set_memory_limit(tool_options *o, const char *flag, const char *text) {
    return size_of(flag, text, &o->memory_limit_bytes) &&
           (o->memory_limit_bytes > 0 || cli_bad(flag, text, "at least 1 byte"));
}

static bool set_arrival(tool_options *o, const char *flag, const char *text) {
    cli_arrival_free(&o->arrival);
    return cli_arrival_parse(flag, text, &o->arrival);
}

static bool set_error(tool_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 0, MOST_TIME, &o->error_ms);
}

static bool set_operations(tool_options *o, const char *flag, const char *text) {
    return cli_whole(flag, text, 1, MOST_OPERATIONS, &o->operations);
}

static bool set_tries(tool_options *o, const char *flag, const char *text) {
    return cli_whole(flag, text, 0, MOST_TRIES, &o->tries);
}

static bool set_surprise(tool_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->surprise = true;
}

static bool set_rank_identical(tool_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    o->claims |= GCOLL_CLAIM_RANK_IDENTICAL;
    return true;
}

static bool set_ordered(tool_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    o->claims |= GCOLL_CLAIM_ORDERED;
    return true;
}

static bool set_by(tool_options *o, const char *flag, const char *text) {
    o->by_formula = strcmp(text, "formula") == 0;
    return o->by_formula || strcmp(text, "simulation") == 0 || cli_bad(flag, text, "simulation, formula");
}

static bool set_help(tool_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->help = true;
}

/* ---- The table ------------------------------------------------------------------------------------------
 */

enum {
    LIST = 1,
    VERIFY = 2,
    STATS = 4,
    SHOW = 8,
    DRAW = 16,
    EXPLAIN = 32,
    SIMULATE = 64,
    COMPARE = 128,
    ARRIVAL = 256
};
#define TIMED (DRAW | SIMULATE | COMPARE | ARRIVAL)
#define ALL   511u

typedef struct flag_row {
    cli_flag flag;
    setter set;
    uint32_t commands;
} flag_row;

static const flag_row flags[] = {
    {{"--collective", "NAME", "its name, or all (all)"}, set_collective, LIST | VERIFY},
    {{"--collective", "NAME", "allreduce, broadcast, ... (allreduce)"},
     set_collective,
     ALL & ~(uint32_t)(LIST | VERIFY)},
    {{"--algorithm", "LIST", "NAME[:key=value]...[,NAME...], or all (all)"},
     set_algorithm,
     VERIFY | COMPARE | ARRIVAL},
    {{"--algorithm", "NAME", "NAME[:key=value]..., or auto (auto)"},
     set_algorithm,
     STATS | SHOW | DRAW | SIMULATE},
    {{"--ranks", "LIST", "1-64,100,127 or a sweep 2:1Ki:x2 (1-16)"}, set_ranks, VERIFY},
    {{"--ranks", "LIST", "must be given: 1-64,100,127 or a sweep 2:1Ki:x2"},
     set_ranks,
     STATS | EXPLAIN | SIMULATE | COMPARE},
    {{"--ranks", "N", "must be given: how many there are"}, set_ranks, SHOW | DRAW | ARRIVAL},
    {{"--count", "LIST", "elements (0,1,63,1000)"}, set_count, VERIFY},
    {{"--count", "LIST", "elements (as many as ranks)"}, set_count, STATS},
    {{"--count", "N", "elements (as many as ranks)"}, set_count, SHOW | DRAW},
    {{"--bytes", "LIST", "1Mi or a sweep 4:64Mi:x4 (1Mi)"},
     set_bytes,
     EXPLAIN | SIMULATE | COMPARE | ARRIVAL},
    {{"--type", "NAME", "type of the elements (float32)"}, set_type, ALL & ~(uint32_t)LIST},
    {{"--root", "WHICH", "some (0, middle, last), all, or a rank (some)"}, set_roots, VERIFY},
    {{"--root", "R", "of broadcast, reduce, gather, scatter (0)"}, set_root, STATS | SHOW | EXPLAIN | TIMED},
    {{"--exchanges", "N", "of pairwise_exchange (log2 of the ranks)"},
     set_exchanges,
     STATS | SHOW | EXPLAIN | TIMED},
    {{"--in-place", NULL, "input and output are one buffer"}, set_in_place, STATS | SHOW | DRAW | SIMULATE},
    {{"--inputs", "N", "buffers of each rank (1)"}, set_inputs, VERIFY | STATS | SHOW | TIMED},
    {{"--memory", "WHERE", "of the buffers: host or device (device for cuda_..., else host)"},
     tool_set_memory,
     VERIFY | STATS | SHOW | TIMED},
    {{"--devices", "N", "of each rank, which its buffers are dealt out to (1)"},
     tool_set_devices,
     VERIFY | STATS | SHOW | TIMED},
    {{"--local", "WHERE", "auto, host, device or peer: where they are reduced (auto)"},
     tool_set_local,
     VERIFY | STATS | SHOW | TIMED},
    {{"--whole", NULL, "all is staged before the first message, unstaged after the last"},
     tool_set_whole,
     VERIFY | STATS | SHOW | TIMED},
    {{"--average", NULL, "divide by the number of contributions"}, set_average, VERIFY | STATS | SHOW},
    {{"--rank", "R", "whose program, or all (0)"}, set_rank, SHOW},
    {{"--jobs", "N", "processes (the number of processors)"}, set_jobs, VERIFY},
    {{"--alpha-us", "T", "of a message, end to end (6)"}, set_alpha, STATS | SHOW | EXPLAIN | TIMED},
    {{"--beta-ns", "T", "of a byte sent (0.25)"}, set_beta, STATS | SHOW | EXPLAIN | TIMED},
    {{"--gamma-ns", "T", "of a byte reduced (0.1)"}, set_gamma, STATS | SHOW | EXPLAIN | TIMED},
    {{"--overhead-us", "T", "the part of alpha that keeps a port busy (all)"}, set_overhead, TIMED},
    {{"--ports", "N", "of a rank, each way (1)"}, set_ports, TIMED},
    {{"--eager-bytes", "SIZE", "up to this, messages do not wait for receives (0)"}, set_eager, TIMED},
    {{"--ranks-per-node", "N", "hosts have so many ranks (1)"}, set_ranks_per_node, STATS | SHOW | TIMED},
    {{"--host-alpha-us", "T", "inside a host (as between hosts)"}, set_host_alpha, TIMED},
    {{"--host-beta-ns", "T", "inside a host (as between hosts)"}, set_host_beta, TIMED},
    {{"--node-ports", "N", "of a host, each way (no limit)"}, set_node_ports, TIMED},
    {{"--device-alpha-us", "T", "of each step of a device (0)"}, tool_set_device_alpha, TIMED},
    {{"--device-in-ns", "T", "of a byte copied from a device to the host (0)"}, tool_set_device_in, TIMED},
    {{"--device-out-ns", "T", "of a byte copied from the host to a device (0)"}, tool_set_device_out, TIMED},
    {{"--device-within-ns", "T", "of a byte read or written by a device (0)"}, tool_set_device_within, TIMED},
    {{"--arrival", "HOW", CLI_ARRIVAL_ALLOWED " (none)"}, set_arrival, STATS | SHOW | TIMED},
    {{"--error-ms", "T", "planners are told arrivals wrong by a random part of it (0)"}, set_error, TIMED},
    {{"--operations", "N", "the mean of so many, each with its own arrivals (1)"}, set_operations, ARRIVAL},
    {{"--tries", "N", "simulations in search of a better order of an allreduce's ring; 0: none (0)"},
     set_tries,
     ARRIVAL},
    {{"--surprise", NULL, "planners are not told who will be late"}, set_surprise, TIMED},
    {{"--rank-identical", NULL, "ask for the same bits on every rank"}, set_rank_identical, EXPLAIN},
    {{"--ordered", NULL, "ask for rank order: the operation does not commute"}, set_ordered, EXPLAIN},
    {{"--memory-limit", "SIZE", "most bytes of scratch"}, set_memory_limit, EXPLAIN},
    {{"--by", "WHAT", "simulation or formula (simulation)"}, set_by, COMPARE},
    {{"--span-us", "T", "time that the width stands for (until all are done, or longer)"}, set_span, DRAW},
    {{"--timeline", "FILE", "write a Chrome trace (chrome://tracing, Perfetto)"}, set_timeline, SIMULATE},
    {{"--plot", "FILE", "draw the times into an .svg or .png, by gnuplot"}, set_plot, COMPARE},
    {{"--format", "NAME", "table or json (table)"}, set_format, ALL & ~(uint32_t)(SHOW | DRAW)},
    {{"--output", "FILE", "write there, not to standard output"}, set_output, ALL},
    {{"--load", "FILE.so", "algorithms of your own; may be given 16 times"}, tool_load, ALL},
    {{"--help", NULL, "print this"}, set_help, ALL},
};

#define FLAG_COUNT (sizeof flags / sizeof flags[0])

/* The rows of one command. */
static cli_flags rows_of(uint32_t command, flag_row rows[FLAG_COUNT]) {
    size_t count = 0;
    for (size_t f = 0; f < FLAG_COUNT; f++)
        if (flags[f].commands >> command & 1)
            rows[count++] = flags[f];
    return (cli_flags){&rows[0].flag, count, sizeof rows[0]};
}

void tool_flags_print(FILE *file, uint32_t command) {
    flag_row rows[FLAG_COUNT];
    fputs("Flags (defaults in parentheses):\n", file);
    cli_print_flags(file, rows_of(command, rows));
}

/* The formulas know one network of one port, and nobody who is late. */
static bool check_formula(const tool_options *o) {
    const struct {
        const char *flag;
        bool given;
    } others[] = {{"--arrival", o->arrival.kind != CLI_ARRIVAL_NONE},
                  {"--error-ms", o->error_ms > 0},
                  {"--surprise", o->surprise},
                  {"--ports", o->ports > 0},
                  {"--overhead-us", o->overhead_us >= 0},
                  {"--eager-bytes", o->eager_bytes > 0},
                  {"--host-alpha-us", o->host_alpha_us >= 0},
                  {"--host-beta-ns", o->host_beta_ns >= 0},
                  {"--node-ports", o->node_ports > 0},
                  {"--device-alpha-us", o->device_alpha_us > 0},
                  {"--device-in-ns", o->device_in_ns > 0},
                  {"--device-out-ns", o->device_out_ns > 0},
                  {"--device-within-ns", o->device_within_ns > 0}};
    for (size_t i = 0; i < sizeof others / sizeof others[0] && o->by_formula; i++)
        if (others[i].given) {
            cli_complain("%s: found with --by formula, which does not know of it; allowed: --by simulation",
                         others[i].flag);
            return false;
        }
    return true;
}

static bool check(const tool_options *o) {
    if (o->overhead_us > o->alpha_us) {
        cli_complain("--overhead-us: found %g; allowed: 0 to --alpha-us, %g", o->overhead_us, o->alpha_us);
        return false;
    }
    if (o->host_alpha_us >= 0 && o->ranks_per_node == 0) {
        cli_complain("--host-alpha-us: there are no hosts of several ranks; give --ranks-per-node");
        return false;
    }
    if (o->host_beta_ns >= 0 && o->ranks_per_node == 0) {
        cli_complain("--host-beta-ns: there are no hosts of several ranks; give --ranks-per-node");
        return false;
    }
    if (o->node_ports > 0 && o->ranks_per_node == 0) {
        cli_complain("--node-ports: there are no hosts of several ranks; give --ranks-per-node");
        return false;
    }
    if (o->devices > o->inputs) {
        cli_complain("--devices: found %u; allowed: 1 to --inputs, %u", o->devices, o->inputs);
        return false;
    }
    return check_formula(o);
}

/* Bytes are of whole elements from here on, also where they are shown. */
static void round_bytes(tool_options *o) {
    const uint64_t element = gcoll_type_size(o->type);
    uint64_t first = 0;
    size_t others = 0;
    bool any = false;
    for (size_t i = 0; i < o->bytes.count; i++) {
        const uint64_t found = o->bytes.values[i];
        if (found % element == 0)
            continue;
        others += any;
        first = any ? first : found;
        any = true;
        o->bytes.values[i] = found - found % element;
    }
    if (!any)
        return;
    char more[48] = "";
    if (others > 0)
        snprintf(more, sizeof more, ", and %zu more of them", others);
    cli_complain("--bytes: found %llu, and an element of %s has %llu: rounded down to %llu%s",
                 (unsigned long long)first, gcoll_type_name(o->type), (unsigned long long)element,
                 (unsigned long long)(first - first % element), more);
}

/* A choice, not several. */
static bool check_algorithm(const tool_options *o) {
    if (strcmp(o->algorithm, "all") != 0 && strchr(o->algorithm, ',') == NULL)
        return true;
    return cli_bad("--algorithm", o->algorithm,
                   "one of them; only verify, compare and arrival take a list, or all");
}

static bool add_defaults(tool_options *o, uint32_t command) {
    uint32_t bit = UINT32_C(1) << command;
    if (o->collective == NULL)
        o->collective = bit & (LIST | VERIFY) ? "all" : "allreduce";
    if (o->algorithm == NULL)
        o->algorithm = bit & (VERIFY | COMPARE | ARRIVAL) ? "all" : "auto";
    if (!(bit & (VERIFY | COMPARE | ARRIVAL)) && !check_algorithm(o))
        return false;
    if (strcmp(o->collective, "all") == 0 && !(bit & (LIST | VERIFY)))
        return cli_bad("--collective", o->collective, "one of them; only list and verify take all");
    if (o->ranks.count == 0 && (bit & VERIFY) && !cli_parse_list("--ranks", "1-16", &o->ranks))
        return false;
    if (o->ranks.count == 0 && !(bit & LIST)) {
        cli_complain("--ranks: is missing; allowed: 1 to %u, or a list", GCOLL_MAX_RANKS);
        return false;
    }
    if (o->count.count == 0 && (bit & VERIFY) && !cli_parse_list("--count", "0,1,63,1000", &o->count))
        return false;
    const char *bytes = strcmp(o->collective, "barrier") == 0 ? "0" : "1Mi";
    if (o->bytes.count == 0 && !cli_parse_list("--bytes", bytes, &o->bytes))
        return false;
    round_bytes(o);
    return true;
}

bool tool_flags_parse(tool_options *options, uint32_t command, int argc, char **argv) {
    flag_row rows[FLAG_COUNT];
    cli_reader reader = cli_read(rows_of(command, rows), argc, argv);
    const cli_flag *flag;
    const char *text;
    *options = (tool_options){.type = GCOLL_FLOAT32,
                              .inputs = 1,
                              .alpha_us = DEFAULT_ALPHA_US,
                              .beta_ns = DEFAULT_BETA_NS,
                              .gamma_ns = DEFAULT_GAMMA_NS,
                              .overhead_us = -1,
                              .host_alpha_us = -1,
                              .host_beta_ns = -1,
                              .arrival = {.seed = 1},
                              .operations = 1};
    while (cli_next(&reader, &flag, &text))
        if (!((const flag_row *)flag)->set(options, flag->name, text))
            return false;
    if (reader.failed)
        return false;
    return options->help || (check(options) && add_defaults(options, command));
}
