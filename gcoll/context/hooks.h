/* gcoll/context/hooks.h - hooks that modules above set to take part in blocking calls: context->hooks by one
 * that watches all of them, and context->jury by the council, for calls with options.uniform. NULL if no
 * module does. */
#ifndef GCOLL_CONTEXT_HOOKS_H
#define GCOLL_CONTEXT_HOOKS_H

#include "algorithms/algorithms.h"
#include "gcoll/context/context.h"

struct gcoll_call;
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

/* Of ranks that agree on the results of calls. */
struct gcoll_jury {
    /* Called once for each such call, when this rank's part has ended with `own`; an error is the last error.
     * Blocks. Returns GCOLL_OK if the parts of all ranks that are left succeeded. Otherwise, the context is
     * broken on return, and the last error says why. */
    gcoll_status (*agree)(gcoll_context *context, gcoll_status own);
};

#endif
