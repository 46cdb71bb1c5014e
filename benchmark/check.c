/* benchmark/check.c - whether results are right. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "benchmark/buffers.h"
#include "benchmark/check.h"
#include "benchmark/clock.h"
#include "benchmark/shape.h"

/* Rounds of the check of a barrier, and how late the late one is. */
#define BARRIER_ROUNDS  8u
#define BARRIER_LATE_NS 200000

bool bench_check_prepare(const bench_call *call, bench_values *values) {
    const bench_state *state = call->state;
    const size_t element = values->element_bytes;
    bool good = true;
    for (uint32_t k = 0; k < state->options->inputs && good; k++) {
        void *input = bench_input_of(call, k);
        void *output = bench_output_of(call, k);
        memset(bench_draft(state, output), BENCH_POISON, call->out_count * element);
        good = bench_commit(state, k, output, call->out_count * element);
        unsigned char *draft = bench_draft(state, input);
        for (uint64_t at = 0; at < call->in_count && good;) {
            bench_piece piece = bench_input_piece(call, k, at);
            bench_fill(draft + at * element, bench_values_of(values, piece.owner), element, piece.position,
                       piece.count);
            at += piece.count;
        }
        good = good && bench_commit(state, k, input, call->in_count * element);
    }
    return good;
}

/* How far results may be off for a codec, by docs/codecs.md: each input is rounded once on each rank at most.
 */
static double allowed_error(const bench_call *call, bench_values *values) {
    static const struct {
        const char *name;
        double relative;
    } bounds[] = {{"bf16", 0x1p-8}, {"fp16", 0x1p-11}, {"int8", 1.0 / 127}, {"fp8", 1.0 / 16}};
    const bench_options *o = call->state->options;
    double relative = 0;
    const bool encodes = o->codec && bench_takes_codec(call->what->collective);
    for (size_t i = 0; encodes && i < sizeof bounds / sizeof bounds[0]; i++)
        if (strncmp(o->codec, bounds[i].name, strlen(bounds[i].name)) == 0)
            relative = bounds[i].relative * (strstr(o->codec, "seed") ? 2 : 1);
    if (!(relative > 0))
        return 0;
    const double inputs = o->op == GCOLL_AVG ? 1 : (double)values->total;
    return (pow(1 + relative + 0x1p-24, o->size) - 1) * inputs * bench_largest(values);
}

/* What is wrong with elements [at, at + piece->count) of a buffer. */
static uint64_t check_piece(const bench_call *call, const char *which, uint32_t k, const unsigned char *data,
                            uint64_t at, const bench_piece *piece, bench_values *values, double allowed) {
    const size_t element = values->element_bytes;
    uint64_t first = 0;
    uint64_t wrong = bench_count_wrong(data + at * element, bench_values_of(values, piece->owner), element,
                                       piece->position, piece->count, allowed, &first);
    if (wrong > 0) {
        cli_complain("rank %u: %s by %s of %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64
                     " elements of %s %u are wrong, the first at %" PRIu64,
                     call->state->rank, gcoll_collective_name(call->what->collective), call->what->algorithm,
                     call->bytes, wrong, piece->count, which, k, at + first);
    }
    return wrong;
}

bool bench_check_results(const bench_call *call, bench_values *values, uint64_t *wrong) {
    const bench_state *state = call->state;
    const size_t element = values->element_bytes;
    const double allowed = allowed_error(call, values);
    for (uint32_t k = 0; k < state->options->inputs; k++) {
        const unsigned char *data = bench_read(state, k, bench_output_of(call, k), call->out_count * element);
        for (uint64_t at = 0; at < call->out_count && data;) {
            bench_piece piece = bench_output_piece(call, at);
            *wrong += check_piece(call, "output", k, data, at, &piece, values, allowed);
            at += piece.count;
        }
        if (data && !call->in_place)
            data = bench_read(state, k, bench_input_of(call, k), call->in_count * element);
        for (uint64_t at = 0; at < call->in_count && !call->in_place && data;) {
            bench_piece piece = bench_input_piece(call, k, at);
            *wrong += check_piece(call, "input", k, data, at, &piece, values, 0);
            at += piece.count;
        }
        if (!data)
            return false;
    }
    return true;
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
        if (round % state->options->size == state->rank)
            pass_time(BARRIER_LATE_NS);
        entered[round] = bench_now_ns();
        if (!bench_call_run(call))
            return false;
        left[round] = bench_now_ns();
    }
    /* One clock for all ranks, as they are on one host. */
    if (!bench_gather(state, entered, BARRIER_ROUNDS, GCOLL_INT64, GCOLL_MAX) ||
        !bench_gather(state, left, BARRIER_ROUNDS, GCOLL_INT64, GCOLL_MIN))
        return false;
    for (uint32_t round = 0; round < BARRIER_ROUNDS; round++)
        if (left[round] < entered[round])
            (*wrong)++;
    return true;
}
