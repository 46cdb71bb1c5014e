/* algorithms/group_butterfly.c - the butterfly for any number of ranks, with fewer steps for more bytes.
 *
 * Chunk t_k^-1(j) of rank j sits "at placement k", t_k being the k-th of a group of P permutations of the
 * ranks. For the cyclic group it is chunk (j-k) mod P. Step i folds the N placements in use onto ceil(N/2):
 * the upper ones go h = floor(N/2) ranks down, each to the placement h lower, until `results` placements are
 * complete; the steps are then taken back to spread them. With results = 1 (r = 0) no byte is sent in vain;
 * with results = P (r = L) nothing is left to spread.
 *
 * Groups: `cyclic`, for any P. `product` is Z_a x Z_b, walked one factor at a time: reduced among the a ranks
 * of a row (of a host, say), then among the b ranks that stand at the same place of their rows, and taken
 * back in reverse; each walk is a cyclic one of its own size. `xor` is Z_2 x Z_2 x ..., from the highest bit
 * of the rank on: r = 0 is recursive halving and doubling, r = L recursive doubling, whose partners come
 * nearer with each step. r counts the steps saved where the way back begins, so a product saves those of the
 * last factor first.
 *
 * Source: D. Kolmakov and X. Zhang, A generalization of the allreduce operation, arXiv:2004.09362, sections 7
 * to 9.
 *
 * Steps: 2L - r; L = ceil(log2 P), for a product ceil(log2 a) + ceil(log2 b).
 *
 * Chunks (of n/P elements) sent: 2(P-1) for r = 0, PL for r = L, never more than 2(P-1) + (2^r - 1)(L-1).
 * Chunks reduced: P-1 for r = 0, never more than P-1 + (2^r - 1)(2L-2) for L > 1. For a product r = 0 is as
 * cheap.
 *
 * Restrictions: xor needs a power of two. Scratch for r > 0: up to n elements, twice that if a factor with
 * saved steps is no power of two. */
#include "algorithms/group_butterfly.h"

static void plan_butterfly(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_group_walk w = gcoll_group_walk_make(problem);
    /* Strict rounds, as the papers have them: unbounded, or one round ahead, half a message of a later step
     * gets ahead of what others wait for. Simulated, P = 127 takes up to half longer. Over TCP it made no
     * difference. */
    gcoll_plan_window(b, 0);
    if (w.factors == 0)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), w.n);
    gcoll_group_room room = gcoll_group_reserve(&w, b);
    gcoll_ref data = gcoll_in(0, 0);
    for (uint32_t i = 0; i < w.factors; i++) {
        gcoll_group_fold(&w, &w.factor[i], &room, b, data);
        data = gcoll_out(0, 0);
    }
    for (uint32_t i = w.factors; i-- > 0;)
        gcoll_group_spread(&w, &w.factor[i], b);
}

const gcoll_algorithm gcoll_allreduce_group_butterfly_algorithm = {
    .name = "group_butterfly",
    .collective = GCOLL_ALLREDUCE,
    .summary = "butterfly for any P; 2L-r steps, L = ceil(log2 P), from fewest bytes to fewest steps",
    .source = "Kolmakov and Zhang 2020, arXiv:2004.09362, sections 7 to 9",
    .options = gcoll_group_butterfly_options,
    .plan = plan_butterfly,
    .claims = gcoll_group_butterfly_claims,
    .cost = gcoll_group_butterfly_cost,
    .applies = gcoll_group_butterfly_applies,
};
