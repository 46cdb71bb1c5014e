/* tools/output.c - where results are written. */
#include <errno.h>
#include <string.h>

#include "tools/output.h"
#include "tools/progress.h"

FILE *tool_open_output(const tool_options *o) {
    if (!o->output)
        return stdout;
    FILE *file = fopen(o->output, "we");
    if (!file)
        cli_complain("--output: %s: %s", o->output, strerror(errno));
    return file;
}

bool tool_close_output(const tool_options *o, FILE *file) {
    bool good = fflush(file) == 0 && !ferror(file);
    if (file != stdout)
        good = fclose(file) == 0 && good;
    if (!good)
        cli_complain("--output: %s: %s", o->output ? o->output : "standard output", strerror(errno));
    return good;
}

/* Many algorithms have messages between all pairs of ranks. */
double tool_work_of(uint64_t ranks) {
    return (double)ranks * (double)ranks;
}

void tool_grid_begin(const char *name, const tool_options *o, size_t cases) {
    double work = 0;
    for (size_t i = 0; i < o->ranks.count; i++)
        work += tool_work_of(o->ranks.values[i]);
    cli_progress_begin(name, work * (double)(cases ? cases : 1));
}
