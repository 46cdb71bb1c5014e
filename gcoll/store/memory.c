/*
 * gcoll/store/memory.c - a store in this process's memory, shared by threads.
 *
 * It is a hash table under one lock. Each waiter has a condition variable of its own. So a set wakes only the
 * threads that wait for its key, however many threads there are.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gcoll/base/base.h"
#include "gcoll/base/hash.h"
#include "gcoll/base/map.h"
#include "gcoll/store/store_internal.h"

#define NS_PER_SEC 1000000000

typedef struct entry {
    gcoll_map_item item; /* must be the first member */
    size_t bytes;
    char *value; /* after key, in the same allocation */
    char key[];
} entry;

typedef struct waiter {
    struct waiter *next;
    const char *key;
    bool woken;
    pthread_cond_t wake;
} waiter;

typedef struct memory_store {
    pthread_mutex_t lock; /* guards all fields below */
    gcoll_map entries;
    waiter *waiters;
} memory_store;

static entry *entry_of(gcoll_map_item *item) {
    return (entry *)(void *)item;
}

/* Returns the entry of the key, or NULL. */
static entry *find(const memory_store *self, const char *key, uint64_t hash) {
    gcoll_map_item *item = gcoll_map_first(&self->entries, hash);
    while (item && strcmp(entry_of(item)->key, key) != 0)
        item = gcoll_map_next(item);
    return item ? entry_of(item) : NULL;
}

static void drop(memory_store *self, entry *old) {
    if (old)
        gcoll_map_remove(&self->entries, &old->item);
    free(old);
}

/* Creates or replaces the value, and wakes the waiters of the key. The caller holds the lock. Returns false
 * if there is no memory. */
static bool put(memory_store *self, const char *key, const void *value, size_t bytes) {
    size_t key_bytes = strlen(key) + 1;
    entry *made = malloc(sizeof *made + key_bytes + bytes);
    if (!made)
        return false;
    made->bytes = bytes;
    made->value = made->key + key_bytes;
    memcpy(made->key, key, key_bytes);
    memcpy(made->value, value, bytes);
    const uint64_t hash = gcoll_hash_text(GCOLL_HASH_START, key);
    drop(self, find(self, key, hash));
    gcoll_map_add(&self->entries, &made->item, hash); /* cannot fail: the map has buckets */
    for (waiter *w = self->waiters; w; w = w->next) {
        if (!w->woken && strcmp(w->key, key) == 0) {
            w->woken = true;
            pthread_cond_signal(&w->wake);
        }
    }
    return true;
}

static gcoll_status memory_set(void *handle, const char *key, const void *value, size_t bytes) {
    memory_store *self = handle;
    pthread_mutex_lock(&self->lock);
    bool done = put(self, key, value, bytes);
    pthread_mutex_unlock(&self->lock);
    if (!done)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "memory store, set \"%s\": no memory for %zu bytes", key,
                           bytes);
    return GCOLL_OK;
}

static gcoll_status memory_set_new(void *handle, const char *key, const void *value, size_t bytes) {
    memory_store *self = handle;
    gcoll_status status = GCOLL_OK;
    pthread_mutex_lock(&self->lock);
    if (find(self, key, gcoll_hash_text(GCOLL_HASH_START, key)))
        status = gcoll_error(GCOLL_ERR_STATE, "memory store, set_new \"%s\": the key exists already", key);
    else if (!put(self, key, value, bytes))
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "memory store, set_new \"%s\": no memory for %zu bytes",
                             key, bytes);
    pthread_mutex_unlock(&self->lock);
    return status;
}

static gcoll_status memory_get(void *handle, const char *key, void *value, size_t capacity, size_t *bytes) {
    memory_store *self = handle;
    gcoll_status status = GCOLL_OK;
    pthread_mutex_lock(&self->lock);
    const entry *item = find(self, key, gcoll_hash_text(GCOLL_HASH_START, key));
    if (!item) {
        status = gcoll_error(GCOLL_ERR_NOT_FOUND, "memory store, get \"%s\": no such key", key);
    } else if (item->bytes > capacity) {
        status = gcoll_error(GCOLL_ERR_INVALID,
                             "memory store, get \"%s\": the value has %zu bytes; there is room for %zu", key,
                             item->bytes, capacity);
    } else {
        memcpy(value, item->value, item->bytes);
        *bytes = item->bytes;
    }
    pthread_mutex_unlock(&self->lock);
    return status;
}

static gcoll_status waiter_init(waiter *w, const char *key) {
    w->key = key;
    w->woken = false;
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "memory store, wait \"%s\": no memory", key);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&w->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (failed != 0)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "memory store, wait \"%s\": no memory", key);
    return GCOLL_OK;
}

/* Sleeps until the waiter is woken or `left_ns` have passed. The caller holds the lock. */
static void sleep_until_woken(memory_store *self, waiter *w, int64_t left_ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    /* Sleeps for a day at a time: a wait without a limit would exceed time_t. */
    const int64_t day_ns = (int64_t)86400 * NS_PER_SEC;
    int64_t span = left_ns < day_ns ? left_ns : day_ns;
    int64_t nanos = until.tv_nsec + span % NS_PER_SEC;
    until.tv_sec += span / NS_PER_SEC + nanos / NS_PER_SEC;
    until.tv_nsec = nanos % NS_PER_SEC;
    pthread_cond_timedwait(&w->wake, &self->lock, &until);
}

static gcoll_status memory_wait(void *handle, const char *key, int64_t timeout_ms) {
    memory_store *self = handle;
    int64_t deadline = gcoll_store_deadline(timeout_ms);
    waiter w;
    gcoll_status status = waiter_init(&w, key);
    if (status != GCOLL_OK)
        return status;
    pthread_mutex_lock(&self->lock);
    w.woken = find(self, key, gcoll_hash_text(GCOLL_HASH_START, key));
    w.next = self->waiters;
    self->waiters = &w;
    for (int64_t left; !w.woken && (left = gcoll_store_left_ns(deadline)) > 0;)
        sleep_until_woken(self, &w, left);
    waiter **link = &self->waiters;
    while (*link != &w)
        link = &(*link)->next;
    *link = w.next;
    pthread_mutex_unlock(&self->lock);
    pthread_cond_destroy(&w.wake);
    if (!w.woken)
        return gcoll_error(GCOLL_ERR_TIMEOUT, "memory store, wait \"%s\": not set within %" PRId64 " ms", key,
                           timeout_ms);
    return GCOLL_OK;
}

static gcoll_status memory_add(void *handle, const char *key, int64_t delta, int64_t *value) {
    memory_store *self = handle;
    char where[GCOLL_STORE_KEY_MAX + 32];
    int64_t sum = delta;
    gcoll_status status = GCOLL_OK;
    snprintf(where, sizeof where, "memory store, add \"%s\"", key);
    pthread_mutex_lock(&self->lock);
    const entry *item = find(self, key, gcoll_hash_text(GCOLL_HASH_START, key));
    if (item)
        status = gcoll_store_counter_add(where, item->value, item->bytes, delta, &sum);
    if (status == GCOLL_OK) {
        char text[GCOLL_STORE_COUNTER_TEXT];
        int length = snprintf(text, sizeof text, "%" PRId64, sum);
        if (!put(self, key, text, (size_t)length))
            status = gcoll_error(GCOLL_ERR_NO_MEMORY, "%s: no memory", where);
    }
    pthread_mutex_unlock(&self->lock);
    if (status == GCOLL_OK)
        *value = sum;
    return status;
}

static gcoll_status memory_remove(void *handle, const char *key) {
    memory_store *self = handle;
    pthread_mutex_lock(&self->lock);
    drop(self, find(self, key, gcoll_hash_text(GCOLL_HASH_START, key)));
    pthread_mutex_unlock(&self->lock);
    return GCOLL_OK;
}

/* Checks only that the key exists. The keys end with the process, so none is ever dropped. */
static gcoll_status memory_keep(void *handle, const char *key, int64_t ttl_ms) {
    memory_store *self = handle;
    (void)ttl_ms;
    pthread_mutex_lock(&self->lock);
    bool there = find(self, key, gcoll_hash_text(GCOLL_HASH_START, key));
    pthread_mutex_unlock(&self->lock);
    return there ? GCOLL_OK : gcoll_error(GCOLL_ERR_NOT_FOUND, "memory store, keep \"%s\": no such key", key);
}

static void free_entry(void *arg, gcoll_map_item *item) {
    (void)arg;
    free(entry_of(item));
}

static void memory_destroy(void *handle) {
    memory_store *self = handle;
    gcoll_map_visit(&self->entries, free_entry, NULL);
    gcoll_map_free(&self->entries);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static const gcoll_store_ops memory_ops = {
    .struct_size = sizeof(gcoll_store_ops),
    .name = "memory",
    .set = memory_set,
    .get = memory_get,
    .wait = memory_wait,
    .add = memory_add,
    .remove = memory_remove,
    .destroy = memory_destroy,
    .set_new = memory_set_new,
    .keep = memory_keep,
};

gcoll_status gcoll_store_memory_create(gcoll_store **store) {
    if (!store)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_memory_create: store is NULL");
    gcoll_status status = GCOLL_ERR_NO_MEMORY;
    memory_store *self = calloc(1, sizeof *self);
    if (!self)
        goto no_memory;
    if (!gcoll_map_grow(&self->entries) || pthread_mutex_init(&self->lock, NULL) != 0)
        goto free_self;
    status = gcoll_store_create(&memory_ops, self, store);
    if (status != GCOLL_OK)
        memory_destroy(self);
    return status;
free_self:
    gcoll_map_free(&self->entries);
    free(self);
no_memory:
    return gcoll_error(status, "gcoll_store_memory_create: no memory");
}
