/* benchmark/host.h - facts on this machine. */
#ifndef GCOLL_BENCH_HOST_H
#define GCOLL_BENCH_HOST_H

#include <json-c/json.h>
#include <stdbool.h>

/* Adds texts: name, processor, memory, system, and the present time. What cannot be found is left out. False:
 * out of memory. */
bool bench_host_describe(struct json_object *about);

#endif
