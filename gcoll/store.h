/*
 * gcoll/store.h - where the ranks of a job find one another: a small key-value store.
 *
 * Keys are text of 1 to GCOLL_STORE_KEY_MAX bytes from [A-Za-z0-9._-] and '/' between parts; values
 * are 0 to GCOLL_STORE_VALUE_MAX bytes. A store handle is used by one thread at a time unless its
 * constructor says otherwise. Every wait has a deadline. URLs:
 *
 *   file:DIR                                  a folder that all ranks see (made if missing)
 *   redis://[user:password@]host[:port][/db]  a Redis server (not a cluster); port 6379, db 0 by default
 *
 * A process that forks after opening a store must not use it in the child.
 */
#ifndef GCOLL_STORE_H
#define GCOLL_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "gcoll/export.h"
#include "gcoll/status.h"

GCOLL_BEGIN_DECLS

#define GCOLL_STORE_KEY_MAX   255
#define GCOLL_STORE_VALUE_MAX 65536

typedef struct gcoll_store gcoll_store;

/* A store of the caller's own. Each function gets `self` as given to gcoll_store_create, and keys and
 * sizes already checked. Errors: any status; the text is set with gcoll_store_error. */
typedef struct gcoll_store_ops {
    size_t struct_size; /* sizeof(gcoll_store_ops) */
    const char *name;   /* for messages: "file", "redis", ... */
    /* Create or replace; atomic for readers, and wakes waiters. */
    gcoll_status (*set)(void *self, const char *key, const void *value, size_t bytes);
    /* Copies the value to `value` (room for `capacity`), its true size to *bytes. GCOLL_ERR_NOT_FOUND if
     * absent; GCOLL_ERR_INVALID if it does not fit. Never waits for the key. */
    gcoll_status (*get)(void *self, const char *key, void *value, size_t capacity, size_t *bytes);
    /* Returns when the key exists; GCOLL_ERR_TIMEOUT after timeout_ms (>= 0). */
    gcoll_status (*wait)(void *self, const char *key, int64_t timeout_ms);
    /* Atomically adds to the decimal counter at key (0 if absent) and gives the new value. */
    gcoll_status (*add)(void *self, const char *key, int64_t delta, int64_t *value);
    /* Deletes; absent is success. */
    gcoll_status (*remove)(void *self, const char *key);
    /* Releases self. May be NULL. */
    void (*destroy)(void *self);
} gcoll_store_ops;

/* Opens a store by URL. timeout_ms bounds connecting, and every later request to a server (a wait adds
 * its own). The password of a URL never appears in an error text. */
GCOLL_API gcoll_status gcoll_store_open(const char *url, int64_t timeout_ms, gcoll_store **store);

/* A store in this process's memory, for ranks that are threads. May be used from any number of threads at
 * once, with one handle shared by all of them. */
GCOLL_API gcoll_status gcoll_store_memory_create(gcoll_store **store);

/* A view of `base` in which every key k is base's "prefix/k". Does not own base, which must outlive it. */
GCOLL_API gcoll_status gcoll_store_prefix_create(gcoll_store *base, const char *prefix, gcoll_store **store);

/* A store by the caller's own functions. ops must stay valid as long as the store. */
GCOLL_API gcoll_status gcoll_store_create(const gcoll_store_ops *ops, void *self, gcoll_store **store);

GCOLL_API gcoll_status gcoll_store_set(gcoll_store *store, const char *key, const void *value, size_t bytes);
GCOLL_API gcoll_status gcoll_store_get(gcoll_store *store, const char *key, void *value, size_t capacity,
                                       size_t *bytes);
GCOLL_API gcoll_status gcoll_store_wait(gcoll_store *store, const char *key, int64_t timeout_ms);
GCOLL_API gcoll_status gcoll_store_add(gcoll_store *store, const char *key, int64_t delta, int64_t *value);
GCOLL_API gcoll_status gcoll_store_remove(gcoll_store *store, const char *key);

/* Sets this thread's gcoll_last_error() and returns status, for the functions of a caller's own store. */
GCOLL_API gcoll_status gcoll_store_error(gcoll_status status, const char *text);

/* NULL is fine. Keys stay. */
GCOLL_API void gcoll_store_destroy(gcoll_store *store);

GCOLL_END_DECLS

#endif
