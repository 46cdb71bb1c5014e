/* benchmark/flags.c - the flags: a table of what each sets. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define MOST_LOCAL      4096u
#define MOST_RANKS      1048576u
#define MOST_INPUTS     1024u
#define MOST_REPEATS    10000000u
#define MOST_SECONDS    86400.0
#define MOST_TIMEOUT_MS 86400000u
#define JOB_NAME_MAX    64u

/* Applies `text` (NULL for a flag without value). False has been said. */
typedef bool (*setter)(bench_options *options, const char *flag, const char *text);

static bool set_local(bench_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, MOST_LOCAL, &o->local);
}

static bool set_rank(bench_options *o, const char *flag, const char *text) {
    uint64_t rank;
    if (!cli_whole(flag, text, 0, MOST_RANKS - 1, &rank)) {
        return false;
    }
    o->rank = (int64_t)rank;
    return true;
}

static bool set_size(bench_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, MOST_RANKS, &o->size);
}

static bool set_store(bench_options *o, const char *flag, const char *text) {
    if (strncmp(text, "file:", 5) != 0 && strncmp(text, "redis://", 8) != 0) {
        return cli_bad(flag, text, "file:DIR, redis://[user:password@]host[:port][/db]");
    }
    o->store = text;
    return true;
}

static bool set_job(bench_options *o, const char *flag, const char *text) {
    size_t good = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (good == 0 || text[good] != '\0' || good > JOB_NAME_MAX) {
        return cli_bad(flag, text, "1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'");
    }
    o->job = text;
    return true;
}

static bool set_transport(bench_options *o, const char *flag, const char *text) {
    static const char *const names[] = {"tcp", "inproc", "ibverbs"};
    o->transport = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            o->transport = names[i];
        }
    }
    if (o->transport == NULL && strcmp(text, "auto") == 0) {
        o->transport = "tcp";
    }
    if (o->transport == NULL) {
        return cli_bad(flag, text, "auto, tcp, inproc, ibverbs");
    }
    o->inproc = strcmp(o->transport, "inproc") == 0;
    return true;
}

static bool set_interface(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->interface = text;
    return true;
}

static bool set_timeout(bench_options *o, const char *flag, const char *text) {
    uint64_t ms;
    if (!cli_whole(flag, text, 1, MOST_TIMEOUT_MS, &ms)) {
        return false;
    }
    o->timeout_ms = (int64_t)ms;
    return true;
}

static bool set_collective(bench_options *o, const char *flag, const char *text) {
    gcoll_collective collective;
    if (strcmp(text, "all") != 0 && gcoll_collective_parse(text, &collective) != GCOLL_OK) {
        char allowed[300] = "all";
        size_t used = strlen(allowed);
        for (unsigned c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) { /* about 120 bytes */
            used += (size_t)snprintf(allowed + used, sizeof allowed - used, ", %s",
                                     gcoll_collective_name((gcoll_collective)c));
        }
        return cli_bad(flag, text, allowed);
    }
    o->collective = text;
    return true;
}

static bool set_algorithm(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->algorithm = text; /* read when the collective is known */
    return true;
}

static bool set_load(bench_options *o, const char *flag, const char *text) {
    return bench_load(o, flag, text);
}

static bool set_bytes(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->bytes = text; /* read when the type is known */
    return true;
}

static bool set_type(bench_options *o, const char *flag, const char *text) {
    if (gcoll_type_parse(text, &o->type) != GCOLL_OK) {
        cli_complain("%s: %s", flag, gcoll_last_error());
        return false;
    }
    return true;
}

static bool set_op(bench_options *o, const char *flag, const char *text) {
    gcoll_op op;
    if (gcoll_op_parse(text, &op) != GCOLL_OK) {
        cli_complain("%s: %s", flag, gcoll_last_error());
        return false;
    }
    if (op == GCOLL_USER) {
        return cli_bad(flag, text, "the built-in operations; one of your own needs a function");
    }
    o->op = op;
    return true;
}

static bool set_root(bench_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 0, MOST_RANKS - 1, &o->root);
}

static bool set_inputs(bench_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, MOST_INPUTS, &o->inputs);
}

static bool set_exchanges(bench_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, GCOLL_MAX_EXCHANGES, &o->exchanges);
}

static bool set_local_reduction(bench_options *o, const char *flag, const char *text) {
    if (gcoll_memory_local_parse(text, &o->local_reduction) != GCOLL_OK) {
        return cli_bad(flag, text, "auto, host, device, peer, nccl");
    }
    return true;
}

static bool set_warmup(bench_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 0, MOST_REPEATS, &o->warmup);
}

static bool set_iterations(bench_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, MOST_REPEATS, &o->iterations);
}

static bool set_time(bench_options *o, const char *flag, const char *text) {
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(seconds) || seconds <= 0 || seconds > MOST_SECONDS) {
        return cli_bad(flag, text, "a number of seconds above 0 and up to 86400");
    }
    o->seconds = seconds;
    return true;
}

static bool set_ib_device(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->ibverbs.device = text; /* the library knows which there are */
    return o->has_ibverbs = true;
}

static bool set_ib_port(bench_options *o, const char *flag, const char *text) {
    o->has_ibverbs = true;
    return cli_whole32(flag, text, 1, UINT8_MAX, &o->ibverbs.port);
}

static bool set_ib_gid_index(bench_options *o, const char *flag, const char *text) {
    uint32_t index;
    o->has_ibverbs = true;
    if (!cli_whole32(flag, text, 0, UINT8_MAX, &index)) {
        return false;
    }
    o->ibverbs.gid_index = (int32_t)index;
    return true;
}

static bool set_ib_mtu(bench_options *o, const char *flag, const char *text) {
    o->has_ibverbs = true;
    for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
        char name[8];
        (void)snprintf(name, sizeof name, "%u", mtu);
        if (strcmp(text, name) == 0) {
            o->ibverbs.mtu = mtu;
            return true;
        }
    }
    return cli_bad(flag, text, "256, 512, 1024, 2048, 4096");
}

static bool set_list_devices(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->list_devices = true;
}

static bool set_no_check(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->no_check = true;
}

static bool set_rounding(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->rounding = true;
}

static bool set_in_place(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->in_place = true;
}

static bool set_one_shot(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->one_shot = true;
}

static bool set_back_to_back(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->back_to_back = true;
}

static bool set_format(bench_options *o, const char *flag, const char *text) {
    static const char *const names[] = {[BENCH_TABLE] = "table", [BENCH_JSON] = "json", [BENCH_CSV] = "csv"};
    for (int f = BENCH_TABLE; f <= BENCH_CSV; f++) {
        if (strcmp(text, names[f]) == 0) {
            o->format = (bench_format)f;
            return true;
        }
    }
    return cli_bad(flag, text, "table, json, csv");
}

static bool set_tuning(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->tuning = text; /* read by the library */
    return true;
}

static bool set_tune(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->tune = text;
    return true;
}

static bool set_tune_check(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->tune_check = true;
}

static bool set_output(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->output = text;
    return true;
}

static bool set_resources(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->resources = true;
}
static bool set_verbose(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->verbose = true;
}

static bool set_version(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->version = true;
}

static bool set_help(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->help = true;
}

typedef struct flag_row {
    cli_flag flag;
    setter set;
} flag_row;

static const flag_row flags[] = {
    {{NULL, NULL, "Where"}, NULL},
    {{"--local", "N", "start N ranks on this machine (2, unless --rank is given)"}, set_local},
    {{"--rank", "R", "this process is rank R of a job on several hosts"}, set_rank},
    {{"--size", "N", "ranks of that job; the same on every host"}, set_size},
    {{"--store", "URL", "where they meet: file:DIR or redis://host[:port][/db]"}, set_store},
    {{"--job", "ID", "name of the job in the store (gcoll_bench)"}, set_job},
    {{"--transport", "NAME", "auto, tcp, ibverbs, or inproc: threads of one process (auto)"}, set_transport},
    {{"--interface", "WHICH", "tcp, ibverbs: interface name, address or subnet (all)"}, set_interface},
    {{"--ib-device", "NAME", "ibverbs: device (the first active one with an address of this host)"},
     set_ib_device},
    {{"--ib-port", "N", "ibverbs: its port (the first active one)"}, set_ib_port},
    {{"--ib-gid-index", "N", "ibverbs: which of the port's GIDs (found by type, RoCE v2, and address)"},
     set_ib_gid_index},
    {{"--ib-mtu", "BYTES", "ibverbs: 256 to 4096 (the port's)"}, set_ib_mtu},
    {{"--list-devices", NULL, "print what each transport sees on this machine"}, set_list_devices},
    {{"--timeout", "MS", "limit of each call of the library (30000)"}, set_timeout},
    {{NULL, NULL, "What"}, NULL},
    {{"--collective", "NAME", "allreduce, reduce_scatter, ... (see below), or all (allreduce)"},
     set_collective},
    {{"--algorithm", "LIST", "NAME[:key=value]...[,NAME...], all, or auto (auto)"}, set_algorithm},
    {{"--load", "FILE.so", "algorithms of your own (gcoll/plan.h); may be repeated"}, set_load},
    {{"--bytes", "LIST", "sizes and sweeps: 4,1Ki or 4:64Mi:x4 or 0:1Ki:+256 (4:64Mi:x4)"}, set_bytes},
    {{"--type", "NAME", "type of the elements (float32)"}, set_type},
    {{"--op", "NAME", "sum, product, min, max, avg, band, bor, bxor (sum)"}, set_op},
    {{"--inputs", "N", "allreduce, broadcast: buffers of each rank (1)"}, set_inputs},
    {{"--device", "WHICH", "where buffers are: host, or in turn on cuda[:N[,N]...], cuda:all (host)"},
     bench_device_parse},
    {{"--local-reduction", "HOW", "of several on devices: auto, host, device, peer, nccl (auto)"},
     set_local_reduction},
    {{"--root", "R", "broadcast, reduce, gather, scatter: the root (0)"}, set_root},
    {{"--exchanges", "N", "pairwise_exchange: chunks, of which c goes to rank XOR 2^c (log2 of the ranks)"},
     set_exchanges},
    {{NULL, NULL, "How"}, NULL},
    {{"--warmup", "N", "calls before the timed ones (5)"}, set_warmup},
    {{"--iterations", "N", "timed calls for each size"}, set_iterations},
    {{"--time", "SECONDS", "instead: as many as fit, at least 5, at most 100000 (0.5)"}, set_time},
    {{"--in-place", NULL, "time in place instead of out of place"}, set_in_place},
    {{"--one-shot", NULL, "time gcoll_allreduce etc. instead of a prepared operation"}, set_one_shot},
    {{"--back-to-back", NULL, "no barrier before each timed call"}, set_back_to_back},
    {{"--arrival", "PATTERN", CLI_ARRIVAL_ALLOWED}, bench_arrival_parse},
    {{"--compute", "MS", "ranks compute (sleep) so long before each call (0)"}, bench_compute_parse},
    {{"--monitor", "WHAT",
      "on, off, edges: auto heeds who is late of 3 to 64 ranks, and is told at half time (off)"},
     bench_monitor_parse},
    {{"--no-check", NULL, "do not check results"}, set_no_check},
    {{"--rounding", NULL, "also the largest rounding error of sums of random numbers"}, set_rounding},
    {{NULL, NULL, "Choosing"}, NULL},
    {{"--tuning", "WHAT", "what auto goes by: fit, default, or a tuning file (GCOLL_TUNING, or fit)"},
     set_tuning},
    {{"--tune", "FILE", "find the best of --algorithm (all) for --collective (all), and write that to FILE"},
     set_tune},
    {{"--tune-check", NULL, "compare auto with the best of --algorithm (all)"}, set_tune_check},
    {{NULL, NULL, "Output"}, NULL},
    {{"--format", "NAME", "table, json (one object a line) or csv (table)"}, set_format},
    {{"--output", "FILE", "write results there instead of to standard output"}, set_output},
    {{"--resources", NULL, "say what a rank cost: start-up, memory, sockets, processor time"}, set_resources},
    {{"--verbose", NULL, "say more on standard error"}, set_verbose},
    {{"--version", NULL, "print the version"}, set_version},
    {{"--help", NULL, "print this"}, set_help},
};

static const cli_flags table = {&flags[0].flag, sizeof flags / sizeof flags[0], sizeof flags[0]};

bool bench_flags_parse(bench_options *options, int argc, char **argv) {
    cli_reader reader = cli_read(table, argc, argv);
    const cli_flag *flag;
    const char *text;
    while (cli_next(&reader, &flag, &text)) {
        if (!((const flag_row *)flag)->set(options, flag->name, text)) {
            return false;
        }
    }
    return !reader.failed;
}

static void print_algorithms(FILE *file) {
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) {
        (void)fprintf(file, "\nAlgorithms of %s:\n", gcoll_collective_name((gcoll_collective)c));
        const char *name;
        const char *summary;
        for (uint32_t i = 0;
             gcoll_algorithm_at(gcoll_collective_name((gcoll_collective)c), i, &name, &summary) == GCOLL_OK;
             i++) {
            (void)fprintf(file, "  %-20s %s\n", name, summary);
        }
    }
}

void bench_print_help(FILE *file) {
    (void)fputs("gcoll_bench - times and checks collective operations of gcoll\n", file);
    cli_print_flags(file, table);
    print_algorithms(file);
    (void)fputs(
        "\nExamples:\n"
        "  gcoll_bench --local 4\n"
        "      allreduce over TCP by 4 processes of this machine, from 4 bytes to 64 MiB\n"
        "  gcoll_bench --local 8 --algorithm all --bytes 1Mi --format csv --output all.csv\n"
        "      every algorithm at one size\n"
        "  gcoll_bench --local 4 --transport inproc --collective all --type int32 --op max\n"
        "      threads instead of processes, every collective\n"
        "  gcoll_bench --rank 0 --size 2 --store redis://10.0.0.1 --job a1   on one host, and\n"
        "  gcoll_bench --rank 1 --size 2 --store redis://10.0.0.1 --job a1   on the other\n"
        "  gcoll_bench --local 8 --tune my.tuning && GCOLL_TUNING=my.tuning gcoll_bench --local 8\n"
        "      what this machine does best, from then on (docs/tuning.md)\n"
        "\nThe time of an iteration is that of its slowest rank; algbw is bytes by the median time, and "
        "busbw\n"
        "that times 2(P-1)/P for allreduce, (P-1)/P where each rank has a block, 1 for all else. Exit "
        "status: 0 all was right, 1 wrong results or a failure or a\n"
        "lost rank, 2 a bad command line.\n",
        file);
}
