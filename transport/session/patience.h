/*
 * transport/session/patience.h - decides how a wait passes its time: polling, yielding its core, or sleeping.
 *
 * Sleeping costs a switch and a wake-up: tens of microseconds where the core has gone idle. Polling costs
 * nothing while this thread has its core to itself, but takes the time of whoever shares it, and that may be
 * the peer that is waited for. Whether the core is shared is learned from yields: one that nobody takes is
 * short.
 *
 *   nobody took the last yield       polls, and yields once in a while to see whether that is still so
 *   somebody took it                 yields after each poll that finds nothing: ranks of one core take turns
 *   somebody takes one after another naps, seldom: a nap's end is not the work of a peer, so the scheduler
 *                                    looks for an idle core then, and not for the waker's
 *   it was taken for a millisecond   a busy stranger's: a sleeper that is woken comes before it, a yielder
 *                                    after it, so the next waits sleep at once; more of them each time it
 *                                    happens again
 *   nothing came for spin_ns         sleeps
 *
 * Pure decisions, without clock or system call, so that they can be tested by counts.
 */
#ifndef GCOLL_PATIENCE_H
#define GCOLL_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Empty polls between two yields of a thread that has its core to itself: some twenty microseconds. */
#define GCOLL_PATIENCE_POLLS 32
/* A yield was taken that lasts more than twice the shortest one, or than twice this if all were longer.
 * Untaken ones last 0.3 to 0.9 us; two switches and a turn of a peer of this host 1.5 and more. */
#define GCOLL_PATIENCE_BARE_NS 600
/* A yield this long went to a busy stranger: a peer's turn takes microseconds. */
#define GCOLL_PATIENCE_STOLEN_NS 1000000
/* Waits that sleep after a theft: at first as many as cost about what the theft did, in the end so many that
 * it matters little what a try to poll costs. */
#define GCOLL_PATIENCE_SLEEPY_FIRST 16
#define GCOLL_PATIENCE_SLEEPY_MOST  2048
/* After so many waits without a theft the next one is the first again. */
#define GCOLL_PATIENCE_CALM 256
/* Yields taken one after another before a nap, which lasts a tenth of a millisecond: at first, and if naps do
 * not help. It is so many or up to twice as many, by the rank and at random: two ranks that take turns and
 * nap at the same time both wake on the core that they left empty, and so never part. */
#define GCOLL_PATIENCE_NAP_FIRST 64
#define GCOLL_PATIENCE_NAP_MOST  65536

typedef enum gcoll_patience_step {
    GCOLL_PATIENCE_POLL,
    GCOLL_PATIENCE_YIELD, /* and then poll */
    GCOLL_PATIENCE_NAP,   /* the shortest sleep there is, and then poll */
    GCOLL_PATIENCE_SLEEP  /* until something comes */
} gcoll_patience_step;

/* Zeroed it is ready, and always sleeps. */
typedef struct gcoll_patience {
    int64_t spin_ns;
    int64_t bare_ns; /* the shortest yield; 0: none yet */
    uint32_t empty;  /* polls that found nothing since the last yield */
    uint32_t taken;  /* yields one after another, to this one */
    uint32_t nap;    /* at least so many before the next nap; 0: NAP_FIRST */
    uint32_t nap_at; /* that many */
    uint32_t seed;   /* of the next draw */
    uint32_t sleepy; /* waits left that sleep at once, this one included */
    uint32_t thefts; /* that came close to one another */
    uint32_t calm;   /* waits since the latest of them */
} gcoll_patience;

/* rank: of the thread, so that the naps of two differ. */
void gcoll_patience_init(gcoll_patience *patience, int64_t spin_ns, uint32_t rank);
/* Whether this thread has its core to itself, as far as is known, and may poll. */
bool gcoll_patience_has_core(const gcoll_patience *patience);
/* A wait begins: its first poll has found nothing. */
void gcoll_patience_begin(gcoll_patience *patience);
/* What to do after a poll that found nothing, like all since idle_ns ago. */
gcoll_patience_step gcoll_patience_next(gcoll_patience *patience, int64_t idle_ns);
void gcoll_patience_yielded(gcoll_patience *patience, int64_t lasted_ns);

#endif
