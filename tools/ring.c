/* tools/ring.c - rings of an allreduce with any order of the ranks, in virtual time. */
#include "tools/ring.h"

#include <stdlib.h>
#include <string.h>

#include "algorithms/allreduce/allreduce_ring.h"
#include "tools/simulate.h"

bool tool_ring_create(uint32_t size, tool_ring *ring) {
    *ring = (tool_ring){size, calloc(size, sizeof *ring->order), calloc(size, sizeof *ring->lead)};
    if (!ring->order || !ring->lead) {
        cli_complain("out of memory for %u ranks", size);
        return false;
    }
    for (uint32_t i = 0; i < size; i++)
        ring->order[i] = i;
    return true;
}

void tool_ring_free(tool_ring *ring) {
    free(ring->order);
    free(ring->lead);
    *ring = (tool_ring){0};
}

void tool_ring_copy(tool_ring *to, const tool_ring *from) {
    memcpy(to->order, from->order, from->size * sizeof *to->order);
    memcpy(to->lead, from->lead, from->size * sizeof *to->lead);
}

/* Plans a ring. The problem's arrivals carry each rank's position and lead: position * P + lead. */
static void plan_ring(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_ring_seat *seats = calloc(problem->size, sizeof *seats);
    if (!seats) {
        gcoll_plan_refuse(b, GCOLL_ERR_NO_MEMORY, "out of memory for %u positions", problem->size);
        return;
    }
    for (uint32_t r = 0; r < problem->size; r++) {
        gcoll_ring_seat *seat = &seats[problem->arrival_ns[r] / problem->size];
        seat->rank = r;
        seat->lead = (uint32_t)(problem->arrival_ns[r] % problem->size);
    }
    gcoll_ring_find_starts(seats, problem->size);
    gcoll_ring_walk(problem, b, seats);
    free(seats);
}

static const gcoll_algorithm any_ring = {
    .name = "any_ring",
    .collective = GCOLL_ALLREDUCE,
    .summary = "a ring with any order and leads",
    .source = "tools/ring.c",
    .plan = plan_ring,
};

bool tool_ring_prepare(tool_shape *shape) {
    const uint32_t size = shape->problem.size;
    shape->choice = (gcoll_choice){.algorithm = &any_ring};
    shape->arrival_ns = calloc(size, sizeof *shape->arrival_ns);
    shape->problem.arrival_ns = shape->arrival_ns;
    if (!shape->arrival_ns)
        cli_complain("out of memory for %u ranks", size);
    return shape->arrival_ns;
}

gcoll_simulation *tool_ring_run(const tool_options *options, tool_shape *shape, const tool_ring *ring) {
    tool_job job;
    for (uint32_t i = 0; i < ring->size; i++)
        shape->arrival_ns[ring->order[i]] = (int64_t)i * ring->size + ring->lead[i];
    if (!tool_job_of(shape, &job))
        return NULL;
    gcoll_simulation *simulation = tool_run_job(options, &job, false);
    tool_job_free(&job);
    return simulation;
}
