/* benchmark/flags.c - the flags: a table of what each sets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/arrival.h"
#include "benchmark/buffers.h"
#include "benchmark/flags.h"
#include "benchmark/plugin.h"
#include "tools/cli_types.h"

#define MOST_LOCAL      4096u
#define MOST_RANKS      1048576u
#define MOST_INPUTS     1024u
#define MOST_REPEATS    10000000u
#define LEAST_SECONDS   1e-9
#define MOST_SECONDS    86400
#define MOST_TIMEOUT_MS 86400e3
#define MOST_COMPUTE_MS 1e6

#define CLI_OPTIONS bench_options

/* ---- Readers of single flags -------------------------------------------------------------------------- */

static bool read_rank(const cli_flag *flag, const char *text, void *to) {
    uint32_t rank;
    if (!cli_whole32(flag->name, text, 0, MOST_RANKS - 1, &rank))
        return false;
    *(int64_t *)to = rank;
    return true;
}

/* "--transport: ...", or "GCOLL_TRANSPORT: ..." if that is at fault. */
static bool complain_of_transport(void) {
    const char *error = gcoll_last_error();
    cli_complain("%s%s", strncmp(error, "transport:", strlen("transport:")) == 0 ? "--" : "", error);
    return false;
}

bool bench_find_transport(bench_options *o) {
    if (gcoll_transport_parse(o->transport_text, &o->transport) != GCOLL_OK)
        return complain_of_transport();
    o->inproc = strcmp(o->transport, "inproc") == 0;
    return true;
}

static bool read_transport(const cli_flag *flag, const char *text, void *options) {
    bench_options *o = options;
    (void)flag;
    o->transport_text = text;
    return bench_find_transport(o);
}

static bool read_collective(const cli_flag *flag, const char *text, void *to) {
    gcoll_collective collective;
    if (strcmp(text, "all") != 0 && gcoll_collective_parse(text, &collective) != GCOLL_OK) {
        char allowed[300] = "one of all";
        size_t used = strlen(allowed);
        for (unsigned c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) { /* about 120 bytes */
            used += (size_t)snprintf(allowed + used, sizeof allowed - used, ", %s",
                                     gcoll_collective_name((gcoll_collective)c));
        }
        return cli_bad(flag->name, text, allowed);
    }
    return cli_read_text(flag, text, to);
}

static bool read_factor(const cli_flag *flag, const char *text, void *to) {
    char *end;
    const double factor = strtod(text, &end);
    if (end == text || *end || !isfinite(factor) || factor == 0)
        return cli_bad(flag->name, text, "a finite number other than 0");
    *(double *)to = factor;
    return true;
}

/* None of its texts is a codec: that is left out. */
static bool read_codec(const cli_flag *flag, const char *text, void *to) {
    gcoll_codec codec;
    (void)flag;
    if (gcoll_codec_parse(text, &codec) != GCOLL_OK) {
        cli_complain("--%s", gcoll_last_error());
        return false;
    }
    *(const char **)to = codec.kind != GCOLL_CODEC_NONE ? text : NULL;
    return true;
}

static bool read_local_reduction(const cli_flag *flag, const char *text, void *to) {
    return gcoll_memory_local_parse(text, to) == GCOLL_OK ||
           cli_bad(flag->name, text, "one of auto, host, device, peer, nccl");
}

/* ---- The table ---------------------------------------------------------------------------------------- */

static const cli_word mtus[] = {{"256", 256},   {"512", 512},   {"1024", 1024},
                                {"2048", 2048}, {"4096", 4096}, {NULL, 0}};
static const cli_word formats[] = {
    {"table", BENCH_TABLE}, {"json", BENCH_JSON}, {"csv", BENCH_CSV}, {NULL, 0}};

static const cli_flag rows[] = {
    {.help = "Where"},
    {"--local", "N", "start N ranks on this machine (2, unless --rank is given or a launcher started this)",
     NULL, CLI_WHOLE32(local, 1, MOST_LOCAL)},
    {"--rank", "R", "this process is rank R of a job on several hosts", NULL, CLI_OTHER(read_rank, rank)},
    {"--size", "N", "ranks of that job; the same on every host", NULL, CLI_WHOLE32(size, 1, MOST_RANKS)},
    {"--store", "URL", "where they meet: file:DIR, tcp://host:port of a rank, or redis://host[:port][/db]",
     NULL, CLI_TEXT(store)},
    {"--job", "ID", "name of the job in the store (gcoll_bench)", NULL, CLI_OTHER(cli_read_name, job)},
    {"--transport", "TEXT",
     "auto, tcp, shm, ibverbs, or inproc: threads; options below (GCOLL_TRANSPORT, or auto)", NULL,
     .read = read_transport},
    {"--interface", "LIST", "eth0,10.0.0.0/8: use these; ^docker0,veth*: not these (GCOLL_INTERFACE, or all)",
     NULL, CLI_TEXT(interface)},
    {"--ib-device", "NAME", "ibverbs: device (the first active one with an address of this host)", NULL,
     CLI_TEXT(ibverbs.device), CLI_GIVEN(has_ibverbs)},
    {"--ib-port", "N", "ibverbs: its port (the first active one)", NULL,
     CLI_WHOLE32(ibverbs.port, 1, UINT8_MAX), CLI_GIVEN(has_ibverbs)},
    {"--ib-gid-index", "N", "ibverbs: which of the port's GIDs (found by type, RoCE v2, and address)", NULL,
     CLI_INT(ibverbs.gid_index, 0, UINT8_MAX), CLI_GIVEN(has_ibverbs)},
    {"--ib-mtu", "BYTES", "ibverbs: 256 to 4096 (the port's)", NULL, CLI_WORD(ibverbs.mtu, mtus),
     CLI_GIVEN(has_ibverbs)},
    {"--list-devices", NULL, "print what each transport sees on this machine", NULL,
     CLI_SWITCH(list_devices)},
    {"--timeout", "TIME", "limit of each call of the library", "30s",
     CLI_TIME(timeout_ms, CLI_MS, 1, MOST_TIMEOUT_MS)},
    {"--checksum", NULL, "tcp, inproc: messages carry a CRC32C, which is checked", NULL,
     CLI_SWITCH(checksum)},
    {.help = "What"},
    {"--collective", "NAME", "allreduce, reduce_scatter, ... (see below), or all (allreduce)", NULL,
     CLI_OTHER(read_collective, collective)},
    {"--algorithm", "LIST", "NAME[:key=value]...[,NAME...], all, or auto (auto)", NULL, CLI_TEXT(algorithm)},
    {"--same", "WHERE", "ranks, runs, nowhere: where sums must be the same bits (ranks; of a name: nowhere)",
     NULL, CLI_WORD(same, cli_same_words)},
    {"--order", "TREE", "any, pairs, left: the tree of operations that builds each element (any)", NULL,
     CLI_WORD(order, cli_order_words)},
    {"--load", "FILE.so", "algorithms of your own (gcoll/plan.h); may be repeated", NULL, .read = bench_load},
    {"--plan", "FILE",
     "run the plans of a file instead, whose ranks and collective these are (docs/plans-as-files.md)", NULL,
     CLI_TEXT(plan)},
    {"--bytes", "LIST", "sizes and sweeps: 4,1Ki or 4:64Mi:x4 or 0:1Ki:+256 (4:64Mi:x4)", NULL,
     CLI_LIST(sizes, 0, CLI_MOST_SIZE)},
    {"--type", "NAME", "type of the elements: int8, float32, complex64, ... (docs/types.md)", "float32",
     CLI_OTHER(cli_read_type, type)},
    {"--op", "NAME", "sum, product, min, max, avg, band, bor, bxor, land, lor, lxor, minloc, maxloc", "sum",
     CLI_OTHER(cli_read_op, op)},
    {"--prescale", "F", "reductions of floats: each input is multiplied by this (none)", NULL,
     CLI_OTHER(read_factor, prescale)},
    {"--postscale", "F", "and the result by this (none)", NULL, CLI_OTHER(read_factor, postscale)},
    {"--codec", "NAME",
     "bf16, fp16, int8:block=128, fp8:block=32, ...,seed=1: how messages carry float32 (none)", NULL,
     CLI_OTHER(read_codec, codec)},
    {"--inputs", "N", "allreduce, reduce_scatter, broadcast: buffers of each rank", "1",
     CLI_WHOLE32(inputs, 1, MOST_INPUTS)},
    {"--device", "WHICH", "where buffers are: host, or in turn on cuda[:N[,N]...], cuda:all (host)", NULL,
     .read = bench_read_device},
    {"--shared", NULL, "buffers come from gcoll_memory_alloc: ranks of a host read them where they lie", NULL,
     CLI_SWITCH(shared)},
    {"--local-reduction", "HOW", "of several on devices: auto, host, device, peer, nccl", "auto",
     CLI_OTHER(read_local_reduction, local_reduction)},
    {"--root", "R", "broadcast, reduce, gather, scatter: the root", "0",
     CLI_WHOLE32(root, 0, MOST_RANKS - 1)},
    {"--exchanges", "N", "pairwise_exchange: chunks, of which c goes to rank XOR 2^c (0: log2 of the ranks)",
     NULL, CLI_WHOLE32(exchanges, 0, GCOLL_MAX_EXCHANGES)},
    {.help = "How"},
    {"--settle", "TIME",
     "barriers for so long before the first size (none; 1.5s with --tune and --tune-check)", NULL,
     CLI_TIME(settle_s, CLI_S, LEAST_SECONDS, MOST_SECONDS)},
    {"--warmup", "N", "calls before the timed ones", "5", CLI_WHOLE32(warmup, 0, MOST_REPEATS)},
    {"--iterations", "N", "timed calls for each size", NULL, CLI_WHOLE32(iterations, 1, MOST_REPEATS)},
    {"--time", "TIME", "instead: as many as fit, at least 5, at most 100000", "0.5s",
     CLI_TIME(seconds, CLI_S, LEAST_SECONDS, MOST_SECONDS), CLI_GIVEN(time_given)},
    {"--in-place", NULL, "time in place instead of out of place", NULL, CLI_SWITCH(in_place)},
    {"--one-shot", NULL, "time gcoll_allreduce etc. instead of a prepared operation", NULL,
     CLI_SWITCH(one_shot)},
    {"--back-to-back", NULL, "no barrier before each timed call", NULL, CLI_SWITCH(back_to_back)},
    {"--line-up", "FILE",
     "ranks are lined up by a barrier in this file of one machine, and not by the library's", NULL,
     CLI_TEXT(line_up)},
    {"--with-barrier", NULL, "the barrier before each call is timed with it", NULL, CLI_SWITCH(with_barrier)},
    {"--arrival", "PATTERN", CLI_ARRIVAL_ALLOWED, NULL, CLI_OTHER(cli_read_arrival, arrival),
     CLI_GIVEN(paced)},
    {"--compute", "TIME", "ranks compute (sleep) so long before each call (0)", NULL,
     CLI_TIME(compute_ms, CLI_MS, 0, MOST_COMPUTE_MS), CLI_GIVEN(paced)},
    {"--monitor", "WHAT", "on, off, edges: auto heeds who is late of 3 to 64 ranks, and is told at half time",
     "off", CLI_WORD(monitor, bench_monitors)},
    {"--no-check", NULL, "do not check results", NULL, CLI_SWITCH(no_check)},
    {"--rounding", NULL, "also the largest rounding error of sums of random numbers", NULL,
     CLI_SWITCH(rounding)},
    {.help = "Choosing"},
    {"--tuning", "WHAT",
     "what auto goes by: fit or a tuning file, which learn; fixed, fixed:FILE or default, which do not "
     "(GCOLL_TUNING, or fit)",
     NULL, CLI_TEXT(tuning)},
    {"--tune", "FILE", "find the best of --algorithm (all) for --collective (all), and write that to FILE",
     NULL, CLI_TEXT(tune)},
    {"--tune-check", NULL, "compare auto with the best of --algorithm (all)", NULL, CLI_SWITCH(tune_check)},
    {.help = "Networks"},
    {"--network-out", "FILE",
     "instead: what messages between each two ranks cost, for gcoll_plan --network; about --time for each "
     "rank",
     NULL, CLI_TEXT(network_out)},
    {.help = "Output"},
    {"--format", "NAME", "table, json (one object a line) or csv", "table", CLI_WORD(format, formats)},
    {"--output", "FILE", "write results there instead of to standard output", NULL, CLI_TEXT(output)},
    {"--report", "FILE", "also write a page of HTML there, with tables and pictures of the results", NULL,
     CLI_TEXT(report)},
    {"--results", "FILE", "measure nothing: --report of these results, as --format json printed them", NULL,
     CLI_TEXT(results)},
    {"--trace", "DIR", "write the last operations of each rank there, for gcoll_trace", NULL,
     CLI_TEXT(trace)},
    {"--resources", NULL, "say what a rank cost: start-up, memory, sockets, processor time", NULL,
     CLI_SWITCH(resources)},
    {"--verbose", NULL, "say more on standard error", NULL, CLI_SWITCH(verbose)},
    {"--version", NULL, "print the version", NULL, CLI_SWITCH(version)},
    {"--help", NULL, "print this", NULL, CLI_SWITCH(help)},
};

static const cli_flags flags = {.rows = rows, .count = sizeof rows / sizeof rows[0]};

bool bench_flags_parse(bench_options *options, int argc, char **argv) {
    return cli_parse(&flags, argc, argv, options);
}

static void print_algorithms(FILE *file) {
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) {
        (void)fprintf(file, "\nAlgorithms of %s:\n", gcoll_collective_name((gcoll_collective)c));
        const char *name;
        const char *summary;
        for (uint32_t i = 0;
             gcoll_algorithm_at(gcoll_collective_name((gcoll_collective)c), i, &name, &summary) == GCOLL_OK;
             i++)
            (void)fprintf(file, "  %-20s %s\n", name, summary);
    }
}

typedef struct option_list {
    FILE *file;
    const char *transport;
    bool begun;
} option_list;

static void print_option(void *arg, const gcoll_transport_option *option) {
    option_list *list = arg;
    char left[40];
    if (!list->begun)
        (void)fprintf(list->file, "\nOptions of --transport %s, as in %s:%s=... (defaults in parentheses):\n",
                      list->transport, list->transport, option->name);
    list->begun = true;
    (void)snprintf(left, sizeof left, "%s=", option->name);
    (void)fprintf(list->file, "  %-20s %s: %s (%s%s%s)\n", left, option->help, option->allowed,
                  option->variable, option->variable[0] ? ", or " : "", option->initial);
}

static void print_transports(FILE *file) {
    option_list list = {.file = file};
    for (uint32_t i = 0; gcoll_transport_at(i, &list.transport) == GCOLL_OK; i++) {
        list.begun = false;
        (void)gcoll_transport_options(list.transport, print_option, &list);
    }
}

void bench_print_help(FILE *file) {
    (void)fputs("gcoll_bench - times and checks collective operations of gcoll\n", file);
    cli_print_flags(file, &flags);
    print_transports(file);
    print_algorithms(file);
    (void)fputs(
        "\nExamples:\n"
        "  gcoll_bench --local 4\n"
        "      allreduce by 4 processes of this machine, from 4 bytes to 64 MiB\n"
        "  gcoll_bench --local 8 --algorithm all --bytes 1Mi --format csv --output all.csv\n"
        "      every algorithm at one size\n"
        "  gcoll_bench --local 4 --transport inproc --collective all --type int32 --op max\n"
        "      threads instead of processes, every collective\n"
        "  gcoll_bench --rank 0 --size 2 --store redis://10.0.0.1 --job a1   on one host, and\n"
        "  gcoll_bench --rank 1 --size 2 --store redis://10.0.0.1 --job a1   on the other\n"
        "  srun -n 4 gcoll_bench\n"
        "      rank, size and store by the launcher's variables: torchrun's, Slurm's, Open MPI's, PMI's,\n"
        "      or GCOLL_RANK, GCOLL_SIZE and GCOLL_STORE (docs/launchers.md)\n"
        "  gcoll_bench --local 8 --tune my.tuning && GCOLL_TUNING=my.tuning gcoll_bench --local 8\n"
        "      what this machine does best, from then on (docs/tuning.md)\n"
        "  GCOLL_SECRET_FILE=secret GCOLL_ENCRYPTION=on gcoll_bench --local 4 --transport tcp\n"
        "      encrypted by a key of that secret (docs/security.md)\n"
        "\nThe time of an iteration is that of its slowest rank; algbw is bytes by the median time, and "
        "busbw\n"
        "that times 2(P-1)/P for allreduce, (P-1)/P where each rank has a block, 1 for all else. Exit "
        "status: 0 all was right, 1 wrong results or a failure or a\n"
        "lost rank, 2 a bad command line.\n",
        file);
}
