/* tools/random.h - numbers at random, the same on every machine. */
#ifndef GCOLL_TOOL_RANDOM_H
#define GCOLL_TOOL_RANDOM_H

#include <stdint.h>

/* From 0 to limit - 1, by splitmix64, as for arrivals. */
static inline uint32_t tool_random_below(uint64_t *state, uint32_t limit) {
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((x ^ (x >> 31)) >> 32) * limit >> 32);
}

#endif
