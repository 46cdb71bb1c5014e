/* benchmark/flags.h - the flags of gcoll_bench. */
#ifndef GCOLL_BENCH_FLAGS_H
#define GCOLL_BENCH_FLAGS_H

#include <stdio.h>

#include "benchmark/options.h"

/* Applies the flags only, each checked by itself. */
bool bench_flags_parse(bench_options *options, int argc, char **argv);
/* Sets the transport by what --transport says, or by GCOLL_TRANSPORT. */
bool bench_find_transport(bench_options *options);
void bench_print_help(FILE *file);

#endif
