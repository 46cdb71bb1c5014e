/* tools/job.c - the plans of all ranks of a job. */
#include <stdlib.h>

#include "tools/job.h"
#include "tools/words.h"

/* ---- Uneven blocks ---------------------------------------------------------------------------------------
 */

/* Elements that rank `from` has for rank `to` in an alltoall. */
static uint64_t pair_count(const tool_shape *shape, uint32_t from, uint32_t to) {
    const gcoll_problem *p = &shape->problem;
    if (shape->blocks == TOOL_ONE)
        return to == p->size / 2 ? p->count : 0;
    uint64_t weight = (from * UINT64_C(3) + to * UINT64_C(5) + 1) % 4, odd = (from + to) % 2;
    return weight == 0 || p->count == 0 ? 0 : p->count / p->size * weight / 2 + odd;
}

/* The size of block r, in parts of all. */
static uint64_t weight_of(const tool_shape *shape, uint32_t r) {
    if (shape->blocks == TOOL_ONE)
        return r == shape->problem.size / 2 ? 1 : 0;
    return (r * UINT64_C(7) + 3) % 5;
}

static void cut(const tool_shape *shape, uint64_t *offsets) {
    const uint32_t size = shape->problem.size;
    uint64_t all = 0, sum = 0;
    for (uint32_t r = 0; r < size; r++)
        all += weight_of(shape, r);
    for (uint32_t r = 0; r < size && all > 0; r++) { /* which it always is */
        offsets[r] = (uint64_t)((unsigned __int128)shape->problem.count * sum / all);
        sum += weight_of(shape, r);
    }
    offsets[size] = shape->problem.count;
}

/* Fills in the offsets of a rank; `offsets` has room for two tables. */
static void cut_blocks(const tool_shape *shape, gcoll_problem *p, uint64_t *offsets) {
    uint64_t *received = offsets + p->size + 1;
    p->offsets = offsets;
    if (p->collective != GCOLL_ALLTOALL) {
        cut(shape, offsets);
        return;
    }
    offsets[0] = received[0] = 0;
    for (uint32_t r = 0; r < p->size; r++) {
        offsets[r + 1] = offsets[r] + pair_count(shape, p->rank, r);
        received[r + 1] = received[r] + pair_count(shape, r, p->rank);
    }
    p->recv_offsets = received;
    p->count = offsets[p->size];
}

/* ---- Plans ----------------------------------------------------------------------------------------------
 */

gcoll_status tool_job_create(const tool_shape *shape, tool_job *job, uint32_t *rank) {
    const uint32_t size = shape->problem.size;
    uint64_t *offsets = calloc(2 * ((size_t)size + 1), sizeof *offsets);
    tool_job made = {size, calloc(size, sizeof(gcoll_plan *))};
    gcoll_status status = GCOLL_OK;
    const gcoll_traits traits = gcoll_collective_traits(shape->problem.collective);
    *rank = 0;
    if (!offsets || !made.plans)
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %u plans", size);
    for (uint32_t r = 0; r < size && status == GCOLL_OK; r++) {
        gcoll_problem p = shape->problem;
        p.rank = *rank = r;
        p.in_place = p.in_place && traits.takes_in_place && (!traits.in_place_at_root || r == p.root);
        if (shape->blocks != TOOL_EVEN)
            cut_blocks(shape, &p, offsets);
        status = gcoll_plan_create(shape->choice.algorithm, &p, &made.plans[r]);
    }
    free(offsets);
    if (status == GCOLL_OK)
        *job = made;
    else
        tool_job_free(&made);
    return status;
}

void tool_job_free(tool_job *job) {
    for (uint32_t r = 0; job->plans && r < job->size; r++)
        gcoll_plan_destroy(job->plans[r]);
    free(job->plans);
    job->plans = NULL;
}

gcoll_status tool_job_verify(const tool_job *job, gcoll_verify_report *report) {
    return gcoll_verify((const gcoll_plan *const *)job->plans, job->size, report);
}

bool tool_job_of(const tool_shape *shape, tool_job *job) {
    uint32_t rank;
    if (tool_job_create(shape, job, &rank) == GCOLL_OK)
        return true;
    tool_job_complain(shape, rank);
    return false;
}

void tool_job_complain(const tool_shape *shape, uint32_t rank) {
    char text[TOOL_TEXT];
    tool_shape_text(shape, NULL, text);
    cli_complain("%s of %s: rank %u: %s", shape->choice.algorithm->name, text, rank, gcoll_last_error());
}
