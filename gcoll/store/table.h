/* gcoll/store/table.h - a hash table of keys and values with lifetimes, limited in keys and bytes. It has no
 * lock: one thread uses it. */
#ifndef GCOLL_STORE_TABLE_H
#define GCOLL_STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gcoll_store_entry {
    struct gcoll_store_entry *next;
    uint64_t hash;
    int64_t ttl_ns;     /* 0: no lifetime */
    int64_t expires_ns; /* if it has a lifetime */
    uint32_t key_bytes, value_bytes;
    unsigned char key[]; /* followed by the value */
} gcoll_store_entry;

/* A chained hash table. */
typedef struct gcoll_store_table {
    gcoll_store_entry **buckets;
    size_t bucket_count; /* a power of two */
    uint64_t keys, keys_max;
    uint64_t bytes, bytes_max; /* of all entries, as GCOLL_TABLE_ENTRY_BYTES counts them */
} gcoll_store_table;

/* Result of a put. A put that is not GCOLL_TABLE_OK sets nothing. */
typedef enum gcoll_table_result {
    GCOLL_TABLE_OK,
    GCOLL_TABLE_NO_MEMORY,
    GCOLL_TABLE_KEYS_FULL,
    GCOLL_TABLE_BYTES_FULL,
} gcoll_table_result;

/* What each entry adds to `bytes`, besides its key and value. */
#define GCOLL_TABLE_ENTRY_BYTES (sizeof(gcoll_store_entry) + 16)

/* Returns false if there is no memory. */
bool gcoll_store_table_init(gcoll_store_table *table, uint64_t keys_max, uint64_t bytes_max);
void gcoll_store_table_fini(gcoll_store_table *table);

uint64_t gcoll_store_hash(const void *key, size_t bytes);
static inline const unsigned char *gcoll_store_entry_value(const gcoll_store_entry *entry) {
    return entry->key + entry->key_bytes;
}

/* Finds a key. Returns NULL if it is absent or its lifetime is over. The entry is valid until the next call
 * with this table. */
gcoll_store_entry *gcoll_store_table_find(gcoll_store_table *table, const void *key, size_t key_bytes,
                                          int64_t now_ns);

/* Creates or replaces a value. The lifetime of a key that has one starts again. */
gcoll_table_result gcoll_store_table_put(gcoll_store_table *table, const void *key, size_t key_bytes,
                                         const void *value, size_t value_bytes, int64_t now_ns);

void gcoll_store_table_remove(gcoll_store_table *table, const void *key, size_t key_bytes);

/* Gives an entry a lifetime: it expires ttl_ms from now, or ttl_ms after it is next put. */
void gcoll_store_entry_keep(gcoll_store_entry *entry, int64_t ttl_ms, int64_t now_ns);

/* Removes all entries whose lifetimes are over. */
void gcoll_store_table_sweep(gcoll_store_table *table, int64_t now_ns);

#endif
