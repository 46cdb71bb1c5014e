/* test/fuzz/fuzz_dump.c - dumps of the flight recorder, as gcoll_trace reads them. */
#include "test/fuzz/fuzz.h"

#include "tools/cli_value.h"
#include "tools/trace/trace.h"

const char cli_program[] = "fuzz_dump";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static FILE *nothing;
    char named[64];
    char *paths[] = {named};
    trace_job job;
    if (!nothing)
        nothing = fopen("/dev/null", "we");
    MUST(nothing);
    snprintf(named, sizeof named, "%s", fuzz_file(data, bytes));
    if (!trace_read(1, paths, NULL, &job))
        return 0;
    MUST(job.count == 1 && job.ranks[0].rank < job.size);
    trace_align(&job);
    trace_report(&job, nothing);
    MUST(trace_write_perfetto(&job, nothing) && trace_write_page(&job, nothing));
    trace_free(&job);
    return 0;
}
