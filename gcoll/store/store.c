/* gcoll/store/store.c - the public store calls: they check arguments for all kinds of stores, then call the
 * store's own operations. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "gcoll/base/text.h"
#include "gcoll/store/store_internal.h"

struct gcoll_store {
    const gcoll_store_ops *ops;
    void *self;
    const gcoll_store *base; /* of a view, which has what this one has; NULL: it is none */
};

/* Size of the first version of the table. set_new and the operations after it came later. */
#define FIRST_OPS_BYTES offsetof(gcoll_store_ops, set_new)

/* Whether the caller's table is large enough to have this later operation, and it is not NULL. */
#define HAS(ops, operation)                                                                                  \
    ((ops)->struct_size >= offsetof(gcoll_store_ops, operation) + sizeof(ops)->operation && (ops)->operation)

#define ERROR_MAX 1024 /* longest text that gcoll_error keeps */

/* In a store without set_new, the counter "<key>.new" decides which caller was first. */
#define NEW_SUFFIX ".new"

/* Longest part of a rejected key that a message quotes. */
#define QUOTE_MAX 48

/* Copies a rejected key for a message, shortened, and with '?' for bytes that are not printable. */
static const char *quote(const char *key, char text[QUOTE_MAX + 4]) {
    snprintf(text, QUOTE_MAX + 4, "%.*s%s", QUOTE_MAX, key,
             strnlen(key, QUOTE_MAX + 1) > QUOTE_MAX ? "..." : "");
    gcoll_text_clean(text);
    return text;
}

static bool key_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

gcoll_status gcoll_store_key_check(const char *what, const char *key) {
    if (!key)
        return gcoll_error(GCOLL_ERR_INVALID, "%s is NULL", what);
    size_t length = strnlen(key, GCOLL_STORE_KEY_MAX + 1);
    if (length == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s is empty; 1 to %d bytes are allowed", what,
                           GCOLL_STORE_KEY_MAX);
    char text[QUOTE_MAX + 4];
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
    if (!store)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_create: store is NULL");
    if (!ops)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_create: ops is NULL");
    if (ops->struct_size < FIRST_OPS_BYTES)
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "gcoll_store_create: ops->struct_size is %zu; it must be sizeof(gcoll_store_ops), %zu, "
            "or that of an earlier version, at least %zu",
            ops->struct_size, sizeof *ops, FIRST_OPS_BYTES);
    if (!ops->name || !ops->set)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_create: ops->%s is NULL; a store must have it",
                           ops->name ? "set" : "name");
    if (!HAS(ops, get_wait) && !(ops->get && ops->wait))
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "gcoll_store_create: ops->%s is NULL, and so is get_wait; a store must have get and "
            "wait, or get_wait",
            ops->get ? "wait" : "get");
    gcoll_store *made = malloc(sizeof *made);
    if (!made)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_create: no memory for a %s store", ops->name);
    made->ops = ops;
    made->self = self;
    made->base = NULL;
    *store = made;
    return GCOLL_OK;
}

void gcoll_store_set_base(gcoll_store *store, const gcoll_store *base) {
    store->base = base;
}

uint32_t gcoll_store_lacks(const gcoll_store *store) {
    while (store && store->base)
        store = store->base;
    if (!store)
        return 0;
    return (store->ops->get ? 0 : GCOLL_STORE_LACKS_GET) | (store->ops->wait ? 0 : GCOLL_STORE_LACKS_WAIT) |
           (store->ops->add ? 0 : GCOLL_STORE_LACKS_ADD) |
           (store->ops->remove ? 0 : GCOLL_STORE_LACKS_REMOVE);
}

void gcoll_store_destroy(gcoll_store *store) {
    if (!store)
        return;
    if (store->ops->destroy)
        store->ops->destroy(store->self);
    free(store);
}

/* Checks the store and the key of a request. `what` names call and argument, such as "gcoll_store_get:
 * key". */
static gcoll_status check(const gcoll_store *store, const char *what, const char *key) {
    if (!store)
        return gcoll_error(GCOLL_ERR_INVALID, "%s cannot be used: store is NULL", what);
    gcoll_status status = gcoll_store_key_check(what, key);
    if (status != GCOLL_OK)
        return gcoll_error(status, "%s (%s store)", gcoll_last_error(), store->ops->name);
    return GCOLL_OK;
}

/* The result of a request that began when this thread had set `errors` errors. A store of the caller's may
 * give a number that is no status, or an error without a text; the last error is then about something else.
 */
static gcoll_status result(const gcoll_store *store, const char *call, const char *key, uint32_t errors,
                           gcoll_status status) {
    const bool has_text = gcoll_error_count() != errors;
    char reason[ERROR_MAX];
    if (status == GCOLL_OK)
        return GCOLL_OK;
    const bool is_known = status > GCOLL_OK && status <= GCOLL_ERR_INTERNAL;
    if (is_known && has_text)
        return status;
    snprintf(reason, sizeof reason, "%s", has_text ? gcoll_last_error() : "it gave no reason");
    return gcoll_error(is_known ? status : GCOLL_ERR_IO,
                       "%s: %s store, key \"%s\": the store failed with status %d: %s", call,
                       store->ops->name, key, (int)status, reason);
}

static gcoll_status lacks(const gcoll_store *store, const char *call, const char *operation) {
    return gcoll_error(GCOLL_ERR_UNSUPPORTED, "%s: a %s store has no %s", call, store->ops->name, operation);
}

/* Checks the store, the key and the value of a set or set_new. `call` is the function's name. */
static gcoll_status check_value(const gcoll_store *store, const char *call, const char *key,
                                const void *value, size_t bytes) {
    char what[64];
    snprintf(what, sizeof what, "%s: key", call);
    gcoll_status status = check(store, what, key);
    if (status != GCOLL_OK)
        return status;
    if (!value && bytes > 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: %s store, key \"%s\": value is NULL", call,
                           store->ops->name, key);
    if (bytes > GCOLL_STORE_VALUE_MAX)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: %s store, key \"%s\": value of %zu bytes; at most %d are allowed", call,
                           store->ops->name, key, bytes, GCOLL_STORE_VALUE_MAX);
    return GCOLL_OK;
}

gcoll_status gcoll_store_set(gcoll_store *store, const char *key, const void *value, size_t bytes) {
    const uint32_t errors = gcoll_error_count();
    gcoll_status status = check_value(store, "gcoll_store_set", key, value, bytes);
    if (status != GCOLL_OK)
        return status;
    status = store->ops->set(store->self, key, value ? value : "", bytes);
    return result(store, "gcoll_store_set", key, errors, status);
}

/* Checks the store, the key and the room for the value of a get or get_wait. */
static gcoll_status check_room(const gcoll_store *store, const char *call, const char *key, const void *value,
                               size_t capacity, const size_t *bytes) {
    char what[64];
    snprintf(what, sizeof what, "%s: key", call);
    gcoll_status status = check(store, what, key);
    if (status != GCOLL_OK)
        return status;
    if ((!value && capacity > 0) || !bytes)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: %s store, key \"%s\": %s is NULL", call, store->ops->name,
                           key, bytes ? "value" : "bytes");
    return GCOLL_OK;
}

/* Checks that a store of the caller has not written more than the room that it was given. */
static gcoll_status check_found(const gcoll_store *store, const char *call, const char *key, size_t found,
                                size_t capacity, size_t *bytes) {
    if (found > capacity)
        return gcoll_error(
            GCOLL_ERR_IO,
            "%s: %s store, key \"%s\": the store claims to have written %zu bytes to a buffer of %zu", call,
            store->ops->name, key, found, capacity);
    *bytes = found;
    return GCOLL_OK;
}

static gcoll_status check_wait(const gcoll_store *store, const char *call, const char *key,
                               int64_t timeout_ms) {
    if (timeout_ms >= 0)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID,
                       "%s: %s store, key \"%s\": timeout_ms is %" PRId64 "; it must be 0 or more", call,
                       store->ops->name, key, timeout_ms);
}

gcoll_status gcoll_store_get(gcoll_store *store, const char *key, void *value, size_t capacity,
                             size_t *bytes) {
    const uint32_t errors = gcoll_error_count();
    gcoll_status status = check_room(store, "gcoll_store_get", key, value, capacity, bytes);
    if (status != GCOLL_OK)
        return status;
    if (!store->ops->get)
        return lacks(store, "gcoll_store_get", "get that does not wait");
    char nothing = 0;
    size_t found = 0;
    status = store->ops->get(store->self, key, value ? value : &nothing, capacity, &found);
    status = result(store, "gcoll_store_get", key, errors, status);
    return status == GCOLL_OK ? check_found(store, "gcoll_store_get", key, found, capacity, bytes) : status;
}

/* Does get_wait by wait and get. If the key is removed between the two, it waits again. */
static gcoll_status wait_and_get(gcoll_store *store, const char *key, void *value, size_t capacity,
                                 size_t *found, int64_t timeout_ms) {
    const int64_t deadline_ns = gcoll_store_deadline(timeout_ms);
    gcoll_status status = GCOLL_ERR_NOT_FOUND;
    while (status == GCOLL_ERR_NOT_FOUND) {
        const int64_t left_ms = gcoll_store_left_ms(deadline_ns);
        status = store->ops->wait(store->self, key, left_ms);
        if (status == GCOLL_OK)
            status = store->ops->get(store->self, key, value, capacity, found);
        if (status == GCOLL_ERR_NOT_FOUND && left_ms == 0)
            status = gcoll_error(GCOLL_ERR_TIMEOUT, "%s store, key \"%s\": was not set in time",
                                 store->ops->name, key);
    }
    return status;
}

gcoll_status gcoll_store_get_wait(gcoll_store *store, const char *key, void *value, size_t capacity,
                                  size_t *bytes, int64_t timeout_ms) {
    static const char call[] = "gcoll_store_get_wait";
    const uint32_t errors = gcoll_error_count();
    gcoll_status status = check_room(store, call, key, value, capacity, bytes);
    if (status == GCOLL_OK)
        status = check_wait(store, call, key, timeout_ms);
    if (status != GCOLL_OK)
        return status;
    char nothing = 0;
    size_t found = 0;
    void *room = value ? value : &nothing;
    status = HAS(store->ops, get_wait)
                 ? store->ops->get_wait(store->self, key, room, capacity, &found, timeout_ms)
                 : wait_and_get(store, key, room, capacity, &found, timeout_ms);
    status = result(store, call, key, errors, status);
    return status == GCOLL_OK ? check_found(store, call, key, found, capacity, bytes) : status;
}

gcoll_status gcoll_store_wait(gcoll_store *store, const char *key, int64_t timeout_ms) {
    const uint32_t errors = gcoll_error_count();
    gcoll_status status = check(store, "gcoll_store_wait: key", key);
    if (status == GCOLL_OK)
        status = check_wait(store, "gcoll_store_wait", key, timeout_ms);
    if (status == GCOLL_OK && !store->ops->wait)
        status = lacks(store, "gcoll_store_wait", "wait");
    if (status != GCOLL_OK)
        return status;
    return result(store, "gcoll_store_wait", key, errors, store->ops->wait(store->self, key, timeout_ms));
}

gcoll_status gcoll_store_add(gcoll_store *store, const char *key, int64_t delta, int64_t *value) {
    const uint32_t errors = gcoll_error_count();
    gcoll_status status = check(store, "gcoll_store_add: key", key);
    if (status != GCOLL_OK)
        return status;
    if (!store->ops->add)
        return lacks(store, "gcoll_store_add", "add");
    int64_t sum = 0;
    status = result(store, "gcoll_store_add", key, errors, store->ops->add(store->self, key, delta, &sum));
    if (status == GCOLL_OK && value)
        *value = sum;
    return status;
}

/* Writes the name of the counter that a key needs for set_new. Returns false if it is too long for a key. */
static bool counter_of(const char *key, char counter[GCOLL_STORE_KEY_MAX + 1]) {
    size_t bytes = strlen(key);
    if (bytes + sizeof NEW_SUFFIX > GCOLL_STORE_KEY_MAX + 1)
        return false;
    memcpy(counter, key, bytes);
    memcpy(counter + bytes, NEW_SUFFIX, sizeof NEW_SUFFIX);
    return true;
}

/* Removes the key first, then its counter: while the counter exists, no set_new of the key succeeds. */
gcoll_status gcoll_store_remove(gcoll_store *store, const char *key) {
    const uint32_t errors = gcoll_error_count();
    gcoll_status status = check(store, "gcoll_store_remove: key", key);
    if (status == GCOLL_OK && !store->ops->remove)
        status = lacks(store, "gcoll_store_remove", "remove");
    if (status == GCOLL_OK)
        status = store->ops->remove(store->self, key);
    char counter[GCOLL_STORE_KEY_MAX + 1];
    if (status == GCOLL_OK && !HAS(store->ops, set_new) && store->ops->add && counter_of(key, counter))
        status = store->ops->remove(store->self, counter);
    return store ? result(store, "gcoll_store_remove", key, errors, status) : status;
}

static gcoll_status taken(const gcoll_store *store, const char *key) {
    return gcoll_error(GCOLL_ERR_STATE, "gcoll_store_set_new: %s store, key \"%s\" exists already",
                       store->ops->name, key);
}

/* Does set_new by a counter, in a store that has only the operations of the first version: the first caller
 * to add to the counter sets the key. A key that was set without the counter exists, too. */
static gcoll_status set_by_counter(gcoll_store *store, const char *key, const void *value, size_t bytes) {
    char counter[GCOLL_STORE_KEY_MAX + 1];
    int64_t number = 0;
    if (!store->ops->add || !store->ops->wait)
        return lacks(store, "gcoll_store_set_new",
                     store->ops->add ? "set_new and no wait" : "set_new and no add");
    if (!counter_of(key, counter))
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "gcoll_store_set_new: %s store, key \"%s\" is too long; at most %zu bytes are allowed "
            "in a store without set_new",
            store->ops->name, key, GCOLL_STORE_KEY_MAX + 1 - sizeof NEW_SUFFIX);
    gcoll_status status = store->ops->wait(store->self, key, 0);
    if (status != GCOLL_ERR_TIMEOUT)
        return status == GCOLL_OK ? taken(store, key) : status;
    status = store->ops->add(store->self, counter, 1, &number);
    if (status != GCOLL_OK)
        return status;
    if (number != 1)
        return taken(store, key);
    status = store->ops->set(store->self, key, value, bytes);
    if (status != GCOLL_OK) {
        char text[ERROR_MAX];
        snprintf(text, sizeof text, "%s", gcoll_last_error());
        if (store->ops->remove)
            store->ops->remove(store->self, counter); /* the key has no value, so it must not stay taken */
        gcoll_error(status, "%s", text);
    }
    return status;
}

gcoll_status gcoll_store_set_new(gcoll_store *store, const char *key, const void *value, size_t bytes) {
    const uint32_t errors = gcoll_error_count();
    gcoll_status status = check_value(store, "gcoll_store_set_new", key, value, bytes);
    if (status != GCOLL_OK)
        return status;
    if (!value)
        value = "";
    status = HAS(store->ops, set_new) ? store->ops->set_new(store->self, key, value, bytes)
                                      : set_by_counter(store, key, value, bytes);
    return result(store, "gcoll_store_set_new", key, errors, status);
}

gcoll_status gcoll_store_set_timeout(gcoll_store *store, int64_t timeout_ms) {
    if (!store)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_set_timeout: store is NULL");
    if (timeout_ms < -1)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "gcoll_store_set_timeout: %s store: timeout_ms is %" PRId64
                           "; it must be 0 or more, or -1 for the store's own",
                           store->ops->name, timeout_ms);
    return HAS(store->ops, set_timeout) ? store->ops->set_timeout(store->self, timeout_ms) : GCOLL_OK;
}

gcoll_status gcoll_store_keep(gcoll_store *store, const char *key, int64_t ttl_ms) {
    const uint32_t errors = gcoll_error_count();
    gcoll_status status = check(store, "gcoll_store_keep: key", key);
    if (status != GCOLL_OK)
        return status;
    if (ttl_ms < 1)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "gcoll_store_keep: %s store, key \"%s\": ttl_ms is %" PRId64
                           "; it must be 1 or more",
                           store->ops->name, key, ttl_ms);
    if (!HAS(store->ops, keep))
        return GCOLL_OK;
    return result(store, "gcoll_store_keep", key, errors, store->ops->keep(store->self, key, ttl_ms));
}

gcoll_status gcoll_store_error(gcoll_status status, const char *text) {
    return gcoll_error(status, "%s", text ? text : "");
}
