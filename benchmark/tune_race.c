/*
 * benchmark/tune_race.c - finds the fastest of many candidates, and by how much it is faster.
 *
 * Candidates run in rounds, interleaved, each for a short slice of time, so a disturbance of the machine
 * affects all alike. Two candidates are compared by the median of their ratios in each round. After each
 * round, candidates that are far behind drop out; later also those that are behind by more than the spread of
 * the ratios can explain. So most of the time goes to candidates of similar speed, until they can be told
 * apart or time is over.
 *
 * If ranks share cores, it matters which ranks share one, and the scheduler rarely moves them: a tree whose
 * parents share a core with their children differs from one whose parents do not. So each round deals the
 * ranks of a local job out to the cores anew, evenly, and binds them until its end. A ratio is of one deal,
 * and the median is over many deals. Without binding, two ranks may stay on one core while another core
 * idles.
 *
 * The time of a call is the mean over the ranks, as in learning (gcoll/learn/judge.h). The mean follows the
 * time from call to call, which a program pays. The slowest rank's time does not where ranks share cores: the
 * rank that starts first waits until the last one gets a core (docs/decisions.md). All ranks see the same
 * means, so they drop the same candidates without communication.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/call.h"
#include "benchmark/clock.h"
#include "benchmark/tune_race.h"

#define FIRST_CALLS   5
#define SLICE_US      3000.0 /* of a candidate, each round */
#define MOST_CALLS    1000
#define FEWEST_ROUNDS 9     /* before spreads count */
#define FIXED_ROUNDS  9     /* where the number of calls is given, time is no measure */
#define RACE_US       1.5e6 /* of all candidates; beyond it, only the fewest rounds */
#define TEACH_US      3e6
#define TEACH_LEAST   200
#define TIE           1.01
#define LARGE_BYTES   (UINT64_C(256) << 10)
#define SEGMENTED     3 /* of the fastest are tried in segments, too */

/* How far behind the fastest a candidate may be after the first rounds, and how many go on. */
static const struct {
    double behind;
    size_t most;
} cuts[] = {{2.0, 14}, {1.5, 12}, {1.3, 10}, {1.25, 8}};

#define CUTS (sizeof cuts / sizeof cuts[0])

/* ---- Rounds ------------------------------------------------------------------------------------------- */

/* As many as fill a slice of time by what is known of the candidate, the same on every rank. */
static uint32_t calls_of(const bench_options *options, const bench_candidate *c) {
    if (options->iterations > 0)
        return options->iterations;
    if (c->rounds == 0)
        return FIRST_CALLS;
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

/* The median of some calls, each by the mean over the ranks. */
static bool time_call(bench_call *call, uint32_t calls, double *us) {
    bench_state *state = call->state;
    double *times = calloc(calls, sizeof *times);
    bool good = times && bench_call_run(call);
    for (uint32_t i = 0; i < calls && good; i++) {
        good = gcoll_operation_run(state->barrier) == GCOLL_OK;
        const int64_t start = bench_now_ns();
        good = good && bench_call_run(call);
        times[i] = (double)(bench_now_ns() - start) / 1e3;
    }
    good = good && bench_gather(state, times, calls, GCOLL_FLOAT64, GCOLL_AVG);
    if (good)
        *us = median(times, calls);
    free(times);
    return good;
}

bool bench_teach(bench_state *state, gcoll_collective collective, uint64_t bytes, double us) {
    char name[] = "auto";
    const bench_case what = {.collective = collective, .algorithm = name};
    const double fit = TEACH_US / us;
    const uint32_t calls = fit < TEACH_LEAST ? TEACH_LEAST : fit < MOST_CALLS ? (uint32_t)fit : MOST_CALLS;
    bench_call call;
    if (bench_call_create(&call, state, &what, bytes, false) != BENCH_DONE)
        return false;
    bool good = true;
    for (uint32_t i = 0; i < calls && good; i++)
        good = gcoll_operation_run(state->barrier) == GCOLL_OK && bench_call_run(&call);
    bench_call_destroy(&call);
    return good;
}

static bool run_candidate(bench_state *state, bench_candidate *c, uint64_t bytes) {
    bench_call call;
    double sorted[BENCH_MOST_ROUNDS];
    if (c->rounds == BENCH_MOST_ROUNDS)
        return true;
    bench_outcome outcome = bench_call_create(&call, state, &c->what, bytes, false);
    if (outcome != BENCH_DONE) {
        c->alive = false;
        return outcome == BENCH_SKIPPED;
    }
    const uint32_t calls = calls_of(state->options, c);
    bool good = time_call(&call, calls, &c->round_us[c->rounds]);
    (void)snprintf(c->name, sizeof c->name, "%s",
                   gcoll_operation_algorithm(call.operation)); /* of the last run */
    bench_call_destroy(&call);
    if (good) {
        c->spent_us += c->round_us[c->rounds] * (calls + 1); /* the first is not timed */
        c->rounds++;
        memcpy(sorted, c->round_us, c->rounds * sizeof *sorted);
        c->us = median(sorted, c->rounds);
    }
    return good;
}

/* A whole number below `limit` that looks random, the same on every rank. */
static uint32_t draw(uint64_t *state, uint32_t limit) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % limit;
}

/* Where this rank stands when all are shuffled: Fisher and Yates, following this rank alone. */
static uint32_t place_of(uint32_t rank, uint32_t size, uint64_t seed) {
    for (uint32_t last = size - 1; last > 0; last--) {
        const uint32_t other = draw(&seed, last + 1);
        rank = rank == last ? other : rank == other ? last : rank;
    }
    return rank;
}

#ifdef __linux__
/* False: the ranks stay where they are. */
static bool deal(const bench_state *state, uint64_t seed, bench_cores *allowed) {
    if (state->options->local == 0 || sched_getaffinity(0, sizeof *allowed, allowed) != 0)
        return false;
    uint32_t wanted = place_of(state->rank, state->options->size, seed) % (uint32_t)CPU_COUNT(allowed);
    size_t core = 0;
    while (!CPU_ISSET(core, allowed) || wanted-- > 0)
        core++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

static void release(const bench_cores *allowed) {
    (void)sched_setaffinity(0, sizeof *allowed, allowed);
}
#else
static bool deal(const bench_state *state, uint64_t seed, bench_cores *allowed) {
    (void)state;
    (void)allowed;
    return seed == 0;
}

static void release(const bench_cores *allowed) {
    (void)allowed;
}
#endif

void bench_deal(bench_state *state, bench_cores *allowed) {
    state->is_bound = deal(state, ++state->deals, allowed);
    state->is_dealt = true;
}

void bench_release(bench_state *state, const bench_cores *allowed) {
    if (state->is_bound)
        release(allowed);
    state->is_bound = state->is_dealt = false;
}

bool bench_field_round(bench_state *state, bench_field *field, uint64_t bytes, bool backwards) {
    bench_cores allowed;
    const bool stays = state->is_dealt;
    bool good = true;
    if (!stays)
        bench_deal(state, &allowed);
    for (size_t i = 0; i < field->count && good; i++) {
        bench_candidate *c = &field->at[backwards ? field->count - 1 - i : i];
        good = !c->alive || run_candidate(state, c, bytes);
    }
    if (!stays)
        bench_release(state, &allowed);
    return good;
}

double bench_field_spent(const bench_field *field) {
    double us = 0;
    for (size_t i = 0; i < field->count; i++)
        us += field->at[i].spent_us;
    return us;
}

bench_ratio bench_ratio_of(const bench_candidate *a, const bench_candidate *b) {
    double values[BENCH_MOST_ROUNDS];
    const uint32_t count = a->rounds < b->rounds ? a->rounds : b->rounds;
    if (count == 0)
        return (bench_ratio){.median = INFINITY};
    for (uint32_t i = 0; i < count; i++)
        values[i] = b->round_us[i] > 0 ? a->round_us[i] / b->round_us[i] : 1;
    const double middle = median(values, count);
    for (uint32_t i = 0; i < count; i++)
        values[i] = fabs(values[i] - middle);
    /* The median's standard error, from the median deviation: 1.2533 x 1.4826 of it, of normal values. */
    return (bench_ratio){middle, 1.858 * median(values, count) / sqrt(count)};
}

/* ---- The race ----------------------------------------------------------------------------------------- */

static int faster(const void *a, const void *b) {
    const bench_candidate *x = a;
    const bench_candidate *y = b;
    if (x->rounds != y->rounds) /* who went further was faster */
        return (x->rounds < y->rounds) - (x->rounds > y->rounds);
    const double left = x->rounds > 0 ? x->ratio.median : INFINITY;
    const double right = y->rounds > 0 ? y->ratio.median : INFINITY;
    return left != right ? (left > right) - (left < right) : strcmp(x->what.algorithm, y->what.algorithm);
}

/* Sorts the candidates; the leader is first. Of those still in the race, the one with the least median
 * leads, unless another one is faster than that by ratios. */
static void rank(bench_field *field) {
    const bench_candidate *first = NULL;
    for (size_t i = 0; i < field->count; i++) {
        const bench_candidate *c = &field->at[i];
        first = c->alive && c->rounds > 0 && (!first || c->us < first->us) ? c : first;
    }
    for (int pass = 0; pass < 2 && first; pass++) {
        const bench_candidate leader = *first;
        for (size_t i = 0; i < field->count; i++)
            if (field->at[i].alive)
                field->at[i].ratio = bench_ratio_of(&field->at[i], &leader);
        qsort(field->at, field->count, sizeof *field->at, faster);
        first = &field->at[0];
    }
}

/* Drops candidates that are too far behind after this many rounds. Returns whether the race goes on. */
static bool cut(bench_field *field, uint32_t rounds) {
    rank(field);
    bool open = false;
    for (size_t i = 1; i < field->count; i++) {
        bench_candidate *c = &field->at[i];
        if (rounds <= CUTS) {
            c->alive = c->alive && i < cuts[rounds - 1].most && c->ratio.median <= cuts[rounds - 1].behind;
            open = true;
        } else if (rounds >= FEWEST_ROUNDS) {
            c->alive = c->alive && c->ratio.median - 2 * c->ratio.error <= TIE;
            open = open || (c->alive && c->ratio.error > (TIE - 1) / 2);
        } else {
            open = true;
        }
    }
    return open;
}

bool bench_field_add(bench_field *field, gcoll_collective collective, const char *algorithm) {
    bench_candidate *more = realloc(field->at, (field->count + 1) * sizeof *more);
    char *copy = strdup(algorithm);
    field->at = more ? more : field->at;
    if (!more || !copy) {
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
            if (!field->at[i].alive || 2 * values[k] > bytes || strchr(field->at[i].name, '='))
                continue;
            (void)snprintf(text, sizeof text, "%s:segment=%s", field->at[i].name, sizes[k]);
            good = bench_field_add(field, field->at[i].what.collective, text);
        }
    }
    return good;
}

/* Whether another round follows. */
static bool goes_on(const bench_state *state, const bench_field *field, uint32_t rounds, bool open) {
    if (state->options->iterations > 0)
        return rounds < FIXED_ROUNDS;
    return rounds < FEWEST_ROUNDS ||
           (open && rounds < BENCH_MOST_ROUNDS && bench_field_spent(field) < RACE_US);
}

/* At most: a race may end early. */
static double part_of(const bench_state *state, const bench_field *field, uint32_t rounds) {
    const double by_time = bench_field_spent(field) / RACE_US;
    const double by_rounds =
        (double)rounds / (state->options->iterations > 0 ? FIXED_ROUNDS : BENCH_MOST_ROUNDS);
    return by_time > by_rounds ? by_time : by_rounds;
}

bool bench_field_race(bench_state *state, bench_field *field, uint64_t bytes, double share) {
    bool good = bench_field_round(state, field, bytes, false);
    const size_t whole = field->count;
    bool open = true;
    if (good)
        (void)cut(field, 1);
    if (good && bytes > LARGE_BYTES) {
        good = add_segments(field, bytes);
        bench_field latecomers = {field->at + whole, field->count - whole};
        good = good && bench_field_round(state, &latecomers, bytes, false);
        (void)cut(field, 1);
    }
    for (uint32_t rounds = 1; good && goes_on(state, field, rounds, open);) {
        good = bench_field_round(state, field, bytes, rounds % 2 != 0);
        open = cut(field, ++rounds);
        bench_point_progress(state, share * fmin(part_of(state, field, rounds), 1));
    }
    return good;
}

void bench_field_free(bench_field *field) {
    for (size_t i = 0; i < field->count; i++)
        free(field->at[i].what.algorithm);
    free(field->at);
    *field = (bench_field){0};
}
