/* test/core/launch_peek.c - gives the tests of launches access to a context's rendezvous. */
#include "test/core/launch_peek.h"

#include "gcoll/rendezvous/rendezvous.h"

void launch_peek_hour(gcoll_context *context) {
    if (gcoll_enter(context) != GCOLL_OK) /* the progress thread may be at work */
        return;
    context->rendezvous->keep_ms = 0;
    gcoll_leave(context);
}
