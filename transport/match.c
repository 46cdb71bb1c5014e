/* transport/match.c - a chained hash table with a free list of slots, see match.h. */
#include "transport/match.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64
#define CHUNK_SLOTS   32

typedef struct chunk {
    struct chunk *next;
    gcoll_slot slots[CHUNK_SLOTS];
} chunk;

__extension__ typedef unsigned __int128 wide;

static uint64_t mix(uint64_t x, uint64_t secret) {
    wide product = (wide)x * secret;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Peers choose streams and indices: without the secrets they cannot choose buckets. */
static uint32_t hash(const gcoll_match *match, uint64_t stream, uint32_t index) {
    uint64_t x = mix(stream ^ match->secrets[0], match->secrets[1]);

    return (uint32_t)mix(x + index, match->secrets[2]);
}

/* Odd ones: multiplying by them loses nothing. */
static bool make_secrets(gcoll_match *match) {
    if (gcoll_random_bytes(match->secrets, sizeof match->secrets) != GCOLL_OK) {
        return false;
    }
    match->secrets[1] |= 1;
    match->secrets[2] |= 1;
    return true;
}

void gcoll_slot_append(gcoll_slot_list *list, gcoll_slot *slot) {
    slot->newer = NULL;
    slot->older = list->newest;
    if (list->newest != NULL) {
        list->newest->newer = slot;
    } else {
        list->oldest = slot;
    }
    list->newest = slot;
}

void gcoll_slot_unlink(gcoll_slot_list *list, gcoll_slot *slot) {
    if (slot->older != NULL) {
        slot->older->newer = slot->newer;
    } else {
        list->oldest = slot->newer;
    }
    if (slot->newer != NULL) {
        slot->newer->older = slot->older;
    } else {
        list->newest = slot->older;
    }
    slot->newer = NULL;
    slot->older = NULL;
}

bool gcoll_slot_hold(gcoll_slot *slot, uint64_t bytes) {
    slot->held = bytes <= sizeof slot->near ? slot->near : malloc((size_t)bytes);
    return slot->held != NULL;
}

void gcoll_slot_let_go(gcoll_slot *slot) {
    if (slot->held != slot->near) {
        free(slot->held);
    }
    slot->held = NULL;
}

gcoll_slot *gcoll_match_find(const gcoll_match *match, uint64_t stream, uint32_t index) {
    if (match->count == 0) {
        return NULL;
    }
    for (gcoll_slot *slot = match->buckets[hash(match, stream, index) & match->mask]; slot;
         slot = slot->chain) {
        if (slot->stream == stream && slot->index == index) {
            return slot;
        }
    }
    return NULL;
}

static bool add_chunk(gcoll_match *match) {
    chunk *more = malloc(sizeof *more);

    if (more == NULL) {
        return false;
    }
    more->next = match->chunks;
    match->chunks = more;
    for (size_t i = 0; i < CHUNK_SLOTS; i++) {
        more->slots[i].chain = match->spare;
        match->spare = &more->slots[i];
    }
    return true;
}

/* Twice the buckets. Without memory the chains just get longer, but for the very first ones. */
static bool grow(gcoll_match *match) {
    uint32_t old = match->buckets == NULL ? 0 : match->mask + 1;
    uint32_t wanted = old == 0 ? FIRST_BUCKETS : old * 2;
    gcoll_slot **buckets;

    if (wanted == 0) {
        return true;
    }
    if (old == 0 && !make_secrets(match)) {
        return false;
    }
    buckets = calloc(wanted, sizeof(gcoll_slot *));
    if (buckets == NULL) {
        return match->buckets != NULL;
    }
    for (uint32_t i = 0; i < old; i++) {
        while (match->buckets[i] != NULL) {
            gcoll_slot *slot = match->buckets[i];
            uint32_t at = hash(match, slot->stream, slot->index) & (wanted - 1);

            match->buckets[i] = slot->chain;
            slot->chain = buckets[at];
            buckets[at] = slot;
        }
    }
    free(match->buckets);
    match->buckets = buckets;
    match->mask = wanted - 1;
    return true;
}

gcoll_slot *gcoll_match_add(gcoll_match *match, uint64_t stream, uint32_t index) {
    gcoll_slot *slot;
    gcoll_slot **bucket;

    if ((match->buckets == NULL || match->count > match->mask) && !grow(match)) {
        return NULL;
    }
    if (match->spare == NULL && !add_chunk(match)) {
        return NULL;
    }
    slot = match->spare;
    match->spare = slot->chain;
    memset(slot, 0, offsetof(gcoll_slot, near));
    slot->stream = stream;
    slot->index = index;
    bucket = &match->buckets[hash(match, stream, index) & match->mask];
    slot->chain = *bucket;
    *bucket = slot;
    match->count++;
    return slot;
}

void gcoll_match_remove(gcoll_match *match, gcoll_slot *slot) {
    gcoll_slot **at = &match->buckets[hash(match, slot->stream, slot->index) & match->mask];

    while (*at != slot) {
        at = &(*at)->chain;
    }
    *at = slot->chain;
    gcoll_slot_let_go(slot);
    slot->chain = match->spare;
    match->spare = slot;
    match->count--;
}

void gcoll_match_visit(gcoll_match *match, void (*visit)(void *arg, gcoll_slot *slot), void *arg) {
    uint32_t buckets = match->buckets == NULL ? 0 : match->mask + 1;

    for (uint32_t i = 0; i < buckets; i++) {
        gcoll_slot *slot = match->buckets[i];

        while (slot != NULL) {
            gcoll_slot *next = slot->chain;

            visit(arg, slot);
            slot = next;
        }
    }
}

static void free_held(void *arg, gcoll_slot *slot) {
    (void)arg;
    gcoll_slot_let_go(slot);
}

void gcoll_match_clear(gcoll_match *match) {
    chunk *each = match->chunks;

    gcoll_match_visit(match, free_held, NULL);
    while (each != NULL) {
        chunk *next = each->next;

        free(each);
        each = next;
    }
    free(match->buckets);
    memset(match, 0, sizeof *match);
}
