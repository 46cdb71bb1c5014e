/* algorithms/shared/circulant.h - reduce-scatter and allgather along a list of skips, for any number of
 * ranks.
 *
 * Block (j-k) mod P of rank j is "at placement k". At first P placements are in use. A step of the
 * reduce-scatter leaves N' >= ceil(N/2) of N placements: those from N' on are sent skip = N - N' ranks down,
 * to the placement that is lower by skip, and added there. In the end one placement is left, and rank j has
 * block j complete. The allgather takes the steps backwards, with complete blocks. Each phase sends all
 * blocks but one, whatever the skips: larger skips make fewer and larger messages.
 *
 * The lists: N' = max(ceil(N/2), N - max_skip), so no message carries more than max_skip blocks. max_skip = 1
 * is the ring, P/2 and more is halving; between them a phase takes about P/max_skip + log2(max_skip) steps.
 * Skips never grow from one step to the next.
 *
 * Consecutive placements are consecutive blocks, which may go round from block P-1 to block 0; that takes two
 * messages.
 *
 * Source: D. Kolmakov and X. Zhang, arXiv:2004.09362, section 7 and the outlook in section 11; J. L. Träff,
 * Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv:2410.14234. */
#ifndef GCOLL_CIRCULANT_H
#define GCOLL_CIRCULANT_H

#include "algorithms/planners.h"

typedef struct gcoll_circulant {
    const gcoll_problem *problem;
    uint32_t max_skip;
    uint32_t capped; /* steps at the start with skip = max_skip; halving follows */
    uint32_t steps;  /* of one phase */
} gcoll_circulant;

/* Its option max_skip; UNIT is "blocks" or "chunks (of n/P elements)". */
#define GCOLL_CIRCULANT_MAX_SKIP(UNIT)                                                                       \
    {                                                                                                        \
        .name = "max_skip", .help = "most " UNIT " that one message carries: 1 is the ring; 0: no limit",    \
        .max = GCOLL_MAX_RANKS                                                                               \
    }

/* max_skip 0: no limit. The blocks are those of gcoll_block_begin, which may be uneven. */
gcoll_circulant gcoll_circulant_make(const gcoll_problem *problem, uint32_t max_skip);

/* Placements in use before step i; 1 before step `steps`. */
uint32_t gcoll_circulant_placements(const gcoll_circulant *c, uint32_t i);

/* Elements that a rank sends in one phase. For unequal blocks an upper bound: each step counts as many of the
 * largest block as it sends blocks, but no more than all elements. */
double gcoll_circulant_sent(const gcoll_circulant *c);

/* Where partial sums are stored while a vector is reduced: element e at ref + (e - origin) mod n. */
typedef struct gcoll_circulant_work {
    gcoll_ref ref;
    uint64_t origin;
} gcoll_circulant_work;

/* In a buffer of n elements, for instance OUT of an allreduce; it may be the input itself (in place). */
static inline gcoll_circulant_work gcoll_circulant_work_in(gcoll_ref buffer) {
    return (gcoll_circulant_work){buffer, 0};
}
/* In new scratch of `gcoll_circulant_scratch` elements or fewer. */
gcoll_circulant_work gcoll_circulant_work_new(const gcoll_circulant *c, gcoll_builder *b);
/* The most scratch that gcoll_circulant_work_new takes on any rank; exact if all blocks are equal. */
double gcoll_circulant_scratch(const gcoll_circulant *c);

/* Reduces the n elements at `in` of all ranks; rank j's block j ends at `own`, which may be where block j is
 * in `in`: only the last step writes there. Then begins a new round. `steps` messages, of n elements less one
 * block in all, which are as many as are reduced. */
void gcoll_circulant_reduce_scatter(const gcoll_circulant *c, gcoll_builder *b, gcoll_ref in,
                                    gcoll_circulant_work work, gcoll_ref own);

/* Gathers all blocks in the n elements at `out`; rank j's own is at `own`, which may be its place in `out`.
 * `steps` messages, of n elements less one block in all. */
void gcoll_circulant_allgather(const gcoll_circulant *c, gcoll_builder *b, gcoll_ref own, gcoll_ref out);

#endif
