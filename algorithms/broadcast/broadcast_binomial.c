/* algorithms/broadcast/broadcast_binomial.c - broadcast down a binomial tree.
 *
 * Ranks are numbered from the root. In each round the ranks that have the data send it to the rank half a
 * span above, and the span halves; so the number of ranks that have it doubles.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), the section on broadcast.
 *
 * Steps: L = ceil(log2 P).
 *
 * Elements sent: L n by the root. Reduced: none.
 *
 * Restrictions: none. */
#include "algorithms/planners.h"
#include "algorithms/shared/load.h"

static void binomial_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, root = problem->root;
    const uint32_t place = (problem->rank + size - root) % size;
    const uint64_t n = problem->count;
    gcoll_ref data = place == 0 ? gcoll_in(0, 0) : gcoll_out(0, 0);
    for (uint32_t level = gcoll_log2_ceil(size); level-- > 0;) {
        uint32_t half = UINT32_C(1) << level, within = place & (2 * half - 1);
        if (within == 0 && half < size - place)
            gcoll_plan_send(b, (place + half + root) % size, data, n);
        else if (within == half)
            gcoll_plan_recv(b, (place - half + root) % size, data, n);
        if (level > 0)
            gcoll_plan_round(b);
    }
    if (place == 0) /* last: other ranks wait for the messages, but none for this copy */
        gcoll_plan_copy(b, gcoll_out(0, 0), data, n);
}

static void binomial_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double rounds = gcoll_log2_ceil(problem->size);
    *cost = (gcoll_cost){rounds, rounds * (double)problem->count, 0, 0};
}

static void binomial_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, 1, 0);
}

const gcoll_algorithm gcoll_broadcast_binomial_algorithm = {
    .name = "binomial",
    .collective = GCOLL_BROADCAST,
    .summary = "binomial tree from the root; ceil(log2 P) steps",
    .source = "Thakur, Rabenseifner and Gropp 2005, broadcast",
    .plan = binomial_plan,
    .cost = binomial_cost,
    .load = binomial_load,
    .takes_codec = true,
};
