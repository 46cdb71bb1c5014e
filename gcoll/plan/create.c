/* gcoll/plan/create.c - makes a plan from an algorithm and a problem: checks, planner, passes. */
#include "gcoll/plan/steps.h"

static gcoll_status check_options(const gcoll_algorithm *algorithm, const gcoll_problem *problem) {
    for (uint32_t i = 0; algorithm->options && algorithm->options[i].name; i++) {
        const gcoll_option *o = &algorithm->options[i];
        if (i == GCOLL_MAX_OPTIONS)
            return gcoll_error(GCOLL_ERR_INVALID, "%s: has more than %d options", algorithm->name,
                               GCOLL_MAX_OPTIONS);
        int64_t max = o->max, value = problem->option[i];
        if (o->words)
            for (max = -1; o->words[max + 1];)
                max++;
        if (value < (o->words ? 0 : o->min) || value > max)
            return gcoll_error(GCOLL_ERR_INVALID, "%s: option %s is %lld, allowed are %lld to %lld",
                               algorithm->name, o->name, (long long)value, (long long)(o->words ? 0 : o->min),
                               (long long)max);
    }
    return GCOLL_OK;
}

gcoll_status gcoll_codec_applies(const gcoll_algorithm *algorithm, const gcoll_problem *problem) {
    if (!gcoll_codec_is_set(&problem->codec) || algorithm->takes_codec)
        return GCOLL_OK;
    return gcoll_error(
        GCOLL_ERR_UNSUPPORTED,
        "codec: is %s, but %s does not give all ranks the result of one rank; `gcoll_plan list` "
        "has a line 'codec' for the algorithms that do",
        gcoll_codec_name(problem->codec.kind), algorithm->name);
}

static gcoll_status check(const gcoll_algorithm *algorithm, const gcoll_problem *problem) {
    if (algorithm->collective != problem->collective)
        return gcoll_error(GCOLL_ERR_INVALID, "%s is no algorithm for %s", algorithm->name,
                           gcoll_collective_name(problem->collective));
    gcoll_status status = gcoll_problem_check(problem);
    if (status == GCOLL_OK)
        status = check_options(algorithm, problem);
    if (status == GCOLL_OK && problem->buffers > 1 && gcoll_problem_has_tree(problem) &&
        gcoll_collective_reduces(problem->collective) && gcoll_problem_is_staged(problem))
        status = gcoll_error(GCOLL_ERR_UNSUPPORTED,
                             "order: is %s, but some of the %u buffers lie in device memory; allowed are one "
                             "buffer, buffers in host memory, and order any",
                             gcoll_order_name(problem->order), problem->buffers);
    if (status == GCOLL_OK && algorithm->applies)
        status = algorithm->applies(problem);
    return status == GCOLL_OK ? gcoll_codec_applies(algorithm, problem) : status;
}

/* Replaces *plan by the result of a pass. */
static gcoll_status replace(gcoll_plan **plan, gcoll_status status, gcoll_plan *const *made) {
    if (status != GCOLL_OK)
        return status;
    gcoll_plan_destroy(*plan);
    *plan = *made;
    return GCOLL_OK;
}

/* The segment of a problem. With a codec it ends where a block ends. */
static uint64_t segment_of(const gcoll_problem *problem) {
    const uint64_t block = problem->codec.block ? problem->codec.block : 1, rest = problem->segment % block;
    if (rest == 0)
        return problem->segment;
    return problem->segment > UINT64_MAX - block ? problem->segment - rest
                                                 : problem->segment + (block - rest);
}

/* The order of the passes: average before several buffers, so that each element is divided once and then
 * copied; segments after both, so that their steps are pipelined too; staging and codecs last, so that they
 * follow the segments. */
static gcoll_status run_passes(const gcoll_problem *problem, gcoll_plan **plan) {
    gcoll_plan *made = NULL;
    gcoll_status status = GCOLL_OK;
    if (problem->average)
        status = replace(plan, gcoll_pass_average(*plan, problem->size * problem->buffers, &made), &made);
    const bool staged = gcoll_problem_is_staged(problem);
    if (status == GCOLL_OK && problem->buffers > (*plan)->problem.buffers && !staged)
        status = replace(plan, gcoll_pass_buffers(*plan, problem->buffers, problem->in_place, &made), &made);
    if (status == GCOLL_OK && problem->segment > 0)
        status = replace(plan, gcoll_pass_split(*plan, segment_of(problem), &made), &made);
    if (status == GCOLL_OK && staged)
        status = replace(plan, gcoll_pass_stage(*plan, problem, &made), &made);
    if (status == GCOLL_OK && gcoll_codec_is_set(&problem->codec))
        status = replace(plan, gcoll_pass_encode(*plan, &made), &made);
    return status;
}

gcoll_status gcoll_plan_create(const gcoll_algorithm *algorithm, const gcoll_problem *problem,
                               gcoll_plan **plan) {
    if (!algorithm || !problem || !plan)
        return gcoll_error(GCOLL_ERR_INVALID, "gcoll_plan_create: %s is NULL",
                           !algorithm ? "algorithm"
                           : !problem ? "problem"
                                      : "plan");
    gcoll_status status = check(algorithm, problem);
    if (status != GCOLL_OK)
        return status;
    gcoll_problem whole = *problem,
                  plain = *problem; /* `plain` is for the planner; the passes add the rest */
    if (algorithm->staging) {
        whole.staging = *algorithm->staging;
        if (problem->staging.local == GCOLL_LOCAL_HOST) /* the algorithm's own choice may not work here */
            whole.staging.local = GCOLL_LOCAL_HOST;
    }
    plain.in_memory = plain.out_memory = NULL;
    if (!gcoll_takes_buffers(algorithm, problem))
        plain.buffers = 1;
    plain.segment = 0;
    plain.average = false;
    if (gcoll_problem_sums_in_scratch(problem) && plain.buffers == 1)
        plain.in_place = false; /* so that reads of IN can be told from reads of OUT */
    gcoll_builder *builder = NULL;
    gcoll_plan *made = NULL;
    status = gcoll_builder_create(&plain, &builder);
    if (status != GCOLL_OK)
        return status;
    algorithm->plan(&plain, builder);
    status = gcoll_builder_finish(builder, &made);
    if (status == GCOLL_OK)
        status = run_passes(&whole, &made);
    if (status != GCOLL_OK) {
        gcoll_plan_destroy(made);
        return status;
    }
    *plan = made;
    return GCOLL_OK;
}
