/*
 * benchmark/tune.c - --tune: which algorithm is the fastest, collective by collective and size by size.
 *
 * If the algorithm of the previous size is within NEAR of the fastest, it is kept: a tie is no reason to
 * change.
 */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/tune.h"
#include "benchmark/tune_file.h"
#include "benchmark/tune_race.h"
#include "tools/progress.h"

#define NEAR          1.02
#define HOPELESS      2.5 /* times the fastest at the size before: not run at large sizes */
#define LARGE_BYTES   (UINT64_C(256) << 10)
#define WRITTEN       4 /* alternatives in the file, for calls that the fastest does not serve */
#define SECTION_BYTES 49152u

size_t bench_tune_sizes(const bench_options *options, gcoll_collective collective) {
    return collective == GCOLL_BARRIER ? 1 : options->sizes.count;
}

uint64_t bench_tune_size(const bench_options *options, gcoll_collective collective, size_t index) {
    return collective == GCOLL_BARRIER ? 0 : options->sizes.values[index];
}

bool bench_tune_has(const bench_options *options, gcoll_collective collective) {
    for (size_t i = 0; i < options->case_count; i++)
        if (options->cases[i].collective == collective)
            return true;
    return false;
}

void bench_tune_begin(const bench_state *state) {
    size_t points = 0;
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT; c++)
        if (bench_tune_has(state->options, (gcoll_collective)c))
            points += bench_tune_sizes(state->options, (gcoll_collective)c);
    if (state->rank == 0)
        cli_progress_begin(cli_program, (double)points);
}

/* ---- A collective ------------------------------------------------------------------------------------- */

/* Makes the candidates of a size. At large sizes, where they cost most time, candidates that were hopeless
 * at the previous size are left out. */
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
            !bench_field_add(field, collective, o->cases[i].algorithm))
            return false;
    }
    return true;
}

/* Moves the previous choice to the front if it is as good as the first; returns whether it moved. */
static bool prefer(bench_field *field, const char *taken) {
    for (size_t i = 1; i < field->count && taken[0] != '\0'; i++) {
        bench_candidate *c = &field->at[i];
        if (strcmp(c->name, taken) == 0 && c->rounds == field->at[0].rounds && c->ratio.median <= NEAR) {
            bench_candidate swap = *c;
            memmove(&field->at[1], &field->at[0], i * sizeof swap);
            field->at[0] = swap;
            return true;
        }
    }
    return false;
}

typedef struct writer {
    char *text;
    size_t used;
    bool overflown;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(w->text + w->used, SECTION_BYTES - w->used, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= SECTION_BYTES - w->used) {
        w->text[w->used] = '\0';
        w->overflown = true;
    } else {
        w->used += (size_t)length;
    }
}

/* Writes a size as users write it: 64Ki, not 65536. */
static const char *size_text(uint64_t bytes, char text[24]) {
    static const char *const units[] = {"", "Ki", "Mi", "Gi"};
    size_t unit = 0;
    while (unit < 3 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(text, 24, "%llu%s", (unsigned long long)bytes, units[unit]);
    return text;
}

static void put_rule(writer *w, gcoll_collective collective, uint64_t from, const char *to,
                     const char *alternatives) {
    char text[24];
    put(w, "choose %s %s %s%s\n", gcoll_collective_name(collective), size_text(from, text), to, alternatives);
}

static void list(const bench_field *field, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < field->count && i < WRITTEN && field->at[i].rounds > 0; i++)
        used += (size_t)snprintf(text + used, bytes - used, " %s", field->at[i].name);
}

static void report(const bench_state *state, const bench_field *field, uint64_t bytes, bool kept) {
    const bench_candidate *second = field->count > 1 ? &field->at[1] : NULL;
    char text[24];
    if (state->rank == 0) {
        cli_complain("%s of %s bytes: %s, %.1f us%s; then %s, x%.3f",
                     gcoll_collective_name(field->at[0].what.collective), size_text(bytes, text),
                     field->at[0].name, field->at[0].us, kept ? ", kept as it is as good as the fastest" : "",
                     second ? second->name : "none",
                     second ? bench_ratio_of(second, &field->at[0]).median : 0);
    }
}

/* The geometric mean: never `a` itself, for which another is the best. */
static uint64_t middle(uint64_t a, uint64_t b) {
    const uint64_t mean = (uint64_t)llround(sqrt((double)a * (double)b));
    return mean > a ? mean : b;
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
        if (state->rank == 0)
            cli_progress(state->points, "%s, %s bytes", gcoll_collective_name(collective),
                         size_text(bytes, to));
        good = make_field(state, collective, bytes, &before, &field) && field.count > 0 &&
               bench_field_race(state, &field, bytes, 1) && field.at[0].rounds > 0;
        state->points++;
        if (good)
            report(state, &field, bytes, prefer(&field, taken));
        if (good && strcmp(taken, field.at[0].name) != 0) {
            /* The crossing lies between two sizes that were measured: in the middle, on their scale. */
            const uint64_t edge = i == 0 ? 0 : middle(previous, bytes);
            if (i > 0)
                put_rule(w, collective, from, size_text(edge, to), alternatives);
            from = edge;
            list(&field, alternatives, sizeof alternatives);
            (void)snprintf(taken, sizeof taken, "%s", field.at[0].name);
        }
        previous = bytes;
        bench_field_free(&before);
        before = field;
    }
    bench_field_free(&before);
    if (good)
        put_rule(w, collective, from, "-", alternatives);
    return good;
}

bool bench_tune(bench_state *state) {
    const bench_options *o = state->options;
    writer w = {calloc(1, SECTION_BYTES), 0, false};
    bench_tune_begin(state);
    bool good = w.text != NULL;
    if (good) {
        good = gcoll_context_tuning(state->context, w.text, SECTION_BYTES) == GCOLL_OK;
        w.used = strlen(w.text);
    }
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT && good; c++)
        if (bench_tune_has(o, (gcoll_collective)c))
            good = tune_collective(state, (gcoll_collective)c, &w);
    if (state->rank == 0)
        cli_progress_end();
    if (good && w.overflown) {
        good = false;
        cli_complain("--tune: the section of %u ranks has more than %u bytes; measure fewer sizes or "
                     "collectives",
                     o->size, SECTION_BYTES - 1);
    }
    if (good && state->rank == 0)
        good = bench_tune_write(o->tune, w.text);
    free(w.text);
    return good;
}
