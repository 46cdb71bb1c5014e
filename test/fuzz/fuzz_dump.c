/* test/fuzz/fuzz_dump.c - dumps of the flight recorder, as gcoll_trace reads them. */
#include "test/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tools/cli_value.h"
#include "tools/trace/trace.h"

const char cli_program[] = "fuzz_dump";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static int fd = -1;
    static char named[64];
    static FILE *nothing;
    char *paths[] = {named};
    trace_job job;
    if (fd < 0) {
        fd = memfd_create("dump", MFD_CLOEXEC);
        nothing = fopen("/dev/null", "we");
        MUST(fd >= 0 && nothing);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* libFuzzer closes it by a flag */
        MUST(freopen("/dev/null", "w", stderr)); /* what the tool complains of */
#endif
        snprintf(named, sizeof named, "/proc/self/fd/%d", fd);
    }
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    if (!trace_read(1, paths, NULL, &job))
        return 0;
    MUST(job.count == 1 && job.ranks[0].rank < job.size);
    trace_align(&job);
    trace_report(&job, nothing);
    MUST(trace_write_perfetto(&job, nothing) && trace_write_page(&job, nothing));
    trace_free(&job);
    return 0;
}
