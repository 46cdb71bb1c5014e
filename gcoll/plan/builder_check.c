/* gcoll/plan/builder_check.c - what a step must keep to, whoever emits it: bounds, IN, overlaps, peers. */
#include "gcoll/plan/builder_internal.h"

static const char *const space_names[] = {"IN", "OUT", "SCRATCH"};

struct check {
    const gcoll_problem *problem;
    const gcoll_step *step;
    uint32_t number;
    uint64_t scratch;
};

static gcoll_status check_ref(const struct check *c, gcoll_ref ref, bool written) {
    const gcoll_problem *p = c->problem;
    const gcoll_step *s = c->step;
    const uint64_t limit = ref.space == GCOLL_SCRATCH ? c->scratch : gcoll_problem_space_count(p, ref.space);
    const uint32_t buffers = ref.space == GCOLL_SCRATCH ? 1 : p->buffers;
    if (ref.space > GCOLL_SCRATCH)
        return gcoll_error(GCOLL_ERR_INTERNAL, "plan: step %u: space %u does not exist", c->number,
                           ref.space);
    if (ref.index >= buffers || s->count > limit || ref.offset > limit - s->count)
        return gcoll_error(GCOLL_ERR_INTERNAL,
                           "plan: step %u (%s) of rank %u: %s[%u] elements %llu + %llu are outside of %u "
                           "buffers of %llu elements",
                           c->number, gcoll_step_kind_name(s->kind), p->rank, space_names[ref.space],
                           ref.index, (unsigned long long)ref.offset, (unsigned long long)s->count, buffers,
                           (unsigned long long)limit);
    if (written && ref.space == GCOLL_IN)
        return gcoll_error(GCOLL_ERR_INTERNAL, "plan: step %u (%s) of rank %u writes to IN", c->number,
                           gcoll_step_kind_name(s->kind), p->rank);
    return GCOLL_OK;
}

/* An operand is what is written or apart from it: kernels take no other overlap. */
static gcoll_status check_overlap(const struct check *c, gcoll_ref ref) {
    const gcoll_step *s = c->step;
    if (ref.space != s->dst.space || ref.index != s->dst.index || ref.offset == s->dst.offset)
        return GCOLL_OK;
    const uint64_t low = ref.offset < s->dst.offset ? ref.offset : s->dst.offset;
    const uint64_t high = ref.offset < s->dst.offset ? s->dst.offset : ref.offset;
    if (high - low >= s->count)
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_INTERNAL,
                       "plan: step %u (%s) of rank %u: an operand overlaps the result in part", c->number,
                       gcoll_step_kind_name(s->kind), c->problem->rank);
}

static gcoll_status check_operand(const struct check *c, gcoll_ref ref) {
    gcoll_status status = check_ref(c, ref, false);
    return status == GCOLL_OK && c->step->kind != GCOLL_STEP_SEND ? check_overlap(c, ref) : status;
}

static gcoll_status check_fold(const struct check *c, const uint16_t *operands) {
    gcoll_status status = GCOLL_OK;
    gcoll_ref ref = c->step->a;
    for (uint32_t i = 0; i < c->step->operand_count && status == GCOLL_OK; i++) {
        ref.index = operands[c->step->first_operand + i];
        status = check_operand(c, ref);
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
        status = check_ref(&c, step->dst, true);
    if (status != GCOLL_OK || step->kind == GCOLL_STEP_RECV || step->kind == GCOLL_STEP_DIVIDE)
        return status;
    if (step->kind == GCOLL_STEP_FOLD)
        return check_fold(&c, operands);
    status = check_operand(&c, step->a);
    if (status == GCOLL_OK && step->kind == GCOLL_STEP_REDUCE)
        status = check_operand(&c, step->b);
    return status;
}
