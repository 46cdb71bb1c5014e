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

struct gcoll_request {
    gcoll_message message;
    gcoll_pair *pair;
    bool done;
    gcoll_request *next, **link; /* in context->requests */
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

gcoll_status gcoll_context_pair(gcoll_context *context, uint32_t peer, gcoll_pair **out) {
    if (!context || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "pair" : "context");
    if (peer >= context->size || peer == context->rank)
        return gcoll_error(GCOLL_ERR_INVALID, "peer: is %u; allowed are 0 to %u except this rank, %u", peer,
                           context->size - 1, context->rank);
    gcoll_status status = gcoll_context_settle(context);
    if (status != GCOLL_OK)
        return status;
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

static void unlink_request(gcoll_request *request) {
    *request->link = request->next;
    if (request->next)
        request->next->link = request->link;
}

static void end(gcoll_request *request) {
    gcoll_context *context = request->pair->context;
    unlink_request(request);
    gcoll_release(context, request, sizeof *request);
}

static gcoll_status start(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes, bool sends,
                          gcoll_request **out) {
    if (!pair || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", pair ? "request" : "pair");
    if (!data && bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "data: is NULL, but bytes is %llu", (unsigned long long)bytes);
    gcoll_context *context = pair->context;
    gcoll_status status = gcoll_context_settle(context);
    struct tag_counters *tags = NULL;
    if (status == GCOLL_OK)
        status = counters(pair, tag, &tags);
    if (status != GCOLL_OK)
        return status;
    gcoll_request *request = gcoll_allocate(context, sizeof *request);
    if (!request)
        return GCOLL_ERR_NO_MEMORY;
    memset(request, 0, sizeof *request);
    request->pair = pair;
    request->message = (gcoll_message){.stream = GCOLL_STREAM_TAG | tag,
                                       .index = sends ? tags->sent : tags->received,
                                       .granule = 1,
                                       .bytes = bytes,
                                       .data = data,
                                       .done = on_done,
                                       .owner = request};
    request->link = &context->requests;
    request->next = context->requests;
    if (request->next)
        request->next->link = &request->next;
    context->requests = request;
    if (!gcoll_peer_need(context, pair->peer, sends)) {
        end(request);
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

gcoll_status gcoll_pair_send_start(gcoll_pair *pair, uint32_t tag, const void *data, uint64_t bytes,
                                   gcoll_request **request) {
    return start(pair, tag, (void *)(uintptr_t)data, bytes, true, request);
}

gcoll_status gcoll_pair_recv_start(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes,
                                   gcoll_request **request) {
    return start(pair, tag, data, bytes, false, request);
}

static bool request_done(const void *arg) {
    return ((const gcoll_request *)arg)->done;
}

gcoll_status gcoll_request_wait(gcoll_request *request) {
    if (!request)
        return gcoll_error(GCOLL_ERR_INVALID, "request: is NULL");
    gcoll_context *context = request->pair->context;
    gcoll_status status = GCOLL_OK;
    if (!request->done)
        status = gcoll_context_wait(context, request_done, request);
    if (request->done)
        status = GCOLL_OK; /* it finished before the context broke */
    end(request);
    return status;
}

gcoll_status gcoll_request_test(gcoll_request *request, int *done) {
    if (!request || !done)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", request ? "done" : "request");
    gcoll_status status = request->done ? GCOLL_OK : gcoll_context_poll(request->pair->context);
    if (!request->done) {
        if (status == GCOLL_OK)
            *done = 0;
        return status;
    }
    end(request);
    *done = 1;
    return GCOLL_OK;
}

void gcoll_requests_free(gcoll_context *context) {
    while (context->requests)
        end(context->requests);
}

gcoll_status gcoll_pair_send(gcoll_pair *pair, uint32_t tag, const void *data, uint64_t bytes) {
    gcoll_request *request = NULL;
    gcoll_status status = gcoll_pair_send_start(pair, tag, data, bytes, &request);
    return status == GCOLL_OK ? gcoll_request_wait(request) : status;
}

gcoll_status gcoll_pair_recv(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes) {
    gcoll_request *request = NULL;
    gcoll_status status = gcoll_pair_recv_start(pair, tag, data, bytes, &request);
    return status == GCOLL_OK ? gcoll_request_wait(request) : status;
}

void gcoll_requests_each_waited(gcoll_context *context, bool (*fn)(void *arg, uint32_t peer), void *arg) {
    for (const gcoll_request *request = context->requests; request; request = request->next)
        if (!request->done && !fn(arg, request->pair->peer))
            return;
}

bool gcoll_requests_wait_for(const gcoll_context *context, uint32_t peer) {
    for (const gcoll_request *request = context->requests; request; request = request->next)
        if (!request->done && request->pair->peer == peer)
            return true;
    return false;
}
