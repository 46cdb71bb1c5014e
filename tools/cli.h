/*
 * tools/cli.h - command lines of gcoll's programs: flags from one table, numbers, sizes, lists of them, and
 * shared objects of algorithms.
 *
 * Functions that can fail say what on standard error, naming the flag, what was found and what is allowed,
 * and return false.
 */
#ifndef GCOLL_CLI_H
#define GCOLL_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gcoll/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit status after a bad command line. */
#define CLI_USAGE 2

/* What messages begin with. Each program defines it. */
extern const char cli_program[];

/* "PROGRAM: ..." and a newline, to standard error, in one piece. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Flags -------------------------------------------------------------------------------------------- */

typedef struct cli_flag {
    const char *name;  /* "--ranks"; NULL: a heading, which is in `help` */
    const char *value; /* "LIST"; NULL: takes none */
    const char *help;
} cli_flag;

/* Programs keep rows of their own that begin with a cli_flag. */
typedef struct cli_flags {
    const cli_flag *first;
    size_t count, row_bytes;
} cli_flags;

typedef struct cli_reader {
    cli_flags flags;
    int argc, at;
    char **argv;
    bool failed;
} cli_reader;

/* Begins at argv[1]. */
cli_reader cli_read(cli_flags flags, int argc, char **argv);
/* The next flag with its text (NULL if it takes none), as "--flag text" or "--flag=text". False: that was
 * all, or reader->failed. */
bool cli_next(cli_reader *reader, const cli_flag **flag, const char **text);
void cli_print_flags(FILE *file, cli_flags flags);

/* ---- Values ------------------------------------------------------------------------------------------ */

/* Complains that the flag has this text; always false. */
bool cli_bad(const char *flag, const char *text, const char *allowed);

bool cli_whole(const char *flag, const char *text, uint64_t min, uint64_t max, uint64_t *value);
bool cli_whole32(const char *flag, const char *text, uint32_t min, uint32_t max, uint32_t *value);
bool cli_real(const char *flag, const char *text, double min, double max, double *value);

/* "64", "4Ki", "1Mi", "2Gi". Says nothing. */
bool cli_parse_size(const char *text, size_t length, uint64_t *value);

typedef struct cli_list {
    uint64_t *values; /* freed by the caller */
    size_t count;
} cli_list;

/* Joined by commas: sizes, sweeps "4:64Mi:x4" and "0:1Ki:+256", ranges "1-64". Replaces *list. */
bool cli_parse_list(const char *flag, const char *text, cli_list *list);

/* ---- Shared objects of algorithms ---------------------------------------------------------------------- */

/* Opens one, which must be of this version of gcoll: its algorithms, ended by NULL, and what cli_unload
 * takes. NULL: has been said. */
const gcoll_algorithm *const *cli_load(const char *flag, const char *path, void **object);
void cli_unload(void *object);

#ifdef __cplusplus
}
#endif

#endif
