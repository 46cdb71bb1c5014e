/* gcoll/plan/builder_check.c - what a step must keep to, whoever emits it: bounds, IN, overlaps, peers. */
#include "gcoll/plan/builder_internal.h"

static const char *const space_names[] = {"IN", "OUT", "SCRATCH"};

struct check {
    const gcoll_problem *problem;
    const gcoll_step *step;
    uint32_t number;
    uint64_t scratch;
};

static gcoll_status check_ref(const struct check *c, gcoll_ref ref, uint64_t count, bool written) {
    const gcoll_problem *p = c->problem;
    const gcoll_step *s = c->step;
    const uint64_t limit = ref.space == GCOLL_SCRATCH ? c->scratch : gcoll_problem_space_count(p, ref.space);
    const uint32_t buffers = ref.space == GCOLL_SCRATCH ? 1 : p->buffers;
    if (ref.space > GCOLL_SCRATCH)
        return gcoll_error(GCOLL_ERR_INTERNAL, "plan: step %u: space %u does not exist", c->number,
                           ref.space);
    if (ref.index >= buffers || count > limit || ref.offset > limit - count)
        return gcoll_error(GCOLL_ERR_INTERNAL,
                           "plan: step %u (%s) of rank %u: %s[%u] elements %llu + %llu are outside of %u "
                           "buffers of %llu elements",
                           c->number, gcoll_step_kind_name(s->kind), p->rank, space_names[ref.space],
                           ref.index, (unsigned long long)ref.offset, (unsigned long long)count, buffers,
                           (unsigned long long)limit);
    if (written && ref.space == GCOLL_IN)
        return gcoll_error(GCOLL_ERR_INTERNAL, "plan: step %u (%s) of rank %u writes to IN", c->number,
                           gcoll_step_kind_name(s->kind), p->rank);
    return GCOLL_OK;
}

/* An operand of `count` elements is what is written or apart from it: kernels take no other overlap. */
static gcoll_status check_overlap(const struct check *c, gcoll_ref ref, uint64_t count) {
    const gcoll_step *s = c->step;
    const uint64_t written = gcoll_step_dst_count(c->problem, s);
    if (ref.space != s->dst.space || ref.index != s->dst.index ||
        (ref.offset == s->dst.offset && count == written))
        return GCOLL_OK;
    if (ref.offset < s->dst.offset ? s->dst.offset - ref.offset >= count
                                   : ref.offset - s->dst.offset >= written)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INTERNAL,
                       "plan: step %u (%s) of rank %u: an operand overlaps the result in part", c->number,
                       gcoll_step_kind_name(s->kind), c->problem->rank);
}

static gcoll_status check_operand(const struct check *c, gcoll_ref ref, uint64_t count) {
    gcoll_status status = check_ref(c, ref, count, false);
    return status == GCOLL_OK && c->step->kind != GCOLL_STEP_SEND ? check_overlap(c, ref, count) : status;
}

static gcoll_status check_fold(const struct check *c, const uint16_t *operands) {
    gcoll_status status = GCOLL_OK;
    gcoll_ref ref = c->step->a;
    for (uint32_t i = 0; i < c->step->operand_count && status == GCOLL_OK; i++) {
        ref.index = operands[c->step->first_operand + i];
        status = check_operand(c, ref, c->step->count);
    }
    return status;
}

gcoll_status gcoll_step_check(const gcoll_problem *problem, const gcoll_step *step, uint32_t number,
                              uint64_t scratch, const uint16_t *operands) {
    const struct check c = {problem, step, number, scratch};
    gcoll_status status = GCOLL_OK;
    if (gcoll_step_is_message(step) && (step->peer >= problem->size || step->peer == problem->rank))
        return gcoll_error(GCOLL_ERR_INTERNAL, "plan: step %u (%s) of rank %u: peer is %u of %u ranks",
                           number, gcoll_step_kind_name(step->kind), problem->rank, step->peer,
                           problem->size);
    if (step->kind != GCOLL_STEP_SEND)
        status = check_ref(&c, step->dst, gcoll_step_dst_count(problem, step), true);
    if (status != GCOLL_OK || step->kind == GCOLL_STEP_RECV || step->kind == GCOLL_STEP_DIVIDE)
        return status;
    if (step->kind == GCOLL_STEP_FOLD)
        return check_fold(&c, operands);
    status = check_operand(&c, step->a, gcoll_step_a_count(problem, step));
    if (status == GCOLL_OK && gcoll_step_has_b(step))
        status = check_operand(&c, step->b, gcoll_step_b_count(problem, step));
    return status;
}
