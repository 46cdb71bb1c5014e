/* benchmark/tune_file.c - the tuning file: a section for each transport and number of ranks, others stay. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/replace.h"
#include "benchmark/tune_file.h"
#include "tools/cli_value.h"

#define FIRST_LINE "gcoll-tuning 1\n"
#define MOST_BYTES 61440u /* that the library takes */

static bool complain(const char *path, const char *what) {
    cli_complain("--tune: %s: %s", path, what);
    return false;
}

/* All of a file, or the first line of a new one. NULL has been said. */
static char *read_all(const char *path) {
    char *text = calloc(1, MOST_BYTES + 2);
    FILE *file = text ? fopen(path, "re") : NULL;
    if (!file && text && errno == ENOENT) {
        memcpy(text, FIRST_LINE, sizeof FIRST_LINE);
        return text;
    }
    if (!file) {
        (void)complain(path, strerror(errno));
        free(text);
        return NULL;
    }
    const size_t bytes = fread(text, 1, MOST_BYTES + 1, file);
    const bool good = ferror(file) == 0 && bytes <= MOST_BYTES &&
                      (bytes == 0 || strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) == 0);
    (void)fclose(file);
    if (!good) {
        (void)complain(path, "is there, and is no tuning file");
        free(text);
        return NULL;
    }
    if (bytes == 0)
        memcpy(text, FIRST_LINE, sizeof FIRST_LINE);
    else if (text[bytes - 1] != '\n')
        text[bytes] = '\n';
    return text;
}

static size_t write_line(FILE *file, const char *text, size_t length) {
    if (file)
        (void)fprintf(file, "%.*s\n", (int)length, text);
    return length + 1;
}

static bool is_tour(const char *line) {
    line += strspn(line, " \t");
    return strncmp(line, "tour", 4) == 0 && strchr(" \t", line[4]);
}

static bool is_remark(const char *line) {
    line += strspn(line, " \t\r");
    return *line == '#' || *line == '\n' || *line == '\0';
}

/* Merges a section into the text of a tuning file: `section` takes the place of the one for the same job, and
 * all other lines stay, as do comments at its end, which may be about what follows. The old section's tour
 * stays too, unless `section` has one, as --tune measures none. Writes the result to the file; if that is
 * NULL, nothing is written. Returns the result's size in bytes. */
static size_t merge(FILE *file, const char *text, const char *section) {
    const size_t head = strcspn(section, "\n");
    const char *tour = NULL, *remarks = NULL; /* of the section that is replaced; the latter at its end */
    size_t bytes = 0;
    bool same = false;
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        if (strncmp(text, "for ", 4) == 0)
            same = length == head && strncmp(text, section, head) == 0;
        if (!same && remarks)
            bytes += write_line(file, remarks, (size_t)(text - remarks) - 1);
        if (!same)
            bytes += write_line(file, text, length);
        else if (is_tour(text) && !strstr(section, "\ntour "))
            tour = text;
        remarks = !same || !is_remark(text) ? NULL : remarks ? remarks : text;
        text += length + 1;
    }
    if (remarks)
        bytes += write_line(file, remarks, (size_t)(text - remarks) - 1);
    bytes += write_line(file, section, strlen(section) - 1);
    return bytes + (tour ? write_line(file, tour, strcspn(tour, "\n")) : 0);
}

/* Together they must stay what contexts can load. */
static bool fits(const char *path, const char *text, const char *section) {
    const size_t bytes = merge(NULL, text, section);
    char what[160];
    if (bytes <= MOST_BYTES)
        return true;
    (void)snprintf(what, sizeof what,
                   "would have %zu bytes; allowed are up to %u; take another file for some numbers of ranks",
                   bytes, MOST_BYTES);
    return complain(path, what);
}

bool bench_tune_ready(const char *path) {
    char *text = read_all(path);
    const bool good = text && bench_replace_ready("--tune", path);
    free(text);
    return good;
}

bool bench_tune_write(const char *path, const char *section) {
    char *text = read_all(path);
    bench_replacement made;
    if (!text || !fits(path, text, section)) {
        free(text);
        return false;
    }
    bool good = bench_replace_begin(path, &made);
    if (good) {
        merge(made.file, text, section);
        good = bench_replace_end(&made, true);
    }
    if (!good)
        (void)complain(path, strerror(errno));
    free(text);
    return good;
}
