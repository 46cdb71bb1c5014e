/*
 * gcoll/context/guard.c - refuses calls on a context by a second thread, by a callback, or in a forked
 * child.
 *
 * gcoll_enter (context.h) checks each call. This file writes the error of a refused call.
 */
#include "gcoll/context/context.h"

gcoll_status gcoll_refuse_call(const gcoll_context *context) {
    const gcoll_guard *guard = &context->guard;
    if (gcoll_is_forked(context))
        return gcoll_error(
            GCOLL_ERR_STATE,
            "this context belongs to process %ld, from which this one was forked; a child makes a "
            "context of its own",
            guard->process);
    if ((guard->driver && guard->driver->is_current(guard->driver)) ||
        atomic_load_explicit(&guard->caller, memory_order_relaxed) == gcoll_this_thread())
        return gcoll_error(
            GCOLL_ERR_STATE,
            "context: rank %u is inside a gcoll call on it already; a callback (user operation, log, "
            "allocator, store) must not call gcoll on the context that calls it",
            context->rank);
    return gcoll_error(
        GCOLL_ERR_STATE,
        "context: another thread of rank %u is inside a gcoll call on it; a context is used by one "
        "thread at a time",
        context->rank);
}

gcoll_status gcoll_claim_driven(gcoll_context *context) {
    const gcoll_driver *driver = context->guard.driver;
    const bool calls_itself = !gcoll_is_forked(context) && driver->is_current(driver);
    return calls_itself ? gcoll_refuse_call(context) : gcoll_claim(context);
}

gcoll_status gcoll_enter_driven(gcoll_context *context) {
    gcoll_status status = gcoll_claim_driven(context);
    if (status == GCOLL_OK)
        context->guard.driver->enter(context->guard.driver);
    return status;
}
