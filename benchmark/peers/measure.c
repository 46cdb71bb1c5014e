/* benchmark/peers/measure.c - one collective at one size: check, warm up, time, check again, print.
 *
 * The rules are those of gcoll_bench: a barrier before each timed call, each rank times its own call (with
 * --with-barrier the barrier, too), the time of an iteration is that of its slowest rank, percentiles by
 * nearest rank. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/clock.h"
#include "benchmark/line_up.h"
#include "peer.h"

#define FEWEST_ITERATIONS 5u
#define MOST_ITERATIONS   100000u
#define VALUE_PERIOD      1021u /* a prime: a block in the wrong place is found */

uint64_t peer_round_bytes(peer_collective collective, uint64_t bytes, uint32_t ranks) {
    bool blocks =
        collective == PEER_ALLGATHER || collective == PEER_REDUCE_SCATTER || collective == PEER_ALLTOALL;
    uint64_t unit = sizeof(float) * (blocks ? ranks : 1);
    return collective == PEER_BARRIER ? 0 : bytes / unit * unit;
}

/* ---- The check: small integers, so that every sum is exact ------------------------------------------------
 */

/* What rank r has at position i of its vector, divided by r + 1. */
static float base_value(uint64_t i) {
    return (float)(i % VALUE_PERIOD % 61 + 1);
}

static float input_value(uint32_t rank, uint64_t i) {
    return (float)(rank + 1) * base_value(i);
}

static float sum_value(uint32_t ranks, uint64_t i) {
    uint64_t times = (uint64_t)ranks * (ranks + 1) / 2;
    return (float)times * base_value(i);
}

/* The result at position i of this rank's output of `count` elements. */
static float expected(const peer_job *job, peer_collective collective, uint64_t whole, uint64_t i) {
    uint64_t block = whole / job->size;
    switch (collective) {
    case PEER_ALLREDUCE:
        return sum_value(job->size, i);
    case PEER_REDUCE_SCATTER:
        return sum_value(job->size, job->rank * block + i);
    case PEER_ALLGATHER:
        return input_value((uint32_t)(i / block), i % block);
    case PEER_ALLTOALL:
        return input_value((uint32_t)(i / block), job->rank * block + i % block);
    default:
        return input_value(0, i);
    }
}

static void fill(const peer_job *job, const peer_call *call) {
    if (call->fill) {
        call->fill(call->self);
        return;
    }
    uint64_t count = call->bytes / sizeof(float);
    bool root_only = call->collective == PEER_BROADCAST;
    float *in = call->in;
    if (call->out != call->in || root_only)
        memset(call->out, 0xa5, call->bytes);
    for (uint64_t i = 0; i < count && (!root_only || job->rank == 0); i++)
        in[i] = input_value(job->rank, i);
}

static uint64_t count_wrong(const peer_job *job, const peer_call *call) {
    if (call->count_wrong)
        return call->count_wrong(call->self);
    uint64_t whole = call->bytes / sizeof(float);
    uint64_t count = call->collective == PEER_REDUCE_SCATTER ? whole / job->size : whole;
    const float *out = call->out;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += out[i] != expected(job, call->collective, whole, i);
    return wrong;
}

/* Runs once on fresh inputs. Differences on any rank are a failure on all. */
static bool check(const peer_job *job, const peer_call *call) {
    fill(job, call);
    if (!job->barrier(job->self) || !call->run(call->self))
        return false;
    uint64_t here = count_wrong(job, call);
    if (here > 0) {
        cli_complain("rank %u: %s, %" PRIu64 " bytes: %" PRIu64 " elements are wrong", job->rank,
                     peer_collective_name(call->collective), call->bytes, here);
    }
    double wrong = (double)here;
    return job->max(job->self, &wrong, 1) && !(wrong > 0) && here == 0;
}

/* ---- Times
 * -------------------------------------------------------------------------------------------------- */

/* How ranks are lined up before a call. */
typedef struct start_line {
    bench_line_up shared; /* without a page: by the library's own barrier, */
    bool is_timed;        /* which may be timed */
} start_line;

static bool line_up(const peer_job *job, const peer_call *call, const start_line *line) {
    return call->collective == PEER_BARRIER ||
           (line->shared.page ? bench_line_up_wait(&line->shared) : job->barrier(job->self));
}

static bool time_calls(const peer_job *job, const peer_call *call, const start_line *line, uint32_t calls,
                       double *times_us) {
    for (uint32_t i = 0; i < calls; i++) {
        int64_t start = bench_now_ns();
        if (!line_up(job, call, line))
            return false;
        if (!line->is_timed)
            start = bench_now_ns();
        if (!call->run(call->self))
            return false;
        times_us[i] = (double)(bench_now_ns() - start) / 1e3;
    }
    return true;
}

/* How many more calls fit, after `count` took elapsed_s; at most thrice as many, as the first ones are the
 * slowest. */
static uint32_t next_batch(double seconds, double elapsed_s, uint32_t count) {
    double fit = (seconds - elapsed_s) * count / elapsed_s;
    double most = count * 3.0 < MOST_ITERATIONS - count ? count * 3.0 : MOST_ITERATIONS - count;
    return fit < 1 ? 1 : fit > most ? (uint32_t)most : (uint32_t)fit;
}

static bool time_all(const peer_job *job, const peer_options *options, const peer_call *call,
                     const start_line *line, double **times_us, uint32_t *count) {
    uint32_t batch = options->iterations > 0 ? options->iterations : FEWEST_ITERATIONS;
    double elapsed_s = 0;
    for (*count = 0;; batch = next_batch(options->seconds, elapsed_s, *count)) {
        double *grown = realloc(*times_us, ((size_t)*count + batch) * sizeof *grown);
        if (!grown) {
            cli_complain("out of memory for %u times", *count + batch);
            return false;
        }
        *times_us = grown;
        int64_t start = bench_now_ns();
        if (!time_calls(job, call, line, batch, *times_us + *count))
            return false;
        elapsed_s += (double)(bench_now_ns() - start) / 1e9;
        *count += batch;
        if (options->iterations > 0)
            return true;
        if (!job->max(job->self, &elapsed_s, 1)) /* so that all decide alike */
            return false;
        if (elapsed_s >= options->seconds || *count >= MOST_ITERATIONS)
            return true;
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest time that at least `percent` of all do not exceed. */
static double percentile(const double *sorted, uint32_t count, unsigned percent) {
    uint64_t position = ((uint64_t)count * percent + 99) / 100;
    return sorted[position > 0 ? position - 1 : 0];
}

static bool print(const peer_job *job, const peer_call *call, double *times_us, uint32_t count) {
    double sum = 0;
    qsort(times_us, count, sizeof *times_us, ascending);
    for (uint32_t i = 0; i < count; i++)
        sum += times_us[i];
    if (job->rank != 0)
        return true;
    const char *quote = call->algorithm ? "\"" : "";
    (void)printf("{\"program\":\"%s\",\"collective\":\"%s\",\"algorithm\":%s%s%s", call->program,
                 peer_collective_name(call->collective), quote, call->algorithm ? call->algorithm : "null",
                 quote);
    (void)printf(
        ",\"ranks\":%u,\"bytes\":%" PRIu64 ",\"type\":\"float32\",\"iterations\":%u,\"min_us\":%.2f,"
        "\"p50_us\":%.2f,\"p95_us\":%.2f,\"p99_us\":%.2f,\"max_us\":%.2f,\"mean_us\":%.2f,\"wrong\":0}\n",
        job->size, call->bytes, count, times_us[0], percentile(times_us, count, 50),
        percentile(times_us, count, 95), percentile(times_us, count, 99), times_us[count - 1], sum / count);
    return fflush(stdout) == 0;
}

/* At most as long as the timed calls are meant to take: slow ones are slow enough as it is. */
static bool warm_up(const peer_job *job, const peer_options *options, const peer_call *call) {
    double elapsed_s = 0;
    for (uint32_t i = 0; i < options->warmup && elapsed_s < options->seconds; i++) {
        int64_t start = bench_now_ns();
        if (!call->run(call->self))
            return false;
        elapsed_s += (double)(bench_now_ns() - start) / 1e9;
        if (!job->max(job->self, &elapsed_s, 1)) /* so that all decide alike */
            return false;
    }
    return true;
}

/* Once a program: keeps the ranks busy until the scheduler has given each the core that it keeps. */
static bool keep_busy(const peer_job *job, double seconds) {
    static bool is_settled;
    const int64_t start = bench_now_ns();
    double is_over = is_settled || !(seconds > 0);
    while (!(is_over > 0)) {
        if (!job->barrier(job->self))
            return false;
        is_over = (double)(bench_now_ns() - start) > 1e9 * seconds;
        if (!job->max(job->self, &is_over, 1)) /* so that all decide alike */
            return false;
    }
    is_settled = true;
    return true;
}

bool peer_measure(const peer_job *job, const peer_options *options, const peer_call *call) {
    double *times_us = NULL;
    uint32_t count = 0;
    bool checked = call->collective != PEER_BARRIER;
    start_line line = {.is_timed = options->with_barrier};
    bool good = !options->line_up ||
                bench_line_up_open(&line.shared, options->line_up, job->size, options->limit_s * 1e3);
    good = good && keep_busy(job, options->settle_s) && (!checked || check(job, call));
    good = good && warm_up(job, options, call) && time_all(job, options, call, &line, &times_us, &count) &&
           (!checked || check(job, call)) && job->max(job->self, times_us, count) &&
           print(job, call, times_us, count);
    bench_line_up_close(&line.shared);
    free(times_us);
    return good;
}

bool peer_try(const peer_job *job, const peer_call *call, uint32_t calls, double *median_us) {
    double *times_us = calloc(calls, sizeof *times_us);
    const start_line line = {.is_timed = false};
    bool good =
        times_us && time_calls(job, call, &line, calls, times_us) && job->max(job->self, times_us, calls);
    if (good) {
        qsort(times_us, calls, sizeof *times_us, ascending);
        *median_us = percentile(times_us, calls, 50);
    }
    free(times_us);
    return good;
}
