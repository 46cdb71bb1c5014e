/*
 * benchmark/tune_check.c - --tune-check: auto's time over that of the best algorithm by name.
 *
 * First a race finds the best by name, as --tune does. Then auto, the best, and auto again run in turn for
 * some rounds that nothing was chosen by: the fastest of many that were measured once was lucky, too. How far
 * auto is from auto says what a difference is worth on this machine.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define CHECK_ROUNDS 9

typedef struct tally {
    uint32_t points, within_5, within_15, noise_5, noise_15, same;
} tally;

static double over(double a, double b) {
    return b > 0 ? a / b : 1;
}

static double apart(double a, double b) {
    return a > b ? over(a, b) : over(b, a);
}

static bool print_point(FILE *file, const bench_field *three, uint64_t bytes, tally *t) {
    const bench_candidate *automatic = &three->at[0];
    const bench_candidate *best = &three->at[1];
    const bench_candidate *again = &three->at[2];
    const double ratio = over(automatic->us, best->us);
    const double noise = apart(automatic->us, again->us);
    t->points++;
    t->within_5 += ratio <= 1.05;
    t->within_15 += ratio <= 1.15;
    t->noise_5 += noise <= 1.05;
    t->noise_15 += noise <= 1.15;
    t->same += strcmp(automatic->name, best->name) == 0;
    return file == NULL || fprintf(file, "%-16s %12llu %10.1f %10.1f %8.3f %8.3f  %s%s%s\n",
                                   gcoll_collective_name(best->what.collective), (unsigned long long)bytes,
                                   automatic->us, best->us, ratio, noise, automatic->name,
                                   strcmp(automatic->name, best->name) ? ", not " : "",
                                   strcmp(automatic->name, best->name) ? best->name : "") > 0;
}

static void free_candidates(bench_field *field) {
    for (size_t i = 0; i < field->count; i++) {
        free(field->at[i].what.algorithm);
    }
    free(field->at);
}

static bool check_point(bench_state *state, gcoll_collective collective, uint64_t bytes, FILE *file,
                        tally *t) {
    const bench_options *o = state->options;
    bench_field field = {0};
    bench_field three = {0};
    bool good = true;
    for (size_t i = 0; i < o->case_count && good; i++) {
        if (o->cases[i].collective == collective) {
            good = bench_field_add(&field, collective, o->cases[i].algorithm);
        }
    }
    good = good && bench_field_race(state, &field, bytes) && field.at[0].rounds > 0 &&
           bench_field_add(&three, collective, "auto") &&
           bench_field_add(&three, collective, field.at[0].name) &&
           bench_field_add(&three, collective, "auto");
    for (uint32_t round = 0; round < CHECK_ROUNDS && good; round++) {
        good = bench_field_round(state, &three, bytes, round % 2 != 0);
    }
    good = good && print_point(file, &three, bytes, t);
    free_candidates(&three);
    free_candidates(&field);
    return good;
}

bool bench_tune_check(bench_state *state, FILE *output) {
    const bench_options *o = state->options;
    FILE *file = state->rank == 0 ? output : NULL;
    tally t = {0};
    bool good = file == NULL || fprintf(file, "#%-15s %12s %10s %10s %8s %8s  %s\n", "collective", "bytes",
                                        "auto us", "best us", "ratio", "A/A", "auto") > 0;
    good = good && bench_settle(state);
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT && good; c++) {
        bool any = false;
        for (size_t i = 0; i < o->case_count; i++) {
            any = any || (int)o->cases[i].collective == c;
        }
        for (size_t i = 0; any && good && i < bench_tune_sizes(o, (gcoll_collective)c); i++) {
            good =
                check_point(state, (gcoll_collective)c, bench_tune_size(o, (gcoll_collective)c, i), file, &t);
        }
    }
    if (good && file != NULL && t.points > 0) {
        good =
            fprintf(file,
                    "# %u points: auto within 5 %% of the best at %u, within 15 %% at %u; it takes the best "
                    "itself at %u; auto within 5 %% of auto at %u, within 15 %% at %u\n",
                    t.points, t.within_5, t.within_15, t.same, t.noise_5, t.noise_15) > 0;
    }
    return good;
}
