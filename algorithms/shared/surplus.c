/* algorithms/shared/surplus.c - see surplus.h.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), allreduce, of numbers that are no powers of two. */
#include "algorithms/shared/surplus.h"

gcoll_surplus gcoll_surplus_of(const gcoll_problem *problem, uint32_t places) {
    const uint32_t rank = problem->rank, pairs = problem->size - places;
    if (rank >= 2 * pairs)
        return (gcoll_surplus){places, pairs, rank - pairs, false};
    return (gcoll_surplus){places, pairs, rank / 2, rank % 2 == 0};
}

gcoll_ref gcoll_surplus_join(const gcoll_problem *problem, const gcoll_surplus *surplus, gcoll_builder *b) {
    gcoll_ref vector = gcoll_in(0, 0);
    if (surplus->pairs == 0)
        return vector;
    if (surplus->is_surplus) {
        gcoll_plan_send(b, problem->rank + 1, vector, problem->count);
    } else if (surplus->place < surplus->pairs) {
        gcoll_plan_recv_reduce_left(b, problem->rank - 1, gcoll_out(0, 0), vector, problem->count);
        vector = gcoll_out(0, 0);
    }
    gcoll_plan_round(b);
    return vector;
}

void gcoll_surplus_return(const gcoll_problem *problem, const gcoll_surplus *surplus, gcoll_builder *b,
                          uint32_t rounds) {
    gcoll_plan_round_at_least(b, rounds + 1);
    if (surplus->is_surplus)
        gcoll_plan_recv(b, problem->rank + 1, gcoll_out(0, 0), problem->count);
    else if (surplus->place < surplus->pairs)
        gcoll_plan_send(b, problem->rank - 1, gcoll_out(0, 0), problem->count);
}

uint32_t gcoll_surplus_claims(const gcoll_problem *problem) {
    uint32_t size = problem->size, lowest = size & (0 - size);
    uint32_t claims = GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_ORDERED | gcoll_trivial_claims(problem);
    /* The lower half of the places adds up in pairs of neighbours if all of its places are pairs of ranks, or
     * none is. The same must hold for the upper half, and so on: P = 2^a - 2^b. */
    if (gcoll_is_power_of_two(size + lowest))
        claims |= gcoll_claimed_trees(problem, GCOLL_CLAIM_PAIRS);
    return claims;
}
