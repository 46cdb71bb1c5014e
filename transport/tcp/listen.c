/*
 * transport/tcp/listen.c - the listener, and accepted connections until they have greeted.
 *
 * Anybody can connect to a port. Who has not greeted is a stranger: strangers are few (the oldest has to
 * go when there is one too many), have little time, and may say no more than a greeting. A real peer that had
 * to go for a crowd of others sees its connection closed before the answer, and tries again.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "transport/tcp/tcp.h"

#define SWEEP_MS 1000

static void free_handle(uv_handle_t *handle) {
    free(handle);
}

void gcoll_tcp_forget_stranger(gcoll_tcp_link *link) {
    gcoll_tcp_link **at = &link->tcp->strangers;

    while (*at != NULL && *at != link) {
        at = &(*at)->next;
    }
    if (*at == link) {
        *at = link->next;
        link->next = NULL;
        link->tcp->stranger_count--;
    }
}

static void add_stranger(gcoll_tcp *tcp, gcoll_tcp_link *link) {
    gcoll_tcp_link **at = &tcp->strangers;

    if (tcp->stranger_count == GCOLL_TCP_STRANGERS_MAX) {
        gcoll_tcp_link_drop(tcp->strangers);
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = link;
    tcp->stranger_count++;
    link->until_ms = gcoll_now_ms() + GCOLL_TCP_STRANGER_MS;
}

static void sweep(uv_timer_t *sweeper) {
    gcoll_tcp *tcp = sweeper->data;
    int64_t now = gcoll_now_ms();

    while (tcp->strangers != NULL && tcp->strangers->until_ms <= now) {
        gcoll_tcp_link *oldest = tcp->strangers;

        gcoll_tcp_link_ready(oldest); /* timers run before polls: its greeting may be here */
        if (tcp->strangers == oldest) {
            gcoll_tcp_link_drop(oldest);
        }
    }
    if (tcp->strangers == NULL) {
        uv_timer_stop(&tcp->sweeper);
    }
}

static void on_connection(uv_stream_t *listener, int status) {
    gcoll_tcp *tcp = listener->data;
    uv_tcp_t *handle = status == 0 ? malloc(sizeof *handle) : NULL;
    gcoll_tcp_socket *socket = NULL;
    gcoll_tcp_link *link = NULL;

    if (handle == NULL) {
        return; /* the connection waits in the kernel */
    }
    if (uv_tcp_init(&tcp->loop, handle) != 0) {
        free(handle);
        return;
    }
    if (uv_accept(listener, (uv_stream_t *)handle) == 0) {
        socket = gcoll_tcp_socket_take(tcp, handle);
    }
    uv_close((uv_handle_t *)handle, free_handle);
    if (socket != NULL) {
        link = gcoll_tcp_link_new(tcp, socket, GCOLL_TCP_STRANGER);
    }
    if (link == NULL) {
        return;
    }
    add_stranger(tcp, link);
    if (!uv_is_active((uv_handle_t *)&tcp->sweeper)) {
        uv_update_time(&tcp->loop);
        uv_timer_start(&tcp->sweeper, sweep, SWEEP_MS, SWEEP_MS);
    }
    gcoll_tcp_link_ready(link); /* mostly the greeting is here already */
}

static uint16_t port_of(const uv_tcp_t *listener) {
    struct sockaddr_storage name;
    int length = sizeof name;

    if (uv_tcp_getsockname(listener, (struct sockaddr *)&name, &length) != 0) {
        return 0;
    }
    return ntohs(name.ss_family == AF_INET ? ((struct sockaddr_in *)&name)->sin_port
                                           : ((struct sockaddr_in6 *)&name)->sin6_port);
}

/* One try. Returns 0 or a libuv error. */
static int listen_at(gcoll_tcp *tcp, const struct sockaddr_storage *where) {
    uv_tcp_t *listener = malloc(sizeof *listener);
    int error;

    if (listener == NULL) {
        return UV_ENOMEM;
    }
    error = uv_tcp_init(&tcp->loop, listener);
    if (error != 0) {
        free(listener);
        return error;
    }
    listener->data = tcp;
    error = uv_tcp_bind(listener, (const struct sockaddr *)where, 0);
    if (error == 0) {
        error = uv_listen((uv_stream_t *)listener, GCOLL_TCP_BACKLOG, on_connection);
    }
    if (error == 0) {
        tcp->address.port = port_of(listener);
        error = tcp->address.port == 0 ? UV_EINVAL : 0;
    }
    if (error != 0) {
        uv_close((uv_handle_t *)listener, free_handle);
        return error;
    }
    tcp->listener = listener;
    return 0;
}

static void keep_ipv4_only(gcoll_address *address) {
    uint32_t kept = 0;

    for (uint32_t i = 0; i < address->count; i++) {
        if (address->hosts[i].where.ss_family == AF_INET) {
            address->hosts[kept++] = address->hosts[i];
        }
    }
    address->count = kept;
}

/* The wildcard of both families, or of IPv4 on a host without IPv6. */
static int listen_everywhere(gcoll_tcp *tcp, uint16_t port) {
    struct sockaddr_storage where;
    int error;

    memset(&where, 0, sizeof where);
    ((struct sockaddr_in6 *)&where)->sin6_family = AF_INET6;
    ((struct sockaddr_in6 *)&where)->sin6_port = htons(port);
    error = listen_at(tcp, &where);
    if (error != UV_EAFNOSUPPORT && error != UV_EADDRNOTAVAIL) {
        return error;
    }
    memset(&where, 0, sizeof where);
    ((struct sockaddr_in *)&where)->sin_family = AF_INET;
    ((struct sockaddr_in *)&where)->sin_port = htons(port);
    error = listen_at(tcp, &where);
    if (error == 0) {
        keep_ipv4_only(&tcp->address);
    }
    return error;
}

static int listen_on_port(gcoll_tcp *tcp, const gcoll_host_address *bind_to, bool everywhere, uint16_t port) {
    struct sockaddr_storage where;

    if (everywhere) {
        return listen_everywhere(tcp, port);
    }
    gcoll_host_address_at_port(bind_to, port, &where);
    return listen_at(tcp, &where);
}

gcoll_status gcoll_tcp_listen(gcoll_tcp *tcp, const gcoll_endpoint_options *options,
                              const gcoll_host_address *bind_to, bool everywhere) {
    uint32_t span = (uint32_t)options->port_max - options->port_min + 1;
    int error = UV_EADDRINUSE;

    if (options->port_min == 0 && options->port_max == 0) {
        span = 1;
    } else if (options->port_min == 0 || options->port_min > options->port_max) {
        return gcoll_error(GCOLL_ERR_INVALID,
                           "port range: %u to %u; allowed are 0 to 0 (any), or 1 <= first <= last",
                           options->port_min, options->port_max);
    }
    /* Ranks of one host start at different ports, so that they rarely try the same one. */
    for (uint32_t i = 0; i < span && (error == UV_EADDRINUSE || error == UV_EACCES); i++) {
        uint16_t port = (uint16_t)(options->port_min + (options->rank % span + i) % span);

        error = listen_on_port(tcp, bind_to, everywhere, port);
    }
    if (error == 0) {
        return GCOLL_OK;
    }
    if (span > 1 || options->port_min != 0) {
        if (error == UV_EADDRINUSE || error == UV_EACCES) {
            return gcoll_error(GCOLL_ERR_INVALID, "port range: no free port in %u to %u (%s)",
                               options->port_min, options->port_max, uv_strerror(error));
        }
    }
    return gcoll_error(GCOLL_ERR_IO, "cannot listen for TCP connections: %s", uv_strerror(error));
}

void gcoll_tcp_stop_listening(gcoll_tcp *tcp) {
    if (tcp->listener != NULL) {
        uv_close((uv_handle_t *)tcp->listener, free_handle);
        tcp->listener = NULL;
    }
    while (tcp->strangers != NULL) {
        gcoll_tcp_link_drop(tcp->strangers);
    }
}
