/* transport/session/interfaces.c - chooses the addresses to listen on and to publish. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/session/connect.h"

#define LIST_TEXT_MAX 512

static uint32_t count_bits(const void *mask, size_t bytes) {
    const uint8_t *each = mask;
    uint32_t bits = 0;
    for (size_t i = 0; i < bytes; i++)
        bits += (uint32_t)__builtin_popcount(each[i]);
    return bits;
}

void gcoll_net_convert_address(const uv_interface_address_t *from, gcoll_host_address *to) {
    memset(to, 0, sizeof *to);
    snprintf(to->interface, sizeof to->interface, "%s", from->name);
    if (from->address.address4.sin_family == AF_INET) {
        memcpy(&to->where, &from->address.address4, sizeof from->address.address4);
        ((struct sockaddr_in *)&to->where)->sin_port = 0;
        to->prefix = (uint8_t)count_bits(&from->netmask.netmask4.sin_addr, sizeof(struct in_addr));
    } else {
        memcpy(&to->where, &from->address.address6, sizeof from->address.address6);
        ((struct sockaddr_in6 *)&to->where)->sin6_port = 0;
        to->prefix = (uint8_t)count_bits(&from->netmask.netmask6.sin6_addr, sizeof(struct in6_addr));
    }
}

/* "lo (127.0.0.1), eth0 (10.0.0.7)" */
static void list_all(const gcoll_host_address *all, uint32_t count, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < count && used < bytes; i++) {
        char address[GCOLL_ADDRESS_NAME_MAX];
        gcoll_host_address_text(&all[i], address, sizeof address);
        int more =
            snprintf(text + used, bytes - used, "%s%s (%s)", i > 0 ? ", " : "", all[i].interface, address);
        used += more > 0 ? (size_t)more : 0;
    }
}

typedef enum match_quality { NO_MATCH, LAST_RESORT, FIRST_CHOICE } match_quality;

/* How well an address fits the option. */
static match_quality matches(const char *wanted, const gcoll_host_address *address) {
    if (strcmp(wanted, address->interface) == 0)
        return gcoll_host_address_is_link_local(address) ? LAST_RESORT : FIRST_CHOICE;
    gcoll_host_address parsed;
    bool has_prefix;
    if (!gcoll_host_address_parse(wanted, &parsed, &has_prefix))
        return NO_MATCH;
    if (parsed.interface[0] != 0 && strcmp(parsed.interface, address->interface) != 0)
        return NO_MATCH;
    if (has_prefix)
        return gcoll_host_address_near(&parsed, address, parsed.prefix) ? FIRST_CHOICE : NO_MATCH;
    return gcoll_host_address_equal(&parsed, address) ? FIRST_CHOICE : NO_MATCH;
}

static gcoll_status choose_one(gcoll_net *net, const char *wanted, const gcoll_host_address *all,
                               uint32_t count, gcoll_host_address *bind_to) {
    match_quality best = NO_MATCH;
    for (uint32_t i = 0; i < count; i++) {
        match_quality quality = matches(wanted, &all[i]);
        if (quality > best) {
            best = quality;
            *bind_to = all[i];
        }
    }
    if (best == NO_MATCH) {
        char list[LIST_TEXT_MAX];
        list_all(all, count, list, sizeof list);
        return gcoll_error(GCOLL_ERR_INVALID, "interface '%s': not found; this host has %s", wanted, list);
    }
    net->address.hosts[0] = *bind_to;
    net->address.count = 1;
    return GCOLL_OK;
}

/* Finds the source address of packets to `where`. Connecting a UDP socket tells it, and sends nothing. */
static bool find_source(const struct sockaddr *where, socklen_t length, gcoll_host_address *source) {
    socklen_t size = sizeof source->where;
    int fd = socket(where->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memset(source, 0, sizeof *source);
    if (fd < 0)
        return false;
    bool found =
        connect(fd, where, length) == 0 && getsockname(fd, (struct sockaddr *)&source->where, &size) == 0;
    close(fd);
    return found;
}

/* Splits "host:port" or "[host]:port". */
static bool split(const char *text, char *host, size_t bytes, const char **port) {
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (length == 0 || length >= bytes || colon[1] == 0)
        return false;
    if (text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    memcpy(host, text, length);
    host[length] = 0;
    *port = colon + 1;
    return true;
}

/* Puts the address that routes to `route_to` first. A host that cannot be reached expresses no preference,
 * nor does one that is not numeric: resolving it may take as long as a name server likes. All addresses are
 * published in any case. */
static gcoll_status prefer_route(gcoll_host_address *all, uint32_t count, const char *route_to) {
    char host[NI_MAXHOST];
    const char *port;
    if (!split(route_to, host, sizeof host, &port))
        return gcoll_error(GCOLL_ERR_INVALID, "route_to: '%s' is not host:port", route_to);
    struct addrinfo hints;
    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    struct addrinfo *found;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return GCOLL_OK;
    gcoll_host_address source;
    if (find_source(found->ai_addr, found->ai_addrlen, &source)) {
        for (uint32_t i = 0; i < count; i++) {
            if (gcoll_host_address_equal(&all[i], &source)) {
                gcoll_host_address first = all[i];
                memmove(all + 1, all, i * sizeof first);
                all[0] = first;
            }
        }
    }
    freeaddrinfo(found);
    return GCOLL_OK;
}

static void publish_all(gcoll_net *net, const gcoll_host_address *all, uint32_t count) {
    gcoll_address *own = &net->address;
    for (uint32_t i = 0; i < count && own->count < GCOLL_ADDRESS_HOSTS; i++)
        if (!gcoll_host_address_is_link_local(&all[i]))
            own->hosts[own->count++] = all[i];
}

gcoll_status gcoll_net_find_interfaces(gcoll_net *net, const char *interface, const char *route_to,
                                       gcoll_host_address *bind_to, bool *everywhere) {
    uv_interface_address_t *found;
    gcoll_status status = GCOLL_OK;
    int count;
    int error = uv_interface_addresses(&found, &count);
    char text[GCOLL_ERRNO_TEXT_MAX];
    if (error != 0)
        return gcoll_error(gcoll_status_of_errno(-error), "cannot list network interfaces: %s",
                           gcoll_errno_text(-error, text));
    gcoll_host_address *all = calloc((size_t)count + 1, sizeof *all);
    if (!all) {
        uv_free_interface_addresses(found, count);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %d network interfaces", count);
    }
    for (int i = 0; i < count; i++)
        gcoll_net_convert_address(&found[i], &all[i]);
    uv_free_interface_addresses(found, count);
    *everywhere = !interface;
    if (interface) {
        status = choose_one(net, interface, all, (uint32_t)count, bind_to);
    } else {
        if (route_to) /* before publish_all drops the addresses that do not fit */
            status = prefer_route(all, (uint32_t)count, route_to);
        publish_all(net, all, (uint32_t)count);
    }
    free(all);
    return status;
}
