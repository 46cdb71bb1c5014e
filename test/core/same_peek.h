/* test/core/same_peek.h - sets the costs by which a context chooses, for the tests of options.same. */
#ifndef GCOLL_TEST_SAME_PEEK_H
#define GCOLL_TEST_SAME_PEEK_H

#include "gcoll/gcoll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the context believe that it measured these costs at its creation, on a host with so many ranks for
 * each processor. To be called on every rank with the same values, before its first call. */
void same_pretend_measured(gcoll_context *context, const gcoll_cost_parameters *cost, double crowd);

#ifdef __cplusplus
}
#endif

#endif
