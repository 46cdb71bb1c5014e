/*
 * gcoll/context/guard.c - refuses calls on a context by a second thread, by a callback, or in a forked
 * child.
 *
 * gcoll_enter (context.h) checks each call. This file writes the error of a refused call. If the context has
 * a driver, a second thread is not refused: it enters when the first one has left or waits.
 */
#include "gcoll/context/context.h"

bool gcoll_calls_itself(const gcoll_context *context) {
    const gcoll_guard *guard = &context->guard;
    return (guard->driver && guard->driver->is_current(guard->driver)) ||
           atomic_load_explicit(&guard->caller, memory_order_relaxed) == gcoll_this_thread();
}

gcoll_status gcoll_refuse_call(const gcoll_context *context) {
    const gcoll_guard *guard = &context->guard;
    if (gcoll_is_forked(context))
        return gcoll_error(
            GCOLL_ERR_STATE,
            "this context belongs to process %ld, from which this one was forked; a child makes a "
            "context of its own",
            guard->process);
    if (gcoll_calls_itself(context))
        return gcoll_error(
            GCOLL_ERR_STATE,
            "context: rank %u is inside a gcoll call on it already; a callback (user operation, done, log, "
            "allocator, store) must not call gcoll on the context that calls it",
            context->rank);
    return gcoll_error(GCOLL_ERR_STATE,
                       guard->driver ? "context: another thread of rank %u is inside a gcoll call on it"
                                     : "context: another thread of rank %u is inside a gcoll call on it; a "
                                       "context without options.progress_thread is used by one thread at a "
                                       "time",
                       context->rank);
}

gcoll_status gcoll_enter_driven(gcoll_context *context) {
    gcoll_driver *driver = context->guard.driver;
    if (gcoll_is_forked(context) || gcoll_calls_itself(context))
        return gcoll_refuse_call(context);
    const gcoll_status status = driver->enter(driver);
    if (status == GCOLL_OK)
        atomic_store_explicit(&context->guard.caller, gcoll_this_thread(), memory_order_relaxed);
    return status;
}

gcoll_status gcoll_claim_last(gcoll_context *context) {
    gcoll_driver *driver = context->guard.driver;
    if (!driver)
        return gcoll_claim(context);
    if (gcoll_is_forked(context) || gcoll_calls_itself(context) || !driver->close(driver))
        return gcoll_refuse_call(context);
    atomic_store_explicit(&context->guard.caller, gcoll_this_thread(), memory_order_relaxed);
    return GCOLL_OK;
}
