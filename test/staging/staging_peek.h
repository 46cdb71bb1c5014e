/* test/staging/staging_peek.h - what tests of broken staging reach into. */
#ifndef GCOLL_TEST_STAGING_PEEK_H
#define GCOLL_TEST_STAGING_PEEK_H

#include "gcoll/gcoll.h"
#include "gcoll/plan/steps.h"

/* The plan of the context's latest new call, to be spoiled before that call is made again. No operation of it
 * may exist. */
gcoll_plan *staging_plan_of(gcoll_context *context);

#endif
