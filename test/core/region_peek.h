/* test/core/region_peek.h - a context whose transport is asked whether it reaches a region. */
#ifndef GCOLL_TEST_REGION_PEEK_H
#define GCOLL_TEST_REGION_PEEK_H

#include <stdint.h>

#include "gcoll/gcoll.h"

typedef struct region_asked {
    uint32_t inside;  /* questions from inside a call on the context */
    uint32_t outside; /* ... and from outside: another thread may be driving the endpoint */
} region_asked;

/* From now on regions of this context are exposed, and each question whether its transport reaches one is
 * counted, and answered by no. One context at a time. */
void region_watch(gcoll_context *context, region_asked *asked);

#endif
