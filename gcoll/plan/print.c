/* gcoll/plan/print.c - prints a plan in plain words, one line a step. */
#include <stdio.h>
#include <stdlib.h>

#include "gcoll/plan/steps.h"

typedef unsigned long long ull;

static void print_ref(FILE *f, const gcoll_plan *plan, gcoll_ref r, uint64_t count) {
    const uint32_t memory = gcoll_problem_memory(&plan->problem, r);
    uint64_t end = r.offset + count;
    if (r.space == GCOLL_SCRATCH)
        fprintf(f, "scratch[%llu, %llu)", (ull)r.offset, (ull)end);
    else
        fprintf(f, "%s%u[%llu, %llu)", r.space == GCOLL_IN ? "in" : "out", r.index, (ull)r.offset, (ull)end);
    if (memory != GCOLL_HOST_MEMORY)
        fprintf(f, " on device %u", memory - 1);
}

static void print_folded(FILE *f, const gcoll_plan *plan, const gcoll_step *s) {
    for (uint32_t i = 0; i < s->operand_count; i++) {
        gcoll_ref operand = s->a;
        operand.index = plan->operands[s->first_operand + i];
        fputs(i ? " op " : " = ", f);
        print_ref(f, plan, operand, s->count);
    }
}

static void print_operands(FILE *f, const gcoll_plan *plan, const gcoll_step *s) {
    bool receives = s->kind == GCOLL_STEP_RECV_REDUCE;
    if (s->kind == GCOLL_STEP_FOLD)
        print_folded(f, plan, s);
    if (s->kind == GCOLL_STEP_RECV || s->kind == GCOLL_STEP_DIVIDE || s->kind == GCOLL_STEP_FOLD)
        return;
    fputs(receives && s->received_first ? " = received op " : " = ", f);
    if (s->kind == GCOLL_STEP_DECODE_REDUCE && s->received_first) {
        print_ref(f, plan, s->b, gcoll_step_b_count(&plan->problem, s));
        fputs(" op ", f);
        print_ref(f, plan, s->a, s->count);
        return;
    }
    print_ref(f, plan, s->a, gcoll_step_a_count(&plan->problem, s));
    if (receives && !s->received_first)
        fputs(" op received", f);
    if (gcoll_step_has_b(s)) {
        fputs(" op ", f);
        print_ref(f, plan, s->b, gcoll_step_b_count(&plan->problem, s));
    }
}

static void print_what(FILE *f, const gcoll_plan *plan, const gcoll_step *s) {
    if (s->kind >= GCOLL_STEP_KIND_COUNT) {
        fprintf(f, "kind %u", s->kind);
        return;
    }
    if (s->count == 0) {
        fputs(s->kind == GCOLL_STEP_SEND ? "signal" : s->kind == GCOLL_STEP_RECV ? "await" : "fence", f);
    } else {
        fprintf(f, "%s ", gcoll_step_kind_name(s->kind));
        print_ref(f, plan, s->kind == GCOLL_STEP_SEND ? s->a : s->dst,
                  gcoll_step_dst_count(&plan->problem, s));
        if (s->kind != GCOLL_STEP_SEND)
            print_operands(f, plan, s);
        if (s->kind == GCOLL_STEP_DIVIDE)
            fprintf(f, " by %u", plan->divisor);
    }
    if (gcoll_step_is_message(s))
        fprintf(f, " %s rank %u (message %u)", s->kind == GCOLL_STEP_SEND ? "to" : "from", s->peer,
                s->message);
}

/* The predecessors of all steps, step after step, in one array; NULL: out of memory. */
static uint32_t *predecessors(const gcoll_plan *plan) {
    uint32_t *fill = calloc(plan->step_count + 1u, sizeof *fill);
    uint32_t *result = calloc(plan->successor_count + 1u, sizeof *result);
    if (!fill || !result) {
        free(fill);
        free(result);
        return NULL;
    }
    for (uint32_t i = 0; i < plan->step_count; i++)
        fill[i + 1] = fill[i] + plan->steps[i].dependencies;
    for (uint32_t i = 0; i < plan->step_count; i++)
        for (uint32_t k = 0; k < plan->steps[i].successors; k++)
            result[fill[plan->successors[plan->steps[i].first_successor + k]]++] = i;
    free(fill);
    return result;
}

static const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

void gcoll_plan_print(const gcoll_plan *plan, void *file) {
    FILE *f = file;
    const gcoll_problem *p = &plan->problem;
    uint32_t *before = predecessors(plan);
    const uint32_t *next = before;
    fputs(gcoll_collective_name(p->collective), f);
    if (p->collective != GCOLL_BARRIER)
        fprintf(f, " of %llu element%s", (ull)p->count, plural(p->count));
    fprintf(f, ", rank %u of %u: %u step%s in %u round%s, scratch %llu element%s, window ", p->rank, p->size,
            plan->step_count, plural(plan->step_count), plan->rounds, plural(plan->rounds),
            (ull)plan->scratch, plural(plan->scratch));
    if (plan->window == GCOLL_WINDOW_UNBOUNDED)
        fputs("unbounded\n", f);
    else
        fprintf(f, "%u\n", plan->window);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *s = &plan->steps[i];
        fprintf(f, "%5u  round %u: ", i, s->round);
        print_what(f, plan, s);
        fputs(s->dependencies ? ", after" : "", f);
        for (uint32_t k = 0; k < s->dependencies; k++)
            if (before)
                fprintf(f, " %u", *next++);
        fputs(s->dependencies && !before ? " (out of memory)\n" : "\n", f);
    }
    free(before);
}
