/*
 * gcoll/plan/stage_local.c - staging of several buffers of one rank: inputs are reduced to the one vector
 * that messages carry, and the result is copied to all outputs.
 */
#include "gcoll/plan/stage_internal.h"

static uint32_t in_memory(const gcoll_stage *s, uint32_t k) {
    return gcoll_problem_memory(s->problem, gcoll_in(k, 0));
}

static uint32_t out_memory(const gcoll_stage *s, uint32_t k) {
    return gcoll_problem_memory(s->problem, gcoll_out(k, 0));
}

/* IN[k] from `offset` on; in place it is called OUT[k]. */
static gcoll_ref input(const gcoll_stage *s, uint32_t k, uint64_t offset) {
    return s->problem->in_place ? gcoll_out(k, offset) : gcoll_in(k, offset);
}

static void copy(gcoll_stage *s, gcoll_ref dst, gcoll_ref a, uint64_t count) {
    const gcoll_step step = {.kind = GCOLL_STEP_COPY, .dst = dst, .a = a};
    gcoll_builder_emit(s->builder, &step, 0, count);
}

static void reduce(gcoll_stage *s, gcoll_ref dst, gcoll_ref a, gcoll_ref b, uint64_t count) {
    const gcoll_step step = {.kind = GCOLL_STEP_REDUCE, .dst = dst, .a = a, .b = b};
    gcoll_builder_emit(s->builder, &step, 0, count);
}

/* ---- Inputs ------------------------------------------------------------------------------------------ */

/* Whether input k is in the group. Groups are single buffers (host), the buffers of one memory (device), or
 * one group of all (peer). */
static bool together(const gcoll_stage *s, uint32_t group, uint32_t k) {
    if (s->local == GCOLL_LOCAL_HOST)
        return group == k;
    return s->local == GCOLL_LOCAL_PEER || s->groups[group] == in_memory(s, k);
}

static uint32_t count_groups(const gcoll_stage *s) {
    return s->local == GCOLL_LOCAL_HOST   ? s->problem->buffers
           : s->local == GCOLL_LOCAL_PEER ? 1
                                          : s->group_count;
}

static uint32_t members(const gcoll_stage *s, uint32_t group) {
    uint32_t found = 0;
    for (uint32_t k = 0; k < s->problem->buffers; k++)
        if (together(s, group, k))
            s->operands[found++] = (uint16_t)k;
    return found;
}

/* Finds an output to fold the inputs `operands` into: the first on the device of the first input, or with
 * `peer` on the device of any. */
static bool find_target(const gcoll_stage *s, uint32_t count, uint32_t *target) {
    const uint32_t device = in_memory(s, s->operands[0]);
    for (uint32_t k = 0; k < s->problem->buffers; k++) {
        bool reached = out_memory(s, k) == device;
        for (uint32_t i = 1; i < count && s->local == GCOLL_LOCAL_PEER && !reached; i++)
            reached = out_memory(s, k) == in_memory(s, s->operands[i]);
        if (reached) {
            *target = k;
            return true;
        }
    }
    return false;
}

gcoll_status gcoll_stage_check_local(const gcoll_stage *s) {
    const gcoll_problem *p = s->problem;
    if (p->buffers == 1 || s->local == GCOLL_LOCAL_HOST)
        return GCOLL_OK;
    for (uint32_t k = 0; k < p->buffers && s->local == GCOLL_LOCAL_PEER; k++)
        if (in_memory(s, k) == GCOLL_HOST_MEMORY || out_memory(s, k) == GCOLL_HOST_MEMORY)
            return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                               "local: is peer, but buffer %u lies in host memory; take device or host", k);
    if (gcoll_problem_sums_in_scratch(p))
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "local: is %s, but %s has no output with room for a whole vector; take host",
                           s->local == GCOLL_LOCAL_PEER ? "peer" : "device",
                           gcoll_collective_name(p->collective));
    for (uint32_t g = 0; g < count_groups(s) && p->collective == GCOLL_ALLREDUCE; g++) {
        uint32_t target, count = members(s, g);
        if (count > 1 && in_memory(s, s->operands[0]) != GCOLL_HOST_MEMORY && !find_target(s, count, &target))
            return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                               "local: inputs are to be reduced on device %u, but no output lies there; take "
                               "host",
                               in_memory(s, s->operands[0]) - 1);
    }
    return GCOLL_OK;
}

uint32_t gcoll_stage_slots(const gcoll_stage *s) {
    uint32_t slots = 0;
    if (!s->sums)
        return 0;
    for (uint32_t g = 1; g < count_groups(s); g++) /* the first group uses the home */
        slots += in_memory(s, members(s, g) ? s->operands[0] : 0) != GCOLL_HOST_MEMORY;
    return slots;
}

/* Brings the sum of a group to host memory, to `place`. An input in host memory stays where it is. */
static gcoll_ref gather_group(gcoll_stage *s, uint32_t group, gcoll_ref place, uint64_t at, uint64_t n) {
    const uint32_t count = members(s, group), first = s->operands[0];
    if (in_memory(s, first) == GCOLL_HOST_MEMORY)
        return input(s, first, at); /* the others follow in reduce_group */
    gcoll_ref source = input(s, first, at);
    uint32_t target = 0;
    if (count > 1 && find_target(s, count, &target)) {
        source = gcoll_out(target, at);
        gcoll_builder_fold(s->builder, source, input(s, 0, at), s->operands, count, n);
    }
    copy(s, place, source, n);
    return place;
}

/* Adds a group to *sum, and returns where the new sum lies. `sum` is NULL for the first group. */
static gcoll_ref reduce_group(gcoll_stage *s, uint32_t group, gcoll_ref home, const gcoll_ref *sum,
                              gcoll_ref gathered, uint64_t at, uint64_t n) {
    gcoll_ref result = gathered;
    if (sum) {
        reduce(s, home, *sum, gathered, n);
        result = home;
    }
    const uint32_t count = members(s, group);
    if (in_memory(s, s->operands[0]) != GCOLL_HOST_MEMORY)
        return result;
    for (uint32_t i = 1; i < count; i++) {
        reduce(s, home, result, input(s, s->operands[i], at), n);
        result = home;
    }
    return result;
}

/* Reduces n elements of all inputs into `home`; `vector` is the distance of two slots. All copies from
 * devices are emitted before the first reduction, so that they overlap. */
static void load_reduced(gcoll_stage *s, gcoll_ref home, uint64_t vector, uint64_t at, uint64_t n) {
    const uint32_t groups = count_groups(s);
    gcoll_ref slot = gcoll_ref_add(s->slots, at), sum = home;
    for (uint32_t g = 0; g < groups; g++) {
        gcoll_ref place = g == 0 ? home : slot;
        const bool is_device = in_memory(s, members(s, g) ? s->operands[0] : 0) != GCOLL_HOST_MEMORY;
        gather_group(s, g, place, at, n);
        if (g > 0 && is_device)
            slot = gcoll_ref_add(slot, vector);
    }
    slot = gcoll_ref_add(s->slots, at);
    for (uint32_t g = 0; g < groups; g++) {
        const uint32_t first = members(s, g) ? s->operands[0] : 0;
        const bool is_device = in_memory(s, first) != GCOLL_HOST_MEMORY;
        const gcoll_ref gathered = !is_device ? input(s, first, at) : g == 0 ? home : slot;
        sum = reduce_group(s, g, home, g == 0 ? NULL : &sum, gathered, at, n);
        if (g > 0 && is_device)
            slot = gcoll_ref_add(slot, vector);
    }
    copy(s, home, sum, n); /* does nothing unless a single input lies in host memory */
}

void gcoll_stage_load(gcoll_stage *s, const gcoll_home *home, uint64_t begin, uint64_t end) {
    const gcoll_ref at = gcoll_ref_add(home->base, begin);
    if (s->sums && home == (s->is_joint ? &s->out : &s->in))
        load_reduced(s, at, home->count, begin, end - begin);
    else
        copy(s, at, home == &s->in ? gcoll_in(0, begin) : gcoll_out(0, begin), end - begin);
}

/* ---- Outputs ----------------------------------------------------------------------------------------- */

/* The output on a device from which output k is copied; k itself means from the host. */
static uint32_t source_of(const gcoll_stage *s, uint32_t k) {
    if (s->local == GCOLL_LOCAL_HOST || out_memory(s, k) == GCOLL_HOST_MEMORY)
        return k;
    for (uint32_t j = 0; j < k; j++)
        if (out_memory(s, j) == out_memory(s, k) || s->local == GCOLL_LOCAL_PEER)
            return j;
    return k;
}

void gcoll_stage_unload(gcoll_stage *s, uint64_t begin, uint64_t end) {
    const gcoll_problem *p = s->problem;
    const gcoll_ref home = gcoll_ref_add(s->out.base, begin);
    const bool has_it = p->collective == GCOLL_BROADCAST && p->in_place && p->rank == p->root; /* in OUT[0] */
    for (uint32_t k = has_it ? 1 : 0; k < p->buffers; k++) {
        const uint32_t source = source_of(s, k);
        copy(s, gcoll_out(k, s->out_shift + begin),
             source == k ? home : gcoll_out(source, s->out_shift + begin), end - begin);
    }
}

/* ---- One rank on one device --------------------------------------------------------------------------- */

/* Whether all buffers are on one device, or one device reads all of them. */
static bool is_one_device(const gcoll_stage *s) {
    const uint32_t device = out_memory(s, 0);
    for (uint32_t k = 0; k < s->problem->buffers && s->local != GCOLL_LOCAL_PEER; k++)
        if (out_memory(s, k) != device || in_memory(s, k) != device)
            return false;
    return device != GCOLL_HOST_MEMORY;
}

/* Whether a device can do all steps: copies and divisions outside of scratch. */
static bool only_moves(const gcoll_plan *plan) {
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *step = &plan->steps[i];
        if ((step->kind != GCOLL_STEP_COPY && step->kind != GCOLL_STEP_DIVIDE) ||
            step->dst.space == GCOLL_SCRATCH || step->a.space == GCOLL_SCRATCH)
            return false;
    }
    return true;
}

bool gcoll_stage_alone(gcoll_stage *s) {
    const gcoll_problem *p = s->problem;
    const uint64_t n = p->count;
    const bool reduces = p->collective == GCOLL_ALLREDUCE && p->buffers > 1;
    if (p->size > 1 || s->local == GCOLL_LOCAL_HOST || !is_one_device(s) || !only_moves(s->plan))
        return false;
    for (uint32_t k = 0; k < p->buffers; k++)
        s->operands[k] = (uint16_t)k;
    if (reduces)
        gcoll_builder_fold(s->builder, gcoll_out(0, 0), input(s, 0, 0), s->operands, p->buffers, n);
    for (uint32_t i = 0; i < s->plan->step_count; i++)
        if (!reduces || s->plan->steps[i].kind != GCOLL_STEP_COPY)
            gcoll_builder_emit(s->builder, &s->plan->steps[i], 0, s->plan->steps[i].count);
    for (uint32_t k = 1; k < p->buffers; k++)
        copy(s, gcoll_out(k, 0), gcoll_out(0, 0), n);
    return true;
}
