/*
 * benchmark/measure.c - one line of the table: check, warm up, time, check again.
 *
 * Before each timed iteration the ranks are lined up by a barrier, as in the OSU micro-benchmarks (with
 * --back-to-back they are not, as in nccl-tests), or by what arrival.c does. Each rank takes the time of its
 * own call, or, with --with-barrier, of the barrier and the call; the time of an iteration is that of the
 * slowest rank.
 */
#include <stdlib.h>
#include <string.h>

#include "benchmark/arrival.h"
#include "benchmark/check.h"
#include "benchmark/clock.h"
#include "benchmark/device_times.h"
#include "benchmark/measure.h"
#include "benchmark/rounding.h"
#include "benchmark/shape.h"
#include "tools/progress.h"

#define FEWEST_ITERATIONS 5u
#define MOST_ITERATIONS   100000u

static bool line_up(const bench_call *call) {
    bench_state *state = call->state;
    if (state->options->back_to_back || call->what->collective == GCOLL_BARRIER)
        return true;
    if (state->line_up.page)
        return bench_line_up_wait(&state->line_up);
    if (gcoll_operation_run(state->barrier) == GCOLL_OK)
        return true;
    cli_complain("rank %u: barrier before an iteration: %s", state->rank, gcoll_last_error());
    return false;
}

static bool time_calls(bench_call *call, uint32_t iterations, bench_times *times) {
    for (uint32_t i = 0; i < iterations; i++) {
        int64_t zero = 0, start = bench_now_ns();
        if (times->entered_us ? !bench_arrive(call->state, times->count, &zero) : !line_up(call))
            return false;
        if (!call->state->options->with_barrier)
            start = bench_now_ns();
        if (!bench_call_run(call))
            return false;
        times->us[times->count] = (double)(bench_now_ns() - start) / 1e3;
        if (!bench_monitor_site(call->state, BENCH_SITE_OWN))
            return false;
        if (times->entered_us)
            times->entered_us[times->count] = (double)(start - zero) / 1e3;
        times->count++;
    }
    return true;
}

/* Room for `more` times. */
static bool grow(bench_call *call, bench_times *times, uint32_t more) {
    double **lists[] = {&times->us, &times->entered_us};
    const size_t used = call->state->options->paced ? 2 : 1;
    for (size_t i = 0; i < used; i++) {
        double *grown = realloc(*lists[i], ((size_t)times->count + more) * sizeof *grown);
        if (!grown) {
            cli_complain("rank %u: out of memory for %u times", call->state->rank, times->count + more);
            return false;
        }
        *lists[i] = grown;
    }
    return true;
}

/* How many more calls fit into the time, after `count` calls took elapsed_s. At most three times `count`, as
 * the first calls are the slowest. */
static uint32_t next_batch(double seconds, double elapsed_s, uint32_t count) {
    double fit = (seconds - elapsed_s) * count / elapsed_s;
    double most = count * 3.0 < MOST_ITERATIONS - count ? count * 3.0 : MOST_ITERATIONS - count;
    return fit < 1 ? 1 : fit > most ? (uint32_t)most : (uint32_t)fit;
}

/* As many calls as asked for, or as fit into the time; the same number on every rank. */
static bool time_all(bench_call *call, bench_times *times) {
    bench_state *state = call->state;
    uint32_t batch = state->options->iterations > 0 ? state->options->iterations : FEWEST_ITERATIONS;
    double elapsed_s = 0;
    for (;;) {
        if (!grow(call, times, batch))
            return false;
        int64_t start = bench_now_ns();
        if (!time_calls(call, batch, times))
            return false;
        elapsed_s += (double)(bench_now_ns() - start) / 1e9;
        if (state->options->iterations > 0)
            return true;
        /* What the slowest rank has seen, so that all decide alike. */
        if (!bench_gather(state, &elapsed_s, 1, GCOLL_FLOAT64, GCOLL_MAX))
            return false;
        if (elapsed_s >= state->options->seconds || times->count >= MOST_ITERATIONS)
            return true;
        bench_point_progress(state, elapsed_s / state->options->seconds);
        batch = next_batch(state->options->seconds, elapsed_s, times->count);
    }
}

/* Fills, runs once and compares. */
static bool check_run(bench_call *call, bench_values *values, uint64_t *wrong) {
    return bench_check_prepare(call, values) && bench_call_run(call) &&
           bench_check_results(call, values, wrong);
}

/* The placement that is not timed: in place if the timed one is out of place, and the reverse. */
static bool check_other_placement(const bench_call *timed, bench_values *values, uint64_t *wrong) {
    bench_call other;
    bench_outcome outcome =
        bench_call_create(&other, timed->state, timed->what, timed->bytes, !timed->state->options->in_place);
    if (outcome != BENCH_DONE)
        return outcome == BENCH_SKIPPED;
    bool good = check_run(&other, values, wrong);
    bench_call_destroy(&other);
    return good;
}

/* The same on every rank, whether or not it can do it in place itself. */
static bool other_placement(const bench_call *call) {
    return call->what->collective != GCOLL_BROADCAST &&
           gcoll_collective_takes_in_place(call->what->collective);
}

static bool timed_in_place(const bench_call *call) {
    return other_placement(call) && call->state->options->in_place;
}

static bool check_before(bench_call *call, bench_values *values, uint64_t *wrong) {
    if (call->what->collective == GCOLL_BARRIER)
        return bench_check_barrier(call, wrong);
    if (other_placement(call) && !check_other_placement(call, values, wrong))
        return false;
    /* Prepare again, so that the later check sees the results of timed runs. */
    return check_run(call, values, wrong) && bench_check_prepare(call, values);
}

static bool check_after(bench_call *call, bench_values *values, uint64_t *wrong) {
    if (call->what->collective == GCOLL_BARRIER)
        return bench_check_barrier(call, wrong);
    if (timed_in_place(call))
        return check_run(call, values, wrong); /* each timed run began with the result of the one before */
    return bench_check_results(call, values, wrong);
}

/* Barriers are checked by a clock that all ranks share; and are wrong on all ranks alike. */
static bool gather_wrong(bench_call *call, bool checked, uint64_t *wrong) {
    if (!checked || call->what->collective == GCOLL_BARRIER)
        return true;
    uint64_t here = *wrong;
    if (!bench_gather(call->state, wrong, 1, GCOLL_UINT64, GCOLL_SUM))
        return false;
    /* Keep this rank's own count: a library that adds wrongly must not hide it. */
    *wrong = *wrong > here ? *wrong : here;
    return true;
}

static bool has_rounding(const bench_call *call) {
    const bench_options *o = call->state->options;
    return o->rounding && gcoll_collective_reduces(call->what->collective) &&
           (o->type == GCOLL_FLOAT32 || o->type == GCOLL_FLOAT64);
}

/* The measured values of one line. */
typedef struct measured {
    bench_times times;
    bool checked;
    uint64_t wrong;
    gcoll_site_stats site; /* of before the timed calls, then of after them */
    bench_device_figures devices;
    bench_arrival_figures arrivals;
} measured;

static bool report(bench_call *call, measured *m) {
    bench_state *state = call->state;
    bench_result result = {.collective = call->what->collective,
                           .algorithm = m->arrivals.watched ? m->site.algorithm
                                                            : gcoll_operation_algorithm(call->operation),
                           .asked = call->what->algorithm,
                           .bytes = call->bytes,
                           .count = call->count,
                           .iterations = m->times.count,
                           .checked = m->checked,
                           .wrong = m->wrong,
                           .has_rounding = has_rounding(call),
                           .devices = m->devices};
    if (result.has_rounding && !bench_rounding(call, &result.rounding))
        return false;
    if (!bench_arrival_figures_of(call, &m->times, &m->arrivals) ||
        !bench_gather(state, m->times.us, m->times.count, GCOLL_FLOAT64, GCOLL_MAX))
        return false;
    result.arrivals = m->arrivals;
    bench_statistics_of(m->times.us, m->times.count, &result.time);
    return bench_report_add(&state->report, &result);
}

static bool warm_up(bench_call *call) {
    const bench_options *o = call->state->options;
    bool good = true;
    for (uint32_t i = 0; good && i < o->warmup; i++) {
        int64_t zero;
        good = (!o->paced || bench_arrive(call->state, i, &zero)) && bench_call_run(call) &&
               bench_monitor_site(call->state, BENCH_SITE_OWN);
    }
    return good;
}

/* Times the calls, and reads the monitor's statistics before and after them. */
static bool time_watched(bench_call *call, measured *m) {
    const uint64_t before = bench_monitor_look(call, &m->site) ? m->site.heeded : 0;
    if (!time_all(call, &m->times))
        return false;
    m->arrivals.watched = bench_monitor_look(call, &m->site);
    m->arrivals.heeded = m->site.heeded - before;
    return true;
}

static bool measure(bench_call *call, bench_values *values, uint64_t *wrong) {
    const bench_options *options = call->state->options;
    measured m = {.checked =
                      !options->no_check && (call->what->collective != GCOLL_BARRIER || options->local > 0)};
    bool good = (!m.checked || check_before(call, values, &m.wrong)) && warm_up(call) &&
                bench_device_begin(call->state) && time_watched(call, &m) &&
                bench_device_end(call->state, &m.devices) &&
                (!m.checked || check_after(call, values, &m.wrong)) &&
                gather_wrong(call, m.checked, &m.wrong) && report(call, &m);
    *wrong += m.wrong;
    free(m.times.us);
    free(m.times.entered_us);
    return good;
}

/* Prints the algorithm that auto chooses for such calls by now, and the ones that it rejects. */
static void explain(const bench_call *call) {
    const bench_options *o = call->state->options;
    char text[8192];
    if (!o->verbose || call->state->rank != 0 || strcmp(call->what->algorithm, "auto") != 0)
        return;
    uint64_t count =
        gcoll_collective_has_blocks(call->what->collective) ? call->count / o->size : call->count;
    uint32_t root = gcoll_collective_has_root(call->what->collective) ? o->root : 0;
    if (gcoll_context_explain(call->state->context, call->what->collective, count, o->type, o->op, root,
                              &call->common, text, sizeof text) == GCOLL_OK) {
        cli_progress_hide();
        (void)fputs(text, stderr);
    }
}

bench_outcome bench_measure(bench_state *state, const bench_case *what, bench_values *values, uint64_t bytes,
                            uint64_t *wrong) {
    /* A broadcast has one buffer, which is input on the root and output elsewhere. */
    bool in_place = state->options->in_place || what->collective == GCOLL_BROADCAST;
    bench_call call;
    bench_outcome outcome = bench_call_create(&call, state, what, bytes, in_place);
    if (outcome != BENCH_DONE)
        return outcome;
    if (!measure(&call, values, wrong))
        outcome = BENCH_BROKEN;
    else
        explain(&call);
    bench_call_destroy(&call);
    return outcome;
}
