/* algorithms/fold.h - when fewer ranks suit an algorithm: the others, in pairs with those, hand over their
 * vectors. */
#ifndef GCOLL_FOLD_H
#define GCOLL_FOLD_H

#include "algorithms/planners.h"

/* The places in which ranks take part, in rank order. Of the first ranks two share a place: the lower one
 * hands its vector to the other and takes the result from it in the end. Sums keep rank order. */
typedef struct gcoll_fold {
    uint32_t places, pairs;
    uint32_t place; /* of this rank, or of the one above that takes part for it */
    bool out;       /* this rank does not take part itself */
} gcoll_fold;

/* To `places`, at least half as many as there are ranks. */
gcoll_fold gcoll_fold_make(const gcoll_problem *problem, uint32_t places);

/* The rank that takes part in a place. */
static inline uint32_t gcoll_fold_rank(const gcoll_fold *fold, uint32_t place) {
    return place < fold->pairs ? 2 * place + 1 : place + fold->pairs;
}

/* Returns where the place's vector then lies, IN or OUT. One round, if anything is folded. */
gcoll_ref gcoll_fold_begin(const gcoll_problem *problem, const gcoll_fold *fold, gcoll_builder *b);
/* Hands OUT over, after `rounds` rounds among the places. */
void gcoll_fold_end(const gcoll_problem *problem, const gcoll_fold *fold, gcoll_builder *b, uint32_t rounds);

/* Of sums over 2^k places, the most there can be, that pair neighbours over and over. */
uint32_t gcoll_fold_claims(const gcoll_problem *problem);

#endif
