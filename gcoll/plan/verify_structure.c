/* gcoll/plan/verify_structure.c - checks each plan by itself: valid fields, steps within bounds, forward
 * edges. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/verify_internal.h"

static gcoll_status bad_plan(uint32_t rank, const char *what, uint64_t found, const char *allowed) {
    return gcoll_error(GCOLL_ERR_INVALID, "rank %u: the plan's %s is %" PRIu64 "; %s", rank, what, found,
                       allowed);
}

static gcoll_status check_problem(const gcoll_plan *plan, const gcoll_plan *first, uint32_t rank,
                                  uint32_t size) {
    const gcoll_problem *problem = &plan->problem;
    if (problem->size != size)
        return bad_plan(rank, "size", problem->size, "it is not the number of plans");
    if (problem->rank != rank)
        return bad_plan(rank, "rank", problem->rank, "plans stand in order of ranks");
    gcoll_status status = gcoll_problem_check(problem);
    if (status)
        return gcoll_error(status, "rank %u: the plan's problem: %s", rank, gcoll_last_error());
    if (problem->collective != first->problem.collective)
        return bad_plan(rank, "collective", (uint64_t)problem->collective, "rank 0 has another");
    if (problem->count != first->problem.count &&
        !(problem->collective == GCOLL_ALLTOALL && problem->offsets))
        return bad_plan(rank, "count", problem->count, "rank 0 has another");
    if (problem->root != first->problem.root)
        return bad_plan(rank, "root", problem->root, "rank 0 has another");
    if (problem->exchanges != first->problem.exchanges)
        return bad_plan(rank, "number of exchanges", problem->exchanges, "rank 0 has another");
    if (problem->average != first->problem.average)
        return bad_plan(rank, "average", problem->average, "rank 0 differs");
    if (memcmp(&problem->codec, &first->problem.codec, sizeof problem->codec) != 0)
        return bad_plan(rank, "codec", problem->codec.kind, "rank 0 differs");
    if (plan->step_count > 0 && !plan->steps)
        return bad_plan(rank, "step count", plan->step_count, "but there are no steps");
    if (plan->successor_count > 0 && !plan->successors)
        return bad_plan(rank, "successor count", plan->successor_count, "but there are no successors");
    if (plan->operand_count > 0 && !plan->operands)
        return bad_plan(rank, "operand count", plan->operand_count, "but there are no operands");
    return GCOLL_OK;
}

static gcoll_status check_ref(const gcoll_verifier *v, uint32_t rank, uint32_t i,
                              gcoll_verify_access access) {
    const gcoll_plan *plan = v->plans[rank];
    gcoll_ref ref = access.ref;
    static const char *const names[] = {"IN", "OUT", "SCRATCH"};
    if (ref.space > GCOLL_SCRATCH)
        return gcoll_verify_fail(v, rank, i, "uses space %u, which does not exist", (unsigned)ref.space);
    uint32_t indices = ref.space == GCOLL_SCRATCH ? 1 : plan->problem.buffers;
    if (ref.index >= indices)
        return gcoll_verify_fail(v, rank, i, "touches %s[%u], but there are %u of them", names[ref.space],
                                 (unsigned)ref.index, indices);
    uint64_t room =
        ref.space == GCOLL_SCRATCH ? plan->scratch : gcoll_problem_space_count(&plan->problem, ref.space);
    uint64_t count = access.count;
    if (count > room || ref.offset > room - count)
        return gcoll_verify_fail(v, rank, i,
                                 "%s %" PRIu64 " elements at %s[%u] offset %" PRIu64
                                 ", out of bounds: it has %" PRIu64,
                                 access.write ? "writes" : "reads", count, names[ref.space],
                                 (unsigned)ref.index, ref.offset, room);
    if (access.write && ref.space == GCOLL_IN && !plan->problem.in_place)
        return gcoll_verify_fail(v, rank, i, "writes the input IN[%u]", (unsigned)ref.index);
    return GCOLL_OK;
}

/* A step may write exactly the range that it reads, but not overlap it partly: kernels walk both from the
 * start. A copy may not overlap at all: memcpy forbids it. */
static gcoll_status check_overlap(const gcoll_verifier *v, uint32_t rank, uint32_t i) {
    const gcoll_plan *plan = v->plans[rank];
    const gcoll_step *step = &plan->steps[i];
    const uint32_t n = gcoll_verify_access_count(step);
    const gcoll_ref dst = step->dst;
    for (uint32_t k = 0; k + 1 < n; k++) {
        const gcoll_verify_access access = gcoll_verify_access_at(plan, step, k);
        const uint64_t written = gcoll_step_dst_count(&plan->problem, step);
        const gcoll_ref a = access.ref;
        if (gcoll_verify_memory_index(&plan->problem, a) != gcoll_verify_memory_index(&plan->problem, dst))
            continue;
        const bool overlaps =
            a.offset > dst.offset ? a.offset - dst.offset < written : dst.offset - a.offset < access.count;
        if (overlaps && (a.offset != dst.offset || access.count != written || step->kind == GCOLL_STEP_COPY))
            return gcoll_verify_fail(v, rank, i, "writes elements that it reads elsewhere in the same range");
    }
    return GCOLL_OK;
}

static gcoll_status check_operands(const gcoll_verifier *v, uint32_t rank, uint32_t i) {
    const gcoll_plan *plan = v->plans[rank];
    const gcoll_step *step = &plan->steps[i];
    if (step->operand_count < 2)
        return gcoll_verify_fail(v, rank, i, "a fold has at least 2 operands");
    if (step->operand_count > plan->operand_count ||
        step->first_operand > plan->operand_count - step->operand_count)
        return gcoll_verify_fail(v, rank, i, "its operands lie outside the plan's %u", plan->operand_count);
    return GCOLL_OK;
}

static gcoll_status check_accesses(const gcoll_verifier *v, uint32_t rank, uint32_t i) {
    const gcoll_step *step = &v->plans[rank]->steps[i];
    gcoll_status status = GCOLL_OK;
    const uint32_t n = gcoll_verify_access_count(step);
    for (uint32_t k = 0; k < n && !status; k++)
        status = check_ref(v, rank, i, gcoll_verify_access_at(v->plans[rank], step, k));
    return status || step->kind == GCOLL_STEP_SEND ? status : check_overlap(v, rank, i);
}

static gcoll_status check_step(const gcoll_verifier *v, uint32_t rank, uint32_t i) {
    const gcoll_plan *plan = v->plans[rank];
    const gcoll_step *step = &plan->steps[i];
    if (step->kind >= GCOLL_STEP_KIND_COUNT)
        return gcoll_verify_fail(v, rank, i, "its kind is unknown");
    if (i > 0 && step->round < step[-1].round)
        return gcoll_verify_fail(v, rank, i, "its round %u is before round %u of the step before it",
                                 step->round, step[-1].round);
    if (gcoll_step_is_message(step) && (step->peer >= plan->problem.size || step->peer == rank))
        return gcoll_verify_fail(v, rank, i, "the peer must be another rank below %u", plan->problem.size);
    bool may_be_empty = step->kind <= GCOLL_STEP_RECV || step->kind == GCOLL_STEP_COPY; /* signal, fence */
    if (step->count == 0 && !may_be_empty)
        return gcoll_verify_fail(v, rank, i, "has no elements");
    if (gcoll_step_is_codec(step) && !gcoll_codec_is_set(&plan->problem.codec))
        return gcoll_verify_fail(v, rank, i, "the plan's problem has no codec");
    gcoll_status status = step->kind == GCOLL_STEP_FOLD ? check_operands(v, rank, i) : GCOLL_OK;
    return status ? status : check_accesses(v, rank, i);
}

/* Checks that edges point forward, so the graph has no cycle and index order is an order of execution; and
 * that each step has as many dependencies as edges point at it. */
static gcoll_status check_edges(const gcoll_verifier *v, uint32_t rank, uint32_t *incoming) {
    const gcoll_plan *plan = v->plans[rank];
    uint64_t edges = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        if (step->successors > plan->successor_count ||
            step->first_successor > plan->successor_count - step->successors)
            return gcoll_verify_fail(v, rank, i, "its successors lie outside the plan's %u",
                                     plan->successor_count);
        edges += step->successors;
        if (edges > plan->successor_count)
            return gcoll_verify_fail(v, rank, i, "steps up to here have %" PRIu64 " successors, the plan %u",
                                     edges, plan->successor_count);
        for (uint32_t k = 0; k < step->successors; k++) {
            uint32_t next = plan->successors[step->first_successor + k];
            if (next >= plan->step_count || next <= i)
                return gcoll_verify_fail(v, rank, i, "its successor %u is no later step (there are %u)", next,
                                         plan->step_count);
            incoming[next]++;
        }
    }
    if (edges != plan->successor_count)
        return bad_plan(rank, "successor count", plan->successor_count, "its steps have fewer together");
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (incoming[i] != plan->steps[i].dependencies)
            return gcoll_verify_fail(v, rank, i, "says that it waits for %u steps, but %u point at it",
                                     plan->steps[i].dependencies, incoming[i]);
    }
    return GCOLL_OK;
}

static gcoll_status check_plan(const gcoll_verifier *v, uint32_t rank) {
    const gcoll_plan *plan = v->plans[rank];
    for (uint32_t i = 0; i < plan->step_count; i++) {
        gcoll_status status = check_step(v, rank, i);
        if (status)
            return status;
    }
    uint64_t rounds = plan->step_count ? (uint64_t)plan->steps[plan->step_count - 1].round + 1 : 0;
    if (plan->rounds != rounds)
        return bad_plan(rank, "number of rounds", plan->rounds, "the last step says otherwise");
    uint32_t *incoming = gcoll_verify_allocate(plan->step_count, sizeof *incoming);
    if (!incoming)
        return GCOLL_ERR_NO_MEMORY;
    gcoll_status status = check_edges(v, rank, incoming);
    free(incoming);
    return status ? status : gcoll_verify_spaces(v, rank);
}

gcoll_status gcoll_verify_structure(const gcoll_plan *const *plans, uint32_t size) {
    const gcoll_verifier v = {.plans = plans, .size = size};
    if (!plans || size == 0 || size > GCOLL_MAX_RANKS)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_verify: %u plans given; allowed are 1 to %u",
                           plans ? size : 0, GCOLL_MAX_RANKS);
    for (uint32_t r = 0; r < size; r++) {
        if (!plans[r])
            return gcoll_error(GCOLL_ERR_INVALID, "rank %u: has no plan (NULL)", r);
        gcoll_status status = check_problem(plans[r], plans[0], r, size);
        if (status)
            return status;
    }
    gcoll_status status = gcoll_verify_blocks(plans, size);
    for (uint32_t r = 0; r < size && !status; r++)
        status = check_plan(&v, r);
    return status;
}
