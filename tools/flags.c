/* tools/flags.c - the flags of gcoll_plan: a table of what each sets, and which subcommands take it. */
#include <stdlib.h>
#include <string.h>

#include "gcoll/simulate.h"
#include "tools/cli_types.h"
#include "tools/flags.h"
#include "tools/plugin.h"

#define MOST_COUNT 0x1p40
#define MOST_TIME  1e9
#define MOST_JOBS  1024u

#define MOST_OPERATIONS 1000000
#define MOST_TRIES      1000000000
#define MOST_TOURS      1000000

#define CLI_OPTIONS tool_options

/* ---- Readers of single flags -------------------------------------------------------------------------- */

static bool read_collective(const cli_flag *flag, const char *text, void *to) {
    gcoll_collective found;
    if (strcmp(text, "all") == 0 || gcoll_collective_parse(text, &found) == GCOLL_OK)
        return cli_read_text(flag, text, to);
    cli_complain("%s: %s, all", flag->name, gcoll_last_error());
    return false;
}

static bool read_roots(const cli_flag *flag, const char *text, void *options) {
    tool_options *o = options;
    o->roots_all = strcmp(text, "all") == 0;
    if (o->roots_all || strcmp(text, "some") == 0)
        return true;
    if (text[0] < '0' || text[0] > '9')
        return cli_bad(flag->name, text, "one of some, all, or a rank");
    o->root_given = true;
    return cli_whole32(flag->name, text, 0, GCOLL_MAX_RANKS - 1, &o->root);
}

static bool read_rank(const cli_flag *flag, const char *text, void *to) {
    uint32_t rank = 0;
    const bool all = strcmp(text, "all") == 0;
    if (!all && !cli_whole32(flag->name, text, 0, GCOLL_MAX_RANKS - 1, &rank))
        return false;
    *(int64_t *)to = all ? -1 : (int64_t)rank;
    return true;
}

static bool read_plot(const cli_flag *flag, const char *text, void *to) {
    const char *end = strrchr(text, '.');
    for (const char *at = text; *at; at++) /* gnuplot would run a second line as a command */
        if ((unsigned char)*at < ' ')
            return cli_bad(flag->name, text, "a file whose name has no control characters");
    if (!end || (strcmp(end, ".svg") != 0 && strcmp(end, ".png") != 0))
        return cli_bad(flag->name, text, "a file that ends in .svg or .png");
    return cli_read_text(flag, text, to);
}

static bool read_codec(const cli_flag *flag, const char *text, void *to) {
    if (gcoll_codec_parse(text, to) == GCOLL_OK)
        return true;
    cli_complain("%s: %s", flag->name, gcoll_last_error());
    return false;
}

static bool read_ordered(const cli_flag *flag, const char *text, void *to) {
    (void)flag, (void)text;
    *(uint32_t *)to |= GCOLL_CLAIM_ORDERED;
    return true;
}

/* ---- The table ----------------------------------------------------------------------------------------- */

static const cli_word memories[] = {{"host", TOOL_HOST_MEMORY}, {"device", TOOL_DEVICE_MEMORY}, {NULL, 0}};
static const cli_word locals[] = {{"auto", GCOLL_LOCAL_AUTO},
                                  {"host", GCOLL_LOCAL_HOST},
                                  {"device", GCOLL_LOCAL_DEVICE},
                                  {"peer", GCOLL_LOCAL_PEER},
                                  {NULL, 0}};
static const cli_word formats[] = {{"table", TOOL_TABLE}, {"json", TOOL_JSON}, {NULL, 0}};
static const cli_word order_formats[] = {
    {"table", TOOL_TABLE}, {"json", TOOL_JSON}, {"tuning", TOOL_TUNING}, {NULL, 0}};
static const cli_word ops[] = {{"sum", false}, {"avg", true}, {NULL, 0}};
static const cli_word methods[] = {{"simulation", false}, {"formula", true}, {NULL, 0}};

enum {
    LIST = 1,
    VERIFY = 2,
    STATS = 4,
    SHOW = 8,
    DRAW = 16,
    EXPLAIN = 32,
    SIMULATE = 64,
    COMPARE = 128,
    ARRIVAL = 256,
    ORDER = 512
};
#define TIMED  (DRAW | SIMULATE | COMPARE | ARRIVAL)
#define PRICED (TIMED | ORDER)
#define ALL    1023u

static const cli_flag rows[] = {
    {"--plan", "FILE", "in the place of an algorithm: plans as JSON, or a schedule of MSCCL or MSCCL++", NULL,
     CLI_TEXT(plan), .commands = VERIFY | SHOW | SIMULATE},
    {"--collective", "NAME", "its name, or all (all)", NULL, CLI_OTHER(read_collective, collective),
     .commands = LIST | VERIFY},
    {"--collective", "NAME", "allreduce, broadcast, ... (allreduce)", NULL,
     CLI_OTHER(read_collective, collective), .commands = ALL & ~(uint32_t)(LIST | VERIFY | ORDER)},
    {"--algorithm", "LIST", "NAME[:key=value]...[,NAME...], or all (all)", NULL, CLI_TEXT(algorithm),
     .commands = VERIFY | COMPARE | ARRIVAL},
    {"--algorithm", "NAME", "NAME[:key=value]..., or auto (auto)", NULL, CLI_TEXT(algorithm),
     .commands = STATS | SHOW | DRAW | SIMULATE},
    {"--ranks", "LIST", "1-64,100,127 or a sweep 2:1Ki:x2 (1-16)", NULL, CLI_LIST(ranks, 1, GCOLL_MAX_RANKS),
     .commands = VERIFY},
    {"--ranks", "LIST", "must be given: 1-64,100,127 or a sweep 2:1Ki:x2", NULL,
     CLI_LIST(ranks, 1, GCOLL_MAX_RANKS), .commands = STATS | EXPLAIN},
    {"--ranks", "LIST", "1-64,100,127 or a sweep 2:1Ki:x2 (all of --network; without it, must be given)",
     NULL, CLI_LIST(ranks, 1, GCOLL_MAX_RANKS), .commands = SIMULATE | COMPARE},
    {"--ranks", "N", "must be given without --plan: how many there are", NULL,
     CLI_LIST(ranks, 1, GCOLL_MAX_RANKS), .commands = SHOW},
    {"--ranks", "N", "how many there are (all of --network; without it, must be given)", NULL,
     CLI_LIST(ranks, 1, GCOLL_MAX_RANKS), .commands = DRAW | ARRIVAL | ORDER},
    {"--count", "LIST", "elements (0,1,63,1000)", NULL, CLI_LIST(count, 0, MOST_COUNT), .commands = VERIFY},
    {"--count", "LIST", "elements (as many as ranks)", NULL, CLI_LIST(count, 0, MOST_COUNT),
     .commands = STATS},
    {"--count", "N", "elements (as many as ranks)", NULL, CLI_LIST(count, 0, MOST_COUNT),
     .commands = SHOW | DRAW},
    {"--bytes", "LIST", "1Mi or a sweep 4:64Mi:x4 (1Mi)", NULL, CLI_LIST(bytes, 0, MOST_COUNT),
     .commands = EXPLAIN | SIMULATE | COMPARE | ARRIVAL | ORDER},
    {"--type", "NAME", "type of the elements", "float32", CLI_OTHER(cli_read_type, type),
     .commands = ALL & ~(uint32_t)LIST},
    {"--codec", "NAME", "messages carry bf16, fp16, int8:block=128, fp8:block=32, ... (none)", NULL,
     CLI_OTHER(read_codec, codec), .commands = VERIFY | STATS | SHOW | EXPLAIN | TIMED},
    {"--root", "WHICH", "some (0, middle, last), all, or a rank (some)", NULL, .read = read_roots,
     .commands = VERIFY},
    {"--root", "R", "of broadcast, reduce, gather, scatter (0)", NULL,
     CLI_WHOLE32(root, 0, GCOLL_MAX_RANKS - 1), CLI_GIVEN(root_given),
     .commands = STATS | SHOW | EXPLAIN | TIMED},
    {"--exchanges", "N", "of pairwise_exchange (0: log2 of the ranks)", NULL,
     CLI_WHOLE32(exchanges, 0, GCOLL_MAX_EXCHANGES), .commands = STATS | SHOW | EXPLAIN | TIMED},
    {"--in-place", NULL, "input and output are one buffer", NULL, CLI_SWITCH(in_place),
     .commands = STATS | SHOW | DRAW | SIMULATE},
    {"--inputs", "N", "buffers of each rank", "1", CLI_WHOLE32(inputs, 1, GCOLL_MAX_BUFFERS),
     .commands = VERIFY | STATS | SHOW | TIMED},
    {"--memory", "WHERE", "of the buffers: host or device (device for cuda_..., else host)", NULL,
     CLI_WORD(memory, memories), .commands = VERIFY | STATS | SHOW | TIMED},
    {"--devices", "N", "of each rank, which its buffers are dealt out to (1)", NULL,
     CLI_WHOLE32(devices, 1, GCOLL_MAX_DEVICES), .commands = VERIFY | STATS | SHOW | TIMED},
    {"--local-reduction", "WHERE", "auto, host, device or peer: where they are reduced (auto)", NULL,
     CLI_WORD(local, locals), CLI_GIVEN(local_given), .commands = VERIFY | STATS | SHOW | TIMED},
    {"--whole", NULL, "all is staged before the first message, unstaged after the last", NULL,
     CLI_SWITCH(whole), .commands = VERIFY | STATS | SHOW | TIMED},
    {"--op", "NAME", "sum, or avg: divided by the number of contributions", "sum", CLI_WORD(average, ops),
     .commands = VERIFY | STATS | SHOW},
    {"--rank", "R", "whose program, or all (0; of JSON, always all)", NULL, CLI_OTHER(read_rank, rank),
     CLI_GIVEN(rank_given), .commands = SHOW},
    {"--jobs", "N", "processes (the number of processors)", NULL, CLI_WHOLE32(jobs, 1, MOST_JOBS),
     .commands = VERIFY},
    {"--alpha", "TIME", "of a message, end to end", "6us", CLI_TIME(alpha_us, CLI_US, 0, MOST_TIME),
     CLI_GIVEN(alpha_given), .commands = STATS | SHOW | EXPLAIN | TIMED},
    {"--beta", "TIME", "of a byte sent", "0.25ns", CLI_TIME(beta_ns, CLI_NS, 0, MOST_TIME),
     CLI_GIVEN(beta_given), .commands = STATS | SHOW | EXPLAIN | TIMED},
    {"--gamma", "TIME", "of a byte reduced", "0.1ns", CLI_TIME(gamma_ns, CLI_NS, 0, MOST_TIME),
     .commands = STATS | SHOW | EXPLAIN | PRICED},
    {"--network", "FILE", "in the place of alpha and beta: hosts, and what messages between ranks cost", NULL,
     CLI_OTHER(tool_read_network, network), .commands = PRICED},
    {"--overhead", "TIME", "the part of alpha that keeps a port busy (all)", NULL,
     CLI_TIME(overhead_us, CLI_US, 0, MOST_TIME), .commands = TIMED},
    {"--ports", "N", "of a rank, each way (1)", NULL, CLI_WHOLE32(ports, 1, GCOLL_SIMULATE_MAX_PORTS),
     .commands = PRICED},
    {"--eager-bytes", "SIZE", "up to this, messages do not wait for receives", "0",
     CLI_SIZE(eager_bytes, 0, MOST_COUNT), .commands = PRICED},
    {"--ranks-per-host", "N", "hosts have so many ranks (1)", NULL,
     CLI_WHOLE32(ranks_per_node, 1, GCOLL_MAX_RANKS), .commands = STATS | SHOW | EXPLAIN | TIMED},
    {"--host-alpha", "TIME", "inside a host (as between hosts)", NULL,
     CLI_TIME(host_alpha_us, CLI_US, 0, MOST_TIME), .commands = EXPLAIN | TIMED},
    {"--host-beta", "TIME", "inside a host (as between hosts)", NULL,
     CLI_TIME(host_beta_ns, CLI_NS, 0, MOST_TIME), .commands = EXPLAIN | TIMED},
    {"--host-ports", "N", "of a host, each way (no limit)", NULL,
     CLI_WHOLE32(node_ports, 1, GCOLL_SIMULATE_MAX_PORTS), .commands = PRICED},
    {"--memory-ports", "N", "of a host's memory: messages inside a host at a time (no limit)", NULL,
     CLI_WHOLE32(memory_ports, 1, GCOLL_SIMULATE_MAX_PORTS), .commands = PRICED},
    {"--device-alpha", "TIME", "of each step of a device", "0us",
     CLI_TIME(device_alpha_us, CLI_US, 0, MOST_TIME), .commands = TIMED},
    {"--device-in", "TIME", "of a byte copied from a device to the host", "0ns",
     CLI_TIME(device_in_ns, CLI_NS, 0, MOST_TIME), .commands = TIMED},
    {"--device-out", "TIME", "of a byte copied from the host to a device", "0ns",
     CLI_TIME(device_out_ns, CLI_NS, 0, MOST_TIME), .commands = TIMED},
    {"--device-within", "TIME", "of a byte read or written by a device", "0ns",
     CLI_TIME(device_within_ns, CLI_NS, 0, MOST_TIME), .commands = TIMED},
    {"--arrival", "HOW", CLI_ARRIVAL_ALLOWED " (none)", NULL, CLI_OTHER(cli_read_arrival, arrival),
     .commands = STATS | SHOW | TIMED},
    {"--error", "TIME", "planners are told arrivals wrong by a random part of it", "0ms",
     CLI_TIME(error_ms, CLI_MS, 0, MOST_TIME), .commands = TIMED},
    {"--operations", "N", "the mean of so many, each with its own arrivals", "1",
     CLI_WHOLE(operations, 1, MOST_OPERATIONS), .commands = ARRIVAL},
    {"--tries", "N", "simulations in search of a better order of an allreduce's ring; 0: none", "0",
     CLI_WHOLE(tries, 0, MOST_TRIES), .commands = ARRIVAL},
    {"--tries", "N", "beginnings of the search", "32", CLI_WHOLE32(tours, 1, MOST_TOURS), .commands = ORDER},
    {"--seed", "N", "of the search", "1", CLI_WHOLE(seed, 0, UINT32_MAX), .commands = ORDER},
    {"--tour", "LIST", "the order of ranks along the ring of tour_ring: each rank once (by rank)", NULL,
     CLI_LIST(tour, 0, GCOLL_MAX_RANKS - 1), .commands = STATS | SHOW | DRAW | SIMULATE | COMPARE},
    {"--surprise", NULL, "planners are not told who will be late", NULL, CLI_SWITCH(surprise),
     .commands = TIMED},
    {"--same", "WHERE", "ranks, runs, nowhere: where sums must be the same bits (ranks; of a name: nowhere)",
     NULL, CLI_WORD(same, cli_same_words), .commands = STATS | SHOW | EXPLAIN | TIMED},
    {"--order", "TREE", "any, pairs, left: the tree of operations that builds each element (any)", NULL,
     CLI_WORD(order, cli_order_words), .commands = STATS | SHOW | VERIFY | EXPLAIN | TIMED},
    {"--ordered", NULL, "ask for rank order: the operation does not commute", NULL,
     CLI_OTHER(read_ordered, claims), .commands = EXPLAIN},
    {"--memory-limit", "SIZE", "most bytes of scratch", NULL, CLI_SIZE(memory_limit_bytes, 1, MOST_COUNT),
     .commands = EXPLAIN},
    {"--by", "WHAT", "simulation or formula", "simulation", CLI_WORD(by_formula, methods),
     .commands = COMPARE},
    {"--span", "TIME", "time that the width stands for (until all are done, or longer)", NULL,
     CLI_TIME(span_us, CLI_US, 0, MOST_TIME), .commands = DRAW},
    {"--timeline", "FILE", "write a Chrome trace (chrome://tracing, Perfetto)", NULL, CLI_TEXT(timeline),
     .commands = SIMULATE},
    {"--plot", "FILE", "draw the times into an .svg or .png, by gnuplot", NULL, CLI_OTHER(read_plot, plot),
     .commands = COMPARE},
    {"--format", "NAME", "table or json", "table", CLI_WORD(format, formats),
     .commands = ALL & ~(uint32_t)(SHOW | DRAW | ORDER)},
    {"--format", "NAME", "table, json, or tuning: a tuning file with the order found", "table",
     CLI_WORD(format, order_formats), .commands = ORDER},
    {"--transport", "NAME", "of the tuning file: tcp, shm, ibverbs", "tcp", CLI_TEXT(transport),
     .commands = ORDER},
    {"--format", "NAME", "table: words; json: a file for --plan", "table", CLI_WORD(format, formats),
     .commands = SHOW},
    {"--local", "N", "of the tuning file: ranks that share processors with rank 0 (those of its host)", NULL,
     CLI_WHOLE32(local_ranks, 1, GCOLL_MAX_RANKS), .commands = ORDER},
    {"--output", "FILE", "write there, not to standard output", NULL, CLI_TEXT(output)},
    {"--load", "FILE.so", "algorithms of your own; may be given 16 times", NULL, .read = tool_load},
    {"--help", NULL, "print this", NULL, CLI_SWITCH(help)},
};

static cli_flags flags_of(uint32_t command) {
    return (cli_flags){rows, sizeof rows / sizeof rows[0], UINT32_C(1) << command};
}

void tool_flags_print(FILE *file, uint32_t command) {
    const cli_flags flags = flags_of(command);
    fputs("Flags (defaults in parentheses):\n", file);
    cli_print_flags(file, &flags);
}

/* The cost formulas assume one port of a rank and of a host, and no late ranks; refuses flags that say
 * otherwise. */
static bool check_formula(const tool_options *o) {
    const struct {
        const char *flag;
        bool given;
    } others[] = {{"--arrival", o->arrival.kind != CLI_ARRIVAL_NONE},
                  {"--error", o->error_ms > 0},
                  {"--surprise", o->surprise},
                  {"--ports", o->ports > 0},
                  {"--overhead", o->overhead_us >= 0},
                  {"--eager-bytes", o->eager_bytes > 0},
                  {"--host-ports", o->node_ports > 0},
                  {"--memory-ports", o->memory_ports > 0},
                  {"--network", o->network.path},
                  {"--device-alpha", o->device_alpha_us > 0},
                  {"--device-in", o->device_in_ns > 0},
                  {"--device-out", o->device_out_ns > 0},
                  {"--device-within", o->device_within_ns > 0}};
    for (size_t i = 0; i < sizeof others / sizeof others[0] && o->by_formula; i++)
        if (others[i].given) {
            cli_complain("%s: found with --by formula, which does not know of it; allowed is --by simulation",
                         others[i].flag);
            return false;
        }
    return true;
}

/* A network says which ranks share a host, and what messages cost. */
static bool check_network(const tool_options *o) {
    const struct {
        const char *flag;
        bool given;
    } others[] = {{"--alpha", o->alpha_given},
                  {"--beta", o->beta_given},
                  {"--overhead", o->overhead_us >= 0},
                  {"--ranks-per-host", o->ranks_per_node > 0},
                  {"--host-alpha", o->host_alpha_us >= 0},
                  {"--host-beta", o->host_beta_ns >= 0}};
    for (size_t i = 0; i < sizeof others / sizeof others[0] && o->network.path; i++)
        if (others[i].given) {
            cli_complain("%s: found with --network, whose file says that; allowed is one of both",
                         others[i].flag);
            return false;
        }
    for (size_t i = 0; i < o->ranks.count && o->network.path; i++)
        if (o->ranks.values[i] > o->network.ranks) {
            cli_complain("--ranks: is %llu; allowed with %s is 1 to %u",
                         (unsigned long long)o->ranks.values[i], o->network.path, o->network.ranks);
            return false;
        }
    return true;
}

/* Refuses flags that a plan file answers: the collective and the number of ranks, for example. */
static bool check_plan(const tool_options *o) {
    const struct {
        const char *flag;
        bool given;
    } others[] = {{"--collective", o->collective},
                  {"--algorithm", o->algorithm},
                  {"--ranks", o->ranks.count > 0},
                  {"--root", o->root_given || o->roots_all},
                  {"--exchanges", o->exchanges > 0},
                  {"--in-place", o->in_place},
                  {"--inputs", o->inputs > 1},
                  {"--memory", o->memory != TOOL_MEMORY_BY_ROW},
                  {"--devices", o->devices > 0},
                  {"--local-reduction", o->local_given},
                  {"--whole", o->whole},
                  {"--op", o->average},
                  {"--jobs", o->jobs > 0},
                  {"--error", o->error_ms > 0},
                  {"--surprise", o->surprise},
                  {"--tour", o->tour.count > 0},
                  {"--same", o->same >= 0},
                  {"--order", o->order > 0}};
    for (size_t i = 0; i < sizeof others / sizeof others[0] && o->plan; i++)
        if (others[i].given) {
            cli_complain("%s: found with --plan, whose file says what is done; allowed is one of both",
                         others[i].flag);
            return false;
        }
    return true;
}

/* Refuses flags about hosts of several ranks if there are none. */
static bool check_hosts(const tool_options *o) {
    const struct {
        const char *flag;
        bool given;
    } hosts[] = {{"--host-alpha", o->host_alpha_us >= 0},
                 {"--host-beta", o->host_beta_ns >= 0},
                 {"--host-ports", o->node_ports > 0},
                 {"--memory-ports", o->memory_ports > 0}};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0] && !o->network.path && o->ranks_per_node == 0; i++)
        if (hosts[i].given) {
            cli_complain("%s: there are no hosts of several ranks; give --ranks-per-host or --network",
                         hosts[i].flag);
            return false;
        }
    return true;
}

static bool check(const tool_options *o) {
    if (!check_plan(o) || !check_network(o) || !check_hosts(o))
        return false;
    if (o->overhead_us > o->alpha_us) {
        cli_complain("--overhead: is %g; allowed is 0 to --alpha, %g", o->overhead_us, o->alpha_us);
        return false;
    }
    if (o->devices > o->inputs) {
        cli_complain("--devices: is %u; allowed is 1 to --inputs, %u", o->devices, o->inputs);
        return false;
    }
    return check_formula(o);
}

/* Rounds sizes to whole elements, also for display. */
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
    cli_complain("--bytes: has %llu, and an element of %s has %llu: rounded down to %llu%s",
                 (unsigned long long)first, gcoll_type_name(o->type), (unsigned long long)element,
                 (unsigned long long)(first - first % element), more);
}

/* Checks that --algorithm names one algorithm, not several. */
static bool check_algorithm(const tool_options *o) {
    if (strcmp(o->algorithm, "all") != 0 && !strchr(o->algorithm, ','))
        return true;
    return cli_bad("--algorithm", o->algorithm,
                   "one of them; only verify, compare and arrival take a list, or all");
}

/* Formulas, and options that are left to cost, know one cost between hosts and one within them: the means. */
static void take_means(tool_options *o) {
    const gcoll_simulate_link *between = &o->network.between, *within = &o->network.within;
    if (!o->network.path)
        return;
    o->alpha_us = between->alpha * 1e6;
    o->beta_ns = between->beta * 1e9;
    o->overhead_us = (between->alpha - between->latency) * 1e6;
    o->host_alpha_us = within->alpha * 1e6;
    o->host_beta_ns = within->beta * 1e9;
}

static bool add_defaults(tool_options *o, uint32_t command) {
    uint32_t bit = UINT32_C(1) << command;
    if (o->plan) {
        round_bytes(o);
        take_means(o);
        return true;
    }
    if (!o->collective)
        o->collective = bit & (LIST | VERIFY) ? "all" : "allreduce";
    if (!o->algorithm)
        o->algorithm = bit & (VERIFY | COMPARE | ARRIVAL) ? "all" : "auto";
    if (!(bit & (VERIFY | COMPARE | ARRIVAL)) && !check_algorithm(o))
        return false;
    if (strcmp(o->collective, "all") == 0 && !(bit & (LIST | VERIFY)))
        return cli_bad("--collective", o->collective, "one of them; only list and verify take all");
    if (o->ranks.count == 0 && (bit & VERIFY) &&
        !cli_parse_list("--ranks", "1-16", 1, GCOLL_MAX_RANKS, &o->ranks))
        return false;
    if (o->ranks.count == 0 && o->network.path) {
        char text[16];
        snprintf(text, sizeof text, "%u", o->network.ranks);
        if (!cli_parse_list("--ranks", text, 1, GCOLL_MAX_RANKS, &o->ranks))
            return false;
    }
    if (o->ranks.count == 0 && !(bit & LIST)) {
        cli_complain("--ranks: is missing; allowed is 1 to %u, or a list", GCOLL_MAX_RANKS);
        return false;
    }
    if (o->count.count == 0 && (bit & VERIFY) &&
        !cli_parse_list("--count", "0,1,63,1000", 0, UINT64_MAX, &o->count))
        return false;
    const char *bytes = strcmp(o->collective, "barrier") == 0 ? "0" : "1Mi";
    if (o->bytes.count == 0 && !cli_parse_list("--bytes", bytes, 0, UINT64_MAX, &o->bytes))
        return false;
    round_bytes(o);
    take_means(o);
    return true;
}

bool tool_flags_parse(tool_options *options, uint32_t command, int argc, char **argv) {
    const cli_flags flags = flags_of(command);
    *options = (tool_options){
        .same = -1, .overhead_us = -1, .host_alpha_us = -1, .host_beta_ns = -1, .arrival = {.seed = 1}};
    return cli_parse(&flags, argc, argv, options) &&
           (options->help || (check(options) && add_defaults(options, command)));
}
