/* transport/session/side.c - lets another transport use a TCP endpoint as its side channel; see side.h. */
#include "transport/session/side.h"

#include "transport/session/net.h"

static void on_readable(uv_poll_t *poll, int status, int events) {
    gcoll_net *net = poll->data;
    (void)status;
    (void)events;
    net->side.seen = true;
}

gcoll_status gcoll_net_watch(gcoll_endpoint *endpoint, int fd) {
    gcoll_net *net = gcoll_net_of(endpoint);
    int error = uv_poll_init(&net->loop, &net->side.poll, fd);
    if (error == 0) {
        net->side.poll.data = net;
        error = uv_poll_start(&net->side.poll, UV_READABLE, on_readable);
    }
    if (error != 0)
        return gcoll_error(gcoll_status_of_errno(-error), "cannot wait for a descriptor: %s",
                           uv_strerror(error));
    net->side.watches = true;
    return GCOLL_OK;
}

void gcoll_net_unwatch(gcoll_endpoint *endpoint) {
    gcoll_net *net = gcoll_net_of(endpoint);
    if (net->side.watches) {
        uv_poll_stop(&net->side.poll); /* the handle is closed with the loop */
        net->side.watches = false;
    }
}

bool gcoll_net_was_watched(gcoll_endpoint *endpoint) {
    gcoll_net *net = gcoll_net_of(endpoint);
    bool seen = net->side.seen;
    net->side.seen = false;
    return seen;
}

bool gcoll_net_was_woken(gcoll_endpoint *endpoint) {
    gcoll_net *net = gcoll_net_of(endpoint);
    const bool woken = gcoll_net_take_wake(net) || net->side.woken;
    net->side.woken = false;
    return woken;
}

uint32_t *gcoll_net_moves_counter(gcoll_endpoint *endpoint) {
    return &gcoll_net_of(endpoint)->moves;
}

const gcoll_address *gcoll_net_own_address(const gcoll_endpoint *endpoint) {
    return &((const gcoll_net *)(const void *)endpoint)->address;
}
