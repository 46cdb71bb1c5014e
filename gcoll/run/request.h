/* gcoll/run/request.h - structs of requests and operations, for request.c, operation.c, pair.c and
 * collectives.c. */
#ifndef GCOLL_RUN_REQUEST_H
#define GCOLL_RUN_REQUEST_H

#include "gcoll/run/run.h"

typedef enum gcoll_request_state {
    GCOLL_REQUEST_IDLE = 0, /* spare, or the request of an operation that is not started */
    GCOLL_REQUEST_LIVE
} gcoll_request_state;

/* A handle of a message or a run in flight. */
struct gcoll_request {
    gcoll_context *context; /* NULL: the context was destroyed */
    gcoll_request_state state;
    bool kept;      /* belongs to an operation, which keeps the request and the run */
    gcoll_run *run; /* NULL: the request is for a message */
    gcoll_message message;
    uint32_t peer;               /* peer of the message */
    bool done;                   /* the message is complete */
    gcoll_request *next, **link; /* in runs->requests, or (next) runs->spare_requests */
    int64_t timeout_ms;          /* options.timeout_ms */
    gcoll_tested tested;
    uint32_t free_looks;       /* tests that did not read the clock */
    gcoll_pair *receives_from; /* the pair of a receive; else NULL */
};

struct gcoll_operation {
    gcoll_request request; /* holds the run */
    gcoll_operation *next, **link;
    bool is_unwanted; /* was destroyed while its context could not be entered */
};

/* The arguments of gcoll_context_recv_any. */
typedef struct gcoll_any {
    const uint32_t *peers;
    uint32_t count, tag;
} gcoll_any;

/* Puts an operation's request on the context's list of live ones. */
void gcoll_request_begin(gcoll_request *request);
/* Tests a live request, and ends it if it has finished. The caller has entered the context. */
gcoll_status gcoll_request_look(gcoll_request **request, int *done);
/* Frees all requests, live and spare. Requires a closed endpoint. */
void gcoll_requests_free(gcoll_context *context);

gcoll_status gcoll_operation_create(gcoll_context *context, const gcoll_arguments *arguments,
                                    gcoll_operation **operation);
/* Frees the runs of operations that the caller has not destroyed. */
void gcoll_operations_orphan(gcoll_context *context);

/* Cancels the receive of a live request. The next receive with its tag takes its place. */
gcoll_status gcoll_pair_cancel(gcoll_request *request);
void gcoll_pairs_free(gcoll_context *context);

#endif
