/*
 * gcoll/context.h - a context: a group of ranks that run collectives together.
 *
 * A context belongs to one job of `size` ranks. Each rank creates it with the same job id, size and
 * store; creation is the rendezvous and returns when all ranks are there, or names those that are not.
 * Connections are made later, when an operation first needs them.
 *
 * Threads: a context is used by one thread at a time; different contexts share nothing and may be used by
 * different threads at once. gcoll_context_abort may be called from any thread. Work is done by the thread
 * that calls, or also, if options.progress_thread says so, by a thread of the context's own between calls.
 *
 * Failure: when anything goes wrong between ranks, the context is broken for good: the call that
 * noticed and every later one return the same cause, the ranks that it is connected to are told at once and
 * pass it on, and gcoll_context_destroy still returns in bounded time. Errors in arguments break nothing.
 */
#ifndef GCOLL_CONTEXT_H
#define GCOLL_CONTEXT_H

#include "gcoll/ibverbs.h"
#include "gcoll/memory.h"
#include "gcoll/plan.h"
#include "gcoll/status.h"
#include "gcoll/store.h"
#include "gcoll/types.h"

GCOLL_BEGIN_DECLS

typedef struct gcoll_context gcoll_context;

typedef enum gcoll_log_level {
    GCOLL_LOG_ERROR = 0,
    GCOLL_LOG_WARNING = 1,
    GCOLL_LOG_INFO = 2,
    GCOLL_LOG_DEBUG = 3
} gcoll_log_level;

/* Called on the context's thread. text is one line without a newline. Must not call gcoll. */
typedef void (*gcoll_log_fn)(void *arg, gcoll_log_level level, const char *text);

/* malloc/free of the caller's own, for memory that grows with messages and plans: scratch and plans' run
 * state. alignment is a power of two. Must be usable from the context's thread. */
typedef struct gcoll_allocator {
    void *(*allocate)(void *arg, size_t bytes, size_t alignment);
    void (*release)(void *arg, void *memory, size_t bytes);
    void *arg;
} gcoll_allocator;

/* For transport "inproc": what connects the ranks of one process. Shared by `size` contexts, in one or
 * several threads, and destroyed after them. */
typedef struct gcoll_hub gcoll_hub;
GCOLL_API gcoll_status gcoll_hub_create(uint32_t size, gcoll_hub **hub);
GCOLL_API void gcoll_hub_destroy(gcoll_hub *hub);

typedef struct gcoll_context_options {
    size_t struct_size; /* set by gcoll_context_options_init */
    uint32_t rank;      /* 0 .. size-1 */
    uint32_t size;      /* ranks of the job, >= 1 */
    gcoll_store *store; /* borrowed while the context lives; may be NULL if size is 1 */
    const char *job; /* name of this job in the store, [A-Za-z0-9._-]{1,64}; NULL is "default". Two contexts
                      * that live at the same time on one store need different names. */
    const char
        *transport; /* "tcp" (NULL, "auto" are tcp), "ibverbs" (RDMA devices, with TCP beside) or "inproc" */
    gcoll_hub *hub; /* inproc only */
    const char *interface; /* tcp, ibverbs: NULL, or interface name, address or subnet ("10.0.0.0/8"). By
                            * default the addresses of all interfaces are offered, and a peer on the same host
                            * is reached by loopback, any other never. */
    uint16_t port_min,
        port_max;         /* tcp, ibverbs: 0,0 for any free port, else listen in this range, inclusive */
    int64_t timeout_ms;   /* limit of each blocking call, the rendezvous included; 0: 30000; at most 86400000.
                           * A call fails by then, or a quarter later if all ranks answer and yet nothing
                           * moves: that long it waits for a better informed rank to name the one at fault. A
                           * store's own timeout may add to it where a call visits the store;
                           * creation may take an eighth longer, if the last rank comes late. */
    uint64_t eager_bytes; /* 0: default. Messages up to this size go without waiting for the receiver. */
    uint64_t
        eager_pool_bytes; /* 0: default. Most bytes held for one peer that no operation here waits for yet. */
    int64_t spin_us;  /* how long a waiting call polls before it sleeps; 0: default (200 over tcp, which lets
                       * others have its core meanwhile; inproc: never if ranks outnumber cores), -1: never */
    gcoll_log_fn log; /* NULL: silent */
    void *log_arg;
    const gcoll_allocator *allocator; /* NULL: malloc. Copied. */
    int progress_thread; /* 1: a thread of the context's own makes progress with what is in flight while the
                          * caller computes, and answers peers that ask whether this rank is alive. It calls
                          * log, allocator, store and user operations too, but never while a gcoll call is
                          * under way on this context; so store must be this context's alone, or one for
                          * several threads. A call that finds the thread at work waits for it to step back,
                          * some 20 us; with nothing in flight no call does. 0: there is none, and no lock is
                          * taken. */
    const gcoll_cost_parameters *cost; /* what auto reckons with, the same on every rank, or rank 0 alone;
                                        * NULL: as `tuning` says. Copied. */
    const char *tuning;                /* what auto goes by; rank 0's counts, and all ranks get it from there.
                                        * "fit": costs of messages and bytes, measured between a few ranks at creation, which
                                        * takes some milliseconds and makes their connections; "default": 6 us a message,
                                        * 0.25 ns a byte, 0.1 ns a byte reduced; else the path of a tuning file, as
                                        * gcoll_bench --tune writes it (docs/tuning.md). NULL: what the environment variable
                                        * GCOLL_TUNING says, or "fit". Not beside `cost`. Errors: IO, INVALID (file, line and
                                        * field); PEER with the same text on the other ranks. */
    const gcoll_ibverbs_options *ibverbs; /* ibverbs only; NULL: defaults (gcoll/ibverbs.h). Copied. */
    const char *accelerator; /* whose memory buffers may lie in (gcoll/memory.h): "none"; "cuda", UNSUPPORTED
                              * where it is missing; NULL, "auto": cuda, if this process has opened it before
                              * it creates the context, and it works. Without one, pointers to device memory
                              * are taken for pointers to the host's, and crash */
    int accelerator_times;   /* 1: devices time what they do, for gcoll_context_device_times; costs events */
    int monitor; /* 1, the same on every rank: watches when ranks enter collectives, and heeds who is late
                  * (gcoll/arrival.h). GCOLL_ERR_MISMATCH if rank 0 has it otherwise */
} gcoll_context_options;

/* Fills in defaults. Always call it first: later versions add fields. */
GCOLL_API void gcoll_context_options_init(gcoll_context_options *options);

/* Joins the job and returns when all ranks have. Blocking, up to options->timeout_ms.
 * Errors: INVALID (names the field), TIMEOUT (names the missing ranks, or rank 0), IO (store, sockets). */
GCOLL_API gcoll_status gcoll_context_create(const gcoll_context_options *options, gcoll_context **context);

/* A second context for the same ranks by means of the first one's connections, with no visit to the store.
 * Collective: every rank calls it in the same order as other operations on `parent`. It has a sequence,
 * listener and pairs of its own and may go to another thread. timeout and other options are the parent's. The
 * parent may be destroyed first. */
GCOLL_API gcoll_status gcoll_context_duplicate(gcoll_context *parent, gcoll_context **context);

GCOLL_API uint32_t gcoll_context_rank(const gcoll_context *context);
GCOLL_API uint32_t gcoll_context_size(const gcoll_context *context);

/* GCOLL_OK while the context works; else the status it broke with, and sets gcoll_last_error to the cause. */
GCOLL_API gcoll_status gcoll_context_health(const gcoll_context *context);

/* The rank that broke the context, or -1: not broken, or nobody's fault. */
GCOLL_API int64_t gcoll_context_culprit(const gcoll_context *context);

/* Breaks the context on every rank: calls that wait return GCOLL_ERR_ABORTED with `reason` (up to 200 bytes).
 * From any thread, until gcoll_context_destroy is called. Does not wait: the ranks learn of it from the
 * thread that drives this context, when it is next in a gcoll call (one that waits notices at once). */
GCOLL_API void gcoll_context_abort(gcoll_context *context, const char *reason);

/* Leaves the job. NULL is fine. Takes at most about a second, also when peers are gone, and longer only if
 * the store does not answer. Operations, requests and pairs of the context must have been destroyed before.
 */
GCOLL_API void gcoll_context_destroy(gcoll_context *context);

/* ---- Requests: what was begun and not waited for ----------------------------------------------------
 * Of messages (gcoll_pair_send_start, gcoll_pair_recv_start) and of collectives (gcoll/operations.h) alike. A
 * request belongs to its context, and is ended by whoever waits for it or sees it done: exactly once. The
 * calls that end it set the caller's pointer to NULL, so that ending it twice is GCOLL_ERR_STATE. What is not
 * ended is freed with the context, which says so in the log; one that is destroyed with requests in flight
 * breaks on all ranks.
 */

typedef struct gcoll_request gcoll_request;

/* Waits up to the context's timeout, and ends the request, successful or not. A timeout breaks the context,
 * as it leaves ranks out of step. */
GCOLL_API gcoll_status gcoll_request_wait(gcoll_request **request);
/* Makes progress without waiting. *done is 1 when it has finished; that, and any error of the request, ends
 * it. */
GCOLL_API gcoll_status gcoll_request_test(gcoll_request **request, int *done);
/* Waits until one of the requests has finished and gives the index of the first such, which
 * gcoll_request_wait then ends at once; nothing is ended here. All are of one context; NULL ones are passed
 * over, so a list can be worked off in place. GCOLL_ERR_STATE if all are NULL. If the context breaks before
 * one has finished, its cause is returned, and so it is by each request. */
GCOLL_API gcoll_status gcoll_wait_any(gcoll_request *const *requests, uint32_t count, uint32_t *index);

/* ---- Pair: an ordered two-way channel to one peer, to write algorithms of your own on ------------- */

typedef struct gcoll_pair gcoll_pair;

/* The pair to `peer` (not this rank). Owned by the context. Connects when first used. */
GCOLL_API gcoll_status gcoll_context_pair(gcoll_context *context, uint32_t peer, gcoll_pair **pair);

/* Sends or receives `bytes` bytes. Messages of the same tag between the same two ranks match in order, and
 * sizes must be equal. Blocking, up to the context's timeout; gcoll_pair_send returns when data may be
 * reused. */
GCOLL_API gcoll_status gcoll_pair_send(gcoll_pair *pair, uint32_t tag, const void *data, uint64_t bytes);
GCOLL_API gcoll_status gcoll_pair_recv(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes);

/* Both at once, to and from one peer or two: ranks that all do it wait for one another in no circle. */
GCOLL_API gcoll_status gcoll_pair_sendrecv(gcoll_pair *to, uint32_t send_tag, const void *send,
                                           uint64_t send_bytes, gcoll_pair *from, uint32_t recv_tag,
                                           void *recv, uint64_t recv_bytes);

/* The same as send and recv without waiting. data must stay until the request has ended. */
GCOLL_API gcoll_status gcoll_pair_send_start(gcoll_pair *pair, uint32_t tag, const void *data, uint64_t bytes,
                                             gcoll_request **request);
GCOLL_API gcoll_status gcoll_pair_recv_start(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes,
                                             gcoll_request **request);

/* Receives from whichever of `peers` (`count` ranks, not this one) has its next message of that tag here
 * first; of several, the one that stands first in the list. *source is its rank. The others' messages stay
 * for later receives. Of a rank that has sent 65536 small messages which nobody took, nothing more is seen
 * until some are. A rank that has left and sent nothing is passed over; if that is all of them:
 * GCOLL_ERR_PEER. Blocking, up to the context's timeout. */
GCOLL_API gcoll_status gcoll_context_recv_any(gcoll_context *context, const uint32_t *peers, uint32_t count,
                                              uint32_t tag, void *data, uint64_t bytes, uint32_t *source);

GCOLL_END_DECLS

#endif
