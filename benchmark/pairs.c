/*
 * benchmark/pairs.c - measures what messages between each two ranks cost.
 *
 * Ranks meet in rounds, first for delays and then for rates. In a round one rank of a pair asks, and then the
 * other one. The asking rank sends an order, with a payload behind it or without, and the other rank answers
 * by a byte. Half of the time without a payload is the delay. The rate is that by which the time grows from a
 * payload to one four times as large: what does not depend on the size drops out.
 */
#include "benchmark/pairs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "benchmark/clock.h"
#include "benchmark/network_file.h"
#include "benchmark/statistics.h"
#include "tools/progress.h"

#define TAG           1u
#define LEAST_PAYLOAD (UINT64_C(4) << 10)
#define MOST_PAYLOAD  (UINT64_C(4) << 20)
#define GROWTH        4u
#define MOST_TIMES    200u
#define LEAST_TIMES   3u
#define WARM_UP       3u /* exchanges that connect, and that are not counted */
#define DELAY_SHARE   4  /* a quarter of the time is for the delay */
#define PAYLOAD_SHARE 16 /* the large payload takes a sixteenth of the time, or as near as sizes allow */
#define END           UINT64_MAX /* an order: this rank has asked all */

typedef struct meeting {
    const bench_state *state;
    gcoll_pair *pair;
    unsigned char *payload; /* MOST_PAYLOAD bytes */
} meeting;

/* ---- Rounds -------------------------------------------------------------------------------------------- */

uint32_t bench_pairs_rounds(uint32_t size) {
    return size < 2 ? 0 : size - 1 + size % 2;
}

/* The circle method: all but the last rank sit on a circle of an odd number of seats, and in round r the
 * seats whose numbers add up to r meet. The seat that would meet itself meets the last rank, or nobody if
 * there is none. */
uint32_t bench_pairs_partner(uint32_t size, uint32_t round, uint32_t rank) {
    const uint32_t seats = bench_pairs_rounds(size);
    const bool has_last = seats == size - 1;
    if (has_last && rank == size - 1)
        return (uint32_t)((uint64_t)round * ((seats + 1) / 2) % seats); /* twice that is round */
    const uint32_t other = (round + seats - rank) % seats;
    return other != rank ? other : has_last ? size - 1 : rank;
}

/* ---- One exchange -------------------------------------------------------------------------------------- */

static bool good(const meeting *m, gcoll_status status) {
    if (status != GCOLL_OK)
        cli_complain("--network-out: rank %u: %s", m->state->rank, gcoll_last_error());
    return status == GCOLL_OK;
}

static bool exchange(const meeting *m, uint64_t bytes, double *us) {
    const int64_t start = bench_now_ns();
    unsigned char answer;
    if (!good(m, gcoll_pair_send(m->pair, TAG, &bytes, sizeof bytes)) ||
        (bytes > 0 && !good(m, gcoll_pair_send(m->pair, TAG, m->payload, bytes))) ||
        !good(m, gcoll_pair_recv(m->pair, TAG, &answer, sizeof answer)))
        return false;
    *us = (double)(bench_now_ns() - start) / 1e3;
    return true;
}

/* Answers the other rank until that has asked all. */
static bool answer(const meeting *m) {
    const unsigned char yes = 1;
    for (;;) {
        uint64_t bytes = 0;
        if (!good(m, gcoll_pair_recv(m->pair, TAG, &bytes, sizeof bytes)))
            return false;
        if (bytes == END)
            return true;
        if (bytes > MOST_PAYLOAD) {
            cli_complain("--network-out: rank %u: is asked for %llu bytes; allowed are up to %llu",
                         m->state->rank, (unsigned long long)bytes, (unsigned long long)MOST_PAYLOAD);
            return false;
        }
        if ((bytes > 0 && !good(m, gcoll_pair_recv(m->pair, TAG, m->payload, bytes))) ||
            !good(m, gcoll_pair_send(m->pair, TAG, &yes, sizeof yes)))
            return false;
    }
}

/* ---- One direction ------------------------------------------------------------------------------------- */

static double median(double *us, size_t count) {
    bench_statistics statistics;
    bench_statistics_of(us, count, &statistics);
    return statistics.p50_us;
}

static bool measure_delay(const meeting *m, double seconds, double *delay_us) {
    double us[MOST_TIMES], warm;
    size_t count = 0;
    for (uint32_t i = 0; i < WARM_UP; i++)
        if (!exchange(m, 0, &warm))
            return false;
    const int64_t end = bench_now_ns() + (int64_t)(seconds * 1e9);
    while (count < LEAST_TIMES || (count < MOST_TIMES && bench_now_ns() < end))
        if (!exchange(m, 0, &us[count++]))
            return false;
    *delay_us = median(us, count) / 2;
    return true;
}

/* The smallest payload that takes its share of the time, or half of the time whatever it is made of. */
static bool find_payload(const meeting *m, double seconds, double delay_us, uint64_t *bytes) {
    double us = 0;
    for (*bytes = LEAST_PAYLOAD; *bytes < MOST_PAYLOAD; *bytes *= GROWTH) {
        if (!exchange(m, *bytes, &us))
            return false;
        if (us - 2 * delay_us >= seconds * 1e6 / PAYLOAD_SHARE || us >= seconds * 1e6 / 2)
            break;
    }
    return true;
}

static bool measure_rate(const meeting *m, double seconds, double delay_us, double *ns_per_byte) {
    double large_us[MOST_TIMES], small_us[MOST_TIMES];
    size_t count = 0;
    uint64_t bytes = 0;
    const int64_t end = bench_now_ns() + (int64_t)(seconds * 1e9);
    if (!find_payload(m, seconds, delay_us, &bytes))
        return false;
    for (; count < LEAST_TIMES || (count < MOST_TIMES && bench_now_ns() < end); count++)
        if (!exchange(m, bytes, &large_us[count]) || !exchange(m, bytes / GROWTH, &small_us[count]))
            return false;
    const double large = median(large_us, count), grown = large - median(small_us, count);
    /* Noise may hide the growth of small payloads; then all the time counts, which is too much rather than
     * nothing. */
    const uint64_t more = bytes - bytes / GROWTH;
    *ns_per_byte = 1e3 * (grown > 0 ? grown / (double)more : large / (double)bytes);
    return true;
}

/* ---- All of them ---------------------------------------------------------------------------------------
 */

/* Measures the delay, or else the rate, from this rank to the other one. */
static bool ask(const meeting *m, bool delay, double *us, double *ns) {
    const double seconds = m->state->options->seconds / 2; /* for each direction */
    const uint64_t end = END;
    if (delay ? !measure_delay(m, seconds / DELAY_SHARE, us)
              : !measure_rate(m, seconds - seconds / DELAY_SHARE, *us, ns))
        return false;
    return good(m, gcoll_pair_send(m->pair, TAG, &end, sizeof end));
}

static bool meet(meeting *m, uint32_t other, bool delay, bench_network *to) {
    const uint32_t rank = m->state->rank;
    const size_t entry = (size_t)rank * to->ranks + other;
    double *us = &to->delay_us[entry], *ns = &to->ns_per_byte[entry];
    if (!good(m, gcoll_context_pair(m->state->context, other, &m->pair)))
        return false;
    if (rank < other)
        return ask(m, delay, us, ns) && answer(m);
    return answer(m) && ask(m, delay, us, ns);
}

/* All pairs begin a round together, so that no small message waits behind the payload of another pair. */
static bool run_rounds(meeting *m, bool delay, bench_network *to) {
    const bench_state *state = m->state;
    for (uint32_t round = 0; round < bench_pairs_rounds(to->ranks); round++) {
        const uint32_t other = bench_pairs_partner(to->ranks, round, state->rank);
        if (state->rank == 0)
            cli_progress_add(round == 0 ? 0 : delay ? 1 : DELAY_SHARE - 1);
        if (!good(m, gcoll_operation_run(state->barrier)))
            return false;
        if (other != state->rank && !meet(m, other, delay, to))
            return false;
    }
    return true;
}

/* Each rank has its own row and name; all others are 0 there. */
static bool gather(bench_state *state, bench_network *to) {
    const uint64_t pairs = (uint64_t)to->ranks * to->ranks;
    if (gethostname(to->names[state->rank], sizeof to->names[0] - 1) != 0)
        memcpy(to->names[state->rank], "unknown", sizeof "unknown");
    return bench_gather(state, to->delay_us, pairs, GCOLL_FLOAT64, GCOLL_SUM) &&
           bench_gather(state, to->ns_per_byte, pairs, GCOLL_FLOAT64, GCOLL_SUM) &&
           bench_gather(state, to->names, to->ranks * sizeof to->names[0], GCOLL_UINT8, GCOLL_MAX);
}

bool bench_pairs(bench_state *state) {
    const uint32_t size = state->options->size;
    const size_t pairs = (size_t)size * size;
    bench_network network = {.ranks = size,
                             .delay_us = calloc(pairs, sizeof(double)),
                             .ns_per_byte = calloc(pairs, sizeof(double)),
                             .names = calloc(size, sizeof *network.names)};
    meeting m = {.state = state, .payload = calloc(1, MOST_PAYLOAD)};
    bool done = network.delay_us && network.ns_per_byte && network.names && m.payload;
    if (!done)
        cli_complain("--network-out: rank %u: out of memory", state->rank);
    if (state->rank == 0)
        cli_progress_begin(cli_program, (double)DELAY_SHARE * bench_pairs_rounds(size));
    done =
        done && run_rounds(&m, true, &network) && run_rounds(&m, false, &network) && gather(state, &network);
    if (state->rank == 0)
        cli_progress_end();
    if (done && state->rank == 0)
        done = bench_network_write(state->options, &network);
    free(m.payload);
    free(network.names);
    free(network.ns_per_byte);
    free(network.delay_us);
    return done;
}
