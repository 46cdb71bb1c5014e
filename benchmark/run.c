/* benchmark/run.c - one rank: joins the job and measures every case at every size. */
#include "benchmark/run.h"
#include "benchmark/arrival.h"
#include "benchmark/buffers.h"
#include "benchmark/clock.h"
#include "benchmark/measure.h"
#include "benchmark/pairs.h"
#include "benchmark/plugin.h"
#include "benchmark/resources.h"
#include "benchmark/shape.h"
#include "benchmark/tune.h"
#include "tools/progress.h"
#include <stdio.h>
#include <stdlib.h>

static void log_line(void *arg, gcoll_log_level level, const char *text) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    const bench_rank *self = arg;
    if (level <= GCOLL_LOG_INFO)
        cli_complain("rank %u: %s: %s", self->rank, names[level], text);
}

static bool join(const bench_rank *self, bench_state *state) {
    gcoll_context_options how;
    gcoll_context_options_init(&how);
    how.rank = self->rank;
    how.size = self->options->size;
    how.store = self->store;
    how.job = self->job;
    how.transport = self->options->transport_text;
    how.hub = self->hub;
    how.interface = self->options->interface;
    how.checksum = self->options->checksum;
    how.ibverbs = self->options->has_ibverbs ? &self->options->ibverbs : NULL;
    how.timeout_ms = bench_timeout_ms(self->options);
    how.tuning = self->options->tune ? "fit" : self->options->tuning;
    how.same = (int)bench_same(self->options);
    how.order = self->options->order;
    how.monitor = self->options->monitor != BENCH_MONITOR_OFF;
    how.progress_thread = self->options->monitor == BENCH_MONITOR_EDGES; /* passes on what edges say */
    if (self->options->on_device) {
        how.accelerator = "cuda";
        how.accelerator_times = 1;
    }
    if (self->options->verbose) {
        how.log = log_line;
        how.log_arg = (void *)(uintptr_t)self;
    }
    if (gcoll_context_create(&how, &state->context) != GCOLL_OK) {
        cli_complain("rank %u: joining the job: %s", self->rank, gcoll_last_error());
        return false;
    }
    if (!bench_register(self->options, state->context) || !bench_monitor_site(state, BENCH_SITE_OWN))
        return false;
    if (gcoll_barrier_create(state->context, NULL, &state->barrier) != GCOLL_OK) {
        cli_complain("rank %u: %s", self->rank, gcoll_last_error());
        return false;
    }
    return true;
}

/* Shares the use of devices: ranks that were started one by one may have different flags. */
static bool share_devices(bench_state *state) {
    uint8_t any = state->options->on_device ? 1 : 0;
    if (state->options->local == 0 && !bench_gather(state, &any, 1, GCOLL_UINT8, GCOLL_MAX))
        return false;
    state->has_devices = any != 0;
    return true;
}

static bool make_values(const bench_state *state, const bench_case *what, bench_values *values) {
    const bench_options *options = state->options;
    const bool reduces = gcoll_collective_reduces(what->collective);
    if (!bench_values_create(options->type, options->op, (uint64_t)options->size * options->inputs, reduces,
                             values))
        return false;
    if (reduces && options->postscale < 0)
        bench_values_negate_zeros(values);
    return true;
}

/* All sizes of one case. False: give up. */
static bool run_case(bench_state *state, const bench_case *what, uint64_t *wrong) {
    const bench_options *options = state->options;
    const char *collective = gcoll_collective_name(what->collective);
    size_t sizes = what->collective == GCOLL_BARRIER ? 1 : options->sizes.count;
    bench_values values;
    if (!make_values(state, what, &values))
        return false;
    bench_outcome outcome = BENCH_DONE;
    for (size_t i = 0; i < sizes && outcome == BENCH_DONE; i++) {
        uint64_t bytes = what->collective == GCOLL_BARRIER ? 0 : options->sizes.values[i];
        if (state->rank == 0)
            cli_progress(state->points, "%s by %s, %llu bytes", collective, what->algorithm,
                         (unsigned long long)bytes);
        outcome = bench_measure(state, what, &values, bytes, wrong);
        state->points++;
    }
    if (outcome == BENCH_SKIPPED && state->rank == 0)
        cli_complain("%s by %s is left out: %s", collective, what->algorithm, gcoll_last_error());
    bench_values_free(&values);
    return outcome != BENCH_BROKEN;
}

static bool run_cases(bench_state *state, uint64_t *wrong) {
    const bench_options *o = state->options;
    uint32_t points = 0;
    bool good = true;
    for (size_t i = 0; i < o->case_count; i++)
        points += (uint32_t)bench_tune_sizes(o, o->cases[i].collective);
    if (state->rank == 0)
        cli_progress_begin(cli_program, points);
    points = 0;
    for (size_t i = 0; i < o->case_count && good; i++) {
        good = run_case(state, &o->cases[i], wrong);
        points += (uint32_t)bench_tune_sizes(o, o->cases[i].collective);
        state->points = points; /* one that does not apply is done at once */
    }
    if (state->rank == 0)
        cli_progress_end();
    return good;
}

/* Prints how messages travelled from rank 0. */
static void print_lanes(const bench_state *state) {
    char text[8192];
    if (state->options->verbose && state->rank == 0 &&
        gcoll_context_lanes(state->context, text, sizeof text) == GCOLL_OK)
        (void)fputs(text, stderr);
}

/* Writes what this rank's flight recorder has. */
static bool write_trace(const bench_state *state) {
    char path[4096];
    if (!state->options->trace)
        return true;
    const int length = snprintf(path, sizeof path, "%s/rank%u.json", state->options->trace, state->rank);
    if (length < (int)sizeof path && gcoll_context_dump(state->context, path) == GCOLL_OK)
        return true;
    cli_complain("--trace: rank %u: %s", state->rank,
                 length < (int)sizeof path ? gcoll_last_error() : "the folder's name is too long");
    return false;
}

int bench_run_rank(const bench_rank *self) {
    const bench_options *options = self->options;
    bench_state state = {.options = options, .rank = self->rank};
    uint64_t wrong = 0;
    bench_resources resources;
    bool good = join(self, &state);
    if (good && options->resources)
        bench_resources_joined(&resources, self->started_ns);
    good = good && share_devices(&state) && bench_buffers_open(&state) &&
           (!options->line_up ||
            bench_line_up_open(&state.line_up, options->line_up, options->size, options->timeout_ms));
    good = good && bench_settle(&state);
    if (good && options->tune) {
        good = bench_tune(&state);
    } else if (good && options->network_out) {
        good = bench_pairs(&state);
    } else if (good && options->tune_check) {
        good = bench_tune_check(&state, self->output);
    } else if (good) {
        bench_report_begin(&state.report, options, state.has_devices, self->rank == 0 ? self->output : NULL);
        good = run_cases(&state, &wrong);
        good = good && bench_report_end(&state.report);
        if (good)
            bench_monitor_print(&state);
        if (good)
            print_lanes(&state);
    }
    good = good && write_trace(&state);
    good = good && (!options->resources || bench_resources_report(&resources, state.context));
    /* Nobody leaves before rank 0 has told how it reached the others: it is not connected to one that left.
     * Whether that fails says nothing about what was measured. */
    if (good)
        (void)gcoll_operation_run(state.barrier);
    gcoll_operation_destroy(state.barrier);
    gcoll_context_destroy(state.context);
    bench_buffers_close(&state);
    bench_line_up_close(&state.line_up);
    bench_report_free(&state.report);
    return good && wrong == 0 ? BENCH_OK : BENCH_FAILED;
}

int bench_single_rank(const bench_options *options, FILE *output) {
    gcoll_store *store;
    if (gcoll_store_open(options->store, bench_timeout_ms(options), &store) != GCOLL_OK) {
        cli_complain("--store: %s", gcoll_last_error());
        return BENCH_FAILED;
    }
    bench_rank self = {.options = options,
                       .rank = (uint32_t)options->rank,
                       .store = store,
                       .job = options->job ? options->job : "gcoll_bench",
                       .output = output,
                       .started_ns = bench_now_ns()};
    int status = bench_run_rank(&self);
    gcoll_store_destroy(store);
    return status;
}
