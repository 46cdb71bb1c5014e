/*
 * gcoll/store/signed.c - a view of another store, in which every value is signed by the job's secret.
 *
 * A signed value is "gcoll-signed:", an HMAC-SHA-256 of its key and the value in 64 hex digits, ":" and the
 * value. Keys name job, launch and generation, so a value is of no use under another key or in a later
 * launch. Counters (add) are not signed, as the store itself adds. A view without a secret takes values as
 * they are, but says so if one is signed. The view has no state, so it is as thread-safe as its base.
 */
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "gcoll/base/sha256.h"
#include "gcoll/store/signed.h"
#include "gcoll/store/store_internal.h"

#define HEAD       "gcoll-signed:"
#define HEAD_BYTES (sizeof HEAD - 1)
#define HEX_BYTES  ((size_t)2 * GCOLL_SHA256_BYTES)
#define MORE_BYTES (HEAD_BYTES + HEX_BYTES + 1) /* by which a signed value is longer */

_Static_assert(GCOLL_STORE_SIGNED_MAX == GCOLL_STORE_VALUE_MAX - MORE_BYTES, "see signed.h");

typedef struct signed_store {
    gcoll_store *base; /* borrowed */
    bool has_secret;
    uint8_t secret[GCOLL_SHA256_BYTES];
} signed_store;

static void write_signature(const signed_store *self, const char *key, const void *value, size_t bytes,
                            char hex[HEX_BYTES]) {
    static const char label[] = "gcoll value in a store", digits[] = "0123456789abcdef";
    uint8_t tag[GCOLL_SHA256_BYTES];
    gcoll_hmac mac;
    gcoll_hmac_begin(&mac, self->secret, sizeof self->secret);
    gcoll_hmac_add(&mac, label, sizeof label);
    gcoll_hmac_add(&mac, key, strlen(key) + 1);
    gcoll_hmac_add(&mac, value, bytes);
    gcoll_hmac_end(&mac, tag);
    for (size_t i = 0; i < sizeof tag; i++) {
        hex[2 * i] = digits[tag[i] >> 4];
        hex[2 * i + 1] = digits[tag[i] & 15];
    }
}

/* The value with its signature; NULL with the error: NO_MEMORY, or INVALID if it is too long. */
static char *sign(const signed_store *self, const char *key, const void *value, size_t bytes) {
    if (bytes > (size_t)GCOLL_STORE_SIGNED_MAX) {
        gcoll_error(GCOLL_ERR_INVALID,
                    "signed store, key \"%s\": value of %zu bytes; at most %zu are allowed", key, bytes,
                    (size_t)GCOLL_STORE_SIGNED_MAX);
        return NULL;
    }
    char *all = malloc(MORE_BYTES + bytes);
    if (!all) {
        gcoll_error(GCOLL_ERR_NO_MEMORY, "signed store, key \"%s\": no memory for %zu bytes", key, bytes);
        return NULL;
    }
    memcpy(all, HEAD, HEAD_BYTES);
    write_signature(self, key, value, bytes, all + HEAD_BYTES);
    all[HEAD_BYTES + HEX_BYTES] = ':';
    memcpy(all + MORE_BYTES, value, bytes);
    return all;
}

static bool is_signed(const char *all, size_t bytes) {
    return bytes >= MORE_BYTES && memcmp(all, HEAD, HEAD_BYTES) == 0 && all[MORE_BYTES - 1] == ':';
}

const char *gcoll_store_signed_text(const char *text) {
    return is_signed(text, strlen(text)) ? text + MORE_BYTES : text;
}

/* Whether what came from the base may be used. */
static gcoll_status check(const signed_store *self, const char *key, const char *all, size_t bytes) {
    char hex[HEX_BYTES];
    if (!self->has_secret)
        return is_signed(all, bytes)
                   ? gcoll_error(GCOLL_ERR_PROTOCOL,
                                 "the store's key '%s' is signed with a job's secret; this rank has none %s",
                                 key, GCOLL_STORE_SIGNED_SAYS)
                   : GCOLL_OK;
    if (!is_signed(all, bytes))
        return gcoll_error(
            GCOLL_ERR_PROTOCOL,
            "the store's key '%s' is not signed with the job's secret %s: a rank without it has "
            "written it, or a stranger",
            key, GCOLL_STORE_SIGNED_SAYS);
    write_signature(self, key, all + MORE_BYTES, bytes - MORE_BYTES, hex);
    if (!gcoll_is_same_secret(hex, all + HEAD_BYTES, HEX_BYTES))
        return gcoll_error(GCOLL_ERR_PROTOCOL,
                           "the store's key '%s' is signed with another secret than this rank has %s, or was "
                           "changed",
                           key, GCOLL_STORE_SIGNED_SAYS);
    return GCOLL_OK;
}

/* Gets by get, or by get_wait if timeout_ms is not negative. */
static gcoll_status get_by(const signed_store *self, const char *key, void *value, size_t capacity,
                           size_t *bytes, int64_t timeout_ms) {
    const size_t room = capacity + MORE_BYTES;
    size_t have = 0;
    char *all = malloc(room);
    if (!all)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "signed store, key \"%s\": no memory for %zu bytes", key,
                           room);
    gcoll_status status = timeout_ms < 0
                              ? gcoll_store_get(self->base, key, all, room, &have)
                              : gcoll_store_get_wait(self->base, key, all, room, &have, timeout_ms);
    if (status == GCOLL_OK)
        status = check(self, key, all, have);
    const size_t skipped = self->has_secret ? MORE_BYTES : 0;
    if (status == GCOLL_OK && have - skipped > capacity)
        status = gcoll_error(GCOLL_ERR_INVALID, "signed store, key \"%s\": %zu bytes do not fit into %zu",
                             key, have - skipped, capacity);
    if (status == GCOLL_OK) {
        *bytes = have - skipped;
        memcpy(value, all + skipped, *bytes);
    }
    free(all);
    return status;
}

static gcoll_status signed_get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
    return get_by(self, key, value, capacity, bytes, -1);
}

static gcoll_status signed_get_wait(void *self, const char *key, void *value, size_t capacity, size_t *bytes,
                                    int64_t timeout_ms) {
    return get_by(self, key, value, capacity, bytes, timeout_ms);
}

static gcoll_status set_by(gcoll_status (*set)(gcoll_store *, const char *, const void *, size_t),
                           const signed_store *self, const char *key, const void *value, size_t bytes) {
    if (!self->has_secret)
        return set(self->base, key, value, bytes);
    char *all = sign(self, key, value, bytes);
    if (!all)
        return bytes > (size_t)GCOLL_STORE_SIGNED_MAX ? GCOLL_ERR_INVALID : GCOLL_ERR_NO_MEMORY;
    const gcoll_status status = set(self->base, key, all, MORE_BYTES + bytes);
    free(all);
    return status;
}

static gcoll_status signed_set(void *self, const char *key, const void *value, size_t bytes) {
    return set_by(gcoll_store_set, self, key, value, bytes);
}

static gcoll_status signed_set_new(void *self, const char *key, const void *value, size_t bytes) {
    return set_by(gcoll_store_set_new, self, key, value, bytes);
}

static gcoll_status signed_wait(void *self, const char *key, int64_t timeout_ms) {
    return gcoll_store_wait(((const signed_store *)self)->base, key, timeout_ms);
}

static gcoll_status signed_add(void *self, const char *key, int64_t delta, int64_t *value) {
    return gcoll_store_add(((const signed_store *)self)->base, key, delta, value);
}

static gcoll_status signed_remove(void *self, const char *key) {
    return gcoll_store_remove(((const signed_store *)self)->base, key);
}

static gcoll_status signed_set_timeout(void *self, int64_t timeout_ms) {
    return gcoll_store_set_timeout(((const signed_store *)self)->base, timeout_ms);
}

static gcoll_status signed_keep(void *self, const char *key, int64_t ttl_ms) {
    return gcoll_store_keep(((const signed_store *)self)->base, key, ttl_ms);
}

static void signed_destroy(void *self) {
    gcoll_forget_secret(self, sizeof(signed_store));
    free(self);
}

static const gcoll_store_ops signed_ops = {
    .struct_size = sizeof(gcoll_store_ops),
    .name = "signed",
    .set = signed_set,
    .get = signed_get,
    .wait = signed_wait,
    .add = signed_add,
    .remove = signed_remove,
    .destroy = signed_destroy,
    .set_new = signed_set_new,
    .set_timeout = signed_set_timeout,
    .keep = signed_keep,
    .get_wait = signed_get_wait,
};

gcoll_status gcoll_store_signed_create(gcoll_store *base, const uint8_t *secret, gcoll_store **store) {
    signed_store *self = calloc(1, sizeof *self);
    if (!self)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a store");
    self->base = base;
    self->has_secret = secret;
    if (secret)
        memcpy(self->secret, secret, sizeof self->secret);
    const gcoll_status status = gcoll_store_create(&signed_ops, self, store);
    if (status == GCOLL_OK)
        gcoll_store_set_base(*store, base);
    else
        free(self);
    return status;
}
