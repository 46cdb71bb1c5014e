/* tools/plan_file.c - opens files of plans, and tells their formats apart. */
#include "tools/plan_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"

#define MOST_BYTES ((size_t)64 << 20) /* a ring of 256 ranks has 30 MB */

bool tool_plan_file_drafts(const char *flag, const char *path, const uint64_t *elements,
                           tool_plan_file *file) {
    tool_plan_file made = {0};
    tool_plan_text from = {.fields = {.path = path}, .elements = elements, .to = &made};
    char *text = field_load(&from.fields, MOST_BYTES, &from.bytes);
    from.text = text;
    const bool is_xml = text && text[strspn(text, " \t\r\n")] == '<';
    const bool good = text && (is_xml ? tool_plan_read_msccl(&from) : tool_plan_read_json(&from));
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
    for (uint32_t r = 0; file->drafts && r < file->size; r++)
        tool_draft_free(&file->drafts[r]);
    for (uint32_t r = 0; file->lines && r < file->size; r++)
        free(file->lines[r]);
    free(file->drafts);
    free(file->plans);
    free(file->lines);
    *file = (tool_plan_file){0};
}
