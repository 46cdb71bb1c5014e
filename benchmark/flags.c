/* benchmark/flags.c - one table drives reading the flags, the help and the messages. */
#include <errno.h>
#include <inttypes.h>
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

static bool bad(const char *flag, const char *text, const char *allowed) {
    bench_complain("%s: found '%s'; allowed: %s", flag, text, allowed);
    return false;
}

static bool whole(const char *flag, const char *text, uint64_t min, uint64_t max, uint64_t *value) {
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number < min || number > max) {
        char allowed[80];
        (void)snprintf(allowed, sizeof allowed, "a whole number from %" PRIu64 " to %" PRIu64, min, max);
        return bad(flag, text, allowed);
    }
    *value = number;
    return true;
}

static bool whole32(const char *flag, const char *text, uint32_t min, uint32_t max, uint32_t *value) {
    uint64_t number;
    if (!whole(flag, text, min, max, &number)) {
        return false;
    }
    *value = (uint32_t)number;
    return true;
}

static bool set_local(bench_options *o, const char *flag, const char *text) {
    return whole32(flag, text, 1, MOST_LOCAL, &o->local);
}

static bool set_rank(bench_options *o, const char *flag, const char *text) {
    uint64_t rank;
    if (!whole(flag, text, 0, MOST_RANKS - 1, &rank)) {
        return false;
    }
    o->rank = (int64_t)rank;
    return true;
}

static bool set_size(bench_options *o, const char *flag, const char *text) {
    return whole32(flag, text, 1, MOST_RANKS, &o->size);
}

static bool set_store(bench_options *o, const char *flag, const char *text) {
    if (strncmp(text, "file:", 5) != 0 && strncmp(text, "redis://", 8) != 0) {
        return bad(flag, text, "file:DIR, redis://[user:password@]host[:port][/db]");
    }
    o->store = text;
    return true;
}

static bool set_job(bench_options *o, const char *flag, const char *text) {
    size_t good = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (good == 0 || text[good] != '\0' || good > JOB_NAME_MAX) {
        return bad(flag, text, "1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'");
    }
    o->job = text;
    return true;
}

static bool set_transport(bench_options *o, const char *flag, const char *text) {
    o->inproc = strcmp(text, "inproc") == 0;
    if (!o->inproc && strcmp(text, "tcp") != 0 && strcmp(text, "auto") != 0) {
        return bad(flag, text, "auto, tcp, inproc");
    }
    return true;
}

static bool set_interface(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->interface = text;
    return true;
}

static bool set_timeout(bench_options *o, const char *flag, const char *text) {
    uint64_t ms;
    if (!whole(flag, text, 1, MOST_TIMEOUT_MS, &ms)) {
        return false;
    }
    o->timeout_ms = (int64_t)ms;
    return true;
}

static bool set_collective(bench_options *o, const char *flag, const char *text) {
    bool good = strcmp(text, "all") == 0;
    for (int c = 0; c < BENCH_COLLECTIVE_COUNT; c++) {
        good = good || strcmp(text, bench_collective_names[c]) == 0;
    }
    if (!good) {
        return bad(flag, text, "allreduce, broadcast, barrier, all");
    }
    o->collective = text;
    return true;
}

static bool set_algorithm(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->algorithm = text; /* read when the collective is known */
    return true;
}

static bool set_bytes(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->bytes = text; /* read when the type is known */
    return true;
}

static bool set_type(bench_options *o, const char *flag, const char *text) {
    if (gcoll_type_parse(text, &o->type) != GCOLL_OK) {
        bench_complain("%s: %s", flag, gcoll_last_error());
        return false;
    }
    return true;
}

static bool set_op(bench_options *o, const char *flag, const char *text) {
    gcoll_op op;
    if (gcoll_op_parse(text, &op) != GCOLL_OK) {
        bench_complain("%s: %s", flag, gcoll_last_error());
        return false;
    }
    if (op == GCOLL_USER) {
        return bad(flag, text, "the built-in operations; one of your own needs a function");
    }
    o->op = op;
    return true;
}

static bool set_root(bench_options *o, const char *flag, const char *text) {
    return whole32(flag, text, 0, MOST_RANKS - 1, &o->root);
}

static bool set_inputs(bench_options *o, const char *flag, const char *text) {
    return whole32(flag, text, 1, MOST_INPUTS, &o->inputs);
}

static bool set_warmup(bench_options *o, const char *flag, const char *text) {
    return whole32(flag, text, 0, MOST_REPEATS, &o->warmup);
}

static bool set_iterations(bench_options *o, const char *flag, const char *text) {
    return whole32(flag, text, 1, MOST_REPEATS, &o->iterations);
}

static bool set_time(bench_options *o, const char *flag, const char *text) {
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(seconds) || seconds <= 0 || seconds > MOST_SECONDS) {
        return bad(flag, text, "a number of seconds above 0 and up to 86400");
    }
    o->seconds = seconds;
    return true;
}

static bool set_no_check(bench_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    return o->no_check = true;
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
    return bad(flag, text, "table, json, csv");
}

static bool set_output(bench_options *o, const char *flag, const char *text) {
    (void)flag;
    o->output = text;
    return true;
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
    const char *name;
    const char *value; /* NULL: takes none */
    setter set;
    const char *help; /* a heading if name is NULL */
} flag_row;

static const flag_row flags[] = {
    {NULL, NULL, NULL, "Where"},
    {"--local", "N", set_local, "start N ranks on this machine (2, unless --rank is given)"},
    {"--rank", "R", set_rank, "this process is rank R of a job on several hosts"},
    {"--size", "N", set_size, "ranks of that job; the same on every host"},
    {"--store", "URL", set_store, "where they meet: file:DIR or redis://host[:port][/db]"},
    {"--job", "ID", set_job, "name of the job in the store (gcoll_bench)"},
    {"--transport", "NAME", set_transport, "auto, tcp, or inproc: threads of one process (auto)"},
    {"--interface", "WHICH", set_interface, "tcp: interface name, address or subnet (all)"},
    {"--timeout", "MS", set_timeout, "limit of each call of the library (30000)"},
    {NULL, NULL, NULL, "What"},
    {"--collective", "NAME", set_collective, "allreduce, broadcast, barrier or all (allreduce)"},
    {"--algorithm", "LIST", set_algorithm, "NAME[:key=value]...[,NAME...], all, or auto (auto)"},
    {"--bytes", "LIST", set_bytes, "sizes and sweeps: 4,1Ki or 4:64Mi:x4 or 0:1Ki:+256 (4:64Mi:x4)"},
    {"--type", "NAME", set_type, "type of the elements (float32)"},
    {"--op", "NAME", set_op, "sum, product, min, max, avg, band, bor, bxor (sum)"},
    {"--inputs", "N", set_inputs, "buffers of each rank (1)"},
    {"--root", "R", set_root, "broadcast: the rank that has the data (0)"},
    {NULL, NULL, NULL, "How"},
    {"--warmup", "N", set_warmup, "calls before the timed ones (5)"},
    {"--iterations", "N", set_iterations, "timed calls for each size"},
    {"--time", "SECONDS", set_time, "instead: as many as fit, at least 5, at most 100000 (0.5)"},
    {"--in-place", NULL, set_in_place, "time in place instead of out of place"},
    {"--one-shot", NULL, set_one_shot, "time gcoll_allreduce etc. instead of a prepared operation"},
    {"--back-to-back", NULL, set_back_to_back, "no barrier before each timed call"},
    {"--no-check", NULL, set_no_check, "do not check results"},
    {NULL, NULL, NULL, "Output"},
    {"--format", "NAME", set_format, "table, json (one object a line) or csv (table)"},
    {"--output", "FILE", set_output, "write results there instead of to standard output"},
    {"--verbose", NULL, set_verbose, "say more on standard error"},
    {"--version", NULL, set_version, "print the version"},
    {"--help", NULL, set_help, "print this"},
};

#define FLAG_COUNT (sizeof flags / sizeof flags[0])

static void complain_unknown(const char *argument, size_t length) {
    char allowed[600] = "";
    size_t used = 0;
    for (size_t f = 0; f < FLAG_COUNT; f++) {
        if (flags[f].name != NULL && used < sizeof allowed) {
            used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s", used > 0 ? ", " : "",
                                     flags[f].name);
        }
    }
    bench_complain("unknown argument '%.*s'; allowed: %s", (int)length, argument, allowed);
}

bool bench_flags_parse(bench_options *options, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        size_t length = strcspn(argv[i], "=");
        const flag_row *row = NULL;
        for (size_t f = 0; f < FLAG_COUNT && row == NULL; f++) {
            if (flags[f].name != NULL && strlen(flags[f].name) == length &&
                memcmp(flags[f].name, argv[i], length) == 0) {
                row = &flags[f];
            }
        }
        if (row == NULL) {
            complain_unknown(argv[i], length);
            return false;
        }
        const char *text = argv[i][length] == '=' ? argv[i] + length + 1 : NULL;
        if (row->value == NULL && text != NULL) {
            bench_complain("%s: found '%s'; it takes no value", row->name, text);
            return false;
        }
        if (row->value != NULL && text == NULL) {
            if (i + 1 == argc) {
                bench_complain("%s: needs a value: %s %s", row->name, row->name, row->value);
                return false;
            }
            text = argv[++i];
        }
        if (!row->set(options, row->name, text)) {
            return false;
        }
    }
    return true;
}

static void print_algorithms(FILE *file) {
    for (int c = 0; c < BENCH_COLLECTIVE_COUNT; c++) {
        (void)fprintf(file, "\nAlgorithms of %s:\n", bench_collective_names[c]);
        const char *name;
        const char *summary;
        for (uint32_t i = 0; gcoll_algorithm_at(bench_collective_names[c], i, &name, &summary) == GCOLL_OK;
             i++) {
            (void)fprintf(file, "  %-20s %s\n", name, summary);
        }
    }
}

void bench_print_help(FILE *file) {
    (void)fputs("gcoll_bench - times and checks collective operations of gcoll\n", file);
    for (size_t f = 0; f < FLAG_COUNT; f++) {
        if (flags[f].name == NULL) {
            (void)fprintf(file, "\n%s (defaults in parentheses):\n", flags[f].help);
            continue;
        }
        char left[40];
        (void)snprintf(left, sizeof left, "%s %s", flags[f].name,
                       flags[f].value != NULL ? flags[f].value : "");
        (void)fprintf(file, "  %-20s %s\n", left, flags[f].help);
    }
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
        "\nThe time of an iteration is that of its slowest rank; algbw is bytes by the median time, and "
        "busbw\n"
        "that times 2(P-1)/P for allreduce. Exit status: 0 all was right, 1 wrong results or a failure or a\n"
        "lost rank, 2 a bad command line.\n",
        file);
}
