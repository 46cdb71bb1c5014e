/* benchmark/network_file.h - the file that --network-out writes (docs/network.md). */
#ifndef GCOLL_BENCH_NETWORK_FILE_H
#define GCOLL_BENCH_NETWORK_FILE_H

#include "benchmark/options.h"

#define BENCH_HOST_NAME_BYTES 64

/* Measured costs between ranks. Matrices have the sender's row and the receiver's column. */
typedef struct bench_network {
    uint32_t ranks;
    double *delay_us, *ns_per_byte;
    char (*names)[BENCH_HOST_NAME_BYTES]; /* by rank: its host's; equal names are one host */
} bench_network;

/* Writes options->network_out. False has been said. */
bool bench_network_write(const bench_options *options, const bench_network *network);

#endif
