/* gcoll/base/map.c - a hash table of items that their owner allocates, see map.h. */
#include "gcoll/base/map.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64 /* small jobs never grow it */

static size_t bucket_count(const gcoll_map *map) {
    return map->buckets ? map->mask + 1 : 0;
}

bool gcoll_map_grow(gcoll_map *map) {
    const size_t old = bucket_count(map), wanted = old > 0 ? 2 * old : FIRST_BUCKETS;
    gcoll_map_item **buckets = calloc(wanted, sizeof(gcoll_map_item *));
    if (!buckets)
        return old > 0;
    for (size_t i = 0; i < old; i++) {
        for (gcoll_map_item *item = map->buckets[i], *next; item; item = next) {
            next = item->next;
            item->next = buckets[item->hash & (wanted - 1)];
            buckets[item->hash & (wanted - 1)] = item;
        }
    }
    free((void *)map->buckets);
    map->buckets = buckets;
    map->mask = wanted - 1;
    return true;
}

void gcoll_map_visit(gcoll_map *map, void (*visit)(void *arg, gcoll_map_item *item), void *arg) {
    const size_t count = bucket_count(map);
    for (size_t i = 0; i < count; i++) {
        for (gcoll_map_item *item = map->buckets[i], *next; item; item = next) {
            next = item->next;
            visit(arg, item);
        }
    }
}

void gcoll_map_clear(gcoll_map *map) {
    if (map->buckets)
        memset((void *)map->buckets, 0, bucket_count(map) * sizeof(gcoll_map_item *));
    map->count = 0;
}

void gcoll_map_free(gcoll_map *map) {
    free((void *)map->buckets);
    *map = (gcoll_map){NULL, 0, 0};
}
