/*
 * gcoll/run/keep.c - options.keep_input: a copy of the input of a call in place, which is written back if the
 * call fails.
 *
 * The plan says which elements of the input its steps overwrite; no others are copied. So an allreduce copies
 * all of its vector, a reduce_scatter this rank's block, and an allgather mostly nothing. The copy is taken
 * before the first step. It is written back when the call has ended with an error and the transport has
 * dropped the run's messages.
 */
#include <string.h>

#include "gcoll/run/engine.h"

/* A part of the input in one piece of memory. */
typedef struct piece {
    char *at;
    uint64_t bytes;
} piece;

/* Elements of a buffer that steps overwrite, from the first to the last. */
typedef struct span {
    uint64_t begin, end;
} span;

struct gcoll_keep {
    uint64_t memory_bytes; /* of this struct and its arrays */
    span *spans;           /* by buffer */
    piece *pieces;
    uint32_t most, count; /* pieces */
    char *copy;           /* run->keep_bytes of them */
};

static gcoll_status create(gcoll_run *run) {
    const gcoll_call *call = &run->entry->call;
    const uint32_t most = call->out_list > call->buffers ? call->out_list : call->buffers;
    const uint64_t bytes =
        sizeof(gcoll_keep) + most * (uint64_t)sizeof(piece) + call->buffers * (uint64_t)sizeof(span);
    gcoll_keep *keep = gcoll_allocate_zeroed(run->context, bytes);
    if (!keep)
        return GCOLL_ERR_NO_MEMORY;
    keep->memory_bytes = bytes;
    keep->most = most;
    keep->pieces = (piece *)(keep + 1);
    keep->spans = (span *)(keep->pieces + most);
    run->keep = keep;
    return GCOLL_OK;
}

void gcoll_keep_destroy(gcoll_run *run) {
    if (!run->keep)
        return;
    gcoll_release(run->context, run->keep->copy, run->keep_bytes);
    gcoll_release(run->context, run->keep, run->keep->memory_bytes);
    run->keep = NULL;
    run->keep_bytes = 0;
}

/* ---- The elements that are overwritten ------------------------------------------------------ */

/* Whether buffer k has an input. Of a broadcast, only the root's first one has. */
static bool has_input(const gcoll_problem *problem, uint32_t k) {
    return problem->collective != GCOLL_BROADCAST || (problem->rank == problem->root && k == 0);
}

static void find_spans(const gcoll_run *run) {
    const gcoll_plan *plan = run->plan;
    const gcoll_problem *problem = &plan->problem;
    const uint64_t first = gcoll_problem_in_shift(problem), last = first + gcoll_problem_in_count(problem);
    span *spans = run->keep->spans;
    memset(spans, 0, problem->buffers * sizeof *spans);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        if (step->kind == GCOLL_STEP_SEND || step->dst.space != GCOLL_OUT ||
            !has_input(problem, step->dst.index))
            continue;
        const uint64_t end = step->dst.offset + step->count;
        const span cut = {step->dst.offset > first ? step->dst.offset : first, end < last ? end : last};
        span *whole = &spans[step->dst.index];
        if (cut.begin >= cut.end)
            continue;
        if (whole->begin == whole->end) {
            *whole = cut;
            continue;
        }
        whole->begin = cut.begin < whole->begin ? cut.begin : whole->begin;
        whole->end = cut.end > whole->end ? cut.end : whole->end;
    }
}

static void add_piece(gcoll_keep *keep, const void *buffer, uint64_t from, uint64_t bytes) {
    if (bytes > 0)
        keep->pieces[keep->count++] = (piece){(char *)(uintptr_t)buffer + from, bytes};
}

/* The part of a span in each buffer of a list. */
static void add_entries(gcoll_keep *keep, const gcoll_list *list, span part, uint64_t type_bytes) {
    for (uint32_t k = 0; k < list->entries; k++) {
        const uint64_t first = list->offsets[k], last = list->offsets[k + 1];
        const uint64_t begin = part.begin > first ? part.begin : first,
                       end = part.end < last ? part.end : last;
        if (begin < end)
            add_piece(keep, list->at[k], (begin - first) * type_bytes, (end - begin) * type_bytes);
    }
}

gcoll_status gcoll_keep_bind(gcoll_run *run, const gcoll_buffers *buffers) {
    gcoll_status status = run->keep ? GCOLL_OK : create(run);
    if (status != GCOLL_OK)
        return status;
    gcoll_keep *keep = run->keep;
    keep->count = 0;
    find_spans(run);
    for (uint32_t k = 0; k < run->plan->problem.buffers; k++) {
        const span part = keep->spans[k];
        if (buffers->out_list.entries > 0)
            add_entries(keep, &buffers->out_list, part, run->type_bytes);
        else
            add_piece(keep, buffers->out[k], part.begin * run->type_bytes,
                      (part.end - part.begin) * run->type_bytes);
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < keep->count; i++)
        bytes += keep->pieces[i].bytes;
    if (bytes > 0 && gcoll_problem_is_staged(&run->plan->problem))
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "options.keep_input: is set for a call in place in device memory; allowed are "
                           "buffers in host memory, or an output apart from the input");
    if (bytes <= run->keep_bytes)
        return GCOLL_OK;
    char *copy = gcoll_allocate(run->context, bytes);
    if (!copy)
        return GCOLL_ERR_NO_MEMORY;
    gcoll_release(run->context, keep->copy, run->keep_bytes);
    keep->copy = copy;
    run->keep_bytes = bytes;
    return GCOLL_OK;
}

/* ---- The copy ------------------------------------------------------------------------------- */

void gcoll_keep_take(gcoll_run *run) {
    const gcoll_keep *keep = run->keep;
    char *to = keep->copy;
    for (uint32_t i = 0; i < keep->count; i++) {
        memcpy(to, keep->pieces[i].at, keep->pieces[i].bytes);
        to += keep->pieces[i].bytes;
    }
    run->holds = keep->count > 0;
}

/* A forked child must not write to memory that it may share with its parent. */
void gcoll_keep_restore(gcoll_run *run) {
    const gcoll_keep *keep = run->keep;
    if (!run->holds || gcoll_is_forked(run->context))
        return;
    run->holds = false;
    const char *from = keep->copy;
    for (uint32_t i = 0; i < keep->count; i++) {
        memcpy(keep->pieces[i].at, from, keep->pieces[i].bytes);
        from += keep->pieces[i].bytes;
    }
}
