/* tools/plan_file.c - opens files of plans, and tells their formats apart. */
#include "tools/plan_file.h"

#include <ctype.h>
#include <stdlib.h>

#include "tools/cli.h"

#define MOST_BYTES ((size_t)64 << 20) /* a ring of 256 ranks has 30 MB */

bool tool_plan_file_read(const char *flag, const char *path, const uint64_t *elements, tool_plan_file *file) {
    tool_plan_file made = {0};
    tool_plan_text from = {.fields = {.path = path}, .elements = elements, .to = &made};
    char *text = field_load(&from.fields, MOST_BYTES, &from.bytes);
    from.text = text;
    const bool good = text && tool_plan_read_json(&from);
    free(text);
    if (good) {
        *file = made;
    } else {
        cli_complain("%s: plan file '%s': %s", flag, path, from.fields.problem);
        tool_plan_file_free(&made);
    }
    return good;
}

void tool_plan_file_free(tool_plan_file *file) {
    for (uint32_t r = 0; file->plans && r < file->size; r++)
        gcoll_plan_destroy(file->plans[r]);
    free(file->plans);
    *file = (tool_plan_file){0};
}
