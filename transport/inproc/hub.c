/* transport/inproc/hub.c - creates hubs and rooms, and attaches ranks to them. */
#include <stdlib.h>
#include <string.h>

#include "transport/inproc/internal.h"

/* Limits a room's memory: it has 32 bytes for each ordered pair of ranks, touched only for pairs in use. */
#define HUB_SIZE_MAX 4096

gcoll_status gcoll_hub_create(uint32_t size, gcoll_hub **hub) {
    if (!hub)
        return gcoll_error(GCOLL_ERR_INVALID, "hub: is NULL");
    if (size == 0 || size > HUB_SIZE_MAX)
        return gcoll_error(GCOLL_ERR_INVALID, "size of a hub is %u; allowed are 1 to %d", size, HUB_SIZE_MAX);
    gcoll_hub *made = calloc(1, sizeof *made);
    if (!made)
        goto no_memory;
    made->stalled = calloc(size, sizeof *made->stalled);
    if (!made->stalled)
        goto no_stalled;
    if (pthread_mutex_init(&made->lock, NULL))
        goto no_lock;
    if (pthread_mutex_init(&made->rules_lock, NULL))
        goto no_rules_lock;
    made->size = size;
    *hub = made;
    return GCOLL_OK;

no_rules_lock:
    pthread_mutex_destroy(&made->lock);
no_lock:
    free((void *)made->stalled);
no_stalled:
    free(made);
no_memory:
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a hub of %u ranks", size);
}

static void seat_destroy(gcoll_inproc_seat *seat) {
    gcoll_map_free(&seat->offers);
    gcoll_map_free(&seat->receives);
    pthread_cond_destroy(&seat->idle);
    pthread_cond_destroy(&seat->wake);
    pthread_mutex_destroy(&seat->lock);
}

static bool seat_create(gcoll_inproc_seat *seat) {
    seat->copying_from = GCOLL_INPROC_NOBODY;
    seat->sign_first = GCOLL_INPROC_NOBODY;
    if (pthread_mutex_init(&seat->lock, NULL))
        return false;
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic))
        goto no_attribute;
    if (pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) || pthread_cond_init(&seat->wake, &monotonic))
        goto no_wake;
    if (pthread_cond_init(&seat->idle, NULL))
        goto no_idle;
    pthread_condattr_destroy(&monotonic);
    return true;

no_idle:
    pthread_cond_destroy(&seat->wake);
no_wake:
    pthread_condattr_destroy(&monotonic);
no_attribute:
    pthread_mutex_destroy(&seat->lock);
    return false;
}

static void room_destroy(gcoll_inproc_room *room) {
    for (uint32_t rank = 0; rank < room->size; rank++)
        seat_destroy(&room->seats[rank]);
    free(room->links);
    free(room->seats);
    free(room);
}

static gcoll_inproc_room *room_create(gcoll_hub *hub, const gcoll_endpoint_options *options) {
    const uint32_t size = options->size;
    uint32_t seats = 0;
    gcoll_inproc_room *made = calloc(1, sizeof *made);
    if (!made)
        goto no_memory;
    made->seats = calloc(size, sizeof *made->seats);
    if (!made->seats)
        goto no_seats;
    made->links = calloc((size_t)size * size, sizeof *made->links);
    if (!made->links)
        goto no_links;
    for (; seats < size; seats++) {
        if (!seat_create(&made->seats[seats]))
            goto no_seat;
        atomic_init(&made->seats[seats].home, options->is_part ? GCOLL_INPROC_NOBODY : seats);
    }
    made->hub = hub;
    made->size = size;
    memcpy(made->group, options->group, sizeof made->group);
    return made;

no_seat:
    while (seats > 0)
        seat_destroy(&made->seats[--seats]);
    free(made->links);
no_links:
    free(made->seats);
no_seats:
    free(made);
no_memory:
    return NULL;
}

/* The room of this group, created for the first of its ranks; NULL if memory ran out. hub->lock is held. */
static gcoll_inproc_room *find_room(gcoll_hub *hub, const gcoll_endpoint_options *options) {
    gcoll_inproc_room *room = hub->rooms;
    while (room && memcmp(room->group, options->group, sizeof room->group) != 0)
        room = room->next;
    if (room)
        return room;
    room = room_create(hub, options);
    if (!room)
        return NULL;
    room->number = hub->rooms_made++;
    room->next = hub->rooms;
    hub->rooms = room;
    return room;
}

/* Attaches a rank to its seat. The seat's lock is held. */
static gcoll_status take_seat(gcoll_inproc_seat *seat, uint32_t rank) {
    if (seat->state != GCOLL_INPROC_SEAT_EMPTY)
        return gcoll_error(GCOLL_ERR_INVALID, "rank %u has been attached to this hub already", rank);
    gcoll_status status = gcoll_inproc_table_init(&seat->offers);
    if (status)
        return status;
    status = gcoll_inproc_table_init(&seat->receives);
    if (status) {
        gcoll_map_free(&seat->offers);
        return status;
    }
    seat->state = GCOLL_INPROC_SEAT_OPEN;
    return GCOLL_OK;
}

gcoll_status gcoll_inproc_room_attach(const gcoll_endpoint_options *options, gcoll_inproc_room **room) {
    gcoll_hub *hub = options->hub;
    const uint32_t rank = options->rank;
    pthread_mutex_lock(&hub->lock);
    gcoll_inproc_room *found = find_room(hub, options);
    gcoll_status status;
    if (!found) {
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a group of %u ranks", options->size);
        goto out;
    }
    if (found->size != options->size) {
        status = gcoll_error(GCOLL_ERR_INVALID, "options.size: is %u, but this group has %u ranks",
                             options->size, found->size);
        goto out;
    }
    pthread_mutex_lock(&found->seats[rank].lock);
    status = take_seat(&found->seats[rank], rank);
    pthread_mutex_unlock(&found->seats[rank].lock);
    if (status)
        goto out;
    if (options->is_part)
        atomic_store(&found->seats[rank].home, options->hub_rank);
    found->attached++;
    found->attached_ever++;
    *room = found;
out:
    pthread_mutex_unlock(&hub->lock);
    return status;
}

/* Detaches a rank. A room stays until all of its ranks have attached and left, so that a late rank still
 * learns which ranks have left. A room that never fills up is freed with the hub. */
void gcoll_inproc_room_detach(gcoll_inproc_room *room) {
    gcoll_hub *hub = room->hub;
    pthread_mutex_lock(&hub->lock);
    room->attached--;
    if (room->attached == 0 && room->attached_ever == room->size) {
        gcoll_inproc_room **slot = &hub->rooms;
        while (*slot != room)
            slot = &(*slot)->next;
        *slot = room->next;
        room_destroy(room);
    }
    pthread_mutex_unlock(&hub->lock);
}

void gcoll_hub_destroy(gcoll_hub *hub) {
    if (!hub)
        return;
    while (hub->rooms) {
        gcoll_inproc_room *room = hub->rooms;
        hub->rooms = room->next;
        room_destroy(room);
    }
    gcoll_inproc_rules_free(hub);
    pthread_mutex_destroy(&hub->rules_lock);
    pthread_mutex_destroy(&hub->lock);
    free((void *)hub->stalled);
    free(hub);
}
