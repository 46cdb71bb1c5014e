/* test/fuzz/fuzz_plan.c - files of plans, as gcoll_plan reads them: JSON, and schedules of MSCCL. What is
 * read is well-formed enough for the verifier, and is written and read again. */
#include "test/fuzz/fuzz.h"

#include "tools/plan_file.h"

const char cli_program[] = "fuzz_plan";

#define MOST_RANKS 64u /* more take the verifier long */

/* Writes plans and reads them again. */
static void go_round(const tool_plan_file *file, const char *path) {
    tool_plan_file again = {0};
    FILE *to = fopen(path, "we");
    MUST(to && tool_plan_file_write(to, file->name, (const gcoll_plan *const *)file->plans, file->size));
    MUST(fclose(to) == 0);
    MUST(tool_plan_file_read("--plan", path, NULL, &again));
    MUST(again.size == file->size);
    for (uint32_t r = 0; r < file->size; r++)
        MUST(again.plans[r]->step_count == file->plans[r]->step_count);
    tool_plan_file_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    tool_plan_file file = {0};
    gcoll_verify_report report;
    const char *path = fuzz_file(data, bytes);
    if (!tool_plan_file_read("--plan", path, NULL, &file))
        return 0;
    MUST(file.size > 0 && file.size <= GCOLL_MAX_RANKS);
    if (file.size <= MOST_RANKS)
        (void)tool_plan_file_verify(&file, &report);
    go_round(&file, path);
    tool_plan_file_free(&file);
    return 0;
}
