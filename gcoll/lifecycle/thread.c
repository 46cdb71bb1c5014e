/*
 * gcoll/lifecycle/thread.c - a context's progress thread, which drives the context while no thread is in a
 * gcoll call; and how several calling threads share the context.
 *
 * A calling thread drives the context itself, as it does without the progress thread, so blocking calls cost
 * no thread switch. Between calls the progress thread drives it while work is in flight or this rank has
 * regions. Then it blocks in the transport; a caller wakes it and takes over. Otherwise it polls now and
 * then, to answer the probes of peers.
 *
 * Several threads may be inside calls; one lock guards the context. The first of them that waits is the
 * leader: it keeps the lock while it sleeps in the transport. A thread that wants the lock wakes the leader.
 * The leader then gives way: before it goes on, it lets in all threads that want to enter. Further threads
 * that wait are followers: they sleep without the lock. The leader wakes them when something has ended. When
 * the leader's own wait is over, one of the followers becomes the leader.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/live/live.h"
#include "gcoll/rendezvous/rendezvous.h"

#define LOOK_MS     100    /* interval of its polls while there is nothing to do */
#define SLICE_US    100000 /* longest wait in the transport */
#define NESTED_PART 4      /* a callback of another context waits for this part of the timeout */
#define NESTED_US   500    /* between two tries of such a callback */

/* Driven contexts whose lock this thread holds, or may hold again without asking. More than 0 at a call on
 * another context: a callback calls. If callbacks of two contexts call each other's context, each waits for a
 * lock that the other holds. */
static _Thread_local uint32_t contexts_inside;

typedef struct gcoll_thread {
    gcoll_driver driver; /* must be the first member: thread_of casts it */
    gcoll_context *context;
    pthread_t id;
    /* Guards the context. A caller holds it while it is inside gcoll and does not follow or give way
     * (recursively for a call within a call), and the thread while it drives. */
    pthread_mutex_t lock;
    atomic_uint callers; /* inside gcoll, or about to be */
    atomic_uint wanting; /* callers that wait for the lock */
    atomic_bool driving; /* the thread or the leader is in the transport, or about to be */
    /* Under the lock: */
    uintptr_t leader; /* 0: there is none */
    uint32_t followers;
    uint32_t curious; /* followers that want to know of any movement */
    uint32_t entries; /* how often a thread that wanted the lock has got it */
    bool gives_way;   /* the leader waits for `entered` */
    bool has_broken;  /* the descriptor was signalled because the context broke */
    bool stop;
    pthread_cond_t entered; /* with lock: another entry */

    /* Guards what threads sleep on without the lock above; held for moments. */
    pthread_mutex_t bell_lock;
    pthread_cond_t bell; /* the thread waits here until there is something to do */
    bool rung;
    pthread_cond_t news; /* followers wait here */
    uint32_t told;       /* how often they were told that something has ended */
} gcoll_thread;

static gcoll_thread *thread_of(gcoll_driver *driver) {
    return (gcoll_thread *)(void *)driver;
}

/* ---- Sleeping without the context's lock --------------------------------------------------- */

static void rouse(gcoll_driver *driver) {
    gcoll_thread *thread = thread_of(driver);
    pthread_mutex_lock(&thread->bell_lock);
    thread->rung = true;
    pthread_cond_signal(&thread->bell);
    pthread_mutex_unlock(&thread->bell_lock);
}

static void tell_followers(gcoll_thread *thread) {
    thread->driver.ended = false;
    atomic_exchange(&thread->context->guard.untold, false);
    pthread_mutex_lock(&thread->bell_lock);
    thread->told++;
    pthread_cond_broadcast(&thread->news);
    pthread_mutex_unlock(&thread->bell_lock);
}

static struct timespec after_us(int64_t us) {
    const int64_t until_ns = gcoll_now_ns() + us * 1000;
    return (struct timespec){.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
}

/* ---- Callers ------------------------------------------------------------------------------- */

/* Both sides write their own flag before they read the other's. So either this caller sees that a thread
 * drives, or the thread that is about to drive sees that a caller wants the lock. */
static void want_lock(gcoll_thread *thread) {
    atomic_fetch_add(&thread->wanting, 1);
    if (atomic_load(&thread->driving))
        thread->context->transport->wake(thread->context->endpoint);
}

static void have_lock(gcoll_thread *thread) {
    atomic_fetch_sub(&thread->wanting, 1);
    thread->entries++;
    if (thread->gives_way)
        pthread_cond_signal(&thread->entered);
}

static void take_lock(gcoll_thread *thread) {
    want_lock(thread);
    pthread_mutex_lock(&thread->lock);
    have_lock(thread);
}

/* For a callback of another context, whose lock this thread keeps meanwhile. False if the time is over. */
static bool try_lock(gcoll_thread *thread, int64_t limit_ms) {
    const int64_t end_ms = gcoll_now_ms() + limit_ms;
    want_lock(thread);
    while (pthread_mutex_trylock(&thread->lock) != 0) {
        if (gcoll_now_ms() >= end_ms) {
            atomic_fetch_sub(&thread->wanting, 1);
            return false;
        }
        usleep(NESTED_US);
    }
    have_lock(thread);
    return true;
}

static gcoll_status enter(gcoll_driver *driver) {
    gcoll_thread *thread = thread_of(driver);
    const gcoll_context *context = thread->context;
    atomic_fetch_add(&thread->callers, 1);
    if (contexts_inside == 0) {
        take_lock(thread);
    } else if (!try_lock(thread, context->settings.timeout_ms / NESTED_PART)) {
        atomic_fetch_sub(&thread->callers, 1);
        return gcoll_error(GCOLL_ERR_STATE,
                           "context: a thread of rank %u, or a callback, was inside a gcoll call on it for "
                           "%lld ms; a callback of another context waits no longer, because that context "
                           "stands still meanwhile",
                           context->rank, (long long)(context->settings.timeout_ms / NESTED_PART));
    }
    contexts_inside++;
    return GCOLL_OK;
}

static bool is_current(const gcoll_driver *driver) {
    return pthread_equal(((const gcoll_thread *)(const void *)driver)->id, pthread_self());
}

static bool has_news(const gcoll_thread *thread) {
    const gcoll_context *context = thread->context;
    return thread->driver.ended || context->health.broken ||
           atomic_load_explicit(&context->guard.untold, memory_order_acquire);
}

/* Makes the descriptor of gcoll_context_fd readable if something has ended. */
static void signal_event(gcoll_thread *thread) {
    const bool is_broken = thread->context->health.broken;
    if (!thread->driver.unread && is_broken == thread->has_broken)
        return;
    thread->driver.unread = false;
    thread->has_broken = is_broken;
    gcoll_context_signal(thread->context);
}

static void leave(gcoll_driver *driver) {
    gcoll_thread *thread = thread_of(driver);
    contexts_inside--;
    signal_event(thread);
    const uintptr_t self = gcoll_this_thread();
    /* A callback that only asks for the health leaves in the middle of its thread's call. */
    const bool led = thread->leader == self &&
                     atomic_load_explicit(&thread->context->guard.caller, memory_order_relaxed) != self;
    if (led)
        thread->leader = 0;
    if (thread->followers > 0 && (led || has_news(thread)))
        tell_followers(thread); /* one of them may have to lead */
    const bool is_last = atomic_fetch_sub(&thread->callers, 1) == 1;
    const bool hands_over = is_last && gcoll_live_has_work(thread->context);
    pthread_mutex_unlock(&thread->lock);
    if (hands_over)
        rouse(driver);
}

static bool close_to_all(gcoll_driver *driver) {
    unsigned nobody = 0;
    return atomic_compare_exchange_strong(&thread_of(driver)->callers, &nobody, 1);
}

/* ---- Waiting callers ----------------------------------------------------------------------- */

/* This thread does not count as the caller inside the context while others have the lock. */
static void step_out(gcoll_thread *thread) {
    atomic_store_explicit(&thread->context->guard.caller, 0, memory_order_relaxed);
}

static void step_in(gcoll_thread *thread) {
    atomic_store_explicit(&thread->context->guard.caller, gcoll_this_thread(), memory_order_relaxed);
}

static bool lead(gcoll_driver *driver, int64_t *wait_us) {
    gcoll_thread *thread = thread_of(driver);
    const uintptr_t self = gcoll_this_thread();
    if (thread->leader != 0 && thread->leader != self)
        return false;
    thread->leader = self;
    signal_event(thread); /* for runs that the leader has finished itself */
    if (thread->followers > 0 && has_news(thread))
        tell_followers(thread);
    atomic_store(&thread->driving, true);
    if (atomic_load(&thread->wanting) > 0)
        *wait_us = 0;
    return true;
}

/* Lets in all threads that wanted to enter when this was called. A thread that stops wanting tells nobody. */
static void give_way(gcoll_thread *thread) {
    const uint32_t until = thread->entries + atomic_load(&thread->wanting);
    step_out(thread);
    thread->gives_way = true;
    while ((int32_t)(thread->entries - until) < 0 && atomic_load(&thread->wanting) > 0) {
        const struct timespec look = after_us(SLICE_US);
        pthread_cond_timedwait(&thread->entered, &thread->lock, &look);
    }
    thread->gives_way = false;
    step_in(thread);
}

static void led(gcoll_driver *driver, bool moved) {
    gcoll_thread *thread = thread_of(driver);
    atomic_store(&thread->driving, false);
    signal_event(thread);
    if (thread->followers > 0 && ((moved && thread->curious > 0) || has_news(thread)))
        tell_followers(thread);
    if (atomic_load(&thread->wanting) > 0)
        give_way(thread);
}

static void follow(gcoll_driver *driver, int64_t wait_us, bool by_any) {
    gcoll_thread *thread = thread_of(driver);
    const struct timespec until = after_us(wait_us);
    thread->followers++;
    thread->curious += by_any;
    pthread_mutex_lock(&thread->bell_lock); /* tellers hold the lock above, so nothing is missed */
    const uint32_t told = thread->told;
    step_out(thread);
    pthread_mutex_unlock(&thread->lock);
    while (thread->told == told && pthread_cond_timedwait(&thread->news, &thread->bell_lock, &until) == 0)
        continue;
    pthread_mutex_unlock(&thread->bell_lock);
    take_lock(thread);
    step_in(thread);
    thread->curious -= by_any;
    thread->followers--;
}

/* ---- The thread ---------------------------------------------------------------------------- */

/* Lets callers in until the bell rings; true if the time passed without that. */
static bool rest(gcoll_thread *thread) {
    const struct timespec until = after_us(LOOK_MS * 1000);
    pthread_mutex_unlock(&thread->lock);
    pthread_mutex_lock(&thread->bell_lock);
    while (!thread->rung && pthread_cond_timedwait(&thread->bell, &thread->bell_lock, &until) == 0)
        continue;
    const bool rung = thread->rung;
    thread->rung = false;
    pthread_mutex_unlock(&thread->bell_lock);
    pthread_mutex_lock(&thread->lock);
    return !rung;
}

static void *work(void *arg) {
    gcoll_thread *thread = arg;
    gcoll_context *context = thread->context;
    contexts_inside = 1;
    pthread_mutex_lock(&thread->lock);
    while (!thread->stop) {
        atomic_store(&thread->driving, !context->health.broken && gcoll_live_has_work(context));
        bool drives = atomic_load(&thread->driving) && atomic_load(&thread->callers) == 0;
        if (drives)
            gcoll_progress(context, SLICE_US);
        atomic_store(&thread->driving, false);
        if (!drives && rest(thread) && !thread->stop && !context->health.broken)
            gcoll_progress(context, 0);
        if (!thread->stop) {               /* checked in each pass, as a busy thread never rests */
            gcoll_context_settle(context); /* sends an abort, whoever is inside */
            if (!context->health.broken)
                gcoll_live_tend(context);
            signal_event(thread);
            gcoll_rendezvous_keep_if_due(context);
        }
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

static bool init_condition(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    const bool done = pthread_cond_init(condition, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    return done;
}

static bool init_recursive(pthread_mutex_t *lock) {
    pthread_mutexattr_t recursive;
    if (pthread_mutexattr_init(&recursive) != 0)
        return false;
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    const bool made = pthread_mutex_init(lock, &recursive) == 0;
    pthread_mutexattr_destroy(&recursive);
    return made;
}

static bool init_locks(gcoll_thread *thread) {
    if (!init_recursive(&thread->lock))
        return false;
    if (pthread_mutex_init(&thread->bell_lock, NULL) != 0)
        goto no_bell_lock;
    if (!init_condition(&thread->entered))
        goto no_entered;
    if (!init_condition(&thread->bell))
        goto no_bell;
    if (init_condition(&thread->news))
        return true;
    pthread_cond_destroy(&thread->bell);
no_bell:
    pthread_cond_destroy(&thread->entered);
no_entered:
    pthread_mutex_destroy(&thread->bell_lock);
no_bell_lock:
    pthread_mutex_destroy(&thread->lock);
    return false;
}

static void destroy_locks(gcoll_thread *thread) {
    pthread_cond_destroy(&thread->news);
    pthread_cond_destroy(&thread->bell);
    pthread_cond_destroy(&thread->entered);
    pthread_mutex_destroy(&thread->bell_lock);
    pthread_mutex_destroy(&thread->lock);
}

gcoll_status gcoll_thread_start(gcoll_context *context) {
    gcoll_thread *thread = calloc(1, sizeof *thread);
    sigset_t all, before;
    if (!thread || !init_locks(thread)) {
        free(thread);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.progress_thread: no memory for a thread");
    }
    thread->context = context;
    thread->driver = (gcoll_driver){.enter = enter,
                                    .leave = leave,
                                    .is_current = is_current,
                                    .close = close_to_all,
                                    .rouse = rouse,
                                    .lead = lead,
                                    .led = led,
                                    .follow = follow};
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&thread->lock); /* the thread starts only after guard.driver is set */
    int error = pthread_create(&thread->id, NULL, work, thread);
    if (error == 0)
        gcoll_set_driver(context, &thread->driver);
    pthread_mutex_unlock(&thread->lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        destroy_locks(thread);
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
    atomic_fetch_add(&thread->callers, 1); /* as enter, but without its limit: callbacks have one */
    take_lock(thread);
    contexts_inside++;
    thread->stop = true;
    leave(&thread->driver);
    rouse(&thread->driver);
    pthread_join(thread->id, NULL);
    gcoll_set_driver(context, NULL);
    destroy_locks(thread);
    free(thread);
}

/* Drops the thread in a forked child, where it does not run. False if its lock is held or a caller was
 * inside: the context was in use at the fork. Condition variables are not destroyed, as that would wait for
 * the thread. */
bool gcoll_thread_abandon(gcoll_context *context) {
    gcoll_thread *thread = context->guard.driver ? thread_of(context->guard.driver) : NULL;
    if (thread && (atomic_load(&thread->callers) > 0 || pthread_mutex_trylock(&thread->lock) != 0))
        return false;
    gcoll_set_driver(context, NULL);
    free(thread);
    return true;
}
