/* test/transport/ibverbs_peek.h - what tests of jobs see of the transport under a context. */
#ifndef GCOLL_TEST_IBVERBS_PEEK_H
#define GCOLL_TEST_IBVERBS_PEEK_H

#include "gcoll/gcoll.h"
#include "transport/ibverbs/counters.h"

/* Of a context over ibverbs with more than one rank. */
gcoll_ib_counters ibverbs_counters_of(const gcoll_context *context);

#endif
