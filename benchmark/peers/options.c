/* benchmark/peers/options.c - the flags of the peers' programs. */
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define MOST_LOCAL   1024u
#define MOST_RANKS   65536u
#define MOST_REPEATS 10000000u
#define MOST_SECONDS 3600
#define MOST_LIMIT_S 86400

#define CLI_OPTIONS peer_options

static const cli_word collectives[PEER_COLLECTIVES + 1] = {
    {"allreduce", PEER_ALLREDUCE}, {"allgather", PEER_ALLGATHER}, {"reduce_scatter", PEER_REDUCE_SCATTER},
    {"broadcast", PEER_BROADCAST}, {"alltoall", PEER_ALLTOALL},   {"barrier", PEER_BARRIER}};

const char *peer_collective_name(peer_collective collective) {
    return collectives[collective].text;
}

static bool read_store(const cli_flag *flag, const char *text, void *to) {
    const char *path = strncmp(text, "file:", 5) == 0 ? text + 5 : text;
    if (path[0] != '/')
        return cli_bad(flag->name, text, "the absolute path of a folder that all ranks see");
    return cli_read_text(flag, path, to);
}

/* Of programs that start their own ranks; for others a bit that no row has. */
#define STARTS 1u
#define OTHERS 2u

static const cli_flag rows[] = {
    {.help = "Where", .commands = STARTS},
    {"--local", "N", "start N ranks on this machine (2, unless --size is given)", NULL,
     CLI_WHOLE32(local, 1, MOST_LOCAL), .commands = STARTS},
    {"--rank", "R", "this process is rank R of a job whose ranks are started one by one", NULL,
     CLI_WHOLE32(rank, 0, MOST_RANKS - 1), .commands = STARTS},
    {"--size", "N", "ranks of that job; the same everywhere", NULL, CLI_WHOLE32(size, 1, MOST_RANKS),
     .commands = STARTS},
    {"--store", "DIR", "where they meet: a folder that all ranks see, empty before the job", NULL,
     CLI_OTHER(read_store, store), .commands = STARTS},
    {"--job", "ID", "name of the job in the store", "peer", CLI_OTHER(cli_read_name, job),
     .commands = STARTS},
    {"--interface", "NAME", "network interface", "lo", CLI_TEXT(interface), .commands = STARTS},
    {.help = "What"},
    {"--collective", "NAME", "allreduce, allgather, reduce_scatter, broadcast, alltoall or barrier",
     "allreduce", CLI_WORD(collective, collectives)},
    {"--algorithm", "NAME", "see below", NULL, CLI_TEXT(algorithm)},
    {"--bytes", "LIST", "sizes and sweeps, of whole vectors of float32: 4,1Ki or 4:64Mi:x4", "4:64Mi:x4",
     CLI_LIST(sizes, 0, CLI_MOST_SIZE)},
    {.help = "How"},
    {"--settle", "TIME", "first of all, barriers for so long", NULL,
     CLI_TIME(settle_s, CLI_S, 1e-6, MOST_SECONDS)},
    {"--warmup", "N", "calls before the timed ones, at most as long as --time", "5",
     CLI_WHOLE32(warmup, 0, MOST_REPEATS)},
    {"--iterations", "N", "timed calls for each size", NULL, CLI_WHOLE32(iterations, 1, MOST_REPEATS)},
    {"--time", "TIME", "instead: as many as fit, at least 5, at most 100000", "0.5s",
     CLI_TIME(seconds, CLI_S, 1e-6, MOST_SECONDS)},
    {"--with-barrier", NULL, "the barrier before each call is timed with it", NULL, CLI_SWITCH(with_barrier)},
    {"--line-up", "FILE", "ranks are lined up by a barrier in this file, and not by the program's", NULL,
     CLI_TEXT(line_up)},
    {"--limit", "TIME", "end with an error after so long", "2m", CLI_TIME(limit_s, CLI_S, 1, MOST_LIMIT_S)},
    {"--help", NULL, "print this", NULL, CLI_SWITCH(help)},
};

static cli_flags flags_of(const peer_program *program) {
    return (cli_flags){rows, sizeof rows / sizeof rows[0], program->starts_ranks ? STARTS : OTHERS};
}

void peer_print_help(const peer_program *program) {
    const cli_flags flags = flags_of(program);
    (void)printf("%s - %s", cli_program, program->about);
    cli_print_flags(stdout, &flags);
    if (program->algorithms)
        (void)printf("\n%s", program->algorithms);
}

static bool settle(const peer_program *program, peer_options *o) {
    if (o->line_up && o->with_barrier) {
        cli_complain("--with-barrier: found with --line-up, which leaves that barrier out");
        return false;
    }
    if (!program->starts_ranks)
        return true;
    if (o->size > 0 && (o->local > 0 || !o->store)) {
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
    const cli_flags flags = flags_of(program);
    *options = (peer_options){0};
    if (cli_parse(&flags, argc, argv, options) && settle(program, options))
        return true;
    (void)fprintf(stderr, "%s: try --help\n", cli_program);
    peer_options_free(options);
    return false;
}

void peer_options_free(peer_options *options) {
    free(options->sizes.values);
    options->sizes = (cli_list){NULL, 0};
}
