/* benchmark/page_file.h - the file that --report writes, from a run or from results of earlier runs. */
#ifndef GCOLL_BENCH_PAGE_FILE_H
#define GCOLL_BENCH_PAGE_FILE_H

#include <json-c/json.h>

#include "benchmark/options.h"

/* Writes options->report with results of this run. False has been said. */
bool bench_page_write_run(const bench_options *options, struct json_object *rows);
/* Writes options->report with the results in the file options->results. Returns the exit status. */
int bench_page_write_results(const bench_options *options);

#endif
