/* algorithms/rabenseifner.c - recursive halving, then recursive doubling, folded to a power of two first.
 *
 * If P is no power of two, the first ranks are folded in pairs until a power of two is left: one of each pair
 * takes part for both and hands the result back in the end. In step i of the reduce-scatter, places that
 * differ in bit i swap the halves that the other one is to keep; the allgather takes the same steps
 * backwards.
 *
 * Source: R. Rabenseifner, Optimization of collective reduction operations, LNCS 3036 (2004), section 2; R.
 * Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in MPICH, Int. J.
 * High Perform. Comput. Appl. 19 (2005), the section on allreduce.
 *
 * Steps: 2 floor(log2 P), 2 more when folded. With Q = 2^floor(log2 P): elements sent 2(Q-1)/Q n, 2n more
 * when folded; reduced (Q-1)/Q n, n more when folded.
 *
 * Restrictions: none. */
#include "algorithms/halving.h"

static void rabenseifner_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const gcoll_party party = gcoll_fold(problem, gcoll_power_of_two_below(problem->size));
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
    gcoll_ref vector = gcoll_fold_begin(problem, &party, b);
    if (!party.out) {
        gcoll_halve(b, &party, vector, problem->count);
        gcoll_double(b, &party, problem->count);
    }
    gcoll_fold_end(problem, &party, b, 2 * gcoll_log2_ceil(party.size));
}

static void rabenseifner_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const uint32_t places = gcoll_power_of_two_below(problem->size);
    double n = (double)problem->count, folds = places == problem->size ? 0 : 1;
    double steps = gcoll_log2_ceil(places), halved = n - n / places;
    *cost = (gcoll_cost){2 * (steps + folds), 2 * (halved + folds * n), halved + folds * n, 0};
}

const gcoll_algorithm gcoll_allreduce_rabenseifner_algorithm = {
    .name = "rabenseifner",
    .collective = GCOLL_ALLREDUCE,
    .summary = "recursive halving and doubling, folded to a power of two; few steps and bytes",
    .source = "Rabenseifner 2004, section 2; Thakur, Rabenseifner and Gropp 2005, allreduce",
    .plan = rabenseifner_plan,
    .claims = gcoll_fold_claims,
    .cost = rabenseifner_cost,
};
