/* test/core/route_peek.c - redirects a context's connections by giving the transport another address, for
 * tests. */
#include "test/core/route_peek.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/context/context.h"

static _Thread_local struct {
    const gcoll_transport *transport;
    route_divert divert;
    void *arg;
} route;

static gcoll_status connect_diverted(gcoll_endpoint *endpoint, uint32_t peer, const char *address) {
    static const char key[] = ";port=";
    const char *at = strstr(address, key);
    char diverted[GCOLL_ADDRESS_MAX], *rest;
    if (!route.divert)
        return GCOLL_OK;
    if (!at)
        return gcoll_error(GCOLL_ERR_INVALID, "the address has no port");
    unsigned long port = strtoul(at + sizeof key - 1, &rest, 10);
    snprintf(diverted, sizeof diverted, "%.*s%s%u%s", (int)(at - address), address, key,
             route.divert(route.arg, (uint16_t)port), rest);
    return route.transport->connect(endpoint, peer, diverted);
}

void route_by(gcoll_context *context, route_divert divert, void *arg) {
    static _Thread_local gcoll_transport routed;
    route.transport = context->transport;
    route.divert = divert;
    route.arg = arg;
    routed = *context->transport;
    routed.connect = connect_diverted;
    context->transport = &routed;
}

int route_has_checksum(const gcoll_context *context) {
    return context->settings.endpoint.checksum;
}
