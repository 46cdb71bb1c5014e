/* benchmark/tune_file.h - the file that --tune writes. */
#ifndef GCOLL_BENCH_TUNE_FILE_H
#define GCOLL_BENCH_TUNE_FILE_H

#include <stdbool.h>

/* Whether it can be: the file is one, or can be made. Asked before anything is measured. False has been said.
 */
bool bench_tune_ready(const char *path);
/* Replaces the section of the file that has the same transport and number of ranks, or adds it. On false, an
 * error message has been printed. */
bool bench_tune_write(const char *path, const char *section);

#endif
