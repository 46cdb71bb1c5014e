/* gcoll/run/request.h - requests and operations, as request.c, operation.c, pair.c and collectives.c see
 * them. */
#ifndef GCOLL_RUN_REQUEST_H
#define GCOLL_RUN_REQUEST_H

#include "gcoll/run/run.h"

typedef enum gcoll_request_state {
    GCOLL_REQUEST_IDLE = 0, /* in the context's list of spare ones, or of an operation that does not run */
    GCOLL_REQUEST_LIVE
} gcoll_request_state;

/* Something begun that somebody will ask for: a message, or a run. */
struct gcoll_request {
    gcoll_context *context; /* NULL: it is gone */
    gcoll_request_state state;
    bool kept;      /* it is an operation's: ending it ends neither the request nor the run */
    gcoll_run *run; /* NULL: a message */
    gcoll_message message;
    uint32_t peer;               /* of the message */
    bool done;                   /* the message is */
    gcoll_request *next, **link; /* in runs->requests, or (next) runs->spare_requests */
    int64_t timeout_ms;          /* as options have it */
    gcoll_tested tested;
    uint32_t free_looks;       /* tests without a look at the clock */
    gcoll_pair *receives_from; /* a message that is received from a pair; else NULL */
    bool is_waited;            /* a thread waits for it that lets others in: none of them may end it */
    /* options.done, or NULL: is told of the end of the run, once. */
    gcoll_done_fn tell;
    void *tell_arg;
    bool is_told;
    bool is_detached; /* nobody has it: it ends when that was told */
};

struct gcoll_operation {
    gcoll_request request; /* with the run */
    gcoll_operation *next, **link;
    bool is_unwanted; /* was destroyed where its context could not be entered */
};

/* What gcoll_context_recv_any waits for. */
typedef struct gcoll_any {
    const uint32_t *peers;
    uint32_t count, tag;
} gcoll_any;

/* Makes an operation's request live, in the context's list. */
void gcoll_request_begin(gcoll_request *request);
/* Has a live one of a run tell its end, which may have come. Nobody has a detached one, so it is not to be
 * used afterwards. */
void gcoll_request_tells(gcoll_request *request, gcoll_done_fn tell, void *arg, bool is_detached);
/* GCOLL_ERR_STATE if another thread waits for it. */
gcoll_status gcoll_request_check_free(const gcoll_request *request);
/* Of one with options.done whose run has ended: tells it, if that was not done yet, and ends one that is
 * detached. */
void gcoll_request_tell(gcoll_request *request, gcoll_status status);
/* The same for a run that may have finished while it was begun. */
void gcoll_request_tell_if_finished(gcoll_request *request);
/* Inside a call: looks whether a live one has finished, and then ends it. */
gcoll_status gcoll_request_look(gcoll_request **request, int *done);
/* Frees those that were never ended, and the spare. The endpoint must be closed. */
void gcoll_requests_free(gcoll_context *context);

gcoll_status gcoll_operation_create(gcoll_context *context, const gcoll_arguments *arguments,
                                    gcoll_operation **operation);
/* Takes the runs of operations that still exist. */
void gcoll_operations_orphan(gcoll_context *context);

/* Takes a live request's receive back, so that the next one of its tag takes its place. */
gcoll_status gcoll_pair_cancel(gcoll_request *request);
void gcoll_pairs_free(gcoll_context *context);

#endif
