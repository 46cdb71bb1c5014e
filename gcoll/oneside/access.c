/*
 * gcoll/oneside/access.c - puts and gets: by the transport, or by messages where it cannot reach a peer's
 * memory.
 *
 * What the transport does by itself needs no word of the owner's, but for a notification: that is a put of no
 * bytes, which is posted behind the access and so arrives after it. By messages an access is a stream of its
 * own, with one message in each direction. The one of who asks carries, where operations carry their
 * fingerprint, what is wanted: 32 bytes. The owner of the region posts what belongs to it when it sees them:
 * a put is received straight into the region and answered by an empty message, a get is an empty message
 * answered from the region. So bytes move from memory to memory as those of any message.
 *
 * A rank has at most WINDOW accesses under way at one peer; more wait in a queue. An owner holds a few times
 * as many for a peer, as it may see the end of one later than the peer does, and takes more for an attack.
 */
#include <stdio.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/oneside/access.h"
#include "gcoll/run/run.h"

#define WINDOW  64
#define MOST_IN (4 * WINDOW)
#define ANSWER  1 /* index of the message that goes back: with 0 it could be an access of the owner's */

/* Byte offsets of what is wanted; numbers are little-endian. */
enum { AT_KIND = 0, AT_NOTIFY = 1, AT_REGION = 8, AT_OFFSET = 16, AT_BYTES = 24 };
enum { KIND_PUT = 1, KIND_GET = 2 };

struct gcoll_access {
    gcoll_context *context;
    gcoll_request *request; /* of the rank that asks */
    gcoll_region *region;   /* of the owner */
    uint32_t peer;
    uint32_t pending; /* messages not done */
    uint8_t wanted[GCOLL_FINGERPRINT_BYTES];
    uint64_t stream;
    gcoll_message send, recv;
    gcoll_remote_access remote; /* if it is one */
    bool is_direct, by_messages;
    gcoll_access *next, **link; /* in oneside->accesses, or (next) oneside->spare_accesses */
    gcoll_access *later;        /* in a queue */
};

/* What is under way with one peer. */
struct gcoll_traffic {
    uint64_t asked; /* accesses so far: each has a stream */
    uint32_t out, in;
    gcoll_access *held, **held_end; /* beyond the window */
};

/* ---- Life --------------------------------------------------------------------------------- */

static gcoll_access *take(gcoll_context *context, uint32_t peer) {
    gcoll_oneside *oneside = context->oneside;
    gcoll_access *access = oneside->spare_accesses;
    if (access)
        oneside->spare_accesses = access->next;
    else
        access = gcoll_allocate(context, sizeof *access);
    if (!access)
        return NULL;
    memset(access, 0, sizeof *access);
    access->context = context;
    access->peer = peer;
    access->link = &oneside->accesses;
    access->next = oneside->accesses;
    if (access->next)
        access->next->link = &access->next;
    oneside->accesses = access;
    return access;
}

static void give_back(gcoll_access *access) {
    gcoll_oneside *oneside = access->context->oneside;
    *access->link = access->next;
    if (access->next)
        access->next->link = access->link;
    access->next = oneside->spare_accesses;
    oneside->spare_accesses = access;
}

static struct gcoll_traffic *traffic_with(gcoll_context *context, uint32_t peer) {
    gcoll_oneside *oneside = context->oneside;
    if (!oneside->traffic)
        oneside->traffic = gcoll_allocate_zeroed(context, context->size * sizeof(void *));
    if (!oneside->traffic)
        return NULL;
    struct gcoll_traffic **traffic = &oneside->traffic[peer];
    if (!*traffic) {
        *traffic = gcoll_allocate(context, sizeof **traffic);
        if (*traffic) {
            memset(*traffic, 0, sizeof **traffic);
            (*traffic)->held_end = &(*traffic)->held;
        }
    }
    return *traffic;
}

void gcoll_oneside_free(gcoll_context *context) {
    gcoll_oneside *oneside = context->oneside;
    while (oneside->accesses)
        give_back(oneside->accesses);
    while (oneside->spare_accesses) {
        gcoll_access *access = oneside->spare_accesses;
        oneside->spare_accesses = access->next;
        gcoll_release(context, access, sizeof *access);
    }
    for (uint32_t peer = 0; oneside->traffic && peer < context->size; peer++)
        gcoll_release(context, oneside->traffic[peer], sizeof *oneside->traffic[peer]);
    gcoll_release(context, oneside->traffic, context->size * sizeof(void *));
    gcoll_regions_orphan(context);
}

/* ---- Who asks ----------------------------------------------------------------------------- */

static void post_both(gcoll_access *access) {
    gcoll_context *context = access->context;
    context->transport->post_recv(context->endpoint, access->peer, &access->recv);
    context->transport->post_send(context->endpoint, access->peer, &access->send);
}

static void launch(struct gcoll_traffic *traffic, gcoll_access *access) {
    gcoll_context *context = access->context;
    traffic->out++;
    access->pending = (access->is_direct ? 1U : 0U) + (access->by_messages ? 2U : 0U);
    if (access->is_direct)
        context->transport->access(context->endpoint, access->peer, &access->remote);
    if (access->by_messages)
        post_both(access);
}

static void on_answered(gcoll_message *message) {
    gcoll_access *access = message->owner;
    if (--access->pending > 0)
        return;
    struct gcoll_traffic *traffic = access->context->oneside->traffic[access->peer];
    gcoll_request_set_done(access->request);
    give_back(access);
    traffic->out--;
    gcoll_access *held = traffic->held;
    if (!held)
        return;
    traffic->held = held->later;
    if (!traffic->held)
        traffic->held_end = &traffic->held;
    launch(traffic, held);
}

static void fill_direct(gcoll_access *access, const gcoll_access_wanted *wanted) {
    access->is_direct = true;
    access->remote = (gcoll_remote_access){.message = {.granule = 1,
                                                       .data = wanted->data,
                                                       .bytes = wanted->bytes,
                                                       .done = on_answered,
                                                       .owner = access},
                                           .gets = !wanted->is_put,
                                           .address = wanted->address,
                                           .key = wanted->key};
}

static void fill(gcoll_access *access, const gcoll_access_wanted *wanted) {
    access->by_messages = true;
    access->wanted[AT_KIND] = wanted->is_put ? KIND_PUT : KIND_GET;
    access->wanted[AT_NOTIFY] = wanted->notify;
    gcoll_put_le(access->wanted + AT_REGION, wanted->region, 8);
    gcoll_put_le(access->wanted + AT_OFFSET, wanted->offset, 8);
    gcoll_put_le(access->wanted + AT_BYTES, wanted->bytes, 8);
    const gcoll_message message = {
        .stream = access->stream, .granule = 1, .done = on_answered, .owner = access};
    access->send = message;
    access->recv = message;
    access->recv.index = ANSWER;
    access->send.open = access->wanted;
    gcoll_message *moves = wanted->is_put ? &access->send : &access->recv;
    moves->data = wanted->data;
    moves->bytes = wanted->bytes;
}

gcoll_status gcoll_access_start(gcoll_context *context, uint32_t peer, const gcoll_access_wanted *wanted,
                                gcoll_request *request) {
    struct gcoll_traffic *traffic = traffic_with(context, peer);
    gcoll_access *access = traffic ? take(context, peer) : NULL;
    if (!access)
        return GCOLL_ERR_NO_MEMORY;
    access->request = request;
    access->stream = GCOLL_STREAM_ACCESS | traffic->asked++;
    gcoll_access_wanted told = *wanted;
    if (wanted->is_direct) {
        fill_direct(access, wanted);
        told.bytes = 0;
    }
    if (!wanted->is_direct || wanted->notify)
        fill(access, &told);
    if (traffic->out < WINDOW) {
        launch(traffic, access);
        return GCOLL_OK;
    }
    *traffic->held_end = access;
    traffic->held_end = &access->later;
    return GCOLL_OK;
}

/* ---- The owner ---------------------------------------------------------------------------- */

static void on_served(gcoll_message *message) {
    gcoll_access *access = message->owner;
    if (--access->pending > 0)
        return;
    access->region->uses--;
    access->context->oneside->traffic[access->peer]->in--;
    give_back(access);
}

static void answer_put(gcoll_message *message) {
    gcoll_access *access = message->owner;
    gcoll_context *context = access->context;
    if (access->wanted[AT_NOTIFY])
        access->region->notified++;
    context->transport->post_send(context->endpoint, access->peer, &access->send);
    on_served(message);
}

/* An empty text: there is nothing against it. */
static void object(const gcoll_access *access, char *text, size_t size) {
    const uint8_t *wanted = access->wanted;
    const unsigned long long offset = gcoll_get_le(wanted + AT_OFFSET, 8),
                             bytes = gcoll_get_le(wanted + AT_BYTES, 8);
    text[0] = '\0';
    if (wanted[AT_KIND] != KIND_PUT && wanted[AT_KIND] != KIND_GET)
        snprintf(text, size, "asks for an access of unknown kind %u", wanted[AT_KIND]);
    else if (!access->region)
        snprintf(text, size, "%s a region that rank %u does not have, or has destroyed",
                 wanted[AT_KIND] == KIND_PUT ? "puts into" : "gets from", access->context->rank);
    else if (bytes > access->region->bytes || offset > access->region->bytes - bytes)
        snprintf(text, size, "accesses %llu bytes at %llu of a region of %llu bytes", bytes, offset,
                 (unsigned long long)access->region->bytes);
}

static void serve(gcoll_access *access) {
    gcoll_context *context = access->context;
    char text[128];
    access->region = gcoll_region_find(context, gcoll_get_le(access->wanted + AT_REGION, 8));
    object(access, text, sizeof text);
    if (text[0]) {
        gcoll_break(context, GCOLL_ERR_PROTOCOL, access->peer, "rank %u %s", access->peer, text);
        return;
    }
    const bool is_put = access->wanted[AT_KIND] == KIND_PUT;
    const gcoll_message message = {
        .stream = access->stream, .granule = 1, .done = on_served, .owner = access};
    access->send = message;
    access->send.index = ANSWER;
    access->recv = message;
    gcoll_message *moves = is_put ? &access->recv : &access->send;
    moves->data = access->region->data + gcoll_get_le(access->wanted + AT_OFFSET, 8);
    moves->bytes = gcoll_get_le(access->wanted + AT_BYTES, 8);
    access->region->uses++;
    access->pending = 2;
    if (!is_put) {
        post_both(access);
        return;
    }
    access->recv.done = answer_put;
    context->transport->post_recv(context->endpoint, access->peer, &access->recv);
}

/* Called in the middle of the transport's work, where nothing may be posted. */
void gcoll_access_arrived(gcoll_context *context, uint32_t peer, uint64_t stream,
                          const uint8_t wanted[GCOLL_FINGERPRINT_BYTES]) {
    struct gcoll_traffic *traffic = traffic_with(context, peer);
    if (traffic && traffic->in >= MOST_IN) {
        gcoll_break(context, GCOLL_ERR_PROTOCOL, peer,
                    "rank %u asks for more than %d accesses to regions at once", peer, MOST_IN);
        return;
    }
    gcoll_access *access = traffic ? take(context, peer) : NULL;
    if (!access) {
        gcoll_run_out(context, GCOLL_ERR_NO_MEMORY);
        return;
    }
    traffic->in++;
    access->stream = stream;
    memcpy(access->wanted, wanted, sizeof access->wanted);
    gcoll_live_due(context, &gcoll_oneside_activity);
    gcoll_access **end = &context->oneside->arrived; /* few: those of one round of progress */
    while (*end)
        end = &(*end)->later;
    *end = access;
}

static void serve_arrived(gcoll_context *context) {
    gcoll_oneside *oneside = context->oneside;
    while (oneside->arrived && !context->health.broken) {
        gcoll_access *access = oneside->arrived;
        oneside->arrived = access->later;
        serve(access);
    }
    if (!oneside->arrived)
        gcoll_live_not_due(context, &gcoll_oneside_activity);
}

/* Something is under way, or peers may access a region at any time. */
static bool has_work(const gcoll_context *context) {
    return context->oneside->regions || context->oneside->accesses;
}

const gcoll_activity gcoll_oneside_activity = {.order = 1, .advance = serve_arrived, .has_work = has_work};
