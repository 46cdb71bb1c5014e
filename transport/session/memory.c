/* transport/session/memory.c - memory that a lane registers, or lets peers access: passed on to the lane that
 * can. */
#include "transport/session/session.h"

/* The first lane of the endpoint that knows memory; NULL: none does. */
static const gcoll_net_lane *memory_lane(const gcoll_endpoint *endpoint) {
    const gcoll_net *net = (const gcoll_net *)(const void *)endpoint;
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (net->lanes[i].lane->attach)
            return &net->lanes[i];
    return NULL;
}

gcoll_status gcoll_net_attach(gcoll_endpoint *endpoint, void *data, uint64_t bytes, bool is_written,
                              uint64_t largest, void **handle) {
    const gcoll_net_lane *own = memory_lane(endpoint);
    *handle = NULL;
    if (!own)
        return GCOLL_OK;
    const gcoll_status status = own->lane->attach(own->port, data, bytes, is_written, largest, handle);
    /* Else each message is registered by itself, if it goes by this lane at all. */
    return ((const gcoll_net *)(const void *)endpoint)->lane_count > 1 ? GCOLL_OK : status;
}

void gcoll_net_detach(gcoll_endpoint *endpoint, void *handle) {
    const gcoll_net_lane *own = memory_lane(endpoint);
    if (own)
        own->lane->detach(own->port, handle);
}

uint32_t gcoll_net_device_memory(const gcoll_endpoint *endpoint) {
    const gcoll_net_lane *own = memory_lane(endpoint);
    return own ? own->lane->device_memory(own->port) : 0;
}

static gcoll_status without(const char *what) {
    return gcoll_error(GCOLL_ERR_UNSUPPORTED, "%s: no transport of this context can reach memory of peers",
                       what);
}

gcoll_status gcoll_net_attach_device(gcoll_endpoint *endpoint, const gcoll_foreign_memory *memory,
                                     bool is_written, void **handle) {
    const gcoll_net_lane *own = memory_lane(endpoint);
    return own ? own->lane->attach_device(own->port, memory, is_written, handle)
               : without("memory of a device");
}

gcoll_status gcoll_net_expose(gcoll_endpoint *endpoint, void *data, uint64_t bytes, gcoll_exposed *exposed) {
    const gcoll_net_lane *own = memory_lane(endpoint);
    *exposed = (gcoll_exposed){0};
    const gcoll_net *net = (const gcoll_net *)(const void *)endpoint;
    if (!own)
        return net->passed_over ? GCOLL_OK : without("a region");
    const gcoll_status status = own->lane->expose(own->port, data, bytes, exposed);
    /* Else this region is reached by messages. */
    return net->lane_count > 1 || net->passed_over ? GCOLL_OK : status;
}

bool gcoll_net_reaches(const gcoll_endpoint *endpoint, uint32_t peer) {
    const gcoll_net *net = (const gcoll_net *)(const void *)endpoint;
    const gcoll_session *session = gcoll_net_session(net, peer);
    if (session && session->lane.stands)
        return session->lane.taken->lane->access;
    for (uint32_t i = 0; i < net->lane_count; i++)
        if (!net->lanes[i].lane->access)
            return false;
    return true;
}

void gcoll_net_access(gcoll_endpoint *endpoint, uint32_t peer, gcoll_remote_access *access) {
    gcoll_net *net = gcoll_net_of(endpoint);
    gcoll_session *session = net->leaving ? NULL : gcoll_session_of(net, peer);
    if (!session || session->state >= GCOLL_SESSION_DEPARTED)
        return;
    access->message.moved = 0;
    access->message.flags = 0;
    access->message.region = NULL;
    if (session->lane.stands)
        session->lane.taken->lane->access(session, access);
    else
        gcoll_message_push(&session->lane.accesses, &access->message);
}

void gcoll_net_conceal(gcoll_endpoint *endpoint, gcoll_exposed *exposed) {
    const gcoll_net_lane *own = memory_lane(endpoint);
    if (own)
        own->lane->conceal(own->port, exposed);
}
