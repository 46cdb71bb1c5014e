/*
 * benchmark/tune.c - --tune: which algorithm is the fastest, collective by collective and size by size.
 *
 * Candidates run round by round, interleaved, so that what disturbs the machine for a while disturbs all
 * alike. After each round those that are far behind are out, and fewer go on: most of the time goes to those
 * that are near one another. What counts is the median of a candidate's rounds. Where the algorithm that was
 * taken for the size before is within NEAR of the fastest, it is kept: a tie is no reason to change.
 *
 * All ranks see the slowest rank's times, so they drop the same candidates without being told.
 */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define ROUNDS        8
#define FIRST_CALLS   5
#define SLICE_US      10000.0 /* of a candidate, each round */
#define MOST_CALLS    1000
#define SETTLE_NS     INT64_C(1500000000) /* until the scheduler has given each rank the core that it keeps */
#define NEAR          1.03
#define HOPELESS      4.0 /* times the fastest at the size before: not run at large sizes */
#define LARGE_BYTES   (UINT64_C(256) << 10)
#define WRITTEN       4 /* alternatives in the file, for calls that the fastest does not serve */
#define SECTION_BYTES 49152u
#define SEGMENTED     3 /* of the fastest are tried in segments, too */

/* How far behind the fastest a candidate may be after each round, and how many go on. */
static const struct {
    double behind;
    size_t most;
} cuts[ROUNDS] = {{2.0, 14}, {1.4, 10}, {1.25, 7}, {1.15, 5}, {1.15, 4}, {1.15, 4}, {1.15, 4}, {1.15, 4}};

size_t bench_tune_sizes(const bench_options *options, gcoll_collective collective) {
    return collective == GCOLL_BARRIER ? 1 : options->sizes.count;
}

uint64_t bench_tune_size(const bench_options *options, gcoll_collective collective, size_t index) {
    return collective == GCOLL_BARRIER ? 0 : options->sizes.values[index];
}

/* ---- Rounds ------------------------------------------------------------------------------------------- */

/* As many as fill a slice of time by what is known of the candidate, the same on every rank. */
static uint32_t calls_of(const bench_options *options, const bench_candidate *c) {
    if (options->iterations > 0) {
        return options->iterations;
    }
    if (c->rounds == 0) {
        return FIRST_CALLS;
    }
    const double fit = SLICE_US / (c->us > 1 ? c->us : 1);
    return fit < 1 ? 1 : fit > MOST_CALLS ? MOST_CALLS : (uint32_t)fit;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint32_t count) {
    qsort(values, count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* The median of some calls, each by its slowest rank. */
static bool time_call(bench_call *call, uint32_t calls, double *us) {
    bench_state *state = call->state;
    double *times = calloc(calls, sizeof *times);
    bool good = times != NULL && bench_call_run(call);
    for (uint32_t i = 0; i < calls && good; i++) {
        good = gcoll_operation_run(state->barrier) == GCOLL_OK;
        const int64_t start = bench_now_ns();
        good = good && bench_call_run(call);
        times[i] = (double)(bench_now_ns() - start) / 1e3;
    }
    good = good && bench_gather(state, times, calls, GCOLL_FLOAT64, GCOLL_MAX);
    if (good) {
        *us = median(times, calls);
    }
    free(times);
    return good;
}

static bool run_candidate(bench_state *state, bench_candidate *c, uint64_t bytes) {
    const size_t most = sizeof c->round_us / sizeof c->round_us[0];
    bench_call call;
    double sorted[sizeof c->round_us / sizeof c->round_us[0]];
    bench_outcome outcome = bench_call_create(&call, state, &c->what, bytes, false);
    if (outcome != BENCH_DONE) {
        c->alive = false;
        return outcome == BENCH_SKIPPED;
    }
    (void)snprintf(c->name, sizeof c->name, "%s", gcoll_operation_algorithm(call.operation));
    bool good = time_call(&call, calls_of(state->options, c), &c->round_us[c->rounds % most]);
    bench_call_destroy(&call);
    if (good) {
        c->rounds++;
        const uint32_t count = c->rounds < most ? c->rounds : (uint32_t)most;
        memcpy(sorted, c->round_us, count * sizeof *sorted);
        c->us = median(sorted, count);
    }
    return good;
}

bool bench_field_round(bench_state *state, bench_field *field, uint64_t bytes, bool backwards) {
    bool good = true;
    for (size_t i = 0; i < field->count && good; i++) {
        bench_candidate *c = &field->at[backwards ? field->count - 1 - i : i];
        good = !c->alive || run_candidate(state, c, bytes);
    }
    return good;
}

static int faster(const void *a, const void *b) {
    const bench_candidate *x = a;
    const bench_candidate *y = b;
    const double left = x->rounds > 0 ? x->us : INFINITY;
    const double right = y->rounds > 0 ? y->us : INFINITY;
    if (x->rounds != y->rounds) { /* who went further was faster */
        return (x->rounds < y->rounds) - (x->rounds > y->rounds);
    }
    return left != right ? (left > right) - (left < right) : strcmp(x->what.algorithm, y->what.algorithm);
}

static void cut(bench_field *field, uint32_t round) {
    qsort(field->at, field->count, sizeof *field->at, faster);
    const double limit = cuts[round].behind * field->at[0].us;
    for (size_t i = 0; i < field->count; i++) {
        field->at[i].alive = field->at[i].alive && i < cuts[round].most && field->at[i].us <= limit;
    }
}

bool bench_field_add(bench_field *field, gcoll_collective collective, const char *algorithm) {
    bench_candidate *more = realloc(field->at, (field->count + 1) * sizeof *more);
    char *copy = strdup(algorithm);
    field->at = more != NULL ? more : field->at;
    if (more == NULL || copy == NULL) {
        cli_complain("out of memory");
        free(copy);
        return false;
    }
    more[field->count++] = (bench_candidate){.what = {collective, copy, true}, .alive = true};
    return true;
}

/* The fastest ones once more, in segments. */
static bool add_segments(bench_field *field, uint64_t bytes) {
    static const char *const sizes[] = {"64Ki", "256Ki", "1Mi"};
    static const uint64_t values[] = {65536, 262144, 1048576};
    const size_t whole = field->count < SEGMENTED ? field->count : SEGMENTED;
    bool good = true;
    for (size_t i = 0; i < whole; i++) {
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0] && good; k++) {
            char text[192];
            if (!field->at[i].alive || 2 * values[k] > bytes || strchr(field->at[i].name, '=') != NULL) {
                continue;
            }
            (void)snprintf(text, sizeof text, "%s:segment=%s", field->at[i].name, sizes[k]);
            good = bench_field_add(field, field->at[i].what.collective, text);
        }
    }
    return good;
}

bool bench_field_race(bench_state *state, bench_field *field, uint64_t bytes) {
    bool good = bench_field_round(state, field, bytes, false);
    const size_t whole = field->count;
    if (good) {
        cut(field, 0);
    }
    if (good && bytes > LARGE_BYTES) {
        good = add_segments(field, bytes);
        bench_field latecomers = {field->at + whole, field->count - whole};
        good = good && bench_field_round(state, &latecomers, bytes, false);
        cut(field, 0);
    }
    for (uint32_t round = 1; round < ROUNDS && good; round++) {
        good = bench_field_round(state, field, bytes, round % 2 != 0);
        cut(field, round);
    }
    return good;
}

/* ---- A collective ------------------------------------------------------------------------------------- */

static void free_field(bench_field *field) {
    for (size_t i = 0; i < field->count; i++) {
        free(field->at[i].what.algorithm);
    }
    free(field->at);
    *field = (bench_field){0};
}

/* Those of the size before that had no chance are left out of large sizes, where they cost most time. */
static bool make_field(const bench_state *state, gcoll_collective collective, uint64_t bytes,
                       const bench_field *before, bench_field *field) {
    const bench_options *o = state->options;
    for (size_t i = 0; i < o->case_count; i++) {
        bool hopeless = false;
        for (size_t k = 0; k < before->count && bytes > LARGE_BYTES; k++) {
            hopeless = hopeless || (strcmp(before->at[k].what.algorithm, o->cases[i].algorithm) == 0 &&
                                    before->at[k].us > HOPELESS * before->at[0].us);
        }
        if (o->cases[i].collective == collective && !hopeless &&
            !bench_field_add(field, collective, o->cases[i].algorithm)) {
            return false;
        }
    }
    return true;
}

/* What was taken before stands first if it is as good as the first. */
static void prefer(bench_field *field, const char *taken) {
    for (size_t i = 1; i < field->count && taken[0] != '\0'; i++) {
        bench_candidate *c = &field->at[i];
        if (strcmp(c->name, taken) == 0 && c->rounds == field->at[0].rounds &&
            c->us <= NEAR * field->at[0].us) {
            bench_candidate swap = *c;
            memmove(&field->at[1], &field->at[0], i * sizeof swap);
            field->at[0] = swap;
            return;
        }
    }
}

typedef struct writer {
    char *text;
    size_t used;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(w->text + w->used, SECTION_BYTES - w->used, format, arguments);
    va_end(arguments);
    const size_t room = SECTION_BYTES - w->used - 1;
    w->used += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room;
}

static void put_rule(writer *w, gcoll_collective collective, uint64_t from, const char *to,
                     const char *alternatives) {
    put(w, "choose %s %llu %s%s\n", gcoll_collective_name(collective), (unsigned long long)from, to,
        alternatives);
}

static void list(const bench_field *field, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < field->count && i < WRITTEN && field->at[i].rounds > 0; i++) {
        used += (size_t)snprintf(text + used, bytes - used, " %s", field->at[i].name);
    }
}

static void report(const bench_state *state, const bench_field *field, uint64_t bytes) {
    if (state->rank == 0) {
        cli_complain("%s of %llu bytes: %s, %.1f us; then %s, %.1f us",
                     gcoll_collective_name(field->at[0].what.collective), (unsigned long long)bytes,
                     field->at[0].name, field->at[0].us, field->count > 1 ? field->at[1].name : "none",
                     field->count > 1 ? field->at[1].us : 0);
    }
}

/* The geometric mean. */
static uint64_t middle(uint64_t a, uint64_t b) {
    double x = (double)b;
    for (int i = 0; i < 64 && a > 0; i++) { /* Newton's square root */
        x = (x + (double)a * (double)b / x) / 2;
    }
    return (uint64_t)x;
}

/* One collective at all sizes: a rule for each run of sizes at which the same is the best. */
static bool tune_collective(bench_state *state, gcoll_collective collective, writer *w) {
    const bench_options *o = state->options;
    const size_t sizes = bench_tune_sizes(o, collective);
    char taken[128] = "", alternatives[WRITTEN * 130] = "", to[24];
    uint64_t from = 0;
    uint64_t previous = 0;
    bench_field before = {0};
    bool good = true;
    for (size_t i = 0; i < sizes && good; i++) {
        const uint64_t bytes = bench_tune_size(o, collective, i);
        bench_field field = {0};
        good = make_field(state, collective, bytes, &before, &field) && field.count > 0 &&
               bench_field_race(state, &field, bytes) && field.at[0].rounds > 0;
        if (good) {
            prefer(&field, taken);
            report(state, &field, bytes);
        }
        if (good && strcmp(taken, field.at[0].name) != 0) {
            /* The crossing lies between two sizes that were measured: in the middle, on their scale. */
            const uint64_t edge = i == 0 ? 0 : middle(previous, bytes);
            (void)snprintf(to, sizeof to, "%llu", (unsigned long long)edge);
            if (i > 0) {
                put_rule(w, collective, from, to, alternatives);
            }
            from = edge;
            list(&field, alternatives, sizeof alternatives);
            (void)snprintf(taken, sizeof taken, "%s", field.at[0].name);
        }
        previous = bytes;
        free_field(&before);
        before = field;
    }
    free_field(&before);
    if (good) {
        put_rule(w, collective, from, "-", alternatives);
    }
    return good;
}

static bool has_case(const bench_options *o, int collective) {
    for (size_t i = 0; i < o->case_count; i++) {
        if ((int)o->cases[i].collective == collective) {
            return true;
        }
    }
    return false;
}

bool bench_settle(bench_state *state) {
    const int64_t start = bench_now_ns();
    uint64_t over = state->options->iterations > 0;
    bool good = true;
    while (good && over == 0) {
        good = gcoll_operation_run(state->barrier) == GCOLL_OK;
        over = bench_now_ns() - start > SETTLE_NS;
        good = good && bench_gather(state, &over, 1, GCOLL_UINT64, GCOLL_MAX);
    }
    return good;
}

bool bench_tune(bench_state *state) {
    const bench_options *o = state->options;
    writer w = {calloc(1, SECTION_BYTES), 0};
    bool good = w.text != NULL && bench_settle(state);
    if (good) {
        good = gcoll_context_tuning(state->context, w.text, SECTION_BYTES) == GCOLL_OK;
        w.used = strlen(w.text);
    }
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT && good; c++) {
        if (has_case(o, c)) {
            good = tune_collective(state, (gcoll_collective)c, &w);
        }
    }
    if (good && state->rank == 0) {
        good = bench_tune_write(o->tune, w.text);
    }
    free(w.text);
    return good;
}
