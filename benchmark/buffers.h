/* benchmark/buffers.h - the buffers of a rank, and how the host writes and reads them. */
#ifndef GCOLL_BENCH_BUFFERS_H
#define GCOLL_BENCH_BUFFERS_H

#include "benchmark/memory.h"
#include "benchmark/options.h"

struct bench_state;

const bench_memory *bench_memory_of(const bench_options *options);
/* Reads what --device says, into the options. */
cli_reader bench_read_device;
/* Whether the devices that were asked for are there. Asked before any rank is started. False has been said.
 */
bool bench_devices_ready(const bench_options *options);

/* False has been said. bench_buffers_close: also after that. */
bool bench_buffers_open(struct bench_state *state);
void bench_buffers_close(struct bench_state *state);
/* Where the host writes what is to be in a buffer, and then has it put there. The next use of any buffer ends
 * it. `buffer`: any place in buffer k. */
unsigned char *bench_draft(const struct bench_state *state, void *buffer);
bool bench_commit(const struct bench_state *state, uint32_t k, void *buffer, uint64_t bytes);
/* What is in it, until the next use of any buffer. NULL: has been said. */
const unsigned char *bench_read(const struct bench_state *state, uint32_t k, const void *buffer,
                                uint64_t bytes);

#endif
