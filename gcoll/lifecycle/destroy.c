/* gcoll/lifecycle/destroy.c - the end of a context: in good order, broken, or in a forked child. */
#include <stdlib.h>

#include "gcoll/accelerate/accelerate.h"
#include "gcoll/council/council.h"
#include "gcoll/learn/learn.h"
#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/monitor/monitor.h"
#include "gcoll/oneside/oneside.h"
#include "gcoll/record/record.h"
#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/run/run.h"

#define LEAVE_LIMIT_MS 1000 /* for sent data to arrive, and for requests to the store */
#define LEAVE_LEAST_MS 200

/* In a forked child: takes endpoint, store, devices and thread from the context. False if a call or the
 * thread was inside the context when the process forked: then the context must not be touched. */
static bool abandon(gcoll_context *context) {
    if (gcoll_is_claimed(context) || !gcoll_thread_abandon(context))
        return false;
    if (context->acceleration) {
        gcoll_memory_abandon(context->acceleration);
        gcoll_runs_forget_devices(context);
    }
    context->health.broken = true; /* a broken context tells nobody that it leaves */
    context->health.told = true;
    context->settings.log = NULL;
    context->health.cause = (gcoll_note){.status = GCOLL_ERR_STATE, .culprit = GCOLL_NO_RANK};
    gcoll_rendezvous_abandon(context);
    if (context->endpoint)
        context->transport->abandon(context->endpoint);
    context->endpoint = NULL;
    return true;
}

/* Calls from any thread touch the endpoint and the thread no more. */
static void close_gate(gcoll_context *context) {
    pthread_mutex_lock(&context->guard.gate);
    context->guard.is_closed = true;
    pthread_mutex_unlock(&context->guard.gate);
}

static int64_t left_ms(int64_t limit_ms, int64_t least_ms) {
    const int64_t left = limit_ms - gcoll_now_ms();
    return left > least_ms ? left : least_ms;
}

void gcoll_context_destroy(gcoll_context *context) {
    if (context) /* what comes first may take most of the time */
        gcoll_context_end(context, gcoll_now_ms() + LEAVE_LIMIT_MS, LEAVE_LEAST_MS);
}

void gcoll_context_end(gcoll_context *context, int64_t limit_ms, int64_t least_ms) {
    const int64_t now = gcoll_now_ms(), longest_ms = now + LEAVE_LIMIT_MS;
    limit_ms = limit_ms < longest_ms ? limit_ms : longest_ms;
    /* A context that another thread or a callback is using is not freed: a leak is better than a use after
     * free. gcoll_last_error says who uses it. */
    if (gcoll_is_forked(context) ? !abandon(context) : gcoll_claim_last(context) != GCOLL_OK)
        return;
    if (!gcoll_is_forked(context))
        close_gate(context);
    gcoll_thread_stop(context);
    gcoll_context_close_event(context);
    if (!gcoll_is_forked(context))
        gcoll_monitor_linked.print(context);
    gcoll_learn_save(context);
    if (gcoll_live_in_flight(context)) /* each unfinished run has a request, which counts */
        gcoll_break(context, GCOLL_ERR_PEER, context->rank,
                    "rank %u destroyed its context with work in flight", context->rank);
    gcoll_context_settle(context); /* also handles an abort that no call has noticed yet */
    gcoll_runs_stop(context);
    /* Peers that find a connection closed look for a cause in the store, so that comes first. The rest takes
     * as long as the store is slow, and the address of a rank in good order has to stay until its data has
     * arrived: so that comes last. */
    const bool has_left =
        context->health.broken && gcoll_rendezvous_part(context, now + left_ms(limit_ms, 0) / 2);
    if (context->endpoint)
        context->transport->close(context->endpoint, left_ms(limit_ms, least_ms));
    context->endpoint = NULL;
    gcoll_council_close(context, left_ms(limit_ms, least_ms));
    gcoll_runs_orphan(context);
    gcoll_learn_destroy(context);
    gcoll_monitor_linked.destroy(context);
    gcoll_oneside_free(context);
    if (!has_left)
        gcoll_rendezvous_leave(context, gcoll_now_ms() + left_ms(limit_ms, least_ms));
    gcoll_calls_free(context);
    gcoll_memory_close(context);
    gcoll_runs_free(context);
    gcoll_basis_drop(context->basis);
    gcoll_live_free(context);
    gcoll_record_free(context);
    gcoll_rendezvous_free(context);
    gcoll_secret_free(&context->settings);
    gcoll_encryption_free(&context->settings);
    gcoll_store_destroy(context->settings.owned_store);
    gcoll_settings_free(&context->settings);
    free(context->parent_ranks);
    gcoll_family_leave(context, !gcoll_is_forked(context));
    free(context); /* also frees the modules' structs, which lie in the same allocation */
}
