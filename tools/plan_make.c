/* tools/plan_make.c - makes plans of drafts by the library's builder, which checks each step as it does those
 * of a planner; and proves them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/cli.h"
#include "tools/plan_file.h"

static gcoll_status make(const tool_plan_draft *draft, gcoll_plan **plan) {
    gcoll_builder *b = NULL;
    gcoll_status status = gcoll_builder_create(&draft->problem, &b);
    if (status != GCOLL_OK)
        return status;
    gcoll_plan_window(b, draft->window);
    gcoll_plan_scratch(b, draft->scratch);
    for (uint32_t i = 0; i < draft->step_count; i++) {
        const gcoll_step *step = &draft->steps[i];
        const uint32_t begin = i ? draft->after_end[i - 1] : 0;
        gcoll_plan_step(b, step, step->kind == GCOLL_STEP_FOLD ? draft->operands + step->first_operand : NULL,
                        draft->after + begin, draft->after_end[i] - begin);
    }
    status = gcoll_builder_finish(b, plan);
    if (status == GCOLL_OK)
        (*plan)->divisor = draft->divisor;
    return status;
}

bool tool_plan_file_read(const char *flag, const char *path, const uint64_t *elements, tool_plan_file *file) {
    tool_plan_file made = {0};
    if (!tool_plan_file_drafts(flag, path, elements, &made))
        return false;
    made.plans = calloc(made.size, sizeof(gcoll_plan *));
    bool good = made.plans != NULL;
    if (!good)
        cli_complain("%s: plan file '%s': out of memory", flag, path);
    for (uint32_t rank = 0; rank < made.size && good; rank++) {
        good = make(&made.drafts[rank], &made.plans[rank]) == GCOLL_OK;
        if (!good)
            cli_complain("%s: plan file '%s': rank %" PRIu32 ": %s", flag, path, rank, gcoll_last_error());
        tool_draft_free(&made.drafts[rank]);
    }
    if (good)
        *file = made;
    else
        tool_plan_file_free(&made);
    return good;
}

gcoll_status tool_plan_file_verify(const tool_plan_file *file, gcoll_verify_report *report) {
    const gcoll_status status = gcoll_verify((const gcoll_plan *const *)file->plans, file->size, report);
    char text[512];
    uint32_t rank, step;
    snprintf(text, sizeof text, "%s", gcoll_last_error());
    if (status == GCOLL_OK || !file->lines || sscanf(text, "rank %u, step %u", &rank, &step) != 2)
        return status;
    return gcoll_error(status, "line %u: %s", file->lines[rank][step], text);
}
