/* transport/address.c - parses and formats address texts, and orders a peer's addresses; see address.h. */
#include "transport/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX      "tcp1;"
#define CHECKSUM    "sum=crc32c"
#define SECRET      "auth=1"
#define IPV4_BITS   32
#define IPV6_BITS   128
#define PART_MAX    128 /* longest part between two ';' */
#define HEX_OF_HOST 16

static const char *const tls_texts[] = {"", "tls=psk", "tls=x509"}; /* by gcoll_address_tls */

/* The bytes of the address in network order; *bytes is their number. */
static const uint8_t *raw(const gcoll_host_address *address, uint32_t *bytes) {
    if (address->where.ss_family == AF_INET) {
        *bytes = IPV4_BITS / 8;
        return (const uint8_t *)&((const struct sockaddr_in *)&address->where)->sin_addr;
    }
    *bytes = IPV6_BITS / 8;
    return (const uint8_t *)&((const struct sockaddr_in6 *)&address->where)->sin6_addr;
}

bool gcoll_host_address_is_loopback(const gcoll_host_address *address) {
    uint32_t bytes;
    const uint8_t *bits = raw(address, &bytes);
    if (address->where.ss_family == AF_INET)
        return bits[0] == 127;
    return memcmp(bits, &in6addr_loopback, bytes) == 0;
}

bool gcoll_host_address_is_link_local(const gcoll_host_address *address) {
    uint32_t bytes;
    const uint8_t *bits = raw(address, &bytes);
    return address->where.ss_family == AF_INET6 && bits[0] == 0xfe && (bits[1] & 0xc0) == 0x80;
}

bool gcoll_host_address_near(const gcoll_host_address *a, const gcoll_host_address *b, uint32_t bits) {
    uint32_t bytes, other;
    const uint8_t *x = raw(a, &bytes);
    const uint8_t *y = raw(b, &other);
    if (bytes != other || bits > bytes * 8)
        return false;
    if (memcmp(x, y, bits / 8) != 0)
        return false;
    return bits % 8 == 0 || ((x[bits / 8] ^ y[bits / 8]) >> (8 - bits % 8)) == 0;
}

bool gcoll_host_address_equal(const gcoll_host_address *a, const gcoll_host_address *b) {
    return gcoll_host_address_near(a, b, a->where.ss_family == AF_INET ? IPV4_BITS : IPV6_BITS);
}

static bool parse_number(const char *text, unsigned long limit, unsigned long *number) {
    if (text[0] < '0' || text[0] > '9')
        return false;
    char *end;
    *number = strtoul(text, &end, 10);
    return *end == 0 && *number <= limit;
}

static bool parse_scope(const char *scope, gcoll_host_address *address) {
    struct sockaddr_in6 *where = (struct sockaddr_in6 *)&address->where;
    if (scope[0] == 0 || strlen(scope) >= sizeof address->interface)
        return false;
    memcpy(address->interface, scope, strlen(scope) + 1);
    where->sin6_scope_id =
        if_nametoindex(scope); /* 0 if there is no such interface: then there is no route */
    return true;
}

bool gcoll_host_address_parse(const char *text, gcoll_host_address *address, bool *has_prefix) {
    char copy[PART_MAX];
    unsigned long bits = 0;
    unsigned long all = IPV4_BITS;
    if (strlen(text) >= sizeof copy)
        return false;
    memcpy(copy, text, strlen(text) + 1);
    char *slash = strchr(copy, '/');
    if (slash)
        *slash++ = 0;
    char *scope = strchr(copy, '%');
    if (scope)
        *scope++ = 0;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, copy, &((struct sockaddr_in *)&address->where)->sin_addr) == 1) {
        address->where.ss_family = AF_INET;
    } else if (inet_pton(AF_INET6, copy, &((struct sockaddr_in6 *)&address->where)->sin6_addr) == 1) {
        address->where.ss_family = AF_INET6;
        all = IPV6_BITS;
    } else {
        return false;
    }
    if (scope && (address->where.ss_family != AF_INET6 || !parse_scope(scope, address)))
        return false;
    if (slash && !parse_number(slash, all, &bits))
        return false;
    address->prefix = (uint8_t)(slash ? bits : all);
    *has_prefix = slash;
    return true;
}

void gcoll_host_address_text(const gcoll_host_address *address, char *text, size_t bytes) {
    char number[INET6_ADDRSTRLEN] = "?";
    bool scoped = gcoll_host_address_is_link_local(address) && address->interface[0] != 0;
    uint32_t length;
    inet_ntop(address->where.ss_family, raw(address, &length), number, sizeof number);
    snprintf(text, bytes, "%s%s%s", number, scoped ? "%" : "", scoped ? address->interface : "");
}

void gcoll_host_address_name(const gcoll_host_address *address, uint16_t port, char *text, size_t bytes) {
    char host[GCOLL_ADDRESS_NAME_MAX];
    gcoll_host_address_text(address, host, sizeof host);
    if (address->where.ss_family == AF_INET)
        snprintf(text, bytes, "%s:%u", host, port);
    else
        snprintf(text, bytes, "[%s]:%u", host, port);
}

void gcoll_host_address_at_port(const gcoll_host_address *address, uint16_t port,
                                struct sockaddr_storage *where) {
    *where = address->where;
    if (where->ss_family == AF_INET)
        ((struct sockaddr_in *)where)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)where)->sin6_port = htons(port);
}

gcoll_status gcoll_address_format(const gcoll_address *address, char *text, size_t bytes) {
    char token[2 * GCOLL_WIRE_TOKEN_BYTES + 1];
    for (size_t i = 0; i < GCOLL_WIRE_TOKEN_BYTES; i++)
        snprintf(token + 2 * i, 3, "%02x", address->token[i]);
    char all[GCOLL_ADDRESS_MAX];
    size_t used = (size_t)snprintf(all, sizeof all, PREFIX "host=%016llx;token=%s;port=%u%s%s%s%s",
                                   (unsigned long long)address->host, token, address->port,
                                   address->checksum ? ";" CHECKSUM : "", address->secret ? ";" SECRET : "",
                                   address->tls != GCOLL_ADDRESS_CLEAR ? ";" : "", tls_texts[address->tls]);
    for (uint32_t i = 0; i < address->count && used < sizeof all; i++) {
        char host[GCOLL_ADDRESS_NAME_MAX];
        gcoll_host_address_text(&address->hosts[i], host, sizeof host);
        used += (size_t)snprintf(all + used, sizeof all - used, ";a=%s/%u", host, address->hosts[i].prefix);
    }
    if (used >= sizeof all || used >= bytes)
        return gcoll_error(GCOLL_ERR_INVALID, "address: takes %zu bytes, and there is room for %zu", used + 1,
                           bytes);
    memcpy(text, all, used + 1);
    return GCOLL_OK;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses exactly 2 * bytes lower-case hex digits. */
static bool parse_hex(const char *text, uint8_t *out, size_t bytes) {
    if (strlen(text) != 2 * bytes)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

enum { HAS_HOST = 1, HAS_TOKEN = 2, HAS_PORT = 4, HAS_ALL = 7 };

/* Parses one "key=value". Unknown keys are ignored: later versions may add some. */
static bool parse_part(const char *part, gcoll_address *address, uint32_t *has) {
    uint8_t host[HEX_OF_HOST / 2];
    if (strncmp(part, "host=", 5) == 0 && parse_hex(part + 5, host, sizeof host)) {
        address->host = 0;
        for (size_t i = 0; i < sizeof host; i++)
            address->host = address->host << 8 | host[i];
        *has |= HAS_HOST;
        return true;
    }
    if (strncmp(part, "token=", 6) == 0) {
        *has |= HAS_TOKEN;
        return parse_hex(part + 6, address->token, sizeof address->token);
    }
    unsigned long port;
    if (strncmp(part, "port=", 5) == 0 && parse_number(part + 5, UINT16_MAX, &port) && port > 0) {
        address->port = (uint16_t)port;
        *has |= HAS_PORT;
        return true;
    }
    bool has_prefix;
    if (strncmp(part, "a=", 2) == 0)
        return gcoll_host_address_parse(part + 2, &address->hosts[address->count++], &has_prefix);
    if (strncmp(part, "sum=", 4) == 0) {
        address->checksum = true;
        return strcmp(part, CHECKSUM) == 0;
    }
    if (strncmp(part, "auth=", 5) == 0) {
        address->secret = true;
        return strcmp(part, SECRET) == 0;
    }
    if (strncmp(part, "tls=", 4) == 0) {
        address->tls =
            strcmp(part, tls_texts[GCOLL_ADDRESS_PSK]) == 0 ? GCOLL_ADDRESS_PSK : GCOLL_ADDRESS_X509;
        return strcmp(part, tls_texts[address->tls]) == 0;
    }
    return strncmp(part, "host=", 5) != 0 && strncmp(part, "port=", 5) != 0 && strchr(part, '=');
}

gcoll_status gcoll_address_parse(const char *text, gcoll_address *address) {
    uint32_t has = 0;
    if (!text || strnlen(text, GCOLL_ADDRESS_MAX) >= GCOLL_ADDRESS_MAX)
        return gcoll_error(GCOLL_ERR_PROTOCOL, "address: %s",
                           !text ? "NULL" : "longer than any gcoll writes");
    if (strncmp(text, PREFIX, sizeof PREFIX - 1) != 0)
        return gcoll_error(GCOLL_ERR_PROTOCOL, "address: '%.40s' does not start with '" PREFIX "'", text);
    gcoll_address found;
    memset(&found, 0, sizeof found);
    const char *at;
    for (at = text + sizeof PREFIX - 1;; at++) {
        char part[PART_MAX];
        size_t length = strcspn(at, ";");
        if (length >= sizeof part)
            return gcoll_error(GCOLL_ERR_PROTOCOL, "address: the part '%.40s...' is too long", at);
        memcpy(part, at, length);
        part[length] = 0;
        if (strncmp(part, "a=", 2) == 0 && found.count == GCOLL_ADDRESS_HOSTS)
            return gcoll_error(GCOLL_ERR_PROTOCOL, "address: has more than %d addresses of its host",
                               GCOLL_ADDRESS_HOSTS);
        if (!parse_part(part, &found, &has))
            return gcoll_error(GCOLL_ERR_PROTOCOL, "address: cannot understand the part '%s'", part);
        at += length;
        if (*at == 0)
            break;
    }
    if (has != HAS_ALL)
        return gcoll_error(GCOLL_ERR_PROTOCOL, "address: lacks its host, token or port");
    if (found.count == 0) /* every rank has one, at least loopback */
        return gcoll_error(GCOLL_ERR_PROTOCOL, "address: has no part 'a=' to connect to");
    *address = found;
    return GCOLL_OK;
}

typedef enum candidate { SAME_HOST, SAME_SUBNET, ELSEWHERE, OUR_OWN, HOPELESS } candidate;

static candidate classify(const gcoll_address *own, const gcoll_address *peer,
                          const gcoll_host_address *host) {
    candidate found = ELSEWHERE;
    if (gcoll_host_address_is_loopback(host))
        return own->host == peer->host ? SAME_HOST : HOPELESS;
    for (uint32_t i = 0; i < own->count; i++) {
        const gcoll_host_address *mine = &own->hosts[i];
        if (own->host != peer->host && gcoll_host_address_equal(mine, host))
            return OUR_OWN; /* e.g. the bridge of containers, which has the same address on every host */
        if (!gcoll_host_address_is_loopback(mine) && !gcoll_host_address_is_link_local(host) &&
            gcoll_host_address_near(mine, host, mine->prefix))
            found = SAME_SUBNET;
    }
    return found;
}

/* The own interface through which a link-local address of the peer is most likely reached. */
static const gcoll_host_address *way_to(const gcoll_address *own, const gcoll_host_address *host) {
    const gcoll_host_address *best = NULL;
    for (uint32_t i = 0; i < own->count; i++) {
        const gcoll_host_address *mine = &own->hosts[i];
        if (mine->interface[0] == 0 || gcoll_host_address_is_loopback(mine))
            continue;
        if (strcmp(mine->interface, host->interface) == 0)
            return mine;
        if (!best || (gcoll_host_address_is_link_local(mine) && !gcoll_host_address_is_link_local(best)))
            best = mine;
    }
    return best;
}

void gcoll_address_localize(const gcoll_address *own, gcoll_address *peer) {
    for (uint32_t i = 0; i < peer->count && own->host != peer->host; i++) {
        gcoll_host_address *host = &peer->hosts[i];
        if (!gcoll_host_address_is_link_local(host))
            continue;
        const gcoll_host_address *mine = way_to(own, host);
        if (mine) {
            memcpy(host->interface, mine->interface, sizeof host->interface);
            ((struct sockaddr_in6 *)&host->where)->sin6_scope_id = if_nametoindex(mine->interface);
        }
    }
}

uint32_t gcoll_address_choose(const gcoll_address *own, const gcoll_address *peer,
                              uint32_t order[GCOLL_ADDRESS_HOSTS]) {
    uint32_t count = 0;
    for (int kind = SAME_HOST; kind < HOPELESS; kind++) {
        for (uint32_t i = 0; i < peer->count; i++)
            if ((int)classify(own, peer, &peer->hosts[i]) == kind)
                order[count++] = i;
    }
    return count;
}
