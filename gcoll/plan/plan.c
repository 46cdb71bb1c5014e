/* gcoll/plan/plan.c - destroys plans, measures their memory, and compares them. */
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

static bool refs_are_equal(gcoll_ref a, gcoll_ref b) {
    return a.space == b.space && a.index == b.index && a.offset == b.offset;
}

static bool steps_are_equal(const gcoll_step *a, const gcoll_step *b) {
    return a->kind == b->kind && a->received_first == b->received_first && a->peer == b->peer &&
           a->message == b->message && a->round == b->round && a->dependencies == b->dependencies &&
           a->first_successor == b->first_successor && a->successors == b->successors &&
           a->count == b->count && refs_are_equal(a->dst, b->dst) && refs_are_equal(a->a, b->a) &&
           refs_are_equal(a->b, b->b);
}

bool gcoll_plan_equals(const gcoll_plan *a, const gcoll_plan *b) {
    if (a->step_count != b->step_count || a->successor_count != b->successor_count ||
        a->operand_count != b->operand_count || a->window != b->window || a->divisor != b->divisor ||
        a->scratch != b->scratch)
        return false;
    for (uint32_t i = 0; i < a->step_count; i++)
        if (!steps_are_equal(&a->steps[i], &b->steps[i]))
            return false;
    for (uint32_t i = 0; i < a->successor_count; i++)
        if (a->successors[i] != b->successors[i])
            return false;
    for (uint32_t i = 0; i < a->operand_count; i++)
        if (a->operands[i] != b->operands[i])
            return false;
    return true;
}
