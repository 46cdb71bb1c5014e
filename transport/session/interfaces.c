/* transport/session/interfaces.c - chooses the addresses to listen on and to publish. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/interfaces.h"
#include "transport/session/connect.h"

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

/* Publishes the first addresses, as many as fit; without link-local ones, unless they were asked for. */
static void publish(gcoll_net *net, const gcoll_host_address *all, uint32_t count, bool asked_for) {
    gcoll_address *own = &net->address;
    for (uint32_t i = 0; i < count && own->count < GCOLL_ADDRESS_HOSTS; i++)
        if (asked_for || !gcoll_host_address_is_link_local(&all[i]))
            own->hosts[own->count++] = all[i];
}

gcoll_status gcoll_net_find_interfaces(gcoll_net *net, const gcoll_endpoint_options *options,
                                       bool *everywhere) {
    *everywhere = options->interface && strcmp(options->interface, GCOLL_INTERFACES_EVERYWHERE) == 0;
    const char *interface = *everywhere ? NULL : options->interface;
    const char *from = options->interface_from ? options->interface_from : "interface";
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
    uint32_t chosen = (uint32_t)count;
    const bool has_order = interface && !gcoll_interfaces_excludes(interface);
    if (interface)
        status = gcoll_interfaces_choose(from, interface, all, &chosen);
    if (status == GCOLL_OK && !has_order && options->route_to) /* before those that do not fit are dropped */
        status = prefer_route(all, chosen, options->route_to);
    if (status == GCOLL_OK)
        publish(net, all, chosen, has_order);
    free(all);
    if (status == GCOLL_OK && net->address.count == 0)
        status = gcoll_error(GCOLL_ERR_IO, "this host has no address that ranks could connect to: no network "
                                           "interface is up, not even loopback (ip link set lo up)");
    return status;
}
