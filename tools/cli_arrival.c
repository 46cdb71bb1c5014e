/* tools/cli_arrival.c - parses the times at which the ranks of a job enter an operation. */
#include "tools/cli_arrival.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan.h"

#define MOST_MS      1e9
#define MOST_NUMBERS (UINT64_C(1) << 24) /* of a trace: 128 MB */
#define DEFAULT_SEED 1
#define BLANKS       " \t\r\n"

/* ---- Traces -------------------------------------------------------------------------------------------- */

typedef struct trace {
    const char *flag, *path;
    double *numbers;
    size_t count, room;
    size_t columns; /* of the first line that has any */
    uint64_t line;
} trace;

static bool append(trace *t, double number) {
    if (t->count == MOST_NUMBERS) {
        cli_complain("%s: %s:%" PRIu64 ": more than %" PRIu64 " numbers", t->flag, t->path, t->line,
                     MOST_NUMBERS);
        return false;
    }
    if (t->count == t->room) {
        size_t room = t->room == 0 ? 1024 : 2 * t->room;
        double *numbers = realloc(t->numbers, room * sizeof *numbers);
        if (!numbers) {
            cli_complain("out of memory for %zu numbers of %s", room, t->path);
            return false;
        }
        t->numbers = numbers;
        t->room = room;
    }
    t->numbers[t->count++] = number;
    return true;
}

/* Reads the numbers of a line, and changes the line in doing so. */
static bool take_line(trace *t, char *line) {
    size_t columns = 0;
    line[strcspn(line, "#")] = '\0';
    for (char *rest = NULL, *word = strtok_r(line, BLANKS, &rest); word;
         word = strtok_r(NULL, BLANKS, &rest)) {
        char *end;
        double number = strtod(word, &end);
        if (end == word || *end != '\0' || !isfinite(number) || number < 0 || number > MOST_MS) {
            cli_complain("%s: %s:%" PRIu64 ": has '%.40s'; allowed are numbers from 0 to %g", t->flag,
                         t->path, t->line, word, MOST_MS);
            return false;
        }
        if (!append(t, number))
            return false;
        columns++;
    }
    if (columns > 0 && t->columns == 0)
        t->columns = columns;
    if (columns > 0 && columns != t->columns) {
        cli_complain("%s: %s:%" PRIu64 ": has %zu numbers; allowed are %zu, as on the line before", t->flag,
                     t->path, t->line, columns, t->columns);
        return false;
    }
    return true;
}

static bool take_lines(trace *t, FILE *file) {
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    for (ssize_t length = 0; good && (length = getline(&line, &room, file)) >= 0;) {
        t->line++;
        if (memchr(line, '\0', (size_t)length)) {
            cli_complain("%s: %s:%" PRIu64 ": is no text", t->flag, t->path, t->line);
            good = false;
        } else {
            good = take_line(t, line);
        }
    }
    free(line);
    if (good && ferror(file)) {
        cli_complain("%s: cannot read %s: %s", t->flag, t->path, strerror(errno));
        good = false;
    }
    if (good && t->count == 0) {
        cli_complain("%s: %s: has no numbers; allowed is a line an operation, a number a rank", t->flag,
                     t->path);
        good = false;
    }
    return good;
}

static bool read_trace(const char *flag, const char *path, cli_arrival *arrival) {
    trace t = {.flag = flag, .path = path};
    FILE *file = fopen(path, "r");
    if (!file) {
        cli_complain("%s: cannot open %s: %s", flag, path, strerror(errno));
        return false;
    }
    bool good = take_lines(&t, file);
    (void)fclose(file);
    if (!good) {
        free(t.numbers);
        return false;
    }
    arrival->trace_ms = t.numbers;
    arrival->trace_ranks = t.columns;
    arrival->trace_lines = t.count / t.columns;
    return true;
}

/* ---- Reading the text ---------------------------------------------------------------------------------- */

typedef struct word {
    const char *text;
    cli_arrival_kind kind;
} word;

static const word words[] = {{"one-late:", CLI_ARRIVAL_ONE_LATE},
                             {"rand-late:", CLI_ARRIVAL_RAND_LATE},
                             {"linear:", CLI_ARRIVAL_LINEAR},
                             {"trace:", CLI_ARRIVAL_TRACE}};

/* Reads "TIME", or, for the kinds that have a rank or a seed, "TIME:RANK" or "TIME:SEED". */
static bool read_numbers(const char *flag, const char *text, const char *rest, cli_arrival *arrival) {
    char time[32] = "";
    size_t length = strcspn(rest, ":");
    bool more = rest[length] == ':';
    if (length == 0 || length >= sizeof time || (more && arrival->kind == CLI_ARRIVAL_LINEAR))
        return cli_bad(flag, text, "one of " CLI_ARRIVAL_ALLOWED);
    memcpy(time, rest, length);
    if (!cli_time(flag, time, CLI_MS, 0, MOST_MS, &arrival->ms))
        return false;
    if (!more)
        return true;
    arrival->late_given = arrival->kind == CLI_ARRIVAL_ONE_LATE;
    return arrival->late_given ? cli_whole32(flag, rest + length + 1, 0, GCOLL_MAX_RANKS - 1, &arrival->late)
                               : cli_whole(flag, rest + length + 1, 0, UINT64_MAX, &arrival->seed);
}

bool cli_arrival_parse(const char *flag, const char *text, cli_arrival *arrival) {
    cli_arrival made = {.text = text, .seed = DEFAULT_SEED};
    const char *rest = NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].text);
        if (strncmp(text, words[i].text, length) == 0) {
            made.kind = words[i].kind;
            rest = text + length;
        }
    }
    if (!rest && strcmp(text, "none") != 0)
        return cli_bad(flag, text, "one of " CLI_ARRIVAL_ALLOWED);
    if (made.kind == CLI_ARRIVAL_TRACE && rest[0] == '\0')
        return cli_bad(flag, text, "one of " CLI_ARRIVAL_ALLOWED);
    if (made.kind == CLI_ARRIVAL_TRACE ? !read_trace(flag, rest, &made)
                                       : rest && !read_numbers(flag, text, rest, &made))
        return false;
    *arrival = made;
    return true;
}

bool cli_read_arrival(const cli_flag *flag, const char *text, void *to) {
    cli_arrival made;
    if (!cli_arrival_parse(flag->name, text, &made))
        return false;
    cli_arrival_free(to);
    *(cli_arrival *)to = made;
    return true;
}

/* ---- Delays -------------------------------------------------------------------------------------------- */

bool cli_arrival_fits(const char *flag, const cli_arrival *arrival, uint32_t size) {
    const char *plural = size == 1 ? "" : "s";
    if (arrival->kind == CLI_ARRIVAL_ONE_LATE && arrival->late_given && arrival->late >= size) {
        cli_complain("%s: has rank %u; allowed with %u rank%s is 0 to %u", flag, arrival->late, size, plural,
                     size - 1);
        return false;
    }
    if (arrival->kind == CLI_ARRIVAL_TRACE && arrival->trace_ranks != size) {
        cli_complain("%s: has a trace of %zu ranks; allowed with %u rank%s are %u numbers on a line", flag,
                     arrival->trace_ranks, size, plural, size);
        return false;
    }
    return true;
}

/* The splitmix64 generator of Steele, Lea and Flood: good enough, and the same everywhere. In [0, 1). */
static double random_of(uint64_t seed, uint64_t index) {
    uint64_t x = seed + (index + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

double cli_arrival_ms(const cli_arrival *arrival, uint32_t size, uint32_t rank, uint64_t operation) {
    switch (arrival->kind) {
    case CLI_ARRIVAL_ONE_LATE:
        return rank == (arrival->late_given ? arrival->late : size / 2) ? arrival->ms : 0;
    case CLI_ARRIVAL_RAND_LATE:
        return arrival->ms * random_of(arrival->seed, operation * size + rank);
    case CLI_ARRIVAL_LINEAR:
        return size > 1 ? arrival->ms * rank / (size - 1) : 0;
    case CLI_ARRIVAL_TRACE:
        return arrival->trace_ms[operation % arrival->trace_lines * arrival->trace_ranks + rank];
    default:
        return 0;
    }
}

double cli_arrival_most_ms(const cli_arrival *arrival, uint32_t size, uint32_t *rank) {
    double most = arrival->kind == CLI_ARRIVAL_RAND_LATE ? arrival->ms : 0;
    const uint64_t operations = arrival->kind == CLI_ARRIVAL_TRACE ? arrival->trace_lines : 1;
    *rank = 0;
    for (uint64_t i = 0; i < operations; i++) {
        for (uint32_t r = 0; r < size; r++) {
            const double ms = cli_arrival_ms(arrival, size, r, i);
            if (ms > most) {
                most = ms;
                *rank = r;
            }
        }
    }
    return most;
}

void cli_arrival_free(cli_arrival *arrival) {
    free(arrival->trace_ms);
    *arrival = (cli_arrival){0};
}
