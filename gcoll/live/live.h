/*
 * gcoll/live/live.h - what keeps a context going: reaching peers (reach.c), progress with all that is in
 * flight (progress.c), and watching over long waits (watch.c).
 *
 * Waiting and failing know kinds of work by a table (activity.c), and nothing else of them.
 */
#ifndef GCOLL_LIVE_LIVE_H
#define GCOLL_LIVE_LIVE_H

#include "gcoll/context/context.h"

/* ---- Kinds of work (activity.c) ------------------------------------------------------------ */

/* Takes a rank that is waited for; false ends the enumeration. */
typedef bool (*gcoll_waited_fn)(void *arg, uint32_t peer);

/* A kind of work that a context may have in flight. What is NULL there is nothing of. */
typedef struct gcoll_activity {
    uint32_t order; /* below GCOLL_ACTIVITIES, and each its own: which comes first */
    /* Does what can be done now. Called, wherever the context makes progress, while it is due. */
    void (*advance)(gcoll_context *context);
    /* Whether something that this rank began has not finished. */
    bool (*in_flight)(const gcoll_context *context);
    /* Whether a progress thread has something to do for it. */
    bool (*has_work)(const gcoll_context *context);
    void (*each_waited)(gcoll_context *context, gcoll_waited_fn fn, void *arg);
    /* Whether it cannot go on without the peer. */
    bool (*needs)(const gcoll_context *context, uint32_t peer);
    /* Names the operation that waits for the peer, or another that is in flight: "allreduce #3, ring, step 2
     * of 8". */
    void (*name)(const gcoll_context *context, uint32_t peer, char *text, size_t bytes);
    /* The fingerprint of the oldest operation in flight, and its stream; NULL: there is none. */
    const uint8_t *(*concern)(const gcoll_context *context, uint64_t *stream);
    /* Tells the flight recorder what is waited for. */
    void (*note_wait)(gcoll_context *context);
    /* The rank that says something before it begins an operation, for which this one waits; GCOLL_NO_RANK:
     * none. */
    uint32_t (*announcer)(const gcoll_context *context);
    /* That rank has begun more operations than this one, and nothing comes: breaks the context. */
    void (*not_announced)(gcoll_context *context, uint64_t begun);
    /* Watches over requests that no thread waits for or tests. Called now and then if the context has a
     * driver. */
    void (*tend)(gcoll_context *context);
} gcoll_activity;

#define GCOLL_ACTIVITIES 5

/* ---- What a context keeps of this ----------------------------------------------------------- */

/* Whether a peer can be reached. */
typedef struct gcoll_contact {
    bool connecting; /* connect was asked for, or it came to us */
    bool departed;   /* its endpoint has closed in good order, or is about to */
    bool met;        /* a message came from it */
} gcoll_contact;

/* This folder's own. */
struct gcoll_live {
    const gcoll_activity *activities[GCOLL_ACTIVITIES];
    uint32_t due; /* bit i: activity i is */
    gcoll_contact *peers;
    int64_t progress_ms;           /* when gcoll_progress_in_time last made progress */
    int64_t doubt_ms;              /* when receives from a departed rank are given up; 0: there are none */
    uint64_t position;             /* how many operations this rank has begun */
    uint64_t rumour;               /* as answers to probes carry it */
    uint32_t suspect;              /* rank that did not answer this one's probe */
    struct gcoll_watcher *watcher; /* over long waits (watch.c) */
};

/* activities: GCOLL_ACTIVITIES of them, by their order; NULL where there is none. */
gcoll_status gcoll_live_create(gcoll_context *context, const gcoll_activity *const *activities);
void gcoll_live_free(gcoll_context *context);

static inline void gcoll_live_due(gcoll_context *context, const gcoll_activity *activity) {
    context->live->due |= UINT32_C(1) << activity->order;
}
static inline void gcoll_live_not_due(gcoll_context *context, const gcoll_activity *activity) {
    context->live->due &= ~(UINT32_C(1) << activity->order);
}
/* Of all kinds together. */
bool gcoll_live_in_flight(const gcoll_context *context);
bool gcoll_live_has_work(const gcoll_context *context);
/* Of work that is waited for and has not come at once, if there is a recorder. */
void gcoll_live_note_wait(gcoll_context *context);
void gcoll_live_tend(gcoll_context *context);
bool gcoll_live_needs(const gcoll_context *context, uint32_t peer);
void gcoll_live_each_waited(gcoll_context *context, gcoll_waited_fn fn, void *arg);
/* Notes that something has ended for which another thread may wait. */
static inline void gcoll_live_ended(gcoll_context *context) {
    if (context->guard.driver)
        context->guard.driver->ended = context->guard.driver->unread = true;
}
/* Something has happened that another thread may wait for inside a call, though no run or request has ended.
 */
static inline void gcoll_live_tell(gcoll_context *context) {
    if (context->guard.driver)
        context->guard.driver->ended = true;
}
/* gcoll_break, with the operation in flight that waits for culprit named in front. */
void gcoll_break_operation(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *format,
                           ...) GCOLL_PRINTF(4, 5);

/* ---- Peers (reach.c) ------------------------------------------------------------------------ */

/* The rare part of gcoll_peer_need. */
bool gcoll_peer_reach(gcoll_context *context, uint32_t peer, bool sends);
/* Connects if that was not asked for yet; false if the context is or gets broken. One that has left gets no
 * more messages, but what it sent before may still be received. */
static inline bool gcoll_peer_need(gcoll_context *context, uint32_t peer, bool sends) {
    const gcoll_contact *state = &context->live->peers[peer];
    return (state->connecting && !state->departed && !context->health.broken) ||
           gcoll_peer_reach(context, peer, sends);
}
static inline bool gcoll_peer_has_departed(const gcoll_context *context, uint32_t peer) {
    return context->live->peers[peer].departed;
}
/* Whether messages of ranks that have left may still be on their way. */
static inline bool gcoll_peer_is_doubted(const gcoll_context *context) {
    return context->live->doubt_ms != 0;
}
/* The store does not give the record of a peer, with this status of gcoll_rendezvous_lookup: breaks the
 * context if that means that the peer will not take part. Returns the status of the call. */
gcoll_status gcoll_peer_is_missing(gcoll_context *context, uint32_t peer, gcoll_status status,
                                   const gcoll_note *cause);
/* What the transport tells of a peer, as its events have it. */
static inline void gcoll_peer_met(gcoll_context *context, uint32_t peer) {
    context->live->peers[peer].met = true;
}
void gcoll_peer_failed(gcoll_context *context, uint32_t peer, gcoll_status status, const char *text);
void gcoll_peer_departed(gcoll_context *context, uint32_t peer);
void gcoll_peer_changed(gcoll_context *context, uint32_t peer, const char *text);

/* ---- Progress and waiting (progress.c) ------------------------------------------------------ */

/* What is waited for. */
typedef struct gcoll_wait {
    bool (*done)(const void *arg);
    /* The ranks that it needs; NULL: all that the context waits for. */
    void (*each_waited)(const void *arg, gcoll_waited_fn fn, void *fn_arg);
    const void *arg;
    int64_t timeout_ms; /* as options have it: 0 is the context's, for which only the time counts in which
                         * nothing moves; -1 none; a limit of the call's own counts from now on */
    bool shares;        /* other threads may enter meanwhile: the caller relies on nothing that they change */
    bool by_any;    /* and it may be done by any movement, not only by what gcoll_live_ended is called for */
    bool is_behind; /* the ranks that it needs may wait for others themselves, which they can name */
} gcoll_wait;

/* Progress until it is done, or the context breaks, or the time passes, which breaks it. */
gcoll_status gcoll_progress_wait(gcoll_context *context, const gcoll_wait *wait);
/* Progress for up to wait_us, or until something has moved. */
gcoll_status gcoll_progress(gcoll_context *context, int64_t wait_us);
/* The part of gcoll_progress_in_time for a context with an endpoint. */
void gcoll_progress_once_a_tick(gcoll_context *context);
/* Progress without waiting, if there was none since the last tick of the coarse clock. For work that has
 * ended without it: peers wait for answers to their probes. */
static inline void gcoll_progress_in_time(gcoll_context *context) {
    if (context->endpoint)
        gcoll_progress_once_a_tick(context);
}
/* The same for a caller that shares, as above: if another thread leads, only sleeps until something has
 * moved. */
gcoll_status gcoll_progress_shared(gcoll_context *context, int64_t wait_us);
/* Sends what was posted. */
static inline void gcoll_progress_flush(gcoll_context *context) {
    if (context->endpoint && !context->health.broken)
        context->transport->flush(context->endpoint);
}

/* ---- Watching over waits (watch.c) ---------------------------------------------------------- */

/* Of something that is tested again and again, in place of a wait: how long it has been looked for. */
typedef struct gcoll_tested {
    int64_t looked_ms;  /* when gcoll_watch_look was last called for it; 0: never */
    int64_t used_ms;    /* so much of its time had passed then */
    int64_t age_ms;     /* so long it had been looked for */
    uint32_t movements; /* so often something had moved */
} gcoll_tested;

/* After progress in which what is tested has not finished: what gcoll_progress_wait does beside progress.
 * Cheap but for once in a few milliseconds. May make progress, after which it may have finished. is_alone:
 * nothing else is in flight. */
gcoll_status gcoll_watch_look(gcoll_context *context, gcoll_tested *tested, const gcoll_wait *wait,
                              bool is_alone);
/* The rare part of gcoll_watch_end. */
void gcoll_watch_forget(gcoll_context *context);
/* What was true of one wait, or of the tests of a request, is not of the next. */
static inline void gcoll_watch_end(gcoll_context *context) {
    if (context->live->suspect != GCOLL_NO_RANK)
        gcoll_watch_forget(context);
}
/* Answers carry three numbers: operations begun, and the rumour: hops that it came, and the rank believed
 * stuck. */
#define GCOLL_SUSPECT_BITS 21 /* holds GCOLL_MAX_RANKS + 1 values */
#define GCOLL_HOP_BITS     3
/* What this rank, if it has an endpoint, answers to probes from now on: it has begun so many operations. */
static inline void gcoll_watch_publish(gcoll_context *context, uint64_t position) {
    gcoll_live *live = context->live;
    live->position = position;
    context->transport->set_position(context->endpoint,
                                     position << (GCOLL_SUSPECT_BITS + GCOLL_HOP_BITS) | live->rumour);
}
/* A peer that was asked whether it is alive answers with what it publishes. */
void gcoll_watch_answered(void *arg, uint32_t peer, const gcoll_answer *answer);
/* The rank `by` says when a rank that does not answer this one was last known to be alive. */
void gcoll_watch_witnessed(void *arg, uint32_t by, uint32_t about, int64_t ago_ms);

#endif
