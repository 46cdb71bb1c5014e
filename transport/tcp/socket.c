/* transport/tcp/socket.c - an established connection: its descriptor, and waiting for it to be ready. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "transport/tcp/connect.h"
#include "transport/tcp/pair.h"

static void pair_ready(gcoll_tcp_socket *socket, int status, int events) {
    gcoll_tcp_pair *pair = socket->pair;
    /* After an error libuv stops polling the socket, so read everything up to the error now. */
    if (status < 0) {
        gcoll_tcp_read(pair, SIZE_MAX);
        if (pair->state == GCOLL_TCP_CONNECTED)
            gcoll_tcp_socket_poll(socket);
        return;
    }
    if (events & UV_READABLE)
        gcoll_tcp_read(pair, GCOLL_TCP_READ_BUDGET);
    if (events & UV_WRITABLE) {
        gcoll_tcp_write(pair);
        if (!gcoll_tcp_has_output(pair)) {
            socket->wants_write = false;
            gcoll_tcp_socket_poll(socket);
        }
    }
}

static void on_ready(uv_poll_t *poll, int status, int events) {
    gcoll_tcp_socket *socket = poll->data;
    if (socket->pair)
        pair_ready(socket, status, events);
    else
        gcoll_tcp_link_ready(socket->link);
}

gcoll_tcp_socket *gcoll_tcp_socket_new(gcoll_tcp *tcp, int fd) {
    gcoll_tcp_socket *socket = calloc(1, sizeof *socket);
    int one = 1;
    if (!socket || uv_poll_init(&tcp->loop, &socket->poll, fd) != 0) {
        free(socket);
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* a failure costs only speed */
    socket->fd = fd;
    gcoll_descriptor_enter(&socket->descriptor, fd);
    socket->poll.data = socket;
    gcoll_tcp_socket_poll(socket);
    return socket;
}

gcoll_tcp_socket *gcoll_tcp_socket_take(gcoll_tcp *tcp, uv_tcp_t *handle) {
    gcoll_tcp_socket *socket = NULL;
    gcoll_fork_hold();
    uv_os_fd_t fd;
    int own = uv_fileno((uv_handle_t *)handle, &fd) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (own >= 0)
        socket = gcoll_tcp_socket_new(tcp, own);
    gcoll_fork_release();
    return socket;
}

static void leave_unwatched(gcoll_tcp_socket *socket) {
    gcoll_tcp *tcp = socket->poll.loop->data;
    gcoll_tcp_socket **at = &tcp->unwatched;
    if (!socket->unwatched)
        return;
    while (*at != socket)
        at = &(*at)->next_unwatched;
    *at = socket->next_unwatched;
    socket->unwatched = false;
}

void gcoll_tcp_socket_unwatch(gcoll_tcp_socket *socket) {
    gcoll_tcp *tcp = socket->poll.loop->data;
    uv_poll_stop(&socket->poll);
    socket->unwatched = true;
    socket->next_unwatched = tcp->unwatched;
    tcp->unwatched = socket;
}

void gcoll_tcp_watch_all(gcoll_tcp *tcp) {
    while (tcp->unwatched)
        gcoll_tcp_socket_poll(tcp->unwatched);
    tcp->streak = 0;
}

void gcoll_tcp_socket_poll(gcoll_tcp_socket *socket) {
    bool listens = !socket->pair || socket->pair->state == GCOLL_TCP_CONNECTED;
    int events = (listens ? UV_READABLE : 0) | (socket->wants_write ? UV_WRITABLE : 0);
    leave_unwatched(socket);
    if (events != 0)
        uv_poll_start(&socket->poll, events, on_ready);
    else
        uv_poll_stop(&socket->poll);
}

static void on_closed(uv_handle_t *poll) {
    free(poll->data);
}

void gcoll_tcp_socket_close(gcoll_tcp_socket *socket) {
    if (socket) {
        leave_unwatched(socket);
        uv_close((uv_handle_t *)&socket->poll, on_closed);
        gcoll_fork_hold();
        gcoll_descriptor_leave(&socket->descriptor);
        close(socket->fd); /* allowed as soon as the poll is closing */
        gcoll_fork_release();
    }
}
