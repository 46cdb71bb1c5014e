/* test/fuzz/fuzz_options.c - texts of options: transports with their lanes' options, algorithms, and tuning
 * files. The first byte says which. */
#include "test/fuzz/fuzz.h"

#include "algorithms/algorithms.h"
#include "algorithms/select/tuning_file.h"
#include "transport/choice.h"

static void lanes(const char *text, size_t bytes) {
    gcoll_lane_choice *choices = NULL;
    uint32_t count = 0;
    (void)bytes;
    if (gcoll_lanes_parse(gcoll_lane_rows, "the input", text, &choices, &count) == GCOLL_OK) {
        for (uint32_t i = 0; i < count; i++)
            MUST(choices[i].lane && choices[i].lane->name);
        free(choices);
    }
}

static void algorithm(const char *text, size_t bytes) {
    char again[256], third[256];
    gcoll_choice choice, back;
    (void)bytes;
    static const gcoll_registry registry; /* no more than the table */
    if (gcoll_choice_parse(&registry, text, GCOLL_ALLREDUCE, &choice) != GCOLL_OK || !choice.algorithm)
        return;
    gcoll_choice_format(&choice, again, sizeof again);
    MUST(gcoll_choice_parse(&registry, again, GCOLL_ALLREDUCE, &back) == GCOLL_OK);
    gcoll_choice_format(&back, third, sizeof third);
    MUST(strcmp(again, third) == 0);
}

static void tuning(const char *text, size_t bytes) {
    gcoll_tuning file = {0};
    if (gcoll_tuning_parse(text, bytes, "the input", &file) != GCOLL_OK)
        return;
    for (uint32_t i = 0; i < file.section_count; i++) {
        const gcoll_tuning_section *section = &file.sections[i];
        bool exact;
        MUST(section->first + section->count <= file.rule_count);
        MUST(gcoll_tuning_section_for(&file, section->transport, section->ranks, section->local, &exact) &&
             exact);
        gcoll_tuning_rule_for(&file, section, GCOLL_ALLREDUCE, 1000);
    }
    gcoll_tuning_free(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static void (*const readers[])(const char *, size_t) = {lanes, algorithm, tuning};
    if (bytes == 0)
        return 0;
    char *text = fuzz_text(data + 1, bytes - 1);
    readers[data[0] % 3](text, bytes - 1);
    free(text);
    return 0;
}
