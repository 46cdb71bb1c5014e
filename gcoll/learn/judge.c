/*
 * gcoll/learn/judge.c - the rules of judge.h.
 *
 * Trials may cost 16 usual calls more than the usual algorithm, 1.6 % of the first 1,000 calls. Candidates
 * are screened in groups, in the order of their predicted times, so that a surprise costs one group at most.
 * What is not measured yet is expected to be as surprising as what was. Variants of the fastest come last. If
 * calls have become slower, few groups are screened, as an answer is wanted soon. Those within 30 % of the
 * best are then compared in turns with `home`, the one that is kept so far, until it is clear which is
 * faster, or the error is small. A difference is clear by 2.5 standard errors; or, as a slow algorithm on a
 * busy machine has errors as large as its time, if nearly all calls of `home` are slower than the other's (a
 * rank sum test). The loser is out, and the winner is compared with those that are left and may be faster
 * still. `home` is given up only for a difference of 2 %. An error is not less than the calls of all
 * candidates tell, in all comparisons: a few calls of one may be close to one another by chance.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/learn/judge.h"

#define WARM_CALLS 8
#define WARM_BURST 3 /* of these the first calls make plans and connections */
/* Ranks that block are in one call, or in two that follow one another, so a few calls are enough. A lesson
 * that watches short calls has a longer lag: what it costs to wait for the next one comes again and again. */
#define SHORT_LAG    6
#define SHORT_NS     100e3
#define SHORTEST_LAG 3 /* of calls that take LONG_NS: while one lasts, a lesson reaches all ranks */
#define LONG_NS      1e6

#define BUDGET         16.0 /* usual calls */
#define MOST_PREDICTED 3.0  /* nothing is tried that is thought to be slower by this factor */
#define SCREENED       3    /* candidates a lesson, with `home` */
#define SCREEN_BURST   3
#define SCREENINGS     4 /* such lessons, at most, where calls have become slower: an answer is wanted soon */
#define VARIED         3 /* of so many of the fastest, variants are screened */
#define COMPARED       3
#define COMPARE_BURST  4
#define COMPARE_ROUNDS 4
#define ADDED_ROUNDS   2    /* where one is compared that was left over from earlier comparisons */
#define COMPARE_TIMES  10   /* lessons, at most */
#define CLOSE          1.3  /* what is compared is within this factor of the best */
#define GAIN           0.02 /* the least difference that is worth a change, and an error that is small */
#define CLEAR          2.5  /* in standard errors. Larger errors than this part of a time ask for */
#define NOISY          0.05 /* a second comparison */

#define APART 3.0 /* in standard errors of the rank sum */

/* From a median deviation to the standard error of the mean of the middle half of one value. */
#define SPREAD (1.09 * 1.483)

/* A lesson that only watches: so many calls, or this time. */
#define WATCH_LEAST    16
#define WATCH_MOST     4096
#define WATCH_NS       10e6
#define WATCH_SAMPLES  16
#define TOLERANCE      1.3
#define TOLERANCE_MOST 4.0
/* Calls after which times may be found to have changed; a change by LARGE is heeded at once, and already if
 * the later half of a lesson shows it. */
#define HOLD  200
#define LARGE 2.0
/* Calls after which all begins anew though nothing has changed: what was not clear may be so now. Twice as
 * many each time.
 */
#define AGAIN      1000
#define AGAIN_MOST (UINT64_C(1) << 30)

static uint32_t bits_of(uint32_t set) {
    return (uint32_t)__builtin_popcount(set);
}

/* The number of the k-th bit that is set. */
static uint32_t bit_at(uint32_t set, uint32_t k) {
    while (k-- > 0)
        set &= set - 1;
    return (uint32_t)__builtin_ctz(set);
}

/* ---- Lessons -------------------------------------------------------------------------------- */

/* The place of a call's burst in its round; odd rounds go backwards, so that what changes steadily cancels.
 */
static uint32_t turn_of(const gcoll_lesson *lesson, uint32_t at) {
    const uint32_t count = bits_of(lesson->tried), burst = at / lesson->burst;
    const uint32_t turn = burst % count;
    return burst / count % 2 ? count - 1 - turn : turn;
}

static bool is_in(const gcoll_lesson *lesson, uint64_t call) {
    return call >= lesson->begin && call - lesson->begin < lesson->calls;
}

uint32_t gcoll_lesson_candidate(const gcoll_lesson *lesson, uint64_t call) {
    if (lesson->tried == 0 || !is_in(lesson, call))
        return lesson->usual;
    return bit_at(lesson->tried, turn_of(lesson, (uint32_t)(call - lesson->begin)));
}

/* Calls from one that is counted to the next, of a lesson that tries nothing. */
static uint32_t stride_of(const gcoll_lesson *lesson) {
    return (lesson->calls + WATCH_SAMPLES - 1) / WATCH_SAMPLES;
}

uint32_t gcoll_lesson_samples(const gcoll_lesson *lesson) {
    if (lesson->tried == 0)
        return lesson->calls / stride_of(lesson);
    return bits_of(lesson->tried) * lesson->rounds * (lesson->burst - 1);
}

uint32_t gcoll_lesson_sample(const gcoll_lesson *lesson, uint64_t call) {
    if (!is_in(lesson, call))
        return GCOLL_LEARN_NONE;
    const uint32_t at = (uint32_t)(call - lesson->begin);
    if (lesson->tried == 0) {
        const uint32_t stride = stride_of(lesson), place = at / stride;
        return at % stride == stride - 1 && place < gcoll_lesson_samples(lesson) ? place : GCOLL_LEARN_NONE;
    }
    const uint32_t in_burst = at % lesson->burst;
    return in_burst == 0 ? GCOLL_LEARN_NONE : at / lesson->burst * (lesson->burst - 1) + in_burst - 1;
}

uint64_t gcoll_lesson_next_sample(const gcoll_lesson *lesson, uint64_t call) {
    const uint32_t stride = stride_of(lesson);
    const uint64_t at = call > lesson->begin ? call - lesson->begin : 0, place = at / stride;
    return place < gcoll_lesson_samples(lesson) ? lesson->begin + (place + 1) * stride - 1 : UINT64_MAX;
}

bool gcoll_lesson_is_valid(const gcoll_lesson *lesson, uint32_t candidates) {
    if (lesson->usual >= candidates || lesson->tried >> candidates != 0 || lesson->lag == 0 ||
        lesson->lag > GCOLL_LEARN_LONG_LAG || lesson->calls == 0 || lesson->calls > WATCH_MOST)
        return false;
    if (lesson->tried == 0)
        return true;
    return lesson->burst >= 2 && lesson->burst <= GCOLL_LEARN_SAMPLES && lesson->rounds >= 1 &&
           lesson->rounds <= GCOLL_LEARN_SAMPLES && gcoll_lesson_samples(lesson) <= GCOLL_LEARN_SAMPLES &&
           lesson->calls == bits_of(lesson->tried) * lesson->rounds * lesson->burst;
}

gcoll_lesson gcoll_lesson_first(void) {
    return (gcoll_lesson){.begin = 1, .calls = WARM_CALLS, .lag = GCOLL_LEARN_LONG_LAG};
}

/* ---- Measured times ------------------------------------------------------------------------- */

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, uint32_t count) {
    qsort(values, count, sizeof *values, by_size);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The mean of the middle half of some values, and its standard error by their median deviation. Leaves the
 * deviations in the place of the values. */
static double typical(double *values, uint32_t count, double *error) {
    const double middle = median(values, count); /* sorts them */
    const uint32_t quarter = (count + 1) / 4;    /* of three the middle one is left */
    double sum = 0;
    for (uint32_t i = quarter; i < count - quarter; i++)
        sum += values[i];
    for (uint32_t i = 0; i < count; i++)
        values[i] = fabs(values[i] - middle);
    *error = SPREAD * median(values, count) / sqrt(count);
    return sum / (count - 2 * quarter);
}

/* The samples of a candidate in a lesson. */
static uint32_t collect(const gcoll_lesson *lesson, const double *samples, uint32_t candidate,
                        double *values) {
    uint32_t count = 0;
    for (uint64_t call = lesson->begin; call < lesson->begin + lesson->calls; call++) {
        const uint32_t at = gcoll_lesson_sample(lesson, call);
        if (at != GCOLL_LEARN_NONE && gcoll_lesson_candidate(lesson, call) == candidate)
            values[count++] = samples[at];
    }
    return count;
}

static double least(const double *values, uint32_t count) {
    double found = values[0];
    for (uint32_t i = 1; i < count; i++)
        found = fmin(found, values[i]);
    return found;
}

/* What a call of `home` takes, as far as that is known. */
static double home_ns(const gcoll_judge *judge) {
    const gcoll_judged *home = &judge->candidates[judge->home];
    return home->error_ns > 0 ? fmin(home->ns, judge->usual_ns) : judge->usual_ns;
}

/* What the calls of a lesson have cost beyond the time of `home`. */
static void charge(gcoll_judge *judge, const gcoll_lesson *lesson, double ns) {
    const double calls = (double)lesson->burst * lesson->rounds;
    judge->spent_ns += calls * fmax(ns - home_ns(judge), 0);
}

/* ---- What comes next ------------------------------------------------------------------------ */

static uint32_t trial_lag(const gcoll_judge *judge) {
    return judge->usual_ns < LONG_NS ? SHORT_LAG : SHORTEST_LAG;
}

static gcoll_lesson after(const gcoll_judge *judge, const gcoll_lesson *ended) {
    return (gcoll_lesson){.begin = gcoll_lesson_end(ended),
                          .number = ended->number + 1,
                          .usual = ended->usual,
                          .lag = trial_lag(judge)};
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Of a lesson that watches calls that take so long. */
static uint32_t watch_lag(double ns) {
    return ns < SHORT_NS ? GCOLL_LEARN_LONG_LAG : SHORT_LAG;
}

static void settle(gcoll_judge *judge, uint32_t kept, gcoll_lesson *next) {
    judge->state = GCOLL_JUDGE_SETTLED;
    judge->kept_ns = judge->candidates[kept].ns;
    next->lag = watch_lag(judge->kept_ns > 0 ? judge->kept_ns : judge->usual_ns);
    judge->home = next->usual = kept;
    judge->settled_at = next->begin;
    judge->usual_ns = 0; /* measured by the first watch */
    next->calls = WATCH_LEAST;
}

/* The least of something over the candidates. */
static double least_of(const gcoll_judge *judge, double (*of)(const gcoll_judged *)) {
    double found = of(&judge->candidates[0]);
    for (uint32_t i = 1; i < judge->count; i++)
        found = fmin(found, of(&judge->candidates[i]));
    return found;
}

static double predicted_of(const gcoll_judged *one) {
    return one->predicted;
}

static double sent_of(const gcoll_judged *one) {
    return one->sent;
}

/* How many times as long as the best a candidate is thought to take, at least. The costs of the model are
 * from the beginning. If calls take longer now, they may be wrong; then a candidate may also be good because
 * it sends few bytes. */
static double weight(const gcoll_judge *judge, uint32_t candidate) {
    const gcoll_judged *one = &judge->candidates[candidate];
    const double by_time = one->predicted / least_of(judge, predicted_of);
    const double fewest = judge->is_slower ? least_of(judge, sent_of) : 0;
    return fewest > 0 ? fmin(by_time, one->sent / fewest) : by_time;
}

/* By what factor those that were measured are slower than they were thought to be, beside `home`; at least 1.
 */
static double surprise(const gcoll_judge *judge) {
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < judge->count; i++) {
        const double ns = judge->candidates[i].ns;
        if (i == judge->home || ns <= 0 || judge->candidates[i].variant != GCOLL_LEARN_NONE)
            continue;
        sum += log(ns / home_ns(judge) * weight(judge, judge->home) / weight(judge, i));
        count++;
    }
    return count > 0 ? larger(exp(sum / count), 1) : 1;
}

/* What a call of a candidate is expected to cost beyond a usual one. */
static double expected_ns(const gcoll_judge *judge, uint32_t candidate) {
    const gcoll_judged *one = &judge->candidates[candidate];
    const double ns =
        one->variant != GCOLL_LEARN_NONE && one->ns <= 0 ? judge->candidates[one->variant].ns : one->ns;
    if (ns > 0)
        return larger(ns - home_ns(judge), 0);
    const double ratio = surprise(judge) * weight(judge, candidate) / weight(judge, judge->home);
    return home_ns(judge) * larger(ratio - 1, 0);
}

static double budget_ns(const gcoll_judge *judge) {
    return BUDGET * home_ns(judge) - judge->spent_ns;
}

static bool compare(gcoll_judge *judge, gcoll_lesson *next);

/* Whether a candidate is among the fastest, so that variants of it are worth trying. */
static bool is_varied(const gcoll_judge *judge, uint32_t candidate) {
    const double ns = judge->candidates[candidate].ns;
    uint32_t faster = 0;
    for (uint32_t i = 0; i < judge->count; i++) {
        const gcoll_judged *one = &judge->candidates[i];
        faster += one->variant == GCOLL_LEARN_NONE && one->ns > 0 && one->ns < ns;
    }
    return ns > 0 && faster < VARIED;
}

/* The most promising candidate that is neither in the set nor out nor measured; GCOLL_LEARN_NONE: there is
 * none. Variants come after all others. */
static uint32_t promising(const gcoll_judge *judge, uint32_t set) {
    uint32_t found = GCOLL_LEARN_NONE, variant = GCOLL_LEARN_NONE;
    bool are_others = false; /* some that are no variants have no time yet */
    double least_ns = 0;
    for (uint32_t i = 0; i < judge->count; i++) {
        const gcoll_judged *one = &judge->candidates[i];
        const bool is_free = !(set >> i & 1);
        if (one->ns > 0 || one->is_out)
            continue;
        are_others = are_others || one->variant == GCOLL_LEARN_NONE;
        if (one->variant == GCOLL_LEARN_NONE && is_free &&
            (found == GCOLL_LEARN_NONE || weight(judge, i) < weight(judge, found)))
            found = i;
        if (one->variant != GCOLL_LEARN_NONE && is_free && is_varied(judge, one->variant) &&
            (variant == GCOLL_LEARN_NONE || judge->candidates[one->variant].ns < least_ns)) {
            variant = i;
            least_ns = judge->candidates[one->variant].ns;
        }
    }
    return are_others ? found : variant;
}

/* The fastest candidate that is not in the set; GCOLL_LEARN_NONE: there is none within `limit_ns`. */
static uint32_t fastest(const gcoll_judge *judge, uint32_t set, double limit_ns) {
    uint32_t found = GCOLL_LEARN_NONE;
    for (uint32_t i = 0; i < judge->count; i++) {
        const gcoll_judged *one = &judge->candidates[i];
        if (!(set >> i & 1) && !one->is_out && one->ns > 0 && one->ns <= limit_ns) {
            limit_ns = one->ns;
            found = i;
        }
    }
    return found;
}

/* What calls take that try nothing, until it is decided: `home`, or the best one if that is far from it. */
static uint32_t meanwhile(const gcoll_judge *judge) {
    const double ns = judge->candidates[judge->home].ns;
    const uint32_t best = fastest(judge, 0, INFINITY);
    return best != GCOLL_LEARN_NONE && ns > CLOSE * judge->candidates[best].ns ? best : judge->home;
}

/* The next group of candidates to be screened, with `home`; if there is none, those that are left are
 * compared.
 */
static void screen(gcoll_judge *judge, gcoll_lesson *next) {
    double expected = 0;
    uint32_t set = 1U << judge->home, count = 1, i;
    judge->state = GCOLL_JUDGE_SCREEN;
    /* If calls have become slower, an answer is wanted soon. Else the least of two times decides nothing. */
    next->usual = judge->is_slower ? meanwhile(judge) : judge->home;
    const bool is_enough = judge->is_urgent && judge->screenings == SCREENINGS;
    while (!is_enough && count < SCREENED && (i = promising(judge, set)) != GCOLL_LEARN_NONE) {
        const double cost = SCREEN_BURST * expected_ns(judge, i);
        if (weight(judge, i) > MOST_PREDICTED || expected + cost > budget_ns(judge)) {
            judge->candidates[i].is_out = true;
            continue;
        }
        expected += cost;
        set |= 1U << i;
        count++;
    }
    if (count == 1) {
        /* If calls have become slower, what trials may cost is not well known, and something better is
         * wanted. */
        if (!compare(judge, next))
            settle(judge, judge->is_slower ? meanwhile(judge) : judge->home, next);
        return;
    }
    judge->screenings++;
    next->tried = set;
    next->burst = SCREEN_BURST;
    next->rounds = 1;
    next->calls = count * SCREEN_BURST;
}

/* The best candidates that are close to one another, with `home`. False: there is nothing to compare, or it
 * would cost too much. */
static bool compare(gcoll_judge *judge, gcoll_lesson *next) {
    const uint32_t home = judge->home, best = fastest(judge, 0, INFINITY);
    if (best == GCOLL_LEARN_NONE || judge->comparisons == COMPARE_TIMES)
        return false;
    const double close_ns = CLOSE * judge->candidates[best].ns;
    const uint32_t usual = meanwhile(judge);
    uint32_t set = 1U << home | 1U << usual, count = bits_of(set), rounds = COMPARE_ROUNDS;
    for (uint32_t found; count < COMPARED && (found = fastest(judge, set, close_ns)) != GCOLL_LEARN_NONE;
         count++)
        set |= 1U << found;
    double cost = 0;
    for (uint32_t i = 0; i < judge->count; i++) {
        if (!(set >> i & 1))
            continue;
        cost += COMPARE_BURST * expected_ns(judge, i);
        /* What it takes is not well known. */
        if (judge->comparisons > 0 && i != home && judge->candidates[i].compared == 0)
            rounds = ADDED_ROUNDS;
    }
    while (rounds > 1 && cost * rounds > budget_ns(judge))
        rounds--;
    if (count == 1 || cost * rounds > budget_ns(judge))
        return false;
    judge->state = GCOLL_JUDGE_COMPARE;
    judge->comparisons++;
    next->usual = usual;
    next->tried = set;
    next->burst = COMPARE_BURST;
    next->rounds = rounds;
    next->calls = count * COMPARE_BURST * rounds;
    return true;
}

static void note_screened(gcoll_judge *judge, const gcoll_lesson *ended, const double *samples) {
    double values[GCOLL_LEARN_SAMPLES];
    for (uint32_t i = 0; i < judge->count; i++) {
        const uint32_t count = collect(ended, samples, i, values);
        if (count == 0)
            continue;
        /* The least time is the one that other work has not disturbed; but on slow links it may be that of a
         * call whose messages a buffer took. */
        const double ns = judge->is_slower ? median(values, count) : least(values, count);
        gcoll_judged *one = &judge->candidates[i];
        one->ns = one->last_ns = one->ns > 0 ? fmin(one->ns, ns) : ns;
        if (i != judge->home)
            charge(judge, ended, ns);
    }
}

/* Adds to the rank sum test of Mann and Whitney: in how many pairs of calls a candidate is faster than
 * `home`, and the variance of that number if both are alike. */
static void add_pairs(gcoll_judged *one, const double *values, uint32_t count, const double *home,
                      uint32_t home_count) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < home_count; j++)
            one->wins += values[i] < home[j] ? 1 : values[i] > home[j] ? 0 : 0.5;
    const double pairs = (double)count * home_count;
    one->pairs += pairs;
    one->variance += pairs * (count + home_count + 1) / 12;
}

static bool is_apart(const gcoll_judged *one) {
    return one->variance > 0 && one->wins - one->pairs / 2 >= APART * sqrt(one->variance);
}

/* Adds what a close comparison has found to what earlier ones have. */
static void note_compared(gcoll_judge *judge, const gcoll_lesson *ended, const double *samples) {
    double values[GCOLL_LEARN_SAMPLES], home[GCOLL_LEARN_SAMPLES], apart[GCOLL_LEARN_SAMPLES];
    double took_ns[GCOLL_LEARN_CANDIDATES], errors[GCOLL_LEARN_CANDIDATES];
    uint32_t counts[GCOLL_LEARN_CANDIDATES], all = 0;
    const uint32_t home_count = collect(ended, samples, judge->home, home);
    for (uint32_t i = 0; i < judge->count; i++) {
        counts[i] = collect(ended, samples, i, values);
        if (counts[i] == 0)
            continue;
        add_pairs(&judge->candidates[i], values, counts[i], home, home_count);
        took_ns[i] = typical(values, counts[i], &errors[i]);
        for (uint32_t k = 0; k < counts[i]; k++)
            apart[all++] = values[k] / larger(took_ns[i], 1); /* typical has left them so */
    }
    /* A few calls of one may be close to one another by chance: those of all, and of all comparisons, tell
     * more. */
    judge->spread = (judge->spread * judge->spread_calls + SPREAD * median(apart, all) * all) /
                    (judge->spread_calls + all);
    judge->spread_calls += all;
    for (uint32_t i = 0; i < judge->count; i++) {
        if (counts[i] == 0)
            continue;
        gcoll_judged *one = &judge->candidates[i];
        const double error = larger(errors[i], judge->spread * took_ns[i] / sqrt(counts[i]));
        const double before = one->compared++ > 0 ? one->calls : 0;
        one->calls = before + counts[i];
        one->ns = one->last_ns = (one->ns * before + took_ns[i] * counts[i]) / one->calls;
        one->error_ns = hypot(one->error_ns * before, error * counts[i]) / one->calls;
    }
    for (uint32_t i = 0; i < judge->count; i++)
        if (i != judge->home && counts[i] > 0)
            charge(judge, ended, took_ns[i]);
}

/* One of those that were compared is kept, and the others are out. Those that were not compared yet, and may
 * be faster still, are compared with it next. */
static void keep(gcoll_judge *judge, uint32_t kept, gcoll_lesson *next) {
    for (uint32_t i = 0; i < judge->count; i++) {
        gcoll_judged *one = &judge->candidates[i];
        one->is_out = one->is_out || (one->compared > 0 && i != kept);
        one->wins = one->pairs = one->variance = 0;
    }
    if (kept != judge->home)
        judge->usual_ns = judge->candidates[kept].ns;
    judge->home = kept;
    judge->candidates[kept].compared = 0; /* with the next ones in turn, as times drift */
    if (fastest(judge, 1U << kept, judge->candidates[kept].ns) == GCOLL_LEARN_NONE || !compare(judge, next))
        settle(judge, kept, next);
}

/* Keeps the fastest of those that were compared, unless that is to be compared with `home` once more. */
static void conclude(gcoll_judge *judge, gcoll_lesson *next) {
    const gcoll_judged *home = &judge->candidates[judge->home], *rival = home;
    for (uint32_t i = 0; i < judge->count; i++) {
        const gcoll_judged *one = &judge->candidates[i];
        if (one != home && one->compared > 0 && !one->is_out && (rival == home || one->ns < rival->ns))
            rival = one;
    }
    const double gain = home->ns - rival->ns, error = hypot(home->error_ns, rival->error_ns);
    /* A single comparison that errs by little may do so by chance. */
    const double known = rival->compared > 1 ? GAIN : GAIN / 2;
    const bool is_sure = rival->compared > 1 || error < NOISY * home->ns;
    const bool is_clear = (fabs(gain) >= CLEAR * error && is_sure) || is_apart(rival);
    const bool is_known = is_clear || error < known * home->ns || judge->comparisons == COMPARE_TIMES;
    if (!is_known && compare(judge, next))
        return;
    /* What is not clear after all is decided by the means, if they differ by more than their error; and if
     * trials ended as they cost too much, only where calls have become slower. */
    const bool is_likely = (is_known || judge->is_slower) && gain >= error;
    const bool is_faster = gain >= GAIN * home->ns && (is_clear || is_likely);
    keep(judge, is_faster ? (uint32_t)(rival - judge->candidates) : judge->home, next);
}

/* Decides no more by what was measured. */
static void search(gcoll_judge *judge, double usual_ns, gcoll_lesson *next) {
    for (uint32_t i = 0; i < judge->count; i++) {
        const gcoll_judged *one = &judge->candidates[i];
        judge->candidates[i] = (gcoll_judged){
            .predicted = one->predicted, .sent = one->sent, .variant = one->variant, .last_ns = one->last_ns};
    }
    judge->usual_ns = usual_ns;
    next->lag = trial_lag(judge);
    judge->spent_ns = 0;
    judge->screenings = judge->comparisons = judge->spread_calls = 0;
    judge->spread = 0;
    screen(judge, next);
}

/* Whether the usual time is another one now, by the tolerance and this factor. */
static bool has_changed(const gcoll_judge *judge, double ns, double factor) {
    const double limit = judge->tolerance * factor;
    return ns > limit * judge->usual_ns || ns * limit < judge->usual_ns;
}

/* values: samples of `home` in the course of which times have changed, to the median `ns`. */
static void search_anew(gcoll_judge *judge, double *values, uint32_t count, double ns, gcoll_lesson *next) {
    const uint32_t quarter = count / 4;
    /* Times that change often are no reason to try so often. */
    judge->tolerance = fmin(judge->tolerance * judge->tolerance, TOLERANCE_MOST);
    judge->is_slower = judge->is_urgent = ns > judge->usual_ns;
    qsort(values, count, sizeof *values, by_size); /* some are from before the change */
    search(judge, values[judge->is_slower ? count - 1 - quarter : quarter], next);
}

/* Whether times have changed since algorithms are tried, so that what was measured before and after cannot be
 * compared. Then that is forgotten. */
static bool starts_over(gcoll_judge *judge, const gcoll_lesson *ended, const double *samples,
                        gcoll_lesson *next) {
    double values[GCOLL_LEARN_SAMPLES];
    const uint32_t count = collect(ended, samples, judge->home, values);
    const double ns = median(values, count);
    /* If calls have become slower, they may become slower still, as where one link after another does. */
    const bool is_slower_still = judge->is_slower && ns > LARGE * judge->usual_ns;
    if (!is_slower_still && !has_changed(judge, ns, LARGE))
        return false;
    search_anew(judge, values, count, ns, next);
    return true;
}

static void watch(gcoll_judge *judge, const gcoll_lesson *ended, const double *samples, gcoll_lesson *next) {
    double values[GCOLL_LEARN_SAMPLES], late[GCOLL_LEARN_SAMPLES];
    const uint32_t count = collect(ended, samples, ended->usual, values), late_count = count / 2;
    memcpy(late, values + count - late_count, late_count * sizeof *late);
    const double ns = median(values, count), late_ns = median(late, late_count);
    const bool is_held = ended->begin < judge->settled_at + HOLD, is_first = judge->usual_ns <= 0;
    if (is_first) /* times may have changed while algorithms were tried */
        judge->usual_ns = judge->kept_ns > 0 ? judge->kept_ns : ns;
    if (has_changed(judge, late_ns, LARGE)) {
        search_anew(judge, late, late_count, late_ns, next);
        return;
    }
    if (has_changed(judge, ns, is_held ? LARGE : 1)) {
        search_anew(judge, values, count, ns, next);
        return;
    }
    if (ended->begin >= judge->settled_at + judge->again) {
        judge->again = judge->again < AGAIN_MOST ? 2 * judge->again : AGAIN_MOST;
        judge->is_urgent = false;
        search(judge, ns, next);
        return;
    }
    if (is_first)
        judge->usual_ns = ns;
    const double calls = WATCH_NS / larger(ns, 1);
    next->calls = calls < WATCH_LEAST ? WATCH_LEAST : calls > WATCH_MOST ? WATCH_MOST : (uint32_t)calls;
    next->calls -= next->calls % WATCH_SAMPLES; /* else some strides have no sample */
    next->lag = watch_lag(ns);
}

void gcoll_judge_begin(gcoll_judge *judge, const double *predicted, const double *sent,
                       const uint32_t *variants, uint32_t count) {
    memset(judge, 0, sizeof *judge);
    judge->count = count;
    judge->tolerance = TOLERANCE;
    judge->again = AGAIN;
    for (uint32_t i = 0; i < count; i++)
        judge->candidates[i] = (gcoll_judged){.predicted = predicted[i],
                                              .sent = sent ? sent[i] : 0,
                                              .variant = variants ? variants[i] : GCOLL_LEARN_NONE};
}

gcoll_lesson gcoll_judge_next(gcoll_judge *judge, const gcoll_lesson *ended, const double *samples) {
    gcoll_lesson next = after(judge, ended);
    switch (judge->state) {
    case GCOLL_JUDGE_WARM: {
        double values[GCOLL_LEARN_SAMPLES], error;
        const uint32_t count = gcoll_lesson_samples(ended);
        memcpy(values, samples, count * sizeof *values);
        const uint32_t cold = count > WARM_BURST ? WARM_BURST : 0;
        search(judge, typical(values + cold, count - cold, &error), &next);
        break;
    }
    case GCOLL_JUDGE_SCREEN:
        if (starts_over(judge, ended, samples, &next))
            break;
        note_screened(judge, ended, samples);
        screen(judge, &next);
        break;
    case GCOLL_JUDGE_COMPARE:
        if (starts_over(judge, ended, samples, &next))
            break;
        note_compared(judge, ended, samples);
        conclude(judge, &next);
        break;
    case GCOLL_JUDGE_SETTLED:
        watch(judge, ended, samples, &next);
        break;
    }
    return next;
}
