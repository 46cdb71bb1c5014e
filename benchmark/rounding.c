/* benchmark/rounding.c - how far floating-point sums are from what double precision gives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/buffers.h"
#include "benchmark/rounding.h"
#include "benchmark/shape.h"
#include "benchmark/values.h"

/* A multiple of 2^-24 in [-1, 1), the same on every machine; contributor g at position i. */
static double drawn(uint64_t g, uint64_t i) {
    uint64_t x = (g << 32) + i + 0x9e3779b97f4a7c15u; /* the finaliser of splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 39) / (1 << 24) - 1.0;
}

static double load(const unsigned char *at, gcoll_type type) {
    float single;
    double value;
    if (type == GCOLL_FLOAT32) {
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    memcpy(&value, at, sizeof value);
    return value;
}

static bool fill(const bench_call *call, gcoll_type type) {
    const size_t element = gcoll_type_size(type);
    bool good = true;
    for (uint32_t k = 0; k < call->state->options->inputs && good; k++) {
        unsigned char *input = bench_draft(call->state, bench_input_of(call, k));
        const uint64_t g = (uint64_t)call->state->rank * call->state->options->inputs + k;
        for (uint64_t i = 0; i < call->in_count; i++) {
            double value = drawn(g, i % BENCH_PERIOD);
            float single = (float)value;
            memcpy(input + i * element, type == GCOLL_FLOAT32 ? (void *)&single : (void *)&value, element);
        }
        good = bench_commit(call->state, k, bench_input_of(call, k), call->in_count * element);
    }
    return good;
}

/* Sums of all contributions and of their magnitudes, by position. The parts that a double loses are of order
 * 2^-53. */
static void add_up(uint64_t total, double *sum, double *magnitude) {
    for (uint64_t i = 0; i < BENCH_PERIOD; i++) {
        sum[i] = magnitude[i] = 0;
        for (uint64_t g = 0; g < total; g++) {
            sum[i] += drawn(g, i);
            magnitude[i] += fabs(drawn(g, i));
        }
    }
}

bool bench_rounding(bench_call *call, double *largest) {
    const bench_options *options = call->state->options;
    const size_t element = gcoll_type_size(options->type);
    double sum[BENCH_PERIOD], magnitude[BENCH_PERIOD];
    add_up((uint64_t)options->size * options->inputs, sum, magnitude);
    if (!fill(call, options->type) || !bench_call_run(call))
        return false;
    const double divisor = options->op == GCOLL_AVG ? (double)options->size * options->inputs : 1;
    *largest = 0;
    for (uint32_t k = 0; k < options->inputs; k++) {
        const unsigned char *output =
            bench_read(call->state, k, bench_output_of(call, k), call->out_count * element);
        if (!output)
            return false;
        uint64_t position = call->out_count > 0 ? bench_output_piece(call, 0).position : 0;
        for (uint64_t i = 0; i < call->out_count; i++) {
            uint64_t at = (position + i) % BENCH_PERIOD;
            double off = fabs(load(output + i * element, options->type) * divisor - sum[at]) / magnitude[at];
            if (!(off <= *largest))
                *largest = isnan(off) ? INFINITY : off;
        }
    }
    if (!bench_gather(call->state, largest, 1, GCOLL_FLOAT64, GCOLL_MAX))
        return false;
    if (isinf(*largest)) {
        cli_complain("rank %u: %s by %s: a sum of random numbers in [-1, 1) is infinite or no number",
                     call->state->rank, gcoll_collective_name(call->what->collective), call->what->algorithm);
        return false;
    }
    return true;
}
