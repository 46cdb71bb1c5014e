/* tools/top/main.c - gcoll_top: what the ranks of this host do now. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/top/top.h"

const char cli_program[] = "gcoll_top";

enum { FORMAT_TABLE, FORMAT_JSON };

typedef struct options {
    const char *folder;
    double interval_s;
    int format;
    bool once, version, help;
} options;

static const cli_word formats[] = {{"table", FORMAT_TABLE}, {"json", FORMAT_JSON}, {NULL, 0}};
#define CLI_OPTIONS options
static const cli_flag rows[] = {
    {.help = "What to show"},
    {"--dir", "FOLDER",
     "where the sockets lie (the folder of GCOLL_WATCH, or /tmp/gcoll- and the number of the user)", NULL,
     CLI_TEXT(folder)},
    {"--interval", "TIME", "between two looks, by which rates are known", "1s",
     CLI_TIME(interval_s, CLI_S, 0.1, 3600)},
    {.help = "How"},
    {"--once", NULL, "look twice, print, and end", NULL, CLI_SWITCH(once)},
    {"--format", "FORMAT", "with --once: table or json", "table", CLI_WORD(format, formats)},
    {"--version", NULL, "print the version", NULL, CLI_SWITCH(version)},
    {"--help", NULL, "this text", NULL, CLI_SWITCH(help)},
};
static const cli_flags flags = {.rows = rows, .count = sizeof rows / sizeof rows[0]};

static void help(FILE *file) {
    fputs("usage: gcoll_top [FLAG...]\n\n"
          "Shows what the ranks of this host do: how many operations and bytes a second, the operation that "
          "they are "
          "in, whom\n"
          "they wait for, and who keeps the others. Ranks are seen if they were started with GCOLL_WATCH=1, "
          "by the "
          "same user.\n\n",
          file);
    cli_print_flags(file, &flags);
}

static void print_line(void *arg, int emphasis, const char *line) {
    (void)emphasis;
    fprintf(arg, "%s\n", line);
}

static int print_once(const options *o, const char *folder) {
    top_view before = {.at = 0}, view = {.at = 0};
    const struct timespec pause = {(time_t)o->interval_s,
                                   (long)((o->interval_s - (double)(time_t)o->interval_s) * 1e9)};
    bool good = top_gather(folder, false, &view, &before);
    if (good) {
        nanosleep(&pause, NULL);
        good = top_gather(folder, true, &before, &view);
    }
    if (good && o->format == FORMAT_JSON)
        good = top_print_json(&view, stdout);
    else if (good)
        top_print(&view, folder, print_line, stdout);
    top_free(&before);
    top_free(&view);
    return cli_flush() && good ? 0 : 1;
}

/* As the library sees to it: in /tmp anybody may have made one of that name. */
static bool is_own(const char *folder) {
    struct stat is;
    if (lstat(folder, &is) != 0 || (S_ISDIR(is.st_mode) && is.st_uid == geteuid() && (is.st_mode & 077) == 0))
        return true; /* or there is none */
    cli_complain("'%s' is no folder of this user's alone, so that no process has its socket there; see --dir",
                 folder);
    return false;
}

int main(int argc, char **argv) {
    options o = {0};
    char usual[64];
    const char *given = getenv("GCOLL_WATCH");
    if (!cli_parse(&flags, argc, argv, &o))
        return CLI_USAGE;
    if (o.help) {
        help(stdout);
        return 0;
    }
    if (o.version) {
        cli_print_version();
        return 0;
    }
    if (!o.once && o.format == FORMAT_JSON) {
        cli_complain("--format json: needs --once");
        return CLI_USAGE;
    }
    if (!o.once && (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))) {
        cli_complain("standard input or output is no terminal: use --once");
        return CLI_USAGE;
    }
    snprintf(usual, sizeof usual, "/tmp/gcoll-%lu", (unsigned long)geteuid());
    if (!o.folder && !(given && given[0] == '/') && !is_own(usual))
        return 1;
    const char *folder = o.folder ? o.folder : given && given[0] == '/' ? given : usual;
    return o.once ? print_once(&o, folder) : top_show(folder, o.interval_s);
}
