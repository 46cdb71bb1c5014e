/*
 * gcoll/context/wake.c - calls from any thread that make the threads inside a context look around: wake and
 * abort.
 *
 * They take no lock that is held while somebody waits, so they never block for long, and a callback may make
 * them. They touch the endpoint under a lock of their own, which destruction takes before it closes the
 * endpoint.
 */
#include "gcoll/context/context.h"

bool gcoll_context_rouse(gcoll_context *context) {
    gcoll_guard *guard = &context->guard;
    pthread_mutex_lock(&guard->gate);
    const bool is_open = !guard->is_closed;
    if (is_open && context->endpoint)
        context->transport->wake(context->endpoint);
    if (is_open && guard->driver)
        guard->driver->rouse(guard->driver);
    pthread_mutex_unlock(&guard->gate);
    return is_open;
}

gcoll_status gcoll_context_wake(gcoll_context *context) {
    if (!context)
        return gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
    if (gcoll_is_forked(context))
        return gcoll_refuse_call(context);
    atomic_store_explicit(&context->guard.woken, true, memory_order_release);
    return gcoll_context_rouse(context) ? GCOLL_OK
                                        : gcoll_error(GCOLL_ERR_STATE, "context: is being destroyed");
}
