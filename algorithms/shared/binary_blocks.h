/* algorithms/shared/binary_blocks.h - recursive halving for any number of ranks, in rank order.
 *
 * The ranks are cut, from 0 on, in blocks of falling powers of two (13 = 8 + 4 + 1). Within a block of 2^k
 * ranks step l pairs rank i with i xor 2^l: they swap halves of what they still have, one keeps the lower and
 * the other the upper half, and reduce. Then each holds one of 2^k pieces of the vector, where the bits of
 * the piece's number are those of i reversed. Then the smallest block hands its pieces to the next larger
 * one, cut further, and so on up: the largest block ends with the whole sum.
 *
 * Neighbours come first and sums cover consecutive ranks, in order: each element is built by the tree that
 * pairs neighbours, whatever P.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), recursive halving; R. Rabenseifner and J. Träff, More
 * efficient reduction algorithms for non-power-of-two number of processors, EuroPVM/MPI 2004, binary blocks.
 */
#ifndef GCOLL_BINARY_BLOCKS_H
#define GCOLL_BINARY_BLOCKS_H

#include "algorithms/planners.h"

/* A block of ranks, and one of them. */
typedef struct gcoll_binary_block {
    uint32_t first, log; /* ranks first .. first + 2^log - 1 */
    uint32_t index;      /* of the rank in it */
} gcoll_binary_block;

/* The largest one has log = gcoll_log2_floor(size). */
gcoll_binary_block gcoll_binary_block_of(uint32_t size, uint32_t rank);

/* The lowest `log` bits reversed: the piece that an index holds in the end, and the index that holds a piece.
 */
static inline uint32_t gcoll_bits_reversed(uint32_t index, uint32_t log) {
    uint32_t reversed = 0;
    for (uint32_t bit = 0; bit < log; bit++)
        reversed |= (index >> bit & 1) << (log - 1 - bit);
    return reversed;
}

/* Elements [begin, begin + count) of the vector. */
typedef struct gcoll_elements {
    uint64_t begin, count;
} gcoll_elements;

/* The elements that the block's rank still works on before step `step`; with step = log: its piece. */
gcoll_elements gcoll_binary_range(const gcoll_problem *problem, gcoll_binary_block block, uint32_t step);

/* Element e's partial sum is at ref + (e - origin). */
typedef struct gcoll_sums {
    gcoll_ref ref;
    uint64_t origin;
} gcoll_sums;

static inline gcoll_ref gcoll_sum_at(gcoll_sums sums, uint64_t element) {
    return gcoll_ref_add(sums.ref, element - sums.origin);
}

/* New scratch for the half that this rank keeps in the first step, rounded up or down; in a block of one
 * rank, which keeps none, IN itself. */
gcoll_sums gcoll_binary_sums_new(const gcoll_problem *problem, gcoll_builder *b);

/* Reduces n elements of IN. Each rank of the largest block ends with its piece complete in `sums`, which may
 * be OUT of n elements, also in place. Then begins a new round. */
void gcoll_binary_reduce(const gcoll_problem *problem, gcoll_builder *b, gcoll_sums sums);

/* Steps, sent and reduced of the above; scratch is left 0. Each is that of its own longest way, exact where n
 * is a multiple of the largest block. */
gcoll_cost gcoll_binary_cost(const gcoll_problem *problem);

#endif
