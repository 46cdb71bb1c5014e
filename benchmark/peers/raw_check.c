/* benchmark/peers/raw_check.c - fills the buffers of raw.c, and checks the results. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "raw.h"

static unsigned char input_byte(uint32_t rank, uint64_t at) {
    return (unsigned char)(rank * 37 + at * 7 + (at >> 8) * 3);
}

/* Whole numbers, so small that the sums of 1024 ranks, the most there can be, are exact in any order. */
static float input_float(uint32_t rank, uint64_t at) {
    return (float)((rank % 16 + 1) * (at % 1021));
}

void raw_fill(uint32_t rank, bool sum, unsigned char *in, unsigned char *out, uint64_t bytes) {
    memset(out, 0xa5, bytes);
    for (uint64_t i = 0; !sum && i < bytes; i++)
        in[i] = input_byte(rank, i);
    for (uint64_t i = 0; sum && i < bytes / sizeof(float); i++) {
        float value = input_float(rank, i);
        memcpy(in + i * sizeof value, &value, sizeof value);
    }
}

uint64_t raw_wrong_sums(uint32_t size, const unsigned char *out, uint64_t bytes) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < bytes / sizeof(float); i++) {
        float sum = 0;
        float found;
        for (uint32_t r = 0; r < size; r++)
            sum += input_float(r, i);
        memcpy(&found, out + i * sizeof found, sizeof found);
        wrong += !(found >= sum && found <= sum);
    }
    return wrong;
}

/* What was passed on is taken as it is: it came to the one who passed it on from an input. */
uint64_t raw_wrong_bytes(const raw_pattern *pattern, const unsigned char *out, uint64_t bytes) {
    unsigned char *expected = malloc(bytes + 1);
    uint64_t wrong = 0;
    if (!expected) {
        cli_complain("out of memory for a check of %" PRIu64 " bytes", bytes);
        return 1;
    }
    memset(expected, 0xa5, bytes);
    for (uint32_t n = 0; n < pattern->ends[pattern->steps]; n++) {
        const raw_transfer *t = &pattern->transfers[n];
        for (uint64_t i = 0; !t->send && i < t->bytes; i++)
            expected[t->at + i] = t->from_output ? out[t->at + i] : input_byte(t->peer, t->from + i);
    }
    for (uint64_t i = 0; i < bytes; i++)
        wrong += out[i] != expected[i];
    free(expected);
    return wrong;
}
