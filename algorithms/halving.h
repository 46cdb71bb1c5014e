/* algorithms/halving.h - what allreduces among a power of two of ranks share: folding the other ranks away,
 * and recursive halving and doubling. */
#ifndef GCOLL_HALVING_H
#define GCOLL_HALVING_H

#include "algorithms/planners.h"

/* The ranks that take part, in rank order: place p is rank 2p+1 for p < pairs, else p + shift. */
typedef struct gcoll_party {
    uint32_t size, place, pairs, shift;
    bool out; /* this rank does not take part: the rank after it does so for both */
} gcoll_party;

static inline uint32_t gcoll_party_rank(const gcoll_party *party, uint32_t place) {
    return place < party->pairs ? 2 * place + 1 : place + party->shift;
}

/* The largest power of two that is no more than `size` > 0. */
static inline uint32_t gcoll_power_of_two_below(uint32_t size) {
    uint32_t power = UINT32_C(1) << gcoll_log2_ceil(size);
    return power > size ? power / 2 : power;
}

/* A party of `places` of the problem's ranks, at least half of them. Of the first ranks, two share a place:
 * the lower one hands its vector to the other and takes the result from it in the end. Sums keep rank order.
 */
gcoll_party gcoll_fold(const gcoll_problem *problem, uint32_t places);
/* Returns where the rank's vector then lies, IN or OUT. */
gcoll_ref gcoll_fold_begin(const gcoll_problem *problem, const gcoll_party *party, gcoll_builder *b);
/* After `rounds` of the party's own. */
void gcoll_fold_end(const gcoll_problem *problem, const gcoll_party *party, gcoll_builder *b,
                    uint32_t rounds);

/* Claims of sums that pair neighbours over and over, after folding to a power of two. */
uint32_t gcoll_fold_claims(const gcoll_problem *problem);

/* The vector is halved once a step until `size` pieces, a power of two, are left: the first of those that
 * `place` has after `steps` steps. */
uint32_t gcoll_halved_piece(uint32_t size, uint32_t place, uint32_t steps);
/* Reduce-scatter of the n elements at `from`, by halves; what stays, reduced, goes to OUT. A round a step;
 * the party's size is a power of two. Sums pair neighbours in rank order. */
void gcoll_halve(gcoll_builder *b, const gcoll_party *party, gcoll_ref from, uint64_t n);
/* The same steps backwards: every place gets the whole of OUT. */
void gcoll_double(gcoll_builder *b, const gcoll_party *party, uint64_t n);

#endif
