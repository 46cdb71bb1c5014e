/* algorithms/circulant.h - reducing and gathering blocks along a list of skips, for any number of ranks.
 *
 * Block (j-k) mod P of rank j sits "at placement k". P placements are in use at first. A step folds N of them
 * onto N' >= ceil(N/2): those from N' on go skip = N - N' ranks down, each to the placement that many lower,
 * and add up with what is there. In the end one is left, and rank j holds block j complete. The steps taken
 * back spread complete blocks. Each of the two phases sends all blocks but one, whatever the list: fewer
 * skips make fewer and larger messages.
 *
 * The lists offered: N' = max(ceil(N/2), N - max_skip), so no message carries more than max_skip blocks.
 * max_skip = 1 is the ring, P/2 and more is halving; between them lie about P/max_skip + log2(max_skip) steps
 * a phase. The skips never grow from one step to the next.
 *
 * A run of placements is a run of blocks that may go round from block P-1 to block 0; it then makes two
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

/* max_skip 0: no limit. The blocks are those of gcoll_block_begin, which may be uneven. */
gcoll_circulant gcoll_circulant_make(const gcoll_problem *problem, uint32_t max_skip);

/* Placements in use before step i; 1 before step `steps`. */
uint32_t gcoll_circulant_placements(const gcoll_circulant *c, uint32_t i);

/* Where partial sums live while a vector is reduced: element e at ref + (e - origin) mod n. */
typedef struct gcoll_circulant_work {
    gcoll_ref ref;
    uint64_t origin;
} gcoll_circulant_work;

/* In a buffer of n elements, such as OUT of an allreduce; it may be the one that is reduced (in place). */
static inline gcoll_circulant_work gcoll_circulant_work_in(gcoll_ref buffer) {
    return (gcoll_circulant_work){buffer, 0};
}
/* In newly reserved scratch, no more than is needed: `gcoll_circulant_scratch` elements or fewer. */
gcoll_circulant_work gcoll_circulant_work_new(const gcoll_circulant *c, gcoll_builder *b);
/* The most scratch that the former takes on any rank; exact if all blocks are equal. */
double gcoll_circulant_scratch(const gcoll_circulant *c);

/* Reduces the n elements at `in` of all ranks; rank j's block j comes out at `own`. Only the last step writes
 * to `own`, which may be where block j lies in `in`. Then begins a new round. Messages: `steps`, of n
 * elements less one block in all, sent and reduced. */
void gcoll_circulant_reduce_scatter(const gcoll_circulant *c, gcoll_builder *b, gcoll_ref in,
                                    gcoll_circulant_work work, gcoll_ref own);

/* Gathers all blocks in the n elements at `out`; rank j's own lies at `own`, which may be where it belongs.
 * Messages: `steps`, of n elements less one block in all. */
void gcoll_circulant_allgather(const gcoll_circulant *c, gcoll_builder *b, gcoll_ref own, gcoll_ref out);

#endif
