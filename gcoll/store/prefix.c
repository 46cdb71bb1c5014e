/* gcoll/store/prefix.c - a view of another store, which adds a prefix to every key. The view has no state, so
 * it is as thread-safe as its base. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "gcoll/store/store_internal.h"

typedef struct prefix_store {
    gcoll_store *base; /* borrowed */
    size_t bytes;      /* length of prefix, with its '/' */
    char prefix[GCOLL_STORE_KEY_MAX + 1];
} prefix_store;

static gcoll_status full_key(const prefix_store *self, const char *key, char full[GCOLL_STORE_KEY_MAX + 1]) {
    size_t bytes = strlen(key);
    if (self->bytes + bytes > GCOLL_STORE_KEY_MAX)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "prefix store: key \"%s\" has %zu bytes, and %zu with prefix \"%s\"; at most %d are "
            "allowed together",
            key, bytes, self->bytes + bytes, self->prefix, GCOLL_STORE_KEY_MAX);
    memcpy(full, self->prefix, self->bytes);
    memcpy(full + self->bytes, key, bytes + 1);
    return GCOLL_OK;
}

static gcoll_status prefix_set(void *self, const char *key, const void *value, size_t bytes) {
    const prefix_store *view = self;
    char full[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status = full_key(view, key, full);
    return status != GCOLL_OK ? status : gcoll_store_set(view->base, full, value, bytes);
}

static gcoll_status prefix_get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
    const prefix_store *view = self;
    char full[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status = full_key(view, key, full);
    return status != GCOLL_OK ? status : gcoll_store_get(view->base, full, value, capacity, bytes);
}

static gcoll_status prefix_wait(void *self, const char *key, int64_t timeout_ms) {
    const prefix_store *view = self;
    char full[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status = full_key(view, key, full);
    return status != GCOLL_OK ? status : gcoll_store_wait(view->base, full, timeout_ms);
}

static gcoll_status prefix_add(void *self, const char *key, int64_t delta, int64_t *value) {
    const prefix_store *view = self;
    char full[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status = full_key(view, key, full);
    return status != GCOLL_OK ? status : gcoll_store_add(view->base, full, delta, value);
}

static gcoll_status prefix_remove(void *self, const char *key) {
    const prefix_store *view = self;
    char full[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status = full_key(view, key, full);
    return status != GCOLL_OK ? status : gcoll_store_remove(view->base, full);
}

static gcoll_status prefix_set_new(void *self, const char *key, const void *value, size_t bytes) {
    const prefix_store *view = self;
    char full[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status = full_key(view, key, full);
    return status != GCOLL_OK ? status : gcoll_store_set_new(view->base, full, value, bytes);
}

/* Sets the timeout of the base: all views of the base share it. */
static gcoll_status prefix_set_timeout(void *self, int64_t timeout_ms) {
    const prefix_store *view = self;
    return gcoll_store_set_timeout(view->base, timeout_ms);
}

static gcoll_status prefix_keep(void *self, const char *key, int64_t ttl_ms) {
    const prefix_store *view = self;
    char full[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status = full_key(view, key, full);
    return status != GCOLL_OK ? status : gcoll_store_keep(view->base, full, ttl_ms);
}

static gcoll_status prefix_get_wait(void *self, const char *key, void *value, size_t capacity, size_t *bytes,
                                    int64_t timeout_ms) {
    const prefix_store *view = self;
    char full[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status = full_key(view, key, full);
    return status != GCOLL_OK ? status
                              : gcoll_store_get_wait(view->base, full, value, capacity, bytes, timeout_ms);
}

static const gcoll_store_ops prefix_ops = {
    .struct_size = sizeof(gcoll_store_ops),
    .name = "prefix",
    .set = prefix_set,
    .get = prefix_get,
    .wait = prefix_wait,
    .add = prefix_add,
    .remove = prefix_remove,
    .destroy = free,
    .set_new = prefix_set_new,
    .set_timeout = prefix_set_timeout,
    .keep = prefix_keep,
    .get_wait = prefix_get_wait,
};

gcoll_status gcoll_store_prefix_create(gcoll_store *base, const char *prefix, gcoll_store **store) {
    if (!base || !store)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_prefix_create: %s is NULL",
                           !base ? "base" : "store");
    gcoll_status status = gcoll_store_key_check("gcoll_store_prefix_create: prefix", prefix);
    if (status != GCOLL_OK)
        return status;
    size_t bytes = strlen(prefix);
    /* A '/' and a key of one byte must still fit. */
    if (bytes > GCOLL_STORE_KEY_MAX - 2)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "gcoll_store_prefix_create: prefix has %zu bytes; at most %d leave room for a key",
                           bytes, GCOLL_STORE_KEY_MAX - 2);
    prefix_store *self = calloc(1, sizeof *self);
    if (!self)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_prefix_create: no memory");
    self->base = base;
    self->bytes = (size_t)snprintf(self->prefix, sizeof self->prefix, "%s/", prefix);
    status = gcoll_store_create(&prefix_ops, self, store);
    if (status == GCOLL_OK)
        gcoll_store_set_base(*store, base);
    else
        free(self);
    return status;
}
