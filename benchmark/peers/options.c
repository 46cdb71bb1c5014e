/* benchmark/peers/options.c - the flags of the peers' programs. */
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define MOST_LOCAL      1024u
#define MOST_RANKS      65536u
#define MOST_REPEATS    10000000u
#define MOST_SECONDS    3600.0
#define MOST_LIMIT_S    86400u
#define DEFAULT_BYTES   "4:64Mi:x4"
#define DEFAULT_LIMIT_S 120u

static const char *const collective_names[PEER_COLLECTIVES] = {
    "allreduce", "allgather", "reduce_scatter", "broadcast", "alltoall", "barrier",
};

const char *peer_collective_name(peer_collective collective) {
    return collective_names[collective];
}

/* Applies `text`. False has been said. */
typedef bool (*setter)(peer_options *options, const char *flag, const char *text);

static bool set_local(peer_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, MOST_LOCAL, &o->local);
}

static bool set_rank(peer_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 0, MOST_RANKS - 1, &o->rank);
}

static bool set_size(peer_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, MOST_RANKS, &o->size);
}

static bool set_store(peer_options *o, const char *flag, const char *text) {
    const char *path = strncmp(text, "file:", 5) == 0 ? text + 5 : text;
    if (path[0] != '/') {
        return cli_bad(flag, text, "the absolute path of a folder that all ranks see");
    }
    o->store = path;
    return true;
}

static bool set_job(peer_options *o, const char *flag, const char *text) {
    size_t good = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (good == 0 || text[good] != '\0' || good > 64) {
        return cli_bad(flag, text, "1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'");
    }
    o->job = text;
    return true;
}

static bool set_interface(peer_options *o, const char *flag, const char *text) {
    (void)flag;
    o->interface = text;
    return true;
}

static bool set_collective(peer_options *o, const char *flag, const char *text) {
    for (unsigned c = 0; c < PEER_COLLECTIVES; c++) {
        if (strcmp(text, collective_names[c]) == 0) {
            o->collective = (peer_collective)c;
            return true;
        }
    }
    return cli_bad(flag, text, "allreduce, allgather, reduce_scatter, broadcast, alltoall, barrier");
}

static bool set_algorithm(peer_options *o, const char *flag, const char *text) {
    (void)flag;
    o->algorithm = text;
    return true;
}

static bool set_bytes(peer_options *o, const char *flag, const char *text) {
    return cli_parse_list(flag, text, &o->sizes);
}

static bool set_warmup(peer_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 0, MOST_REPEATS, &o->warmup);
}

static bool set_iterations(peer_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, MOST_REPEATS, &o->iterations);
}

static bool set_time(peer_options *o, const char *flag, const char *text) {
    return cli_real(flag, text, 1e-6, MOST_SECONDS, &o->seconds);
}

static bool set_limit(peer_options *o, const char *flag, const char *text) {
    return cli_whole32(flag, text, 1, MOST_LIMIT_S, &o->limit_s);
}

static bool set_help(peer_options *o, const char *flag, const char *text) {
    (void)flag, (void)text;
    o->help = true;
    return true;
}

/* The first rows are for programs that start their own ranks. */
typedef struct row {
    cli_flag flag;
    setter set;
} row;

#define PLACE_ROWS 7

static const row rows[] = {
    {{NULL, NULL, "Where"}, NULL},
    {{"--local", "N", "start N ranks on this machine (2, unless --size is given)"}, set_local},
    {{"--rank", "R", "this process is rank R of a job whose ranks are started one by one"}, set_rank},
    {{"--size", "N", "ranks of that job; the same everywhere"}, set_size},
    {{"--store", "DIR", "where they meet: a folder that all ranks see, empty before the job"}, set_store},
    {{"--job", "ID", "name of the job in the store (peer)"}, set_job},
    {{"--interface", "NAME", "network interface (lo)"}, set_interface},
    {{NULL, NULL, "What"}, NULL},
    {{"--collective", "NAME",
      "allreduce, allgather, reduce_scatter, broadcast, alltoall or barrier (allreduce)"},
     set_collective},
    {{"--algorithm", "NAME", "see below"}, set_algorithm},
    {{"--bytes", "LIST", "sizes and sweeps, of whole vectors of float32: 4,1Ki or 4:64Mi:x4 (4:64Mi:x4)"},
     set_bytes},
    {{NULL, NULL, "How"}, NULL},
    {{"--warmup", "N", "calls before the timed ones, at most as long as --time (5)"}, set_warmup},
    {{"--iterations", "N", "timed calls for each size"}, set_iterations},
    {{"--time", "SECONDS", "instead: as many as fit, at least 5, at most 100000 (0.5)"}, set_time},
    {{"--limit", "SECONDS", "end with an error after so long (120)"}, set_limit},
    {{"--help", NULL, "print this"}, set_help},
};

static cli_flags flags_of(const peer_program *program) {
    size_t skipped = program->starts_ranks ? 0 : PLACE_ROWS;
    return (cli_flags){&rows[skipped].flag, sizeof rows / sizeof rows[0] - skipped, sizeof rows[0]};
}

void peer_print_help(const peer_program *program) {
    (void)printf("%s - %s", cli_program, program->about);
    cli_print_flags(stdout, flags_of(program));
    if (program->algorithms != NULL) {
        (void)printf("\n%s", program->algorithms);
    }
}

static bool settle(const peer_program *program, peer_options *o) {
    if (o->sizes.count == 0 && !cli_parse_list("--bytes", DEFAULT_BYTES, &o->sizes)) {
        return false;
    }
    if (!program->starts_ranks) {
        return true;
    }
    if (o->size > 0 && (o->local > 0 || o->store == NULL)) {
        cli_complain("--size goes with --rank and --store, and not with --local");
        return false;
    }
    if (o->size == 0) {
        o->local = o->local > 0 ? o->local : 2;
        o->size = o->local;
    }
    if (o->rank >= o->size) {
        cli_complain("--rank %u: a job of %u ranks has ranks 0 to %u", o->rank, o->size, o->size - 1);
        return false;
    }
    return true;
}

bool peer_options_parse(const peer_program *program, int argc, char **argv, peer_options *options) {
    *options = (peer_options){
        .job = "peer", .interface = "lo", .warmup = 5, .seconds = 0.5, .limit_s = DEFAULT_LIMIT_S};
    cli_reader reader = cli_read(flags_of(program), argc, argv);
    const cli_flag *flag;
    const char *text;
    bool good = true;
    while (good && cli_next(&reader, &flag, &text)) {
        good = ((const row *)(const void *)flag)->set(options, flag->name, text);
    }
    if (good && !reader.failed && settle(program, options)) {
        return true;
    }
    (void)fprintf(stderr, "%s: try --help\n", cli_program);
    peer_options_free(options);
    return false;
}

void peer_options_free(peer_options *options) {
    free(options->sizes.values);
    options->sizes = (cli_list){NULL, 0};
}
