/* tools/output.c - where results are written. */
#include <errno.h>
#include <string.h>

#include "tools/output.h"

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
