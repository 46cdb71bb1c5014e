/* tools/cli_value.c - words, numbers, sizes and times, and the messages about them. */
#include "tools/cli_value.h"

#include "tools/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 300u

void cli_complain(const char *format, ...) {
    char text[2000];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cli_progress_hide();
    (void)fprintf(stderr, "%s: %s\n", cli_program, text);
}

bool cli_bad(const char *flag, const char *text, const char *allowed) {
    cli_complain("%s: is '%s'; allowed is %s", flag, text, allowed);
    return false;
}

/* ---- Words -------------------------------------------------------------------------------------------- */

bool cli_word_of(const char *flag, const char *text, const cli_word *words, int *value) {
    char allowed[TEXT_BYTES] = "one of";
    size_t used = strlen(allowed);
    for (const cli_word *word = words; word->text; word++) {
        if (strcmp(text, word->text) == 0) {
            *value = word->value;
            return true;
        }
        if (used < sizeof allowed) {
            used += (size_t)snprintf(allowed + used, sizeof allowed - used, "%s %s", word > words ? "," : "",
                                     word->text);
        }
    }
    return cli_bad(flag, text, allowed);
}

/* ---- Whole numbers and sizes --------------------------------------------------------------------------- */

bool cli_whole(const char *flag, const char *text, uint64_t least, uint64_t most, uint64_t *value) {
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number < least || number > most) {
        char allowed[TEXT_BYTES];
        (void)snprintf(allowed, sizeof allowed, "a whole number from %" PRIu64 " to %" PRIu64, least, most);
        return cli_bad(flag, text, allowed);
    }
    *value = number;
    return true;
}

bool cli_whole32(const char *flag, const char *text, uint32_t least, uint32_t most, uint32_t *value) {
    uint64_t number;
    if (!cli_whole(flag, text, least, most, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

bool cli_parse_size(const char *text, size_t length, uint64_t *value) {
    static const struct {
        const char *suffix;
        unsigned shift;
    } suffixes[] = {{"", 0}, {"Ki", 10}, {"Mi", 20}, {"Gi", 30}};
    size_t digits = 0;
    uint64_t number = 0;
    while (digits < length && text[digits] >= '0' && text[digits] <= '9') {
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[digits] - '0'), &number))
            return false;
        digits++;
    }
    if (digits == 0)
        return false;
    for (size_t s = 0; s < sizeof suffixes / sizeof suffixes[0]; s++) {
        const char *suffix = suffixes[s].suffix;
        if (length - digits == strlen(suffix) && memcmp(text + digits, suffix, length - digits) == 0) {
            if (number > UINT64_MAX >> suffixes[s].shift)
                return false;
            *value = number << suffixes[s].shift;
            return true;
        }
    }
    return false;
}

bool cli_size(const char *flag, const char *text, uint64_t least, uint64_t most, uint64_t *value) {
    uint64_t found;
    if (!cli_parse_size(text, strlen(text), &found))
        return cli_bad(flag, text, "a size, as 64, 4Ki, 1Mi or 2Gi");
    if (found < least || found > most) {
        char allowed[TEXT_BYTES];
        (void)snprintf(allowed, sizeof allowed, "a size from %" PRIu64 " to %" PRIu64, least, most);
        return cli_bad(flag, text, allowed);
    }
    *value = found;
    return true;
}

/* ---- Times -------------------------------------------------------------------------------------------- */

typedef struct unit {
    const char *name;
    double ns;
} unit;

/* From short to long. */
static const unit units[] = {{"ns", CLI_NS}, {"us", CLI_US},    {"ms", CLI_MS},
                             {"s", CLI_S},   {"m", 60 * CLI_S}, {"h", 3600 * CLI_S}};
#define UNITS (sizeof units / sizeof units[0])

static const unit *unit_named(const char *name) {
    for (size_t u = 0; u < UNITS; u++)
        if (strcmp(name, units[u].name) == 0)
            return &units[u];
    return NULL;
}

/* Writes a time in the largest unit in which it is at least 1. */
static void write_time(double ns, char text[TEXT_BYTES]) {
    size_t u = ns > 0 ? UNITS - 1 : 3;
    while (u > 0 && ns > 0 && ns < units[u].ns)
        u--;
    (void)snprintf(text, TEXT_BYTES, "%.15g%s", ns / units[u].ns, units[u].name);
}

bool cli_time(const char *flag, const char *text, double unit_ns, double least, double most, double *value) {
    char *end = NULL;
    const bool plain =
        text[0] != '\0' && strchr("0123456789.", text[0]) && text[1] != 'x' &&
        text[1] != 'X'; /* strtod also accepts hexadecimal numbers, which are not allowed here */
    const double number = strtod(text, &end);
    const unit *named = unit_named(end);
    if (!plain || end == text || !isfinite(number) || !named)
        return cli_bad(flag, text, "a time with its unit, as 500ms, 3s or 2m");
    /* By a whole number either way, so that 0.25 of the caller's own unit stays 0.25. */
    const double found =
        named->ns >= unit_ns ? number * (named->ns / unit_ns) : number / (unit_ns / named->ns);
    if (found < least || found > most) {
        char from[TEXT_BYTES], to[TEXT_BYTES], allowed[2 * TEXT_BYTES + 20];
        write_time(least * unit_ns, from);
        write_time(most * unit_ns, to);
        (void)snprintf(allowed, sizeof allowed, "a time from %s to %s", from, to);
        return cli_bad(flag, text, allowed);
    }
    *value = found;
    return true;
}
