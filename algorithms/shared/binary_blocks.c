/* algorithms/shared/binary_blocks.c - recursive halving in blocks of ranks: binary_blocks.h has the idea. */
#include "algorithms/shared/binary_blocks.h"

gcoll_binary_block gcoll_binary_block_of(uint32_t size, uint32_t rank) {
    uint32_t first = 0, log = gcoll_log2_floor(size);
    while (rank - first >= UINT32_C(1) << log) { /* on to the next lower bit of size */
        first += UINT32_C(1) << log;
        log = gcoll_log2_floor(size - first);
    }
    return (gcoll_binary_block){first, log, rank - first};
}

gcoll_elements gcoll_binary_range(const gcoll_problem *problem, gcoll_binary_block block, uint32_t step) {
    uint32_t parts = UINT32_C(1) << step, part = gcoll_bits_reversed(block.index, step);
    uint64_t begin = gcoll_part_begin(problem, parts, part);
    return (gcoll_elements){begin, gcoll_part_begin(problem, parts, part + 1) - begin};
}

gcoll_sums gcoll_binary_sums_new(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_binary_block own = gcoll_binary_block_of(problem->size, problem->rank);
    if (own.log == 0)
        return (gcoll_sums){gcoll_in(0, 0), 0};
    gcoll_elements half = gcoll_binary_range(problem, own, 1);
    return (gcoll_sums){gcoll_plan_scratch(b, half.count), half.begin};
}

static void halve(const gcoll_problem *problem, gcoll_builder *b, gcoll_binary_block own, gcoll_sums sums) {
    gcoll_sums from = {gcoll_in(0, 0), 0};
    for (uint32_t step = 0; step < own.log; step++) {
        gcoll_binary_block partner = own;
        partner.index ^= UINT32_C(1) << step;
        const uint32_t peer = partner.first + partner.index;
        gcoll_elements kept = gcoll_binary_range(problem, own, step + 1);
        gcoll_elements sent = gcoll_binary_range(problem, partner, step + 1);
        gcoll_ref a = gcoll_sum_at(from, kept.begin), to = gcoll_sum_at(sums, kept.begin);
        gcoll_plan_send(b, peer, gcoll_sum_at(from, sent.begin), sent.count);
        if (peer < problem->rank)
            gcoll_plan_recv_reduce_left(b, peer, to, a, kept.count);
        else
            gcoll_plan_recv_reduce(b, peer, to, a, kept.count);
        gcoll_plan_round(b);
        from = sums;
    }
}

/* Pieces that lie in one another are held by ranks whose indices agree in the lower bits. */
static void take_in(const gcoll_problem *problem, gcoll_builder *b, gcoll_binary_block own, gcoll_sums sums) {
    const uint32_t end = own.first + (UINT32_C(1) << own.log);
    gcoll_binary_block smaller = gcoll_binary_block_of(problem->size, end);
    gcoll_elements piece = gcoll_binary_range(problem, own, own.log);
    uint32_t peer = smaller.first + (own.index & ((UINT32_C(1) << smaller.log) - 1));
    gcoll_ref at = gcoll_sum_at(sums, piece.begin);
    gcoll_plan_recv_reduce(b, peer, at, at, piece.count);
}

static void hand_up(const gcoll_problem *problem, gcoll_builder *b, gcoll_binary_block own, gcoll_sums sums) {
    gcoll_binary_block larger = gcoll_binary_block_of(problem->size, own.first - 1);
    for (larger.index = own.index; larger.index >> larger.log == 0; larger.index += UINT32_C(1) << own.log) {
        gcoll_elements part = gcoll_binary_range(problem, larger, larger.log);
        gcoll_plan_send(b, larger.first + larger.index, gcoll_sum_at(sums, part.begin), part.count);
    }
}

void gcoll_binary_reduce(const gcoll_problem *problem, gcoll_builder *b, gcoll_sums sums) {
    const gcoll_binary_block own = gcoll_binary_block_of(problem->size, problem->rank);
    const uint32_t largest = gcoll_log2_floor(problem->size);
    const uint32_t after = problem->size - own.first - (UINT32_C(1) << own.log); /* ranks */
    const uint32_t smaller = (uint32_t)__builtin_popcount(after);                /* blocks */
    halve(problem, b, own, sums);
    if (smaller > 0) { /* the smallest block hands up in the first round after all halving, and so on */
        gcoll_plan_round_at_least(b, largest + smaller - 1);
        take_in(problem, b, own, sums);
    }
    if (own.first > 0) {
        gcoll_plan_round_at_least(b, largest + smaller);
        hand_up(problem, b, own, own.log > 0 ? sums : (gcoll_sums){gcoll_in(0, 0), 0});
    }
    gcoll_plan_round_at_least(b, largest + (uint32_t)__builtin_popcount(problem->size) - 1);
}

static double most(double a, double b) {
    return a > b ? a : b;
}

/* A rank hands up one message after the other, each to a rank that has halved its vector by then. */
gcoll_cost gcoll_binary_cost(const gcoll_problem *problem) {
    const double n = (double)problem->count;
    double pieces = 1; /* of the block in hand, the smallest first */
    gcoll_cost cost = {0, 0, 0, 0};
    bool smallest = true;
    for (uint32_t log = 0; problem->size >> log != 0; log++) {
        if ((problem->size >> log & 1) == 0)
            continue;
        const double below = pieces;
        pieces = (double)(UINT32_C(1) << log);
        cost.steps = most(cost.steps, log);
        cost.sent = most(cost.sent, n - n / pieces);
        cost.reduced = most(cost.reduced, n - n / pieces);
        if (!smallest) {
            cost.steps += pieces / below;
            cost.sent += n / below;
            cost.reduced += n / pieces;
        }
        smallest = false;
    }
    return cost;
}
