/* test/fuzz/fuzz_plan.c - files of plans, as gcoll_plan reads them: JSON, and schedules of MSCCL. What is
 * read is well-formed enough for the verifier, and is written and read again. */
#include "test/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tools/plan_file.h"

const char cli_program[] = "fuzz_plan";

#define MOST_RANKS 64u /* more take the verifier long */

static int fd = -1;
static char path[64];

static void open_file(void) {
    fd = memfd_create("plan", MFD_CLOEXEC);
    MUST(fd >= 0);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* libFuzzer closes it by a flag */
    MUST(freopen("/dev/null", "w", stderr));     /* what the tool complains of */
#endif
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
}

/* Writes plans and reads them again. */
static void go_round(const tool_plan_file *file) {
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
    if (fd < 0)
        open_file();
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    if (!tool_plan_file_read("--plan", path, NULL, &file))
        return 0;
    MUST(file.size > 0 && file.size <= GCOLL_MAX_RANKS);
    if (file.size <= MOST_RANKS)
        (void)tool_plan_file_verify(&file, &report);
    go_round(&file);
    tool_plan_file_free(&file);
    return 0;
}
