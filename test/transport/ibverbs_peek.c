/* test/transport/ibverbs_peek.c - what tests of jobs see of the transport under a context. */
#include "test/transport/ibverbs_peek.h"

#include "gcoll/context/context.h"

gcoll_ib_counters ibverbs_counters_of(const gcoll_context *context) {
    gcoll_ib_counters counters;
    gcoll_ib_get_counters(context->endpoint, &counters);
    return counters;
}
