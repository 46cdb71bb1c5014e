/* benchmark/replace.h - files that others never see half written. */
#ifndef GCOLL_BENCH_REPLACE_H
#define GCOLL_BENCH_REPLACE_H

#include <stdbool.h>
#include <stdio.h>

/* A file beside the one that it is to replace. Where there is a device or a pipe, it is written itself. */
typedef struct bench_replacement {
    const char *path; /* borrowed */
    char *beside;     /* NULL: path is written itself */
    FILE *file;
} bench_replacement;

/* Whether `path` may be written, tried out and left as it is. False has been said, with the flag that names
 * the file. */
bool bench_replace_ready(const char *flag, const char *path);
/* Opens the file beside `path`. False: errno says why, and there is nothing to end. */
bool bench_replace_begin(const char *path, bench_replacement *replacement);
/* Closes the file. It takes the place of `path` if keep is true and everything was written, and is removed
 * otherwise. False, if keep is true: errno says why `path` is as it was. */
bool bench_replace_end(bench_replacement *replacement, bool keep);

#endif
