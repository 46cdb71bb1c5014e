/* tools/main.c - gcoll_plan: lists, proves, measures, shows and prices algorithms without running them. */
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/plugin.h"
#include "tools/words.h"

const char cli_program[] = "gcoll_plan";

const tool_command tool_commands[] = {
    {"list", tool_list, "algorithms, their options, claims and sources", "list --collective allreduce"},
    {"verify", tool_verify, "proves algorithms over many shapes; exit status 1 if one is wrong",
     "verify --collective all --algorithm all --ranks 1-64,100,127 --count 0,1,63,1000"},
    {"stats", tool_stats, "steps, elements and messages of proved plans",
     "stats --collective allreduce --algorithm group_butterfly:r=0 --ranks 7 --count 7 --format json"},
    {"show", tool_show, "the program of a rank in words",
     "show --collective allreduce --algorithm ring --ranks 4 --count 8 --rank 1"},
    {"draw", tool_draw, "a picture of all ranks and messages",
     "draw --collective allreduce --algorithm ring --ranks 5 --count 5 --output ring.svg"},
    {"explain", tool_explain, "what auto picks for a shape, and why",
     "explain --collective allreduce --ranks 48 --bytes 4Mi --same ranks"},
    {"simulate", tool_simulate, "time by simulation of every rank and message",
     "simulate --collective allreduce --algorithm ring --ranks 48 --bytes 4Mi --arrival one-late:10ms"},
    {"compare", tool_compare, "all algorithms over a range of sizes or ranks",
     "compare --collective allreduce --ranks 16 --bytes 4:64Mi:x16 --plot allreduce.svg"},
    {"arrival", tool_arrival, "algorithms when ranks arrive at different times, and the best order found",
     "arrival --ranks 8 --bytes 1Mi --arrival one-late:1ms --tries 2000"},
    {"order", tool_order, "the order of ranks in which a ring is the fastest on a network",
     "order --network lab.json --bytes 1Mi"},
};
const uint32_t tool_command_count = sizeof tool_commands / sizeof tool_commands[0];

static void print_help(FILE *file) {
    fputs("gcoll_plan - looks at collective algorithms without running them\n\nSubcommands:\n", file);
    for (uint32_t c = 0; c < tool_command_count; c++)
        fprintf(file, "  %-10s %s\n", tool_commands[c].name, tool_commands[c].summary);
    fputs("\ngcoll_plan SUBCOMMAND --help lists the flags of one. Examples:\n", file);
    for (uint32_t c = 0; c < tool_command_count; c++)
        fprintf(file, "  gcoll_plan %s\n", tool_commands[c].example);
    fputs("\nEvery subcommand takes --load FILE.so: algorithms of your own (see gcoll/plan.h).\n"
          "Exit status: 0 all is right, 1 an algorithm is wrong or something failed, 2 a bad command line.\n",
          file);
}

static void print_command_help(uint32_t command) {
    const tool_command *c = &tool_commands[command];
    printf("gcoll_plan %s - %s\n\n", c->name, c->summary);
    tool_flags_print(stdout, command);
    printf("\nExample:\n  gcoll_plan %s\n", c->example);
}

static int unknown_command(const char *name) {
    char allowed[TOOL_TEXT] = "";
    size_t used = 0; /* of a constant table: 78 bytes */
    for (uint32_t c = 0; c < tool_command_count; c++)
        used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s", c ? ", " : "",
                                 tool_commands[c].name);
    cli_complain("unknown subcommand '%.60s'; allowed are %s", name, allowed);
    fputs("gcoll_plan: try --help\n", stderr);
    return CLI_USAGE;
}

static int run(uint32_t command, int argc, char **argv) {
    tool_options options = {0};
    int status = CLI_USAGE;
    if (tool_flags_parse(&options, command, argc, argv)) {
        status = TOOL_OK;
        if (options.help)
            print_command_help(command);
        else
            status = tool_commands[command].run(&options);
    } else {
        fprintf(stderr, "gcoll_plan: try %s --help\n", tool_commands[command].name);
    }
    free(options.ranks.values);
    free(options.count.values);
    free(options.bytes.values);
    free(options.tour.values);
    cli_arrival_free(&options.arrival);
    tool_network_free(&options.network);
    tool_unload(&options);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return TOOL_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        cli_print_version();
        return TOOL_OK;
    }
    for (uint32_t c = 0; c < tool_command_count; c++)
        if (strcmp(argv[1], tool_commands[c].name) == 0)
            return run(c, argc - 1, argv + 1);
    return unknown_command(argv[1]);
}
