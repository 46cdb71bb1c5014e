/*
 * gcoll/context/guard.c - refuses calls on a context by a second thread, by a callback, or in a forked
 * child.
 *
 * gcoll_enter (context.h) checks each call. This file writes the error of a refused call. If the context has
 * a driver, a second thread is not refused: it enters when the first one has left or waits.
 */
#include <stdlib.h>

#include "gcoll/context/context.h"

bool gcoll_calls_itself(const gcoll_context *context) {
    const gcoll_guard *guard = &context->guard;
    return (guard->driver && guard->driver->is_current(guard->driver)) ||
           atomic_load_explicit(guard->family ? &guard->family->caller : &guard->caller,
                                memory_order_relaxed) == gcoll_this_thread();
}

bool gcoll_is_claimed(const gcoll_context *context) {
    const gcoll_guard *guard = &context->guard;
    return atomic_load_explicit(guard->family ? &guard->family->caller : &guard->caller,
                                memory_order_relaxed) != 0;
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
            "context: rank %u is inside a gcoll call on it%s already; a callback (user operation, done, log, "
            "allocator, store) must not call gcoll on the context that calls it",
            context->rank, guard->family ? ", or on one that shares its connections," : "");
    if (guard->family)
        return gcoll_error(GCOLL_ERR_STATE,
                           "context: another thread of rank %u is inside a gcoll call on it, or on one that "
                           "shares its connections (options.share): all of them are used by one thread at a "
                           "time",
                           context->rank);
    return gcoll_error(GCOLL_ERR_STATE,
                       guard->driver ? "context: another thread of rank %u is inside a gcoll call on it"
                                     : "context: another thread of rank %u is inside a gcoll call on it; a "
                                       "context without options.progress_thread is used by one thread at a "
                                       "time",
                       context->rank);
}

static gcoll_status enter_family(gcoll_context *context) {
    uintptr_t nobody = 0;
    if (gcoll_is_forked(context) ||
        !atomic_compare_exchange_strong_explicit(&context->guard.family->caller, &nobody, gcoll_this_thread(),
                                                 memory_order_acquire, memory_order_relaxed))
        return gcoll_refuse_call(context);
    return GCOLL_OK;
}

gcoll_status gcoll_enter_special(gcoll_context *context) {
    gcoll_driver *driver = context->guard.driver;
    if (!driver)
        return enter_family(context);
    if (gcoll_is_forked(context) || gcoll_calls_itself(context))
        return gcoll_refuse_call(context);
    const gcoll_status status = driver->enter(driver);
    if (status == GCOLL_OK)
        atomic_store_explicit(&context->guard.caller, gcoll_this_thread(), memory_order_relaxed);
    return status;
}

void gcoll_leave_special(gcoll_context *context) {
    gcoll_driver *driver = context->guard.driver;
    gcoll_family *family = context->guard.family;
    if (family) {
        atomic_store_explicit(&family->caller, 0, memory_order_release);
        return;
    }
    atomic_store_explicit(&context->guard.caller, 0, memory_order_release);
    if (driver)
        driver->leave(driver);
}

void gcoll_set_driver(gcoll_context *context, gcoll_driver *driver) {
    context->guard.driver = driver;
    context->guard.is_special = driver != NULL;
}

gcoll_status gcoll_claim_last(gcoll_context *context) {
    gcoll_driver *driver = context->guard.driver;
    if (!driver)
        return gcoll_enter(context);
    if (gcoll_is_forked(context) || gcoll_calls_itself(context) || !driver->close(driver))
        return gcoll_refuse_call(context);
    atomic_store_explicit(&context->guard.caller, gcoll_this_thread(), memory_order_relaxed);
    return GCOLL_OK;
}

/* ---- Contexts that share connections -------------------------------------------------------- */

gcoll_status gcoll_family_found(gcoll_context *context) {
    gcoll_family *family = calloc(1, sizeof *family);
    if (!family)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a context");
    gcoll_family_join(context, family);
    return GCOLL_OK;
}

void gcoll_family_join(gcoll_context *context, gcoll_family *family) {
    atomic_fetch_add_explicit(&family->members, 1, memory_order_relaxed);
    context->guard.family = family;
    context->guard.is_special = true;
}

void gcoll_family_leave(gcoll_context *context, bool is_inside) {
    gcoll_family *family = context->guard.family;
    if (!family)
        return;
    context->guard.family = NULL;
    context->guard.is_special = false;
    if (is_inside)
        atomic_store_explicit(&family->caller, 0, memory_order_release);
    if (atomic_fetch_sub_explicit(&family->members, 1, memory_order_acq_rel) == 1)
        free(family);
}
