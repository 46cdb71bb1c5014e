/*
 * tools/cli_arrival.h - when the ranks of a job enter an operation, as command lines say it.
 *
 *   none                  all together
 *   one-late:TIME[:RANK]  one rank late by TIME; the middle one (P/2), if none is named
 *   rand-late:TIME[:SEED] each by a random part of TIME, anew for each operation
 *   linear:TIME           rank r by r/(P-1) of TIME
 *   trace:FILE            as FILE says: a line an operation, on it a number for each rank: how late it is, in
 *                         ms. Numbers are separated by blanks; what follows # is a comment; empty lines are
 *                         none. Operations beyond the last line begin again with the first.
 *
 * Delays depend on nothing but the text (and the file), the number of ranks, the rank and the operation:
 * ranks that are given the same agree, whatever machine they are on.
 *
 *     cli_arrival arrival;
 *     if (!cli_arrival_parse("--arrival", text, &arrival)) return CLI_USAGE;
 *     if (!cli_arrival_fits("--arrival", &arrival, size)) ...
 *     for (uint64_t i = 0; i < iterations; i++)
 *         sleep_ms(cli_arrival_ms(&arrival, size, rank, i));
 *     cli_arrival_free(&arrival);
 */
#ifndef GCOLL_CLI_ARRIVAL_H
#define GCOLL_CLI_ARRIVAL_H

#include "tools/cli.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cli_arrival_kind {
    CLI_ARRIVAL_NONE = 0,
    CLI_ARRIVAL_ONE_LATE = 1,
    CLI_ARRIVAL_RAND_LATE = 2,
    CLI_ARRIVAL_LINEAR = 3,
    CLI_ARRIVAL_TRACE = 4
} cli_arrival_kind;

/* What users are told is allowed. */
#define CLI_ARRIVAL_ALLOWED "none, one-late:TIME[:RANK], rand-late:TIME[:SEED], linear:TIME, trace:FILE"

/* All zero is `none`, and need not be freed. */
typedef struct cli_arrival {
    const char *text; /* as given; NULL: not given */
    cli_arrival_kind kind;
    bool late_given;
    uint32_t late;      /* one-late: the rank, if given */
    uint64_t seed;      /* rand-late: 1 if not given */
    double ms;          /* the most that anybody is late; not of a trace */
    double *trace_ms;   /* trace: trace_ranks numbers for each of trace_lines operations */
    size_t trace_ranks; /* trace: numbers on a line */
    size_t trace_lines;
} cli_arrival;

/* Reads the text, which must outlive the arrival, and the file that the text names. On success *arrival is
 * replaced; what it held is not freed. */
bool cli_arrival_parse(const char *flag, const char *text, cli_arrival *arrival);
/* The same for a row of flags; what the arrival held is freed. */
cli_reader cli_read_arrival;

/* Whether it can be meant for so many ranks: the late one is one of them, the trace has as many columns. */
bool cli_arrival_fits(const char *flag, const cli_arrival *arrival, uint32_t size);

/* How late `rank` enters the operation with this number, in ms. It fits `size` ranks. */
double cli_arrival_ms(const cli_arrival *arrival, uint32_t size, uint32_t rank, uint64_t operation);

/* The most that any rank is late in any operation, in ms (of a random delay what it stays below), and the
 * first such rank. It fits `size` ranks. */
double cli_arrival_most_ms(const cli_arrival *arrival, uint32_t size, uint32_t *rank);

void cli_arrival_free(cli_arrival *arrival);

#ifdef __cplusplus
}
#endif

#endif
