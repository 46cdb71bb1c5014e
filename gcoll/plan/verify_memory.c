/*
 * gcoll/plan/verify_memory.c - symbolic memory: the value of each element of each rank, and the effect of
 * steps.
 *
 * A memory is a list of pieces; the elements of a piece hold the same value. A piece records by how much its
 * elements are displaced. So data at a wrong offset is noticed when it is combined with other data, or when
 * it is part of the result. A step costs one move for each piece in its range.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/verify_internal.h"

#define FIRST_ROOM 8u

typedef gcoll_verify_piece piece_t;
typedef gcoll_verify_pieces pieces_t;

static pieces_t *memory_of(const gcoll_verifier *v, uint32_t rank, gcoll_ref ref) {
    return &v->memories[v->memory_at[rank] + gcoll_verify_memory_index(&v->plans[rank]->problem, ref)];
}

/* Index of the last piece that begins at or before offset. */
static uint64_t locate(const pieces_t *list, uint64_t offset) {
    uint64_t low = 0, high = list->count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (list->at[middle].begin <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

gcoll_status gcoll_verify_append(pieces_t *list, piece_t piece) {
    if (list->count > 0 && list->at[list->count - 1].value == piece.value &&
        list->at[list->count - 1].shift == piece.shift)
        return GCOLL_OK;
    gcoll_status status = gcoll_verify_reserve(&list->at, &list->room, list->count + 1, sizeof(piece_t));
    if (!status)
        list->at[list->count++] = piece;
    return status;
}

/* Copies the pieces of a range to `list`, with offsets from the range's start. Fails if an element was never
 * written. */
static gcoll_status load(const gcoll_verifier *v, uint32_t rank, uint32_t step, gcoll_ref ref, uint64_t count,
                         pieces_t *list) {
    const pieces_t *memory = memory_of(v, rank, ref);
    list->count = 0;
    list->size = count;
    for (uint64_t i = locate(memory, ref.offset);
         i < memory->count && memory->at[i].begin < ref.offset + list->size; i++) {
        piece_t piece = memory->at[i];
        uint64_t begin = piece.begin > ref.offset ? piece.begin : ref.offset;
        if (piece.value == GCOLL_VERIFY_UNSET) {
            char name[GCOLL_VERIFY_TEXT];
            const gcoll_problem *problem = &v->plans[rank]->problem;
            gcoll_verify_memory_name(problem, gcoll_verify_memory_index(problem, ref), name);
            return gcoll_verify_fail(
                v, rank, step, "reads %s element %" PRIu64 ", which holds no data at that time", name, begin);
        }
        piece.begin = begin - ref.offset;
        piece.shift += ref.offset;
        gcoll_status status = gcoll_verify_append(list, piece);
        if (status)
            return status;
    }
    return GCOLL_OK;
}

/* Makes a piece begin at offset, and returns its index. At the end of the memory, nothing is cut. */
static gcoll_status cut(pieces_t *memory, uint64_t offset, uint64_t *index) {
    uint64_t i = locate(memory, offset);
    *index = i;
    if (memory->at[i].begin == offset)
        return GCOLL_OK;
    *index = i + 1;
    if (offset == memory->size)
        return GCOLL_OK;
    gcoll_status status =
        gcoll_verify_reserve(&memory->at, &memory->room, memory->count + 1, sizeof(piece_t));
    if (status)
        return status;
    piece_t *at = &memory->at[i + 1];
    memmove(at + 1, at, (memory->count - i - 1) * sizeof *at);
    at[0] = at[-1];
    at[0].begin = offset;
    memory->count++;
    return GCOLL_OK;
}

/* Drops piece i if it goes on where the one before it ends. */
static void fuse(pieces_t *memory, uint64_t i) {
    if (i == 0 || i >= memory->count || memory->at[i].value != memory->at[i - 1].value ||
        memory->at[i].shift != memory->at[i - 1].shift)
        return;
    memmove(&memory->at[i], &memory->at[i + 1], (memory->count - i - 1) * sizeof(piece_t));
    memory->count--;
}

/* Writes a list of pieces to the place that ref names. */
static gcoll_status store(const gcoll_verifier *v, uint32_t rank, gcoll_ref ref, const pieces_t *list) {
    pieces_t *memory = memory_of(v, rank, ref);
    uint64_t from, to;
    gcoll_status status = cut(memory, ref.offset, &from);
    if (!status)
        status = cut(memory, ref.offset + list->size, &to);
    if (!status)
        status =
            gcoll_verify_reserve(&memory->at, &memory->room, memory->count + list->count, sizeof(piece_t));
    if (status)
        return status;
    memmove(&memory->at[from + list->count], &memory->at[to], (memory->count - to) * sizeof(piece_t));
    memory->count = memory->count - (to - from) + list->count;
    for (uint64_t i = 0; i < list->count; i++) {
        piece_t piece = list->at[i];
        piece.begin += ref.offset;
        piece.shift -= ref.offset;
        memory->at[from + i] = piece;
    }
    fuse(memory, from + list->count);
    fuse(memory, from);
    return GCOLL_OK;
}

/* list[2] = list[0] op list[1]; list[2] is complete only on success. */
static gcoll_status combine(gcoll_verifier *v, uint32_t rank, uint32_t step) {
    const pieces_t *left = &v->list[0], *right = &v->list[1];
    pieces_t *result = &v->list[2];
    uint64_t i = 0, j = 0, at = 0;
    result->count = 0;
    result->size = left->size;
    while (at < result->size) {
        piece_t x = left->at[i], y = right->at[j], piece = {at, x.shift, 0};
        if (x.shift != y.shift)
            return gcoll_verify_fail(v, rank, step,
                                     "combines element %" PRIu64 " of the vector with element %" PRIu64,
                                     at + x.shift, at + y.shift);
        gcoll_status status = gcoll_verify_combine(v, rank, step, x.value, y.value, &piece.value);
        if (!status)
            status = gcoll_verify_append(result, piece);
        if (status)
            return status;
        uint64_t x_end = gcoll_verify_end(left, i), y_end = gcoll_verify_end(right, j);
        at = x_end < y_end ? x_end : y_end;
        i += x_end == at;
        j += y_end == at;
    }
    return GCOLL_OK;
}

static gcoll_status divide(gcoll_verifier *v, uint32_t rank, uint32_t step) {
    const gcoll_plan *plan = v->plans[rank];
    if (!plan->problem.average)
        return gcoll_verify_fail(v, rank, step, "divides, but this is no average");
    gcoll_status status = load(v, rank, step, plan->steps[step].dst, plan->steps[step].count, &v->list[2]);
    for (uint64_t i = 0; !status && i < v->list[2].count; i++)
        status = gcoll_verify_divide(v, rank, step, v->list[2].at[i].value, &v->list[2].at[i].value);
    return status;
}

/* list[2] = the reduction of all operands, from the first to the last. */
static gcoll_status fold(gcoll_verifier *v, uint32_t rank, uint32_t step) {
    const gcoll_plan *plan = v->plans[rank];
    const gcoll_step *s = &plan->steps[step];
    gcoll_status status = load(v, rank, step, gcoll_verify_access_at(plan, s, 0).ref, s->count, &v->list[2]);
    for (uint32_t i = 1; i < s->operand_count && !status; i++) {
        const pieces_t left = v->list[2];
        v->list[2] = v->list[0];
        v->list[0] = left;
        status = load(v, rank, step, gcoll_verify_access_at(plan, s, i).ref, s->count, &v->list[1]);
        if (!status)
            status = combine(v, rank, step);
    }
    return status;
}

gcoll_status gcoll_verify_apply(gcoll_verifier *v, uint32_t rank, uint32_t step) {
    const gcoll_step *s = &v->plans[rank]->steps[step];
    const gcoll_problem *problem = &v->plans[rank]->problem;
    gcoll_status status;
    if (s->kind == GCOLL_STEP_DIVIDE) {
        status = divide(v, rank, step);
    } else if (s->kind == GCOLL_STEP_COPY) {
        status = load(v, rank, step, s->a, s->count, &v->list[2]);
    } else if (s->kind == GCOLL_STEP_FOLD) {
        status = fold(v, rank, step);
    } else if (s->kind == GCOLL_STEP_ENCODE) {
        status = load(v, rank, step, s->a, s->count, &v->list[2]);
        if (!status)
            status = gcoll_verify_encode(v, &v->list[2]);
    } else if (s->kind == GCOLL_STEP_DECODE) {
        status = load(v, rank, step, s->a, gcoll_step_a_count(problem, s), &v->list[2]);
        if (!status)
            status = gcoll_verify_decode(v, rank, step, s->count, &v->list[2]);
    } else {
        const bool swaps = s->kind == GCOLL_STEP_DECODE_REDUCE && s->received_first;
        pieces_t *b = &v->list[swaps ? 0 : 1];
        status = load(v, rank, step, s->a, s->count, &v->list[swaps ? 1 : 0]);
        if (!status)
            status = load(v, rank, step, s->b, gcoll_step_b_count(problem, s), b);
        if (!status && s->kind == GCOLL_STEP_DECODE_REDUCE)
            status = gcoll_verify_decode(v, rank, step, s->count, b);
        if (!status)
            status = combine(v, rank, step);
    }
    return status ? status : store(v, rank, s->dst, &v->list[2]);
}

gcoll_status gcoll_verify_transfer(gcoll_verifier *v, uint32_t sender, uint32_t send, uint32_t receiver,
                                   uint32_t receive) {
    const gcoll_step *s = &v->plans[receiver]->steps[receive];
    if (s->count == 0)
        return GCOLL_OK;
    uint32_t received = s->received_first ? 0 : 1;
    bool reduces = s->kind == GCOLL_STEP_RECV_REDUCE;
    pieces_t *into = reduces ? &v->list[received] : &v->list[2];
    gcoll_status status = load(v, sender, send, v->plans[sender]->steps[send].a, s->count, into);
    if (!status && reduces)
        status = load(v, receiver, receive, s->a, s->count, &v->list[1 - received]);
    if (!status && reduces)
        status = combine(v, receiver, receive);
    return status ? status : store(v, receiver, s->dst, &v->list[2]);
}

static gcoll_status create_memory(pieces_t *memory, uint64_t size) {
    gcoll_status status = gcoll_verify_reserve(&memory->at, &memory->room, FIRST_ROOM, sizeof(piece_t));
    if (status)
        return status;
    memory->at[0] = (piece_t){0, 0, GCOLL_VERIFY_UNSET};
    memory->count = 1;
    memory->size = size;
    return GCOLL_OK;
}

/* Buffer k of IN holds the rank's contribution k. In a broadcast only buffer 0 counts. */
static gcoll_status fill_input(const gcoll_verifier *v, uint32_t rank, uint32_t k, uint64_t position) {
    const gcoll_problem *problem = &v->plans[rank]->problem;
    piece_t piece = {0, position, gcoll_verify_leaf(v, rank, k)};
    pieces_t input = {&piece, 1, 1, gcoll_problem_in_count(problem)};
    if (input.size == 0 || (problem->collective == GCOLL_BROADCAST && k > 0))
        return GCOLL_OK;
    gcoll_ref at = problem->in_place ? gcoll_out(k, gcoll_problem_in_shift(problem)) : gcoll_in(k, 0);
    return store(v, rank, at, &input);
}

gcoll_status gcoll_verify_memory_create(gcoll_verifier *v) {
    v->memories = gcoll_verify_allocate(v->memory_at[v->size], sizeof *v->memories);
    gcoll_status status = v->memories ? GCOLL_OK : GCOLL_ERR_NO_MEMORY;
    for (uint32_t r = 0; !status && r < v->size; r++) {
        const gcoll_plan *plan = v->plans[r];
        uint64_t position;
        for (uint32_t m = 0; !status && m < gcoll_verify_memory_count(&plan->problem); m++)
            status = create_memory(&v->memories[v->memory_at[r] + m], gcoll_verify_memory_size(plan, m));
        if (gcoll_verify_contributes(&plan->problem, &position))
            for (uint32_t k = 0; !status && k < plan->problem.buffers; k++)
                status = fill_input(v, r, k, position);
    }
    return status;
}

void gcoll_verify_memory_free(gcoll_verifier *v) {
    for (uint64_t i = 0; v->memories && i < v->memory_at[v->size]; i++)
        free(v->memories[i].at);
    free(v->memories);
    for (size_t i = 0; i < sizeof v->list / sizeof v->list[0]; i++)
        free(v->list[i].at);
}
