/*
 * gcoll/run/scale.c - options.prescale: the multiple of the input on which a run works.
 *
 * The plan does not know of the factor. Before the first step of each run, the input is read, multiplied, and
 * written to where the plan expects its input. For allreduce and at the root of reduce that is the output,
 * which has the input's size: the plan is then that of a call in place. Else it is memory of the run's own.
 * So the caller's input is written only by a call in place, and by that of reduce_scatter only as far as its
 * output goes.
 *
 * options.postscale is a matter of the plan, whose last steps multiply the result (gcoll_run_divide). If
 * there is but one contribution, there are no such steps, and the input is multiplied by both factors.
 */
#include <string.h>

#include "gcoll/run/engine.h"

#define MEMORY_ALIGNMENT 64 /* of each buffer's multiple: no two share a cache line */

/* Elements that are multiplied from one piece of memory to another, or the same. */
typedef struct piece {
    const char *from;
    char *to;
    uint64_t count;
} piece;

struct gcoll_multiple {
    const void **in; /* by buffer: what the run is bound to */
    void **out;
    piece *pieces;
    uint32_t count;
    gcoll_type type;
    double factors[2];
    char *memory; /* of the multiples that do not lie in outputs */
};

void gcoll_scale_destroy(gcoll_run *run) {
    gcoll_release(run->context, run->multiple, run->multiple_bytes);
    run->multiple = NULL;
    run->multiple_bytes = 0;
}

static uint64_t aligned(uint64_t bytes) {
    return (bytes + MEMORY_ALIGNMENT - 1) & ~(uint64_t)(MEMORY_ALIGNMENT - 1);
}

/* Makes run->multiple with room for so many pieces and, for each buffer, `own` bytes of elements. A run is
 * bound again and again to buffers of the same shape, so the memory is made once. */
static gcoll_status make_room(gcoll_run *run, uint32_t pieces, uint64_t own) {
    const uint32_t buffers = run->entry->call.buffers;
    const uint64_t head = aligned(sizeof(gcoll_multiple) + 2 * (uint64_t)buffers * sizeof(void *) +
                                  pieces * (uint64_t)sizeof(piece));
    uint64_t bytes;
    if (own > UINT64_MAX - MEMORY_ALIGNMENT || !gcoll_mul_u64(aligned(own), buffers, &bytes) ||
        bytes > PTRDIFF_MAX - head)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.prescale: %u buffers of %llu bytes, which are copied, exceed the address "
                           "space",
                           buffers, (unsigned long long)own);
    if (!run->multiple || run->multiple_bytes < head + bytes) {
        char *memory = gcoll_allocate(run->context, head + bytes);
        if (!memory)
            return GCOLL_ERR_NO_MEMORY;
        gcoll_scale_destroy(run);
        run->multiple = (gcoll_multiple *)(void *)memory;
        run->multiple_bytes = head + bytes;
    }
    gcoll_multiple *multiple = run->multiple;
    memset(multiple, 0, sizeof *multiple);
    multiple->in = (const void **)(multiple + 1);
    multiple->out = (void **)(uintptr_t)(multiple->in + buffers);
    multiple->pieces = (piece *)(multiple->out + buffers);
    multiple->memory = (char *)multiple + head;
    return GCOLL_OK;
}

static void add_piece(gcoll_multiple *multiple, const void *from, char *to, uint64_t count) {
    if (count > 0)
        multiple->pieces[multiple->count++] = (piece){from, to, count};
}

/* From the entries of a list, to those of another or, if that is NULL, one behind the other to memory. */
static void add_entries(gcoll_multiple *multiple, const gcoll_list *from, const gcoll_list *to,
                        uint64_t type_bytes) {
    for (uint32_t k = 0; k < from->entries; k++)
        add_piece(multiple, from->at[k],
                  to ? (char *)(uintptr_t)to->at[k] : multiple->memory + from->offsets[k] * type_bytes,
                  from->offsets[k + 1] - from->offsets[k]);
}

gcoll_status gcoll_scale_bind(gcoll_run *run, const gcoll_arguments *arguments, gcoll_buffers *bound) {
    const gcoll_problem *problem = &run->plan->problem;
    const gcoll_buffers *given = &arguments->buffers;
    const gcoll_list *list = arguments->was_in_place ? &given->out_list : &given->in_list;
    const bool in_output = problem->in_place, is_inner = arguments->was_in_place && !in_output;
    const uint64_t count = gcoll_problem_in_count(problem), own = in_output ? 0 : count * run->type_bytes;
    gcoll_status status =
        make_room(run, list->entries > problem->buffers ? list->entries : problem->buffers, own);
    if (status != GCOLL_OK)
        return status;
    gcoll_multiple *multiple = run->multiple;
    multiple->type = (gcoll_type)run->entry->call.type;
    memcpy(multiple->factors, arguments->factors, sizeof multiple->factors);
    if (list->entries > 0)
        add_entries(multiple, list, in_output ? &given->out_list : NULL, run->type_bytes);
    for (uint32_t k = 0; k < problem->buffers; k++) {
        const void *from = arguments->was_in_place ? given->out[k] : given->in[k];
        char *to = in_output ? given->out[k] : multiple->memory + k * aligned(own);
        if (list->entries == 0)
            add_piece(multiple, from, to, count);
        multiple->in[k] = to;
        multiple->out[k] = given->out[k];
        /* The output is a block of the input, and the plan expects the block alone. */
        if (is_inner && list->entries == 0 && count > 0)
            multiple->out[k] =
                (char *)given->out[k] + gcoll_block_begin(problem, problem->rank) * run->type_bytes;
    }
    *bound = *given;
    bound->in = multiple->in;
    bound->out = multiple->out;
    bound->in_list = (gcoll_list){0};
    if (is_inner)
        bound->out_list = (gcoll_list){0};
    return GCOLL_OK;
}

void gcoll_scale_input(const gcoll_run *run) {
    const gcoll_multiple *multiple = run->multiple;
    for (uint32_t i = 0; i < multiple->count; i++) {
        const piece *p = &multiple->pieces[i];
        gcoll_scale(p->to, p->from, p->count, multiple->type, multiple->factors[0]);
        if (multiple->factors[1] != 0)
            gcoll_scale(p->to, p->to, p->count, multiple->type, multiple->factors[1]);
    }
}

#if defined(__SANITIZE_ADDRESS__)
gcoll_status gcoll_scale_check(const gcoll_run *run) {
    const gcoll_multiple *multiple = run->multiple;
    gcoll_status status = GCOLL_OK;
    for (uint32_t i = 0; i < multiple->count && status == GCOLL_OK; i++)
        status = gcoll_run_check_piece(multiple->pieces[i].from, multiple->pieces[i].count * run->type_bytes);
    return status;
}
#endif
