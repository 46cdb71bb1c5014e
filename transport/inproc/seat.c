/* transport/inproc/seat.c - leaves messages and signs at a rank's seat, and takes them back. */
#include "transport/inproc/internal.h"

void gcoll_inproc_seat_ring(gcoll_inproc_seat *seat) {
    atomic_fetch_add_explicit(&seat->stamp, 1, memory_order_release);
    if (seat->sleeping)
        pthread_cond_signal(&seat->wake);
}

void gcoll_inproc_seat_sign_locked(gcoll_inproc_room *room, uint32_t to, uint32_t from, uint32_t signs) {
    gcoll_inproc_seat *seat = &room->seats[to];
    gcoll_inproc_link *link = gcoll_inproc_link_of(room, to, from);
    if (seat->state == GCOLL_INPROC_SEAT_CLOSED || seat->state == GCOLL_INPROC_SEAT_DEAD)
        return;
    if (link->signs == 0) {
        link->next = seat->sign_first;
        seat->sign_first = from;
    }
    link->signs |= signs;
    gcoll_inproc_seat_ring(seat);
}

void gcoll_inproc_seat_sign(gcoll_inproc_room *room, uint32_t to, uint32_t from, uint32_t signs) {
    gcoll_inproc_seat *seat = &room->seats[to];
    pthread_mutex_lock(&seat->lock);
    gcoll_inproc_seat_sign_locked(room, to, from, signs);
    pthread_mutex_unlock(&seat->lock);
}

void gcoll_inproc_seat_answer(gcoll_inproc_room *room, uint32_t to, uint32_t from,
                              const gcoll_answer *answer) {
    gcoll_inproc_seat *seat = &room->seats[to];
    pthread_mutex_lock(&seat->lock);
    gcoll_inproc_link_of(room, to, from)->answer = *answer;
    gcoll_inproc_seat_sign_locked(room, to, from, GCOLL_INPROC_SIGN_ANSWER);
    pthread_mutex_unlock(&seat->lock);
}

void gcoll_inproc_seat_drop(gcoll_inproc_seat *seat, uint32_t peer) {
    gcoll_inproc_queue_drop(&seat->arrivals, peer);
    gcoll_inproc_queue_drop(&seat->ready, peer);
    gcoll_inproc_queue_drop(&seat->completed, peer);
    gcoll_inproc_table_drop(&seat->offers, peer);
    gcoll_inproc_table_drop(&seat->receives, peer);
}

void gcoll_inproc_seat_clear(gcoll_inproc_seat *seat) {
    gcoll_message_queue_clear(&seat->arrivals);
    gcoll_message_queue_clear(&seat->ready);
    gcoll_message_queue_clear(&seat->completed);
    gcoll_map_clear(&seat->offers);
    gcoll_map_clear(&seat->receives);
}

void gcoll_inproc_seat_withdraw(gcoll_inproc_room *room, uint32_t at, uint32_t from) {
    gcoll_inproc_seat *seat = &room->seats[at];
    pthread_mutex_lock(&seat->lock);
    gcoll_inproc_queue_drop(&seat->arrivals, from);
    gcoll_inproc_table_drop(&seat->offers, from);
    /* A matched receive that is dropped here never completes, as the sender is leaving. */
    gcoll_inproc_queue_drop(&seat->ready, from);
    while (seat->copying_from == from) {
        atomic_store_explicit(&seat->stop, true, memory_order_relaxed);
        pthread_cond_wait(&seat->idle, &seat->lock);
    }
    pthread_mutex_unlock(&seat->lock);
}

/* Sets the state of a seat, and marks all connected ranks to be told. A rank that connects later sees the
 * state. */
void gcoll_inproc_seat_end(gcoll_inproc_room *room, uint32_t rank, gcoll_inproc_seat_state state) {
    room->seats[rank].state = state;
    for (uint32_t peer = 0; peer < room->size; peer++) {
        gcoll_inproc_link *link = gcoll_inproc_link_of(room, rank, peer);
        if (link->joined)
            link->tell = true;
    }
}

void gcoll_inproc_seat_tell(gcoll_inproc_room *room, uint32_t rank, uint32_t sign) {
    gcoll_inproc_seat *seat = &room->seats[rank];
    for (uint32_t peer = 0; peer < room->size; peer++) {
        pthread_mutex_lock(&seat->lock);
        bool tell = gcoll_inproc_link_of(room, rank, peer)->tell;
        pthread_mutex_unlock(&seat->lock);
        if (tell)
            gcoll_inproc_seat_sign(room, peer, rank, sign);
    }
}
