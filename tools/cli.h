/*
 * tools/cli.h - the flags of gcoll's programs: one table declares them, and gives the reading, the help and
 * the messages.
 *
 *     #define CLI_OPTIONS options
 *     static const cli_flag rows[] = {
 *         {.help = "How"},
 *         {"--warmup", "N", "calls before the timed ones", "5", CLI_WHOLE32(warmup, 0, 1000)},
 *         {"--time", "TIME", "how long to measure", "0.5s", CLI_TIME(seconds, CLI_S, 1e-6, 86400)},
 *         {"--in-place", NULL, "time in place", NULL, CLI_SWITCH(in_place)},
 *     };
 *     static const cli_flags flags = {.rows = rows, .count = sizeof rows / sizeof rows[0]};
 *     options o = {0};
 *     if (!cli_parse(&flags, argc, argv, &o)) return CLI_USAGE;
 *
 * Durations and sizes have units: 500ms, 3s, 64Ki. Functions that can fail say what on standard error, naming
 * the flag, its text and what is allowed, and return false.
 */
#ifndef GCOLL_CLI_H
#define GCOLL_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/cli_list.h"
#include "tools/cli_value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit status after a bad command line. */
#define CLI_USAGE 2

typedef struct cli_flag cli_flag;

/* Reads a flag's text (NULL if the flag takes none) into `to`, the row's field. */
typedef bool cli_reader(const cli_flag *flag, const char *text, void *to);

struct cli_flag {
    const char *name;  /* "--ranks"; NULL: a heading, which is in `help` */
    const char *value; /* "LIST"; NULL: takes none */
    const char *help;
    const char
        *initial; /* read before the command line, whatever the command; shown in the help; NULL: none */

    cli_reader *read;
    size_t at;          /* of the field in the program's options; 0 for readers that take these whole */
    double least, most; /* of numbers; of times in the field's unit */
    double unit_ns;     /* of times: the field's unit */
    const cli_word *words;

    size_t given;      /* of a bool that says whether the flag was given; 0: none */
    uint32_t commands; /* bits of the commands that take the flag; 0: all */
};

/* ---- What a row reads, and into which field of CLI_OPTIONS. The compiler checks the field's type. ------ */

#define CLI_AT(field, type)                                                                                  \
    (offsetof(CLI_OPTIONS, field) + 0 * sizeof(_Generic(((CLI_OPTIONS *)0)->field, __typeof__(type) : 0)))

#define CLI_SWITCH(field) .read = cli_read_switch, .at = CLI_AT(field, bool)
#define CLI_TEXT(field)   .read = cli_read_text, .at = CLI_AT(field, const char *)
#define CLI_WHOLE32(field, min, max)                                                                         \
    .read = cli_read_whole32, .at = CLI_AT(field, uint32_t), .least = (min), .most = (max)
#define CLI_WHOLE(field, min, max)                                                                           \
    .read = cli_read_whole, .at = CLI_AT(field, uint64_t), .least = (min), .most = (max)
#define CLI_INT(field, min, max) .read = cli_read_int, .at = CLI_AT(field, int), .least = (min), .most = (max)
/* uint64_t: "64", "4Ki". */
#define CLI_SIZE(field, min, max)                                                                            \
    .read = cli_read_size, .at = CLI_AT(field, uint64_t), .least = (min), .most = (max)
/* A cli_list, each of its numbers in these limits. */
#define CLI_LIST(field, min, max)                                                                            \
    .read = cli_read_list, .at = CLI_AT(field, cli_list), .least = (min), .most = (max)
/* A double in this unit: CLI_NS, CLI_US, ... */
#define CLI_TIME(field, unit, min, max)                                                                      \
    .read = cli_read_time, .at = CLI_AT(field, double), .unit_ns = (unit), .least = (min), .most = (max)
/* An int or an enum, by a table of words. */
#define CLI_WORD(field, table)                                                                               \
    .read = cli_read_word, .words = (table),                                                                 \
    .at = offsetof(CLI_OPTIONS, field) +                                                                     \
          0 * sizeof(char[sizeof(((CLI_OPTIONS *)0)->field) == sizeof(int) ? 1 : -1])
/* By a reader of the program's own. */
#define CLI_OTHER(reader, field) .read = (reader), .at = offsetof(CLI_OPTIONS, field)

#define CLI_GIVEN(field) .given = CLI_AT(field, bool)

cli_reader cli_read_switch, cli_read_text, cli_read_int, cli_read_whole32, cli_read_whole, cli_read_size,
    cli_read_list, cli_read_time, cli_read_word;
/* const char *: 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'. */
cli_reader cli_read_name;

/* Above all sizes that a computer has, and a double. */
#define CLI_MOST_SIZE 0x1p62

/* ---- Tables ------------------------------------------------------------------------------------------- */

typedef struct cli_flags {
    const cli_flag *rows;
    size_t count;
    uint32_t command; /* the bit of the command whose flags are meant; 0: there is only one */
} cli_flags;

/* Reads initial values, and then argv[1] and what follows: "--flag text" or "--flag=text". */
bool cli_parse(const cli_flags *flags, int argc, char **argv, void *options);
void cli_print_flags(FILE *file, const cli_flags *flags);

/* Flushes standard output. A program calls it last. Returns false, after a message, if the output could not
 * be written. */
bool cli_flush(void);
/* For --version: the program's name and the version that it was built as. */
void cli_print_version(void);

#ifdef __cplusplus
}
#endif

#endif
