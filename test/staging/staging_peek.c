/* test/staging/staging_peek.c - what tests of broken staging reach into. */
#include "test/staging/staging_peek.h"

#include "gcoll/run/run.h"

gcoll_plan *staging_plan_of(gcoll_context *context) {
    gcoll_cache_entry *entry = context->calls->cache;
    gcoll_run_destroy(gcoll_cache_take_idle(entry)); /* it knows what the plan was */
    return entry->plan;
}
