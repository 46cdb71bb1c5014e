/* gcoll/context/hooks.h - what a module that watches blocking calls hangs on them. context->hooks is NULL
 * where there is none. */
#ifndef GCOLL_CONTEXT_HOOKS_H
#define GCOLL_CONTEXT_HOOKS_H

#include "algorithms/algorithms.h"
#include "gcoll/context/context.h"

struct gcoll_call;
struct gcoll_run;
struct gcoll_site;

/* A blocking call as the module sees it. */
typedef struct gcoll_visit {
    struct gcoll_site *site; /* the module's own */
    int64_t entered_ns, since_ns;
    bool is_meeting;
    int64_t timeout_ms; /* of the call, as options have it; set by the caller */
} gcoll_visit;

struct gcoll_hooks {
    /* Around each blocking call; leave only after one that ended well. enter may wait, and says in the call
     * how it is to be planned. */
    gcoll_status (*enter)(gcoll_context *context, struct gcoll_call *call, gcoll_visit *visit);
    void (*leave)(gcoll_context *context, const gcoll_visit *visit, const struct gcoll_run *run);
    /* The choice and the arrivals of a call whose `arrival` is not 0, and what tells it apart in
     * fingerprints. */
    void (*choose)(const gcoll_context *context, gcoll_problem *problem, gcoll_problem *common,
                   gcoll_choice *choice, uint64_t *mark);
};

#endif
