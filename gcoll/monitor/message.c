/*
 * gcoll/monitor/message.c - the monitor's messages: reports to rank 0, and its announcements.
 *
 * Each rank has at most one report of a kind in flight, and drops further ones. Announcements must not be
 * dropped: rank 0 may have as many in flight as it is ahead of the slowest rank. These messages are not
 * requests. A rank waits only for an announcement that is due, and destroying the context drops the
 * messages.
 *
 * Bytes from peers are not trusted. A wrong report is ignored, because only statistics are lost. A wrong
 * announcement breaks the context.
 */
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/monitor/monitor_internal.h"

#define STREAM_REPORT   (GCOLL_STREAM_ARRIVAL | 1)
#define STREAM_ANNOUNCE (GCOLL_STREAM_ARRIVAL | 2)

/* Byte offsets; numbers are little-endian. */
enum {
    REPORT_SITE = 0,
    REPORT_KIND = 4,
    REPORT_HASH = 8, /* hash of the site */
    REPORT_CALL = 16,
    REPORT_EXPECTED = 24,
    REPORT_LATEST = 32, /* call of the first sample; the others follow backwards */
    REPORT_SAMPLES = 40,
    SAMPLE_BYTES = 16,
    REPORT_BYTES = REPORT_SAMPLES + GCOLL_ARRIVAL_SAMPLES * SAMPLE_BYTES
};

enum {
    ANNOUNCE_SITE = 0,
    ANNOUNCE_ALGORITHM = 4, /* row of the table of algorithms; UINT32_MAX: the ordinary choice */
    ANNOUNCE_HASH = 8,      /* hash of the site */
    ANNOUNCE_CALL = 16,
    ANNOUNCE_ID = 24,
    ANNOUNCE_INTERVAL = 32,
    ANNOUNCE_SEGMENT = 40,
    ANNOUNCE_UNIT = 48,
    ANNOUNCE_IMBALANCE = 56,
    ANNOUNCE_ARRIVALS = 64 /* 4 bytes for each rank: arrival in units */
};

#define LONGEST_NS INT64_C(1000000000000000) /* limit for reported times: 11 days */

static size_t announcement_bytes(const gcoll_context *context) {
    return ANNOUNCE_ARRIVALS + 4 * (size_t)context->size;
}

/* ---- Life --------------------------------------------------------------------------------- */

static void free_outbox(gcoll_arrival_outbox *box) {
    if (!box)
        return;
    free(box->bytes);
    free(box->messages);
    free(box);
}

static gcoll_status out_of_memory(const gcoll_context *context) {
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "options.monitor: no memory for reports of %u ranks",
                       context->size);
}

gcoll_status gcoll_arrival_allocate_messages(gcoll_arrival *arrival) {
    gcoll_context *context = arrival->context;
    if (context->size == 1)
        return GCOLL_OK;
    if (context->rank != 0) {
        arrival->reports[0].bytes = malloc(REPORT_BYTES);
        arrival->reports[1].bytes = malloc(REPORT_BYTES);
        arrival->announcement.bytes = malloc(announcement_bytes(context));
        bool got = arrival->reports[0].bytes && arrival->reports[1].bytes && arrival->announcement.bytes;
        return got ? GCOLL_OK : out_of_memory(context);
    }
    arrival->inboxes = calloc(context->size, sizeof *arrival->inboxes);
    if (!arrival->inboxes)
        return out_of_memory(context);
    for (uint32_t peer = 1; peer < context->size; peer++) {
        arrival->inboxes[peer].bytes = malloc(REPORT_BYTES);
        if (!arrival->inboxes[peer].bytes)
            return out_of_memory(context);
    }
    return GCOLL_OK;
}

void gcoll_arrival_free_messages(gcoll_arrival *arrival) {
    for (uint32_t peer = 1; arrival->inboxes && peer < arrival->context->size; peer++)
        free(arrival->inboxes[peer].bytes);
    free(arrival->inboxes);
    while (arrival->outboxes) {
        gcoll_arrival_outbox *box = arrival->outboxes;
        arrival->outboxes = box->next;
        free_outbox(box);
    }
    free(arrival->reports[0].bytes);
    free(arrival->reports[1].bytes);
    free(arrival->announcement.bytes);
}

/* ---- Reports ------------------------------------------------------------------------------ */

/* Whether a message to the peer can be sent. A rank that has left does not need it, so that is no
 * failure. */
static bool can_send(gcoll_context *context, uint32_t peer) {
    return !gcoll_peer_has_departed(context, peer) && gcoll_peer_need(context, peer, false) &&
           !gcoll_peer_has_departed(context, peer);
}

static void report_sent(gcoll_message *message) {
    ((gcoll_arrival_slot *)message->owner)->is_busy = false;
}

static void write_report(uint8_t *bytes, const gcoll_site *site, uint32_t index, gcoll_arrival_report kind,
                         uint64_t call, int64_t expected_ns) {
    memset(bytes, 0, REPORT_BYTES);
    gcoll_put_le(bytes + REPORT_SITE, index, 4);
    gcoll_put_le(bytes + REPORT_KIND, kind, 4);
    gcoll_put_le(bytes + REPORT_HASH, site->hash, 8);
    gcoll_put_le(bytes + REPORT_CALL, call, 8);
    gcoll_put_le(bytes + REPORT_EXPECTED, (uint64_t)expected_ns, 8);
    gcoll_put_le(bytes + REPORT_LATEST, site->calls, 8);
    for (uint32_t i = 0; i < GCOLL_ARRIVAL_SAMPLES && i < site->calls; i++) {
        const gcoll_arrival_sample *sample = &site->samples[(site->calls - i) % GCOLL_ARRIVAL_SAMPLES];
        uint8_t *at = bytes + REPORT_SAMPLES + (size_t)i * SAMPLE_BYTES;
        gcoll_put_le(at, (uint64_t)sample->since_ns, 8);
        gcoll_put_le(at + 8, (uint64_t)sample->elapsed_ns, 8);
    }
}

void gcoll_arrival_report_to_0(gcoll_arrival *arrival, const gcoll_site *site, gcoll_arrival_report kind,
                               uint64_t call, int64_t expected_ns) {
    gcoll_context *context = arrival->context;
    gcoll_arrival_slot *slot = &arrival->reports[kind == GCOLL_ARRIVAL_ASKS];
    if (slot->is_busy || !can_send(context, 0))
        return;
    write_report(slot->bytes, site, (uint32_t)(site - arrival->sites), kind, call, expected_ns);
    slot->message = (gcoll_message){.stream = STREAM_REPORT,
                                    .index = arrival->reported++,
                                    .granule = 1,
                                    .bytes = REPORT_BYTES,
                                    .data = slot->bytes,
                                    .done = report_sent,
                                    .owner = slot};
    slot->is_busy = true;
    context->transport->post_send(context->endpoint, 0, &slot->message);
    context->transport->flush(context->endpoint);
}

static bool is_time(int64_t ns) {
    return ns >= 0 && ns <= LONGEST_NS;
}

static void read_report(gcoll_arrival *arrival, uint32_t peer, const uint8_t *bytes) {
    const uint64_t index = gcoll_get_le(bytes + REPORT_SITE, 4), kind = gcoll_get_le(bytes + REPORT_KIND, 4);
    if (index >= arrival->site_count || kind > GCOLL_ARRIVAL_ASKS ||
        gcoll_get_le(bytes + REPORT_HASH, 8) != arrival->sites[index].hash)
        return; /* this rank has not reached that site yet */
    gcoll_site *site = &arrival->sites[index];
    const uint64_t latest = gcoll_get_le(bytes + REPORT_LATEST, 8),
                   call = gcoll_get_le(bytes + REPORT_CALL, 8);
    /* A rank cannot pass an announcement that this rank has not made, nor get far ahead of the latest
     * one. */
    const uint64_t farthest = site->next + (site->has_pending ? site->pending.interval : 0);
    if (latest > farthest || call > farthest)
        return;
    for (uint32_t i = GCOLL_ARRIVAL_SAMPLES; i-- > 0;) {
        const uint8_t *at = bytes + REPORT_SAMPLES + (size_t)i * SAMPLE_BYTES;
        const gcoll_arrival_sample sample = {latest - i, (int64_t)gcoll_get_le(at, 8),
                                             (int64_t)gcoll_get_le(at + 8, 8)};
        if (i < latest && is_time(sample.elapsed_ns) && (sample.since_ns == -1 || is_time(sample.since_ns)))
            gcoll_arrival_note_sample(site, peer, &sample);
    }
    const int64_t expected_ns = (int64_t)gcoll_get_le(bytes + REPORT_EXPECTED, 8);
    if (kind != GCOLL_ARRIVAL_HISTORY && is_time(expected_ns))
        gcoll_arrival_note_expected(arrival, site, peer, (gcoll_arrival_report)kind, call, expected_ns);
}

static void report_came(gcoll_message *message) {
    gcoll_arrival_inbox *box = message->owner;
    gcoll_context *context = box->arrival->context;
    read_report(box->arrival, box->peer, box->bytes);
    message->index++;
    context->transport->post_recv(context->endpoint, box->peer, message);
}

/* ---- Announcements ------------------------------------------------------------------------ */

static void announcement_sent(gcoll_message *message) {
    ((gcoll_arrival_outbox *)message->owner)->busy--;
}

static gcoll_arrival_outbox *find_outbox(gcoll_arrival *arrival) {
    gcoll_context *context = arrival->context;
    for (gcoll_arrival_outbox *box = arrival->outboxes; box; box = box->next)
        if (box->busy == 0)
            return box;
    gcoll_arrival_outbox *box = calloc(1, sizeof *box);
    if (!box)
        return NULL;
    box->bytes = malloc(announcement_bytes(context));
    box->messages = calloc(context->size, sizeof *box->messages);
    if (!box->bytes || !box->messages) {
        free_outbox(box);
        return NULL;
    }
    box->next = arrival->outboxes;
    arrival->outboxes = box;
    return box;
}

static void write_announcement(const gcoll_arrival *arrival, const gcoll_site *site, uint8_t *bytes) {
    const gcoll_arrival_decision *decision = &site->pending;
    memset(bytes, 0, ANNOUNCE_ARRIVALS);
    gcoll_put_le(bytes + ANNOUNCE_SITE, (uint64_t)(site - arrival->sites), 4);
    gcoll_put_le(bytes + ANNOUNCE_ALGORITHM, gcoll_arrival_row(decision->algorithm), 4);
    gcoll_put_le(bytes + ANNOUNCE_HASH, site->hash, 8);
    gcoll_put_le(bytes + ANNOUNCE_CALL, site->next, 8);
    gcoll_put_le(bytes + ANNOUNCE_ID, decision->id, 8);
    gcoll_put_le(bytes + ANNOUNCE_INTERVAL, decision->interval, 4);
    gcoll_put_le(bytes + ANNOUNCE_SEGMENT, (uint64_t)decision->segment_ns, 8);
    gcoll_put_le(bytes + ANNOUNCE_UNIT, (uint64_t)decision->unit_ns, 8);
    gcoll_put_le(bytes + ANNOUNCE_IMBALANCE, (uint64_t)decision->imbalance_ns, 8);
    for (uint32_t rank = 0; rank < arrival->context->size; rank++)
        gcoll_put_le(bytes + ANNOUNCE_ARRIVALS + 4 * (size_t)rank,
                     (uint64_t)(decision->arrival_ns[rank] / decision->unit_ns), 4);
}

gcoll_status gcoll_arrival_announce(gcoll_arrival *arrival, gcoll_site *site) {
    gcoll_context *context = arrival->context;
    gcoll_arrival_outbox *box = find_outbox(arrival);
    if (!box) { /* the other ranks would wait forever */
        gcoll_break(context, GCOLL_ERR_NO_MEMORY, context->rank, "rank %u has no memory for an announcement",
                    context->rank);
        return gcoll_context_settle(context);
    }
    write_announcement(arrival, site, box->bytes);
    /* Set before posting: reports may arrive meanwhile, and must not request this announcement again. */
    site->has_pending = true;
    const uint32_t index = arrival->announced++;
    for (uint32_t peer = 1; peer < context->size && !context->health.broken; peer++) {
        if (!can_send(context, peer))
            continue;
        box->messages[peer] = (gcoll_message){.stream = STREAM_ANNOUNCE,
                                              .index = index,
                                              .granule = 1,
                                              .bytes = announcement_bytes(context),
                                              .data = box->bytes,
                                              .done = announcement_sent,
                                              .owner = box};
        box->busy++;
        context->transport->post_send(context->endpoint, peer, &box->messages[peer]);
    }
    if (!context->health.broken)
        context->transport->flush(context->endpoint);
    return context->health.broken ? gcoll_context_settle(context) : GCOLL_OK;
}

static void announcement_came(gcoll_message *message) {
    gcoll_arrival *arrival = message->owner;
    arrival->has_come = true;
    gcoll_arrival_call(arrival->context);
}

static void await_next(gcoll_arrival *arrival) {
    gcoll_context *context = arrival->context;
    arrival->has_come = false;
    arrival->announcement.message = (gcoll_message){.stream = STREAM_ANNOUNCE,
                                                    .index = arrival->announced,
                                                    .granule = 1,
                                                    .bytes = announcement_bytes(context),
                                                    .data = arrival->announcement.bytes,
                                                    .background = true,
                                                    .done = announcement_came,
                                                    .owner = arrival};
    context->transport->post_recv(context->endpoint, 0, &arrival->announcement.message);
}

static bool reads(const gcoll_context *context, const gcoll_site *site, const uint8_t *bytes,
                  gcoll_arrival_decision *decision) {
    const uint64_t row = gcoll_get_le(bytes + ANNOUNCE_ALGORITHM, 4);
    uint32_t rows = 0;
    while (gcoll_algorithms[rows])
        rows++;
    decision->algorithm = row < rows ? gcoll_algorithms[row] : NULL;
    decision->id = gcoll_get_le(bytes + ANNOUNCE_ID, 8);
    decision->interval = (uint32_t)gcoll_get_le(bytes + ANNOUNCE_INTERVAL, 4);
    decision->segment_ns = (int64_t)gcoll_get_le(bytes + ANNOUNCE_SEGMENT, 8);
    decision->unit_ns = (int64_t)gcoll_get_le(bytes + ANNOUNCE_UNIT, 8);
    decision->imbalance_ns = (int64_t)gcoll_get_le(bytes + ANNOUNCE_IMBALANCE, 8);
    if (gcoll_get_le(bytes + ANNOUNCE_CALL, 8) != site->next || (row >= rows && row != UINT32_MAX) ||
        !decision->algorithm != (decision->id == 0) || !is_time(decision->segment_ns) ||
        !is_time(decision->imbalance_ns) || decision->unit_ns < 1 || decision->unit_ns > LONGEST_NS ||
        (decision->interval != 1 &&
         (decision->interval < GCOLL_ARRIVAL_FEWEST || decision->interval > GCOLL_ARRIVAL_MOST)) ||
        (decision->algorithm && (!decision->algorithm->uses_arrival ||
                                 decision->algorithm->collective != (gcoll_collective)site->key.collective)))
        return false;
    for (uint32_t rank = 0; rank < context->size; rank++) {
        const uint64_t units = gcoll_get_le(bytes + ANNOUNCE_ARRIVALS + 4 * (size_t)rank, 4);
        if (units > (uint64_t)(INT64_MAX / decision->unit_ns))
            return false;
        decision->arrival_ns[rank] = (int64_t)units * decision->unit_ns;
    }
    decision->hash = gcoll_arrival_hash(decision, context->size);
    return true;
}

/* Moves the received announcement into its site. It stays here if this rank has not reached that site
 * yet, or if the site still holds the previous one. Nothing that this rank may wait for can be queued behind
 * it (docs/arrival-patterns.md). */
void gcoll_arrival_place(gcoll_arrival *arrival) {
    gcoll_context *context = arrival->context;
    if (!arrival->has_come || context->health.broken)
        return;
    const uint8_t *bytes = arrival->announcement.bytes;
    const uint64_t index = gcoll_get_le(bytes + ANNOUNCE_SITE, 4);
    gcoll_site *site = index < arrival->site_count ? &arrival->sites[index] : NULL;
    if (index < GCOLL_ARRIVAL_SITES && (!site || site->has_pending))
        return;
    if (site && site->hash != gcoll_get_le(bytes + ANNOUNCE_HASH, 8)) {
        gcoll_break(context, GCOLL_ERR_MISMATCH, 0,
                    "the monitor: rank 0 and rank %u do not make the same watched calls in the same order",
                    context->rank);
        return;
    }
    if (!site || !reads(context, site, bytes, &site->pending)) {
        gcoll_break(context, GCOLL_ERR_PROTOCOL, 0, "the monitor: the announcement of rank 0 makes no sense");
        return;
    }
    site->has_pending = true;
    arrival->announced++;
    await_next(arrival);
}

void gcoll_arrival_open(gcoll_arrival *arrival) {
    gcoll_context *context = arrival->context;
    if (arrival->is_open || !context->endpoint || context->health.broken)
        return;
    arrival->is_open = true;
    if (context->rank != 0) {
        await_next(arrival);
        return;
    }
    for (uint32_t peer = 1; peer < context->size; peer++) {
        gcoll_arrival_inbox *box = &arrival->inboxes[peer];
        box->arrival = arrival;
        box->peer = peer;
        box->message = (gcoll_message){.stream = STREAM_REPORT,
                                       .granule = 1,
                                       .bytes = REPORT_BYTES,
                                       .data = box->bytes,
                                       .background = true,
                                       .done = report_came,
                                       .owner = box};
        context->transport->post_recv(context->endpoint, peer, &box->message);
    }
}

/* ---- Waiting ------------------------------------------------------------------------------ */

struct announced {
    gcoll_arrival *arrival;
    const gcoll_site *site;
};

static bool is_announced(const void *arg) {
    const struct announced *announced = arg;
    gcoll_arrival_place(announced->arrival);
    return announced->site->has_pending;
}

gcoll_status gcoll_arrival_await(gcoll_arrival *arrival, gcoll_site *site, int64_t since_ns) {
    gcoll_context *context = arrival->context;
    const struct announced announced = {arrival, site};
    const gcoll_wait wait = {is_announced, NULL, &announced, .timeout_ms = arrival->timeout_ms};
    gcoll_arrival_open(arrival);
    if (is_announced(&announced))
        return GCOLL_OK;
    gcoll_progress(context, 0); /* usually the announcement has arrived already */
    if (is_announced(&announced))
        return GCOLL_OK;
    if (site->now.interval == 1)
        gcoll_arrival_report_to_0(arrival, site, GCOLL_ARRIVAL_ASKS, site->next, since_ns);
    if (!gcoll_peer_need(context, 0, false))
        return gcoll_context_settle(context);
    const int64_t start = gcoll_now_ns();
    arrival->waits = true;
    gcoll_status status = gcoll_progress_wait(context, &wait);
    arrival->waits = false;
    site->waited_ns += gcoll_now_ns() - start;
    return status;
}
