/*
 * gcoll/base/map.h - a hash table of items that their owner allocates.
 *
 * Each item has a gcoll_map_item as a member. The caller computes the hash of a key, and compares keys among
 * the items of that hash:
 *
 *     for (gcoll_map_item *item = gcoll_map_first(map, hash); item; item = gcoll_map_next(item))
 *         if (the item around it has the key)
 *
 * The table doubles when it holds an item a bucket. Nothing else allocates.
 */
#ifndef GCOLL_BASE_MAP_H
#define GCOLL_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gcoll_map_item {
    struct gcoll_map_item *next; /* in its bucket */
    uint64_t hash;
} gcoll_map_item;

/* A zeroed map is empty and owns nothing. */
typedef struct gcoll_map {
    gcoll_map_item **buckets;
    size_t mask; /* the number of buckets, a power of two, less 1 */
    size_t count;
} gcoll_map;

/* Doubles the buckets, or allocates the first ones. False only if there are no buckets: otherwise,
 * without memory, the map stays as it was and is slower. After one success gcoll_map_add cannot fail. */
bool gcoll_map_grow(gcoll_map *map);
/* Calls visit for each item. visit may remove that item, and no other. */
void gcoll_map_visit(gcoll_map *map, void (*visit)(void *arg, gcoll_map_item *item), void *arg);
/* Empties the map and keeps the buckets. */
void gcoll_map_clear(gcoll_map *map);
/* Frees the buckets; the map is empty afterwards. The owner keeps the items. */
void gcoll_map_free(gcoll_map *map);

/* The first item with that hash, from this item on in its bucket; NULL if there is none. */
static inline gcoll_map_item *gcoll_map_of_hash(gcoll_map_item *item, uint64_t hash) {
    while (item && item->hash != hash)
        item = item->next;
    return item;
}

/* The first item with that hash, or NULL. */
static inline gcoll_map_item *gcoll_map_first(const gcoll_map *map, uint64_t hash) {
    return map->count == 0 ? NULL : gcoll_map_of_hash(map->buckets[hash & map->mask], hash);
}

/* The next item with the same hash, or NULL. */
static inline gcoll_map_item *gcoll_map_next(const gcoll_map_item *item) {
    return gcoll_map_of_hash(item->next, item->hash);
}

/* Adds an item that is in no map. False if there is no memory for the first buckets. */
static inline bool gcoll_map_add(gcoll_map *map, gcoll_map_item *item, uint64_t hash) {
    if ((!map->buckets || map->count > map->mask) && !gcoll_map_grow(map))
        return false;
    gcoll_map_item **bucket = &map->buckets[hash & map->mask];
    item->hash = hash;
    item->next = *bucket;
    *bucket = item;
    map->count++;
    return true;
}

/* Removes an item that is in the map. */
static inline void gcoll_map_remove(gcoll_map *map, gcoll_map_item *item) {
    gcoll_map_item **at = &map->buckets[item->hash & map->mask];
    while (*at != item)
        at = &(*at)->next;
    *at = item->next;
    map->count--;
}

#endif
