/* algorithms/halving_doubling.c - recursive halving and doubling in binary blocks.
 *
 * The ranks are cut in blocks of powers of two, the largest first (13 = 8 + 4 + 1). Each block halves its
 * vectors until every rank of it has one reduced piece. The smallest block then hands its pieces to the next
 * larger one, cut as finely as they are there, and so on up to the largest, which so has the result. It comes
 * down the same way.
 *
 * Source: Gloo, docs/algorithms.md, allreduce_halving_doubling; R. Thakur, R. Rabenseifner and W. Gropp,
 * Optimization of collective communication operations in MPICH, Int. J. High Perform. Comput. Appl. 19
 * (2005), the section on allreduce, binary blocks.
 *
 * Steps for a power of two: 2 log2 P; elements sent: 2(P-1)/P n; reduced: (P-1)/P n. Else a rank of a small
 * block has one message each way for every rank of the next larger block that its piece is cut for.
 *
 * Restrictions: none. Neighbours are paired whatever P is, so more ranks do not change how those below them
 * are added up. */
#include "algorithms/halving.h"

/* This rank's block, and its neighbours: the one before it is larger, the one after it smaller. Size 0: none.
 */
typedef struct block {
    gcoll_party party;
    uint32_t larger, smaller, largest;
} block;

static block block_of(uint32_t rank, uint32_t size) {
    block k = {.largest = gcoll_power_of_two_below(size)};
    uint32_t begin = 0, bits = k.largest;
    while (rank >= begin + bits) {
        begin += bits;
        k.larger = bits;
        bits = gcoll_power_of_two_below(size - begin);
    }
    k.party = (gcoll_party){.size = bits, .place = rank - begin, .shift = begin};
    if (begin + bits < size)
        k.smaller = gcoll_power_of_two_below(size - begin - bits);
    return k;
}

typedef struct piece {
    uint64_t begin, count;
} piece;

/* What place `place` of a block of `size` ranks has when the halving has ended. */
static piece piece_of(const gcoll_problem *problem, uint32_t size, uint32_t place) {
    uint32_t i = gcoll_halved_piece(size, place, gcoll_log2_ceil(size));
    return (piece){gcoll_chunk_begin(problem->count, size, i), gcoll_chunk_count(problem->count, size, i)};
}

/* A place's piece has the pieces of all those places of a larger block that are equal to it modulo the size
 * of its own. */
static void hand_up(const gcoll_problem *problem, const block *k, gcoll_builder *b) {
    const gcoll_party *own = &k->party;
    const piece mine = piece_of(problem, own->size, own->place);
    const gcoll_ref vector = own->size == 1 ? gcoll_in(0, 0) : gcoll_out(0, 0);
    if (k->smaller > 0)
        gcoll_plan_recv_reduce(b, own->shift + own->size + own->place % k->smaller, gcoll_out(0, mine.begin),
                               gcoll_ref_add(vector, mine.begin), mine.count);
    if (k->larger == 0)
        return;
    gcoll_plan_round_at_least(b, gcoll_log2_ceil(k->larger));
    for (uint32_t place = own->place; place < k->larger; place += own->size) {
        piece part = piece_of(problem, k->larger, place);
        gcoll_plan_send(b, own->shift - k->larger + place, gcoll_ref_add(vector, part.begin), part.count);
    }
}

static void hand_down(const gcoll_problem *problem, const block *k, gcoll_builder *b) {
    const gcoll_party *own = &k->party;
    const uint32_t last = 2 * gcoll_log2_ceil(k->largest) + 1; /* round; the way down mirrors the way up */
    const piece mine = piece_of(problem, own->size, own->place);
    if (k->larger > 0)
        gcoll_plan_round_at_least(b, last - gcoll_log2_ceil(k->larger));
    for (uint32_t place = own->place; place < k->larger; place += own->size) {
        piece part = piece_of(problem, k->larger, place);
        gcoll_plan_recv(b, own->shift - k->larger + place, gcoll_out(0, part.begin), part.count);
    }
    if (k->smaller == 0)
        return;
    gcoll_plan_round_at_least(b, last - gcoll_log2_ceil(own->size));
    gcoll_plan_send(b, own->shift + own->size + own->place % k->smaller, gcoll_out(0, mine.begin),
                    mine.count);
}

static void halving_doubling_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const block k = block_of(problem->rank, problem->size);
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
    gcoll_halve(b, &k.party, gcoll_in(0, 0), problem->count);
    hand_up(problem, &k, b);
    hand_down(problem, &k, b);
    if (k.larger > 0 || k.smaller > 0)
        gcoll_plan_round(b);
    gcoll_double(b, &k.party, problem->count);
}

static double larger_of(double a, double b) {
    return a > b ? a : b;
}

/* Up to the largest block, from the smallest: a block is done when its own work is, or when the block before
 * has handed everything up, whichever costs more. Down again costs the same, but for reducing. */
static void halving_doubling_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    gcoll_cost up = {0, 0, 0, 0};
    const double n = (double)problem->count;
    uint32_t smaller = 0;
    for (uint32_t size = 1; size <= problem->size; size *= 2) {
        if ((problem->size & size) == 0)
            continue;
        double steps = gcoll_log2_ceil(size), part = n / size;
        if (smaller == 0) {
            up = (gcoll_cost){steps, n - part, n - part, 0};
        } else {
            up.steps = larger_of(steps + 1, up.steps + size / smaller);
            up.sent = larger_of(n, up.sent + n / smaller);
            up.reduced = larger_of(n, up.reduced + part);
        }
        smaller = size;
    }
    *cost = (gcoll_cost){2 * up.steps, 2 * up.sent, up.reduced, 0};
}

const gcoll_algorithm gcoll_allreduce_halving_doubling_algorithm = {
    .name = "halving_doubling",
    .collective = GCOLL_ALLREDUCE,
    .summary = "recursive halving and doubling in binary blocks; 2 log2 P steps for a power of two",
    .source = "Thakur, Rabenseifner and Gropp 2005, binary blocks; Gloo, docs/algorithms.md",
    .plan = halving_doubling_plan,
    .cost = halving_doubling_cost,
};
