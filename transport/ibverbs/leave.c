/*
 * transport/ibverbs/leave.c - abort and close.
 *
 * Abort tells the peers over the side channel, and then destroys the queue pairs: from then on the device
 * touches none of the callers' memory. Close lets sent data arrive: it sends a goodbye on each queue pair,
 * and the goodbye's acknowledgement covers all earlier data. Only then does the side channel close, so a peer
 * that learns of the departure there already has the goodbye in its completion queue.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "transport/ibverbs/pair.h"
#include "transport/session/side.h"

#define PAUSE_NS 50000

void gcoll_ib_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);
    if (ib->leaving)
        return;
    ib->leaving = true;
    gcoll_message_queue_clear(&ib->completed);
    ib->outputs = NULL;
    gcoll_net_unwatch(ib->side);
    gcoll_transport_tcp.abort(ib->side, note, limit_ms);
    for (gcoll_ib_pair *pair = ib->known; pair; pair = pair->next_known) {
        pair->in_outputs = false;
        gcoll_ib_queue_destroy(pair);
        gcoll_ib_pair_drop(pair);
    }
}

/* ---- Closing --------------------------------------------------------------------------------------- */

/* Queues a goodbye, and drops everything that is not in a send queue yet. */
static void say_goodbye(gcoll_ib_pair *pair) {
    gcoll_message_queue_clear(&pair->messages);
    gcoll_message_queue_clear(&pair->accesses);
    pair->write_count = 0;
    pair->control.begin = pair->control.end = 0;
    pair->says_goodbye = pair->state == GCOLL_IB_CONNECTED && pair->qp && !pair->told;
    gcoll_ib_want_output(pair);
}

static bool has_unacknowledged(const gcoll_ib *ib) {
    for (const gcoll_ib_pair *pair = ib->known; pair; pair = pair->next_known)
        if (pair->state == GCOLL_IB_CONNECTED && pair->qp && !pair->told && !pair->side_closed &&
            (pair->says_goodbye || pair->posted_sends != pair->finished_sends))
            return true;
    return false;
}

static void drain(gcoll_ib *ib, int64_t until_ms) {
    const struct timespec pause = {.tv_sec = 0, .tv_nsec = PAUSE_NS};
    gcoll_ib_flush_all(ib);
    while (has_unacknowledged(ib) && gcoll_now_ms() < until_ms) {
        if (gcoll_ib_poll(ib) == 0) {
            gcoll_ib_side_look(ib, 0);
            nanosleep(&pause, NULL);
        }
        gcoll_ib_flush_all(ib);
        gcoll_message_queue_clear(&ib->completed);
    }
}

void gcoll_ib_destroy(gcoll_ib *ib) {
    gcoll_ib_pair *pair = ib->known;
    while (pair) {
        gcoll_ib_pair *next = pair->next_known;
        gcoll_ib_pair_destroy(pair);
        pair = next;
    }
    gcoll_ib_memory_clear(ib);
    gcoll_fork_hold();
    gcoll_descriptor_leave(&ib->completions);
    gcoll_descriptor_leave(&ib->async_events);
    gcoll_descriptor_leave(&ib->commands);
    if (ib->cq)
        ib->verbs.destroy_cq(ib->cq);
    if (ib->channel)
        ib->verbs.destroy_comp_channel(ib->channel);
    if (ib->pd)
        ib->verbs.dealloc_pd(ib->pd);
    if (ib->context)
        ib->verbs.close_device(ib->context);
    gcoll_fork_release();
    free(ib->pairs);
    free(ib);
}

void gcoll_ib_close(gcoll_endpoint *endpoint, int64_t limit_ms) {
    gcoll_ib *ib = gcoll_ib_of(endpoint);
    int64_t now = gcoll_now_ms();
    if (!endpoint)
        return;
    limit_ms = limit_ms < INT32_MAX ? limit_ms : INT32_MAX;
    int64_t until_ms = now + limit_ms;
    if (!ib->leaving) {
        ib->leaving = true;
        gcoll_message_queue_clear(&ib->completed);
        for (gcoll_ib_pair *pair = ib->known; pair; pair = pair->next_known)
            say_goodbye(pair);
        drain(ib, until_ms);
    }
    gcoll_net_unwatch(ib->side);
    now = gcoll_now_ms();
    gcoll_transport_tcp.close(ib->side, until_ms > now ? until_ms - now : 0);
    gcoll_ib_destroy(ib);
}

/* In a forked child, abandons only the side channel. Objects of the device's library are leaked: freeing
 * them would call the kernel about the parent's queues, whose memory may not exist in this process
 * (MADV_DONTFORK). */
void gcoll_ib_abandon(gcoll_endpoint *endpoint) {
    gcoll_transport_tcp.abandon(gcoll_ib_of(endpoint)->side);
}
