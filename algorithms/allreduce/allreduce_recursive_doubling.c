/* algorithms/allreduce/allreduce_recursive_doubling.c - allreduce: pairs of ranks swap whole vectors, at
 * distances 1, 2, 4, ...
 *
 * After step i each rank has the sum of 2^(i+1) ranks. If P is no power of two, surplus ranks add their
 * vector to a neighbour's before, and receive the result after (shared/surplus.h).
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), the section on allreduce.
 *
 * Steps: l = floor(log2 P), 2 more with surplus ranks. Elements sent: n a step. Reduced: l n, n more with
 * surplus ranks.
 *
 * Restrictions: none. Scratch: n elements for what comes in while the own vector goes out. */
#include "algorithms/planners.h"
#include "algorithms/shared/hosts.h"
#include "algorithms/shared/load.h"
#include "algorithms/shared/surplus.h"

static void recursive_doubling_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t steps = gcoll_log2_floor(problem->size);
    const gcoll_surplus surplus = gcoll_surplus_of(problem, UINT32_C(1) << steps);
    const uint64_t n = problem->count;
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), n);
    gcoll_ref vector = gcoll_surplus_join(problem, &surplus, b);
    gcoll_ref inbox = gcoll_plan_scratch(b, problem->size > 1 && !surplus.is_surplus ? n : 0);
    for (uint32_t step = 0; step < steps && !surplus.is_surplus; step++) {
        uint32_t peer = gcoll_surplus_rank(&surplus, surplus.place ^ (UINT32_C(1) << step));
        gcoll_plan_send(b, peer, vector, n);
        gcoll_plan_recv(b, peer, inbox, n);
        if (peer < problem->rank)
            gcoll_plan_reduce(b, gcoll_out(0, 0), inbox, vector, n);
        else
            gcoll_plan_reduce(b, gcoll_out(0, 0), vector, inbox, n);
        vector = gcoll_out(0, 0);
        gcoll_plan_round(b);
    }
    gcoll_surplus_return(problem, &surplus, b, steps);
}

static void recursive_doubling_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double n = (double)problem->count, joins = gcoll_is_power_of_two(problem->size) ? 0 : 1;
    double steps = gcoll_log2_floor(problem->size);
    *cost = (gcoll_cost){steps + 2 * joins, (steps + 2 * joins) * n, (steps + joins) * n,
                         problem->size > 1 ? n : 0};
}

static void recursive_doubling_load(const gcoll_problem *problem, gcoll_load *load) {
    const uint32_t steps = gcoll_log2_floor(problem->size);
    const double n = (double)problem->count;
    *load = gcoll_load_with_surplus(
        problem, UINT32_C(1) << steps,
        (gcoll_load){.hops = steps, .messages = steps, .sent = steps * n, .reduced = steps * n});
    uint32_t within = 0;
    for (uint32_t step = 0; step < steps && gcoll_is_power_of_two(problem->size); step++)
        within += gcoll_bit_is_within(problem, UINT32_C(1) << step);
    load->within_steps = load->within_hops = within;
    load->within_sent = within * n;
}

const gcoll_algorithm gcoll_allreduce_recursive_doubling_algorithm = {
    .name = "recursive_doubling",
    .collective = GCOLL_ALLREDUCE,
    .summary = "pairs swap whole vectors; log2 P steps, 2 more if P is no power of two",
    .source = "Thakur, Rabenseifner and Gropp 2005, allreduce",
    .plan = recursive_doubling_plan,
    .claims = gcoll_surplus_claims,
    .cost = recursive_doubling_cost,
    .load = recursive_doubling_load,
};
