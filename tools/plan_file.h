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

/* A plan as its file has it, before anything is made of it. */
typedef struct tool_plan_draft {
    gcoll_problem problem; /* the tables that it points to are the draft's own */
    gcoll_step *steps;
    uint32_t *after_end; /* by step: where its part of `after` ends, which begins where that of the step
                            before ends */
    uint32_t *after;     /* the steps that it waits for */
    uint16_t *operands;
    void *tables;
    uint32_t step_count, step_room, after_room, operand_count, operand_room;
    uint64_t scratch;
    uint32_t window, divisor;
    bool failed; /* there was no memory for all of it */
} tool_plan_draft;

/* Plans as a file has them. All zero: nothing was read, and there is nothing to free. */
typedef struct tool_plan_file {
    char name[TOOL_PLAN_NAME_BYTES]; /* of the algorithm; printable */
    uint32_t size;
    tool_plan_draft *drafts; /* by rank */
    gcoll_plan **plans;      /* by rank; NULL: none were made */
    bool is_open;            /* the file is for any multiple of its elements, an element a chunk */
    uint32_t **lines;        /* by rank and step: the line of the file that it came from; NULL: not known */
} tool_plan_file;

/* Reads drafts from a file of plans, whose format is told by its first character: `<` begins a schedule of
 * MSCCL, everything else is JSON. `elements` says how long the vector is where the file leaves that open, as
 * schedules do; NULL: an element a chunk. On success *file is replaced. False: it has been said what is
 * wrong, with rank and step, or with the line. */
bool tool_plan_file_drafts(const char *flag, const char *path, const uint64_t *elements,
                           tool_plan_file *file);
/* Reads drafts and makes plans of them (plan_make.c). Each plan is well-formed, but nothing is proved of them
 * together. */
bool tool_plan_file_read(const char *flag, const char *path, const uint64_t *elements, tool_plan_file *file);
void tool_plan_file_free(tool_plan_file *file);

/* Proves the plans by gcoll_verify. Where the last error names a step whose line is known, it names that,
 * too. */
gcoll_status tool_plan_file_verify(const tool_plan_file *file, gcoll_verify_report *report);

/* Writes the plans of all ranks as JSON, a step a line. False: out of memory. */
bool tool_plan_file_write(FILE *to, const char *name, const gcoll_plan *const *plans, uint32_t size);

/* ---- Drafts (plan_draft.c) --------------------------------------------------------------------------- */

/* Begins an empty draft. On failure, and if a later call failed, `failed` is set. */
void tool_draft_begin(tool_plan_draft *draft, const gcoll_problem *problem);
/* Reserves scratch and returns its place. */
gcoll_ref tool_draft_scratch(tool_plan_draft *draft, uint64_t count);
/* Appends a step, as gcoll_plan_step does. */
void tool_draft_step(tool_plan_draft *draft, const gcoll_step *step, const uint16_t *operands,
                     const uint32_t *after, uint32_t after_count);
/* The name of a place in finished plans: in place, a place of IN is one of OUT. */
gcoll_ref tool_draft_canonical(const tool_plan_draft *draft, gcoll_ref ref);
void tool_draft_free(tool_plan_draft *draft);

/* ---- The readers of the formats: they read a whole text, and set the problem on failure -------------- */

typedef struct tool_plan_text {
    field_reader fields;
    const char *text;
    size_t bytes;
    const uint64_t *elements;
    tool_plan_file *to; /* its drafts are freed by the caller, also on failure */
} tool_plan_text;

bool tool_plan_read_json(tool_plan_text *from);  /* plan_json.c */
bool tool_plan_read_msccl(tool_plan_text *from); /* plan_msccl.c, or plan_msccl_absent.c */

#ifdef __cplusplus
}
#endif

#endif
