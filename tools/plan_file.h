/* tools/plan_file.h - files that hold the plans of all ranks (docs/plans-as-files.md). */
#ifndef GCOLL_TOOL_PLAN_FILE_H
#define GCOLL_TOOL_PLAN_FILE_H

#include <stdio.h>

#include "gcoll/plan/steps.h"
#include "tools/fields.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TOOL_PLAN_VERSION     1
#define TOOL_PLAN_VERSION_KEY "gcoll_plan"
#define TOOL_PLAN_NAME_BYTES  128
#define TOOL_PLAN_MOST_COUNT  (UINT64_C(1) << 40) /* elements of a vector or of scratch: as of --count */

/* The names of spaces in files, by gcoll_space. Steps have those of gcoll_step_kind_name. */
extern const char *const tool_plan_spaces[3];

/* Plans as a file has them. All zero: nothing was read, and there is nothing to free. */
typedef struct tool_plan_file {
    char name[TOOL_PLAN_NAME_BYTES]; /* of the algorithm; printable */
    uint32_t size;
    gcoll_plan **plans; /* by rank */
    uint32_t **lines;   /* by rank and step: the line of the file that it came from; NULL: not known */
} tool_plan_file;

/* Reads a file of plans by its first character: `<` begins a schedule of MSCCL, everything else is JSON.
 * `elements` says how long the vector is where the file leaves that open, as schedules do; NULL: an element
 * a chunk. Each plan is well-formed, but nothing is proved of them together. On success *file is replaced.
 * False: it has been said what is wrong, with rank and step, or with the line. */
bool tool_plan_file_read(const char *flag, const char *path, const uint64_t *elements, tool_plan_file *file);
void tool_plan_file_free(tool_plan_file *file);

/* Proves the plans by gcoll_verify. Where the last error names a step whose line is known, it names that,
 * too. */
gcoll_status tool_plan_file_verify(const tool_plan_file *file, gcoll_verify_report *report);

/* Writes the plans of all ranks as JSON, a step a line. False: out of memory. */
bool tool_plan_file_write(FILE *to, const char *name, const gcoll_plan *const *plans, uint32_t size);

/* ---- The readers of the formats: they read a whole text, and set the problem on failure -------------- */

typedef struct tool_plan_text {
    field_reader fields;
    const char *text;
    size_t bytes;
    const uint64_t *elements;
    tool_plan_file *to; /* its plans are freed by the caller, also on failure */
} tool_plan_text;

bool tool_plan_read_json(tool_plan_text *from);  /* plan_json.c */
bool tool_plan_read_msccl(tool_plan_text *from); /* plan_msccl.c, or plan_msccl_absent.c */

#ifdef __cplusplus
}
#endif

#endif
