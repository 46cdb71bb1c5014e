/* test/fuzz/fuzz_trace.c - files and texts of arrival times. */
#include "test/fuzz/fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tools/cli_arrival.h"
#include "tools/cli_value.h"

const char cli_program[] = "fuzz_trace";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static int fd = -1;
    static char named[64];
    cli_arrival arrival = {0};
    if (fd < 0) {
        fd = memfd_create("trace", MFD_CLOEXEC);
        MUST(fd >= 0);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* libFuzzer closes it by a flag */
        MUST(freopen("/dev/null", "w", stderr)); /* what the tool complains of */
#endif
        snprintf(named, sizeof named, "trace:/proc/self/fd/%d", fd);
    }
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    if (cli_arrival_parse("--arrival", named, &arrival)) {
        uint32_t rank;
        const uint32_t ranks = (uint32_t)arrival.trace_ranks;
        MUST(cli_arrival_fits("--arrival", &arrival, ranks));
        MUST(cli_arrival_most_ms(&arrival, ranks, &rank) >= 0 && rank < ranks);
        MUST(cli_arrival_ms(&arrival, ranks, ranks - 1, 12345) >= 0);
        cli_arrival_free(&arrival);
    }
    char *text = fuzz_text(data, bytes);
    cli_arrival other = {0};
    if (strncmp(text, "trace:", 6) != 0 && cli_arrival_parse("--arrival", text, &other)) {
        MUST(cli_arrival_ms(&other, 5, 3, 7) >= 0);
        cli_arrival_free(&other);
    }
    free(text);
    return 0;
}
