/*
 * gcoll/context/context.h - the context: what all modules share of a rank's membership in a group, and its
 * health.
 *
 * Each module keeps what is its own in a struct of its own, which hangs here by a pointer. No other module
 * reads its fields.
 */
#ifndef GCOLL_CONTEXT_CONTEXT_H
#define GCOLL_CONTEXT_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "gcoll/base/fork.h"
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
typedef struct gcoll_arrival gcoll_arrival;

/* What the options of a context said. Defaults are filled in. */
typedef struct gcoll_settings {
    int64_t timeout_ms;
    int64_t spin_us;
    int64_t silence_ms; /* 0: hosts are not looked at */
    gcoll_store *store;
    gcoll_store *owned_store; /* the same if the context opened it (environment.c), or NULL */
    char job[72];
    bool monitor;
    gcoll_same same;
    gcoll_endpoint_options endpoint; /* as opened */
    char *interface;                 /* that the endpoint's options name */
    gcoll_ibverbs_options ibverbs;   /* the same */
    char *ib_device;                 /* that these name */
    gcoll_log_fn log;
    void *log_arg;
    gcoll_allocator allocator;
} gcoll_settings;

/* What drives a context between calls, as calls see it: a thread (lifecycle/thread.c). It lets several
 * threads into calls, one at a time. Of those that wait, one leads: it drives the context for all, and steps
 * aside when another wants to enter. The others follow: they sleep until something has ended. */
typedef struct gcoll_driver gcoll_driver;
struct gcoll_driver {
    void (*enter)(gcoll_driver *driver); /* waits until the caller may drive the context itself */
    void (*leave)(gcoll_driver *driver);
    bool (*is_current)(const gcoll_driver *driver); /* it is the calling thread: then a callback calls */
    /* Lets nobody in from now on; false if somebody is inside, and then nothing changes. */
    bool (*close)(gcoll_driver *driver);
    /* From any thread: looks around soon. */
    void (*rouse)(gcoll_driver *driver);
    /* The three for a thread that is inside and waits. lead: whether it is to drive the context, up to
     * *wait_us, which is lowered if another thread wants to enter; `led` follows, in which others enter. If
     * not, it calls `follow`, which lets others in until something has ended (by_any: has moved) or the time
     * is over. */
    bool (*lead)(gcoll_driver *driver, int64_t *wait_us);
    void (*led)(gcoll_driver *driver, bool moved);
    void (*follow)(gcoll_driver *driver, int64_t wait_us, bool by_any);
    bool ended;  /* since followers were last told: something that one of them may wait for */
    bool unread; /* the same since the descriptor of gcoll_context_fd was made readable */
};

/* Who may call (guard.c). */
typedef struct gcoll_guard {
    uint32_t forks;          /* gcoll_forks of the process that the context belongs to */
    long process;            /* the id of that */
    atomic_uintptr_t caller; /* the thread that is in a gcoll call on it; 0: none is */
    gcoll_driver *driver;    /* NULL: there is none */
    /* For calls from any thread (wake.c): */
    pthread_mutex_t gate; /* guards what follows, and keeps endpoint and driver while it is held */
    bool is_closed;       /* the context is being destroyed */
    atomic_bool woken;    /* the next gcoll_wait_any returns GCOLL_WOKEN */
    bool has_event;
    gcoll_descriptor event; /* of gcoll_context_fd; both are written by a thread that is inside, too */
} gcoll_guard;

/* A context breaks once, for one cause (health.c). */
typedef struct gcoll_health {
    bool broken;
    bool told; /* peers know of it */
    gcoll_note cause;
    atomic_int abort_state; /* 0, 1 being written, 2 to be read by the context's thread */
    char abort_reason[GCOLL_NOTE_TEXT_MAX];
    /* Tells ranks that have no connection to this one. */
    void (*leave_cause)(gcoll_context *context);
    /* Nothing in flight is touched from now on: tells the callbacks that wait for its end. */
    void (*end_work)(gcoll_context *context);
} gcoll_health;

struct gcoll_context {
    uint32_t rank, size;
    const gcoll_transport *transport;
    gcoll_endpoint *endpoint; /* NULL if size is 1 */
    gcoll_settings settings;
    gcoll_guard guard;
    gcoll_health health;
    gcoll_rendezvous *rendezvous;
    gcoll_acceleration *acceleration; /* NULL: buffers lie in host memory */
    gcoll_live *live;
    gcoll_basis *basis; /* of choices (tuning/) */
    gcoll_calls *calls;
    gcoll_runs *runs;
    gcoll_oneside *oneside;
    const gcoll_hooks *hooks; /* of who watches blocking calls, or NULL */
    gcoll_arrival *arrival;   /* the monitor, or NULL */
};

/* ---- Who may call (guard.c) ---------------------------------------------------------------- */

/* Why a call is not allowed: GCOLL_ERR_STATE. */
gcoll_status gcoll_refuse_call(const gcoll_context *context);
/* Of a context that has a driver: takes over from it, after other threads that are inside. */
gcoll_status gcoll_enter_driven(gcoll_context *context);
/* To destroy the context: claims it for good. GCOLL_ERR_STATE if a thread is inside. */
gcoll_status gcoll_claim_last(gcoll_context *context);
/* From any thread: makes the threads that wait look around. False if the context is being destroyed. */
bool gcoll_context_rouse(gcoll_context *context);
/* Makes the descriptor of gcoll_context_fd readable, if there is one. Inside, or with the gate. */
void gcoll_context_signal(gcoll_context *context);
/* Closes it; also in a forked child. */
void gcoll_context_close_event(gcoll_context *context);
/* Whether gcoll_context_wake was called; then, once. */
static inline bool gcoll_context_take_wake(gcoll_context *context) {
    return atomic_load_explicit(&context->guard.woken, memory_order_relaxed) &&
           atomic_exchange_explicit(&context->guard.woken, false, memory_order_acquire);
}
static inline bool gcoll_is_forked(const gcoll_context *context) {
    return context->guard.forks != gcoll_forks;
}
/* A number that no other thread has. */
static inline uintptr_t gcoll_this_thread(void) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
    return (uintptr_t)__builtin_thread_pointer(); /* an instruction, and no call */
#else
    return (uintptr_t)pthread_self();
#endif
}
/* Makes this thread the one that is in a call. For a context without a driver. */
static inline gcoll_status gcoll_claim(gcoll_context *context) {
    uintptr_t nobody = 0;
    if (gcoll_is_forked(context) ||
        !atomic_compare_exchange_strong_explicit(&context->guard.caller, &nobody, gcoll_this_thread(),
                                                 memory_order_acquire, memory_order_relaxed))
        return gcoll_refuse_call(context);
    return GCOLL_OK;
}
/* Around each public call that touches what modules or the endpoint have; what is inside calls no public
 * function on the same context. Unless it is GCOLL_OK the call does nothing, and does not leave. */
static inline gcoll_status gcoll_enter(gcoll_context *context) {
    return context->guard.driver ? gcoll_enter_driven(context) : gcoll_claim(context);
}
static inline void gcoll_leave(gcoll_context *context) {
    gcoll_driver *driver = context->guard.driver;
    atomic_store_explicit(&context->guard.caller, 0, memory_order_release);
    if (driver)
        driver->leave(driver);
}

/* ---- Memory, log, options (context.c) ------------------------------------------------------ */

void gcoll_log(gcoll_context *context, gcoll_log_level level, const char *format, ...) GCOLL_PRINTF(3, 4);
/* For who gives no allocator. */
extern const gcoll_allocator gcoll_default_allocator;
/* Aligned to a cache line; NULL sets the last error. */
void *gcoll_allocate(gcoll_context *context, uint64_t bytes);
/* The same, zeroed. */
void *gcoll_allocate_zeroed(gcoll_context *context, uint64_t bytes);
void gcoll_release(gcoll_context *context, void *memory, uint64_t bytes);
/* Copies what the caller's version of an options struct has, its size standing first; the rest stays zero,
 * which means default. first_size is what the first version had. from may be NULL. */
gcoll_status gcoll_options_read(void *to, size_t size, size_t first_size, const void *from);
/* The same of a struct that options point to. Errors name the field: "options.memory->struct_size". */
gcoll_status gcoll_options_read_named(void *to, size_t size, size_t first_size, const void *from,
                                      const char *name);

/* A day, for contexts and operations alike. */
#define GCOLL_TIMEOUT_MAX_MS INT64_C(86400000)
#define GCOLL_NEVER_MS       (INT64_MAX / 4)
/* GCOLL_ERR_INVALID, which names it, unless it is a timeout as options have it. */
gcoll_status gcoll_timeout_check(const char *name, int64_t timeout_ms);
/* What a timeout of options comes to; GCOLL_NEVER_MS: there is none. */
static inline int64_t gcoll_timeout_of(const gcoll_context *context, int64_t timeout_ms) {
    return timeout_ms == 0 ? context->settings.timeout_ms : timeout_ms < 0 ? GCOLL_NEVER_MS : timeout_ms;
}
/* Of two timeouts as options have them. */
static inline int64_t gcoll_shorter_timeout(const gcoll_context *context, int64_t a_ms, int64_t b_ms) {
    return gcoll_timeout_of(context, a_ms) <= gcoll_timeout_of(context, b_ms) ? a_ms : b_ms;
}

/* ---- Health (health.c) --------------------------------------------------------------------- */

/* Breaks the context with this cause, unless it is broken already. The peers are told at the next
 * gcoll_context_settle, as this may be called in the middle of the transport's work. */
void gcoll_break(gcoll_context *context, gcoll_status status, uint32_t culprit, const char *format, ...)
    GCOLL_PRINTF(4, 5);
/* Breaks the context with the cause that another rank had. */
void gcoll_break_reported(gcoll_context *context, const gcoll_note *note, uint32_t from);
/* Breaks the context for what this rank lacks, which the last error says. Of any other status, or of a rank
 * by itself, nothing: returns it. */
gcoll_status gcoll_run_out(gcoll_context *context, gcoll_status status);
/* Of a broken context: tells the peers, once. Returns its status, with the cause as last error. */
gcoll_status gcoll_context_tell(gcoll_context *context);
/* The caller has aborted: breaks the context. */
void gcoll_context_take_abort(gcoll_context *context);
static inline void gcoll_context_heed_abort(gcoll_context *context) {
    if (atomic_load_explicit(&context->health.abort_state, memory_order_acquire) == 2)
        gcoll_context_take_abort(context);
}
/* Tells the peers if the context broke, and drops what is in flight. Returns the context's status, with the
 * cause as last error. */
static inline gcoll_status gcoll_context_settle(gcoll_context *context) {
    gcoll_context_heed_abort(context);
    return context->health.broken ? gcoll_context_tell(context) : GCOLL_OK;
}

/* ---- Streams: operations by their sequence, pairs by their tag ------------------------------ */

#define GCOLL_STREAM_TAG     (UINT64_C(1) << 63)
#define GCOLL_STREAM_ACCESS  (UINT64_C(1) << 62) /* and the number of the access */
#define GCOLL_STREAM_ARRIVAL (UINT64_C(1) << 61) /* of the monitor */

#endif
