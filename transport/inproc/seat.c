/* transport/inproc/seat.c - leaving things at a seat and taking them back. */
#include "transport/inproc/internal.h"

void gcoll_seat_ring(gcoll_seat *seat) {
    atomic_fetch_add_explicit(&seat->stamp, 1, memory_order_release);
    if (seat->sleeping)
        pthread_cond_signal(&seat->wake);
}

void gcoll_seat_sign_locked(gcoll_room *room, uint32_t to, uint32_t from, uint32_t signs, uint64_t position) {
    gcoll_seat *seat = &room->seats[to];
    gcoll_link *link = gcoll_link_of(room, to, from);
    if (seat->state == GCOLL_SEAT_CLOSED || seat->state == GCOLL_SEAT_DEAD)
        return;
    if (link->signs == 0) {
        link->next = seat->sign_first;
        seat->sign_first = from;
    }
    link->signs |= signs;
    if (signs & GCOLL_SIGN_ANSWER)
        link->position = position;
    gcoll_seat_ring(seat);
}

void gcoll_seat_sign(gcoll_room *room, uint32_t to, uint32_t from, uint32_t signs, uint64_t position) {
    gcoll_seat *seat = &room->seats[to];
    pthread_mutex_lock(&seat->lock);
    gcoll_seat_sign_locked(room, to, from, signs, position);
    pthread_mutex_unlock(&seat->lock);
}

void gcoll_seat_drop(gcoll_seat *seat, uint32_t peer) {
    gcoll_queue_drop(&seat->arrivals, peer);
    gcoll_queue_drop(&seat->ready, peer);
    gcoll_queue_drop(&seat->completed, peer);
    gcoll_table_drop(&seat->offers, peer);
    gcoll_table_drop(&seat->receives, peer);
}

void gcoll_seat_clear(gcoll_seat *seat) {
    seat->arrivals = (gcoll_queue){NULL, NULL};
    seat->ready = (gcoll_queue){NULL, NULL};
    seat->completed = (gcoll_queue){NULL, NULL};
    gcoll_table_clear(&seat->offers);
    gcoll_table_clear(&seat->receives);
}

void gcoll_seat_withdraw(gcoll_room *room, uint32_t at, uint32_t from) {
    gcoll_seat *seat = &room->seats[at];
    pthread_mutex_lock(&seat->lock);
    gcoll_queue_drop(&seat->arrivals, from);
    gcoll_table_drop(&seat->offers, from);
    /* The receive of a pair that is cut here never ends, as the sender is leaving. */
    gcoll_queue_drop(&seat->ready, from);
    while (seat->copying_from == from) {
        atomic_store_explicit(&seat->stop, true, memory_order_relaxed);
        pthread_cond_wait(&seat->idle, &seat->lock);
    }
    pthread_mutex_unlock(&seat->lock);
}

/* Both at once: a rank that connects later is not marked, and learns the state instead. */
void gcoll_seat_end(gcoll_room *room, uint32_t rank, gcoll_seat_state state) {
    room->seats[rank].state = state;
    for (uint32_t peer = 0; peer < room->size; peer++) {
        gcoll_link *link = gcoll_link_of(room, rank, peer);
        if (link->joined)
            link->tell = true;
    }
}

void gcoll_seat_tell(gcoll_room *room, uint32_t rank, uint32_t sign) {
    gcoll_seat *seat = &room->seats[rank];
    for (uint32_t peer = 0; peer < room->size; peer++) {
        pthread_mutex_lock(&seat->lock);
        bool tell = gcoll_link_of(room, rank, peer)->tell;
        pthread_mutex_unlock(&seat->lock);
        if (tell)
            gcoll_seat_sign(room, peer, rank, sign, 0);
    }
}
