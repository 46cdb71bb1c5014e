/* gcoll/live/watch.h - what progress (progress.c) and the watch over long waits (watch.c) share. */
#ifndef GCOLL_LIVE_WATCH_H
#define GCOLL_LIVE_WATCH_H

#include "gcoll/live/live.h"

#define GCOLL_WATCH_CLOCK_MS     1 /* by which the clock may be ahead of a time that it gave */
#define GCOLL_WATCH_FIRST_PART   4 /* of the interval of probes, until the first */
#define GCOLL_PROBES_PER_TIMEOUT 8 /* so that a suspect's name travels several hops before the deadline */
#define GCOLL_PROBES_PER_SILENCE 5 /* the same, and so that something is always due from a host */

/* Of a blocking call, or of all that is tested. */
typedef struct gcoll_watch {
    int64_t started_ms, next_probe_ms, last_ms;
    /* The wait at hand: */
    const gcoll_wait *wait; /* NULL: there is none */
    int64_t timeout_ms;     /* as options have it */
    int64_t used_ms;        /* so much of that has passed */
    int64_t age_ms;         /* so long it has been watched over */
    /* By watcher->watched_ms: */
    int64_t moved_ms;     /* when something had last moved */
    int64_t announced_ms; /* when the announcer was last known to be no further than this rank */
    uint32_t moves, ended, news;
    uint32_t movements; /* how often something was found to have moved */
    bool probed;
} gcoll_watch;

/* What long waits learn of a peer. */
typedef struct gcoll_vitals {
    uint64_t heard, taken; /* of the transport, when it was last looked at */
    int64_t since_ms;      /* when one of them had grown, by watched_ms */
    uint64_t position;     /* how many operations it has begun, by its last answer */
    uint32_t asked;        /* the latest round of probes that included it */
    uint32_t suspect;      /* the rank that it believes is stuck, by its last answer */
    uint32_t suspect_hops; /* that this belief has come */
    uint32_t told;         /* the round of probes in which it last answered */
    uint32_t moves;        /* its latest that is known, of itself or by others */
    bool moves_known;
    bool answered; /* since it was asked */
} gcoll_vitals;

typedef struct gcoll_watcher {
    gcoll_watch tested;   /* what lasts from one test of a request to the next */
    gcoll_vitals *vitals; /* by rank; NULL until there is a long wait */
    int64_t limit_ms;     /* of the wait at hand, or the latest: of gcoll_timeout_of */
    int64_t passed_ms;    /* the clock when watched_ms last grew: several waits may be watched at once */
    int64_t watched_ms;   /* time that waits have been watched over for; stands still while this thread is
                           * held up, as nobody may be blamed for that */
    int64_t witness_ms;   /* ... at this time; 0: nobody does */
    uint32_t witness;     /* who knows it to be alive */
    uint32_t doubted;     /* the rank that the others are asked about */
    uint32_t probe_round;
    uint32_t first_round; /* of probes of this wait */
    uint32_t news;        /* counts what was learned of movement elsewhere */
} gcoll_watcher;

gcoll_status gcoll_watcher_create(gcoll_context *context);
void gcoll_watcher_free(gcoll_context *context);
/* Between two rounds of probes, in the wait at hand. */
static inline int64_t gcoll_watch_interval_ms(const gcoll_context *context) {
    const gcoll_settings *settings = &context->settings;
    const int64_t wanted_ms = context->live->watcher->limit_ms;
    const int64_t limit_ms = wanted_ms == GCOLL_NEVER_MS ? settings->timeout_ms : wanted_ms;
    const int64_t interval = limit_ms / GCOLL_PROBES_PER_TIMEOUT + 1;
    const int64_t part_ms = settings->silence_ms / GCOLL_PROBES_PER_SILENCE;
    return settings->silence_ms > 0 && part_ms < interval ? part_ms : interval;
}
/* Once in a while during a wait, at next_probe_ms. */
void gcoll_watch_over(gcoll_context *context, gcoll_watch *watch, int64_t now);
/* A wait that was watched over has ended: probes are the context's, so when it asked last holds for what is
 * tested. */
void gcoll_watch_keep(gcoll_context *context, const gcoll_watch *watch);
/* If gcoll_peer_is_doubted: gives up receives from ranks that have left, if it is time (reach.c). */
void gcoll_peer_settle_doubt(gcoll_context *context, int64_t now);

#endif
