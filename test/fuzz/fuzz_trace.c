/* test/fuzz/fuzz_trace.c - files and texts of arrival times. */
#include "test/fuzz/fuzz.h"

#include "tools/cli_arrival.h"
#include "tools/cli_value.h"

const char cli_program[] = "fuzz_trace";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    char named[64];
    cli_arrival arrival = {0};
    snprintf(named, sizeof named, "trace:%s", fuzz_file(data, bytes));
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
