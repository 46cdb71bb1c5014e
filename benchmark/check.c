/* benchmark/check.c - whether results are right. */
#include <inttypes.h>
#include <string.h>

#include "bench.h"

/* Written over results before a run, so that one that writes nothing is caught. */
#define POISON 0xa5

/* Rounds of the check of a barrier, and how late the late one is. */
#define BARRIER_ROUNDS  8u
#define BARRIER_LATE_NS 200000

static const unsigned char *input_pattern(const bench_values *values, uint32_t k) {
    return values->input + (size_t)k * BENCH_PERIOD * values->element_bytes;
}

void bench_check_prepare(const bench_call *call, const bench_values *values) {
    bench_state *state = call->state;
    for (uint32_t k = 0; k < state->options->inputs; k++) {
        void *input = call->in_place ? state->out[k] : state->in[k];
        if (!call->in_place) {
            memset(state->out[k], POISON, call->count * values->element_bytes);
        }
        bench_fill(input, input_pattern(values, k), values->element_bytes, call->count);
    }
}

static uint64_t check_buffer(const bench_call *call, const char *which, uint32_t k, const void *data,
                             const unsigned char *pattern, size_t element_bytes) {
    uint64_t first = 0;
    uint64_t wrong = bench_count_wrong(data, pattern, element_bytes, call->count, &first);
    if (wrong > 0) {
        cli_complain("rank %u: %s by %s of %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64
                     " elements of %s %u are wrong, the first at %" PRIu64,
                     call->state->rank, bench_collective_names[call->what->collective], call->what->algorithm,
                     call->bytes, wrong, call->count, which, k, first);
    }
    return wrong;
}

uint64_t bench_check_results(const bench_call *call, const bench_values *values) {
    bench_state *state = call->state;
    uint64_t wrong = 0;
    for (uint32_t k = 0; k < state->options->inputs; k++) {
        wrong += check_buffer(call, "output", k, state->out[k], values->result, values->element_bytes);
        if (!call->in_place) {
            wrong +=
                check_buffer(call, "input", k, state->in[k], input_pattern(values, k), values->element_bytes);
        }
    }
    return wrong;
}

static void pass_time(int64_t ns) {
    int64_t end = bench_now_ns() + ns;
    while (bench_now_ns() < end) {
    }
}

bool bench_check_barrier(bench_call *call, uint64_t *wrong) {
    bench_state *state = call->state;
    int64_t entered[BARRIER_ROUNDS];
    int64_t left[BARRIER_ROUNDS];
    for (uint32_t round = 0; round < BARRIER_ROUNDS; round++) {
        if (round % state->options->size == state->rank) {
            pass_time(BARRIER_LATE_NS);
        }
        entered[round] = bench_now_ns();
        if (!bench_call_run(call)) {
            return false;
        }
        left[round] = bench_now_ns();
    }
    /* One clock for all ranks, as they are on one host. */
    if (!bench_gather(state, entered, BARRIER_ROUNDS, GCOLL_INT64, GCOLL_MAX) ||
        !bench_gather(state, left, BARRIER_ROUNDS, GCOLL_INT64, GCOLL_MIN)) {
        return false;
    }
    for (uint32_t round = 0; round < BARRIER_ROUNDS; round++) {
        if (left[round] < entered[round]) {
            (*wrong)++;
        }
    }
    return true;
}
