/* gcoll/learn/learn_internal.h - what the files of learning share: kinds of calls, and how their times and
 * lessons travel. */
#ifndef GCOLL_LEARN_LEARN_INTERNAL_H
#define GCOLL_LEARN_LEARN_INTERNAL_H

#include "gcoll/call/call.h"
#include "gcoll/context/hooks.h"
#include "gcoll/learn/judge.h"
#include "gcoll/learn/learn.h"

/* Kinds of calls that are known at a time. A further kind takes the place of one that has come less than
 * GCOLL_LEARN_FROM times. If there is none, it learns nothing. */
#define GCOLL_LEARN_SITES 64
/* The first call of a kind for which memory is spent on learning. Below the end of the first lesson. */
#define GCOLL_LEARN_FROM 3
/* Ranks below one rank in the tree. */
#define GCOLL_LEARN_FAN 4
/* Meetings from the end of a loose kind's lesson to the next lesson: in the first, ranks report. */
#define GCOLL_LEARN_FENCE 4

/* Flags of a report: how a rank made the calls of a lesson. */
#define GCOLL_LEARN_STARTS UINT32_C(1) /* it started a call, or may: it may be several calls ahead */
#define GCOLL_LEARN_CLOSES UINT32_C(2) /* it cannot wait for a lesson: calls of the kind learn no more */

typedef struct gcoll_learn_site gcoll_learn_site;

/* A message of the tree, posted once a lesson. */
typedef struct gcoll_learn_box {
    struct gcoll_learn *learn;
    gcoll_learn_site *site;
    gcoll_message message;
    uint8_t *bytes;
    bool is_posted, has_come;
} gcoll_learn_box;

/* What a rank needs to learn about one kind of call. */
typedef struct gcoll_study {
    uint32_t count; /* candidates */
    char texts[GCOLL_LEARN_CANDIDATES][GCOLL_ALGORITHM_TEXT_MAX];
    double predicted[GCOLL_LEARN_CANDIDATES]; /* seconds */
    double sent[GCOLL_LEARN_CANDIDATES];      /* bytes */
    gcoll_lesson lesson, next;
    /* If `lesson` tries nothing: no call from the first to before the second is counted. */
    uint64_t unsampled_from, next_sample;
    bool has_next;     /* `next` is known */
    bool is_closed;    /* nothing more is learned: all calls take lesson.usual once this lesson is over */
    uint32_t flags;    /* GCOLL_LEARN_STARTS, GCOLL_LEARN_CLOSES: of this rank and of the ranks below it */
    bool has_reported; /* to the rank above, or on rank 0 decided */
    bool is_told;      /* the ranks below know what comes next */
    uint32_t missing;  /* counted calls of this rank that have not ended */
    uint32_t unheard;  /* ranks below this one that have not reported */
    double sums[GCOLL_LEARN_SAMPLES];       /* nanoseconds, of this rank and what was heard from below */
    gcoll_learn_box below[GCOLL_LEARN_FAN]; /* reports that come */
    gcoll_learn_box report, lesson_in;      /* to and from the rank above */
    gcoll_learn_box lesson_out[GCOLL_LEARN_FAN];
    uint8_t *memory;   /* of all boxes */
    gcoll_judge judge; /* rank 0 */
} gcoll_study;

struct gcoll_learn_site {
    gcoll_call call; /* without what may differ between ranks */
    uint32_t number;
    bool is_loose;      /* a rank may leave the call before others enter it (site.c) */
    gcoll_pace pace;    /* of its calls */
    uint64_t latest;    /* its latest call, as a number among the calls of all kinds */
    uint64_t fence;     /* of a loose kind: the meeting at which its next lesson begins; 0: not known yet */
    bool is_known;      /* the candidates have been listed */
    gcoll_study *study; /* NULL: it has not come often, or one algorithm alone can serve it */
};

struct gcoll_learn {
    gcoll_context *context;
    uint32_t above;       /* the rank above this one; GCOLL_NO_RANK on rank 0 */
    uint32_t below;       /* the first rank below it, */
    uint32_t fan;         /* and how many there are */
    uint32_t count;       /* of sites */
    uint32_t fenced;      /* sites that have a fence */
    bool starts_meetings; /* this rank has started a meeting, and so may be ahead of others in all calls */
    uint64_t meetings;    /* that have begun */
    uint64_t calls;       /* of all kinds */
    uint32_t guess;       /* the latest site: where a search begins */
    gcoll_learn_site *sites[GCOLL_LEARN_SITES];
    gcoll_learn_site *newcomer;    /* of a call whose kind is not known; NULL: there is none */
    const gcoll_learn_site *waits; /* for whose lesson a call waits; NULL: none does */
};

/* ---- site.c ------------------------------------------------------------------------------- */

/* The site of a token that `enter` gave (hooks.h). */
gcoll_learn_site *gcoll_learn_site_of(const gcoll_learn *learn, uint32_t token);

/* ---- tree.c ------------------------------------------------------------------------------- */

void gcoll_learn_place(gcoll_learn *learn);
/* Makes the boxes of a study. */
gcoll_status gcoll_learn_open(gcoll_learn *learn, gcoll_learn_site *site, gcoll_study *study);
/* Whether this rank may report: its calls of the lesson have ended, and the job goes on. */
bool gcoll_learn_is_over(const gcoll_learn *learn, const gcoll_learn_site *site);
/* Begins study->lesson: posts the receives of its messages. */
void gcoll_learn_listen(gcoll_learn *learn, gcoll_learn_site *site);
/* Sends what can be sent: reports whose part of the tree is complete, and lessons. */
void gcoll_learn_tend(gcoll_context *context);
/* The site for whose next lesson this rank waits, in a call or with calls that it holds; NULL: there is none.
 */
const gcoll_learn_site *gcoll_learn_awaited(const gcoll_learn *learn);
/* Calls fn for the ranks on which that lesson depends. */
void gcoll_learn_each_waited(gcoll_context *context, gcoll_waited_fn fn, void *arg);

#endif
