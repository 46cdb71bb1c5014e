/* test/fuzz/fuzz_view.c - what processes say at their sockets, as gcoll_top reads it. */
#include "test/fuzz/fuzz.h"

#include <string.h>

#include "tools/cli_value.h"
#include "tools/top/top.h"

const char cli_program[] = "fuzz_view";

static void count_line(void *arg, int emphasis, const char *line) {
    size_t *length = arg;
    MUST(emphasis >= 0 && emphasis <= 2);
    for (; *line; line++, ++*length)
        MUST((unsigned char)*line >= 0x20 && (unsigned char)*line < 0x7f); /* nothing that a terminal heeds */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static FILE *nothing;
    const top_answer answer = {7, 7, "/tmp/7.sock", (const char *)data, bytes};
    top_view view = {.at = 1000};
    size_t length = 0;
    if (!nothing) {
        nothing = fopen("/dev/null", "we");
        MUST(nothing);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* libFuzzer closes it by a flag */
        MUST(freopen("/dev/null", "w", stderr)); /* what the tool complains of */
#endif
    }
    MUST(top_read(&answer, &view));
    for (size_t i = 0; i < view.count; i++)
        MUST(view.contexts[i].who.rank < view.contexts[i].who.size);
    top_print(&view, "/tmp", count_line, &length);
    MUST(length > 0 && top_print_json(&view, nothing));
    top_free(&view);
    return 0;
}
