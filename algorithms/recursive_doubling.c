/* algorithms/recursive_doubling.c - pairs of ranks swap whole vectors, over twice the distance each time.
 *
 * If P is no power of two, the first ranks are folded in pairs until a power of two is left: one of each pair
 * adds up for both and hands the result back in the end.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), the section on allreduce.
 *
 * Steps: l = floor(log2 P), 2 more when folded. Elements sent: n a step. Reduced: l n, n more when folded.
 *
 * Restrictions: none. Scratch: n elements for what comes in while the own vector goes out. */
#include "algorithms/blocks.h"
#include "algorithms/fold.h"
#include "algorithms/load.h"

static void recursive_doubling_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t steps = gcoll_log2_floor(problem->size);
    const gcoll_fold fold = gcoll_fold_make(problem, UINT32_C(1) << steps);
    const uint64_t n = problem->count;
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), n);
    gcoll_ref vector = gcoll_fold_begin(problem, &fold, b);
    gcoll_ref inbox = gcoll_plan_scratch(b, problem->size > 1 && !fold.out ? n : 0);
    for (uint32_t step = 0; step < steps && !fold.out; step++) {
        uint32_t peer = gcoll_fold_rank(&fold, fold.place ^ (UINT32_C(1) << step));
        gcoll_plan_send(b, peer, vector, n);
        gcoll_plan_recv(b, peer, inbox, n);
        if (peer < problem->rank)
            gcoll_plan_reduce(b, gcoll_out(0, 0), inbox, vector, n);
        else
            gcoll_plan_reduce(b, gcoll_out(0, 0), vector, inbox, n);
        vector = gcoll_out(0, 0);
        gcoll_plan_round(b);
    }
    gcoll_fold_end(problem, &fold, b, steps);
}

static void recursive_doubling_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double n = (double)problem->count, folds = gcoll_is_power_of_two(problem->size) ? 0 : 1;
    double steps = gcoll_log2_floor(problem->size);
    *cost = (gcoll_cost){steps + 2 * folds, (steps + 2 * folds) * n, (steps + folds) * n,
                         problem->size > 1 ? n : 0};
}

static void recursive_doubling_load(const gcoll_problem *problem, gcoll_load *load) {
    const uint32_t steps = gcoll_log2_floor(problem->size);
    const double n = (double)problem->count;
    *load = gcoll_load_folded(
        problem, UINT32_C(1) << steps,
        (gcoll_load){.hops = steps, .messages = steps, .sent = steps * n, .reduced = steps * n});
}

const gcoll_algorithm gcoll_allreduce_recursive_doubling_algorithm = {
    .name = "recursive_doubling",
    .collective = GCOLL_ALLREDUCE,
    .summary = "pairs swap whole vectors; log2 P steps, 2 more if P is no power of two",
    .source = "Thakur, Rabenseifner and Gropp 2005, allreduce",
    .plan = recursive_doubling_plan,
    .claims = gcoll_fold_claims,
    .cost = recursive_doubling_cost,
    .load = recursive_doubling_load,
};
