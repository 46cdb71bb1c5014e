/* benchmark/tune_race.h - candidates of a collective at one size, and which of them is fastest. */
#ifndef GCOLL_BENCH_TUNE_RACE_H
#define GCOLL_BENCH_TUNE_RACE_H

#include <sched.h>

#include "benchmark/state.h"

#define BENCH_MOST_ROUNDS 75

/* Of two candidates: the median over rounds of one's time over the other's, and its standard error. */
typedef struct bench_ratio {
    double median, error;
} bench_ratio;

/* An algorithm with its options at one size, and how it did. */
typedef struct bench_candidate {
    bench_case what;
    char name[128]; /* as the library names it, with what auto or cost has chosen; "" until it has run */
    double round_us[BENCH_MOST_ROUNDS];
    uint32_t rounds;
    double us;         /* the median of its rounds */
    double spent_us;   /* in all of them */
    bench_ratio ratio; /* to the first of its field */
    bool alive;        /* else it does not apply, or others are faster */
} bench_candidate;

typedef struct bench_field {
    bench_candidate *at;
    size_t count;
} bench_field;

/* Cores that this process may run on. */
#ifdef __linux__
typedef cpu_set_t bench_cores;
#else
typedef int bench_cores;
#endif
/* Deals the ranks of a local job out to the cores, evenly and at random, and binds them there until
 * bench_release; rounds in between do not deal. Does nothing for ranks that were started one by one. */
void bench_deal(bench_state *state, bench_cores *allowed);
void bench_release(bench_state *state, const bench_cores *allowed);
/* One round: all candidates that are alive, one after the other, some calls each. False has been said. */
bool bench_field_round(bench_state *state, bench_field *field, uint64_t bytes, bool backwards);
/* Rounds with fewer and fewer, until those that are left are told apart or time is up. The fastest comes
 * first, those that do not apply last. To the terminal it is `share` of a collective at a size. */
bool bench_field_race(bench_state *state, bench_field *field, uint64_t bytes, double share);
/* Calls that auto may learn from before it is measured: as many as a program makes in a few seconds. us:
 * about what one takes. */
bool bench_teach(bench_state *state, gcoll_collective collective, uint64_t bytes, double us);
bool bench_field_add(bench_field *field, gcoll_collective collective, const char *algorithm);
void bench_field_free(bench_field *field);
/* What the calls of all candidates took until now, the same on every rank. */
double bench_field_spent(const bench_field *field);
/* Over the rounds that both have run. */
bench_ratio bench_ratio_of(const bench_candidate *a, const bench_candidate *b);

#endif
