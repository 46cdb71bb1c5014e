/* gcoll/store/table.c - a chained hash table of keys and values, which drops expired entries and counts
 * bytes. */
#include "gcoll/store/table.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64 /* a power of two: growing doubles it */
#define NS_PER_MS     1000000

bool gcoll_store_table_init(gcoll_store_table *table, uint64_t keys_max, uint64_t bytes_max) {
    table->bucket_count = FIRST_BUCKETS;
    table->keys = table->bytes = 0;
    table->keys_max = keys_max;
    table->bytes_max = bytes_max;
    table->buckets = calloc(FIRST_BUCKETS, sizeof(gcoll_store_entry *));
    return table->buckets;
}

void gcoll_store_table_fini(gcoll_store_table *table) {
    for (size_t i = 0; table->buckets && i < table->bucket_count; i++) {
        for (gcoll_store_entry *entry = table->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            free(entry);
        }
    }
    free(table->buckets);
    table->buckets = NULL;
}

/* FNV-1a, without a secret: a client that sets colliding keys to slow the server down could as well fill
 * it. */
uint64_t gcoll_store_hash(const void *key, size_t bytes) {
    const unsigned char *at = key;
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

static uint64_t size_of(const gcoll_store_entry *entry) {
    return GCOLL_TABLE_ENTRY_BYTES + entry->key_bytes + entry->value_bytes;
}

static bool is_over(const gcoll_store_entry *entry, int64_t now_ns) {
    return entry->ttl_ns != 0 && entry->expires_ns <= now_ns;
}

/* Returns the link that points to the key's entry, or the last link of its chain, which is NULL. */
static gcoll_store_entry **link_of(gcoll_store_table *table, const void *key, size_t key_bytes,
                                   uint64_t hash) {
    gcoll_store_entry **link = &table->buckets[hash & (table->bucket_count - 1)];

    while (*link && ((*link)->hash != hash || (*link)->key_bytes != key_bytes ||
                     memcmp((*link)->key, key, key_bytes) != 0))
        link = &(*link)->next;
    return link;
}

static void unlink_entry(gcoll_store_table *table, gcoll_store_entry **link) {
    gcoll_store_entry *entry = *link;

    *link = entry->next;
    table->keys--;
    table->bytes -= size_of(entry);
    free(entry);
}

gcoll_store_entry *gcoll_store_table_find(gcoll_store_table *table, const void *key, size_t key_bytes,
                                          int64_t now_ns) {
    gcoll_store_entry **link = link_of(table, key, key_bytes, gcoll_store_hash(key, key_bytes));

    if (*link && is_over(*link, now_ns)) {
        unlink_entry(table, link);
        return NULL;
    }
    return *link;
}

static void grow(gcoll_store_table *table) {
    size_t count = table->bucket_count * 2;
    gcoll_store_entry **buckets = calloc(count, sizeof(gcoll_store_entry *));

    if (!buckets)
        return; /* harmless: chains become longer */
    for (size_t i = 0; i < table->bucket_count; i++) {
        for (gcoll_store_entry *entry = table->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            entry->next = buckets[entry->hash & (count - 1)];
            buckets[entry->hash & (count - 1)] = entry;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
}

static int64_t end_of(int64_t ttl_ns, int64_t now_ns) {
    int64_t end;

    return __builtin_add_overflow(now_ns, ttl_ns, &end) ? INT64_MAX : end;
}

gcoll_table_result gcoll_store_table_put(gcoll_store_table *table, const void *key, size_t key_bytes,
                                         const void *value, size_t value_bytes, int64_t now_ns) {
    const uint64_t bytes = GCOLL_TABLE_ENTRY_BYTES + key_bytes + value_bytes;
    gcoll_store_entry *old = gcoll_store_table_find(table, key, key_bytes, now_ns);
    gcoll_store_entry *made, **link;

    if (!old && table->keys >= table->keys_max)
        return GCOLL_TABLE_KEYS_FULL;
    if (table->bytes - (!old ? 0 : size_of(old)) + bytes > table->bytes_max)
        return GCOLL_TABLE_BYTES_FULL;
    made = malloc(sizeof *made + key_bytes + value_bytes);
    if (!made)
        return GCOLL_TABLE_NO_MEMORY;
    made->hash = gcoll_store_hash(key, key_bytes);
    made->key_bytes = (uint32_t)key_bytes;
    made->value_bytes = (uint32_t)value_bytes;
    made->ttl_ns = !old ? 0 : old->ttl_ns;
    made->expires_ns = end_of(made->ttl_ns, now_ns);
    memcpy(made->key, key, key_bytes);
    if (value_bytes > 0)
        memcpy(made->key + key_bytes, value, value_bytes);
    link = link_of(table, key, key_bytes, made->hash);
    if (*link)
        unlink_entry(table, link);
    made->next = *link;
    *link = made;
    table->keys++;
    table->bytes += bytes;
    if (table->keys > table->bucket_count)
        grow(table);
    return GCOLL_TABLE_OK;
}

void gcoll_store_table_remove(gcoll_store_table *table, const void *key, size_t key_bytes) {
    gcoll_store_entry **link = link_of(table, key, key_bytes, gcoll_store_hash(key, key_bytes));

    if (*link)
        unlink_entry(table, link);
}

void gcoll_store_entry_keep(gcoll_store_entry *entry, int64_t ttl_ms, int64_t now_ns) {
    int64_t ttl_ns;

    entry->ttl_ns = __builtin_mul_overflow(ttl_ms, (int64_t)NS_PER_MS, &ttl_ns) ? INT64_MAX : ttl_ns;
    entry->expires_ns = end_of(entry->ttl_ns, now_ns);
}

void gcoll_store_table_sweep(gcoll_store_table *table, int64_t now_ns) {
    for (size_t i = 0; i < table->bucket_count; i++) {
        for (gcoll_store_entry **link = &table->buckets[i]; *link;)
            if (is_over(*link, now_ns))
                unlink_entry(table, link);
            else
                link = &(*link)->next;
    }
}
