/* gcoll/plan/verify_result.c - what the outputs must hold in the end, and what the plans cost. */
#include <inttypes.h>

#include "gcoll/plan/verify_internal.h"

typedef struct result {
    gcoll_verifier *v;
    gcoll_verify_report *report;
    uint64_t cursor; /* in rank 0's OUT[0], with which the others are compared */
} result;

static const gcoll_verify_pieces *output(const gcoll_verifier *v, uint32_t rank, uint32_t k) {
    const gcoll_problem *problem = &v->plans[rank]->problem;
    return &v->memories[v->memory_at[rank] + gcoll_verify_memory_index(problem, gcoll_out(k, 0))];
}

static gcoll_status check_sum(const gcoll_verifier *v, uint32_t rank, uint32_t k, gcoll_verify_piece piece) {
    uint32_t leaf, owner, buffer;
    if (gcoll_verify_lacks(v, piece.value, &leaf)) {
        gcoll_verify_leaf_owner(v, leaf, &owner, &buffer);
        return gcoll_error(GCOLL_ERR_INVALID,
                           "rank %u: in the end OUT[%u] element %" PRIu64
                           " lacks the contribution of rank %u, buffer %u",
                           rank, k, piece.begin, owner, buffer);
    }
    bool average = v->plans[rank]->problem.average, divided = gcoll_verify_is_divided(v, piece.value);
    bool divisor_is_one = v->leaf[v->size] == 1; /* then it is all the same */
    if (divided != average && !divisor_is_one)
        return gcoll_error(GCOLL_ERR_INVALID, "rank %u: in the end OUT[%u] element %" PRIu64 " is %s", rank,
                           k, piece.begin, average ? "not divided" : "divided");
    return GCOLL_OK;
}

static gcoll_status check_piece(const gcoll_verifier *v, uint32_t rank, uint32_t k,
                                gcoll_verify_piece piece) {
    const gcoll_problem *problem = &v->plans[rank]->problem;
    if (piece.value == GCOLL_VERIFY_UNSET)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "rank %u: in the end OUT[%u] element %" PRIu64 " was never written", rank, k,
                           piece.begin);
    if (piece.shift != 0)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "rank %u: in the end OUT[%u] element %" PRIu64
                           " holds what belongs to element %" PRIu64,
                           rank, k, piece.begin, piece.begin + piece.shift);
    if (problem->collective == GCOLL_ALLREDUCE)
        return check_sum(v, rank, k, piece);
    if (piece.value != gcoll_verify_leaf(v, problem->root, 0))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "rank %u: in the end OUT[%u] element %" PRIu64 " is not what the root has", rank,
                           k, piece.begin);
    return GCOLL_OK;
}

/* Compares elements [begin, end), which hold value, with those of the first output. */
static void compare(result *x, uint64_t begin, uint64_t end, gcoll_verify_value value) {
    const gcoll_verify_pieces *first = output(x->v, 0, 0);
    while (x->cursor + 1 < first->count && first->at[x->cursor + 1].begin <= begin)
        x->cursor++;
    for (uint64_t i = x->cursor; i < first->count && first->at[i].begin < end; i++) {
        if (!gcoll_verify_same_tree(first->at[i].value, value))
            x->report->rank_identical = false;
    }
    if (!gcoll_verify_is_ordered(value))
        x->report->ordered = false;
}

static gcoll_status check_output(result *x, uint32_t rank, uint32_t k) {
    const gcoll_verify_pieces *list = output(x->v, rank, k);
    x->cursor = 0;
    for (uint64_t i = 0; i < list->count && list->size > 0; i++) {
        gcoll_status status = check_piece(x->v, rank, k, list->at[i]);
        if (status)
            return status;
        compare(x, list->at[i].begin, i + 1 < list->count ? list->at[i + 1].begin : list->size,
                list->at[i].value);
    }
    return GCOLL_OK;
}

static void add_up(const gcoll_plan *plan, gcoll_verify_report *report) {
    uint64_t sent = 0, reduced = 0, messages = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        bool sends = step->kind == GCOLL_STEP_SEND;
        bool reduces = step->kind == GCOLL_STEP_RECV_REDUCE || step->kind == GCOLL_STEP_REDUCE;
        sent += sends ? step->count : 0;
        messages += sends;
        reduced += reduces ? step->count : 0;
    }
    report->sent_total += sent;
    report->sent_max = sent > report->sent_max ? sent : report->sent_max;
    report->reduced_max = reduced > report->reduced_max ? reduced : report->reduced_max;
    report->messages_max = messages > report->messages_max ? messages : report->messages_max;
    report->scratch_max = plan->scratch > report->scratch_max ? plan->scratch : report->scratch_max;
}

gcoll_status gcoll_verify_result(gcoll_verifier *v, gcoll_verify_report *report) {
    result x = {.v = v, .report = report};
    report->rank_identical = report->ordered = true;
    report->steps = v->causal.longest;
    for (uint32_t r = 0; r < v->size; r++) {
        add_up(v->plans[r], report);
        for (uint32_t k = 0; k < v->plans[r]->problem.buffers; k++) {
            gcoll_status status = check_output(&x, r, k);
            if (status)
                return status;
        }
    }
    return v->plans[0]->problem.collective == GCOLL_BARRIER ? gcoll_verify_causal_barrier(v) : GCOLL_OK;
}
