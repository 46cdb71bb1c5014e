/* test/core/launch_peek.c - see launch_peek.h. */
#include "test/core/launch_peek.h"

#include "gcoll/rendezvous/rendezvous.h"

void launch_peek_hour(gcoll_context *context) {
    if (gcoll_enter(context) != GCOLL_OK) /* its thread may be at work */
        return;
    context->rendezvous->keep_ms = 0;
    gcoll_leave(context);
}
