/* transport/match.c - a hash table of slots, with a list of free ones, see match.h. */
#include "transport/match.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SLOTS 32

typedef struct chunk {
    struct chunk *next;
    gcoll_slot slots[CHUNK_SLOTS];
} chunk;

__extension__ typedef unsigned __int128 wide;

static gcoll_slot *slot_of(gcoll_map_item *item) {
    return (gcoll_slot *)(void *)item;
}

static uint64_t mix(uint64_t x, uint64_t secret) {
    wide product = (wide)x * secret;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Peers choose streams and indices: without the secrets they cannot choose buckets. */
static uint32_t hash(const gcoll_match *match, uint64_t stream, uint32_t index) {
    uint64_t x = mix(stream ^ match->secrets[0], match->secrets[1]);
    return (uint32_t)mix(x + index, match->secrets[2]);
}

/* Draws the secrets of the hash. The factors are odd, as multiplying by an odd number loses no information.
 */
static bool make_secrets(gcoll_match *match) {
    if (gcoll_random_bytes(match->secrets, sizeof match->secrets) != GCOLL_OK)
        return false;
    match->secrets[1] |= 1;
    match->secrets[2] |= 1;
    return true;
}

void gcoll_slot_append(gcoll_slot_list *list, gcoll_slot *slot) {
    slot->newer = NULL;
    slot->older = list->newest;
    if (list->newest)
        list->newest->newer = slot;
    else
        list->oldest = slot;
    list->newest = slot;
}

void gcoll_slot_unlink(gcoll_slot_list *list, gcoll_slot *slot) {
    if (slot->older)
        slot->older->newer = slot->newer;
    else
        list->oldest = slot->newer;
    if (slot->newer)
        slot->newer->older = slot->older;
    else
        list->newest = slot->older;
    slot->newer = NULL;
    slot->older = NULL;
}

void gcoll_untold_append(gcoll_slot_list *list, gcoll_slot *slot) {
    slot->untold = (gcoll_untold_links){.older = list->newest};
    if (list->newest)
        list->newest->untold.newer = slot;
    else
        list->oldest = slot;
    list->newest = slot;
}

void gcoll_untold_unlink(gcoll_slot_list *list, gcoll_slot *slot) {
    const gcoll_untold_links *at = &slot->untold;
    if (at->older)
        at->older->untold.newer = at->newer;
    else
        list->oldest = at->newer;
    if (at->newer)
        at->newer->untold.older = at->older;
    else
        list->newest = at->older;
}

bool gcoll_slot_hold(gcoll_slot *slot, uint64_t bytes) {
    slot->held = bytes <= sizeof slot->near ? slot->near : malloc((size_t)bytes);
    return slot->held;
}

void gcoll_slot_let_go(gcoll_slot *slot) {
    if (slot->held != slot->near)
        free(slot->held);
    slot->held = NULL;
}

gcoll_slot *gcoll_match_find(const gcoll_match *match, uint64_t stream, uint32_t index) {
    if (match->slots.count == 0)
        return NULL;
    gcoll_map_item *item = gcoll_map_first(&match->slots, hash(match, stream, index));
    for (; item; item = gcoll_map_next(item)) {
        gcoll_slot *slot = slot_of(item);
        if (slot->stream == stream && slot->index == index)
            return slot;
    }
    return NULL;
}

static bool add_chunk(gcoll_match *match) {
    chunk *more = malloc(sizeof *more);
    if (!more)
        return false;
    more->next = match->chunks;
    match->chunks = more;
    for (size_t i = 0; i < CHUNK_SLOTS; i++) {
        more->slots[i].newer = match->spare;
        match->spare = &more->slots[i];
    }
    return true;
}

gcoll_slot *gcoll_match_add(gcoll_match *match, uint64_t stream, uint32_t index) {
    if (!match->slots.buckets && !make_secrets(match))
        return NULL;
    if (!match->spare && !add_chunk(match))
        return NULL;
    gcoll_slot *slot = match->spare;
    if (!gcoll_map_add(&match->slots, &slot->item, hash(match, stream, index)))
        return NULL;
    match->spare = slot->newer;
    memset((uint8_t *)slot + sizeof slot->item, 0, offsetof(gcoll_slot, near) - sizeof slot->item);
    slot->stream = stream;
    slot->index = index;
    return slot;
}

void gcoll_match_remove(gcoll_match *match, gcoll_slot *slot) {
    gcoll_map_remove(&match->slots, &slot->item);
    gcoll_slot_let_go(slot);
    slot->newer = match->spare;
    match->spare = slot;
}

typedef struct visitor {
    void (*visit)(void *arg, gcoll_slot *slot);
    void *arg;
} visitor;

static void visit_slot(void *arg, gcoll_map_item *item) {
    const visitor *v = arg;
    v->visit(v->arg, slot_of(item));
}

void gcoll_match_visit(gcoll_match *match, void (*visit)(void *arg, gcoll_slot *slot), void *arg) {
    gcoll_map_visit(&match->slots, visit_slot, &(visitor){visit, arg});
}

static void free_held(void *arg, gcoll_map_item *item) {
    (void)arg;
    gcoll_slot_let_go(slot_of(item));
}

void gcoll_match_clear(gcoll_match *match) {
    chunk *each = match->chunks;
    gcoll_map_visit(&match->slots, free_held, NULL);
    while (each) {
        chunk *next = each->next;
        free(each);
        each = next;
    }
    gcoll_map_free(&match->slots);
    memset(match, 0, sizeof *match);
}
