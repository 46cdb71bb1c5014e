/* benchmark/plugin.h - algorithms of the library and of shared objects of the user's. */
#ifndef GCOLL_BENCH_PLUGIN_H
#define GCOLL_BENCH_PLUGIN_H

#include "benchmark/options.h"

/* The index-th algorithm of a collective: the library's, then those of plugins; NULL past the end. */
const char *bench_algorithm_at(const bench_options *options, gcoll_collective collective, uint32_t index);
/* Whether the text may name one of them (else the last error says why); whether that heeds arrivals. */
bool bench_algorithm_known(const bench_options *options, gcoll_collective collective, const char *text);
bool bench_uses_arrival(const bench_options *options, gcoll_collective collective, const char *text);
cli_reader bench_load; /* of the options */
void bench_unload(bench_options *options);
/* Makes them known to a context. False has been said. */
bool bench_register(const bench_options *options, gcoll_context *context);

#endif
