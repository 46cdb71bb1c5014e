/* gcoll/record/counts.c - what a context has done so far, as numbers (gcoll/stats.h). */
#include <stdlib.h>
#include <string.h>

#include "gcoll/record/record.h"
#include "gcoll/stats.h"

#define RATE_AGE_NS INT64_C(1000000) /* by then it is known to a ten thousandth */

/* ---- What the transport counts ------------------------------------------------------------------ */

static void refresh_peer(gcoll_context *context, uint32_t rank) {
    const gcoll_transport *transport = context->transport;
    gcoll_record_peer *peer = gcoll_record_peer_of(context->record, rank);
    gcoll_peer_counts now = {.lane = transport->name};
    if (transport->count_peer)
        transport->count_peer(context->endpoint, rank, &now);
    if (!peer && !now.lane) /* a rank that this one has not met */
        return;
    peer = gcoll_record_meet(context, rank);
    if (now.retransmitted != peer->resent) /* less: a connection has gone, and its segments with it */
        gcoll_count_add(&peer->retransmitted,
                        now.retransmitted - (now.retransmitted > peer->resent ? peer->resent : 0));
    peer->resent = now.retransmitted;
    atomic_store_explicit(&peer->lane, now.lane, memory_order_relaxed);
}

/* The first reader finds out how long a tick is, and that stays, so that no time decreases. With the lock. */
static void settle_rate(gcoll_record *record) {
    const gcoll_tick_mark now = gcoll_tick_mark_now();
    if (gcoll_count_get(&record->rate_ns) != 0 || now.ns - record->began.ns < RATE_AGE_NS)
        return;
    gcoll_count_set(&record->rate_ticks, now.ticks - record->began.ticks);
    atomic_store_explicit(&record->rate_ns, (uint64_t)(now.ns - record->began.ns), memory_order_release);
}

void gcoll_record_refresh(gcoll_context *context) {
    gcoll_record *record = context->record;
    gcoll_endpoint_counts counts = {0};
    atomic_store_explicit(&record->is_asked, false, memory_order_relaxed);
    if (context->endpoint && context->transport->count)
        context->transport->count(context->endpoint, &counts);
    gcoll_count_set(&record->sleeps, counts.sleeps - record->before.sleeps);
    gcoll_count_set(&record->asleep_ns, counts.asleep_ns - record->before.asleep_ns);
    gcoll_count_set(&record->registrations, counts.registrations - record->before.registrations);
    for (uint32_t rank = 0; context->endpoint && rank < context->size; rank++)
        if (rank != context->rank)
            refresh_peer(context, rank);
    gcoll_count_set(&record->refreshed, gcoll_ticks());
}

void gcoll_record_ask(gcoll_context *context) {
    atomic_store_explicit(&context->record->is_asked, true, memory_order_relaxed);
}

void gcoll_record_begin_counts(gcoll_context *context) {
    gcoll_record *record = context->record;
    if (!record)
        return;
    for (gcoll_record_shape *shape = record->shapes; shape; shape = shape->next) {
        gcoll_count_set(&shape->done, 0);
        gcoll_count_set(&shape->ticks, 0);
    }
    memset(record->collectives, 0, sizeof record->collectives);
    gcoll_count_set(&record->waits, 0);
    gcoll_count_set(&record->waited_ticks, 0);
    for (uint32_t rank = 0; rank < context->size; rank++) {
        gcoll_record_peer *peer = gcoll_record_peer_of(record, rank);
        if (peer)
            memset(peer, 0, sizeof *peer);
    }
    if (context->endpoint && context->transport->count)
        context->transport->count(context->endpoint, &record->before);
    gcoll_record_refresh(context);
    for (uint32_t rank = 0; rank < context->size; rank++) /* a shared connection has a history */
        if (gcoll_record_peer_of(record, rank))
            gcoll_count_set(&gcoll_record_peer_of(record, rank)->retransmitted, 0);
}

/* ---- Totals ------------------------------------------------------------------------------------- */

/* Waits that are over, and the one that goes on, which ended when the context broke, if that is so. As one:
 * they are read again if one ended meanwhile. */
static void add_waits(const gcoll_context *context, gcoll_record_totals *to) {
    gcoll_record *record = context->record;
    gcoll_record_wait wait = {0};
    uint64_t now = 0; /* while that wait goes on: a later moment may be after its end */
    for (int tries = 0; tries < GCOLL_RECORD_TRIES; tries++) {
        const uint64_t version = gcoll_record_read_version(record);
        to->waits = atomic_load_explicit(&record->waits, memory_order_acquire);
        to->waited_ticks = atomic_load_explicit(&record->waited_ticks, memory_order_acquire);
        for (uint32_t rank = 0; rank < context->size; rank++) {
            const gcoll_record_peer *peer = gcoll_record_peer_of(record, rank);
            to->peers[rank].waits = peer ? atomic_load_explicit(&peer->waits, memory_order_acquire) : 0;
            to->peers[rank].waited_ticks =
                peer ? atomic_load_explicit(&peer->waited_ticks, memory_order_acquire) : 0;
        }
        if (!gcoll_record_read_wait(record, &wait))
            wait.number = 0;
        now = gcoll_ticks();
        if ((version & 1) == 0 && gcoll_record_read_version(record) == version)
            break;
        wait.number = 0; /* in the end without it, rather than twice */
    }
    if (wait.number == 0)
        return;
    const uint64_t broke = gcoll_count_get(&record->broke);
    const int64_t since = (int64_t)((broke != 0 ? broke : now) - wait.since);
    const uint64_t ticks = since > 0 ? (uint64_t)since : 0;
    to->waits++;
    to->waited_ticks += ticks;
    for (uint32_t i = 0; i < wait.peers && i < GCOLL_RECORD_PEERS; i++) {
        to->peers[wait.peer[i]].waits++;
        to->peers[wait.peer[i]].waited_ticks += ticks;
    }
}

static void tell_no_less(uint64_t *told, uint64_t *now) {
    if (*now < *told)
        *now = *told;
    *told = *now;
}

static void tell_waits(const gcoll_context *context, gcoll_record_totals *to) {
    gcoll_record *record = context->record;
    add_waits(context, to);
    pthread_mutex_lock(&record->lock);
    tell_no_less(&record->told.waits, &to->waits);
    tell_no_less(&record->told.waited_ticks, &to->waited_ticks);
    for (uint32_t rank = 0; rank < context->size; rank++) {
        gcoll_record_peer *peer = gcoll_record_peer_of(record, rank);
        if (!peer)
            continue;
        tell_no_less(&peer->told.waits, &to->peers[rank].waits);
        tell_no_less(&peer->told.waited_ticks, &to->peers[rank].waited_ticks);
    }
    pthread_mutex_unlock(&record->lock);
}

static void add_flow(const gcoll_record_flow *flow, uint64_t times, struct gcoll_record_peer_total *to) {
    to->sent_messages += times * flow->sent_messages;
    to->sent_bytes += times * flow->sent_bytes;
    to->received_messages += times * flow->received_messages;
    to->received_bytes += times * flow->received_bytes;
}

static void add_kept(const gcoll_record_peer *kept, struct gcoll_record_peer_total *to) {
    to->sent_messages += gcoll_count_get(&kept->sent_messages);
    to->sent_bytes += gcoll_count_get(&kept->sent_bytes);
    to->received_messages += gcoll_count_get(&kept->received_messages);
    to->received_bytes += gcoll_count_get(&kept->received_bytes);
    to->retransmitted = gcoll_count_get(&kept->retransmitted);
    to->lane = atomic_load_explicit(&kept->lane, memory_order_relaxed);
}

static void add_shape(const gcoll_record *record, const gcoll_record_shape *shape, gcoll_record_totals *to) {
    const uint64_t done = gcoll_count_get(&shape->done);
    struct gcoll_record_collective_total *collective = &to->collectives[shape->counts - record->collectives];
    collective->done += done;
    collective->bytes += done * shape->bytes;
    collective->sent_bytes += done * shape->words[GCOLL_RECORD_SENT - GCOLL_RECORD_COUNT];
    collective->ticks += gcoll_count_get(&shape->ticks);
    for (uint32_t i = 0; i < shape->flow_count; i++)
        add_flow(&shape->flows[i], done, &to->peers[shape->flows[i].peer]);
}

gcoll_record_totals *gcoll_record_add_up(const gcoll_context *context) {
    gcoll_record *record = context->record;
    gcoll_record_totals *to = calloc(1, sizeof *to + context->size * sizeof to->peers[0]);
    if (!to) {
        gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the statistics of %u ranks", context->size);
        return NULL;
    }
    pthread_mutex_lock(&record->lock); /* a shape that is forgotten counts once */
    settle_rate(record);
    for (const gcoll_record_shape *shape = record->shapes; shape; shape = shape->next)
        add_shape(record, shape, to);
    for (int i = 0; i < GCOLL_COLLECTIVE_COUNT; i++) {
        const gcoll_record_collective *kept = &record->collectives[i];
        to->collectives[i].done += gcoll_count_get(&kept->done);
        to->collectives[i].failed = gcoll_count_get(&kept->failed);
        to->collectives[i].bytes += gcoll_count_get(&kept->bytes);
        to->collectives[i].sent_bytes += gcoll_count_get(&kept->sent_bytes);
        to->collectives[i].ticks += gcoll_count_get(&kept->ticks);
    }
    for (uint32_t rank = 0; rank < context->size; rank++)
        if (gcoll_record_peer_of(record, rank))
            add_kept(gcoll_record_peer_of(record, rank), &to->peers[rank]);
    pthread_mutex_unlock(&record->lock);
    tell_waits(context, to);
    return to;
}

uint64_t gcoll_record_duration_ns(const gcoll_record *record, uint64_t ticks) {
    const uint64_t rate_ns = atomic_load_explicit(&record->rate_ns, memory_order_acquire);
    if (rate_ns != 0)
        return (uint64_t)((double)ticks * ((double)rate_ns / (double)gcoll_count_get(&record->rate_ticks)));
    const gcoll_tick_mark now = gcoll_tick_mark_now();
    const int64_t ns = now.ns - gcoll_tick_ns(&record->began, &now, now.ticks - ticks);
    return ns > 0 ? (uint64_t)ns : 0;
}

/* ---- The calls ---------------------------------------------------------------------------------- */

static gcoll_status check(gcoll_context *context, const void *stats) {
    if (!context || !stats)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "stats" : "context");
    if (gcoll_is_forked(context))
        return gcoll_refuse_call(context);
    if (!context->record)
        return gcoll_error(GCOLL_ERR_STATE, "the recorder, which counts, is off (GCOLL_RECORD)");
    return GCOLL_OK;
}

/* Copies as much as the caller's struct, which may be of an earlier version, has room for. */
static gcoll_status give(void *to, const void *from, size_t bytes) {
    size_t room;
    memcpy(&room, to, sizeof room);
    if (room <= sizeof room || room > 4096)
        return gcoll_error(GCOLL_ERR_INVALID, "stats->struct_size: is %zu; set it to sizeof *stats", room);
    memcpy((char *)to + sizeof room, (const char *)from + sizeof room,
           (room < bytes ? room : bytes) - sizeof room);
    return GCOLL_OK;
}

gcoll_status gcoll_context_refresh_stats(gcoll_context *context) {
    gcoll_status status = check(context, context); /* there is no struct */
    if (status == GCOLL_OK)
        status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    gcoll_record_refresh(context);
    gcoll_leave(context);
    return GCOLL_OK;
}

gcoll_status gcoll_context_stats(gcoll_context *context, gcoll_stats *stats) {
    gcoll_status status = check(context, stats);
    if (status != GCOLL_OK)
        return status;
    const gcoll_record *record = context->record;
    gcoll_stats now = {0};
    gcoll_record_ask(context);
    gcoll_record_totals *totals = gcoll_record_add_up(context);
    if (!totals)
        return GCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < GCOLL_COLLECTIVE_COUNT; i++) {
        now.done += totals->collectives[i].done;
        now.failed += totals->collectives[i].failed;
    }
    for (uint32_t rank = 0; rank < context->size; rank++) {
        now.sent_messages += totals->peers[rank].sent_messages;
        now.sent_bytes += totals->peers[rank].sent_bytes;
        now.received_messages += totals->peers[rank].received_messages;
        now.received_bytes += totals->peers[rank].received_bytes;
        now.retransmitted += totals->peers[rank].retransmitted;
    }
    now.waits = totals->waits;
    now.waited_ns = gcoll_record_duration_ns(record, totals->waited_ticks);
    free(totals);
    now.begun = gcoll_record_newest(context->record);
    now.sleeps = gcoll_count_get(&record->sleeps);
    now.asleep_ns = gcoll_count_get(&record->asleep_ns);
    now.registrations = gcoll_count_get(&record->registrations);
    now.age_ns =
        (int64_t)gcoll_record_duration_ns(record, gcoll_ticks() - gcoll_count_get(&record->refreshed));
    return give(stats, &now, sizeof now);
}

gcoll_status gcoll_context_collective_stats(gcoll_context *context, gcoll_collective collective,
                                            gcoll_collective_stats *stats) {
    gcoll_status status = check(context, stats);
    if (status != GCOLL_OK)
        return status;
    if ((unsigned)collective >= GCOLL_COLLECTIVE_COUNT)
        return gcoll_error(GCOLL_ERR_INVALID, "collective: is %d; allowed are 0 to %d", (int)collective,
                           GCOLL_COLLECTIVE_COUNT - 1);
    gcoll_record_totals *totals = gcoll_record_add_up(context);
    if (!totals)
        return GCOLL_ERR_NO_MEMORY;
    const struct gcoll_record_collective_total *of = &totals->collectives[collective];
    const gcoll_collective_stats now = {.done = of->done,
                                        .failed = of->failed,
                                        .bytes = of->bytes,
                                        .sent_bytes = of->sent_bytes,
                                        .busy_ns = gcoll_record_duration_ns(context->record, of->ticks)};
    free(totals);
    return give(stats, &now, sizeof now);
}

gcoll_status gcoll_context_peer_stats(gcoll_context *context, uint32_t peer, gcoll_peer_stats *stats) {
    gcoll_status status = check(context, stats);
    if (status != GCOLL_OK)
        return status;
    if (peer >= context->size || peer == context->rank)
        return gcoll_error(GCOLL_ERR_INVALID, "peer: is %u%s; allowed are the other ranks, of 0 to %u", peer,
                           peer == context->rank ? ", this rank" : "", context->size - 1);
    gcoll_record_ask(context);
    gcoll_record_totals *totals = gcoll_record_add_up(context);
    if (!totals)
        return GCOLL_ERR_NO_MEMORY;
    const struct gcoll_record_peer_total of = totals->peers[peer];
    free(totals);
    const gcoll_peer_stats now = {.sent_messages = of.sent_messages,
                                  .sent_bytes = of.sent_bytes,
                                  .received_messages = of.received_messages,
                                  .received_bytes = of.received_bytes,
                                  .waits = of.waits,
                                  .waited_ns = gcoll_record_duration_ns(context->record, of.waited_ticks),
                                  .retransmitted = of.retransmitted,
                                  .lane = of.lane};
    return give(stats, &now, sizeof now);
}
