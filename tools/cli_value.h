/*
 * tools/cli_value.h - single values on command lines: words, numbers, sizes and times, and the messages about
 * them.
 *
 * Functions that take a flag's name say what is wrong with its text, and return false. Limits are included.
 */
#ifndef GCOLL_CLI_VALUE_H
#define GCOLL_CLI_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What messages begin with. Each program defines it. */
extern const char cli_program[];

/* "PROGRAM: ..." and a newline, to standard error, in one piece. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Complains that the flag has this text; always false. */
bool cli_bad(const char *flag, const char *text, const char *allowed);

/* Ended by one whose text is NULL. */
typedef struct cli_word {
    const char *text;
    int value;
} cli_word;

bool cli_word_of(const char *flag, const char *text, const cli_word *words, int *value);

bool cli_whole(const char *flag, const char *text, uint64_t least, uint64_t most, uint64_t *value);
bool cli_whole32(const char *flag, const char *text, uint32_t least, uint32_t most, uint32_t *value);

/* "64", "4Ki", "1Mi", "2Gi". The first one says nothing. */
bool cli_parse_size(const char *text, size_t length, uint64_t *value);
bool cli_size(const char *flag, const char *text, uint64_t least, uint64_t most, uint64_t *value);

/* Units of time, in ns. */
#define CLI_NS 1.0
#define CLI_US 1e3
#define CLI_MS 1e6
#define CLI_S  1e9

/* "250ns", "6us", "500ms", "0.5s", "2m", "1h". The limits and *value are in the caller's unit. */
bool cli_time(const char *flag, const char *text, double unit_ns, double least, double most, double *value);

#ifdef __cplusplus
}
#endif

#endif
