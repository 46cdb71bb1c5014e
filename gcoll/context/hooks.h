/* gcoll/context/hooks.h - hooks that modules above set to take part in calls: context->hooks by one that
 * watches all blocking ones, context->jury by the council, for calls with options.uniform, and
 * context->learner by one that measures and replaces choices of auto. NULL if no module does. */
#ifndef GCOLL_CONTEXT_HOOKS_H
#define GCOLL_CONTEXT_HOOKS_H

#include "algorithms/algorithms.h"
#include "gcoll/context/context.h"

struct gcoll_call;
struct gcoll_blocks;
struct gcoll_run;
struct gcoll_site;

/* One blocking call, as the watching module sees it. */
typedef struct gcoll_visit {
    struct gcoll_site *site; /* private to the module */
    int64_t entered_ns, since_ns;
    bool is_meeting;
    int64_t timeout_ms; /* options.timeout_ms of the call; set by the caller */
} gcoll_visit;

struct gcoll_hooks {
    /* Called before and after each blocking call; leave only after a successful one. enter may wait. It
     * sets call->arrival to select the plan. */
    gcoll_status (*enter)(gcoll_context *context, struct gcoll_call *call, gcoll_visit *visit);
    void (*leave)(gcoll_context *context, const gcoll_visit *visit, const struct gcoll_run *run);
    /* For a call whose `arrival` is not 0: sets the algorithm and the expected arrivals, and a mark that
     * identifies the plan in fingerprints. */
    void (*choose)(const gcoll_context *context, gcoll_problem *problem, gcoll_problem *common,
                   gcoll_choice *choice, uint64_t *mark);
};

/* How a call asks: it blocks, or it is started; or nothing is called, and the next call's algorithm is asked
 * for. */
typedef enum gcoll_form { GCOLL_FORM_BLOCKING, GCOLL_FORM_STARTED, GCOLL_FORM_NONE } gcoll_form;

/* Of calls of one kind, which all take the same algorithm for a while, and are not timed. */
typedef struct gcoll_pace {
    uint64_t calls;        /* that have begun */
    uint64_t until;        /* calls before this number need not `enter`, if they block; 0: all must */
    const char *algorithm; /* that these take; NULL: what auto chooses */
} gcoll_pace;

typedef struct gcoll_taught {
    const char *algorithm; /* that the call takes, valid as long as the context; NULL: what auto chooses */
    uint32_t token;        /* for `begins` and `took`; 0: neither is called */
    bool is_settled;       /* nothing is tried: calls take this algorithm until times change */
    /* The number of a started call whose algorithm is not decided yet, for `decided`; else 0. The call must
     * not run before that. */
    uint64_t undecided_call;
    const gcoll_pace *pace; /* of calls of this kind, valid as long as the context; NULL: all must `enter` */
} gcoll_taught;

/* A token whose call is not timed. */
#define GCOLL_TAUGHT_UNTIMED UINT32_C(0xff)

struct gcoll_learner {
    /* Whether calls like this one learn: the same on every rank. */
    bool (*teaches)(const struct gcoll_call *call);
    /* Called before each collective call, except those that gcoll_pace excuses. Unless the call is started,
     * with buffers in host memory, it may wait for what other ranks do in earlier calls. May be called again
     * if the call does not begin. */
    gcoll_status (*enter)(gcoll_context *context, const struct gcoll_call *call,
                          const struct gcoll_blocks *blocks, int64_t timeout_ms, gcoll_form form,
                          gcoll_taught *taught);
    /* The call begins: it counts, on this rank as on all others. */
    void (*begins)(gcoll_context *context, uint32_t token);
    /* Says what a call with an undecided_call takes. False: nothing is decided yet. */
    bool (*decided)(gcoll_context *context, uint32_t token, uint64_t undecided_call, gcoll_taught *taught);
    /* Calls fn for the ranks on which that decision depends, until fn returns false. */
    void (*each_waited)(gcoll_context *context, bool (*fn)(void *arg, uint32_t peer), void *arg);
    /* It has ended with success, ns after it began. Not if its token is untimed. May be called from within
     * the transport's work. */
    void (*took)(gcoll_context *context, uint32_t token, int64_t ns);
    /* Adds one line that says what was learned from calls like this one. Adds nothing before the first calls
     * were timed. */
    void (*explain)(const gcoll_context *context, const struct gcoll_call *call, gcoll_text *said);
};

static inline bool gcoll_taught_is_timed(uint32_t token) {
    return token != 0 && (token & GCOLL_TAUGHT_UNTIMED) != GCOLL_TAUGHT_UNTIMED;
}

/* Of ranks that agree on the results of calls. */
struct gcoll_jury {
    /* Called once for each such call, when this rank's part has ended with `own`; an error is the last error.
     * Blocks. Returns GCOLL_OK if the parts of all ranks that are left succeeded. Otherwise, the context is
     * broken on return, and the last error says why. */
    gcoll_status (*agree)(gcoll_context *context, gcoll_status own);
};

#endif
