/*
 * gcoll/store/memory.c - a store in this process's memory, shared by threads.
 *
 * A chained hash table under one lock. Each waiter brings a condition of its own, so that a set wakes
 * those that wait for its key and no one else, however many threads there are.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gcoll/base/base.h"
#include "gcoll/store/store_internal.h"

#define FIRST_BUCKETS 64 /* a power of two, as the growth below doubles */
#define NS_PER_SEC    1000000000

typedef struct entry {
    struct entry *next;
    uint64_t hash;
    size_t bytes;
    char *value; /* behind key, in the same allocation */
    char key[];
} entry;

typedef struct waiter {
    struct waiter *next;
    const char *key;
    bool woken;
    pthread_cond_t wake;
} waiter;

typedef struct memory_store {
    pthread_mutex_t lock; /* guards all below */
    entry **buckets;
    size_t bucket_count; /* a power of two */
    size_t entry_count;
    waiter *waiters;
} memory_store;

/* FNV-1a: short keys, no adversary inside one's own process. */
static uint64_t hash_key(const char *key) {
    uint64_t hash = 14695981039346656037u;
    for (; *key != '\0'; key++)
        hash = (hash ^ (unsigned char)*key) * 1099511628211u;
    return hash;
}

/* The link that points at the entry of key, or at NULL where it would go. */
static entry **find(memory_store *self, const char *key, uint64_t hash) {
    entry **link = &self->buckets[hash & (self->bucket_count - 1)];
    while (*link != NULL && ((*link)->hash != hash || strcmp((*link)->key, key) != 0))
        link = &(*link)->next;
    return link;
}

static void grow(memory_store *self) {
    size_t count = self->bucket_count * 2;
    entry **buckets = calloc(count, sizeof(entry *));
    if (buckets == NULL)
        return; /* longer chains, no harm */
    for (size_t i = 0; i < self->bucket_count; i++) {
        for (entry *item = self->buckets[i], *next; item != NULL; item = next) {
            next = item->next;
            item->next = buckets[item->hash & (count - 1)];
            buckets[item->hash & (count - 1)] = item;
        }
    }
    free(self->buckets);
    self->buckets = buckets;
    self->bucket_count = count;
}

/* Creates or replaces, and wakes. The lock is held. false: no memory. */
static bool put(memory_store *self, const char *key, const void *value, size_t bytes) {
    size_t key_bytes = strlen(key) + 1;
    entry *made = malloc(sizeof *made + key_bytes + bytes);
    if (made == NULL)
        return false;
    made->hash = hash_key(key);
    made->bytes = bytes;
    made->value = made->key + key_bytes;
    memcpy(made->key, key, key_bytes);
    memcpy(made->value, value, bytes);
    entry **link = find(self, key, made->hash);
    entry *old = *link;
    made->next = old == NULL ? NULL : old->next;
    *link = made;
    free(old);
    if (old == NULL && ++self->entry_count > self->bucket_count)
        grow(self);
    for (waiter *w = self->waiters; w != NULL; w = w->next) {
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

static gcoll_status memory_get(void *handle, const char *key, void *value, size_t capacity, size_t *bytes) {
    memory_store *self = handle;
    gcoll_status status = GCOLL_OK;
    pthread_mutex_lock(&self->lock);
    const entry *item = *find(self, key, hash_key(key));
    if (item == NULL) {
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
    pthread_condattr_t attributes;
    w->key = key;
    w->woken = false;
    if (pthread_condattr_init(&attributes) != 0)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "memory store, wait \"%s\": no memory", key);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&w->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    if (failed != 0)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "memory store, wait \"%s\": no memory", key);
    return GCOLL_OK;
}

/* Sleeps until woken or `left_ns` are over. The lock is held. */
static void sleep_until_woken(memory_store *self, waiter *w, int64_t left_ns) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    /* A deadline of "never" saturates: a day at a time stays within time_t. */
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
    w.woken = *find(self, key, hash_key(key)) != NULL;
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
    char where[GCOLL_STORE_KEY_MAX + 32], text[GCOLL_STORE_COUNTER_TEXT];
    int64_t sum = delta;
    gcoll_status status = GCOLL_OK;
    snprintf(where, sizeof where, "memory store, add \"%s\"", key);
    pthread_mutex_lock(&self->lock);
    const entry *item = *find(self, key, hash_key(key));
    if (item != NULL)
        status = gcoll_store_counter_add(where, item->value, item->bytes, delta, &sum);
    if (status == GCOLL_OK) {
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
    entry **link = find(self, key, hash_key(key));
    entry *item = *link;
    if (item != NULL) {
        *link = item->next;
        self->entry_count--;
    }
    pthread_mutex_unlock(&self->lock);
    free(item);
    return GCOLL_OK;
}

static void memory_destroy(void *handle) {
    memory_store *self = handle;
    for (size_t i = 0; i < self->bucket_count; i++) {
        for (entry *item = self->buckets[i], *next; item != NULL; item = next) {
            next = item->next;
            free(item);
        }
    }
    free(self->buckets);
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
};

gcoll_status gcoll_store_memory_create(gcoll_store **store) {
    if (store == NULL)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_memory_create: store is NULL");
    gcoll_status status = GCOLL_ERR_NO_MEMORY;
    memory_store *self = calloc(1, sizeof *self);
    if (self == NULL)
        goto no_memory;
    self->bucket_count = FIRST_BUCKETS;
    self->buckets = calloc(FIRST_BUCKETS, sizeof(entry *));
    if (self->buckets == NULL || pthread_mutex_init(&self->lock, NULL) != 0)
        goto free_self;
    status = gcoll_store_create(&memory_ops, self, store);
    if (status != GCOLL_OK)
        memory_destroy(self);
    return status;
free_self:
    free(self->buckets);
    free(self);
no_memory:
    return gcoll_error(status, "gcoll_store_memory_create: no memory");
}
