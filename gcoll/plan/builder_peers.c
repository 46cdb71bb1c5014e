/* gcoll/plan/builder_peers.c - numbers messages: counts the sends to and the receives from each peer. */
#include <stdlib.h>

#include "gcoll/base/hash.h"
#include "gcoll/plan/builder_internal.h"

struct gcoll_peer_count {
    uint32_t peer_plus_1; /* 0: free */
    uint32_t sent, received;
};

static gcoll_peer_count *find(gcoll_peer_count *entries, uint32_t capacity, uint32_t peer) {
    uint32_t slot = (uint32_t)gcoll_hash_mix(peer);
    while (entries[slot & (capacity - 1)].peer_plus_1 != 0 &&
           entries[slot & (capacity - 1)].peer_plus_1 != peer + 1)
        slot++;
    return &entries[slot & (capacity - 1)];
}

static bool grow(gcoll_peer_counts *counts) {
    uint32_t capacity = counts->capacity ? 2 * counts->capacity : 64;
    gcoll_peer_count *entries = calloc(capacity, sizeof *entries);
    if (!entries)
        return false;
    for (uint32_t i = 0; i < counts->capacity; i++)
        if (counts->entries[i].peer_plus_1 != 0)
            *find(entries, capacity, counts->entries[i].peer_plus_1 - 1) = counts->entries[i];
    free(counts->entries);
    counts->entries = entries;
    counts->capacity = capacity;
    return true;
}

bool gcoll_peer_counts_number(gcoll_peer_counts *counts, gcoll_step *step) {
    if (2 * counts->count >= counts->capacity && !grow(counts))
        return false;
    gcoll_peer_count *entry = find(counts->entries, counts->capacity, step->peer);
    if (entry->peer_plus_1 == 0) {
        entry->peer_plus_1 = step->peer + 1;
        counts->count++;
    }
    step->message = step->kind == GCOLL_STEP_SEND ? entry->sent++ : entry->received++;
    return true;
}

void gcoll_peer_counts_clear(gcoll_peer_counts *counts) {
    free(counts->entries);
    *counts = (gcoll_peer_counts){0};
}
