/* transport/inproc/fault.c - injects the faults that tests ask for. */
#include <stdlib.h>

#include "transport/inproc/internal.h"

static gcoll_status check_rank(const gcoll_hub *hub, const char *name, uint32_t rank) {
    if (rank < hub->size)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID, "%s is %u; allowed are 0 to %u", name, rank, hub->size - 1);
}

static gcoll_status check_pair(const gcoll_hub *hub, uint32_t from, uint32_t to) {
    gcoll_status status = check_rank(hub, "the first rank", from);
    return status ? status : check_rank(hub, "the second rank", to);
}

/* Wakes every rank after a change of the rules that hold deliveries back. */
static void ring_all(gcoll_hub *hub) {
    pthread_mutex_lock(&hub->lock);
    for (gcoll_inproc_room *room = hub->rooms; room; room = room->next)
        for (uint32_t rank = 0; rank < room->size; rank++) {
            pthread_mutex_lock(&room->seats[rank].lock);
            gcoll_inproc_seat_ring(&room->seats[rank]);
            pthread_mutex_unlock(&room->seats[rank].lock);
        }
    pthread_mutex_unlock(&hub->lock);
}

gcoll_status gcoll_inproc_shuffle(gcoll_hub *hub, uint64_t seed) {
    gcoll_status status = GCOLL_OK;
    pthread_mutex_lock(&hub->lock);
    if (hub->rooms_made) {
        status = gcoll_error(GCOLL_ERR_STATE, "a hub is shuffled before the first rank attaches");
    } else {
        hub->shuffled = true;
        hub->seed = seed;
        atomic_store(&hub->faulty, true);
    }
    pthread_mutex_unlock(&hub->lock);
    return status;
}

static void kill_in(gcoll_inproc_room *room, uint32_t rank) {
    gcoll_inproc_seat *seat = &room->seats[rank];
    pthread_mutex_lock(&seat->lock);
    bool alive = seat->state == GCOLL_INPROC_SEAT_OPEN || seat->state == GCOLL_INPROC_SEAT_ABORTED;
    if (alive) {
        gcoll_inproc_seat_end(room, rank, GCOLL_INPROC_SEAT_DEAD);
        gcoll_inproc_seat_clear(seat);
        atomic_store_explicit(&seat->stop, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&seat->lock);
    if (alive)
        gcoll_inproc_seat_tell(room, rank, GCOLL_INPROC_SIGN_FAILED);
}

gcoll_status gcoll_inproc_kill(gcoll_hub *hub, uint32_t rank) {
    gcoll_status status = check_rank(hub, "rank", rank);
    if (status)
        return status;
    pthread_mutex_lock(&hub->lock);
    for (gcoll_inproc_room *room = hub->rooms; room; room = room->next)
        for (uint32_t seat = 0; seat < room->size; seat++)
            if (gcoll_inproc_home(room, seat) == rank)
                kill_in(room, seat);
    pthread_mutex_unlock(&hub->lock);
    return GCOLL_OK;
}

gcoll_status gcoll_inproc_stall(gcoll_hub *hub, uint32_t rank, bool stopped) {
    gcoll_status status = check_rank(hub, "rank", rank);
    if (status)
        return status;
    atomic_store(&hub->stalled[rank], stopped);
    ring_all(hub);
    return GCOLL_OK;
}

/* ---- Rules ------------------------------------------------------------------------------------------- */

static gcoll_status add_rule(gcoll_hub *hub, const gcoll_inproc_rule *rule) {
    gcoll_status status = check_pair(hub, rule->from, rule->to);
    if (status)
        return status;
    gcoll_inproc_rule *made = malloc(sizeof *made);
    if (!made)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a fault");
    *made = *rule;
    pthread_mutex_lock(&hub->rules_lock);
    made->next = hub->rules;
    hub->rules = made;
    pthread_mutex_unlock(&hub->rules_lock);
    atomic_store(&hub->faulty, true);
    return GCOLL_OK;
}

static bool is_cut(const gcoll_inproc_rule *rule, uint32_t from, uint32_t to) {
    return rule->kind == GCOLL_INPROC_RULE_CUT &&
           ((rule->from == from && rule->to == to) || (rule->from == to && rule->to == from));
}

gcoll_status gcoll_inproc_partition(gcoll_hub *hub, uint32_t a, uint32_t b, bool cut) {
    gcoll_status status = check_pair(hub, a, b);
    if (status || cut)
        return status
                   ? status
                   : add_rule(hub, &(gcoll_inproc_rule){.kind = GCOLL_INPROC_RULE_CUT, .from = a, .to = b});
    pthread_mutex_lock(&hub->rules_lock);
    gcoll_inproc_rule **slot = &hub->rules;
    while (*slot) {
        gcoll_inproc_rule *rule = *slot;
        if (is_cut(rule, a, b)) {
            *slot = rule->next;
            free(rule);
        } else {
            slot = &rule->next;
        }
    }
    pthread_mutex_unlock(&hub->rules_lock);
    ring_all(hub);
    return GCOLL_OK;
}

gcoll_status gcoll_inproc_drop(gcoll_hub *hub, uint32_t from, uint32_t to, uint64_t n) {
    return add_rule(
        hub, &(gcoll_inproc_rule){.kind = GCOLL_INPROC_RULE_DROP, .from = from, .to = to, .number = n});
}

gcoll_status gcoll_inproc_corrupt(gcoll_hub *hub, uint32_t from, uint32_t to, uint64_t stream, uint32_t index,
                                  uint64_t byte) {
    return add_rule(hub, &(gcoll_inproc_rule){.kind = GCOLL_INPROC_RULE_CORRUPT,
                                              .from = from,
                                              .to = to,
                                              .stream = stream,
                                              .index = index,
                                              .number = byte});
}

bool gcoll_inproc_rule_cuts(gcoll_hub *hub, uint32_t from, uint32_t to) {
    bool cut = false;
    pthread_mutex_lock(&hub->rules_lock);
    for (const gcoll_inproc_rule *rule = hub->rules; rule && !cut; rule = rule->next)
        cut = is_cut(rule, from, to);
    pthread_mutex_unlock(&hub->rules_lock);
    return cut;
}

bool gcoll_inproc_rule_drops(gcoll_hub *hub, uint32_t from, uint32_t to, uint64_t number) {
    bool drops = false;
    if (!atomic_load_explicit(&hub->faulty, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&hub->rules_lock);
    for (const gcoll_inproc_rule *rule = hub->rules; rule && !drops; rule = rule->next)
        drops = rule->kind == GCOLL_INPROC_RULE_DROP && rule->from == from && rule->to == to &&
                rule->number == number;
    pthread_mutex_unlock(&hub->rules_lock);
    return drops;
}

static bool spoils(const gcoll_inproc_rule *rule, uint32_t from, uint32_t to, const gcoll_message *message) {
    if (rule->kind != GCOLL_INPROC_RULE_CORRUPT || rule->from != from || rule->to != to ||
        rule->number >= message->bytes)
        return false;
    return rule->stream == GCOLL_INPROC_ANY_STREAM ||
           (rule->stream == message->stream && rule->index == message->index);
}

bool gcoll_inproc_rule_corrupts(gcoll_hub *hub, uint32_t from, uint32_t to, const gcoll_message *message,
                                uint64_t *byte) {
    bool found = false;
    pthread_mutex_lock(&hub->rules_lock);
    gcoll_inproc_rule **slot = &hub->rules;
    while (*slot && !spoils(*slot, from, to, message))
        slot = &(*slot)->next;
    if (*slot) {
        gcoll_inproc_rule *rule = *slot;
        *byte = rule->number;
        *slot = rule->next;
        free(rule);
        found = true;
    }
    pthread_mutex_unlock(&hub->rules_lock);
    return found;
}

void gcoll_inproc_rules_free(gcoll_hub *hub) {
    while (hub->rules) {
        gcoll_inproc_rule *rule = hub->rules;
        hub->rules = rule->next;
        free(rule);
    }
}
