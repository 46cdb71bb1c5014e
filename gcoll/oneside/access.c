/*
 * gcoll/oneside/access.c - puts and gets: by the transport if it can access a peer's memory, else by
 * messages.
 *
 * An access by the transport involves the owner of the region only if the owner is to be notified. The
 * notification is a put of no bytes by messages. It is posted after the access, so it arrives after the
 * bytes.
 *
 * An access by messages is a stream of its own, with one message in each direction. The request message
 * carries the descriptor of the access (32 bytes) in the place of an operation's fingerprint. When the owner
 * receives the descriptor, it posts its side. A put is received straight into the region, and answered by an
 * empty message. A get is an empty message, and answered from the region. So bytes move from memory to
 * memory, as in any message.
 *
 * A rank has at most WINDOW accesses under way at one peer; more wait in a queue. The owner accepts MOST_IN
 * from a peer, because it may see the end of an access later than the peer does. It treats more as an attack.
 */
#include <stdio.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/oneside/access.h"
#include "gcoll/record/record.h"
#include "gcoll/run/run.h"

#define WINDOW  64
#define MOST_IN (4 * WINDOW)
#define ANSWER  1 /* index of the answer; with 0 it could be taken for an access of the owner */

/* Byte offsets in the descriptor of an access. Numbers are little-endian. */
enum { AT_KIND = 0, AT_NOTIFY = 1, AT_REGION = 8, AT_OFFSET = 16, AT_BYTES = 24 };
enum { KIND_PUT = 1, KIND_GET = 2 };

struct gcoll_access {
    gcoll_context *context;
    gcoll_request *request; /* on the requesting rank */
    gcoll_region *region;   /* on the owner's rank */
    uint32_t peer;
    uint32_t pending; /* messages and accesses by the transport that are not done */
    uint8_t wanted[GCOLL_FINGERPRINT_BYTES];
    uint64_t stream;
    gcoll_message send, recv;
    gcoll_remote_access remote; /* if is_direct */
    uint64_t bytes;             /* that it moves, */
    bool sends;                 /* from this rank to the peer */
    bool is_direct, by_messages;
    gcoll_access *next, **link; /* in oneside->accesses; only next: in oneside->spare_accesses */
    gcoll_access *later;        /* in a queue: oneside->arrived or traffic->held */
};

/* Accesses to one peer's regions (asked, out, held), and its accesses to ours (in). */
struct gcoll_traffic {
    uint64_t asked; /* number of accesses so far; each is a stream */
    uint32_t out, in;
    gcoll_access *held, **held_end; /* queue of accesses beyond the window */
};

/* ---- Life --------------------------------------------------------------------------------- */

/* Makes an access with a peer, and lists it as under way. Returns NULL if there is no memory. */
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

/* Ends an access, and keeps its memory for the next one. */
static void give_back(gcoll_access *access) {
    gcoll_oneside *oneside = access->context->oneside;
    *access->link = access->next;
    if (access->next)
        access->next->link = access->link;
    access->next = oneside->spare_accesses;
    oneside->spare_accesses = access;
}

/* Returns the traffic with a peer, and makes it first if needed. Returns NULL if there is no memory. */
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

/* ---- The requesting rank ------------------------------------------------------------------ */

static void post_both(gcoll_access *access) {
    gcoll_context *context = access->context;
    context->transport->post_recv(context->endpoint, access->peer, &access->recv);
    context->transport->post_send(context->endpoint, access->peer, &access->send);
}

/* Starts an access that is within the window. */
static void launch(struct gcoll_traffic *traffic, gcoll_access *access) {
    gcoll_context *context = access->context;
    traffic->out++;
    access->pending = (access->is_direct ? 1U : 0U) + (access->by_messages ? 2U : 0U);
    if (access->is_direct)
        context->transport->access(context->endpoint, access->peer, &access->remote);
    if (access->by_messages)
        post_both(access);
}

/* It is over. */
static void count(const gcoll_access *access) {
    if (access->sends)
        gcoll_record_sent(access->context, access->peer, access->bytes);
    else
        gcoll_record_received(access->context, access->peer, access->bytes);
}

/* Is called when a message or an access by the transport is done. After the last one of an access, sets the
 * request to done and starts the next access of the queue. */
static void on_answered(gcoll_message *message) {
    gcoll_access *access = message->owner;
    if (--access->pending > 0)
        return;
    struct gcoll_traffic *traffic = access->context->oneside->traffic[access->peer];
    gcoll_request_set_done(access->request);
    count(access);
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

/* Prepares an access by the transport. */
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

/* Prepares an access by messages: the request message with the descriptor, and the receive of the answer. */
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
    access->bytes = wanted->bytes;
    access->sends = wanted->is_put;
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

/* Is called when a message of a peer's access is done. The access ends with its last message. */
static void on_served(gcoll_message *message) {
    gcoll_access *access = message->owner;
    if (--access->pending > 0)
        return;
    access->region->uses--;
    count(access);
    access->context->oneside->traffic[access->peer]->in--;
    give_back(access);
}

/* Is called when the bytes of a peer's put have arrived: notifies the owner and sends the answer. */
static void answer_put(gcoll_message *message) {
    gcoll_access *access = message->owner;
    gcoll_context *context = access->context;
    if (access->wanted[AT_NOTIFY]) {
        access->region->notified++;
        gcoll_live_ended(context); /* another thread may wait for it */
    }
    context->transport->post_send(context->endpoint, access->peer, &access->send);
    on_served(message);
}

/* Writes the reason to refuse an access, or an empty text if it is allowed. */
static void object(const gcoll_access *access, char *text, size_t size) {
    const uint8_t *wanted = access->wanted;
    const unsigned long long offset = gcoll_get_le(wanted + AT_OFFSET, 8),
                             bytes = gcoll_get_le(wanted + AT_BYTES, 8);
    text[0] = '\0';
    if (wanted[AT_KIND] != KIND_PUT && wanted[AT_KIND] != KIND_GET)
        snprintf(text, size, "requests an access of unknown kind %u", wanted[AT_KIND]);
    else if (!access->region)
        snprintf(text, size,
                 "%s a region that rank %u does not have, has destroyed, or has not exposed to it",
                 wanted[AT_KIND] == KIND_PUT ? "puts into" : "gets from", access->context->rank);
    else if (bytes > access->region->bytes || offset > access->region->bytes - bytes)
        snprintf(text, size, "accesses %llu bytes at %llu of a region of %llu bytes", bytes, offset,
                 (unsigned long long)access->region->bytes);
}

/* Posts the owner's messages of a peer's access. Breaks the context if the access is not allowed. */
static void serve(gcoll_access *access) {
    gcoll_context *context = access->context;
    char text[160];
    access->region = gcoll_region_find(context, access->peer, gcoll_get_le(access->wanted + AT_REGION, 8));
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
    access->bytes = moves->bytes;
    access->sends = !is_put;
    access->region->uses++;
    access->pending = 2;
    if (!is_put) {
        post_both(access);
        return;
    }
    access->recv.done = answer_put;
    context->transport->post_recv(context->endpoint, access->peer, &access->recv);
}

/* The transport calls this function in the middle of its work, where nothing may be posted. So the access is
 * only queued; serve_arrived posts its messages. */
void gcoll_access_arrived(gcoll_context *context, uint32_t peer, uint64_t stream,
                          const uint8_t wanted[GCOLL_FINGERPRINT_BYTES]) {
    struct gcoll_traffic *traffic = traffic_with(context, peer);
    if (traffic && traffic->in >= MOST_IN) {
        gcoll_break(context, GCOLL_ERR_PROTOCOL, peer,
                    "rank %u requests more than %d accesses to regions at once", peer, MOST_IN);
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
    gcoll_access **end = &context->oneside->arrived; /* short: the accesses of one round of progress */
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

/* Returns whether this rank must make progress: it has accesses under way, or regions that peers may access
 * at any time. */
static bool has_work(const gcoll_context *context) {
    return context->oneside->regions || context->oneside->accesses;
}

const gcoll_activity gcoll_oneside_activity = {.order = 2, .advance = serve_arrived, .has_work = has_work};
