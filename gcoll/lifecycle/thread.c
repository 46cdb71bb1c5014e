/*
 * gcoll/lifecycle/thread.c - a context's own thread, which makes progress while nobody is in a gcoll call.
 *
 * A calling thread drives the context itself, as it does without the progress thread, so blocking calls cost
 * no thread switch. Between calls the progress thread drives it while work is in flight or this rank has
 * regions. Then it blocks in the transport; a caller wakes it and takes over. Otherwise it polls now and
 * then, to answer the probes of peers.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/live/live.h"
#include "gcoll/rendezvous/rendezvous.h"

#define LOOK_MS  100    /* interval of its polls while there is nothing to do */
#define SLICE_US 100000 /* longest wait in the transport */

typedef struct gcoll_thread {
    gcoll_driver driver; /* must be the first member: thread_of casts it */
    gcoll_context *context;
    pthread_t id;
    /* Guards the context. A caller holds it while it is inside gcoll (recursively for a call within a call),
     * and the thread while it drives. */
    pthread_mutex_t lock;
    pthread_cond_t resume; /* the thread waits here, with the lock, until there is something to do */
    atomic_uint callers;   /* inside gcoll, or about to be */
    atomic_bool driving;   /* the thread is in the transport, or about to be */
    bool stop;             /* under the lock */
} gcoll_thread;

static gcoll_thread *thread_of(gcoll_driver *driver) {
    return (gcoll_thread *)(void *)driver;
}

static void enter(gcoll_driver *driver) {
    gcoll_thread *thread = thread_of(driver);
    /* Both sides write their own flag before they read the other's. So either this call sees that the thread
     * drives, or the thread sees that there is a caller. */
    atomic_fetch_add(&thread->callers, 1);
    if (atomic_load(&thread->driving))
        thread->context->transport->wake(thread->context->endpoint);
    pthread_mutex_lock(&thread->lock);
}

static bool is_current(const gcoll_driver *driver) {
    return pthread_equal(((const gcoll_thread *)(const void *)driver)->id, pthread_self());
}

static void leave(gcoll_driver *driver) {
    gcoll_thread *thread = thread_of(driver);
    if (atomic_fetch_sub(&thread->callers, 1) == 1 && gcoll_live_has_work(thread->context))
        pthread_cond_signal(&thread->resume);
    pthread_mutex_unlock(&thread->lock);
}

/* Waits for a signal; true if the time passed without one. */
static bool rest(gcoll_thread *thread) {
    int64_t until_ns = gcoll_now_ns() + LOOK_MS * INT64_C(1000000);
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    return pthread_cond_timedwait(&thread->resume, &thread->lock, &until) != 0;
}

static void *work(void *arg) {
    gcoll_thread *thread = arg;
    gcoll_context *context = thread->context;
    pthread_mutex_lock(&thread->lock);
    while (!thread->stop) {
        atomic_store(&thread->driving, !context->health.broken && gcoll_live_has_work(context));
        bool drives = atomic_load(&thread->driving) && atomic_load(&thread->callers) == 0;
        if (drives)
            gcoll_progress(context, SLICE_US);
        atomic_store(&thread->driving, false);
        if (!drives && rest(thread) && !thread->stop && !context->health.broken)
            gcoll_progress(context, 0);
        if (!thread->stop) /* checked in each pass, as a busy thread never rests */
            gcoll_rendezvous_keep_if_due(context);
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

static bool init_lock(gcoll_thread *thread) {
    pthread_mutexattr_t recursive;
    pthread_condattr_t monotonic;
    if (pthread_mutexattr_init(&recursive) != 0)
        return false;
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    bool made = pthread_mutex_init(&thread->lock, &recursive) == 0;
    pthread_mutexattr_destroy(&recursive);
    if (!made || pthread_condattr_init(&monotonic) != 0)
        goto failed;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    bool done = pthread_cond_init(&thread->resume, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    if (done)
        return true;
failed:
    if (made)
        pthread_mutex_destroy(&thread->lock);
    return false;
}

gcoll_status gcoll_thread_start(gcoll_context *context) {
    gcoll_thread *thread = calloc(1, sizeof *thread);
    sigset_t all, before;
    if (!thread || !init_lock(thread)) {
        free(thread);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.progress_thread: no memory for a thread");
    }
    thread->context = context;
    thread->driver = (gcoll_driver){enter, leave, is_current};
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&thread->lock); /* the thread starts only after guard.driver is set */
    int error = pthread_create(&thread->id, NULL, work, thread);
    if (error == 0)
        context->guard.driver = &thread->driver;
    pthread_mutex_unlock(&thread->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        pthread_cond_destroy(&thread->resume);
        pthread_mutex_destroy(&thread->lock);
        free(thread);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.progress_thread: the system gives no thread (%d)",
                           error);
    }
    return GCOLL_OK;
}

void gcoll_thread_stop(gcoll_context *context) {
    if (!context->guard.driver)
        return;
    gcoll_thread *thread = thread_of(context->guard.driver);
    enter(&thread->driver);
    thread->stop = true;
    pthread_cond_signal(&thread->resume);
    leave(&thread->driver);
    pthread_join(thread->id, NULL);
    context->guard.driver = NULL;
    pthread_cond_destroy(&thread->resume);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

/* Drops the thread in a forked child, where it does not run. False if its lock is held: the context was in
 * use at the fork. The condition variable is not destroyed, as that would wait for the thread. */
bool gcoll_thread_abandon(gcoll_context *context) {
    gcoll_thread *thread = context->guard.driver ? thread_of(context->guard.driver) : NULL;
    if (thread && pthread_mutex_trylock(&thread->lock) != 0)
        return false;
    context->guard.driver = NULL;
    free(thread);
    return true;
}
