/* tools/trace/main.c - gcoll_trace: what happened in a job, from the dumps of its ranks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/trace/trace.h"

const char cli_program[] = "gcoll_trace";

typedef struct options {
    const char *perfetto, *html, *svg, *group;
    bool quiet, version, help;
} options;

#define CLI_OPTIONS options
static const cli_flag rows[] = {
    {.help = "What to read"},
    {"--group", "HEX", "only dumps of the group whose name begins so", NULL, CLI_TEXT(group)},
    {.help = "What to write"},
    {"--html", "FILE", "a page with the last operations as a picture, and the tables", NULL, CLI_TEXT(html)},
    {"--svg", "FILE", "the picture alone", NULL, CLI_TEXT(svg)},
    {"--perfetto", "FILE", "all operations as JSON, for https://ui.perfetto.dev and chrome://tracing", NULL,
     CLI_TEXT(perfetto)},
    {"--quiet", NULL, "no tables", NULL, CLI_SWITCH(quiet)},
    {"--version", NULL, "print the version", NULL, CLI_SWITCH(version)},
    {"--help", NULL, "this text", NULL, CLI_SWITCH(help)},
};
static const cli_flags flags = {.rows = rows, .count = sizeof rows / sizeof rows[0]};

static void help(FILE *file) {
    fputs("usage: gcoll_trace PATH... [FLAG...]\n\n"
          "Reads the dumps of a job's ranks (GCOLL_DUMP_DIR, gcoll_context_dump) and says where each rank "
          "was, who\n"
          "keeps the others, which call differs between ranks, who comes late, and how long calls took.\n"
          "PATH is a dump or a folder with dumps.\n\n",
          file);
    cli_print_flags(file, &flags);
}

/* How many of the arguments are paths: they come first. */
static int count_paths(int argc, char **argv) {
    int count = 0;
    while (count + 1 < argc && strncmp(argv[count + 1], "--", 2) != 0)
        count++;
    return count;
}

/* path NULL: the flag was not given. */
static bool write_to(const char *flag, const char *path, bool (*write)(const trace_job *job, FILE *file),
                     const trace_job *job) {
    if (!path)
        return true;
    struct stat about;
    FILE *file = fopen(path, "we");
    const bool is_written = file && write(job, file) && !ferror(file);
    const int error = errno;
    if (file && fclose(file) == 0 && is_written)
        return true;
    cli_complain("%s: cannot write '%s': %s", flag, path, strerror(is_written ? errno : error));
    if (file && stat(path, &about) == 0 && S_ISREG(about.st_mode)) /* half a file is of no use */
        unlink(path);
    return false;
}

int main(int argc, char **argv) {
    options o = {0};
    trace_job job;
    const int paths = count_paths(argc, argv);
    if (!cli_parse(&flags, argc - paths, argv + paths, &o))
        return CLI_USAGE;
    if (o.version && !o.help) {
        cli_print_version();
        return 0;
    }
    if (o.help || paths == 0) {
        if (!o.help)
            cli_complain("PATH is missing: a dump or a folder with dumps");
        help(o.help ? stdout : stderr);
        return o.help ? 0 : CLI_USAGE;
    }
    if (!trace_read(paths, argv + 1, o.group, &job))
        return 1;
    trace_align(&job);
    if (!o.quiet)
        trace_report(&job, stdout);
    bool good = write_to("--html", o.html, trace_write_page, &job);
    good = write_to("--svg", o.svg, trace_write_picture, &job) && good;
    good = write_to("--perfetto", o.perfetto, trace_write_perfetto, &job) && good;
    trace_free(&job);
    return cli_flush() && good ? 0 : 1;
}
