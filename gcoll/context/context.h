/*
 * gcoll/context/context.h - the context: one rank's membership in a group. It holds the state that all
 * modules share, and whether the context is broken.
 *
 * Each module keeps its own state in a struct of its own, to which the context points. No other module reads
 * the fields of that struct.
 */
#ifndef GCOLL_CONTEXT_CONTEXT_H
#define GCOLL_CONTEXT_CONTEXT_H

#include "gcoll/base/sha256.h"
#include "gcoll/base/text.h"
#include "gcoll/context/guard.h"
#include "gcoll/gcoll.h"
#include "transport/transport.h"

#define GCOLL_NO_RANK UINT32_MAX

typedef struct gcoll_rendezvous gcoll_rendezvous;
typedef struct gcoll_acceleration gcoll_acceleration;
typedef struct gcoll_live gcoll_live;
typedef struct gcoll_basis gcoll_basis;
typedef struct gcoll_calls gcoll_calls;
typedef struct gcoll_runs gcoll_runs;
typedef struct gcoll_oneside gcoll_oneside;
typedef struct gcoll_hooks gcoll_hooks;
typedef struct gcoll_jury gcoll_jury;
typedef struct gcoll_arrival gcoll_arrival;
typedef struct gcoll_council gcoll_council;
typedef struct gcoll_record gcoll_record;
typedef struct gcoll_learner gcoll_learner;
typedef struct gcoll_learn gcoll_learn;

/* The options of a context, with defaults filled in. */
typedef struct gcoll_settings {
    int64_t timeout_ms;
    int64_t spin_us;
    int64_t silence_ms; /* 0: silent hosts are not detected */
    gcoll_store *store;
    gcoll_store *plain_store;           /* options.store, of which `store` is a view */
    gcoll_store *signed_store;          /* `store` if it is the context's view of options.store, else NULL */
    uint8_t secret[GCOLL_SHA256_BYTES]; /* made of the job's; endpoint.secret points to it, if there is one */
    gcoll_encryption encryption;        /* endpoint.encryption points to it, if there is one */
    gcoll_store *owned_store; /* `store` what the context opened itself (environment.c), else NULL */
    char job[72];
    bool monitor;
    bool share;    /* contexts that are made of this one share its connections */
    bool recovery; /* it has a council */
    gcoll_same same;
    gcoll_order order;
    gcoll_endpoint_options endpoint; /* as opened */
    char *interface;                 /* the list that endpoint.interface points to */
    struct gcoll_lane_choice *lanes; /* what endpoint.lanes points to */
    gcoll_ibverbs_options ibverbs;   /* as opened */
    char *ib_device;                 /* the name that ibverbs.device points to */
    gcoll_log_fn log;
    void *log_arg;
    gcoll_allocator allocator;
} gcoll_settings;

/* Whether and why the context is broken (health.c). It breaks at most once. */
typedef struct gcoll_health {
    bool broken;
    bool told; /* the peers have been told */
    gcoll_note cause;
    atomic_int abort_state; /* 0: none; 1: being written; 2: to be taken by the context's thread */
    char abort_reason[GCOLL_NOTE_TEXT_MAX];
    /* Publishes the cause in the store, for ranks without a connection to this one. */
    void (*leave_cause)(gcoll_context *context);
    /* Calls options.done of all runs in flight, whose buffers are not touched any more. */
    void (*end_work)(gcoll_context *context);
    /* Writes what the flight recorder has. */
    void (*write_record)(gcoll_context *context);
} gcoll_health;

struct gcoll_context {
    uint32_t rank, size;
    uint32_t *parent_ranks; /* of each rank, in the context that this one was split from; NULL: the same */
    const gcoll_transport *transport;
    gcoll_endpoint *endpoint; /* NULL if size is 1 */
    gcoll_settings settings;
    gcoll_guard guard;
    gcoll_health health;
    gcoll_rendezvous *rendezvous;
    gcoll_acceleration *acceleration; /* NULL: buffers lie in host memory */
    gcoll_live *live;
    gcoll_basis *basis; /* cost parameters and tuning file (tuning/) */
    gcoll_calls *calls;
    gcoll_runs *runs;
    gcoll_oneside *oneside;
    const gcoll_hooks *hooks;     /* called around blocking calls; NULL if nothing watches them */
    const gcoll_jury *jury;       /* agrees on results of calls (hooks.h); NULL: without options.recovery */
    gcoll_arrival *arrival;       /* the monitor, or NULL */
    gcoll_council *council;       /* NULL: without options.recovery */
    gcoll_record *record;         /* the flight recorder; NULL: it is off */
    const gcoll_learner *learner; /* replaces choices of auto (hooks.h), */
    gcoll_learn *learn;           /* and what it knows; both NULL: nobody does */
};

/* ---- Claims by calling threads (guard.c) --------------------------------------------------- */

/* Sets the error that explains why this thread may not call now. Returns GCOLL_ERR_STATE. */
gcoll_status gcoll_refuse_call(const gcoll_context *context);
/* Whether a callback calls: this thread is inside a call on the context already, or is the driver's. */
bool gcoll_calls_itself(const gcoll_context *context);
/* Enters a context that has a driver: takes over from the driver, after other threads that are inside. Or one
 * of a family: claims the family, too. */
gcoll_status gcoll_enter_special(gcoll_context *context);
void gcoll_leave_special(gcoll_context *context);
/* NULL: it has none, or no longer. */
void gcoll_set_driver(gcoll_context *context, gcoll_driver *driver);
/* Whether a thread is inside a call on the context, or on one of its family. */
bool gcoll_is_claimed(const gcoll_context *context);
/* Makes this context the first of a family, or one of that of another context. */
gcoll_status gcoll_family_found(gcoll_context *context);
void gcoll_family_join(gcoll_context *context, gcoll_family *family);
/* At the end of a context; also of one without a family. is_inside: gives up the claim, too. */
void gcoll_family_leave(gcoll_context *context, bool is_inside);
/* To destroy the context: claims it for good. GCOLL_ERR_STATE if a thread is inside. */
gcoll_status gcoll_claim_last(gcoll_context *context);
/* From any thread: makes the threads that wait look around. False if the context is being destroyed. */
bool gcoll_context_rouse(gcoll_context *context);
/* Makes the descriptor of gcoll_context_fd readable, if there is one. Inside, or with the gate. */
void gcoll_context_signal(gcoll_context *context);
/* Closes it; also in a forked child. */
void gcoll_context_close_event(gcoll_context *context);
/* Takes a pending wake: true once after gcoll_context_wake was called. */
static inline bool gcoll_context_take_wake(gcoll_context *context) {
    return atomic_load_explicit(&context->guard.woken, memory_order_relaxed) &&
           atomic_exchange_explicit(&context->guard.woken, false, memory_order_acquire);
}
static inline bool gcoll_is_forked(const gcoll_context *context) {
    return context->guard.forks != gcoll_forks;
}
/* Identifies this thread. */
static inline uintptr_t gcoll_this_thread(void) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
    return (uintptr_t)__builtin_thread_pointer(); /* one instruction instead of a call */
#else
    return (uintptr_t)pthread_self();
#endif
}
/* Claims the context for this thread, if it is not special. */
static inline gcoll_status gcoll_claim(gcoll_context *context) {
    uintptr_t nobody = 0;
    if (gcoll_is_forked(context) ||
        !atomic_compare_exchange_strong_explicit(&context->guard.caller, &nobody, gcoll_this_thread(),
                                                 memory_order_acquire, memory_order_relaxed))
        return gcoll_refuse_call(context);
    return GCOLL_OK;
}
/* Every public call that touches the state of modules or of the endpoint begins with gcoll_enter and ends
 * with gcoll_leave. In between, no public function is called on the same context. If gcoll_enter fails, the
 * call does nothing and does not leave. */
static inline gcoll_status gcoll_enter(gcoll_context *context) {
    return context->guard.is_special ? gcoll_enter_special(context) : gcoll_claim(context);
}
static inline void gcoll_leave(gcoll_context *context) {
    if (context->guard.is_special)
        gcoll_leave_special(context);
    else
        atomic_store_explicit(&context->guard.caller, 0, memory_order_release);
}

/* ---- Memory, log, options (context.c) ------------------------------------------------------ */

void gcoll_log(gcoll_context *context, gcoll_log_level level, const char *format, ...) GCOLL_PRINTF(3, 4);
/* Used if options.allocator is not set. */
extern const gcoll_allocator gcoll_default_allocator;
/* Memory aligned to a cache line, or NULL with the last error set. */
void *gcoll_allocate(gcoll_context *context, uint64_t bytes);
/* As gcoll_allocate, zeroed. */
void *gcoll_allocate_zeroed(gcoll_context *context, uint64_t bytes);
void gcoll_release(gcoll_context *context, void *memory, uint64_t bytes);
/* Reads an options struct of any earlier version of the library. The struct starts with its size, and
 * that many bytes are copied. The rest of `to` stays zero, which means default. first_size is the size of
 * the first version. from may be NULL. */
gcoll_status gcoll_options_read(void *to, size_t size, size_t first_size, const void *from);
/* As gcoll_options_read, for a struct that options point to. Errors use `name`:
 * "options.memory->struct_size". */
gcoll_status gcoll_options_read_named(void *to, size_t size, size_t first_size, const void *from,
                                      const char *name);

/* The longest timeout of contexts and operations: a day. */
#define GCOLL_TIMEOUT_MAX_MS INT64_C(86400000)
#define GCOLL_NEVER_MS       (INT64_MAX / 4)
/* Checks a timeout of options. GCOLL_ERR_INVALID, naming the option, if it is out of range. */
gcoll_status gcoll_timeout_check(const char *name, int64_t timeout_ms);
/* The timeout in effect for a timeout of options; GCOLL_NEVER_MS if there is none. */
static inline int64_t gcoll_timeout_of(const gcoll_context *context, int64_t timeout_ms) {
    return timeout_ms == 0 ? context->settings.timeout_ms : timeout_ms < 0 ? GCOLL_NEVER_MS : timeout_ms;
}
/* The shorter of two timeouts of options. */
static inline int64_t gcoll_shorter_timeout(const gcoll_context *context, int64_t a_ms, int64_t b_ms) {
    return gcoll_timeout_of(context, a_ms) <= gcoll_timeout_of(context, b_ms) ? a_ms : b_ms;
}

/* ---- Health (health.c) --------------------------------------------------------------------- */

/* Breaks the context with this cause, unless it is broken already. It may be called in the middle of the
 * transport's work, so the peers are told later, by gcoll_context_settle. */
void gcoll_break(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *format, ...)
    GCOLL_PRINTF(4, 5);
/* Breaks the context with a cause that rank `from` reported. */
void gcoll_break_reported(gcoll_context *context, const gcoll_note *note, uint32_t from);
/* Breaks the context if `status` is GCOLL_ERR_NO_MEMORY and there are other ranks; the last error is the
 * cause. Returns `status`. */
gcoll_status gcoll_run_out(gcoll_context *context, gcoll_status status);
/* Tells the peers of a broken context, once. Returns its status, with the cause as last error. */
gcoll_status gcoll_context_tell(gcoll_context *context);
/* Breaks the context because the caller aborted it. */
void gcoll_context_take_abort(gcoll_context *context);
static inline void gcoll_context_heed_abort(gcoll_context *context) {
    if (atomic_load_explicit(&context->health.abort_state, memory_order_acquire) == 2)
        gcoll_context_take_abort(context);
}
/* Takes a pending abort, and tells the peers if the context is broken. Returns the context's status, with
 * the cause as last error. */
static inline gcoll_status gcoll_context_settle(gcoll_context *context) {
    gcoll_context_heed_abort(context);
    return context->health.broken ? gcoll_context_tell(context) : GCOLL_OK;
}

/* ---- Streams of the transport: operations by sequence number, pairs by tag ----------------- */

#define GCOLL_STREAM_TAG     (UINT64_C(1) << 63)
#define GCOLL_STREAM_ACCESS  (UINT64_C(1) << 62)                     /* plus the number of the access */
#define GCOLL_STREAM_ARRIVAL (UINT64_C(1) << 61)                     /* messages of the monitor */
#define GCOLL_STREAM_ROLL    (UINT64_C(1) << 60)                     /* messages of barrier reports */
#define GCOLL_STREAM_LEARN   (GCOLL_STREAM_ROLL | UINT64_C(1) << 59) /* messages of learning */
/* With GCOLL_STREAM_TAG: tags of gcoll_context_create_group, which never match those of pairs. */
#define GCOLL_STREAM_MEMBERS (UINT64_C(1) << 59)

/* Adds the lines of gcoll_context_lanes. Within a call. */
void gcoll_context_describe_lanes(const gcoll_context *context, gcoll_text *said);

#endif
