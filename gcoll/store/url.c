/*
 * gcoll/store/url.c - opens a store by URL: file:DIR or redis://[user:password@]host[:port][/db].
 *
 * No message quotes a redis URL or a part of it: where a URL is malformed, any part may be the password.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "gcoll/store/store_internal.h"

#define REDIS_PORT 6379
#define FORMS      "file:DIR and redis://[user:password@]host[:port][/db]"

static gcoll_status bad(const char *what) {
    return gcoll_error(
        GCOLL_ERR_INVALID,
        "gcoll_store_open: bad redis URL (not quoted, as it may hold a password): %s; allowed is "
        "redis://[user:password@]host[:port][/db]",
        what);
}

static gcoll_status no_memory(void) {
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_open: no memory");
}

void gcoll_redis_address_release(gcoll_redis_address *address) {
    if (address->password != NULL)
        explicit_bzero(address->password, strlen(address->password));
    free(address->password);
    free(address->user);
    free(address->host);
    free(address->name);
    memset(address, 0, sizeof *address);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Text of `bytes` bytes with %xx decoded, in memory of its own. */
static gcoll_status decode(const char *text, size_t bytes, char **decoded) {
    char *out = malloc(bytes + 1);
    if (out == NULL)
        return no_memory();
    size_t length = 0;
    for (size_t i = 0; i < bytes; i++) {
        int value = (unsigned char)text[i];
        if (text[i] == '%') {
            int high = i + 2 < bytes ? hex_digit(text[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
            value = low < 0 ? 0 : high * 16 + low;
            i += 2;
        }
        if (value == 0) {
            explicit_bzero(out, length);
            free(out);
            return bad("user and password may hold % only as %xx with two hexadecimal digits, and not %00");
        }
        out[length++] = (char)value;
    }
    out[length] = '\0';
    *decoded = out;
    return GCOLL_OK;
}

/* "user:password", or ":password" for servers without user names. */
static gcoll_status parse_login(const char *text, size_t bytes, gcoll_redis_address *address) {
    const char *colon = memchr(text, ':', bytes);
    if (colon == NULL || bytes == 1)
        return bad("what stands before the last @ must be user:password or :password");
    size_t user_bytes = (size_t)(colon - text);
    if (user_bytes > 0) {
        gcoll_status status = decode(text, user_bytes, &address->user);
        if (status != GCOLL_OK)
            return status;
    }
    return decode(colon + 1, bytes - user_bytes - 1, &address->password);
}

/* Decimal digits up to `end` (not empty), at most `most`. */
static bool parse_number(const char *text, const char *end, uint32_t most, uint32_t *number) {
    uint64_t sum = 0;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9')
            return false;
        sum = sum * 10 + (uint64_t)(*text - '0');
        if (sum > most)
            return false;
    }
    *number = (uint32_t)sum;
    return true;
}

/* Whether each byte can stand in a host name or an address (`extra` adds what IPv6 needs). */
static bool host_bytes(const char *text, size_t bytes, const char *extra) {
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (c == '\0' || (!plain && strchr(extra, c) == NULL))
            return false;
    }
    return bytes > 0;
}

/* "host", "host:port", "[::1]" or "[::1]:port". */
static gcoll_status parse_host(const char *text, const char *end, gcoll_redis_address *address) {
    const char *host = text, *host_end, *colon;
    bool bracket = text < end && *text == '[';
    if (bracket) {
        host = text + 1;
        host_end = memchr(host, ']', (size_t)(end - host));
        if (host_end == NULL)
            return bad("the ] after an IPv6 address is missing");
        colon = host_end + 1;
    } else {
        colon = memchr(text, ':', (size_t)(end - text));
        if (colon == NULL)
            colon = end;
        host_end = colon;
    }
    size_t bytes = (size_t)(host_end - host);
    if (!host_bytes(host, bytes, bracket ? ".:%_-" : "._-"))
        return bad("the host is missing or has a byte that no host name has (an IPv6 address stands in [ ])");
    uint32_t port = REDIS_PORT;
    if (colon < end && (*colon != ':' || !parse_number(colon + 1, end, UINT16_MAX, &port) || port == 0))
        return bad("the port after host: must be a number of 1 to 65535");
    address->port = (uint16_t)port;
    size_t name_bytes = bytes + sizeof "[]:65535";
    address->host = strndup(host, bytes);
    address->name = malloc(name_bytes);
    if (address->host == NULL || address->name == NULL)
        return no_memory();
    snprintf(address->name, name_bytes, bracket ? "[%s]:%u" : "%s:%u", address->host, (unsigned)port);
    return GCOLL_OK;
}

gcoll_status gcoll_redis_address_parse(const char *text, gcoll_redis_address *address) {
    memset(address, 0, sizeof *address);
    gcoll_status status = GCOLL_OK;
    /* The last @, as hosts and numbers hold none: a password with a bare @ or / still parses as meant. */
    const char *at = strrchr(text, '@');
    if (at != NULL)
        status = parse_login(text, (size_t)(at - text), address);
    const char *host = at == NULL ? text : at + 1;
    const char *slash = strchr(host, '/');
    const char *end = host + strlen(host);
    if (status == GCOLL_OK)
        status = parse_host(host, slash == NULL ? end : slash, address);
    if (status == GCOLL_OK && slash != NULL && slash + 1 < end &&
        !parse_number(slash + 1, end, INT32_MAX, &address->db))
        status = bad("the database after / must be a number of 0 to 2147483647");
    if (status != GCOLL_OK)
        gcoll_redis_address_release(address);
    return status;
}

static bool starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

gcoll_status gcoll_store_open(const char *url, int64_t timeout_ms, gcoll_store **store) {
    if (url == NULL || store == NULL)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_open: %s is NULL", url == NULL ? "url" : "store");
    if (timeout_ms <= 0)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_open: timeout_ms is %lld; it must be 1 or more",
                           (long long)timeout_ms);
    if (starts_with(url, "file:")) {
        if (url[strlen("file:")] == '\0')
            return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_open: url \"file:\" names no folder; allowed "
                                                  "are " FORMS);
        return gcoll_store_file_create(url + strlen("file:"), timeout_ms, store);
    }
    if (starts_with(url, "rediss:"))
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "gcoll_store_open: url is of kind rediss: Redis over TLS is not supported; allowed "
            "are " FORMS);
    if (!starts_with(url, "redis://"))
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "gcoll_store_open: url starts with neither file: nor redis://; allowed are " FORMS);
    gcoll_redis_address address;
    gcoll_status status = gcoll_redis_address_parse(url + strlen("redis://"), &address);
    return status != GCOLL_OK ? status : gcoll_store_redis_create(&address, timeout_ms, store);
}
