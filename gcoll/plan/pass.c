/* gcoll/plan/pass.c - passes emit the steps of a plan again, changed; the builder infers new dependencies. */
#include "gcoll/plan/builder_internal.h"

/* ---- Splitting ------------------------------------------------------------------------------------ */

static bool is_local(const gcoll_step *s) {
    return s->kind > GCOLL_STEP_RECV_REDUCE;
}

static bool all_at(const gcoll_step *s, uint64_t offset) {
    return s->dst.offset == offset && (s->kind == GCOLL_STEP_DIVIDE || s->a.offset == offset) &&
           (s->kind != GCOLL_STEP_REDUCE || s->b.offset == offset);
}

/* The number of steps from `first` on that are cut side by side. They are local steps of one round and of one
 * count, and touch every buffer at the same offset, so segment k of one step meets segment k of the others
 * only. */
static uint32_t run_length(const gcoll_plan *plan, uint32_t first) {
    const gcoll_step *s = &plan->steps[first];
    uint32_t end = first;
    while (end < plan->step_count && is_local(&plan->steps[end]) && plan->steps[end].round == s->round &&
           plan->steps[end].count == s->count && all_at(&plan->steps[end], s->dst.offset))
        end++;
    return s->count > 0 && end > first ? end - first : 1;
}

static uint64_t segments_of(uint64_t count, uint64_t segment) {
    return count == 0 ? 1 : (count - 1) / segment + 1;
}

static gcoll_status check_segment(const gcoll_plan *plan, uint64_t segment) {
    if (segment == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "segment is 0 elements, allowed are 1 and more");
    uint64_t steps = 0;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        uint64_t more = segments_of(plan->steps[i].count, segment);
        if (more > GCOLL_MAX_STEPS - steps)
            return gcoll_error(
                GCOLL_ERR_UNSUPPORTED,
                "segment of %llu elements cuts the plan into more than %u steps; take a larger one",
                (unsigned long long)segment, GCOLL_MAX_STEPS);
        steps += more;
    }
    return GCOLL_OK;
}

/* The order of segments. Messages are cut one after the other: all segments of the first, then all of the
 * next. So both ends agree on the order, whatever else their rounds hold; dependencies decide which segments
 * overlap. Neighbouring local steps (the reduction of several buffers, the copies at the end) are cut side by
 * side: the first segment passes through all of them before the second begins. So it can be sent early, and
 * it is still in the cache. */
gcoll_status gcoll_pass_split(const gcoll_plan *plan, uint64_t segment, gcoll_plan **split) {
    gcoll_status status = check_segment(plan, segment);
    if (status != GCOLL_OK)
        return status;
    gcoll_problem problem = plan->problem;
    problem.segment = segment;
    gcoll_builder *b = NULL;
    status = gcoll_builder_create_like(plan, &problem, &b);
    if (status != GCOLL_OK)
        return status;
    for (uint32_t i = 0, run; i < plan->step_count; i += run) {
        uint64_t count = plan->steps[i].count;
        run = run_length(plan, i);
        if (count == 0)
            gcoll_builder_emit(b, &plan->steps[i], 0, 0);
        for (uint64_t from = 0; from < count; from += segment) {
            uint64_t here = count - from < segment ? count - from : segment;
            for (uint32_t k = i; k < i + run; k++)
                gcoll_builder_emit(b, &plan->steps[k], from, here);
            if (count - from <= segment)
                break; /* from + segment might overflow */
        }
    }
    status = gcoll_builder_finish(b, split);
    if (status == GCOLL_OK)
        (*split)->divisor = plan->divisor;
    return status;
}

/* ---- Several buffers ------------------------------------------------------------------------------ */

static gcoll_ref out_for_in(gcoll_ref ref) {
    if (ref.space == GCOLL_IN)
        ref.space = GCOLL_OUT;
    return ref;
}

gcoll_ref gcoll_sum_buffers(gcoll_builder *b, gcoll_order order, gcoll_ref sum, uint32_t first,
                            uint32_t count, uint64_t n) {
    if (count == 1)
        return gcoll_in(first, 0);
    if (order != GCOLL_ORDER_PAIRS) {
        for (uint32_t k = 1; k < count; k++)
            gcoll_plan_reduce(b, sum, k == 1 ? gcoll_in(first, 0) : sum, gcoll_in(first + k, 0), n);
        return sum;
    }
    uint32_t half = 1;
    while (count - half > half)
        half *= 2;
    const uint32_t rest = count - half;
    const gcoll_ref left = gcoll_sum_buffers(b, order, sum, first, half, n);
    const gcoll_ref room = rest > 1 ? gcoll_plan_scratch(b, n) : sum;
    const gcoll_ref right = gcoll_sum_buffers(b, order, room, first + half, rest, n);
    gcoll_plan_reduce(b, sum, left, right, n);
    return sum;
}

/* Emits the plan with OUT[0] in place of IN[0]: OUT[0] holds the sum of this process's buffers by then. This
 * is right for every planner, as each must be right in place. */
static void emit_on_out(gcoll_builder *b, const gcoll_plan *plan) {
    for (uint32_t i = 0; i < plan->step_count; i++) {
        gcoll_step s = plan->steps[i];
        s.dst = out_for_in(s.dst);
        s.a = out_for_in(s.a);
        s.b = out_for_in(s.b);
        gcoll_builder_emit(b, &s, 0, s.count);
    }
}

/* The sum of a process's buffers takes the first n elements of scratch; the plan's own scratch follows. So
 * each element of the sum has the same offset as in IN, and the sum is cut side by side with its inputs. */
static gcoll_ref moved(const gcoll_problem *made, gcoll_ref ref) {
    if (ref.space == GCOLL_SCRATCH)
        ref.offset += made->count;
    else if (ref.space == GCOLL_IN)
        ref.space = GCOLL_SCRATCH;
    else
        ref.offset += gcoll_problem_out_shift(made);
    return ref;
}

static void emit_on_scratch(gcoll_builder *b, const gcoll_plan *plan, const gcoll_problem *made) {
    for (uint32_t i = 0; i < plan->step_count; i++) {
        gcoll_step s = plan->steps[i];
        s.dst = moved(made, s.dst);
        s.a = moved(made, s.a);
        s.b = moved(made, s.b);
        gcoll_builder_emit(b, &s, 0, s.count);
    }
}

static gcoll_status check_buffers(const gcoll_plan *plan, const gcoll_problem *made) {
    const gcoll_problem *p = &plan->problem;
    if (p->buffers != 1)
        return gcoll_error(GCOLL_ERR_INVALID, "the plan has %u buffers already, allowed is 1", p->buffers);
    if (p->in_place != (made->in_place && !gcoll_problem_sums_in_scratch(made)))
        return gcoll_error(GCOLL_ERR_INVALID, "the plan is %sin place, and of %u buffers it must%s be",
                           p->in_place ? "" : "not ", made->buffers, p->in_place ? " not" : "");
    return GCOLL_OK;
}

gcoll_status gcoll_pass_buffers(const gcoll_plan *plan, uint32_t buffers, bool in_place, gcoll_plan **multi) {
    gcoll_problem problem = plan->problem;
    problem.buffers = buffers;
    problem.in_place = in_place;
    gcoll_builder *b = NULL;
    gcoll_status status = check_buffers(plan, &problem);
    if (status == GCOLL_OK)
        status = gcoll_builder_create_like(plan, &problem, &b);
    if (status != GCOLL_OK)
        return status;
    if (gcoll_problem_sums_in_scratch(&problem)) {
        gcoll_plan_scratch(b, problem.count);
        gcoll_sum_buffers(b, problem.order, gcoll_scratch(0), 0, buffers, problem.count);
        emit_on_scratch(b, plan, &problem);
    } else if (problem.collective == GCOLL_ALLREDUCE && buffers > 1) {
        gcoll_sum_buffers(b, problem.order, gcoll_out(0, 0), 0, buffers, problem.count);
        emit_on_out(b, plan);
    } else {
        for (uint32_t i = 0; i < plan->step_count; i++)
            gcoll_builder_emit(b, &plan->steps[i], 0, plan->steps[i].count);
    }
    for (uint32_t k = 1; k < buffers; k++)
        gcoll_plan_copy(b, gcoll_out(k, 0), gcoll_out(0, 0), gcoll_problem_out_count(&problem));
    status = gcoll_builder_finish(b, multi);
    if (status == GCOLL_OK)
        (*multi)->divisor = plan->divisor;
    return status;
}

/* ---- Averages ------------------------------------------------------------------------------------- */

gcoll_status gcoll_pass_average(const gcoll_plan *plan, uint32_t divisor, gcoll_plan **averaged) {
    gcoll_problem problem = plan->problem;
    if (divisor == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "divisor is 0, allowed are 1 and more");
    problem.average = true;
    gcoll_builder *b = NULL;
    gcoll_status status = gcoll_builder_create_like(plan, &problem, &b);
    if (status != GCOLL_OK)
        return status;
    for (uint32_t i = 0; i < plan->step_count; i++)
        gcoll_builder_emit(b, &plan->steps[i], 0, plan->steps[i].count);
    for (uint32_t k = 0; k < problem.buffers && divisor > 1; k++)
        gcoll_plan_divide(b, gcoll_out(k, 0), gcoll_problem_out_count(&problem));
    status = gcoll_builder_finish(b, averaged);
    if (status == GCOLL_OK)
        (*averaged)->divisor = divisor;
    return status;
}
