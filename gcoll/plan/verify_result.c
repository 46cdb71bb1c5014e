/* gcoll/plan/verify_result.c - checks the outputs against the collective's contract, and adds up the costs.
 */
#include <inttypes.h>

#include "gcoll/plan/verify_internal.h"

typedef struct result {
    gcoll_verifier *v;
    gcoll_verify_report *report;
    uint64_t cursor; /* piece of rank 0's OUT[0], the reference of all outputs */
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
    bool divisor_is_one = v->leaf[v->size] == 1; /* then dividing changes nothing */
    if (divided != average && !divisor_is_one)
        return gcoll_error(GCOLL_ERR_INVALID, "rank %u: in the end OUT[%u] element %" PRIu64 " is %s", rank,
                           k, piece.begin, average ? "not divided" : "divided");
    return GCOLL_OK;
}

/* Checks that a piece of OUT[k] holds what `expected` says. */
static gcoll_status check_piece(const gcoll_verifier *v, uint32_t rank, uint32_t k, gcoll_verify_piece piece,
                                gcoll_verify_expected expected) {
    if (piece.value == GCOLL_VERIFY_UNSET)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "rank %u: in the end OUT[%u] element %" PRIu64 " was never written", rank, k,
                           piece.begin);
    if (gcoll_verify_is_encoded(v, piece.value))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "rank %u: in the end OUT[%u] element %" PRIu64 " was not decoded", rank, k,
                           piece.begin);
    if (expected.owner != GCOLL_VERIFY_SUM &&
        !gcoll_verify_is_from(v, piece.value, gcoll_verify_leaf(v, expected.owner, 0)))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "rank %u: in the end OUT[%u] element %" PRIu64 " is not what rank %u has", rank, k,
                           piece.begin, expected.owner);
    if (piece.begin + piece.shift != expected.position)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "rank %u: in the end OUT[%u] element %" PRIu64
                           " holds what belongs to element %" PRIu64 ", not %" PRIu64,
                           rank, k, piece.begin, piece.begin + piece.shift, expected.position);
    return expected.owner == GCOLL_VERIFY_SUM ? check_sum(v, rank, k, piece) : GCOLL_OK;
}

/* Whether elements [begin, end), which hold value, are those of the first output. */
static bool is_first(result *x, uint64_t begin, uint64_t end, gcoll_verify_value value) {
    const gcoll_verify_pieces *first = output(x->v, 0, 0);
    while (x->cursor + 1 < first->count && first->at[x->cursor + 1].begin <= begin)
        x->cursor++;
    for (uint64_t i = x->cursor; i < first->count && first->at[i].begin < end; i++)
        if (!gcoll_verify_same_tree(first->at[i].value, value))
            return false;
    return true;
}

/* With a codec, ranks that get the same elements get the same bits, whatever the collective. */
static gcoll_status judge_codec(result *x, uint32_t rank, uint32_t k, uint64_t begin, uint64_t end,
                                gcoll_verify_value value) {
    const gcoll_problem *problem = &x->v->plans[0]->problem;
    if (gcoll_verify_rounded(x->v, value) > x->report->encodings)
        x->report->encodings = gcoll_verify_rounded(x->v, value);
    if (!gcoll_codec_is_set(&problem->codec) || problem->collective == GCOLL_REDUCE_SCATTER ||
        is_first(x, begin, end, value))
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INVALID,
                       "rank %u: in the end OUT[%u] elements %" PRIu64 " to %" PRIu64
                       " are rounded otherwise than on rank 0",
                       rank, k, begin, end - 1);
}

static void judge(result *x, uint64_t begin, uint64_t end, gcoll_verify_value value) {
    gcoll_collective collective = x->v->plans[0]->problem.collective;
    if (!gcoll_collective_reduces(collective))
        return;
    if (collective == GCOLL_ALLREDUCE && !is_first(x, begin, end, value))
        x->report->claims &= ~GCOLL_CLAIM_RANK_IDENTICAL;
    if (!gcoll_verify_is_ordered(value))
        x->report->claims &= ~GCOLL_CLAIM_ORDERED;
    x->report->claims &= ~(GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT) | gcoll_verify_trees(x->v, value);
}

static gcoll_status check_output(result *x, uint32_t rank, uint32_t k) {
    const gcoll_verify_pieces *list = output(x->v, rank, k);
    const gcoll_problem *problem = &x->v->plans[rank]->problem;
    const uint64_t shift = gcoll_problem_out_shift(problem), count = gcoll_problem_out_count(problem);
    uint64_t i = 0;
    x->cursor = 0;
    for (uint64_t at = 0; at < count;) {
        while (i + 1 < list->count && list->at[i + 1].begin <= shift + at)
            i++;
        gcoll_verify_expected expected = gcoll_verify_expect(x->v, rank, at);
        uint64_t end = i + 1 < list->count ? list->at[i + 1].begin - shift : count;
        if (end > at + expected.count)
            end = at + expected.count;
        gcoll_verify_piece piece = {at, list->at[i].shift + shift, list->at[i].value};
        gcoll_status status = check_piece(x->v, rank, k, piece, expected);
        if (!status)
            status = judge_codec(x, rank, k, at, end, piece.value);
        if (status)
            return status;
        judge(x, at, end, piece.value);
        at = end;
    }
    return GCOLL_OK;
}

/* In place, an output may be but a block of the input: of a reduce_scatter, and at the root of a scatter.
 * Checks that the rest of the input has kept its value. */
static gcoll_status check_rest(const gcoll_verifier *v, uint32_t rank, uint32_t k) {
    const gcoll_verify_pieces *list = output(v, rank, k);
    const gcoll_problem *problem = &v->plans[rank]->problem;
    const uint64_t begin = gcoll_problem_out_shift(problem), end = begin + gcoll_problem_out_count(problem);
    if (!problem->in_place || list->size <= end - begin)
        return GCOLL_OK;
    for (uint64_t i = 0; i < list->count; i++) {
        const gcoll_verify_piece *piece = &list->at[i];
        const uint64_t next = i + 1 < list->count ? list->at[i + 1].begin : list->size;
        const uint64_t at = piece->begin >= begin && piece->begin < end ? end : piece->begin;
        const bool is_outside = at < next && (at < begin || at >= end);
        if (is_outside && (piece->value != gcoll_verify_leaf(v, rank, k) || piece->shift != 0))
            return gcoll_error(GCOLL_ERR_INVALID,
                               "rank %u: in the end IN[%u] element %" PRIu64
                               " has changed; in place only block %u of the input may",
                               rank, k, at, rank);
    }
    return GCOLL_OK;
}

static void raise_to(uint64_t *most, uint64_t value) {
    *most = *most < value ? value : *most;
}

/* Adds up elements that are copied between host and devices, and elements that devices fold. */
static void add_up_devices(const gcoll_plan *plan, gcoll_verify_report *report) {
    uint64_t in = 0, out = 0, folded = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        bool copies = step->kind == GCOLL_STEP_COPY && gcoll_step_is_on_device(plan, step);
        in += copies && !gcoll_problem_memory(&plan->problem, step->dst) ? step->count : 0;
        out += copies && !gcoll_problem_memory(&plan->problem, step->a) ? step->count : 0;
        folded += step->kind == GCOLL_STEP_FOLD ? step->count * (step->operand_count - 1) : 0;
    }
    raise_to(&report->copied_in_max, in);
    raise_to(&report->copied_out_max, out);
    raise_to(&report->folded_max, folded);
}

static void add_up(const gcoll_plan *plan, gcoll_verify_report *report) {
    uint64_t sent = 0, reduced = 0, messages = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        bool sends = step->kind == GCOLL_STEP_SEND;
        bool reduces = step->kind == GCOLL_STEP_RECV_REDUCE || gcoll_step_has_b(step);
        sent += sends ? step->count : 0;
        messages += sends;
        reduced += reduces ? step->count : 0;
    }
    report->sent_total += sent;
    raise_to(&report->sent_max, sent);
    raise_to(&report->reduced_max, reduced);
    raise_to(&report->messages_max, messages);
    raise_to(&report->scratch_max, plan->scratch);
    add_up_devices(plan, report);
}

gcoll_status gcoll_verify_result(gcoll_verifier *v, gcoll_verify_report *report) {
    result x = {.v = v, .report = report};
    /* The plans were found free of races, so their result does not depend on timing. */
    report->claims = GCOLL_CLAIM_ALL;
    report->steps = v->causal.longest;
    for (uint32_t r = 0; r < v->size; r++) {
        add_up(v->plans[r], report);
        for (uint32_t k = 0; k < v->plans[r]->problem.buffers; k++) {
            gcoll_status status = check_output(&x, r, k);
            if (!status)
                status = check_rest(v, r, k);
            if (status)
                return status;
        }
    }
    return v->plans[0]->problem.collective == GCOLL_BARRIER ? gcoll_verify_causal_barrier(v) : GCOLL_OK;
}
