/*
 * gcoll/core/pair.c - tagged send and receive between two ranks, and the requests they are waited for by.
 *
 * A tag is a stream of its own: the i-th send with a tag matches the i-th receive with it. The counters of
 * the tags of a pair lie in a small open-addressing table that doubles.
 */
#include <string.h>

#include "gcoll/core/core_internal.h"

#define FIRST_TAGS 16

struct tag_counters {
    bool used;
    uint32_t tag;
    uint32_t sent, received;
};

struct gcoll_pair {
    gcoll_context *context;
    uint32_t peer;
    uint32_t tags, capacity; /* capacity is a power of two */
    struct tag_counters *table;
};

/* ---- Tags --------------------------------------------------------------------------------- */

static struct tag_counters *slot(struct tag_counters *table, uint32_t capacity, uint32_t tag) {
    uint32_t at = (tag * UINT32_C(2654435761)) & (capacity - 1); /* Knuth's multiplicative hash */
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

/* ---- Pairs -------------------------------------------------------------------------------- */

static gcoll_status find_pair(gcoll_context *context, uint32_t peer, gcoll_pair **out) {
    gcoll_peer *state = &context->peers[peer];
    if (!state->pair) {
        gcoll_pair *pair = gcoll_allocate(context, sizeof *pair);
        if (!pair)
            return GCOLL_ERR_NO_MEMORY;
        *pair = (gcoll_pair){.context = context, .peer = peer};
        state->pair = pair;
    }
    *out = state->pair;
    return GCOLL_OK;
}

gcoll_status gcoll_context_pair(gcoll_context *context, uint32_t peer, gcoll_pair **out) {
    if (!context || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "pair" : "context");
    if (peer >= context->size || peer == context->rank)
        return gcoll_error(GCOLL_ERR_INVALID, "peer: is %u; allowed are 0 to %u except this rank, %u", peer,
                           context->size - 1, context->rank);
    gcoll_enter(context);
    gcoll_status status = gcoll_context_settle(context);
    if (status == GCOLL_OK)
        status = find_pair(context, peer, out);
    gcoll_leave(context);
    return status;
}

void gcoll_pair_destroy(gcoll_pair *pair) {
    if (!pair)
        return;
    gcoll_release(pair->context, pair->table, (uint64_t)pair->capacity * sizeof *pair->table);
    gcoll_release(pair->context, pair, sizeof *pair);
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
    status = gcoll_request_create(context, &request);
    if (status != GCOLL_OK)
        return status;
    request->peer = pair->peer;
    request->message = (gcoll_message){.stream = GCOLL_STREAM_TAG | tag,
                                       .index = sends ? tags->sent : tags->received,
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
        tags->received++;
        context->transport->post_recv(context->endpoint, pair->peer, &request->message);
    }
    *out = request;
    return GCOLL_OK;
}

static gcoll_status start(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes, bool sends,
                          gcoll_request **out) {
    if (!pair || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", pair ? "request" : "pair");
    if (!data && bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "data: is NULL, but bytes is %llu", (unsigned long long)bytes);
    gcoll_enter(pair->context);
    gcoll_status status = post(pair, tag, data, bytes, sends, out);
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

gcoll_status gcoll_pair_send(gcoll_pair *pair, uint32_t tag, const void *data, uint64_t bytes) {
    gcoll_request *request = NULL;
    gcoll_status status = gcoll_pair_send_start(pair, tag, data, bytes, &request);
    return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
}

gcoll_status gcoll_pair_recv(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes) {
    gcoll_request *request = NULL;
    gcoll_status status = gcoll_pair_recv_start(pair, tag, data, bytes, &request);
    return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
}

gcoll_status gcoll_pair_sendrecv(gcoll_pair *to, uint32_t send_tag, const void *send, uint64_t send_bytes,
                                 gcoll_pair *from, uint32_t recv_tag, void *recv, uint64_t recv_bytes) {
    gcoll_request *sending = NULL, *receiving = NULL;
    if (!to || !from)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", to ? "from" : "to");
    if (to->context != from->context)
        return gcoll_error(GCOLL_ERR_INVALID, "from: is of another context than to; allowed is one");
    if (!send && send_bytes > 0) /* found before the receive is posted, which could not be taken back */
        return gcoll_error(GCOLL_ERR_INVALID, "send: is NULL, but send_bytes is %llu",
                           (unsigned long long)send_bytes);
    gcoll_status status = gcoll_pair_recv_start(from, recv_tag, recv, recv_bytes, &receiving);
    if (status != GCOLL_OK)
        return status;
    status = gcoll_pair_send_start(to, send_tag, send, send_bytes, &sending);
    if (status != GCOLL_OK && gcoll_context_health(to->context) == GCOLL_OK) {
        /* No memory for the send. Only breaking ends a receive, and its partner would wait in vain anyway. */
        gcoll_enter(to->context);
        gcoll_break(to->context, status, to->context->rank, "rank %u cannot send to rank %u: %s",
                    to->context->rank, to->peer, gcoll_last_error());
        gcoll_leave(to->context);
    }
    gcoll_status sent = status == GCOLL_OK ? gcoll_request_wait(&sending) : status;
    status = gcoll_request_wait(&receiving);
    return sent != GCOLL_OK ? sent : status;
}

/* ---- From any of several ------------------------------------------------------------------ */

struct any_wait {
    gcoll_context *context;
    const gcoll_any *any;
};

/* The message that is next from peer, if a receive of it would find something. */
static bool is_here(gcoll_context *context, uint32_t peer, uint32_t tag) {
    const gcoll_pair *pair = context->peers[peer].pair;
    const struct tag_counters *found = pair->capacity ? slot(pair->table, pair->capacity, tag) : NULL;
    return context->transport->peek(context->endpoint, peer, GCOLL_STREAM_TAG | tag,
                                    found && found->used ? found->received : 0);
}

static bool find_arrived(const struct any_wait *wait, uint32_t *peer) {
    for (uint32_t i = 0; i < wait->any->count; i++)
        if (is_here(wait->context, wait->any->peers[i], wait->any->tag)) {
            *peer = wait->any->peers[i];
            return true;
        }
    return false;
}

/* And nothing of theirs can still be on its way. */
static bool all_departed(const struct any_wait *wait) {
    if (wait->context->doubt_ms != 0)
        return false;
    for (uint32_t i = 0; i < wait->any->count; i++)
        if (!wait->context->peers[wait->any->peers[i]].departed)
            return false;
    return true;
}

static bool any_arrived(const void *arg) {
    uint32_t peer;
    return find_arrived(arg, &peer) || all_departed(arg);
}

/* Finds the pairs, and connects to all whose messages are asked for. */
static gcoll_status prepare_any(gcoll_context *context, const gcoll_any *any) {
    for (uint32_t i = 0; i < any->count; i++) {
        gcoll_pair *pair;
        gcoll_status status = gcoll_context_pair(context, any->peers[i], &pair);
        if (status != GCOLL_OK)
            return gcoll_error(status, "peers[%u]: %s", i, gcoll_last_error());
    }
    for (uint32_t i = 0; i < any->count; i++)
        if (!context->peers[any->peers[i]].departed && !gcoll_peer_need(context, any->peers[i], false))
            return gcoll_context_settle(context);
    return GCOLL_OK;
}

static gcoll_status recv_any(gcoll_context *context, const gcoll_any *any, void *data, uint64_t bytes,
                             uint32_t *source) {
    const struct any_wait wait = {context, any};
    gcoll_status status = prepare_any(context, any);
    if (status != GCOLL_OK)
        return status;
    uint32_t peer = any->peers[0];
    if (!find_arrived(&wait, &peer)) {
        context->any = any;
        status = gcoll_context_wait(context, any_arrived, &wait);
        context->any = NULL;
        if (status != GCOLL_OK)
            return status;
        find_arrived(&wait, &peer); /* nothing came: all have left, and the receive says so */
    }
    status = gcoll_pair_recv(context->peers[peer].pair, any->tag, data, bytes);
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
    gcoll_enter(context);
    gcoll_status status = recv_any(context, &any, data, bytes, source);
    gcoll_leave(context);
    return status;
}
