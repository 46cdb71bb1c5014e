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
    uint32_t peer;               /* of the message; GCOLL_NO_RANK while `any` is set */
    bool done;                   /* the message is */
    gcoll_request *next, **link; /* in runs->requests, or (next) runs->spare_requests */
    int64_t timeout_ms;          /* as options have it */
    gcoll_tested tested;
    uint32_t free_looks;       /* tests without a look at the clock */
    gcoll_pair *receives_from; /* a message that is received from a pair; else NULL */
    uint64_t room;             /* of such a receive: bytes of its buffer */
    gcoll_any *any; /* a receive from any of several ranks, none of which has sent yet; else NULL */
};

struct gcoll_operation {
    gcoll_request request; /* with the run */
    gcoll_operation *next, **link;
    bool is_unwanted; /* was destroyed where its context could not be entered */
};

/* A receive from any of several ranks that looks for a message. */
struct gcoll_any {
    const uint32_t *peers;
    uint32_t count, tag;
    void *data;
    uint64_t bytes;
    gcoll_request *request;
    gcoll_any *next, *previous; /* in runs->anys, in the order in which they began */
    uint64_t memory_bytes;      /* of this struct and its peers; 0: it is on the stack of a blocking call */
};

/* Makes an operation's request live, in the context's list. */
void gcoll_request_begin(gcoll_request *request);
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
/* Takes a request's receive from any of several ranks out of runs->anys, and frees it. */
void gcoll_any_remove(gcoll_request *request);
/* Calls fn for each rank whose message would end the request, except those that have left. */
bool gcoll_any_each_waited(const gcoll_request *request, gcoll_waited_fn fn, void *arg);
/* Gives each receive from any of several ranks that finds a message a place in its rank's order. */
void gcoll_anys_advance(gcoll_context *context);
void gcoll_pairs_free(gcoll_context *context);

/* What barrier reports keep, with what of it is in flight. The endpoint must be closed. */
void gcoll_roll_free(gcoll_context *context);

#endif
