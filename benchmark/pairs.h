/* benchmark/pairs.h - --network-out: what messages between each two ranks cost. */
#ifndef GCOLL_BENCH_PAIRS_H
#define GCOLL_BENCH_PAIRS_H

#include "benchmark/state.h"

#define BENCH_PAIRS_MOST_RANKS 1024u /* that a network file takes */

/* Ranks meet in rounds, each with at most one other rank: in size - 1 rounds, or size if that is odd, each
 * with each other one. */
uint32_t bench_pairs_rounds(uint32_t size);
/* The rank that `rank` meets in a round; itself: none. */
uint32_t bench_pairs_partner(uint32_t size, uint32_t round, uint32_t rank);

/* Measures all pairs; rank 0 writes the network file. Takes about options->seconds for each round. False has
 * been said. */
bool bench_pairs(bench_state *state);

#endif
