/* gcoll/lifecycle/destroy.c - the end of a context: in good order, broken, or in a forked child. */
#include <stdlib.h>

#include "gcoll/accelerate/accelerate.h"
#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/monitor/monitor.h"
#include "gcoll/oneside/oneside.h"
#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/run/run.h"

#define LEAVE_LIMIT_MS 1000 /* for what was sent to arrive, and for what the store is told */
#define LEAVE_LEAST_MS 200

/* In a forked child: makes the context one without endpoint, store, devices and thread. False if somebody was
 * in the middle of something when the process forked: then it must be left as it is. */
static bool abandon(gcoll_context *context) {
    if (atomic_load_explicit(&context->guard.caller, memory_order_relaxed) != 0 ||
        !gcoll_thread_abandon(context))
        return false;
    if (context->acceleration) {
        gcoll_memory_abandon(context->acceleration);
        gcoll_runs_forget_devices(context);
    }
    context->health.broken =
        true; /* nothing is told, and nothing done, that a context in order does on leaving */
    context->health.told = true;
    context->settings.log = NULL;
    context->health.cause = (gcoll_note){.status = GCOLL_ERR_STATE, .culprit = GCOLL_NO_RANK};
    gcoll_rendezvous_abandon(context);
    if (context->endpoint)
        context->transport->abandon(context->endpoint);
    context->endpoint = NULL;
    return true;
}

static gcoll_status claim(gcoll_context *context) {
    return context->guard.driver ? gcoll_claim_driven(context) : gcoll_claim(context);
}

/* What comes first, the store or messages that are late, may have taken most of the time; what comes then
 * gets a little all the same. */
static int64_t leave_left_ms(int64_t began_ms) {
    const int64_t left = began_ms + LEAVE_LIMIT_MS - gcoll_now_ms();
    return left > LEAVE_LEAST_MS ? left : LEAVE_LEAST_MS;
}

void gcoll_context_destroy(gcoll_context *context) {
    if (!context)
        return;
    const int64_t began_ms = gcoll_now_ms();
    /* A context that another thread or a callback is using is not freed: a leak is better than a use after
     * free. gcoll_last_error says who uses it. */
    if (gcoll_is_forked(context) ? !abandon(context) : claim(context) != GCOLL_OK)
        return;
    gcoll_thread_stop(context);
    if (!gcoll_is_forked(context))
        gcoll_monitor_linked.print(context);
    if (gcoll_live_in_flight(context)) /* each run that is not done has a request */
        gcoll_break(context, GCOLL_ERR_PEER, context->rank,
                    "rank %u destroyed its context with work in flight", context->rank);
    gcoll_context_settle(context); /* also for an abort that nobody has noticed yet */
    gcoll_runs_stop(context);
    /* Who meets a closed door looks for the cause in the store, so that goes first; a rank that leaves in
     * good order takes its address away after what it sent has arrived. */
    if (context->health.broken)
        gcoll_rendezvous_leave(context, began_ms + LEAVE_LIMIT_MS / 2);
    if (context->endpoint)
        context->transport->close(context->endpoint, leave_left_ms(began_ms));
    context->endpoint = NULL;
    gcoll_runs_orphan(context);
    gcoll_monitor_linked.destroy(context);
    gcoll_oneside_free(context);
    if (!context->health.broken)
        gcoll_rendezvous_leave(context, gcoll_now_ms() + leave_left_ms(began_ms));
    gcoll_calls_free(context);
    gcoll_memory_close(context);
    gcoll_runs_free(context);
    gcoll_basis_drop(context->basis);
    gcoll_live_free(context);
    gcoll_rendezvous_free(context);
    gcoll_store_destroy(context->settings.owned_store);
    gcoll_settings_free(&context->settings);
    free(context); /* with what the modules keep */
}
