/*
 * transport/inproc/endpoint.c - the table of operations of inproc, the transport between ranks of one
 * process.
 *
 * It behaves as badly as the contract allows. Nothing is buffered, so a send is done only when its receive is
 * posted and filled. Nothing moves before the two ranks are connected. A post never calls `done` (unless a
 * test shuffles). eager_bytes, eager_pool_bytes, interface and ports have no meaning here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/inproc/internal.h"

/* The longest wait; longer ones are shortened, so that nanoseconds cannot overflow. */
#define WAIT_US_MAX INT64_C(86400000000)
/* A shuffle calls `done` within one of this many posts, on average. */
#define POST_ODDS 4

static gcoll_status inproc_open(const gcoll_endpoint_options *options, const gcoll_events *events,
                                gcoll_endpoint **endpoint) {
    gcoll_hub *hub = options->hub;
    if (!hub)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.hub: is NULL; transport \"inproc\" needs the hub of its ranks");
    if (options->is_part ? options->size > hub->size || options->hub_rank >= hub->size
                         : options->size != hub->size)
        return gcoll_error(GCOLL_ERR_INVALID, "options.size: is %u, but options.hub was made for %u ranks",
                           options->size, hub->size);
    if (options->rank >= options->size)
        return gcoll_error(GCOLL_ERR_INVALID, "rank is %u; allowed are 0 to %u", options->rank,
                           options->size - 1);
    gcoll_endpoint *made = calloc(1, sizeof *made);
    uint8_t *peers = calloc(options->size, sizeof *peers);
    uint64_t *heard = calloc(options->size, sizeof *heard);
    gcoll_status status;
    if (!made || !peers || !heard) {
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint to %u ranks", options->size);
        goto failed;
    }
    status = gcoll_inproc_room_attach(options, &made->room);
    if (status)
        goto failed;
    made->seat = &made->room->seats[options->rank];
    made->rank = options->rank;
    made->events = *events;
    made->peers = peers;
    made->heard = heard;
    made->answer.news_of = UINT32_MAX;
    made->spin_us = options->spin_us;
    made->crc = options->checksum ? gcoll_crc32c_find() : NULL;
    made->random = hub->seed ^ (((uint64_t)made->room->number << 32) | options->rank);
    made->again = true;
    *endpoint = made;
    return GCOLL_OK;

failed:
    free(heard);
    free(peers);
    free(made);
    return status;
}

/* Writes an address: process, hub and rank, so that addresses of another hub or process are recognised; and
 * whether copies are checked. */
static void write_address(const gcoll_hub *hub, uint32_t rank, bool checksum, char text[64]) {
    snprintf(text, 64, "inproc:%ld:%" PRIxPTR ":%" PRIu32 "%s", (long)getpid(), (uintptr_t)hub, rank,
             checksum ? ":crc32c" : "");
}

static gcoll_status inproc_address(gcoll_endpoint *endpoint, char *text, size_t bytes) {
    char address[64];
    write_address(endpoint->room->hub, endpoint->rank, endpoint->crc, address);
    if (strlen(address) >= bytes)
        return gcoll_error(GCOLL_ERR_INVALID, "an address of %zu bytes does not fit into %zu",
                           strlen(address) + 1, bytes);
    memcpy(text, address, strlen(address) + 1);
    return GCOLL_OK;
}

/* The signs of this seat that a rank gets at once when the two connect. The seat's lock is held. */
static uint32_t greeting(const gcoll_inproc_seat *seat) {
    uint32_t signs = seat->noted ? GCOLL_INPROC_SIGN_ABORTED : 0;
    if (seat->state == GCOLL_INPROC_SEAT_DEAD)
        return GCOLL_INPROC_SIGN_REFUSED;
    if (seat->state == GCOLL_INPROC_SEAT_CLOSED)
        signs |= GCOLL_INPROC_SIGN_DEPARTED;
    return signs;
}

static gcoll_status inproc_connect(gcoll_endpoint *endpoint, uint32_t peer, const char *address) {
    gcoll_inproc_room *room = endpoint->room;
    if (peer >= room->size || peer == endpoint->rank)
        return gcoll_error(GCOLL_ERR_INVALID, "rank %u cannot connect to rank %u of %u", endpoint->rank, peer,
                           room->size);
    char expected[64];
    write_address(room->hub, peer, !endpoint->crc, expected);
    if (strcmp(address, expected) == 0)
        return gcoll_error(
            GCOLL_ERR_MISMATCH,
            "options.checksum: is %d on rank %u and %d on rank %u; allowed is one value for all ranks",
            endpoint->crc != NULL, endpoint->rank, !endpoint->crc, peer);
    write_address(room->hub, peer, endpoint->crc, expected);
    if (strcmp(address, expected) != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "the address of rank %u is not of this hub (%s)", peer,
                           expected);
    if (endpoint->peers[peer] != GCOLL_INPROC_PEER_APART || endpoint->seat->state == GCOLL_INPROC_SEAT_DEAD)
        return GCOLL_OK;
    gcoll_inproc_seat *theirs = &room->seats[peer];
    pthread_mutex_lock(&endpoint->seat->lock);
    gcoll_inproc_link_of(room, endpoint->rank, peer)->joined = true;
    const uint32_t ours = greeting(endpoint->seat);
    pthread_mutex_unlock(&endpoint->seat->lock);
    pthread_mutex_lock(&theirs->lock);
    gcoll_inproc_link_of(room, peer, endpoint->rank)->joined = true;
    uint32_t answer = greeting(theirs);
    gcoll_inproc_seat_sign_locked(room, peer, endpoint->rank, GCOLL_INPROC_SIGN_CONNECT | ours);
    pthread_mutex_unlock(&theirs->lock);
    gcoll_inproc_join(endpoint, peer);
    if (answer)
        gcoll_inproc_seat_sign(room, endpoint->rank, peer, answer);
    return GCOLL_OK;
}

/* A shuffle also makes callbacks within a post, which the contract allows but which are rare. */
static void perhaps_move(gcoll_endpoint *endpoint) {
    if (endpoint->room->hub->shuffled && gcoll_inproc_random(endpoint) % POST_ODDS == 0)
        gcoll_inproc_move(endpoint);
}

static void inproc_post_send(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    if (endpoint->seat->state != GCOLL_INPROC_SEAT_OPEN || endpoint->peers[peer] == GCOLL_INPROC_PEER_BROKEN)
        return;
    message->moved = 0;
    message->peer = peer;
    if (endpoint->peers[peer] == GCOLL_INPROC_PEER_APART)
        gcoll_message_push(&endpoint->held, message);
    else
        gcoll_inproc_offer(endpoint, peer, message);
    perhaps_move(endpoint);
}

static void inproc_post_recv(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_inproc_seat *seat = endpoint->seat;
    if (endpoint->peers[peer] == GCOLL_INPROC_PEER_BROKEN)
        return;
    message->moved = 0;
    message->peer = peer;
    pthread_mutex_lock(&seat->lock);
    if (seat->state != GCOLL_INPROC_SEAT_OPEN) {
        pthread_mutex_unlock(&seat->lock);
        return;
    }
    message->match = gcoll_inproc_table_take(&seat->offers, peer, message->stream, message->index);
    if (message->match) {
        gcoll_message_push(&seat->ready, message);
        gcoll_inproc_seat_ring(seat);
    } else {
        gcoll_inproc_table_put(&seat->receives, message);
    }
    pthread_mutex_unlock(&seat->lock);
    perhaps_move(endpoint);
}

static void inproc_flush(gcoll_endpoint *endpoint) {
    (void)endpoint; /* posts wait for nothing but a connection */
}

static void pause_processor(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Whether something has arrived since `stamp`, or the endpoint was woken. */
static bool rung(gcoll_inproc_seat *seat, uint32_t stamp) {
    return atomic_load_explicit(&seat->stamp, memory_order_acquire) != stamp ||
           atomic_load_explicit(&seat->woken, memory_order_acquire);
}

/* Waits until the seat is rung or the deadline has come; polls until spin_until. */
static void wait(gcoll_inproc_seat *seat, uint32_t stamp, int64_t spin_until, int64_t deadline) {
    struct timespec when = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    while (!rung(seat, stamp) && gcoll_now_ns() < spin_until)
        pause_processor();
    if (rung(seat, stamp))
        return;
    pthread_mutex_lock(&seat->lock);
    seat->sleeping = true;
    while (!rung(seat, stamp))
        if (pthread_cond_timedwait(&seat->wake, &seat->lock, &when))
            break;
    seat->sleeping = false;
    pthread_mutex_unlock(&seat->lock);
}

/* The part of inproc_progress that does not depend on peeking. */
static void move_or_wait(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved) {
    gcoll_inproc_seat *seat = endpoint->seat;
    uint32_t stamp = atomic_load_explicit(&seat->stamp, memory_order_acquire);
    *moved = gcoll_inproc_move(endpoint);
    if (*moved || wait_us <= 0)
        return;
    int64_t now = gcoll_now_ns();
    int64_t deadline = now + 1000 * (wait_us < WAIT_US_MAX ? wait_us : WAIT_US_MAX);
    int64_t spin_until = endpoint->spin_us <= 0            ? now
                         : endpoint->spin_us < WAIT_US_MAX ? now + 1000 * endpoint->spin_us
                                                           : deadline;
    if (spin_until > deadline)
        spin_until = deadline;
    while (!*moved && now < deadline && !atomic_load_explicit(&seat->woken, memory_order_acquire)) {
        if (!endpoint->again || gcoll_inproc_stalled(endpoint))
            wait(seat, stamp, spin_until, deadline);
        stamp = atomic_load_explicit(&seat->stamp, memory_order_acquire);
        *moved = gcoll_inproc_move(endpoint);
        now = gcoll_now_ns();
    }
    /* An exchange: what was written before a wake that this takes is seen from here on. */
    atomic_exchange_explicit(&seat->woken, false, memory_order_acq_rel);
}

static gcoll_status inproc_progress(gcoll_endpoint *endpoint, int64_t wait_us, bool *moved) {
    move_or_wait(endpoint, wait_us, moved);
    endpoint->curious = false;
    return GCOLL_OK;
}

static bool inproc_peek(gcoll_endpoint *endpoint, uint32_t peer, uint64_t stream, uint32_t index,
                        uint64_t *bytes) {
    gcoll_inproc_seat *seat = endpoint->seat;
    pthread_mutex_lock(&seat->lock);
    const gcoll_message *found = gcoll_inproc_table_find(&seat->offers, peer, stream, index);
    if (found)
        *bytes = found->bytes;
    pthread_mutex_unlock(&seat->lock);
    endpoint->curious |= !found;
    return found;
}

static bool inproc_take_back(gcoll_endpoint *endpoint, uint32_t peer, gcoll_message *message) {
    gcoll_inproc_seat *seat = endpoint->seat;
    if (endpoint->peers[peer] == GCOLL_INPROC_PEER_BROKEN)
        return true; /* it was dropped with all messages of that peer */
    pthread_mutex_lock(&seat->lock);
    gcoll_message *taken = gcoll_inproc_table_take(&seat->receives, peer, message->stream, message->index);
    pthread_mutex_unlock(&seat->lock);
    return taken;
}

static void inproc_wake(gcoll_endpoint *endpoint) {
    gcoll_inproc_seat *seat = endpoint->seat;
    pthread_mutex_lock(&seat->lock);
    atomic_store_explicit(&seat->woken, true, memory_order_release);
    if (seat->sleeping)
        pthread_cond_signal(&seat->wake);
    pthread_mutex_unlock(&seat->lock);
}

static void inproc_probe(gcoll_endpoint *endpoint, uint32_t peer) {
    if (endpoint->peers[peer] == GCOLL_INPROC_PEER_CONNECTED &&
        endpoint->seat->state != GCOLL_INPROC_SEAT_DEAD)
        gcoll_inproc_seat_sign(endpoint->room, peer, endpoint->rank, GCOLL_INPROC_SIGN_PROBE);
}

static void inproc_set_position(gcoll_endpoint *endpoint, uint64_t position) {
    endpoint->answer.position = position;
}

static void inproc_set_concern(gcoll_endpoint *endpoint, uint64_t stream,
                               const uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES]) {
    gcoll_inproc_seat *seat = endpoint->seat;
    pthread_mutex_lock(&seat->lock);
    seat->concerned = fingerprint;
    seat->concern_stream = stream;
    if (fingerprint)
        memcpy(seat->concern, fingerprint, sizeof seat->concern);
    pthread_mutex_unlock(&seat->lock);
}

static uint32_t inproc_moves(gcoll_endpoint *endpoint) {
    return endpoint->answer.moves;
}

static void inproc_look(gcoll_endpoint *endpoint, uint32_t peer, gcoll_sight *sight) {
    *sight = (gcoll_sight){.heard = endpoint->heard[peer]};
}

static void inproc_set_news(gcoll_endpoint *endpoint, uint32_t rank, uint32_t moves) {
    endpoint->answer.news_of = rank;
    endpoint->answer.news = moves;
}

static void inproc_look_soon(gcoll_endpoint *endpoint, int64_t lasted_ms) {
    (void)lasted_ms;
    endpoint->hurries = true;
}

static void inproc_set_spin(gcoll_endpoint *endpoint, int64_t spin_us) {
    endpoint->spin_us = spin_us;
}

/* Drops all messages, withdraws memory that others may still read, and leaves `sign` at every connected
 * rank. */
static void retire(gcoll_endpoint *endpoint, gcoll_inproc_seat_state state, uint32_t sign,
                   const gcoll_note *note) {
    gcoll_inproc_room *room = endpoint->room;
    gcoll_inproc_seat *seat = endpoint->seat;
    pthread_mutex_lock(&seat->lock);
    bool dead = seat->state == GCOLL_INPROC_SEAT_DEAD;
    if (!dead)
        gcoll_inproc_seat_end(room, endpoint->rank, state);
    if (note) {
        seat->note = *note;
        seat->note.text[sizeof seat->note.text - 1] = '\0';
        seat->noted = true;
    }
    gcoll_inproc_seat_clear(seat);
    atomic_store_explicit(&seat->stop, true, memory_order_relaxed);
    pthread_mutex_unlock(&seat->lock);
    gcoll_message_queue_clear(&endpoint->held);

    for (uint32_t peer = 0; peer < room->size; peer++)
        if (endpoint->peers[peer] != GCOLL_INPROC_PEER_APART)
            gcoll_inproc_seat_withdraw(room, peer, endpoint->rank);
    if (!dead)
        gcoll_inproc_seat_tell(room, endpoint->rank, sign);
}

static void inproc_abort(gcoll_endpoint *endpoint, const gcoll_note *note, int64_t limit_ms) {
    (void)limit_ms; /* waits for a piece of a copy at most */
    if (endpoint->seat->state == GCOLL_INPROC_SEAT_OPEN)
        retire(endpoint, GCOLL_INPROC_SEAT_ABORTED, GCOLL_INPROC_SIGN_ABORTED, note);
}

static void inproc_close(gcoll_endpoint *endpoint, int64_t limit_ms) {
    (void)limit_ms; /* nothing is buffered, so a send that is done has arrived */
    if (!endpoint)
        return;
    retire(endpoint, GCOLL_INPROC_SEAT_CLOSED, GCOLL_INPROC_SIGN_DEPARTED, NULL);
    gcoll_inproc_room_detach(endpoint->room);
    free(endpoint->heard);
    free(endpoint->peers);
    free(endpoint);
}

/* Frees the endpoint in a forked child, but not its room: that belongs to the hub, and threads that do not
 * exist in the child may hold its locks. */
static void inproc_abandon(gcoll_endpoint *endpoint) {
    free(endpoint->heard);
    free(endpoint->peers);
    free(endpoint);
}

const gcoll_transport gcoll_transport_inproc = {
    .name = "inproc",
    .open = inproc_open,
    .address = inproc_address,
    .connect = inproc_connect,
    .post_send = inproc_post_send,
    .post_recv = inproc_post_recv,
    .flush = inproc_flush,
    .progress = inproc_progress,
    .peek = inproc_peek,
    .wake = inproc_wake,
    .probe = inproc_probe,
    .set_position = inproc_set_position,
    .set_concern = inproc_set_concern,
    .set_spin = inproc_set_spin,
    .abort = inproc_abort,
    .close = inproc_close,
    .moves = inproc_moves,
    .look = inproc_look,
    .set_news = inproc_set_news,
    .look_soon = inproc_look_soon,
    .take_back = inproc_take_back,
    .abandon = inproc_abandon,
};
