/* gcoll/plan/plan.c - destroys plans, and measures their memory. */
#include <stdlib.h>

#include "gcoll/plan/steps.h"

void gcoll_plan_destroy(gcoll_plan *plan) {
    if (!plan)
        return;
    free(plan->successors);
    free(plan->steps);
    free(plan->offsets);
    free(plan->memory);
    free(plan->operands);
    free(plan);
}

uint64_t gcoll_plan_memory_bytes(const gcoll_plan *plan) {
    return sizeof *plan + (uint64_t)plan->step_count * sizeof *plan->steps +
           ((uint64_t)plan->successor_count + 1) * sizeof *plan->successors +
           gcoll_problem_offset_entries(&plan->problem) * sizeof *plan->offsets +
           gcoll_problem_memory_entries(&plan->problem) * sizeof *plan->memory +
           (uint64_t)plan->operand_count * sizeof *plan->operands;
}
