/*
 * gcoll/context/guard.h - who is inside a context: the calling thread, threads that take turns by a driver,
 * and contexts that share connections. What is done with it stands in context.h.
 */
#ifndef GCOLL_CONTEXT_GUARD_H
#define GCOLL_CONTEXT_GUARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gcoll/base/fork.h"
#include "gcoll/status.h"

/* Drives a context between calls: a progress thread (lifecycle/thread.c). It lets several threads into calls,
 * and one at a time works on the context. One of the threads that wait leads: it drives the context for all,
 * and steps aside for a thread that wants to enter. The others follow: they sleep until something has ended.
 */
typedef struct gcoll_driver gcoll_driver;
struct gcoll_driver {
    /* Waits until the caller may drive the context itself. GCOLL_ERR_STATE if a callback of another context
     * calls and has waited for long. */
    gcoll_status (*enter)(gcoll_driver *driver);
    void (*leave)(gcoll_driver *driver);
    bool (*is_current)(const gcoll_driver *driver); /* the driver's thread calls, from a callback */
    /* Claims the context for its destruction. False, and nothing changes, if a thread is inside a call. */
    bool (*close)(gcoll_driver *driver);
    /* Makes the driver's thread look for work. From any thread. */
    void (*rouse)(gcoll_driver *driver);
    /* The three functions for a thread that waits inside a call. If `lead` returns true, this thread drives
     * the context for up to *wait_us and then calls `led`, in which other threads may enter; *wait_us is
     * lowered to 0 if one wants to. If false, another thread leads, and this one calls `follow`: it sleeps
     * until something has ended (by_any: has moved) or the time is over, and others may enter meanwhile. */
    bool (*lead)(gcoll_driver *driver, int64_t *wait_us);
    void (*led)(gcoll_driver *driver, bool moved);
    void (*follow)(gcoll_driver *driver, int64_t wait_us, bool by_any);
    bool ended;  /* something that a follower may wait for has ended since the followers were last told */
    bool unread; /* a message or run has ended since the descriptor of gcoll_context_fd was signalled */
};

/* Contexts of this process that share connections: one thread at a time is inside any of them. */
typedef struct gcoll_family {
    atomic_uintptr_t caller; /* that thread; 0: none */
    atomic_uint members;     /* frees it when it falls to 0 */
} gcoll_family;

/* The claim on a context by the calling thread (guard.c). */
typedef struct gcoll_guard {
    uint32_t forks;          /* gcoll_forks of the process that the context belongs to */
    long process;            /* its process id, for messages */
    atomic_uintptr_t caller; /* the thread inside a gcoll call on this context; 0: none */
    bool is_special;         /* it has one of these: gcoll_enter_special */
    gcoll_family *family;    /* contexts that share connections; NULL: none */
    gcoll_driver *driver;    /* NULL: no progress thread */
    /* For calls from any thread (wake.c): */
    pthread_mutex_t gate; /* guards what follows; endpoint and driver stay while it is held */
    bool is_closed;       /* the context is being destroyed */
    atomic_bool woken;    /* the next gcoll_wait_any returns GCOLL_WOKEN */
    atomic_bool untold;   /* the driver has not told waiting threads of the wake yet */
    bool has_event;
    gcoll_descriptor event; /* of gcoll_context_fd; a thread that writes the two is inside a call, too */
} gcoll_guard;

#endif
