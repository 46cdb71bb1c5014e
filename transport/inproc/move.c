/*
 * transport/inproc/move.c - progress: delivers completions, arrivals, copies and signs, one at a time.
 *
 * Each kind of delivery is a function that is called with the seat locked, returns with it locked and
 * unlocks it while bytes are copied or a caller's function runs. It gives false if there was nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "transport/inproc/internal.h"
#include "transport/size.h"

/* Bytes copied between two checks of seat->stop: an abort or a close waits for at most one such piece. */
#define PIECE_BYTES 65536
/* Pieces of one message copied in one go, before other messages have their turn. */
#define PORTION_PIECES 16
/* Most deliveries in one call, so that it returns even if they never end. */
#define STEPS_MAX 1024
/* A piece that is to be corrupted goes through a buffer of this size. */
#define SPOILT_BYTES 1024
/* A shuffle ends a call after one of this many deliveries, on average. */
#define PAUSE_ODDS 4

typedef bool (*delivery)(gcoll_endpoint *endpoint, bool *moved);

/* SplitMix64. */
static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t gcoll_inproc_random(gcoll_endpoint *endpoint) {
    endpoint->random = mix(endpoint->random);
    return endpoint->random;
}

/* Whether deliveries from `peer` may happen now: tests may cut, delay or shuffle them. */
static bool passes(gcoll_endpoint *endpoint, uint32_t peer) {
    static const uint8_t pace[] = {1, 4, 8, 15}; /* in 16ths: how likely a pair of ranks delivers */
    gcoll_hub *hub = endpoint->room->hub;
    if (!atomic_load_explicit(&hub->faulty, memory_order_relaxed))
        return true;
    if (gcoll_inproc_rule_cuts(hub, gcoll_inproc_home(endpoint->room, peer),
                               gcoll_inproc_home(endpoint->room, endpoint->rank)))
        return false;
    if (!hub->shuffled)
        return true;
    uint64_t pair = mix(hub->seed ^ mix(((uint64_t)endpoint->rank << 32) | peer));
    if (gcoll_inproc_random(endpoint) % 16 < pace[pair % sizeof pace])
        return true;
    endpoint->again = true;
    return false;
}

static gcoll_message *take(gcoll_endpoint *endpoint, gcoll_message_queue *queue) {
    gcoll_message *before = NULL;
    for (gcoll_message **slot = &queue->first; *slot; slot = &before->next) {
        if (passes(endpoint, (*slot)->peer))
            return gcoll_inproc_queue_take(queue, slot, before);
        before = *slot;
    }
    return NULL;
}

/* Whether an earlier message of the queue opens the stream of this one. */
static bool overtakes(const gcoll_message_queue *queue, const gcoll_message *message) {
    for (const gcoll_message *earlier = queue->first; earlier != message; earlier = earlier->next)
        if (earlier->open && earlier->peer == message->peer && earlier->stream == message->stream)
            return true;
    return false;
}

/* Takes the first arrival that may be delivered. By the contract, none overtakes an earlier fingerprint of
 * its stream. */
static gcoll_message *take_arrival(gcoll_endpoint *endpoint, gcoll_message_queue *queue) {
    gcoll_message *before = NULL;
    for (gcoll_message **slot = &queue->first; *slot; slot = &before->next) {
        if (passes(endpoint, (*slot)->peer) && !overtakes(queue, *slot))
            return gcoll_inproc_queue_take(queue, slot, before);
        before = *slot;
    }
    return NULL;
}

void gcoll_inproc_offer(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_inproc_room *room = endpoint->room;
    gcoll_inproc_seat *seat = &room->seats[peer];
    gcoll_inproc_link *link = gcoll_inproc_link_of(room, peer, endpoint->rank);
    pthread_mutex_lock(&seat->lock);
    bool lost = gcoll_inproc_rule_drops(room->hub, gcoll_inproc_home(room, endpoint->rank),
                                        gcoll_inproc_home(room, peer), link->offered++);
    if (!lost && (seat->state == GCOLL_INPROC_SEAT_OPEN || seat->state == GCOLL_INPROC_SEAT_EMPTY)) {
        message->peer = endpoint->rank;
        gcoll_message_push(&seat->arrivals, message);
        gcoll_inproc_seat_ring(seat);
    }
    pthread_mutex_unlock(&seat->lock);
    if (!lost)
        return;
    pthread_mutex_lock(&endpoint->seat->lock);
    gcoll_message_push(&endpoint->seat->completed, message);
    gcoll_inproc_seat_ring(endpoint->seat);
    pthread_mutex_unlock(&endpoint->seat->lock);
}

void gcoll_inproc_join(gcoll_endpoint *endpoint, uint32_t peer) {
    gcoll_message *before = NULL;
    gcoll_message **slot = &endpoint->held.first;
    if (endpoint->peers[peer] != GCOLL_INPROC_PEER_APART)
        return;
    endpoint->peers[peer] = GCOLL_INPROC_PEER_CONNECTED;
    while (*slot) {
        if ((*slot)->peer == peer) {
            gcoll_inproc_offer(endpoint, peer, gcoll_inproc_queue_take(&endpoint->held, slot, before));
        } else {
            before = *slot;
            slot = &before->next;
        }
    }
}

/* Ends a pair, and drops all messages of both sides. The lock is not held. */
static void part(gcoll_endpoint *endpoint, uint32_t peer) {
    endpoint->peers[peer] = GCOLL_INPROC_PEER_BROKEN;
    gcoll_inproc_queue_drop(&endpoint->held, peer);
    gcoll_inproc_seat_withdraw(endpoint->room, peer, endpoint->rank);
    pthread_mutex_lock(&endpoint->seat->lock);
    gcoll_inproc_seat_drop(endpoint->seat, peer);
    pthread_mutex_unlock(&endpoint->seat->lock);
}

/* ---- Completions: sends of ours that their receiver has taken -------------------------------------- */

static bool complete(gcoll_endpoint *endpoint, bool *moved) {
    gcoll_message *send = take(endpoint, &endpoint->seat->completed);
    if (!send)
        return false;
    endpoint->heard[send->peer]++;
    endpoint->answer.moves++;
    pthread_mutex_unlock(&endpoint->seat->lock);
    *moved = true;
    send->done(send);
    pthread_mutex_lock(&endpoint->seat->lock);
    return true;
}

/* ---- Arrivals: sends to us, announced and matched -------------------------------------------------- */

static bool arrive(gcoll_endpoint *endpoint, bool *moved) {
    gcoll_inproc_seat *seat = endpoint->seat;
    gcoll_message *send = take_arrival(endpoint, &seat->arrivals);
    if (!send)
        return false;
    uint32_t peer = send->peer;
    uint64_t stream = send->stream;
    bool opens = send->open;
    endpoint->heard[peer]++;
    if (endpoint->peers[peer] == GCOLL_INPROC_PEER_BROKEN)
        return true; /* the pair was cut while the peer posted */
    uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES];
    if (opens)
        memcpy(fingerprint, send->open, sizeof fingerprint);
    /* Queue it before the lock is released, so that the sender can withdraw it. */
    gcoll_message *receive = gcoll_inproc_table_take(&seat->receives, peer, stream, send->index);
    if (receive) {
        receive->match = send;
        gcoll_message_push(&seat->ready, receive);
    } else {
        gcoll_inproc_table_put(&seat->offers, send);
        *moved |= endpoint->curious;
    }
    if (opens) {
        pthread_mutex_unlock(&seat->lock);
        *moved = true;
        endpoint->events.opened(endpoint->events.arg, peer, stream, fingerprint);
        pthread_mutex_lock(&seat->lock);
    }
    return true;
}

/* ---- Copies ------------------------------------------------------------------------------------------ */

static void put(gcoll_message *receive, const uint8_t *source, uint64_t bytes) {
    if (receive->consume)
        receive->consume(receive->consume_arg, receive->moved, source, bytes);
    else
        memcpy((uint8_t *)receive->data + receive->moved, source, (size_t)bytes);
    receive->moved += bytes;
}

/* Whether the sender's piece and the receiver's copy have the same checksum. A piece that is consumed
 * directly from the sender's memory has no copy to check. */
static bool is_intact(const gcoll_endpoint *endpoint, const uint8_t *sent, const uint8_t *came,
                      uint64_t bytes) {
    return !endpoint->crc || sent == came ||
           endpoint->crc(0, sent, (size_t)bytes) == endpoint->crc(0, came, (size_t)bytes);
}

/* Delivers a piece through a buffer, with one bit flipped if `byte` lies in it. False if the checksum
 * notices it. */
static bool put_spoilt(const gcoll_endpoint *endpoint, gcoll_message *receive, const uint8_t *source,
                       uint64_t bytes, uint64_t byte) {
    uint8_t spoilt[SPOILT_BYTES];
    memcpy(spoilt, source, (size_t)bytes);
    if (byte >= receive->moved && byte - receive->moved < bytes)
        spoilt[byte - receive->moved] ^= 1;
    if (!is_intact(endpoint, source, spoilt, bytes))
        return false;
    put(receive, spoilt, bytes);
    return true;
}

/* Copies up to `pieces` pieces of `piece` bytes, fewer if the seat is told to stop, and one if that may have
 * taken long. False if a checksum differs. */
static bool copy(const gcoll_endpoint *endpoint, gcoll_message *receive, const gcoll_message *send,
                 uint64_t piece, uint32_t pieces) {
    for (uint32_t i = 0; i < pieces && receive->moved < receive->bytes && !(i > 0 && endpoint->hurries);
         i++) {
        uint64_t rest = receive->bytes - receive->moved, bytes = rest < piece ? rest : piece;
        const uint8_t *source = (const uint8_t *)send->data + receive->moved;
        if (atomic_load_explicit(&endpoint->seat->stop, memory_order_relaxed))
            return true;
        const uint8_t *came = receive->consume ? source : (const uint8_t *)receive->data + receive->moved;
        put(receive, source, bytes);
        if (endpoint->crc && !is_intact(endpoint, source, came, bytes))
            return false;
    }
    return true;
}

/* Copies a whole message that a test corrupts. False if the checksum notices it. */
static bool copy_spoilt(const gcoll_endpoint *endpoint, gcoll_message *receive, const gcoll_message *send,
                        uint64_t granule, uint64_t byte) {
    uint64_t piece = SPOILT_BYTES - SPOILT_BYTES % granule;
    while (receive->moved < receive->bytes) {
        uint64_t rest = receive->bytes - receive->moved;
        if (atomic_load_explicit(&endpoint->seat->stop, memory_order_relaxed))
            return true;
        if (!put_spoilt(endpoint, receive, (const uint8_t *)send->data + receive->moved,
                        rest < piece ? rest : piece, byte))
            return false;
    }
    return true;
}

/* Copies the next portion of a message. False if checksums show that the data was changed. */
static bool copy_some(gcoll_endpoint *endpoint, gcoll_message *receive, const gcoll_message *send) {
    gcoll_hub *hub = endpoint->room->hub;
    uint64_t granule = receive->granule ? receive->granule : 1;
    uint64_t piece = PIECE_BYTES - PIECE_BYTES % granule;
    uint32_t pieces = PORTION_PIECES;
    uint64_t byte;
    if (atomic_load_explicit(&hub->faulty, memory_order_relaxed)) {
        if (receive->moved == 0 &&
            gcoll_inproc_rule_corrupts(hub, gcoll_inproc_home(endpoint->room, receive->peer),
                                       gcoll_inproc_home(endpoint->room, endpoint->rank), send, &byte))
            return copy_spoilt(endpoint, receive, send, granule, byte);
        if (hub->shuffled) {
            piece = granule * (1 + gcoll_inproc_random(endpoint) % (piece / granule));
            pieces = (uint32_t)(1 + gcoll_inproc_random(endpoint) % PORTION_PIECES);
        }
    }
    return copy(endpoint, receive, send, piece, pieces);
}

/* Returns a completed send to its rank's seat; afterwards its memory may be gone. */
static void report(gcoll_endpoint *endpoint, uint32_t sender, gcoll_message *send) {
    gcoll_inproc_seat *seat = &endpoint->room->seats[sender];
    pthread_mutex_lock(&seat->lock);
    if (seat->state == GCOLL_INPROC_SEAT_OPEN) {
        send->peer = endpoint->rank;
        gcoll_message_push(&seat->completed, send);
        gcoll_inproc_seat_ring(seat);
    }
    pthread_mutex_unlock(&seat->lock);
}

/* Fails a pair whose two sides disagree on the size: no later byte of it can be trusted. The peer is not
 * told here; the abort that follows tells it more. */
static void refuse(gcoll_endpoint *endpoint, uint32_t peer, uint64_t sent, uint64_t expected) {
    char text[GCOLL_NOTE_TEXT_MAX];
    snprintf(text, sizeof text, "sent %" PRIu64 " bytes where %" PRIu64 " were expected", sent, expected);
    part(endpoint, peer);
    endpoint->events.failed(endpoint->events.arg, peer, GCOLL_ERR_MISMATCH, text);
}

static bool transfer(gcoll_endpoint *endpoint, bool *moved) {
    gcoll_inproc_seat *seat = endpoint->seat;
    gcoll_message *receive = take(endpoint, &seat->ready);
    if (!receive)
        return false;
    gcoll_message *send = receive->match;
    uint32_t peer = receive->peer;
    if (!gcoll_message_take_size(receive, send->bytes)) {
        uint64_t sent = send->bytes;
        pthread_mutex_unlock(&seat->lock);
        *moved = true;
        refuse(endpoint, peer, sent, receive->bytes);
        pthread_mutex_lock(&seat->lock);
        return true;
    }
    endpoint->heard[peer]++;
    endpoint->answer.moves++;
    seat->copying_from = peer;
    atomic_store_explicit(&seat->stop, false, memory_order_relaxed);
    pthread_mutex_unlock(&seat->lock);

    receive->opened = send->open;
    bool intact = copy_some(endpoint, receive, send);
    bool all = intact && receive->moved == receive->bytes;
    if (all)
        report(endpoint, peer, send);

    pthread_mutex_lock(&seat->lock);
    bool stopped = atomic_load_explicit(&seat->stop, memory_order_relaxed);
    seat->copying_from = GCOLL_INPROC_NOBODY;
    pthread_cond_broadcast(&seat->idle);
    if (seat->state != GCOLL_INPROC_SEAT_OPEN)
        return true;
    if (!intact) {
        pthread_mutex_unlock(&seat->lock);
        *moved = true;
        part(endpoint, peer);
        endpoint->events.changed(endpoint->events.arg, peer, "a payload with a wrong checksum");
        pthread_mutex_lock(&seat->lock);
        return true;
    }
    if (!all) {
        if (!stopped)
            gcoll_message_push(&seat->ready, receive);
        return true;
    }
    pthread_mutex_unlock(&seat->lock);
    *moved = true;
    receive->done(receive);
    pthread_mutex_lock(&seat->lock);
    return true;
}

/* ---- Signs ------------------------------------------------------------------------------------------- */

static void hear_abort(gcoll_endpoint *endpoint, uint32_t peer) {
    gcoll_inproc_seat *theirs = &endpoint->room->seats[peer];
    pthread_mutex_lock(&theirs->lock);
    gcoll_note note = theirs->note;
    pthread_mutex_unlock(&theirs->lock);
    endpoint->events.aborted(endpoint->events.arg, peer, &note);
}

/* Answers a probe, and reports the operation in which the prober waits now. */
static void hear_probe(gcoll_endpoint *endpoint, uint32_t peer, bool *moved) {
    gcoll_inproc_seat *theirs = &endpoint->room->seats[peer];
    pthread_mutex_lock(&theirs->lock);
    bool concerned = theirs->concerned;
    uint64_t stream = theirs->concern_stream;
    uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES];
    memcpy(fingerprint, theirs->concern, sizeof fingerprint);
    pthread_mutex_unlock(&theirs->lock);
    if (concerned) {
        *moved = true;
        endpoint->events.opened(endpoint->events.arg, peer, stream, fingerprint);
    }
    gcoll_inproc_seat_answer(endpoint->room, peer, endpoint->rank, &endpoint->answer);
}

/* Handles the signs of a peer. The lock is not held. */
static void hear(gcoll_endpoint *endpoint, uint32_t peer, uint32_t signs, const gcoll_answer *answer,
                 bool *moved) {
    const gcoll_events *events = &endpoint->events;
    if (endpoint->peers[peer] == GCOLL_INPROC_PEER_BROKEN)
        return;
    if (signs & GCOLL_INPROC_SIGN_CONNECT)
        gcoll_inproc_join(endpoint, peer);
    if (signs & GCOLL_INPROC_SIGN_PROBE)
        hear_probe(endpoint, peer, moved);
    if (signs & ~(GCOLL_INPROC_SIGN_CONNECT | GCOLL_INPROC_SIGN_PROBE))
        *moved = true;
    if (signs & GCOLL_INPROC_SIGN_ANSWER)
        events->answered(events->arg, peer, answer);
    if (signs & GCOLL_INPROC_SIGN_ABORTED)
        hear_abort(endpoint, peer);
    if (!(signs & (GCOLL_INPROC_SIGN_FAILED | GCOLL_INPROC_SIGN_REFUSED | GCOLL_INPROC_SIGN_DEPARTED)))
        return;
    part(endpoint, peer);
    if (signs & GCOLL_INPROC_SIGN_DEPARTED)
        events->departed(events->arg, peer);
    else
        events->failed(events->arg, peer, GCOLL_ERR_PEER,
                       signs & GCOLL_INPROC_SIGN_REFUSED ? "refused the connection"
                                                         : "closed the connection");
}

/* Whether the signs of `peer` may be handled: a departure comes after the completions of all sends that the
 * peer took. */
static bool audible(gcoll_endpoint *endpoint, uint32_t peer, const gcoll_inproc_link *link) {
    if ((link->signs & GCOLL_INPROC_SIGN_DEPARTED) &&
        gcoll_inproc_queue_has(&endpoint->seat->completed, peer))
        return false;
    return passes(endpoint, peer);
}

static bool hear_next(gcoll_endpoint *endpoint, bool *moved) {
    gcoll_inproc_seat *seat = endpoint->seat;
    uint32_t *slot = &seat->sign_first;
    while (*slot != GCOLL_INPROC_NOBODY) {
        uint32_t peer = *slot;
        gcoll_inproc_link *link = gcoll_inproc_link_of(endpoint->room, endpoint->rank, peer);
        if (!audible(endpoint, peer, link)) {
            slot = &link->next;
            continue;
        }
        uint32_t signs = link->signs;
        gcoll_answer answer = link->answer;
        *slot = link->next;
        link->signs = 0;
        pthread_mutex_unlock(&seat->lock);
        endpoint->heard[peer]++;
        hear(endpoint, peer, signs, &answer, moved);
        pthread_mutex_lock(&seat->lock);
        return true;
    }
    return false;
}

/* ---- All together ------------------------------------------------------------------------------------ */

/* Makes one delivery; kinds are tried in order, or, in a shuffle, from a random one on. The lock is held. */
static bool step(gcoll_endpoint *endpoint, bool *moved) {
    static const delivery kinds[] = {complete, arrive, transfer, hear_next};
    const uint32_t count = sizeof kinds / sizeof kinds[0];
    bool shuffled = endpoint->room->hub->shuffled;
    uint32_t first = shuffled ? (uint32_t)(gcoll_inproc_random(endpoint) % count) : 0;
    if (endpoint->hurries && hear_next(endpoint, moved))
        return true;
    endpoint->hurries = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!kinds[(first + i) % count](endpoint, moved))
            continue;
        if (!shuffled || gcoll_inproc_random(endpoint) % PAUSE_ODDS)
            return true;
        endpoint->again = true;
        return false;
    }
    return false;
}

bool gcoll_inproc_move(gcoll_endpoint *endpoint) {
    gcoll_inproc_seat *seat = endpoint->seat;
    uint32_t steps = 0;
    bool moved = false;
    if (endpoint->moving || gcoll_inproc_stalled(endpoint))
        return false;
    if (!endpoint->again && endpoint->seen == atomic_load_explicit(&seat->stamp, memory_order_acquire))
        return false;
    endpoint->moving = true;
    endpoint->again = false;
    pthread_mutex_lock(&seat->lock);
    while (seat->state != GCOLL_INPROC_SEAT_DEAD && steps < STEPS_MAX && step(endpoint, &moved))
        steps++;
    endpoint->seen = atomic_load_explicit(&seat->stamp, memory_order_relaxed);
    endpoint->again |= steps == STEPS_MAX;
    pthread_mutex_unlock(&seat->lock);
    endpoint->moving = false;
    return moved;
}
