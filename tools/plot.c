/* tools/plot.c - a comparison as a plot, by gnuplot, which reads a script from a pipe. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/compare.h"
#include "tools/words.h"

#define MOST_LINES 12u /* more could not be told apart */
#define COLORS     8u  /* gnuplot's colours; beyond them they repeat, with dashed lines */
#define NO_PROGRAM 127 /* as a shell says it */

/* Times worse than the best, as a geometric mean over the points; below 0: it never applies. */
static double merit(const tool_comparison *c, size_t target) {
    double sum = 0;
    size_t points = 0;
    for (size_t p = 0; p < c->point_count; p++) {
        const tool_time *row = &c->times[p * c->targets.count];
        double best = row[target].seconds;
        for (size_t t = 0; t < c->targets.count; t++)
            if (row[t].seconds >= 0 && row[t].seconds < best)
                best = row[t].seconds;
        if (row[target].seconds < 0)
            continue;
        sum += best > 0 ? log(row[target].seconds / best) : 0;
        points++;
    }
    return points > 0 ? exp(sum / (double)points) : -1;
}

/* The best of the algorithms, in the order of the table. Returns how many. */
static size_t pick(const tool_comparison *c, bool *drawn) {
    size_t count = 0;
    while (count < MOST_LINES) {
        size_t next = c->targets.count;
        for (size_t t = 0; t < c->targets.count; t++)
            if (!drawn[t] && merit(c, t) >= 0 && (next == c->targets.count || merit(c, t) < merit(c, next)))
                next = t;
        if (next == c->targets.count)
            return count;
        drawn[next] = true;
        count++;
    }
    return count;
}

static void write_data(const tool_comparison *c, FILE *f, size_t target, bool over_ranks) {
    fprintf(f, "$d%zu << EOD\n", target);
    for (size_t p = 0; p < c->point_count; p++) {
        double seconds = c->times[p * c->targets.count + target].seconds;
        if (seconds >= 0)
            fprintf(f, "%" PRIu64 " %.9g\n", over_ranks ? c->points[p].ranks : c->points[p].bytes,
                    1e6 * seconds);
    }
    fputs("EOD\n", f);
}

/* Writes `before` and `text` within single quotes. gnuplot takes all characters in them literally, except
 * single quotes, which must be doubled. */
static void write_quoted(FILE *f, const char *before, const char *text) {
    fprintf(f, "'%s", before);
    for (const char *at = text; *at; at++) {
        if (*at == '\'')
            fputc('\'', f);
        fputc(*at, f);
    }
    fputc('\'', f);
}

static void write_script(const tool_comparison *c, FILE *f, const char *path, const bool *drawn) {
    const tool_options *o = c->options;
    const bool over_ranks = o->ranks.count > 1, png = strcmp(strrchr(path, '.'), ".png") == 0;
    fprintf(f, "set terminal %s size 1000,600 %s\nset output ", png ? "pngcairo" : "svg",
            png ? "background '#ffffff'" : "background '#ffffff' dynamic");
    write_quoted(f, path[0] == '/' ? "" : "./",
                 path); /* gnuplot would run a name that begins with | as a command */
    fputc('\n', f);
    if (over_ranks && strcmp(o->collective, "barrier") == 0)
        fprintf(f, "set title '%s' noenhanced\nset xlabel 'ranks'\n", o->collective);
    else if (over_ranks)
        fprintf(f, "set title '%s of %" PRIu64 " bytes' noenhanced\nset xlabel 'ranks'\n", o->collective,
                o->bytes.values[0]);
    else
        fprintf(f,
                "set title '%s, %" PRIu64
                " rank%s' noenhanced\nset xlabel 'bytes'\nset format x '%%.0b %%B'\n",
                o->collective, o->ranks.values[0], tool_plural(o->ranks.values[0]));
    fprintf(f,
            "set ylabel 'us, by %s'\nset logscale xy\nset logscale x 2\nset grid lc rgb '#dddddd'\n"
            "set format y '%%g'\n"
            "set key outside right noenhanced\n",
            o->by_formula ? "formula" : "simulation");
    for (size_t t = 0; t < c->targets.count; t++)
        if (drawn[t])
            write_data(c, f, t, over_ranks);
    size_t lines = 0;
    for (size_t t = 0; t < c->targets.count; t++) {
        char name[256];
        if (!drawn[t])
            continue;
        gcoll_choice_format(&c->targets.at[t].choice, name, sizeof name);
        fprintf(f, "%s$d%zu using 1:2 with linespoints lw 2 dt %d title ", lines ? ", " : "plot ", t,
                lines < COLORS ? 1 : 2);
        write_quoted(f, "", name);
        lines++;
    }
    fputs("\n", f);
}

static int run_gnuplot(const tool_comparison *c, const bool *drawn, FILE *script, int end) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGPIPE, SIG_DFL);
        fclose(script);
        dup2(end, STDIN_FILENO);
        close(end);
        execlp("gnuplot", "gnuplot", "-", (char *)NULL);
        _exit(NO_PROGRAM);
    }
    close(end);
    int how = -1;
    (void)signal(SIGPIPE, SIG_IGN); /* it may have ended already */
    if (pid > 0)
        write_script(c, script, c->options->plot, drawn);
    fclose(script);
    if (pid < 0 || waitpid(pid, &how, 0) != pid)
        return -1;
    return how;
}

bool tool_plot_may_be_written(const char *path) {
    const bool there = access(path, F_OK) == 0;
    FILE *file = fopen(path, "ae");
    if (!file) {
        cli_complain("--plot: %s: %s", path, strerror(errno));
        return false;
    }
    fclose(file);
    if (!there)
        (void)unlink(path);
    return true;
}

bool tool_plot(const tool_comparison *c) {
    bool *drawn = calloc(c->targets.count, sizeof *drawn);
    int ends[2];
    FILE *script = NULL;
    size_t lines = drawn ? pick(c, drawn) : 0;
    if (drawn && lines == 0) {
        cli_complain("--plot: there is nothing to draw, as none of the algorithms applies");
        free(drawn);
        return false;
    }
    if (!drawn || pipe(ends) != 0 || !(script = fdopen(ends[1], "w"))) {
        cli_complain("--plot: %s", strerror(errno));
        free(drawn);
        return false;
    }
    if (lines < c->targets.count)
        cli_complain("--plot: draws the best %zu of %zu algorithms; --algorithm names others", lines,
                     c->targets.count);
    int how = run_gnuplot(c, drawn, script, ends[0]);
    free(drawn);
    if (how == 0)
        return true;
    if (how >= 0 && WIFEXITED(how) && WEXITSTATUS(how) == NO_PROGRAM)
        cli_complain("--plot: there is no gnuplot here; install it, or leave --plot out");
    else
        cli_complain("--plot: gnuplot failed");
    return false;
}
