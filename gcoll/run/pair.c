/*
 * gcoll/run/pair.c - tagged send and receive between two ranks.
 *
 * Each tag is a stream of its own: the i-th send with a tag matches the i-th receive with it. The counters of
 * a pair's tags lie in a small open-addressing table that doubles. A cancelled receive leaves a gap in the
 * order, which the next receive of its tag fills.
 *
 * A receive from any of several ranks looks for a message that no receive waits for, each time something
 * moves. When it finds one, it takes the next place in that rank's order, and is posted.
 */
#include <string.h>

#include "gcoll/base/hash.h"
#include "gcoll/record/record.h"
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
    uint64_t space;          /* part of the streams of its messages: 0, or GCOLL_STREAM_MEMBERS */
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

static gcoll_status find_in(gcoll_context *context, gcoll_pair ***pairs, uint64_t space, uint32_t peer,
                            gcoll_pair **out) {
    if (!*pairs)
        *pairs = gcoll_allocate_zeroed(context, context->size * sizeof(gcoll_pair *));
    if (!*pairs)
        return GCOLL_ERR_NO_MEMORY;
    if (!(*pairs)[peer]) {
        gcoll_pair *pair = gcoll_allocate(context, sizeof *pair);
        if (!pair)
            return GCOLL_ERR_NO_MEMORY;
        *pair = (gcoll_pair){.context = context, .peer = peer, .space = space};
        (*pairs)[peer] = pair;
    }
    *out = (*pairs)[peer];
    return GCOLL_OK;
}

static gcoll_status find_pair(gcoll_context *context, uint32_t peer, gcoll_pair **out) {
    return find_in(context, &context->runs->pairs, 0, peer, out);
}

gcoll_status gcoll_pair_of_members(gcoll_context *context, uint32_t peer, gcoll_pair **out) {
    return find_in(context, &context->runs->member_pairs, GCOLL_STREAM_MEMBERS, peer, out);
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

static void destroy_all(gcoll_context *context, gcoll_pair **pairs) {
    for (uint32_t peer = 0; pairs && peer < context->size; peer++)
        destroy(pairs[peer]);
    gcoll_release(context, pairs, context->size * sizeof(gcoll_pair *));
}

void gcoll_pairs_free(gcoll_context *context) {
    destroy_all(context, context->runs->pairs);
    destroy_all(context, context->runs->member_pairs);
}

/* ---- Requests ----------------------------------------------------------------------------- */

static void on_done(gcoll_message *message) {
    const gcoll_request *request = message->owner;
    if (request->receives_from)
        gcoll_record_received(request->context, request->peer, message->bytes);
    else
        gcoll_record_sent(request->context, request->peer, message->bytes);
    gcoll_request_set_done(message->owner);
}

/* Posts the message of a request. False if the context is or gets broken: then it is not posted. */
static bool post_message(gcoll_request *request, gcoll_pair *pair, struct tag_counters *tags, void *data,
                         uint64_t bytes, bool sends) {
    gcoll_context *context = pair->context;
    request->peer = pair->peer;
    request->receives_from = sends ? NULL : pair;
    request->room = bytes;
    request->message = (gcoll_message){.stream = GCOLL_STREAM_TAG | pair->space | tags->tag,
                                       .index = sends ? tags->sent : next_received(pair, tags),
                                       .granule = 1,
                                       .bytes = bytes,
                                       .data = data,
                                       .announced = sends,
                                       .settled = sends,
                                       .any_size = !sends,
                                       .done = on_done,
                                       .owner = request};
    if (!gcoll_peer_need(context, pair->peer, sends))
        return false;
    if (sends) {
        tags->sent++;
        context->transport->post_send(context->endpoint, pair->peer, &request->message);
        context->transport->flush(context->endpoint);
    } else {
        take_next_received(pair, tags);
        context->transport->post_recv(context->endpoint, pair->peer, &request->message);
    }
    return true;
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
    if (!post_message(request, pair, tags, data, bytes, sends)) {
        gcoll_request_end(request);
        return gcoll_context_settle(context);
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

gcoll_status gcoll_pair_post(gcoll_pair *pair, uint32_t tag, void *data, uint64_t bytes, bool sends,
                             gcoll_request **request) {
    return post(pair, tag, data, bytes, sends, request);
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

/* Ranks from any of which a message with this tag is wanted. */
struct choice {
    const uint32_t *peers;
    uint32_t count, tag;
};

/* Whether the next message with this tag has arrived from the peer; *bytes is then its size. */
static bool is_here(gcoll_context *context, uint32_t peer, uint32_t tag, uint64_t *bytes) {
    gcoll_pair *pair = context->runs->pairs[peer];
    const struct tag_counters *found = pair->capacity ? slot(pair->table, pair->capacity, tag) : NULL;
    return context->transport->peek(context->endpoint, peer, GCOLL_STREAM_TAG | tag,
                                    found && found->used ? next_received(pair, found) : 0, bytes);
}

static bool find_arrived(gcoll_context *context, const struct choice *choice, uint32_t *peer,
                         uint64_t *bytes) {
    for (uint32_t i = 0; i < choice->count; i++)
        if (is_here(context, choice->peers[i], choice->tag, bytes)) {
            *peer = choice->peers[i];
            return true;
        }
    return false;
}

/* Whether all peers have left, and no message of theirs can still arrive. */
static bool all_departed(const gcoll_context *context, const struct choice *choice) {
    if (gcoll_peer_is_doubted(context))
        return false;
    for (uint32_t i = 0; i < choice->count; i++)
        if (!gcoll_peer_has_departed(context, choice->peers[i]))
            return false;
    return true;
}

/* Finds the pairs of all peers, and connects to them. */
static gcoll_status prepare_choice(gcoll_context *context, const struct choice *choice) {
    for (uint32_t i = 0; i < choice->count; i++) {
        gcoll_pair *pair;
        gcoll_status status = check_peer(context, choice->peers[i]);
        if (status == GCOLL_OK)
            status = gcoll_context_settle(context);
        if (status == GCOLL_OK)
            status = find_pair(context, choice->peers[i], &pair);
        if (status != GCOLL_OK)
            return gcoll_error(status, "peers[%u]: %s", i, gcoll_last_error());
    }
    for (uint32_t i = 0; i < choice->count; i++)
        if (!gcoll_peer_has_departed(context, choice->peers[i]) &&
            !gcoll_peer_need(context, choice->peers[i], false))
            return gcoll_context_settle(context);
    return GCOLL_OK;
}

static gcoll_status check_choice(const gcoll_context *context, const struct choice *choice) {
    if (!context || !choice->peers)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", context ? "peers" : "context");
    if (choice->count == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "count: is 0; allowed are 1 and more");
    return GCOLL_OK;
}

/* The shortest timeout of the pairs. */
static int64_t shortest_timeout(const gcoll_context *context, const struct choice *choice) {
    int64_t shortest = -1;
    for (uint32_t i = 0; i < choice->count; i++)
        shortest =
            gcoll_shorter_timeout(context, shortest, context->runs->pairs[choice->peers[i]]->timeout_ms);
    return shortest;
}

static void append_any(gcoll_runs *runs, gcoll_any *any) {
    any->next = NULL;
    any->previous = runs->last_any;
    if (any->previous)
        any->previous->next = any;
    else
        runs->anys = any;
    runs->last_any = any;
}

void gcoll_any_remove(gcoll_request *request) {
    gcoll_context *context = request->context;
    gcoll_runs *runs = context->runs;
    gcoll_any *any = request->any;
    *(any->previous ? &any->previous->next : &runs->anys) = any->next;
    *(any->next ? &any->next->previous : &runs->last_any) = any->previous;
    request->any = NULL;
    if (any->memory_bytes > 0)
        gcoll_release(context, any, any->memory_bytes);
}

bool gcoll_any_each_waited(const gcoll_request *request, gcoll_waited_fn fn, void *arg) {
    const gcoll_any *any = request->any;
    for (uint32_t i = 0; i < any->count; i++)
        if (!gcoll_peer_has_departed(request->context, any->peers[i]) && !fn(arg, any->peers[i]))
            return false;
    return true;
}

/* Makes a receive from any of several ranks an ordinary receive from one of them. */
static void settle_any(gcoll_any *any, uint32_t peer) {
    gcoll_request *request = any->request;
    gcoll_context *context = request->context;
    gcoll_pair *pair = context->runs->pairs[peer];
    void *data = any->data;
    const uint64_t bytes = any->bytes;
    struct tag_counters *tags = NULL;
    gcoll_status status = counters(pair, any->tag, &tags);
    gcoll_any_remove(request);
    if (status == GCOLL_OK)
        post_message(request, pair, tags, data, bytes, false);
    else
        gcoll_run_out(context, status);
}

void gcoll_anys_advance(gcoll_context *context) {
    gcoll_any *next;
    for (gcoll_any *any = context->runs->anys; any && !context->health.broken; any = next) {
        const struct choice choice = {any->peers, any->count, any->tag};
        uint32_t peer = any->peers[0]; /* if all have left, the receive from the first reports it */
        uint64_t bytes;
        next = any->next;
        if (find_arrived(context, &choice, &peer, &bytes) || all_departed(context, &choice))
            settle_any(any, peer);
    }
    if (!context->runs->anys)
        gcoll_live_not_due(context, &gcoll_request_activity);
}

/* Begins a receive from any of several ranks. The fields of `any` that the caller decides are set. */
static gcoll_status begin_any(gcoll_context *context, gcoll_any *any, gcoll_request **out) {
    const struct choice choice = {any->peers, any->count, any->tag};
    gcoll_status status = gcoll_request_create(context, GCOLL_NO_RANK, &any->request);
    if (status != GCOLL_OK)
        return status;
    any->request->any = any;
    any->request->timeout_ms = shortest_timeout(context, &choice);
    *out = any->request;
    append_any(context->runs, any);
    gcoll_live_due(context, &gcoll_request_activity);
    gcoll_anys_advance(context);
    return GCOLL_OK;
}

static gcoll_status recv_any(gcoll_context *context, gcoll_any *any) {
    const struct choice choice = {any->peers, any->count, any->tag};
    gcoll_request *request = NULL;
    gcoll_status status = prepare_choice(context, &choice);
    if (status == GCOLL_OK)
        status = begin_any(context, any, &request);
    return status == GCOLL_OK ? gcoll_request_finish(&request) : status;
}

/* Checks the arguments of a receive from any of several ranks, and enters the context. The caller's
 * pointer `result`, an argument of that name, must not be NULL. */
static gcoll_status enter_recv_any(gcoll_context *context, const struct choice *choice, const void *data,
                                   uint64_t bytes, const char *result_name, const void *result) {
    gcoll_status status = check_choice(context, choice);
    if (status == GCOLL_OK && !result)
        status = gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", result_name);
    if (status == GCOLL_OK)
        status = check_data(data, bytes);
    return status == GCOLL_OK ? gcoll_enter(context) : status;
}

gcoll_status gcoll_context_recv_any(gcoll_context *context, const uint32_t *peers, uint32_t count,
                                    uint32_t tag, void *data, uint64_t bytes, uint32_t *source) {
    const struct choice choice = {peers, count, tag};
    gcoll_status status = enter_recv_any(context, &choice, data, bytes, "source", source);
    if (status != GCOLL_OK)
        return status;
    gcoll_any any = {.peers = peers, .count = count, .tag = tag, .data = data, .bytes = bytes};
    status = recv_any(context, &any);
    if (status == GCOLL_OK)
        *source = context->runs->last_source;
    gcoll_leave(context);
    return status;
}

/* Copies the list of peers, which the caller may change while the receive is in flight. */
static gcoll_any *make_any(gcoll_context *context, const struct choice *choice) {
    const uint64_t peers_bytes = (uint64_t)choice->count * sizeof *choice->peers;
    gcoll_any *any = gcoll_allocate(context, sizeof *any + peers_bytes);
    if (!any)
        return NULL;
    uint32_t *peers = (uint32_t *)(void *)(any + 1);
    memcpy(peers, choice->peers, peers_bytes);
    *any = (gcoll_any){.peers = peers,
                       .count = choice->count,
                       .tag = choice->tag,
                       .memory_bytes = sizeof *any + peers_bytes};
    return any;
}

static gcoll_status recv_any_start(gcoll_context *context, const struct choice *choice, void *data,
                                   uint64_t bytes, gcoll_request **out) {
    gcoll_status status = prepare_choice(context, choice);
    if (status != GCOLL_OK)
        return status;
    gcoll_any *any = make_any(context, choice);
    if (!any)
        return GCOLL_ERR_NO_MEMORY;
    any->data = data;
    any->bytes = bytes;
    const uint64_t memory_bytes = any->memory_bytes;
    status = begin_any(context, any, out);
    if (status != GCOLL_OK)
        gcoll_release(context, any, memory_bytes);
    return status;
}

gcoll_status gcoll_context_recv_any_start(gcoll_context *context, const uint32_t *peers, uint32_t count,
                                          uint32_t tag, void *data, uint64_t bytes, gcoll_request **request) {
    const struct choice choice = {peers, count, tag};
    gcoll_status status = enter_recv_any(context, &choice, data, bytes, "request", request);
    if (status != GCOLL_OK)
        return status;
    status = recv_any_start(context, &choice, data, bytes, request);
    gcoll_leave(context);
    return status;
}

/* ---- Probing ------------------------------------------------------------------------------ */

/* The result of a probe. */
struct probed {
    bool found;
    uint32_t source;
    uint64_t bytes;
};

static gcoll_status probe(gcoll_context *context, const struct choice *choice, struct probed *probed) {
    gcoll_status status = prepare_choice(context, choice);
    if (status == GCOLL_OK)
        status = gcoll_progress(context, 0);
    if (status != GCOLL_OK)
        return status;
    probed->found = find_arrived(context, choice, &probed->source, &probed->bytes);
    if (!probed->found && all_departed(context, choice))
        return gcoll_error(GCOLL_ERR_PEER,
                           "rank %u%s left the job, and sent no message with tag %u that waits",
                           choice->peers[0], choice->count > 1 ? " and the other ranks" : "", choice->tag);
    return GCOLL_OK;
}

static gcoll_status enter_and_probe(gcoll_context *context, const struct choice *choice,
                                    struct probed *probed) {
    gcoll_status status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    status = probe(context, choice, probed);
    gcoll_leave(context);
    return status;
}

gcoll_status gcoll_context_probe(gcoll_context *context, const uint32_t *peers, uint32_t count, uint32_t tag,
                                 int *found, uint32_t *source, uint64_t *bytes) {
    const struct choice choice = {peers, count, tag};
    struct probed probed = {0};
    gcoll_status status = check_choice(context, &choice);
    if (status == GCOLL_OK && !found)
        status = gcoll_error(GCOLL_ERR_INVALID, "found: is NULL");
    if (status == GCOLL_OK)
        status = enter_and_probe(context, &choice, &probed);
    if (status != GCOLL_OK)
        return status;
    *found = probed.found;
    if (probed.found && source)
        *source = probed.source;
    if (probed.found && bytes)
        *bytes = probed.bytes;
    return GCOLL_OK;
}

gcoll_status gcoll_pair_probe(gcoll_pair *pair, uint32_t tag, int *found, uint64_t *bytes) {
    if (!pair)
        return gcoll_error(GCOLL_ERR_INVALID, "pair: is NULL");
    return gcoll_context_probe(pair->context, &pair->peer, 1, tag, found, NULL, bytes);
}
