/* test/staging_peek.c - what tests of broken staging reach into. */
#include "staging_peek.h"

#include "gcoll/core/core_internal.h"

gcoll_plan *staging_plan_of(gcoll_context *context) {
    gcoll_cache_entry *entry = context->cache;
    gcoll_run_destroy(entry->idle); /* it knows what the plan was */
    entry->idle = NULL;
    return entry->plan;
}
