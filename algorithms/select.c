/* algorithms/select.c - the cheapest algorithm in the alpha-beta-gamma model.
 *
 * Costs come by formula and no plan is built, so choosing takes microseconds at any size. Every rank chooses
 * by itself: only what is the same on all of them may enter. */
#include "algorithms/planners.h"

/* What "chosen by cost" looks like in an option table: a least value of -1, and the choice says -1. */
#define BY_COST (-1)

static double seconds(const gcoll_algorithm *algorithm, const gcoll_problem *problem, size_t type_bytes,
                      const gcoll_cost_parameters *parameters) {
    gcoll_cost cost;
    algorithm->cost(problem, &cost);
    return parameters->alpha * cost.steps +
           (double)type_bytes * (parameters->beta * cost.sent + parameters->gamma * cost.reduced);
}

typedef struct search {
    size_t type_bytes;
    uint32_t needs;
    const gcoll_cost_parameters *parameters;
    gcoll_problem problem; /* its options are what is being tried */
    gcoll_choice best;     /* algorithm NULL: none so far */
    double best_seconds;
} search;

static void consider(search *s, const gcoll_algorithm *algorithm, uint64_t segment_bytes) {
    if ((algorithm->claims(&s->problem) & s->needs) != s->needs)
        return;
    if (algorithm->applies != NULL && algorithm->applies(&s->problem) != GCOLL_OK)
        return;
    double cost = seconds(algorithm, &s->problem, s->type_bytes, s->parameters);
    if (s->best.algorithm != NULL && !(cost < s->best_seconds)) /* of equals the first, on every rank */
        return;
    s->best_seconds = cost;
    s->best.algorithm = algorithm;
    s->best.segment_bytes = segment_bytes;
    for (uint32_t i = 0; i < GCOLL_MAX_OPTIONS; i++)
        s->best.option[i] = s->problem.option[i];
}

/* Tries the choice with every value of each option, from the index-th on, that it leaves to cost. */
static void try_options(search *s, const gcoll_choice *choice, uint32_t index) {
    const gcoll_option *options = choice->algorithm->options;
    if (options == NULL || options[index].name == NULL) {
        consider(s, choice->algorithm, choice->segment_bytes);
        return;
    }
    s->problem.option[index] = choice->option[index];
    if (options[index].words != NULL || options[index].min != BY_COST || choice->option[index] != BY_COST) {
        try_options(s, choice, index + 1);
        return;
    }
    for (int64_t value = 0; value <= options[index].max; value++) {
        s->problem.option[index] = value;
        try_options(s, choice, index + 1);
    }
}

static search make_search(const gcoll_problem *problem, size_t type_bytes, uint32_t needs,
                          const gcoll_cost_parameters *parameters) {
    search s = {.type_bytes = type_bytes, .needs = needs, .parameters = parameters, .problem = *problem};
    for (uint32_t i = 0; i < GCOLL_MAX_OPTIONS; i++)
        s.problem.option[i] = 0;
    return s;
}

gcoll_status gcoll_choose(const gcoll_problem *problem, size_t type_bytes, uint32_t needs,
                          const gcoll_cost_parameters *parameters, gcoll_choice *choice) {
    search s = make_search(problem, type_bytes, needs, parameters);
    for (const gcoll_algorithm *a = gcoll_algorithms; a->name != NULL; a++) {
        if (a->collective != problem->collective)
            continue;
        gcoll_choice tried = {.algorithm = a};
        for (uint32_t i = 0; a->options != NULL && a->options[i].name != NULL; i++)
            tried.option[i] = a->options[i].fallback;
        try_options(&s, &tried, 0);
    }
    if (s.best.algorithm == NULL)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "no algorithm for %s of %u ranks is%s%s",
                           gcoll_collective_name(problem->collective), problem->size,
                           needs & GCOLL_CLAIM_RANK_IDENTICAL ? " rank-identical" : "",
                           needs & GCOLL_CLAIM_ORDERED ? " ordered" : "");
    *choice = s.best;
    return GCOLL_OK;
}

void gcoll_choice_resolve(const gcoll_problem *problem, size_t type_bytes, uint32_t needs,
                          const gcoll_cost_parameters *parameters, gcoll_choice *choice) {
    search s = make_search(problem, type_bytes, needs, parameters);
    try_options(&s, choice, 0);
    if (s.best.algorithm !=
        NULL) /* else no option serves, which the caller finds when it compares the claims */
        *choice = s.best;
}
