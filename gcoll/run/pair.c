/*
 * gcoll/run/pair.c - tagged send and receive between two ranks.
 *
 * Each tag is a stream of its own: the i-th send with a tag matches the i-th receive with it. The counters of
 * a pair's tags lie in a small open-addressing table that doubles. A cancelled receive leaves a gap in the
 * order, which the next receive of its tag fills.
 */
#include <string.h>

#include "gcoll/base/hash.h"
#include "gcoll/run/request.h"

#define FIRST_TAGS 16

struct tag_counters {
    bool used;
    uint32_t tag;
    uint32_t sent, received;
};

/* The place of a receive that was cancelled. */
struct gap {
    uint32_t tag, index;
    struct gap *next;
};

struct gcoll_pair {
    gcoll_context *context;
    uint32_t peer;
    uint32_t tags, capacity; /* capacity is a power of two */
    struct tag_counters *table;
    struct gap *gaps;   /* of all tags; few */
    int64_t timeout_ms; /* of messages begun later: 0 is the context's, -1 none */
};

/* ---- Tags --------------------------------------------------------------------------------- */

static struct tag_counters *slot(struct tag_counters *table, uint32_t capacity, uint32_t tag) {
    uint32_t at = (uint32_t)gcoll_hash_mix(tag) & (capacity - 1);
    while (table[at].used && table[at].tag != tag)
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

static gcoll_status grow(gcoll_pair *pair) {
    uint32_t capacity = pair->capacity ? pair->capacity * 2 : FIRST_TAGS;
    uint64_t bytes = (uint64_t)capacity * sizeof *pair->table;
    struct tag_counters *table = gcoll_allocate(pair->context, bytes);
    if (!table)
        return GCOLL_ERR_NO_MEMORY;
    memset(table, 0, bytes);
    for (uint32_t i = 0; i < pair->capacity; i++)
        if (pair->table[i].used)
            *slot(table, capacity, pair->table[i].tag) = pair->table[i];
    gcoll_release(pair->context, pair->table, (uint64_t)pair->capacity * sizeof *pair->table);
    pair->table = table;
    pair->capacity = capacity;
    return GCOLL_OK;
}

static gcoll_status counters(gcoll_pair *pair, uint32_t tag, struct tag_counters **out) {
    if (2 * (pair->tags + 1) > pair->capacity) {
        gcoll_status status = grow(pair);
        if (status != GCOLL_OK)
            return status;
    }
    struct tag_counters *found = slot(pair->table, pair->capacity, tag);
    if (!found->used) {
        found->used = true;
        found->tag = tag;
        pair->tags++;
    }
    *out = found;
    return GCOLL_OK;
}

/* ---- Gaps --------------------------------------------------------------------------------- */

/* Whether index a precedes b; indices wrap. */
static bool is_before(uint32_t a, uint32_t b) {
    return (int32_t)(a - b) < 0;
}

/* The link to the first gap of the tag; the link is NULL if there is no gap. */
static struct gap **first_gap(struct gcoll_pair *pair, uint32_t tag) {
    struct gap **first = NULL, **at = &pair->gaps;
    for (; *at; at = &(*at)->next)
        if ((*at)->tag == tag && (!first || is_before((*at)->index, (*first)->index)))
            first = at;
    return first ? first : at;
}

/* The index of the tag's next receive. */
static uint32_t next_received(struct gcoll_pair *pair, const struct tag_counters *tags) {
    const struct gap *gap = pair->gaps ? *first_gap(pair, tags->tag) : NULL;
    return gap ? gap->index : tags->received;
}

static void take_next_received(struct gcoll_pair *pair, struct tag_counters *tags) {
    struct gap **at = first_gap(pair, tags->tag), *gap = *at;
    if (!gap) {
        tags->received++;
        return;
    }
    *at = gap->next;
    gcoll_release(pair->context, gap, sizeof *gap);
}

gcoll_status gcoll_pair_cancel(gcoll_request *request) {
    gcoll_pair *pair = request->receives_from;
    gcoll_context *context = pair->context;
    struct gap *gap = gcoll_allocate(context, sizeof *gap);
    if (!gap)
        return GCOLL_ERR_NO_MEMORY;
    if (!context->transport->take_back(context->endpoint, pair->peer, &request->message)) {
        gcoll_release(context, gap, sizeof *gap);
        return gcoll_error(
            GCOLL_ERR_STATE,
            "request: its message has begun to come, or rank %u waits to send it or has been told to",
            pair->peer);
    }
    *gap = (struct gap){
        .tag = (uint32_t)request->message.stream, .index = request->message.index, .next = pair->gaps};
    pair->gaps = gap;
    return GCOLL_OK;
}

/* ---- Pairs -------------------------------------------------------------------------------- */

static gcoll_status find_pair(gcoll_context *context, uint32_t peer, gcoll_pair **out) {
    gcoll_runs *runs = context->runs;
    if (!runs->pairs)
        runs->pairs = gcoll_allocate_zeroed(context, context->size * sizeof(gcoll_pair *));
    if (!runs->pairs)
        return GCOLL_ERR_NO_MEMORY;
    if (!runs->pairs[peer]) {
        gcoll_pair *pair = gcoll_allocate(context, sizeof *pair);
        if (!pair)
            return GCOLL_ERR_NO_MEMORY;
        *pair = (gcoll_pair){.context = context, .peer = peer};
        runs->pairs[peer] = pair;
    }
    *out = runs->pairs[peer];
    return GCOLL_OK;
}

static gcoll_status check_peer(const gcoll_context *context, uint32_t peer) {
    if (peer >= context->size || peer == context->rank)
        return gcoll_error(GCOLL_ERR_INVALID, "peer: is %u; allowed are 0 to %u except this rank, %u", peer,
                           context->size - 1, context->rank);
    return GCOLL_OK;
}

gcoll_status gcoll_context_pair(gcoll_context *context, uint32_t peer, gcoll_pair **out) {
    if (!context || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "pair" : "context");
    gcoll_status status = check_peer(context, peer);
    if (status == GCOLL_OK)
        status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = find_pair(context, peer, out);
    gcoll_leave(context);
    return status;
}

gcoll_status gcoll_pair_set_timeout(gcoll_pair *pair, int64_t timeout_ms) {
    if (!pair)
        return gcoll_error(GCOLL_ERR_INVALID, "pair: is NULL");
    gcoll_status status = gcoll_timeout_check("timeout_ms", timeout_ms);
    if (status == GCOLL_OK)
        status = gcoll_enter(pair->context);
    if (status != GCOLL_OK)
        return status;
    pair->timeout_ms = timeout_ms;
    gcoll_leave(pair->context);
    return GCOLL_OK;
}

static void destroy(gcoll_pair *pair) {
    if (!pair)
        return;
    while (pair->gaps) {
        struct gap *gap = pair->gaps;
        pair->gaps = gap->next;
        gcoll_release(pair->context, gap, sizeof *gap);
    }
    gcoll_release(pair->context, pair->table, (uint64_t)pair->capacity * sizeof *pair->table);
    gcoll_release(pair->context, pair, sizeof *pair);
}

void gcoll_pairs_free(gcoll_context *context) {
    gcoll_runs *runs = context->runs;
    for (uint32_t peer = 0; runs->pairs && peer < context->size; peer++)
        destroy(runs->pairs[peer]);
    gcoll_release(context, runs->pairs, context->size * sizeof(gcoll_pair *));
}

/* ---- Requests ----------------------------------------------------------------------------- */

static void on_done(gcoll_message *message) {
    ((gcoll_request *)message->owner)->done = true;
}

static gcoll_status post(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes, bool sends,
                         gcoll_request **out) {
    gcoll_context *context = pair->context;
    gcoll_status status = gcoll_context_settle(context);
    struct tag_counters *tags = NULL;
    if (status == GCOLL_OK)
        status = counters(pair, tag, &tags);
    if (status != GCOLL_OK)
        return status;
    gcoll_request *request = NULL;
    status = gcoll_request_create(context, pair->peer, &request);
    if (status != GCOLL_OK)
        return status;
    request->timeout_ms = pair->timeout_ms;
    request->receives_from = sends ? NULL : pair;
    request->message = (gcoll_message){.stream = GCOLL_STREAM_TAG | tag,
                                       .index = sends ? tags->sent : next_received(pair, tags),
                                       .granule = 1,
                                       .bytes = bytes,
                                       .data = data,
                                       .announced = sends,
                                       .done = on_done,
                                       .owner = request};
    if (!gcoll_peer_need(context, pair->peer, sends)) {
        gcoll_request_end(request);
        return gcoll_context_settle(context);
    }
    if (sends) {
        tags->sent++;
        context->transport->post_send(context->endpoint, pair->peer, &request->message);
        context->transport->flush(context->endpoint);
    } else {
        take_next_received(pair, tags);
        context->transport->post_recv(context->endpoint, pair->peer, &request->message);
    }
    *out = request;
    return GCOLL_OK;
}

static gcoll_status check_data(const void *data, uint64_t bytes) {
    if (!data && bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "data: is NULL, but bytes is %llu", (unsigned long long)bytes);
    return GCOLL_OK;
}

static gcoll_status start(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes, bool sends,
                          gcoll_request **out) {
    if (!pair || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", pair ? "request" : "pair");
    gcoll_status status = check_data(data, bytes);
    if (status == GCOLL_OK)
        status = gcoll_enter(pair->context);
    if (status != GCOLL_OK)
        return status;
    status = post(pair, tag, data, bytes, sends, out);
    gcoll_leave(pair->context);
    return status;
}

gcoll_status gcoll_pair_send_start(gcoll_pair *pair, uint32_t tag, const void *data, uint64_t bytes,
                                   gcoll_request **request) {
    return start(pair, tag, (void *)(uintptr_t)data, bytes, true, request);
}

gcoll_status gcoll_pair_recv_start(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes,
                                   gcoll_request **request) {
    return start(pair, tag, data, bytes, false, request);
}

/* ---- Blocking ----------------------------------------------------------------------------- */

static gcoll_status finish(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes, bool sends) {
    gcoll_request *request = NULL;
    gcoll_status status = post(pair, tag, data, bytes, sends, &request);
    return status == GCOLL_OK ? gcoll_request_finish(&request) : status;
}

static gcoll_status run(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes, bool sends) {
    if (!pair)
        return gcoll_error(GCOLL_ERR_INVALID, "pair: is NULL");
    gcoll_status status = check_data(data, bytes);
    if (status == GCOLL_OK)
        status = gcoll_enter(pair->context);
    if (status != GCOLL_OK)
        return status;
    status = finish(pair, tag, data, bytes, sends);
    gcoll_leave(pair->context);
    return status;
}

gcoll_status gcoll_pair_send(gcoll_pair *pair, uint32_t tag, const void *data, uint64_t bytes) {
    return run(pair, tag, (void *)(uintptr_t)data, bytes, true);
}

gcoll_status gcoll_pair_recv(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes) {
    return run(pair, tag, data, bytes, false);
}

static gcoll_status exchange(gcoll_pair *to, uint32_t send_tag, const void *send, uint64_t send_bytes,
                             gcoll_pair *from, uint32_t recv_tag, void *recv, uint64_t recv_bytes) {
    gcoll_request *sending = NULL, *receiving = NULL;
    gcoll_context *context = to->context;
    gcoll_status status = post(from, recv_tag, recv, recv_bytes, false, &receiving);
    if (status != GCOLL_OK)
        return status;
    status = post(to, send_tag, (void *)(uintptr_t)send, send_bytes, true, &sending);
    /* The send could not be posted, for lack of memory, so its partner would wait forever; or the context is
     * broken already. */
    if (status != GCOLL_OK)
        gcoll_break(context, status, context->rank, "rank %u cannot send to rank %u: %s", context->rank,
                    to->peer, gcoll_last_error());
    gcoll_status sent = status == GCOLL_OK ? gcoll_request_finish(&sending) : status;
    status = gcoll_request_finish(&receiving);
    return sent != GCOLL_OK ? sent : status;
}

gcoll_status gcoll_pair_sendrecv(gcoll_pair *to, uint32_t send_tag, const void *send, uint64_t send_bytes,
                                 gcoll_pair *from, uint32_t recv_tag, void *recv, uint64_t recv_bytes) {
    if (!to || !from)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", to ? "from" : "to");
    if (to->context != from->context)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "from: belongs to another context than `to`; allowed is one context");
    if (!send && send_bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "send: is NULL, but send_bytes is %llu",
                           (unsigned long long)send_bytes);
    gcoll_status status = check_data(recv, recv_bytes);
    if (status == GCOLL_OK)
        status = gcoll_enter(to->context);
    if (status != GCOLL_OK)
        return status;
    status = exchange(to, send_tag, send, send_bytes, from, recv_tag, recv, recv_bytes);
    gcoll_leave(to->context);
    return status;
}

/* ---- From any of several ------------------------------------------------------------------ */

struct any_wait {
    gcoll_context *context;
    const gcoll_any *any;
};

/* Whether the next message with this tag has arrived from the peer. */
static bool is_here(gcoll_context *context, uint32_t peer, uint32_t tag) {
    gcoll_pair *pair = context->runs->pairs[peer];
    const struct tag_counters *found = pair->capacity ? slot(pair->table, pair->capacity, tag) : NULL;
    return context->transport->peek(context->endpoint, peer, GCOLL_STREAM_TAG | tag,
                                    found && found->used ? next_received(pair, found) : 0);
}

static bool find_arrived(const struct any_wait *wait, uint32_t *peer) {
    for (uint32_t i = 0; i < wait->any->count; i++)
        if (is_here(wait->context, wait->any->peers[i], wait->any->tag)) {
            *peer = wait->any->peers[i];
            return true;
        }
    return false;
}

/* Whether all peers have left, and no message of theirs can still arrive. */
static bool all_departed(const struct any_wait *wait) {
    if (gcoll_peer_is_doubted(wait->context))
        return false;
    for (uint32_t i = 0; i < wait->any->count; i++)
        if (!gcoll_peer_has_departed(wait->context, wait->any->peers[i]))
            return false;
    return true;
}

static bool any_arrived(const void *arg) {
    uint32_t peer;
    return find_arrived(arg, &peer) || all_departed(arg);
}

/* Finds the pairs of all peers, and connects to them. */
static gcoll_status prepare_any(gcoll_context *context, const gcoll_any *any) {
    for (uint32_t i = 0; i < any->count; i++) {
        gcoll_pair *pair;
        gcoll_status status = check_peer(context, any->peers[i]);
        if (status == GCOLL_OK)
            status = gcoll_context_settle(context);
        if (status == GCOLL_OK)
            status = find_pair(context, any->peers[i], &pair);
        if (status != GCOLL_OK)
            return gcoll_error(status, "peers[%u]: %s", i, gcoll_last_error());
    }
    for (uint32_t i = 0; i < any->count; i++)
        if (!gcoll_peer_has_departed(context, any->peers[i]) &&
            !gcoll_peer_need(context, any->peers[i], false))
            return gcoll_context_settle(context);
    return GCOLL_OK;
}

/* The shortest timeout of the pairs. */
static int64_t shortest_timeout(const gcoll_context *context, const gcoll_any *any) {
    int64_t shortest = -1;
    for (uint32_t i = 0; i < any->count; i++)
        shortest = gcoll_shorter_timeout(context, shortest, context->runs->pairs[any->peers[i]]->timeout_ms);
    return shortest;
}

static gcoll_status recv_any(gcoll_context *context, const gcoll_any *any, void *data, uint64_t bytes,
                             uint32_t *source) {
    const struct any_wait wait = {context, any};
    gcoll_status status = prepare_any(context, any);
    if (status != GCOLL_OK)
        return status;
    uint32_t peer = any->peers[0];
    if (!find_arrived(&wait, &peer)) {
        const gcoll_wait until = {any_arrived, NULL, &wait, shortest_timeout(context, any)};
        context->runs->any = any;
        status = gcoll_progress_wait(context, &until);
        context->runs->any = NULL;
        if (status != GCOLL_OK)
            return status;
        find_arrived(&wait, &peer); /* if nothing has arrived, all have left, and the receive reports it */
    }
    status = finish(context->runs->pairs[peer], any->tag, data, bytes, false);
    if (status == GCOLL_OK)
        *source = peer;
    return status;
}

gcoll_status gcoll_context_recv_any(gcoll_context *context, const uint32_t *peers, uint32_t count,
                                    uint32_t tag, void *data, uint64_t bytes, uint32_t *source) {
    const gcoll_any any = {peers, count, tag};
    if (!context || !peers || !source)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL",
                           !context ? "context"
                           : peers  ? "source"
                                    : "peers");
    if (count == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "count: is 0; allowed are 1 and more");
    if (!data && bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "data: is NULL, but bytes is %llu", (unsigned long long)bytes);
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    status = recv_any(context, &any, data, bytes, source);
    gcoll_leave(context);
    return status;
}
