/* gcoll/plan/verify_map.c - a hash table from 64 bits to 32: open addressing, linear probing. */
#include <stdlib.h>

#include "gcoll/base/hash.h"
#include "gcoll/plan/verify_internal.h"

#define FIRST_SIZE 1024u /* entries; a power of two */

static gcoll_verify_entry *probe(const gcoll_verify_map *map, uint64_t key) {
    uint64_t i = gcoll_hash_mix(key) & map->mask;
    while (map->entries[i].value != 0 && map->entries[i].key != key)
        i = (i + 1) & map->mask;
    return &map->entries[i];
}

static bool grow(gcoll_verify_map *map) {
    uint64_t size = map->entries ? 2 * (map->mask + 1) : FIRST_SIZE;
    gcoll_verify_map bigger = {calloc(size, sizeof(gcoll_verify_entry)), size - 1, map->used};
    if (!bigger.entries)
        return false;
    for (uint64_t i = 0; map->entries && i <= map->mask; i++)
        if (map->entries[i].value != 0)
            *probe(&bigger, map->entries[i].key) = map->entries[i];
    free(map->entries);
    *map = bigger;
    return true;
}

uint32_t *gcoll_verify_map_at(gcoll_verify_map *map, uint64_t key) {
    /* At most half full, so that probes stay short. */
    if ((!map->entries || 2 * (map->used + 1) > map->mask + 1) && !grow(map))
        return NULL;
    gcoll_verify_entry *entry = probe(map, key);
    if (entry->value == 0) {
        entry->key = key;
        map->used++;
    }
    return &entry->value;
}

uint32_t gcoll_verify_map_find(const gcoll_verify_map *map, uint64_t key) {
    return map->entries ? probe(map, key)->value : 0;
}

void gcoll_verify_map_free(gcoll_verify_map *map) {
    free(map->entries);
    *map = (gcoll_verify_map){0};
}
