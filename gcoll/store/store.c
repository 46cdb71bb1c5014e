/* gcoll/store/store.c - the public calls: checks arguments once for all kinds of stores, then dispatches. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "gcoll/store/store_internal.h"

struct gcoll_store {
    const gcoll_store_ops *ops;
    void *self;
};

/* Longest piece of a rejected key that a message quotes. */
#define QUOTE_MAX 48

/* Copies a rejected key for a message: cut, and free of bytes that would upset a terminal or a log. */
static const char *quote(const char *key, char text[QUOTE_MAX + 4]) {
    size_t i = 0;
    for (; i < QUOTE_MAX && key[i] != '\0'; i++)
        text[i] = key[i] >= ' ' && key[i] <= '~' ? key[i] : '?';
    memcpy(text + i, key[i] == '\0' ? "" : "...", key[i] == '\0' ? 1 : 4);
    return text;
}

static bool key_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

gcoll_status gcoll_store_key_check(const char *what, const char *key) {
    char text[QUOTE_MAX + 4];
    if (key == NULL)
        return gcoll_error(GCOLL_ERR_INVALID, "%s is NULL", what);
    size_t length = strnlen(key, GCOLL_STORE_KEY_MAX + 1);
    if (length == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s is empty; 1 to %d bytes are allowed", what,
                           GCOLL_STORE_KEY_MAX);
    if (length > GCOLL_STORE_KEY_MAX)
        return gcoll_error(GCOLL_ERR_INVALID, "%s \"%s\" is too long; 1 to %d bytes are allowed", what,
                           quote(key, text), GCOLL_STORE_KEY_MAX);
    bool part_open = false;
    for (size_t i = 0; i < length; i++) {
        if (key[i] == '/' ? !part_open : !key_byte(key[i]))
            return gcoll_error(GCOLL_ERR_INVALID,
                               "%s \"%s\" has a wrong byte 0x%02x at %zu; allowed are A-Z a-z 0-9 . _ - and "
                               "/ between parts",
                               what, quote(key, text), (unsigned)(unsigned char)key[i], i);
        part_open = key[i] != '/';
    }
    if (!part_open)
        return gcoll_error(GCOLL_ERR_INVALID, "%s \"%s\" ends in /, which may only stand between parts", what,
                           quote(key, text));
    return GCOLL_OK;
}

gcoll_status gcoll_store_create(const gcoll_store_ops *ops, void *self, gcoll_store **store) {
    if (store == NULL)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_create: store is NULL");
    if (ops == NULL)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_create: ops is NULL");
    if (ops->struct_size < sizeof *ops)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "gcoll_store_create: ops->struct_size is %zu; it must be at least "
                           "sizeof(gcoll_store_ops), %zu",
                           ops->struct_size, sizeof *ops);
    if (ops->name == NULL || ops->set == NULL || ops->get == NULL || ops->wait == NULL || ops->add == NULL ||
        ops->remove == NULL)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "gcoll_store_create: name, set, get, wait, add and remove of ops must not be NULL");
    gcoll_store *made = malloc(sizeof *made);
    if (made == NULL)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_create: no memory for a %s store", ops->name);
    made->ops = ops;
    made->self = self;
    *store = made;
    return GCOLL_OK;
}

void gcoll_store_destroy(gcoll_store *store) {
    if (store == NULL)
        return;
    if (store->ops->destroy != NULL)
        store->ops->destroy(store->self);
    free(store);
}

/* Store and key, as every request takes them. `what` is "gcoll_store_get: key". */
static gcoll_status check(const gcoll_store *store, const char *what, const char *key) {
    if (store == NULL)
        return gcoll_error(GCOLL_ERR_INVALID, "%s cannot be used: store is NULL", what);
    gcoll_status status = gcoll_store_key_check(what, key);
    if (status != GCOLL_OK)
        return gcoll_error(status, "%s (%s store)", gcoll_last_error(), store->ops->name);
    return GCOLL_OK;
}

gcoll_status gcoll_store_set(gcoll_store *store, const char *key, const void *value, size_t bytes) {
    gcoll_status status = check(store, "gcoll_store_set: key", key);
    if (status != GCOLL_OK)
        return status;
    if (value == NULL && bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_set: %s store, key \"%s\": value is NULL",
                           store->ops->name, key);
    if (bytes > GCOLL_STORE_VALUE_MAX)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "gcoll_store_set: %s store, key \"%s\": value of %zu bytes; at most %d are allowed",
            store->ops->name, key, bytes, GCOLL_STORE_VALUE_MAX);
    return store->ops->set(store->self, key, value == NULL ? "" : value, bytes);
}

gcoll_status gcoll_store_get(gcoll_store *store, const char *key, void *value, size_t capacity,
                             size_t *bytes) {
    gcoll_status status = check(store, "gcoll_store_get: key", key);
    if (status != GCOLL_OK)
        return status;
    if ((value == NULL && capacity > 0) || bytes == NULL)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_get: %s store, key \"%s\": %s is NULL",
                           store->ops->name, key, bytes == NULL ? "bytes" : "value");
    char nothing = 0;
    size_t found = 0;
    status = store->ops->get(store->self, key, value == NULL ? &nothing : value, capacity, &found);
    if (status != GCOLL_OK)
        return status;
    if (found > capacity)
        return gcoll_error(
            GCOLL_ERR_IO,
            "gcoll_store_get: %s store, key \"%s\": the store claims to have written %zu bytes "
            "to a buffer of %zu",
            store->ops->name, key, found, capacity);
    *bytes = found;
    return GCOLL_OK;
}

gcoll_status gcoll_store_wait(gcoll_store *store, const char *key, int64_t timeout_ms) {
    gcoll_status status = check(store, "gcoll_store_wait: key", key);
    if (status != GCOLL_OK)
        return status;
    if (timeout_ms < 0)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "gcoll_store_wait: %s store, key \"%s\": timeout_ms is %" PRId64
                           "; it must be 0 or more",
                           store->ops->name, key, timeout_ms);
    return store->ops->wait(store->self, key, timeout_ms);
}

gcoll_status gcoll_store_add(gcoll_store *store, const char *key, int64_t delta, int64_t *value) {
    gcoll_status status = check(store, "gcoll_store_add: key", key);
    if (status != GCOLL_OK)
        return status;
    int64_t sum = 0;
    status = store->ops->add(store->self, key, delta, &sum);
    if (status == GCOLL_OK && value != NULL)
        *value = sum;
    return status;
}

gcoll_status gcoll_store_remove(gcoll_store *store, const char *key) {
    gcoll_status status = check(store, "gcoll_store_remove: key", key);
    return status != GCOLL_OK ? status : store->ops->remove(store->self, key);
}

gcoll_status gcoll_store_error(gcoll_status status, const char *text) {
    return gcoll_error(status, "%s", text == NULL ? "" : text);
}
