/* transport/tcp/side.c - lets another transport use a TCP endpoint as its side channel; see side.h. */
#include "transport/tcp/side.h"

#include "transport/tcp/tcp.h"

static void on_readable(uv_poll_t *poll, int status, int events) {
    gcoll_tcp *tcp = poll->data;
    (void)status;
    (void)events;
    tcp->side.seen = true;
}

gcoll_status gcoll_tcp_watch(gcoll_endpoint *endpoint, int fd) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    int error = uv_poll_init(&tcp->loop, &tcp->side.poll, fd);
    if (error == 0) {
        tcp->side.poll.data = tcp;
        error = uv_poll_start(&tcp->side.poll, UV_READABLE, on_readable);
    }
    if (error != 0)
        return gcoll_error(gcoll_status_of_errno(-error), "cannot wait for a descriptor: %s",
                           uv_strerror(error));
    tcp->side.watches = true;
    return GCOLL_OK;
}

void gcoll_tcp_unwatch(gcoll_endpoint *endpoint) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    if (tcp->side.watches) {
        uv_poll_stop(&tcp->side.poll); /* the handle is closed with the loop */
        tcp->side.watches = false;
    }
}

bool gcoll_tcp_was_watched(gcoll_endpoint *endpoint) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    bool seen = tcp->side.seen;
    tcp->side.seen = false;
    return seen;
}

bool gcoll_tcp_was_woken(gcoll_endpoint *endpoint) {
    gcoll_tcp *tcp = gcoll_tcp_of(endpoint);
    const bool woken = gcoll_tcp_take_wake(tcp) || tcp->side.woken;
    tcp->side.woken = false;
    return woken;
}

uint32_t *gcoll_tcp_moves_counter(gcoll_endpoint *endpoint) {
    return &gcoll_tcp_of(endpoint)->moves;
}

const gcoll_address *gcoll_tcp_own_address(const gcoll_endpoint *endpoint) {
    return &((const gcoll_tcp *)(const void *)endpoint)->address;
}
