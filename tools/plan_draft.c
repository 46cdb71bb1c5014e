/* tools/plan_draft.c - plans as files have them. Programs that have the builder make plans of drafts; others
 * run them through the public functions of planners. */
#include <stdlib.h>
#include <string.h>

#include "tools/plan_file.h"

const char *const tool_plan_spaces[3] = {[GCOLL_IN] = "in", [GCOLL_OUT] = "out", [GCOLL_SCRATCH] = "scratch"};

/* Makes room for `more` entries behind `used`. */
static bool reserve(tool_plan_draft *d, void *array, uint32_t *room, uint32_t used, uint32_t more,
                    size_t entry_bytes) {
    void **at = array;
    const uint64_t needed = used + (uint64_t)more;
    if (needed <= *room)
        return true;
    const uint64_t wanted = needed < 64 ? 64 : 2 * needed;
    void *larger = wanted <= UINT32_MAX ? realloc(*at, wanted * entry_bytes) : NULL;
    if (!larger) {
        d->failed = true;
        return false;
    }
    *at = larger;
    *room = (uint32_t)wanted;
    return true;
}

void tool_draft_begin(tool_plan_draft *d, const gcoll_problem *problem) {
    const size_t offsets = gcoll_problem_offset_entries(problem),
                 memories = gcoll_problem_memory_entries(problem);
    *d = (tool_plan_draft){.problem = *problem, .window = GCOLL_WINDOW_UNBOUNDED, .divisor = 1};
    d->tables = malloc(offsets * sizeof(uint64_t) + memories * sizeof(uint32_t) + 1);
    if (!d->tables) {
        d->failed = true;
        return;
    }
    uint64_t *offset = d->tables;
    const uint64_t **offset_tables[] = {&d->problem.offsets, &d->problem.recv_offsets};
    for (int i = 0; i < 2; i++)
        if (*offset_tables[i]) {
            memcpy(offset, *offset_tables[i], (problem->size + (size_t)1) * sizeof *offset);
            *offset_tables[i] = offset;
            offset += problem->size + 1;
        }
    uint32_t *memory = (uint32_t *)offset;
    const uint32_t **memory_tables[] = {&d->problem.in_memory, &d->problem.out_memory};
    for (int i = 0; i < 2; i++)
        if (*memory_tables[i]) {
            memcpy(memory, *memory_tables[i], problem->buffers * sizeof *memory);
            *memory_tables[i] = memory;
            memory += problem->buffers;
        }
}

gcoll_ref tool_draft_scratch(tool_plan_draft *d, uint64_t count) {
    const gcoll_ref place = gcoll_scratch(d->scratch);
    if (count > TOOL_PLAN_MOST_COUNT || d->scratch > TOOL_PLAN_MOST_COUNT)
        d->failed = true;
    else
        d->scratch += count;
    return place;
}

void tool_draft_step(tool_plan_draft *d, const gcoll_step *step, const uint16_t *operands,
                     const uint32_t *after, uint32_t after_count) {
    const uint32_t waits = d->step_count ? d->after_end[d->step_count - 1] : 0;
    uint32_t end_room = d->step_room;
    if (d->failed || !reserve(d, &d->after_end, &end_room, d->step_count, 1, sizeof *d->after_end) ||
        !reserve(d, &d->steps, &d->step_room, d->step_count, 1, sizeof *d->steps) ||
        !reserve(d, &d->after, &d->after_room, waits, after_count, sizeof *d->after))
        return;
    gcoll_step *to = &d->steps[d->step_count];
    *to = *step;
    if (after_count > 0)
        memcpy(d->after + waits, after, after_count * sizeof *after);
    if (step->kind == GCOLL_STEP_FOLD) {
        if (!reserve(d, &d->operands, &d->operand_room, d->operand_count, step->operand_count,
                     sizeof *operands))
            return;
        memcpy(d->operands + d->operand_count, operands, step->operand_count * sizeof *operands);
        to->first_operand = d->operand_count;
        d->operand_count += step->operand_count;
    }
    d->after_end[d->step_count++] = waits + after_count;
}

gcoll_ref tool_draft_canonical(const tool_plan_draft *d, gcoll_ref ref) {
    if (!d->problem.in_place || ref.space == GCOLL_SCRATCH)
        return ref;
    ref.offset +=
        ref.space == GCOLL_IN ? gcoll_problem_in_shift(&d->problem) : gcoll_problem_out_shift(&d->problem);
    ref.space = GCOLL_OUT;
    return ref;
}

void tool_draft_free(tool_plan_draft *d) {
    free(d->steps);
    free(d->after_end);
    free(d->after);
    free(d->operands);
    free(d->tables);
    *d = (tool_plan_draft){0};
}
