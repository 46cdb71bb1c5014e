/*
 * benchmark/arrival.c - --arrival, --compute, --monitor: ranks that compute before each timed call, some for
 * longer than others, as in the benchmark of the paper (figure 9): barrier, barrier, computation, call.
 *
 * Each rank measures from the moment when it leaves the second barrier, by its own clock. So figures that
 * compare ranks assume that all leave it together; they are wrong by up to the time in which a barrier
 * releases all ranks.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "benchmark/arrival.h"
#include "benchmark/clock.h"
#include "benchmark/plugin.h"
#include "benchmark/shape.h"

#define NS_PER_MS 1e6
#define BARRIERS  2
#define MESSAGES  4 /* the first message only establishes connections */
#define EDGE      0.5

/* ---- What was asked for ---------------------------------------------------------------------------------
 */

const cli_word bench_monitors[] = {
    {"off", BENCH_MONITOR_OFF}, {"on", BENCH_MONITOR_ON}, {"edges", BENCH_MONITOR_EDGES}, {NULL, 0}};

const char *bench_monitor_name(bench_monitor monitor) {
    return bench_monitors[monitor].text;
}

/* Ranks wait for the last one, for as long as calls may take. */
static bool check_times(const bench_options *o) {
    const long long limit_ms = (long long)bench_timeout_ms(o);
    uint32_t rank = 0;
    const double late_ms = cli_arrival_most_ms(&o->arrival, o->size, &rank);
    if (late_ms >= (double)limit_ms) {
        cli_complain("--arrival: rank %u is late by %s%.15g ms; allowed is less than --timeout, %lld ms",
                     rank, o->arrival.kind == CLI_ARRIVAL_RAND_LATE ? "up to " : "", late_ms, limit_ms);
        return false;
    }
    return true;
}

/* Warns, once a job, of options that are allowed but may not do what the user expects. */
static void warn(const bench_options *o) {
    const bool monitors = o->monitor != BENCH_MONITOR_OFF;
    if (o->rank > 0)
        return;
    for (size_t i = 0; i < o->case_count && (monitors || o->arrival.kind != CLI_ARRIVAL_NONE); i++) {
        if (bench_uses_arrival(o, o->cases[i].collective, o->cases[i].algorithm)) {
            cli_complain("%s by %s: it is given no arrival times, and runs as if all ranks came together; "
                         "auto with --monitor on is given them",
                         gcoll_collective_name(o->cases[i].collective), o->cases[i].algorithm);
            break;
        }
    }
    if (monitors && (o->size < GCOLL_ARRIVAL_LEAST_RANKS || o->size > GCOLL_ARRIVAL_MOST_RANKS)) {
        cli_complain("--monitor %s: found with %u rank%s; late ranks are heeded with %u to %u",
                     bench_monitor_name(o->monitor), o->size, o->size == 1 ? "" : "s",
                     GCOLL_ARRIVAL_LEAST_RANKS, GCOLL_ARRIVAL_MOST_RANKS);
    }
}

static bool has_auto(const bench_options *o) {
    for (size_t i = 0; i < o->case_count; i++)
        if (strcmp(o->cases[i].algorithm, "auto") == 0)
            return true;
    return false;
}

bool bench_arrival_check(bench_options *options) {
    const char *flag = options->arrival.text                   ? "--arrival"
                       : options->monitor != BENCH_MONITOR_OFF ? "--monitor"
                                                               : "--compute";
    if (!options->paced)
        return true;
    if (options->tune || options->tune_check) {
        cli_complain("%s: found with %s, which has ranks begin together", flag,
                     options->tune_check ? "--tune-check" : "--tune");
        return false;
    }
    if (options->back_to_back) {
        cli_complain("%s: found with --back-to-back; arrivals are counted from a barrier", flag);
        return false;
    }
    if (options->monitor != BENCH_MONITOR_OFF && !has_auto(options)) {
        cli_complain("--monitor %s: found with --algorithm %s; it is auto that heeds arrivals",
                     bench_monitor_name(options->monitor), options->algorithm);
        return false;
    }
    options->one_shot = options->one_shot || options->monitor != BENCH_MONITOR_OFF;
    if (!cli_arrival_fits("--arrival", &options->arrival, options->size) || !check_times(options))
        return false;
    warn(options);
    return true;
}

/* ---- Before a call --------------------------------------------------------------------------------------
 */

static void sleep_until(int64_t at_ns) {
    const struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

static bool good(const bench_state *state, gcoll_status status, const char *what) {
    if (status != GCOLL_OK)
        cli_complain("rank %u: %s: %s", state->rank, what, gcoll_last_error());
    return status == GCOLL_OK;
}

static bool compute(const bench_state *state, int64_t begin_ns, int64_t end_ns) {
    const bool edges = state->options->monitor == BENCH_MONITOR_EDGES;
    if (edges) {
        if (!good(state, gcoll_arrival_begin(state->context), "the computation begins"))
            return false;
        sleep_until(begin_ns + (int64_t)(EDGE * (double)(end_ns - begin_ns)));
        if (!good(state, gcoll_arrival_edge(state->context, EDGE), "half of the computation"))
            return false;
    }
    if (end_ns > begin_ns)
        sleep_until(end_ns);
    return !edges || good(state, gcoll_arrival_finish(state->context), "the end of the computation");
}

static bool meet(const bench_state *state) {
    bool met = true;
    for (int i = 0; met && i < BARRIERS; i++) {
        /* A blocking barrier, as the monitor counts it as a meeting of all ranks. */
        met = good(state, gcoll_barrier(state->context, NULL), "barrier before a computation");
    }
    return met && bench_monitor_site(state, BENCH_SITE_TIMED);
}

bool bench_arrive(bench_state *state, uint64_t operation, int64_t *zero_ns) {
    const bench_options *o = state->options;
    if (!meet(state))
        return false;
    *zero_ns = bench_now_ns();
    const double ms = o->compute_ms + cli_arrival_ms(&o->arrival, o->size, state->rank, operation);
    return compute(state, *zero_ns, *zero_ns + (int64_t)llround(ms * NS_PER_MS));
}

/* ---- What was measured ----------------------------------------------------------------------------------
 */

/* The fastest of some exchanges of a message of this size in pairs of ranks: what one takes on links that
 * carry both directions at once. 0: there is no other rank, or nothing to send. */
static bool time_message(bench_state *state, uint64_t bytes, double *us) {
    unsigned char *data = calloc(2, bytes > 0 ? (size_t)bytes : 1);
    bool fine = data;
    *us = 0;
    if (!fine) {
        cli_complain("rank %u: out of memory for messages of %llu bytes", state->rank,
                     (unsigned long long)bytes);
    }
    for (int i = 0; fine && bytes > 0 && state->options->size > 1 && i < MESSAGES; i++) {
        fine = good(state, gcoll_barrier(state->context, NULL), "barrier before a message");
        const int64_t start = bench_now_ns();
        fine = fine &&
               good(state,
                    gcoll_pairwise_exchange(state->context, data, data + bytes, bytes, GCOLL_UINT8, 1, NULL),
                    "a message");
        double took = (double)(bench_now_ns() - start) / 1e3;
        fine = fine && bench_gather(state, &took, 1, GCOLL_FLOAT64, GCOLL_MAX);
        if (i == 1 || (i > 1 && took < *us))
            *us = took;
    }
    free(data);
    return fine;
}

/* Figures of all ranks for each call: sums in 2 rows of n, then greatest ones in 2, then least ones in 1. */
static bool gather_rows(bench_state *state, const bench_times *times, double *rows) {
    const size_t n = times->count;
    for (size_t i = 0; i < n; i++) {
        const double entered = times->entered_us[i];
        rows[i] = times->us[i];
        rows[n + i] = rows[2 * n + i] = rows[4 * n + i] = entered;
        rows[3 * n + i] = entered + times->us[i];
    }
    return bench_gather(state, rows, 2 * n, GCOLL_FLOAT64, GCOLL_SUM) &&
           bench_gather(state, rows + 2 * n, 2 * n, GCOLL_FLOAT64, GCOLL_MAX) &&
           bench_gather(state, rows + 4 * n, n, GCOLL_FLOAT64, GCOLL_MIN);
}

static void average(const double *rows, size_t n, double ranks, bench_arrival_figures *f) {
    for (size_t i = 0; i < n; i++) {
        const double last_out = rows[3 * n + i];
        f->elapsed_us += rows[i] / ranks;
        f->from_mean_us += last_out - rows[n + i] / ranks;
        f->from_last_us += last_out - rows[2 * n + i];
        f->imbalance_us += rows[2 * n + i] - rows[4 * n + i];
    }
    f->elapsed_us /= (double)n;
    f->from_mean_us /= (double)n;
    f->from_last_us /= (double)n;
    f->imbalance_us /= (double)n;
}

bool bench_arrival_figures_of(bench_call *call, const bench_times *times, bench_arrival_figures *figures) {
    bench_state *state = call->state;
    if (!state->options->paced)
        return true;
    figures->any = true;
    double *rows = calloc(5 * (size_t)times->count, sizeof *rows);
    if (!rows) {
        cli_complain("rank %u: out of memory for %u times", state->rank, times->count);
        return false;
    }
    const bool fine =
        gather_rows(state, times, rows) && time_message(state, call->bytes, &figures->message_us);
    if (fine)
        average(rows, times->count, state->options->size, figures);
    free(rows);
    return fine;
}

/* ---- The monitor ----------------------------------------------------------------------------------------
 */

bool bench_monitor_site(const bench_state *state, bench_site site) {
    return state->options->monitor == BENCH_MONITOR_OFF ||
           good(state, gcoll_arrival_site(state->context, (uint32_t)site), "the monitor");
}

bool bench_monitor_look(const bench_call *call, gcoll_site_stats *stats) {
    const bench_options *o = call->state->options;
    const gcoll_collective c = call->what->collective;
    if (o->monitor == BENCH_MONITOR_OFF || strcmp(call->what->algorithm, "auto") != 0)
        return false;
    for (uint32_t i = 0;; i++) {
        *stats = (gcoll_site_stats){.struct_size = sizeof *stats};
        if (gcoll_arrival_stats(call->state->context, i, stats, NULL) != GCOLL_OK)
            return false;
        if (stats->number == BENCH_SITE_TIMED && stats->collective == c &&
            (c == GCOLL_BARRIER || (stats->type == o->type && stats->count == call->count)) &&
            (!gcoll_collective_reduces(c) || stats->op == o->op) &&
            (!gcoll_collective_has_root(c) || stats->root == o->root))
            return true;
    }
}

void bench_monitor_print(const bench_state *state) {
    const bench_options *o = state->options;
    char text[2048];
    if (o->monitor == BENCH_MONITOR_OFF || !o->verbose || state->rank != 0)
        return;
    (void)fputs("what the monitor saw of the timed calls and those before that warmed up: the mean time of a "
                "call on rank 0, the "
                "imbalance that was expected last\n",
                stderr);
    gcoll_site_stats site = {.struct_size = sizeof site};
    for (uint32_t i = 0; gcoll_arrival_stats(state->context, i, &site, NULL) == GCOLL_OK; i++)
        if (site.number == BENCH_SITE_TIMED &&
            gcoll_arrival_site_text(state->context, i, text, sizeof text) == GCOLL_OK)
            (void)fputs(text, stderr);
}
