/*
 * gcoll/store/url.c - opens a store by URL: file:DIR[?shared=1], tcp://host:port[?serve=auto|yes|no],
 * redis://[user:password@]host[:port][/db], rediss://, the same by TLS, with
 * [?ca=FILE&certificate=FILE&key=FILE] behind it, or pmi:.
 *
 * No message quotes a redis URL or a part of it: in a malformed URL any part may be the password.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/base.h"
#include "gcoll/base/text.h"
#include "gcoll/store/store_internal.h"

#define REDIS_PORT 6379
#define QUOTE_MAX  64 /* room for a part of a URL in a message, with the NUL */
#define FORMS                                                                                                \
    "file:DIR[?shared=1], tcp://host:port[?serve=auto|yes|no], "                                             \
    "redis://[user:password@]host[:port][/db], rediss:// and pmi:"

static gcoll_status bad(const char *what) {
    return gcoll_error(
        GCOLL_ERR_INVALID,
        "gcoll_store_open: bad redis URL (not quoted, as it may hold a password): %s; allowed is "
        "redis://[user:password@]host[:port][/db], or the same of rediss:// and "
        "?ca=FILE&certificate=FILE&key=FILE behind it",
        what);
}

static gcoll_status no_memory(void) {
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "gcoll_store_open: no memory");
}

void gcoll_redis_address_release(gcoll_redis_address *address) {
    if (address->password)
        explicit_bzero(address->password, strlen(address->password));
    free(address->password);
    free(address->user);
    free(address->host);
    free(address->name);
    free(address->authority);
    free(address->certificate);
    free(address->key);
    memset(address, 0, sizeof *address);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes %xx in a text of `bytes` bytes. The caller frees *decoded. */
static gcoll_status decode(const char *text, size_t bytes, char **decoded) {
    char *out = malloc(bytes + 1);
    if (!out)
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
            return bad("a % is allowed only as %xx with two hexadecimal digits, and not as %00");
        }
        out[length++] = (char)value;
    }
    out[length] = '\0';
    *decoded = out;
    return GCOLL_OK;
}

/* Parses "user:password", or ":password" for servers without user names. */
static gcoll_status parse_login(const char *text, size_t bytes, gcoll_redis_address *address) {
    const char *colon = memchr(text, ':', bytes);
    if (!colon || bytes == 1)
        return bad("the text before the last @ must be user:password or :password");
    size_t user_bytes = (size_t)(colon - text);
    if (user_bytes > 0) {
        gcoll_status status = decode(text, user_bytes, &address->user);
        if (status != GCOLL_OK)
            return status;
    }
    return decode(colon + 1, bytes - user_bytes - 1, &address->password);
}

/* Parses decimal digits up to `end`. Returns false if there is none, or the number is more than `most`. */
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

/* Returns whether each byte may be in a host name or an address: a letter, a digit, or a byte of `extra`. */
static bool host_bytes(const char *text, size_t bytes, const char *extra) {
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (c == '\0' || (!plain && !strchr(extra, c)))
            return false;
    }
    return bytes > 0;
}

/* A server's host and port. The strings are owned. */
typedef struct endpoint {
    char *host; /* without brackets */
    char *name; /* "host:port" */
    uint16_t port;
} endpoint;

/* Parses "host", "host:port", "[::1]" or "[::1]:port". Returns NULL, or what is wrong, without quoting the
 * URL. If default_port is 0, the port must be given. If there is no memory, returns NULL and sets no host. */
static const char *parse_endpoint(const char *text, const char *end, uint16_t default_port, endpoint *to) {
    const char *host = text, *host_end, *colon;
    bool bracket = text < end && *text == '[';
    if (bracket) {
        host = text + 1;
        host_end = memchr(host, ']', (size_t)(end - host));
        if (!host_end)
            return "the ] after an IPv6 address is missing";
        colon = host_end + 1;
    } else {
        colon = memchr(text, ':', (size_t)(end - text));
        if (!colon)
            colon = end;
        host_end = colon;
    }
    size_t bytes = (size_t)(host_end - host);
    if (!host_bytes(host, bytes, bracket ? ".:%_-" : "._-"))
        return "the host is missing or has a byte that no host name has (an IPv6 address stands in [ ])";
    uint32_t port = default_port;
    if (colon < end && (*colon != ':' || !parse_number(colon + 1, end, UINT16_MAX, &port) || port == 0))
        return "the port after host: must be a number of 1 to 65535";
    if (port == 0)
        return "the port is missing";
    to->port = (uint16_t)port;
    size_t name_bytes = bytes + sizeof "[]:65535";
    to->host = strndup(host, bytes);
    to->name = malloc(name_bytes);
    if (!to->host || !to->name) {
        free(to->host);
        free(to->name);
        to->host = to->name = NULL;
        return NULL;
    }
    snprintf(to->name, name_bytes, bracket ? "[%s]:%u" : "%s:%u", to->host, (unsigned)port);
    return NULL;
}

static gcoll_status parse_host(const char *text, const char *end, gcoll_redis_address *address) {
    endpoint parsed = {NULL, NULL, 0};
    const char *wrong = parse_endpoint(text, end, REDIS_PORT, &parsed);
    if (wrong)
        return bad(wrong);
    address->host = parsed.host;
    address->name = parsed.name;
    address->port = parsed.port;
    return !parsed.host ? no_memory() : GCOLL_OK;
}

/* Parses "ca=FILE&certificate=FILE&key=FILE", of which each may be missing. */
static gcoll_status parse_files(const char *text, gcoll_redis_address *address) {
    const struct {
        const char *name;
        char **file;
    } files[] = {
        {"ca=", &address->authority}, {"certificate=", &address->certificate}, {"key=", &address->key}};
    gcoll_status status = GCOLL_OK;
    while (*text != '\0' && status == GCOLL_OK) {
        const size_t bytes = strcspn(text, "&");
        size_t i = 0;
        while (i < sizeof files / sizeof files[0] && strncmp(text, files[i].name, strlen(files[i].name)) != 0)
            i++;
        if (i == sizeof files / sizeof files[0] || *files[i].file || bytes == strlen(files[i].name))
            return bad("allowed behind the ? are ca=, certificate= and key=, once each");
        const size_t head = strlen(files[i].name);
        status = decode(text + head, bytes - head, files[i].file);
        text += bytes + (text[bytes] == '&');
    }
    return status;
}

gcoll_status gcoll_redis_address_parse(const char *text, bool is_encrypted, gcoll_redis_address *address) {
    memset(address, 0, sizeof *address);
    address->is_encrypted = is_encrypted;
    gcoll_status status = GCOLL_OK;
    /* The last @, because hosts and numbers have none: so a password may have an @ or / that is not
     * encoded. */
    const char *at = strrchr(text, '@');
    if (at)
        status = parse_login(text, (size_t)(at - text), address);
    const char *host = at ? at + 1 : text;
    const char *mark = strchr(host, '?');
    const char *end = mark ? mark : host + strlen(host);
    const char *slash = memchr(host, '/', (size_t)(end - host));
    if (status == GCOLL_OK && mark && !is_encrypted)
        status = bad("files behind a ? are of rediss://, and not of redis://");
    if (status == GCOLL_OK)
        status = parse_host(host, slash ? slash : end, address);
    if (status == GCOLL_OK && slash && slash + 1 < end &&
        !parse_number(slash + 1, end, INT32_MAX, &address->db))
        status = bad("the database after / must be a number of 0 to 2147483647");
    if (status == GCOLL_OK && mark)
        status = parse_files(mark + 1, address);
    if (status != GCOLL_OK)
        gcoll_redis_address_release(address);
    return status;
}

static bool starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Copies a part of a URL for a message, with '?' for bytes that are not printable. */
static const char *quote(const char *text, size_t bytes, char room[QUOTE_MAX]) {
    snprintf(room, QUOTE_MAX, "%.*s", (int)(bytes < QUOTE_MAX ? bytes : QUOTE_MAX), text);
    gcoll_text_clean(room);
    return room;
}

/* Parses one "name=value" of a file URL. */
static gcoll_status parse_file_parameter(const char *text, size_t bytes, bool *shared) {
    char room[QUOTE_MAX];
    if (bytes == strlen("shared=1") && (starts_with(text, "shared=1") || starts_with(text, "shared=0"))) {
        *shared = text[bytes - 1] == '1';
        return GCOLL_OK;
    }
    return gcoll_error(
        GCOLL_ERR_INVALID,
        "gcoll_store_open: unknown parameter '%s' in a file: URL; allowed behind the last ? are "
        "shared=1 and shared=0 (a folder with a ? in its name is given with another at the end)",
        quote(text, bytes, room));
}

/* Opens "DIR", "DIR?" or "DIR?name=value&name=value". The folder's name ends at the last ?. */
static gcoll_status open_file(const char *text, int64_t timeout_ms, gcoll_store **store) {
    const char *mark = strrchr(text, '?');
    const size_t folder_bytes = mark ? (size_t)(mark - text) : strlen(text);
    gcoll_status status = GCOLL_OK;
    bool shared = false;
    if (folder_bytes == 0)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "gcoll_store_open: url \"file:\" names no folder; allowed are " FORMS);
    for (const char *at = mark ? mark + 1 : ""; *at != '\0' && status == GCOLL_OK;) {
        size_t bytes = strcspn(at, "&");
        status = parse_file_parameter(at, bytes, &shared);
        at += bytes + (at[bytes] == '&');
    }
    if (status != GCOLL_OK)
        return status;
    char *folder = strndup(text, folder_bytes);
    if (!folder)
        return no_memory();
    status = gcoll_store_file_create(folder, shared, timeout_ms, store);
    free(folder);
    return status;
}

/* Opens "host:port" or "host:port?serve=...". */
static gcoll_status open_tcp(const char *text, int64_t timeout_ms, gcoll_store **store) {
    static const struct {
        const char *text;
        gcoll_store_serve serve;
    } choices[] = {
        {"serve=auto", GCOLL_SERVE_AUTO}, {"serve=yes", GCOLL_SERVE_YES}, {"serve=no", GCOLL_SERVE_NO}};
    char room[QUOTE_MAX];
    const char *mark = strchr(text, '?');
    const char *end = !mark ? text + strlen(text) : mark;
    gcoll_store_serve serve = GCOLL_SERVE_AUTO;
    endpoint parsed = {NULL, NULL, 0};
    const char *wrong = parse_endpoint(text, end, 0, &parsed);
    bool is_known = !mark || mark[1] == '\0';

    for (size_t i = 0; !is_known && i < sizeof choices / sizeof choices[0]; i++) {
        is_known = strcmp(mark + 1, choices[i].text) == 0;
        serve = choices[i].serve;
    }
    if (!wrong && !parsed.host)
        return no_memory();
    if (!wrong && is_known)
        return gcoll_store_tcp_create(parsed.host, parsed.name, parsed.port, serve, timeout_ms, store);
    free(parsed.host);
    free(parsed.name);
    if (wrong) {
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "gcoll_store_open: bad url 'tcp://%s': %s; allowed is tcp://host:port[?serve=auto|yes|no]",
            quote(text, strlen(text), room), wrong);
    }
    return gcoll_error(GCOLL_ERR_INVALID,
                       "gcoll_store_open: unknown parameter '%s' in a tcp:// URL; allowed behind the ? are "
                       "serve=auto, serve=yes and serve=no",
                       quote(mark + 1, strlen(mark + 1), room));
}

static gcoll_status open_pmi(const char *text, int64_t timeout_ms, gcoll_store **store) {
    char room[QUOTE_MAX];

    if (*text != '\0')
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_open: url is 'pmi:%s'; allowed is pmi: alone",
                           quote(text, strlen(text), room));
    return gcoll_store_pmi_create(timeout_ms, store);
}

gcoll_status gcoll_store_open(const char *url, int64_t timeout_ms, gcoll_store **store) {
    if (!url || !store)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_open: %s is NULL", url ? "store" : "url");
    if (timeout_ms <= 0)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_store_open: timeout_ms is %lld; it must be 1 or more",
                           (long long)timeout_ms);
    if (starts_with(url, "file:"))
        return open_file(url + strlen("file:"), timeout_ms, store);
    if (starts_with(url, "tcp://"))
        return open_tcp(url + strlen("tcp://"), timeout_ms, store);
    if (starts_with(url, "pmi:"))
        return open_pmi(url + strlen("pmi:"), timeout_ms, store);
    const bool is_encrypted = starts_with(url, "rediss://");
    if (!is_encrypted && !starts_with(url, "redis://"))
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "gcoll_store_open: url starts with none of file:, tcp://, redis://, rediss:// and pmi:; allowed "
            "are " FORMS);
    gcoll_redis_address address;
    gcoll_status status =
        gcoll_redis_address_parse(strstr(url, "://") + strlen("://"), is_encrypted, &address);
    return status != GCOLL_OK ? status : gcoll_store_redis_create(&address, timeout_ms, store);
}
