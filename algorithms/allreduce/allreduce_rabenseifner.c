/* algorithms/allreduce/allreduce_rabenseifner.c - allreduce by recursive halving and doubling of a power of
 * two of ranks.
 *
 * Surplus ranks beyond the power of two add their vector to a neighbour's before, and receive the result
 * after (shared/surplus.h). In step i of the reduce-scatter, ranks that differ in bit i swap halves: each
 * sends the half that the other keeps. The allgather takes the steps backwards.
 *
 * Source: R. Rabenseifner, Optimization of collective reduction operations, LNCS 3036 (2004), section 2; R.
 * Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in MPICH, Int. J.
 * High Perform. Comput. Appl. 19 (2005), the section on allreduce.
 *
 * Steps: 2 floor(log2 P), 2 more with surplus ranks. With Q = 2^floor(log2 P): elements sent 2(Q-1)/Q n, 2n
 * more with surplus ranks; reduced (Q-1)/Q n, n more with surplus ranks.
 *
 * Restrictions: none. */
#include "algorithms/shared/binary_blocks.h"
#include "algorithms/shared/hosts.h"
#include "algorithms/shared/load.h"
#include "algorithms/shared/surplus.h"

/* The elements that a place still works on before a step. */
static gcoll_elements range_at(const gcoll_problem *problem, uint32_t place, uint32_t step) {
    return gcoll_binary_range(problem, (gcoll_binary_block){.index = place}, step);
}

static void halve(const gcoll_problem *problem, const gcoll_surplus *surplus, gcoll_builder *b,
                  gcoll_ref from, uint32_t step) {
    const uint32_t partner = surplus->place ^ (UINT32_C(1) << step),
                   peer = gcoll_surplus_rank(surplus, partner);
    const gcoll_elements kept = range_at(problem, surplus->place, step + 1),
                         sent = range_at(problem, partner, step + 1);
    gcoll_ref a = gcoll_ref_add(from, kept.begin);
    gcoll_plan_send(b, peer, gcoll_ref_add(from, sent.begin), sent.count);
    if (peer < problem->rank)
        gcoll_plan_recv_reduce_left(b, peer, gcoll_out(0, kept.begin), a, kept.count);
    else
        gcoll_plan_recv_reduce(b, peer, gcoll_out(0, kept.begin), a, kept.count);
    gcoll_plan_round(b);
}

static void double_back(const gcoll_problem *problem, const gcoll_surplus *surplus, gcoll_builder *b,
                        uint32_t step) {
    const uint32_t partner = surplus->place ^ (UINT32_C(1) << step),
                   peer = gcoll_surplus_rank(surplus, partner);
    const gcoll_elements sent = range_at(problem, surplus->place, step + 1),
                         received = range_at(problem, partner, step + 1);
    gcoll_plan_send(b, peer, gcoll_out(0, sent.begin), sent.count);
    gcoll_plan_recv(b, peer, gcoll_out(0, received.begin), received.count);
    gcoll_plan_round(b);
}

static void rabenseifner_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t steps = gcoll_log2_floor(problem->size);
    const gcoll_surplus surplus = gcoll_surplus_of(problem, UINT32_C(1) << steps);
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
    gcoll_ref vector = gcoll_surplus_join(problem, &surplus, b);
    for (uint32_t step = 0; step < steps && !surplus.is_surplus; step++)
        halve(problem, &surplus, b, step == 0 ? vector : gcoll_out(0, 0), step);
    for (uint32_t step = steps; step-- > 0 && !surplus.is_surplus;)
        double_back(problem, &surplus, b, step);
    gcoll_surplus_return(problem, &surplus, b, 2 * steps);
}

static void rabenseifner_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const double n = (double)problem->count, joins = gcoll_is_power_of_two(problem->size) ? 0 : 1;
    const uint32_t steps = gcoll_log2_floor(problem->size);
    const double halved = n - n / (double)(UINT32_C(1) << steps);
    *cost = (gcoll_cost){2 * (steps + joins), 2 * (halved + joins * n), halved + joins * n, 0};
}

static void rabenseifner_load(const gcoll_problem *problem, gcoll_load *load) {
    const uint32_t steps = gcoll_log2_floor(problem->size), places = UINT32_C(1) << steps;
    const double n = (double)problem->count, halved = n - n / places;
    *load = gcoll_load_with_surplus(
        problem, places,
        (gcoll_load){.hops = 2.0 * steps, .messages = 2.0 * steps, .sent = 2 * halved, .reduced = halved});
    if (places == problem->size) /* else places are not ranks */
        gcoll_halving_within(problem, load);
}

const gcoll_algorithm gcoll_allreduce_rabenseifner_algorithm = {
    .name = "rabenseifner",
    .collective = GCOLL_ALLREDUCE,
    .summary = "recursive halving and doubling of a power of two of ranks; few steps and bytes",
    .source = "Rabenseifner 2004, section 2; Thakur, Rabenseifner and Gropp 2005, allreduce",
    .plan = rabenseifner_plan,
    .claims = gcoll_surplus_claims,
    .cost = rabenseifner_cost,
    .load = rabenseifner_load,
    .takes_codec = true,
};
