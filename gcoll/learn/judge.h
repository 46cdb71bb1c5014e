/*
 * gcoll/learn/judge.h - decides which algorithms the calls of one kind try, and which of them is kept.
 *
 * Pure decisions by call numbers and measured times, without clock, message or context, so that they can be
 * tested by simulation. A lesson says what a number of calls do. All ranks have the same lesson, so they all
 * take the same algorithm in the same call. When its calls have ended, rank 0 gets the time of each counted
 * call, averaged over the ranks, and decides the next lesson. That begins `lag` calls later, by which time
 * all ranks should know it.
 */
#ifndef GCOLL_LEARN_JUDGE_H
#define GCOLL_LEARN_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

/* Algorithms that are compared for one kind of call. The first is the choice of the model or of the tuning
 * file. Behind them come variants of them, of which those of the fastest are compared. */
#define GCOLL_LEARN_ALGORITHMS 14
#define GCOLL_LEARN_CANDIDATES (2 * GCOLL_LEARN_ALGORITHMS)
/* Counted calls of one lesson. */
#define GCOLL_LEARN_SAMPLES 48
#define GCOLL_LEARN_NONE    UINT32_MAX
/* Calls from the end of a lesson to the next one, at most. */
#define GCOLL_LEARN_LONG_LAG 24

/* What calls do. Fields that come from a peer are checked by gcoll_lesson_is_valid. */
typedef struct gcoll_lesson {
    uint64_t begin;  /* the first call, counted from 1 */
    uint32_t number; /* counted from 0 */
    uint32_t usual;  /* the candidate of all calls that try nothing: `home`, or meanwhile a far better one */
    uint32_t tried;  /* a bit for each candidate that is tried, in turn; 0: none */
    uint32_t burst;  /* calls of one candidate after another: the first warms up, the others are counted */
    uint32_t rounds; /* bursts of each candidate */
    uint32_t calls;  /* of the lesson */
    uint32_t lag;    /* calls from its end to the next lesson */
} gcoll_lesson;

/* Which candidate a call takes; also for calls between two lessons. */
uint32_t gcoll_lesson_candidate(const gcoll_lesson *lesson, uint64_t call);
/* The place of a call among the counted ones; GCOLL_LEARN_NONE: it is not counted. */
uint32_t gcoll_lesson_sample(const gcoll_lesson *lesson, uint64_t call);
/* Of a lesson that tries nothing: the first call from `call` on that is counted; UINT64_MAX: there is none.
 */
uint64_t gcoll_lesson_next_sample(const gcoll_lesson *lesson, uint64_t call);
/* How many calls are counted: 1 to GCOLL_LEARN_SAMPLES. */
uint32_t gcoll_lesson_samples(const gcoll_lesson *lesson);
/* The first call of the next lesson. */
static inline uint64_t gcoll_lesson_end(const gcoll_lesson *lesson) {
    return lesson->begin + lesson->calls + lesson->lag;
}
bool gcoll_lesson_is_valid(const gcoll_lesson *lesson, uint32_t candidates);
/* The lesson that all ranks begin with: nothing is tried, and the usual time is measured. */
gcoll_lesson gcoll_lesson_first(void);

typedef enum gcoll_judge_state {
    GCOLL_JUDGE_WARM,    /* the usual time is not known */
    GCOLL_JUDGE_SCREEN,  /* each candidate is tried a few times, the most promising first */
    GCOLL_JUDGE_COMPARE, /* those that are left are compared closely */
    GCOLL_JUDGE_SETTLED  /* calls are watched: if their time changes, all begins anew */
} gcoll_judge_state;

/* What rank 0 knows of one candidate. */
typedef struct gcoll_judged {
    double predicted;  /* seconds, by the cost model */
    double sent;       /* bytes of the busiest rank; 0: not known */
    uint32_t variant;  /* the candidate that this one is a variant of; GCOLL_LEARN_NONE: none */
    double ns;         /* measured; 0: not yet */
    double error_ns;   /* standard error; 0: not compared closely yet, or all times were the same */
    double last_ns;    /* the latest measurement, also of trials before the times changed; 0: there is none */
    uint32_t compared; /* lessons in which it was compared closely with the present `home` */
    double calls;      /* that were counted in them */
    double wins, pairs, variance; /* against `home`, call by call: see judge.c */
    bool is_out;                  /* not tried again until trying begins anew */
} gcoll_judged;

typedef struct gcoll_judge {
    gcoll_judge_state state;
    uint32_t count;
    uint32_t home; /* the candidate that is kept, unless another one is clearly faster */
    gcoll_judged candidates[GCOLL_LEARN_CANDIDATES];
    bool is_slower;  /* times have risen since the costs of the model were measured */
    bool is_urgent;  /* trying began as times had risen: an answer is wanted soon */
    double usual_ns; /* the time of `home` when trying began, when it became `home`, or when it was settled */
    double kept_ns;  /* what `home` took in the trials that ended last; 0: nothing is known */
    double spent_ns; /* what trials have cost since they began, beyond calls of `home` */
    uint32_t screenings;   /* lessons that screened, since trying began */
    uint32_t comparisons;  /* lessons that compared closely, since then, */
    uint32_t spread_calls; /* the calls that were counted in them, */
    double spread;         /* and how much one of them varies, relative to its candidate's time */
    double tolerance;      /* times that differ by this factor from the settled one have changed */
    uint64_t settled_at;   /* the call, the latest time; 0: never yet, */
    uint64_t again;        /* and so many calls later trying begins anew */
} gcoll_judge;

/* predicted: seconds by candidate; the first is the choice. sent: bytes by candidate, or NULL. variants: the
 * candidate before it that each is a variant of, or GCOLL_LEARN_NONE; NULL: there are none. */
void gcoll_judge_begin(gcoll_judge *judge, const double *predicted, const double *sent,
                       const uint32_t *variants, uint32_t count);
/* samples: of the lesson that has ended, the mean time over the ranks in nanoseconds. */
gcoll_lesson gcoll_judge_next(gcoll_judge *judge, const gcoll_lesson *ended, const double *samples);

#endif
