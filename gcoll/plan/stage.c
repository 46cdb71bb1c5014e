/*
 * gcoll/plan/stage.c - the staging pass turns a plan for host memory into a plan for device memory.
 *
 * The plan's IN and OUT get a home in scratch, which is host memory, and the steps use the home instead. The
 * pass adds copies: an element is loaded to its home before the first step that uses it (unless that step
 * writes it), and unloaded after the last step that writes it. Each copy covers the range of one step, so a
 * plan that was cut into segments is staged in segments. Dependencies decide what overlaps: one range is
 * copied while messages carry another.
 *
 * In a plan with a window, copies must neither delay the rounds nor wait for them. So a range is loaded in
 * the round before its first use, and unloaded in the round after its last write.
 *
 * If the transport reads and writes device memory itself (gcoll_staging.direct), buffers have no home: the
 * steps stay as they are, and the device does the copies.
 *
 * Several buffers are reduced while they are loaded, and copied to all outputs while they are unloaded
 * (stage_local.c). If an output is only a block of an input, the sum of the inputs has a home of its own.
 */
#include <stdlib.h>

#include "gcoll/plan/stage_internal.h"

/* ---- What steps touch -------------------------------------------------------------------------------- */

/* The home of a place; NULL if steps use the place itself. */
static gcoll_home *home_of(gcoll_stage *s, gcoll_ref ref) {
    gcoll_home *home = ref.space == GCOLL_IN && !s->is_joint ? &s->in : &s->out;
    return ref.space != GCOLL_SCRATCH && home->is_active ? home : NULL;
}

static gcoll_ref place(gcoll_stage *s, gcoll_ref ref) {
    const gcoll_home *home = home_of(s, ref);
    return home ? gcoll_ref_add(home->base, ref.offset) : ref;
}

static bool same_place(gcoll_ref a, gcoll_ref b) {
    return a.space == b.space && a.index == b.index && a.offset == b.offset;
}

struct look {
    gcoll_stage *stage;
    const gcoll_home *home;
};

static void add(const struct look *look, gcoll_ref ref, uint64_t count, gcoll_touched *touched, bool writes) {
    if (home_of(look->stage, ref) != look->home)
        return;
    const uint32_t k = touched->reads;
    touched->begin[k] = ref.offset;
    touched->end[k] = ref.offset + count;
    if (writes)
        touched->writes = true;
    else
        touched->reads++;
}

static gcoll_touched touched(const void *arg, const gcoll_step *step) {
    const struct look *look = arg;
    gcoll_touched found = {0};
    const bool copies = step->kind == GCOLL_STEP_COPY;
    if (step->count == 0 ||
        (copies && same_place(place(look->stage, step->dst), place(look->stage, step->a))))
        return found;
    if (step->kind == GCOLL_STEP_DIVIDE) /* it reads its destination */
        add(look, step->dst, step->count, &found, false);
    else if (step->kind != GCOLL_STEP_RECV)
        add(look, step->a, step->count, &found, false);
    if (step->kind == GCOLL_STEP_REDUCE)
        add(look, step->b, step->count, &found, false);
    if (step->kind != GCOLL_STEP_SEND)
        add(look, step->dst, step->count, &found, true);
    return found;
}

/* ---- When ranges are loaded and unloaded ------------------------------------------------------------- */

static bool needs_load(const gcoll_stage *s, const gcoll_home *home, const gcoll_range *range) {
    return range->reads || (s->is_joint && home == &s->out);
}

static bool needs_unload(const gcoll_stage *s, const gcoll_range *range) {
    return range->last != GCOLL_NO_STEP || s->is_joint ||
           (s->problem->collective == GCOLL_BROADCAST && s->problem->buffers > 1);
}

typedef bool (*wanted_fn)(const gcoll_stage *s, const gcoll_home *home, const gcoll_range *range,
                          uint32_t step);
typedef void (*move_fn)(gcoll_stage *s, const gcoll_home *home, uint64_t begin, uint64_t end);

/* Loads or unloads the wanted ranges from range `first` up to offset `end`; adjacent ranges by one copy. */
static void move_ranges(gcoll_stage *s, const gcoll_home *home, uint32_t first, uint64_t end,
                        wanted_fn wanted, uint32_t step, move_fn move) {
    const gcoll_ranges *ranges = &home->ranges;
    uint64_t begin = 0, behind = 0;
    for (uint32_t r = first; r < ranges->count && ranges->at[r].begin < end; r++) {
        if (!wanted(s, home, &ranges->at[r], step) || (move == gcoll_stage_load && ranges->at[r].is_loaded))
            continue;
        ranges->at[r].is_loaded = true; /* a range that is unloaded was loaded or written before */
        if (ranges->at[r].begin != behind && behind > begin)
            move(s, home, begin, behind);
        if (ranges->at[r].begin != behind || behind == begin)
            begin = ranges->at[r].begin;
        behind = ranges->at[r].end;
    }
    if (behind > begin)
        move(s, home, begin, behind);
}

static bool is_loaded_for(const gcoll_stage *s, const gcoll_home *home, const gcoll_range *range,
                          uint32_t step) {
    return range->first == step && needs_load(s, home, range);
}

static bool is_unloaded_after(const gcoll_stage *s, const gcoll_home *home, const gcoll_range *range,
                              uint32_t step) {
    (void)home;
    return range->last == step && needs_unload(s, range);
}

static bool is_loaded(const gcoll_stage *s, const gcoll_home *home, const gcoll_range *range, uint32_t step) {
    (void)step;
    const bool passes =
        home == &s->out && range->first == GCOLL_NO_STEP; /* goes from input to output; no step touches it */
    return needs_load(s, home, range) || (passes && needs_unload(s, range));
}

static bool is_unloaded(const gcoll_stage *s, const gcoll_home *home, const gcoll_range *range,
                        uint32_t step) {
    (void)home;
    (void)step;
    return needs_unload(s, range);
}

static bool is_left_over(const gcoll_stage *s, const gcoll_home *home, const gcoll_range *range,
                         uint32_t step) {
    return range->first == step && is_loaded(s, home, range, step);
}

static void unload(gcoll_stage *s, const gcoll_home *home, uint64_t begin, uint64_t end) {
    (void)home;
    gcoll_stage_unload(s, begin, end);
}

/* ---- Emission ---------------------------------------------------------------------------------------- */

static void load_for(gcoll_stage *s, uint32_t step) {
    gcoll_home *const homes[] = {&s->in, &s->out};
    for (int i = 0; i < 2; i++) {
        const struct look look = {s, homes[i]};
        const gcoll_touched t =
            homes[i]->is_active ? touched(&look, &s->plan->steps[step]) : (gcoll_touched){0};
        for (uint32_t k = 0; k < t.reads + t.writes; k++)
            move_ranges(s, homes[i], gcoll_ranges_find(&homes[i]->ranges, t.begin[k]), t.end[k],
                        is_loaded_for, step, gcoll_stage_load);
    }
}

static void unload_after(gcoll_stage *s, uint32_t step) {
    const struct look look = {s, &s->out};
    const gcoll_touched t = s->out.is_active ? touched(&look, &s->plan->steps[step]) : (gcoll_touched){0};
    if (t.writes)
        move_ranges(s, &s->out, gcoll_ranges_find(&s->out.ranges, t.begin[t.reads]), t.end[t.reads],
                    is_unloaded_after, step, unload);
}

static void emit_step(gcoll_stage *s, uint32_t index) {
    gcoll_step step = s->plan->steps[index];
    step.dst = place(s, step.dst);
    step.a = place(s, step.a);
    step.b = place(s, step.b);
    gcoll_builder_emit(s->builder, &step, 0, step.count);
}

/* The first step after the round of `step`. */
static uint32_t round_end(const gcoll_plan *plan, uint32_t step) {
    uint32_t end = step;
    while (end < plan->step_count && plan->steps[end].round == plan->steps[step].round)
        end++;
    return end;
}

static void emit_by_ranges(gcoll_stage *s) {
    const gcoll_plan *plan = s->plan;
    uint32_t loaded = 0, before = 0; /* steps whose ranges are loaded; first step of the previous round */
    for (uint32_t begin = 0, end; begin < plan->step_count; before = begin, begin = end) {
        end = round_end(plan, begin);
        gcoll_plan_round_at_least(s->builder, plan->steps[begin].round);
        for (; loaded < end; loaded++)
            load_for(s, s->order[loaded]);
        for (uint32_t i = begin; i < end; i++)
            emit_step(s, i);
        /* The next round's loads come after this round's messages, which must not be delayed. */
        const uint32_t ahead = end < plan->step_count ? round_end(plan, end) : end;
        for (; loaded < ahead; loaded++)
            load_for(s, s->order[loaded]);
        for (uint32_t i = before; i < begin; i++)
            unload_after(s, i);
    }
    for (uint32_t i = before; i < plan->step_count; i++)
        unload_after(s, i);
    /* Outputs that no step writes: those of a broadcast's root, and of calls without messages. */
    if (s->out.is_active) {
        move_ranges(s, &s->out, 0, s->out.count, is_left_over, GCOLL_NO_STEP, gcoll_stage_load);
        move_ranges(s, &s->out, 0, s->out.count, is_unloaded_after, GCOLL_NO_STEP, unload);
    }
}

static void emit_whole(gcoll_stage *s) {
    if (s->in.is_active)
        move_ranges(s, &s->in, 0, s->in.count, is_loaded, GCOLL_NO_STEP, gcoll_stage_load);
    if (s->out.is_active)
        move_ranges(s, &s->out, 0, s->out.count, is_loaded, GCOLL_NO_STEP, gcoll_stage_load);
    gcoll_plan_fence(s->builder);
    for (uint32_t i = 0; i < s->plan->step_count; i++)
        emit_step(s, i);
    gcoll_plan_fence(s->builder);
    if (s->out.is_active)
        move_ranges(s, &s->out, 0, s->out.count, is_unloaded, GCOLL_NO_STEP, unload);
}

/* ---- The pass ---------------------------------------------------------------------------------------- */

static gcoll_status find_ranges(gcoll_stage *s, gcoll_home *home) {
    const struct look look = {s, home};
    if (!home->is_active || gcoll_ranges_create(s->plan, home->count, touched, &look, &home->ranges))
        return GCOLL_OK;
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "plan: out of memory for the ranges of %u steps",
                       s->plan->step_count);
}

static gcoll_status settle(gcoll_stage *s) {
    const gcoll_problem *p = s->problem;
    const bool in_host = gcoll_problem_memory(p, gcoll_in(0, 0)) == GCOLL_HOST_MEMORY;
    const bool out_host = gcoll_problem_memory(p, gcoll_out(0, 0)) == GCOLL_HOST_MEMORY;
    const bool is_direct = gcoll_problem_is_direct(p);        /* then steps use device memory itself */
    const bool in_scratch = gcoll_problem_sums_in_scratch(p); /* then the planner's plan is not in place */
    s->is_joint = p->collective == GCOLL_ALLREDUCE && (p->buffers > 1 || !in_host);
    s->sums = s->is_joint || in_scratch;
    s->in.is_active = in_scratch || (!s->is_joint && !p->in_place && !in_host && !is_direct);
    s->in.count = gcoll_problem_space_count(p, GCOLL_IN);
    s->out.is_active = s->is_joint || (!out_host && !is_direct) || p->buffers > 1;
    s->out.count = in_scratch ? gcoll_problem_out_count(p) : gcoll_problem_space_count(p, GCOLL_OUT);
    s->out_shift = in_scratch ? gcoll_problem_out_shift(p) : 0;
    if (s->in.is_active)
        s->in.base = gcoll_plan_scratch(s->builder, s->in.count);
    if (s->out.is_active)
        s->out.base =
            out_host || is_direct ? gcoll_out(0, s->out_shift) : gcoll_plan_scratch(s->builder, s->out.count);
    const uint32_t slots = gcoll_stage_slots(s);
    uint64_t elements;
    if (!gcoll_mul_u64(slots, s->is_joint ? s->out.count : s->in.count, &elements))
        return gcoll_error(GCOLL_ERR_INVALID, "count is %llu, too many for %u buffers in device memory",
                           (unsigned long long)p->count, p->buffers);
    s->slots = gcoll_plan_scratch(s->builder, elements);
    gcoll_status status = find_ranges(s, &s->in);
    return status == GCOLL_OK ? find_ranges(s, &s->out) : status;
}

/* Lists the memories in which the inputs lie, each memory once. */
static void find_groups(gcoll_stage *s) {
    for (uint32_t k = 0; k < s->problem->buffers; k++) {
        const uint32_t memory = gcoll_problem_memory(s->problem, gcoll_in(k, 0));
        uint32_t g = 0;
        while (g < s->group_count && s->groups[g] != memory)
            g++;
        if (g == s->group_count)
            s->groups[s->group_count++] = memory;
    }
}

static gcoll_status emit_all(gcoll_stage *s) {
    gcoll_status status = gcoll_stage_check_local(s);
    if (status != GCOLL_OK || gcoll_stage_alone(s))
        return status;
    status = settle(s);
    if (status != GCOLL_OK)
        return status;
    if (s->problem->staging.whole)
        emit_whole(s);
    else
        emit_by_ranges(s);
    return GCOLL_OK;
}

gcoll_status gcoll_pass_stage(const gcoll_plan *plan, const gcoll_problem *problem, gcoll_plan **staged) {
    if (plan->problem.buffers != 1)
        return gcoll_error(GCOLL_ERR_INVALID, "the plan has %u buffers already, allowed is 1",
                           plan->problem.buffers);
    gcoll_stage s = {.plan = plan, .problem = problem, .local = problem->staging.local};
    if (s.local == GCOLL_LOCAL_AUTO)
        s.local = GCOLL_LOCAL_DEVICE;
    gcoll_status status = gcoll_builder_create_like(plan, problem, &s.builder);
    if (status != GCOLL_OK)
        return status;
    s.groups = calloc(problem->buffers, sizeof *s.groups);
    s.operands = calloc(problem->buffers, sizeof *s.operands);
    s.order = gcoll_stage_order(plan);
    if (!s.groups || !s.operands || !s.order) {
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "plan: out of memory for %u buffers", problem->buffers);
    } else {
        find_groups(&s);
        if (problem->staging.local == GCOLL_LOCAL_AUTO && gcoll_stage_check_local(&s) != GCOLL_OK)
            s.local = GCOLL_LOCAL_HOST; /* devices cannot reduce here: no output has room for the sum */
        status = emit_all(&s);
    }
    free(s.groups);
    free(s.operands);
    free(s.order);
    gcoll_ranges_destroy(&s.in.ranges);
    gcoll_ranges_destroy(&s.out.ranges);
    if (status != GCOLL_OK) {
        gcoll_builder_destroy(s.builder);
        return status;
    }
    status = gcoll_builder_finish(s.builder, staged);
    if (status == GCOLL_OK)
        (*staged)->divisor = plan->divisor;
    return status;
}

uint64_t gcoll_staging_bound(const gcoll_problem *p) {
    const uint64_t in = gcoll_problem_space_count(p, GCOLL_IN), out = gcoll_problem_space_count(p, GCOLL_OUT);
    if (p->collective == GCOLL_ALLREDUCE)
        return p->count * p->buffers;
    if (gcoll_problem_sums_in_scratch(p))
        return p->count * p->buffers + gcoll_problem_out_count(p);
    return p->in_place ? out : in + out;
}
