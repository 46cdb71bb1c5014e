/* test/core/region_peek.c - see region_peek.h. */
#include "test/core/region_peek.h"

#include "gcoll/context/context.h"

static gcoll_transport watched;
static const gcoll_context *who;
static region_asked *count;

static gcoll_status expose(gcoll_endpoint *endpoint, void *data, uint64_t bytes, gcoll_exposed *exposed) {
    (void)endpoint;
    (void)bytes;
    *exposed = (gcoll_exposed){.handle = data, .address = (uintptr_t)data};
    return GCOLL_OK;
}

static void conceal(gcoll_endpoint *endpoint, gcoll_exposed *exposed) {
    (void)endpoint;
    (void)exposed;
}

static bool reaches(const gcoll_endpoint *endpoint, uint32_t peer) {
    (void)endpoint;
    (void)peer;
    if (gcoll_calls_itself(who))
        count->inside++;
    else
        count->outside++;
    return false;
}

void region_watch(gcoll_context *context, region_asked *asked) {
    watched = *context->transport;
    watched.expose = expose;
    watched.conceal = conceal;
    watched.reaches = reaches;
    context->transport = &watched;
    who = context;
    count = asked;
}
