/* algorithms/registry.c - the table of algorithms. */
#include "algorithms/planners.h"

const gcoll_algorithm gcoll_algorithms[] = {
    {"ring", GCOLL_ALLREDUCE, "P segments travel round a ring; fewest bytes, 2(P-1) steps",
     "Patarasuk and Yuan 2009, section 3", NULL, gcoll_ring_plan, gcoll_ring_claims, gcoll_ring_cost, NULL},
    {"group_butterfly", GCOLL_ALLREDUCE,
     "butterfly for any P; 2L-r steps, L = ceil(log2 P), from fewest bytes to fewest steps",
     "Kolmakov and Zhang 2020, arXiv:2004.09362, sections 7 to 9", gcoll_group_butterfly_options,
     gcoll_group_butterfly_plan, gcoll_group_butterfly_claims, gcoll_group_butterfly_cost, NULL},
    {"sorted_linear_tree", GCOLL_ALLREDUCE,
     "P segments follow one another down a chain in rank order; 3(P-1) steps", "Proficz 2018, section 4.1",
     NULL, gcoll_slt_plan, gcoll_slt_claims, gcoll_slt_cost, NULL},
    {"binomial", GCOLL_BROADCAST, "binomial tree from the root; ceil(log2 P) steps",
     "Thakur, Rabenseifner and Gropp 2005, broadcast", NULL, gcoll_binomial_plan, gcoll_binomial_claims,
     gcoll_binomial_cost, NULL},
    {"dissemination", GCOLL_BARRIER, "each round doubles whom a rank has heard of; ceil(log2 P) steps",
     "Hensgen, Finkel and Manber 1988, dissemination barrier", NULL, gcoll_dissemination_plan,
     gcoll_dissemination_claims, gcoll_dissemination_cost, NULL},
    {0}};

static gcoll_status check_options(const gcoll_algorithm *algorithm, const gcoll_problem *problem) {
    for (uint32_t i = 0; algorithm->options != NULL && algorithm->options[i].name != NULL; i++) {
        const gcoll_option *o = &algorithm->options[i];
        int64_t max = o->max, value = problem->option[i];
        if (o->words != NULL)
            for (max = -1; o->words[max + 1] != NULL;)
                max++;
        if (value < (o->words ? 0 : o->min) || value > max)
            return gcoll_error(GCOLL_ERR_INVALID, "%s: option %s is %lld, allowed are %lld to %lld",
                               algorithm->name, o->name, (long long)value, (long long)(o->words ? 0 : o->min),
                               (long long)max);
    }
    return GCOLL_OK;
}

static gcoll_status check(const gcoll_algorithm *algorithm, const gcoll_problem *problem) {
    if (algorithm->collective != problem->collective)
        return gcoll_error(GCOLL_ERR_INVALID, "%s is no algorithm for %s", algorithm->name,
                           gcoll_collective_name(problem->collective));
    if (problem->average && problem->collective != GCOLL_ALLREDUCE)
        return gcoll_error(GCOLL_ERR_INVALID, "%s computes no average",
                           gcoll_collective_name(problem->collective));
    gcoll_status status = check_options(algorithm, problem);
    if (status == GCOLL_OK && algorithm->applies != NULL)
        status = algorithm->applies(problem);
    return status;
}

/* Puts what a pass made of *plan in its place. */
static gcoll_status replace(gcoll_plan **plan, gcoll_status status, gcoll_plan *const *made) {
    if (status != GCOLL_OK)
        return status;
    gcoll_plan_destroy(*plan);
    *plan = *made;
    return GCOLL_OK;
}

/* Divided once and then copied; cut last, so that all of it is pipelined. */
static gcoll_status run_passes(const gcoll_problem *problem, gcoll_plan **plan) {
    gcoll_plan *made = NULL;
    gcoll_status status = GCOLL_OK;
    if (problem->average)
        status = replace(plan, gcoll_pass_average(*plan, problem->size * problem->buffers, &made), &made);
    if (status == GCOLL_OK && problem->buffers > 1)
        status = replace(plan, gcoll_pass_buffers(*plan, problem->buffers, &made), &made);
    if (status == GCOLL_OK && problem->segment > 0)
        status = replace(plan, gcoll_pass_split(*plan, problem->segment, &made), &made);
    return status;
}

gcoll_status gcoll_plan_create(const gcoll_algorithm *algorithm, const gcoll_problem *problem,
                               gcoll_plan **plan) {
    gcoll_status status = check(algorithm, problem);
    if (status != GCOLL_OK)
        return status;
    gcoll_problem plain = *problem; /* what the planner sees; the passes add the rest */
    plain.buffers = problem->buffers > 1 ? 1 : problem->buffers;
    plain.segment = 0;
    plain.average = false;
    gcoll_builder *builder = NULL;
    gcoll_plan *made = NULL;
    status = gcoll_builder_create(&plain, &builder);
    if (status != GCOLL_OK)
        return status;
    algorithm->plan(&plain, builder);
    status = gcoll_builder_finish(builder, &made);
    if (status == GCOLL_OK)
        status = run_passes(problem, &made);
    if (status != GCOLL_OK) {
        gcoll_plan_destroy(made);
        return status;
    }
    *plan = made;
    return GCOLL_OK;
}
