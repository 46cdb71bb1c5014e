/* gcoll/run/request.h - structs of requests and operations, for request.c, operation.c, pair.c and
 * collectives.c. */
#ifndef GCOLL_RUN_REQUEST_H
#define GCOLL_RUN_REQUEST_H

#include "gcoll/context/hooks.h"
#include "gcoll/run/run.h"

typedef enum gcoll_request_state {
    GCOLL_REQUEST_IDLE = 0, /* spare, or the request of an operation that is not started */
    GCOLL_REQUEST_LIVE
} gcoll_request_state;

/* A handle of a message or a run in flight. */
struct gcoll_request {
    gcoll_context *context; /* NULL: the context was destroyed. The first: request.c clears what follows */
    gcoll_request_state state;
    bool kept;        /* belongs to an operation, which keeps the request and the run */
    gcoll_run *run;   /* NULL: the request is for a message, or its call is held */
    gcoll_held *held; /* its call has not begun (held.c), and has the run; else NULL */
    gcoll_message message;
    uint32_t peer;               /* peer of the message; GCOLL_NO_RANK while `any` is set */
    bool done;                   /* the message is complete */
    gcoll_request *next, **link; /* in runs->requests, or (next) runs->spare_requests */
    int64_t timeout_ms;          /* options.timeout_ms */
    gcoll_tested tested;
    uint32_t free_looks;       /* tests that did not read the clock */
    gcoll_pair *receives_from; /* the pair of a receive; else NULL */
    uint64_t room;             /* bytes of the buffer of such a receive */
    gcoll_any *any;     /* a receive from any of several ranks that has found no message yet; else NULL */
    bool is_waited;     /* a thread waits for it, so no other thread may end it */
    gcoll_done_fn tell; /* options.done, or NULL: called once when the run has ended */
    void *tell_arg;
    bool is_told;     /* tell was called */
    bool is_detached; /* the caller has no pointer to it: it ends when tell was called */
};

typedef struct gcoll_variants gcoll_variants;

struct gcoll_operation {
    gcoll_request request;    /* holds the run */
    gcoll_variants *variants; /* its runs by other algorithms (operation.c); NULL: it keeps its algorithm */
    char algorithm[GCOLL_ALGORITHM_TEXT_MAX]; /* of the latest run */
    gcoll_operation *next, **link;
    bool is_unwanted; /* was destroyed while its context could not be entered */
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

/* ---- Started calls that wait for their turn (held.c) ---------------------------------------- */

/* Holds the call of a live request, until its algorithm is decided and all calls before it have begun. The
 * call counts at once, in the order of calls. run: what begins then, and is the request's from then on; NULL:
 * it is made from `arguments`, which are copied. On failure the caller keeps the run. */
gcoll_status gcoll_held_add(gcoll_request *request, gcoll_run *run, const gcoll_arguments *arguments,
                            const gcoll_taught *taught);
/* Waits until all have begun: for calls that take their turn at once. */
gcoll_status gcoll_held_await_all(gcoll_context *context, int64_t timeout_ms);
static inline gcoll_status gcoll_held_await(gcoll_context *context, int64_t timeout_ms) {
    return context->runs->held ? gcoll_held_await_all(context, timeout_ms) : GCOLL_OK;
}
/* Forgets the call of a request that ends. */
void gcoll_held_remove(gcoll_held *held);
/* Gives the operation of this request the run by the algorithm that was learned. */
gcoll_status gcoll_operation_take(gcoll_request *request, const gcoll_taught *taught);

/* ---- Requests and operations ---------------------------------------------------------------- */

/* Puts an operation's request on the context's list of live ones. */
void gcoll_request_begin(gcoll_request *request);
/* Sets options.done of a live request whose run was begun, and calls it if the run has finished. A detached
 * request may have ended on return. */
void gcoll_request_tells(gcoll_request *request, gcoll_done_fn tell, void *arg, bool is_detached);
/* Returns GCOLL_ERR_STATE if another thread waits for the request. */
gcoll_status gcoll_request_check_free(const gcoll_request *request);
/* Calls options.done of a request whose run has ended, unless it was called already. Ends a detached request.
 */
void gcoll_request_tell(gcoll_request *request, gcoll_status status);
/* The same, if the request has options.done and its run has finished. */
void gcoll_request_tell_if_finished(gcoll_request *request);
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
/* Takes a request's receive from any of several ranks out of runs->anys, and frees it. */
void gcoll_any_remove(gcoll_request *request);
/* Calls fn for each rank whose message would end the request, except those that have left. */
bool gcoll_any_each_waited(const gcoll_request *request, gcoll_waited_fn fn, void *arg);
/* Gives each receive from any of several ranks that finds a message a place in its rank's order. */
void gcoll_anys_advance(gcoll_context *context);
void gcoll_pairs_free(gcoll_context *context);
/* Finds the pair for exchanges among members (members.c), whose tags are apart from those of the caller. */
gcoll_status gcoll_pair_of_members(gcoll_context *context, uint32_t peer, gcoll_pair **pair);
/* Inside a call: begins a send or a receive. */
gcoll_status gcoll_pair_post(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes, bool sends,
                             gcoll_request **request);

/* Frees the state of barrier reports, messages in flight included. The endpoint must be closed. */
void gcoll_roll_free(gcoll_context *context);

#endif
