/* gcoll/plan/plan.c - what a plan is besides its making: names, size, end. */
#include <stdlib.h>

#include "gcoll/plan/plan.h"

const char *gcoll_collective_name(gcoll_collective collective) {
    static const char *const names[GCOLL_COLLECTIVE_COUNT] = {"allreduce", "broadcast", "barrier"};
    return (unsigned)collective < GCOLL_COLLECTIVE_COUNT ? names[collective] : "?";
}

void gcoll_plan_destroy(gcoll_plan *plan) {
    if (plan == NULL)
        return;
    free(plan->successors);
    free(plan->steps);
    free(plan);
}

uint64_t gcoll_plan_memory_bytes(const gcoll_plan *plan) {
    return sizeof *plan + (uint64_t)plan->step_count * sizeof *plan->steps +
           ((uint64_t)plan->successor_count + 1) * sizeof *plan->successors;
}
