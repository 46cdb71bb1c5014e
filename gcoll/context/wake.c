/*
 * gcoll/context/wake.c - calls from any thread: wake and abort, which make the threads inside a context look
 * around; and the descriptor that tells the caller's event loop of ended work.
 *
 * They take no lock that is held while somebody waits, so they never block for long, and a callback may make
 * them. They touch the endpoint under a lock of their own, which destruction takes before it closes the
 * endpoint.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gcoll/context/context.h"

bool gcoll_context_rouse(gcoll_context *context) {
    gcoll_guard *guard = &context->guard;
    pthread_mutex_lock(&guard->gate);
    const bool is_open = !guard->is_closed;
    if (is_open && context->endpoint)
        context->transport->wake(context->endpoint);
    if (is_open && guard->driver)
        guard->driver->rouse(guard->driver);
    if (is_open && guard->has_event)
        gcoll_context_signal(context);
    pthread_mutex_unlock(&guard->gate);
    return is_open;
}

gcoll_status gcoll_context_wake(gcoll_context *context) {
    if (!context)
        return gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
    if (gcoll_is_forked(context))
        return gcoll_refuse_call(context);
    atomic_store_explicit(&context->guard.woken, true, memory_order_release);
    atomic_store_explicit(&context->guard.untold, true, memory_order_release);
    return gcoll_context_rouse(context) ? GCOLL_OK
                                        : gcoll_error(GCOLL_ERR_STATE, "context: is being destroyed");
}

/* ---- A descriptor -------------------------------------------------------------------------- */

void gcoll_context_signal(gcoll_context *context) {
    const uint64_t one = 1;
    if (!context->guard.has_event)
        return;
    ssize_t written; /* fails only if it is readable for 2^64 - 1 reasons already */
    do
        written = write(context->guard.event.fd, &one, sizeof one);
    while (written < 0 && errno == EINTR);
}

void gcoll_context_close_event(gcoll_context *context) {
    gcoll_guard *guard = &context->guard;
    if (!guard->has_event)
        return;
    gcoll_fork_hold();
    gcoll_descriptor_leave(&guard->event);
    close(guard->event.fd);
    gcoll_fork_release();
    guard->has_event = false;
}

static gcoll_status make_event(gcoll_guard *guard) {
    gcoll_fork_hold();
    const int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* readable: something may have ended before */
    const int error = errno;
    if (fd >= 0)
        gcoll_descriptor_enter(&guard->event, fd);
    gcoll_fork_release();
    char text[GCOLL_ERRNO_TEXT_MAX];
    if (fd < 0)
        return gcoll_error(gcoll_status_of_errno(error), "fd: cannot make an eventfd: %s",
                           gcoll_errno_text(error, text));
    pthread_mutex_lock(&guard->gate);
    guard->has_event = true;
    pthread_mutex_unlock(&guard->gate);
    return GCOLL_OK;
}

gcoll_status gcoll_context_fd(gcoll_context *context, int *fd) {
    if (!context || !fd)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "fd" : "context");
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    if (!context->guard.driver)
        status =
            gcoll_error(GCOLL_ERR_UNSUPPORTED,
                        context->size == 1
                            ? "context: has one rank, whose operations end in the call that starts them"
                            : "context: was created without options.progress_thread, which works while the "
                              "caller waits for the descriptor");
    if (status == GCOLL_OK && !context->guard.has_event)
        status = make_event(&context->guard);
    if (status == GCOLL_OK)
        *fd = context->guard.event.fd;
    gcoll_leave(context);
    return status;
}
