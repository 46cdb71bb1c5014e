/* tools/cli.c - one table drives reading the flags, the help and the messages. */
#include "tools/cli.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void cli_complain(const char *format, ...) {
    char text[2000];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "%s: %s\n", cli_program, text);
}

/* ---- Flags -------------------------------------------------------------------------------------------- */

static const cli_flag *flag_at(const cli_flags *flags, size_t index) {
    return (const cli_flag *)(const void *)((const char *)flags->first + index * flags->row_bytes);
}

cli_reader cli_read(cli_flags flags, int argc, char **argv) {
    return (cli_reader){.flags = flags, .argc = argc, .at = 1, .argv = argv};
}

static const cli_flag *find(const cli_flags *flags, const char *name, size_t length) {
    for (size_t f = 0; f < flags->count; f++) {
        const cli_flag *flag = flag_at(flags, f);
        if (flag->name != NULL && strlen(flag->name) == length && memcmp(flag->name, name, length) == 0) {
            return flag;
        }
    }
    return NULL;
}

static void complain_unknown(const cli_flags *flags, const char *argument, size_t length) {
    char allowed[1000] = "";
    size_t used = 0;
    for (size_t f = 0; f < flags->count; f++) {
        const char *name = flag_at(flags, f)->name;
        if (name != NULL && used < sizeof allowed) {
            used +=
                (size_t)snprintf(allowed + used, sizeof allowed - used, "%s%s", used > 0 ? ", " : "", name);
        }
    }
    cli_complain("unknown argument '%.*s'; allowed: %s", (int)length, argument, allowed);
}

bool cli_next(cli_reader *reader, const cli_flag **flag, const char **text) {
    if (reader->at >= reader->argc) {
        return false;
    }
    const char *argument = reader->argv[reader->at++];
    size_t length = strcspn(argument, "=");
    *flag = find(&reader->flags, argument, length);
    *text = argument[length] == '=' ? argument + length + 1 : NULL;
    reader->failed = true;
    if (*flag == NULL) {
        complain_unknown(&reader->flags, argument, length);
        return false;
    }
    if ((*flag)->value == NULL && *text != NULL) {
        cli_complain("%s: found '%s'; it takes no value", (*flag)->name, *text);
        return false;
    }
    if ((*flag)->value != NULL && *text == NULL) {
        if (reader->at == reader->argc) {
            cli_complain("%s: needs a value: %s %s", (*flag)->name, (*flag)->name, (*flag)->value);
            return false;
        }
        *text = reader->argv[reader->at++];
    }
    reader->failed = false;
    return true;
}

void cli_print_flags(FILE *file, cli_flags flags) {
    for (size_t f = 0; f < flags.count; f++) {
        const cli_flag *flag = flag_at(&flags, f);
        if (flag->name == NULL) {
            (void)fprintf(file, "\n%s (defaults in parentheses):\n", flag->help);
            continue;
        }
        char left[40];
        (void)snprintf(left, sizeof left, "%s %s", flag->name, flag->value != NULL ? flag->value : "");
        (void)fprintf(file, "  %-20s %s\n", left, flag->help);
    }
}

/* ---- Values ------------------------------------------------------------------------------------------ */

bool cli_bad(const char *flag, const char *text, const char *allowed) {
    cli_complain("%s: found '%s'; allowed: %s", flag, text, allowed);
    return false;
}

bool cli_whole(const char *flag, const char *text, uint64_t min, uint64_t max, uint64_t *value) {
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number < min || number > max) {
        char allowed[80];
        (void)snprintf(allowed, sizeof allowed, "a whole number from %" PRIu64 " to %" PRIu64, min, max);
        return cli_bad(flag, text, allowed);
    }
    *value = number;
    return true;
}

bool cli_whole32(const char *flag, const char *text, uint32_t min, uint32_t max, uint32_t *value) {
    uint64_t number;
    if (!cli_whole(flag, text, min, max, &number)) {
        return false;
    }
    *value = (uint32_t)number;
    return true;
}

bool cli_real(const char *flag, const char *text, double min, double max, double *value) {
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || isspace((unsigned char)text[0]) || !isfinite(number) || number < min ||
        number > max) {
        char allowed[80];
        (void)snprintf(allowed, sizeof allowed, "a number from %g to %g", min, max);
        return cli_bad(flag, text, allowed);
    }
    *value = number;
    return true;
}
