/* tools/ring.h - rings of an allreduce with any order of the ranks, in virtual time. */
#ifndef GCOLL_TOOL_RING_H
#define GCOLL_TOOL_RING_H

#include "gcoll/simulate.h"
#include "tools/shape.h"

/* A ring: who sits where, and how many segments ahead of its own each position begins. */
typedef struct tool_ring {
    uint32_t size;
    uint32_t *order; /* by position: the rank */
    uint32_t *lead;  /* by position; 0 at the last one, and at most 1 less from one to the next */
} tool_ring;

/* In the order of ranks, without leads. False: it has been said. */
bool tool_ring_create(uint32_t size, tool_ring *ring);
void tool_ring_free(tool_ring *ring);
/* Both have the same size. */
void tool_ring_copy(tool_ring *to, const tool_ring *from);

/* Makes of a shape of an allreduce, whose arrivals are replaced and not freed, one for tool_ring_run. The
 * caller frees its arrival_ns. False: it has been said. */
bool tool_ring_prepare(tool_shape *shape);
/* Runs the ring in virtual time. NULL: it has been said. */
gcoll_simulation *tool_ring_run(const tool_options *options, tool_shape *shape, const tool_ring *ring);

#endif
