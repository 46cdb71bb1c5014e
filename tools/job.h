/* tools/job.h - the plans of all ranks. */
#ifndef GCOLL_TOOL_JOB_H
#define GCOLL_TOOL_JOB_H

#include "tools/shape.h"

typedef struct tool_job {
    uint32_t size;
    gcoll_plan **plans;
} tool_job;

/* The plans of all ranks. On failure *rank is the one whose plan could not be made, and there is nothing to
 * free. */
gcoll_status tool_job_create(const tool_shape *shape, tool_job *job, uint32_t *rank);
/* Says why it failed. */
void tool_job_complain(const tool_shape *shape, uint32_t rank);
void tool_job_free(tool_job *job);
gcoll_status tool_job_verify(const tool_job *job, gcoll_verify_report *report);

/* All plans; NULL plans: it has been said what is wrong. */
bool tool_job_of(const tool_shape *shape, tool_job *job);

#endif
