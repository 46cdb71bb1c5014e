/* algorithms/fold.c - ranks in pairs, so that a number that suits is left: fold.h has the idea.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), allreduce, of numbers that are no powers of two. */
#include "algorithms/fold.h"

gcoll_fold gcoll_fold_make(const gcoll_problem *problem, uint32_t places) {
    const uint32_t rank = problem->rank, pairs = problem->size - places;
    if (rank >= 2 * pairs)
        return (gcoll_fold){places, pairs, rank - pairs, false};
    return (gcoll_fold){places, pairs, rank / 2, rank % 2 == 0};
}

gcoll_ref gcoll_fold_begin(const gcoll_problem *problem, const gcoll_fold *fold, gcoll_builder *b) {
    gcoll_ref vector = gcoll_in(0, 0);
    if (fold->pairs == 0)
        return vector;
    if (fold->out) {
        gcoll_plan_send(b, problem->rank + 1, vector, problem->count);
    } else if (fold->place < fold->pairs) {
        gcoll_plan_recv_reduce_left(b, problem->rank - 1, gcoll_out(0, 0), vector, problem->count);
        vector = gcoll_out(0, 0);
    }
    gcoll_plan_round(b);
    return vector;
}

void gcoll_fold_end(const gcoll_problem *problem, const gcoll_fold *fold, gcoll_builder *b, uint32_t rounds) {
    gcoll_plan_round_at_least(b, rounds + 1);
    if (fold->out)
        gcoll_plan_recv(b, problem->rank + 1, gcoll_out(0, 0), problem->count);
    else if (fold->place < fold->pairs)
        gcoll_plan_send(b, problem->rank - 1, gcoll_out(0, 0), problem->count);
}

uint32_t gcoll_fold_claims(const gcoll_problem *problem) {
    uint32_t size = problem->size, lowest = size & (0 - size);
    uint32_t claims = GCOLL_CLAIM_RANK_IDENTICAL | GCOLL_CLAIM_ORDERED | gcoll_trivial_claims(problem);
    /* The lower half of the places stands for a full power of two of ranks, as pairing neighbours would have
     * it, if all of them are pairs, or none; the upper half is then folded likewise. So P is 2^a - 2^b. */
    if (gcoll_is_power_of_two(size + lowest))
        claims |= GCOLL_CLAIM_P_INDEPENDENT;
    return claims;
}
