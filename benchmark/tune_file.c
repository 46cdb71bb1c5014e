/* benchmark/tune_file.c - the tuning file: a section for each transport and number of ranks, others stay. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/clock.h"
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
    return text;
}

/* Writes the lines of what was there, but for the section that begins with the same line as `section`, unless
 * file is NULL. Returns their bytes. */
static size_t copy_others(FILE *file, const char *text, const char *section) {
    const size_t head = strcspn(section, "\n");
    size_t bytes = 0;
    bool same = false;
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        if (strncmp(text, "for ", 4) == 0)
            same = length == head && strncmp(text, section, head) == 0;
        if (!same)
            bytes += length + 1;
        if (!same && file)
            (void)fprintf(file, "%.*s\n", (int)length, text);
        text += length + (text[length] == '\n' ? 1 : 0);
    }
    return bytes;
}

/* Together they must stay what contexts can load. */
static bool fits(const char *path, const char *text, const char *section) {
    const size_t bytes = copy_others(NULL, text, section) + strlen(section);
    char what[160];
    if (bytes <= MOST_BYTES)
        return true;
    (void)snprintf(what, sizeof what,
                   "would have %zu bytes; allowed are up to %u; take another file for some numbers of ranks",
                   bytes, MOST_BYTES);
    return complain(path, what);
}

/* A file beside it, whose name goes to *name (to be freed) and which is then put in its place. NULL: errno
 * says why. */
static FILE *open_beside(const char *path, char **name) {
    const size_t room = strlen(path) + 32;
    *name = malloc(room);
    if (!*name)
        return NULL;
    (void)snprintf(*name, room, "%s.%llx", path, (unsigned long long)bench_now_ns());
    return fopen(*name, "wxe");
}

bool bench_tune_ready(const char *path) {
    char *text = read_all(path), *beside = NULL;
    FILE *file = text ? open_beside(path, &beside) : NULL;
    if (file) {
        (void)fclose(file);
        (void)remove(beside);
    } else if (text) {
        (void)complain(path, strerror(errno));
    }
    free(beside);
    free(text);
    return file;
}

/* Beside the file first, so that nobody ever reads half of one. */
bool bench_tune_write(const char *path, const char *section) {
    char *text = read_all(path);
    if (text && !fits(path, text, section)) {
        free(text);
        return false;
    }
    char *beside = NULL;
    FILE *file = text ? open_beside(path, &beside) : NULL;
    bool good = file;
    if (file) {
        copy_others(file, text, section);
        good = fputs(section, file) >= 0;
        good = fclose(file) == 0 && good && rename(beside, path) == 0;
    }
    if (!good && text)
        (void)complain(path, strerror(errno));
    if (!good && file)
        (void)remove(beside);
    free(beside);
    free(text);
    return good;
}
