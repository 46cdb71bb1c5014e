/* transport/session/socket.c - an established connection: its descriptor, and waiting for it to be ready. */
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "transport/session/connect.h"
#include "transport/session/session.h"

static void pair_ready(gcoll_socket *socket, int status, int events) {
    gcoll_session *session = socket->session;
    /* After an error libuv stops polling the socket, so read everything up to the error now. */
    if (status < 0) {
        gcoll_session_read(session, SIZE_MAX);
        if (session->state == GCOLL_SESSION_CONNECTED)
            gcoll_socket_poll(socket);
        return;
    }
    if (events & UV_READABLE)
        gcoll_session_read(session, GCOLL_SESSION_READ_BUDGET);
    if (events & UV_WRITABLE) {
        gcoll_session_write(session);
        if (!gcoll_session_has_output(session)) {
            socket->wants_write = false;
            gcoll_socket_poll(socket);
        }
    }
}

static void on_ready(uv_poll_t *poll, int status, int events) {
    gcoll_socket *socket = poll->data;
    if (socket->session)
        pair_ready(socket, status, events);
    else if (socket->stripe)
        gcoll_stripe_ready(socket->stripe, status, events);
    else
        gcoll_link_ready(socket->link);
}

gcoll_socket *gcoll_socket_new(gcoll_net *net, int fd) {
    gcoll_socket *socket = calloc(1, sizeof *socket);
    int one = 1;
    if (!socket || uv_poll_init(&net->loop, &socket->poll, fd) != 0) {
        free(socket);
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* a failure costs only speed */
    socket->fd = fd;
    gcoll_descriptor_enter(&socket->descriptor, fd);
    socket->poll.data = socket;
    gcoll_socket_poll(socket);
    return socket;
}

gcoll_socket *gcoll_socket_take(gcoll_net *net, uv_tcp_t *handle) {
    gcoll_socket *socket = NULL;
    gcoll_fork_hold();
    uv_os_fd_t fd;
    int own = uv_fileno((uv_handle_t *)handle, &fd) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (own >= 0)
        socket = gcoll_socket_new(net, own);
    gcoll_fork_release();
    return socket;
}

static void leave_unwatched(gcoll_socket *socket) {
    gcoll_net *net = socket->poll.loop->data;
    gcoll_socket **at = &net->unwatched;
    if (!socket->unwatched)
        return;
    while (*at != socket)
        at = &(*at)->next_unwatched;
    *at = socket->next_unwatched;
    socket->unwatched = false;
}

void gcoll_socket_unwatch(gcoll_socket *socket) {
    gcoll_net *net = socket->poll.loop->data;
    uv_poll_stop(&socket->poll);
    socket->unwatched = true;
    socket->next_unwatched = net->unwatched;
    net->unwatched = socket;
}

void gcoll_net_watch_all(gcoll_net *net) {
    while (net->unwatched)
        gcoll_socket_poll(net->unwatched);
    net->streak = 0;
}

void gcoll_socket_poll(gcoll_socket *socket) {
    bool listens = !socket->deaf && (!socket->session || socket->session->state == GCOLL_SESSION_CONNECTED);
    int events = (listens ? UV_READABLE : 0) | (socket->wants_write ? UV_WRITABLE : 0);
    leave_unwatched(socket);
    if (events != 0)
        uv_poll_start(&socket->poll, events, on_ready);
    else
        uv_poll_stop(&socket->poll);
}

bool gcoll_socket_unacknowledged(const gcoll_socket *socket, uint64_t *bytes) {
    int queued = 0;
    if (ioctl(socket->fd, SIOCOUTQ, &queued) != 0)
        return false;
    *bytes = (queued > 0 ? (uint64_t)queued : 0) + gcoll_socket_unsent(socket);
    return true;
}

static void on_closed(uv_handle_t *poll) {
    free(poll->data);
}

void gcoll_socket_close(gcoll_socket *socket) {
    if (socket) {
        leave_unwatched(socket);
        gcoll_tls_destroy(socket->tls);
        socket->tls = NULL;
        uv_close((uv_handle_t *)&socket->poll, on_closed);
        gcoll_fork_hold();
        gcoll_descriptor_leave(&socket->descriptor);
        close(socket->fd); /* allowed as soon as the poll is closing */
        gcoll_fork_release();
    }
}
