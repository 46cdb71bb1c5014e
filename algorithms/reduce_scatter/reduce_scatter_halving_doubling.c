/* algorithms/reduce_scatter/reduce_scatter_halving_doubling.c - reduce-scatter by recursive halving, in rank
 * order.
 *
 * Recursive halving in binary blocks (shared/binary_blocks.h) leaves one of 2^k pieces of the sum with each
 * rank of the largest block, in bit-reversed order. Then the holder of a piece sends it to the ranks whose
 * blocks lie in it, whatever their sizes. Neighbours exchange first, so that the larger messages go the
 * shorter ways and rank order is kept. Starting with the largest distance would need no such last step, but
 * would lose both.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), reduce-scatter; P. Sack and W. Gropp, Faster
 * topology-aware collective algorithms through non-minimal communication, PPoPP 2012, for the order.
 *
 * Steps: log2 P, and one to put in order. Elements sent: n; reduced: (P-1)/P n. For P no power of two more,
 * as blocks hand up one after the other: 7 turns and 5/4 n for 12 = 8 + 4, 12 and 2n for 9 = 8 + 1.
 *
 * Restrictions: none. Scratch: n/2. */
#include "algorithms/shared/binary_blocks.h"

/* Piece i of `parts`, or block i of the problem's if parts is 0, begins here. */
static uint64_t begin_of(const gcoll_problem *problem, uint32_t parts, uint32_t i) {
    return parts > 0 ? gcoll_part_begin(problem, parts, i) : gcoll_block_begin(problem, i);
}

/* Finds the last of `number` pieces or blocks that begins at element e or before. */
static uint32_t find(const gcoll_problem *problem, uint32_t parts, uint32_t number, uint64_t e) {
    uint32_t low = 0, high = number;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (begin_of(problem, parts, middle) <= e)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static gcoll_elements common(const gcoll_problem *problem, uint32_t parts, uint32_t i, gcoll_elements with) {
    uint64_t begin = begin_of(problem, parts, i), end = begin_of(problem, parts, i + 1);
    uint64_t from = begin > with.begin ? begin : with.begin;
    uint64_t to = end < with.begin + with.count ? end : with.begin + with.count;
    return (gcoll_elements){from, to > from ? to - from : 0};
}

static void hand_out(const gcoll_problem *problem, gcoll_builder *b, gcoll_elements piece, gcoll_sums sums) {
    const uint32_t rank = problem->rank;
    const uint64_t end = piece.begin + piece.count;
    for (uint32_t to = find(problem, 0, problem->size, piece.begin);
         to < problem->size && gcoll_block_begin(problem, to) < end; to++) {
        gcoll_elements sent = common(problem, 0, to, piece);
        if (to != rank)
            gcoll_plan_send(b, to, gcoll_sum_at(sums, sent.begin), sent.count);
        else
            gcoll_plan_copy(b, gcoll_out(0, sent.begin - gcoll_block_begin(problem, rank)),
                            gcoll_sum_at(sums, sent.begin), sent.count);
    }
}

static void collect(const gcoll_problem *problem, gcoll_builder *b, uint32_t log) {
    const uint32_t parts = UINT32_C(1) << log;
    const gcoll_elements own = {gcoll_block_begin(problem, problem->rank),
                                gcoll_block_count(problem, problem->rank)};
    for (uint32_t piece = find(problem, parts, parts, own.begin);
         piece < parts && gcoll_part_begin(problem, parts, piece) < own.begin + own.count; piece++) {
        uint32_t from = gcoll_bits_reversed(piece, log);
        gcoll_elements received = common(problem, parts, piece, own);
        if (from != problem->rank)
            gcoll_plan_recv(b, from, gcoll_out(0, received.begin - own.begin), received.count);
    }
}

static void halving_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const gcoll_binary_block own = gcoll_binary_block_of(problem->size, problem->rank);
    gcoll_sums sums = gcoll_binary_sums_new(problem, b);
    gcoll_binary_reduce(problem, b, sums);
    if (own.first == 0)
        hand_out(problem, b, gcoll_binary_range(problem, own, own.log), sums);
    collect(problem, b, gcoll_log2_floor(problem->size));
}

/* The last step puts the pieces in order: the holder of the last piece, which completes last, sends it to
 * two ranks; or to one if it holds its own block (P = 2^k + 1) or P is a power of two. Neglected: positions
 * of unequal blocks. */
static void halving_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const uint32_t size = problem->size, log = gcoll_log2_floor(size), parts = UINT32_C(1) << log;
    const uint64_t n = problem->count, half = n / 2, block = gcoll_largest_block(problem);
    uint64_t moved = gcoll_largest_chunk(n, parts);
    uint32_t messages = size <= parts + 1 ? 1 : 2;
    if (size == parts && log <= 1 && !problem->offsets)
        messages = 0, moved = 0; /* the pieces are in order already */
    else if (size == parts + 1 || (problem->offsets && block > moved))
        moved = block;
    *cost = gcoll_binary_cost(problem);
    cost->steps += messages;
    cost->sent += (double)moved;
    cost->scratch = size > 1 ? (double)(n - half) : 0;
}

const gcoll_algorithm gcoll_reduce_scatter_halving_doubling_algorithm = {
    .name = "halving_doubling",
    .collective = GCOLL_REDUCE_SCATTER,
    .summary = "recursive halving in binary blocks, in rank order; log2 P + 1 steps",
    .source = "Thakur, Rabenseifner and Gropp 2005; Rabenseifner and Träff 2004; Sack and Gropp 2012",
    .plan = halving_plan,
    .claims = gcoll_pairs_claims,
    .cost = halving_cost,
    .takes_codec = true,
};
