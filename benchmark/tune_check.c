/*
 * benchmark/tune_check.c - --tune-check: auto's time over that of the best algorithm by name.
 *
 * First a race finds the best algorithm by name, as --tune does, and auto is called a few hundred times, so
 * that it learns if it can. Then auto, the best, and auto again run in turn, there and back, in new rounds:
 * the winner of a race among many was partly lucky, so its own rounds do not count. They go on until the
 * result is clear, or has taken long. All that happens in one
 * placement of ranks on cores: what is learned is what is fastest in it. The result is the median of the
 * rounds' ratios. The difference between the two runs of auto shows how large a difference must be on
 * this machine to mean anything.
 */
#include <stdlib.h>
#include <string.h>

#include "benchmark/tune.h"
#include "benchmark/tune_race.h"
#include "tools/progress.h"

#define FEWEST_ROUNDS 9
#define FIXED_ROUNDS  9     /* where the number of calls is given */
#define DUEL_US       1.5e6 /* of all three; beyond it, only the fewest rounds, */
#define UNCLEAR_US    20e6  /* or, up to this, until the result is clear: */
#define CLEAR         0.01  /* its error */
#define RACE_SHARE    0.5   /* of a point's time, about */

typedef struct tally {
    uint32_t points, within_5, within_15, noise_5, noise_15, same;
} tally;

static double apart(double ratio) {
    return ratio < 1 ? 1 / ratio : ratio;
}

/* Both runs of auto in a round stand beside the best's, one before and one after it. */
static bench_ratio ratio_of(const bench_field *three) {
    bench_candidate both = three->at[0];
    for (uint32_t i = 0; i < both.rounds; i++)
        both.round_us[i] = (both.round_us[i] + three->at[2].round_us[i]) / 2;
    return bench_ratio_of(&both, &three->at[1]);
}

static bool print_point(FILE *file, const bench_field *three, uint64_t bytes, tally *t) {
    const bench_candidate *automatic = &three->at[0];
    const bench_candidate *best = &three->at[1];
    const bench_ratio ratio = ratio_of(three);
    const double noise = apart(bench_ratio_of(automatic, &three->at[2]).median);
    t->points++;
    t->within_5 += ratio.median <= 1.05;
    t->within_15 += ratio.median <= 1.15;
    t->noise_5 += noise <= 1.05;
    t->noise_15 += noise <= 1.15;
    t->same += strcmp(automatic->name, best->name) == 0;
    return !file || fprintf(file, "%-16s %12llu %10.1f %10.1f %8.3f %6.3f %8.3f %6u  %s%s%s\n",
                            gcoll_collective_name(best->what.collective), (unsigned long long)bytes,
                            automatic->us, best->us, ratio.median, 2 * ratio.error, noise, automatic->rounds,
                            automatic->name, strcmp(automatic->name, best->name) ? ", not " : "",
                            strcmp(automatic->name, best->name) ? best->name : "") > 0;
}

static bool goes_on(const bench_options *options, const bench_field *three, uint32_t round) {
    if (options->iterations > 0)
        return round < FIXED_ROUNDS;
    if (round < FEWEST_ROUNDS || round >= BENCH_MOST_ROUNDS)
        return round < FEWEST_ROUNDS;
    const bool is_clear = ratio_of(three).error <= CLEAR;
    return bench_field_spent(three) < (is_clear ? DUEL_US : UNCLEAR_US);
}

static bool check_point(bench_state *state, gcoll_collective collective, uint64_t bytes, FILE *file,
                        tally *t) {
    const bench_options *o = state->options;
    bench_field field = {0};
    bench_field three = {0};
    bench_cores allowed;
    bool good = true;
    bench_deal(state, &allowed);
    for (size_t i = 0; i < o->case_count && good; i++)
        if (o->cases[i].collective == collective)
            good = bench_field_add(&field, collective, o->cases[i].algorithm);
    good = good && bench_field_race(state, &field, bytes, RACE_SHARE) && field.at[0].rounds > 0 &&
           bench_field_add(&three, collective, "auto") &&
           bench_field_add(&three, collective, field.at[0].name) &&
           bench_field_add(&three, collective, "auto");
    if (good && o->iterations == 0)
        good = bench_teach(state, collective, bytes, field.at[0].us);
    for (uint32_t round = 0; good && goes_on(o, &three, round); round++)
        good = bench_field_round(state, &three, bytes, round % 2 != 0);
    bench_release(state, &allowed);
    bench_point_progress(state, RACE_SHARE + (1 - RACE_SHARE) * bench_field_spent(&three) / DUEL_US);
    state->points++;
    cli_progress_hide();
    good = good && print_point(file, &three, bytes, t);
    bench_field_free(&three);
    bench_field_free(&field);
    return good;
}

bool bench_tune_check(bench_state *state, FILE *output) {
    const bench_options *o = state->options;
    FILE *file = state->rank == 0 ? output : NULL;
    tally t = {0};
    bench_tune_begin(state);
    bool good = !file || fprintf(file, "#%-15s %12s %10s %10s %8s %6s %8s %6s  %s\n", "collective", "bytes",
                                 "auto us", "best us", "ratio", "+-", "A/A", "rounds", "auto") > 0;
    for (int c = 0; c < GCOLL_COLLECTIVE_COUNT && good; c++) {
        const bool any = bench_tune_has(o, (gcoll_collective)c);
        for (size_t i = 0; any && good && i < bench_tune_sizes(o, (gcoll_collective)c); i++) {
            good =
                check_point(state, (gcoll_collective)c, bench_tune_size(o, (gcoll_collective)c, i), file, &t);
        }
    }
    if (file)
        cli_progress_end();
    if (good && file && t.points > 0) {
        good =
            fprintf(file,
                    "# %u points: auto within 5 %% of the best at %u, within 15 %% at %u; it takes the best "
                    "itself at %u; auto within 5 %% of auto at %u, within 15 %% at %u\n",
                    t.points, t.within_5, t.within_15, t.same, t.noise_5, t.noise_15) > 0;
    }
    return good;
}
