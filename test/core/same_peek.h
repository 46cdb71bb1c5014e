/* test/core/same_peek.h - what tests of sameness reach into. */
#ifndef GCOLL_TEST_SAME_PEEK_H
#define GCOLL_TEST_SAME_PEEK_H

#include "gcoll/gcoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lets the context believe that it measured these costs when it was created, on a host of so many ranks a
 * processor. The same on every rank, before its first call. */
void same_pretend_measured(gcoll_context *context, const gcoll_cost_parameters *cost, double crowd);

#ifdef __cplusplus
}
#endif

#endif
