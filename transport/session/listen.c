/*
 * transport/session/listen.c - the listener, and accepted connections until they have proved who they are.
 *
 * Anybody can connect to a port. A connection that has not proved that it is a peer's is a stranger. The
 * number of strangers is limited (the oldest is dropped for a new one), and so are their time and the bytes
 * that they may send. A real peer that was dropped in a crowd sees its connection closed before the answer,
 * and tries again. Those that have greeted as only members can have a limit of their own: many ranks may
 * connect at once, and each gives its proof when it next drives its endpoint. A greeting may be a recorded
 * one.
 *
 * The listener is not a libuv listener: if descriptors or memory run out, libuv's accept can spin forever.
 * Here connections then wait in the kernel, and accepting is tried again a little later. A waiting connection
 * may be a stranger's, so the shortage alone breaks nothing. If this rank needs the peer, it connects to it,
 * and then reports the shortage (dial.c); or it waits for connections that the peer is to make, and reports
 * the shortage when their time is over (tcp/stripes.c).
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/session/connect.h"

#define SWEEP_MS 1000
/* Connections accepted in one go, before other work has its turn. */
#define ACCEPTS_MAX 64
/* Pause before accepting is tried again after descriptors or memory ran out. */
#define PAUSE_MS 100
/* Ports that the system offers are tried so often. */
#define FREE_PORTS 16
/* Connections of one rank that have greeted and not proved: its own, and some for stripes. */
#define TRUSTED_OF_RANK 4

static uint32_t *count_of(gcoll_link *link) {
    return link->is_trusted ? &link->net->trusted_count : &link->net->stranger_count;
}

void gcoll_net_forget_stranger(gcoll_link *link) {
    gcoll_link **at = &link->net->strangers;
    while (*at && *at != link)
        at = &(*at)->next;
    if (*at == link) {
        *at = link->next;
        link->next = NULL;
        --*count_of(link);
    }
}

/* Adds it as the newest. If those of its kind are too many then, the oldest is dropped. */
static void add_stranger(gcoll_net *net, gcoll_link *link, int64_t ms) {
    const uint32_t most = GCOLL_NET_STRANGERS_MAX + (link->is_trusted ? TRUSTED_OF_RANK * net->size : 0);
    gcoll_link **at = &net->strangers, *oldest = NULL;
    for (; *at; at = &(*at)->next)
        if (!oldest && (*at)->is_trusted == link->is_trusted)
            oldest = *at;
    *at = link;
    link->until_ms = gcoll_now_ms() + ms;
    if (++*count_of(link) > most)
        gcoll_link_drop(oldest);
}

void gcoll_net_trust_stranger(gcoll_link *link) {
    gcoll_net_forget_stranger(link);
    link->is_trusted = true;
    add_stranger(link->net, link, link->net->connect_timeout_ms);
}

static void sweep(uv_timer_t *sweeper) {
    gcoll_net *net = sweeper->data;
    const int64_t now = gcoll_now_ms();
    gcoll_link *link = net->strangers;
    while (link) {
        if (link->until_ms > now) {
            link = link->next;
            continue;
        }
        gcoll_link_ready(link); /* timers run before polls: its message may be here */
        gcoll_link *still = net->strangers;
        while (still && still != link)
            still = still->next;
        if (still && link->until_ms <= now)
            gcoll_link_drop(link);
        link = net->strangers; /* what was read may have changed the list */
    }
    if (!net->strangers)
        uv_timer_stop(&net->sweeper);
}

static void welcome_stranger(gcoll_net *net, gcoll_socket *socket) {
    gcoll_link *link = socket ? gcoll_link_new(net, socket, GCOLL_LINK_STRANGER) : NULL;
    if (!link)
        return;
    add_stranger(net, link, GCOLL_NET_STRANGER_MS);
    if (!uv_is_active((uv_handle_t *)&net->sweeper)) {
        uv_update_time(&net->loop);
        uv_timer_start(&net->sweeper, sweep, SWEEP_MS, SWEEP_MS);
    }
    gcoll_link_ready(link); /* mostly the greeting is here already */
}

typedef struct gcoll_listener {
    uv_poll_t poll; /* if net->watches_listeners */
    gcoll_net *net;
    int fd;
    gcoll_descriptor descriptor;
} gcoll_listener;

static void on_connections(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *pause) {
    gcoll_net *net = pause->data;
    for (uint32_t i = 0; i < net->listener_count; i++)
        if (net->listeners[i].poll.type == UV_POLL)
            uv_poll_start(&net->listeners[i].poll, UV_READABLE, on_connections);
}

static void pause_listening(gcoll_net *net) {
    for (uint32_t i = 0; i < net->listener_count; i++)
        if (net->listeners[i].poll.type == UV_POLL)
            uv_poll_stop(&net->listeners[i].poll);
    uv_update_time(&net->loop);
    uv_timer_start(&net->pause, on_pause_over, PAUSE_MS, 0);
}

/* Whether an error of accept concerns only one connection: the kernel also reports its network errors here.
 */
static bool is_passing(int error) {
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == EPERM ||
           error == ENETDOWN || error == ENOPROTOOPT || error == EHOSTDOWN || error == ENONET ||
           error == EHOSTUNREACH || error == EOPNOTSUPP || error == ENETUNREACH;
}

/* Accepts one connection. False: none waits, or an error; see errno. *socket is NULL if it was closed again,
 * because memory ran out. */
static bool accept_one(gcoll_listener *listener, gcoll_socket **socket) {
    gcoll_net *net = listener->net;
    gcoll_fork_hold();
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    int error = errno;
    *socket = NULL;
    if (fd >= 0) {
        gcoll_net_local_accepted(net, fd);
        *socket = gcoll_socket_new(net, fd);
    }
    gcoll_fork_release();
    errno = error;
    return fd >= 0;
}

static void on_connections(uv_poll_t *poll, int status, int events) {
    gcoll_listener *listener = poll->data;
    gcoll_net *net = listener->net;
    (void)events;
    if (status < 0) {
        pause_listening(net);
        return;
    }
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        gcoll_socket *socket;
        if (accept_one(listener, &socket)) {
            net->accept_error = 0;
            welcome_stranger(net, socket);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            net->accept_error = 0;
            return;
        } else if (!is_passing(errno)) {
            net->accept_error = errno;
            pause_listening(net);
            return;
        }
    }
}

static uint16_t port_of(int fd) {
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    memset(&name, 0, sizeof name);
    if (getsockname(fd, (struct sockaddr *)&name, &length) != 0)
        return 0;
    return ntohs(name.ss_family == AF_INET ? ((struct sockaddr_in *)&name)->sin_port
                                           : ((struct sockaddr_in6 *)&name)->sin6_port);
}

/* Returns 0 or a libuv error. */
static int bind_and_listen(int fd, const struct sockaddr_storage *where) {
    socklen_t length = where->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int off = 0, on = 1;
    /* Without SO_REUSEADDR a port of a range could not be used again for a minute. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (where->ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) ||
        bind(fd, (const struct sockaddr *)where, length) != 0 || listen(fd, GCOLL_NET_BACKLOG) != 0)
        return uv_translate_sys_error(errno);
    return 0;
}

static int listen_held(gcoll_net *net, const struct sockaddr_storage *where) {
    int fd = socket(where->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return uv_translate_sys_error(errno);
    gcoll_net_local_listen(net, fd);
    int error = bind_and_listen(fd, where);
    if (error == 0) {
        net->address.port = port_of(fd);
        error = net->address.port == 0 ? UV_EINVAL : 0;
    }
    if (error != 0) {
        close(fd);
        return error;
    }
    gcoll_listener *listener = &net->listeners[net->listener_count++];
    listener->net = net;
    listener->fd = fd;
    gcoll_descriptor_enter(&listener->descriptor, fd);
    return 0;
}

int gcoll_net_watch_listeners(gcoll_net *net) {
    int error = 0;
    net->watches_listeners = true;
    for (uint32_t i = 0; i < net->listener_count && error == 0; i++) {
        gcoll_listener *listener = &net->listeners[i];
        error = uv_poll_init(&net->loop, &listener->poll, listener->fd);
        if (error != 0)
            listener->poll.type = UV_UNKNOWN_HANDLE; /* nothing to close */
        listener->poll.data = listener;
        if (error == 0)
            error = uv_poll_start(&listener->poll, UV_READABLE, on_connections);
    }
    return error;
}

/* Tries to listen at one address. Returns 0 or a libuv error. */
static int listen_at(gcoll_net *net, const struct sockaddr_storage *where) {
    gcoll_fork_hold();
    int error = listen_held(net, where);
    gcoll_fork_release();
    return error;
}

static void keep_ipv4_only(gcoll_address *address) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < address->count; i++)
        if (address->hosts[i].where.ss_family == AF_INET)
            address->hosts[kept++] = address->hosts[i];
    address->count = kept;
}

/* Listens at the wildcard address of both families, or of IPv4 on a host without IPv6. */
static int listen_everywhere(gcoll_net *net, uint16_t port) {
    struct sockaddr_storage where;
    memset(&where, 0, sizeof where);
    ((struct sockaddr_in6 *)&where)->sin6_family = AF_INET6;
    ((struct sockaddr_in6 *)&where)->sin6_port = htons(port);
    int error = listen_at(net, &where);
    if (error != UV_EAFNOSUPPORT && error != UV_EADDRNOTAVAIL)
        return error;
    memset(&where, 0, sizeof where);
    ((struct sockaddr_in *)&where)->sin_family = AF_INET;
    ((struct sockaddr_in *)&where)->sin_port = htons(port);
    error = listen_at(net, &where);
    if (error == 0)
        keep_ipv4_only(&net->address);
    return error;
}

static void close_listeners(gcoll_net *net) {
    gcoll_fork_hold();
    for (uint32_t i = 0; i < net->listener_count; i++) {
        gcoll_descriptor_leave(&net->listeners[i].descriptor);
        close(net->listeners[i].fd); /* allowed as soon as the poll is closing */
    }
    gcoll_fork_release();
    net->listener_count = 0;
}

/* Whether an address is on the list before, as an interface may have one that another has, too. */
static bool is_again(const gcoll_address *address, uint32_t kept, const gcoll_host_address *host) {
    struct sockaddr_storage one, other;
    gcoll_host_address_at_port(host, 0, &one);
    for (uint32_t i = 0; i < kept; i++) {
        gcoll_host_address_at_port(&address->hosts[i], 0, &other);
        if (memcmp(&one, &other, sizeof one) == 0)
            return true;
    }
    return false;
}

/* Listens at each address, by one port. An address that the host has lost meanwhile, or cannot use yet, is
 * dropped. */
static int listen_at_each(gcoll_net *net, uint16_t port) {
    gcoll_address *address = &net->address;
    int error = UV_EADDRNOTAVAIL;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < address->count; i++) {
        const gcoll_host_address host = address->hosts[i];
        struct sockaddr_storage where;
        gcoll_host_address_at_port(&host, kept > 0 ? address->port : port, &where);
        if (is_again(address, kept, &host))
            continue;
        error = listen_at(net, &where);
        if (error == 0)
            address->hosts[kept++] = host;
        else if (error != UV_EADDRNOTAVAIL && error != UV_EAFNOSUPPORT)
            break;
    }
    if (kept > 0 && (error == 0 || error == UV_EADDRNOTAVAIL || error == UV_EAFNOSUPPORT)) {
        address->count = kept;
        return 0;
    }
    close_listeners(net);
    return error;
}

static int listen_on_port(gcoll_net *net, bool everywhere, uint16_t port) {
    int error = UV_EADDRINUSE;
    /* A port that was free at one address may be in use at another. */
    for (int i = 0; i < (port == 0 ? FREE_PORTS : 1) && error == UV_EADDRINUSE; i++)
        error = everywhere ? listen_everywhere(net, port) : listen_at_each(net, port);
    return error;
}

gcoll_status gcoll_net_listen(gcoll_net *net, const gcoll_endpoint_options *options, bool everywhere) {
    uint32_t span = (uint32_t)options->port_max - options->port_min + 1;
    int error = UV_EADDRINUSE;
    if (options->port_min == 0 && options->port_max == 0)
        span = 1;
    else if (options->port_min == 0 || options->port_min > options->port_max)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "port range: %u to %u; allowed are 0 to 0 (any), or 1 <= first <= last",
                           options->port_min, options->port_max);
    net->listeners = calloc(everywhere ? 1 : net->address.count, sizeof *net->listeners);
    if (!net->listeners)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %u listeners", net->address.count);
    /* Ranks of one host start at different ports, so that they rarely try the same one. */
    for (uint32_t i = 0; i < span && (error == UV_EADDRINUSE || error == UV_EACCES); i++) {
        uint16_t port = (uint16_t)(options->port_min + (options->rank % span + i) % span);
        error = listen_on_port(net, everywhere, port);
    }
    if (error == 0)
        return GCOLL_OK;
    if (span > 1 || options->port_min != 0) {
        if (error == UV_EADDRINUSE || error == UV_EACCES)
            return gcoll_error(GCOLL_ERR_INVALID, "port range: no free port in %u to %u (%s)",
                               options->port_min, options->port_max, uv_strerror(error));
    }
    char text[GCOLL_ERRNO_TEXT_MAX];
    return gcoll_error(gcoll_status_of_errno(-error), "cannot listen for TCP connections: %s",
                       gcoll_errno_text(-error, text));
}

void gcoll_net_stop_listening(gcoll_net *net) {
    if (net->watches_listeners) {
        uv_timer_stop(&net->pause);
        for (uint32_t i = 0; i < net->listener_count; i++)
            if (net->listeners[i].poll.type == UV_POLL)
                uv_close((uv_handle_t *)&net->listeners[i].poll, NULL);
        net->watches_listeners = false;
    }
    close_listeners(net);
    while (net->strangers)
        gcoll_link_drop(net->strangers);
}
