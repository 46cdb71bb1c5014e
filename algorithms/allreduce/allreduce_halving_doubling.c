/* algorithms/allreduce/allreduce_halving_doubling.c - allreduce by recursive halving and doubling in binary
 * blocks.
 *
 * The ranks are cut in blocks of powers of two, the largest first (13 = 8 + 4 + 1). In each block the ranks
 * halve their vectors until each has one reduced piece. The smallest block then sends its pieces to the
 * next larger one, cut as finely as there, and so on up to the largest, which so has the result. The result
 * comes back the same way.
 *
 * Source: Gloo, docs/algorithms.md, allreduce_halving_doubling; R. Thakur, R. Rabenseifner and W. Gropp,
 * Optimization of collective communication operations in MPICH, Int. J. High Perform. Comput. Appl. 19
 * (2005), the section on allreduce, binary blocks.
 *
 * Steps for a power of two: 2 log2 P; elements sent: 2(P-1)/P n; reduced: (P-1)/P n. Else blocks wait for one
 * another: 9 turns and 17/8 n sent for 12 = 8 + 4, 16 and 25/8 n for 9 = 8 + 1.
 *
 * Restrictions: none. Neighbours are paired whatever P is, so more ranks do not change how those below them
 * are added up. */
#include "algorithms/shared/binary_blocks.h"
#include "algorithms/shared/hosts.h"

/* Receives the result from the next larger block, which is before this one. */
static void take_down(const gcoll_problem *problem, gcoll_builder *b, gcoll_binary_block own) {
    gcoll_binary_block larger = gcoll_binary_block_of(problem->size, own.first - 1);
    for (larger.index = own.index; larger.index >> larger.log == 0; larger.index += UINT32_C(1) << own.log) {
        gcoll_elements part = gcoll_binary_range(problem, larger, larger.log);
        gcoll_plan_recv(b, larger.first + larger.index, gcoll_out(0, part.begin), part.count);
    }
}

static void hand_down(const gcoll_problem *problem, gcoll_builder *b, gcoll_binary_block own) {
    gcoll_binary_block smaller = gcoll_binary_block_of(problem->size, own.first + (UINT32_C(1) << own.log));
    gcoll_elements piece = gcoll_binary_range(problem, own, own.log);
    uint32_t peer = smaller.first + (own.index & ((UINT32_C(1) << smaller.log) - 1));
    gcoll_plan_send(b, peer, gcoll_out(0, piece.begin), piece.count);
}

/* Takes the halving backwards. */
static void double_back(const gcoll_problem *problem, gcoll_builder *b, gcoll_binary_block own) {
    for (uint32_t step = own.log; step-- > 0;) {
        gcoll_binary_block partner = own;
        partner.index ^= UINT32_C(1) << step;
        gcoll_elements sent = gcoll_binary_range(problem, own, step + 1);
        gcoll_elements received = gcoll_binary_range(problem, partner, step + 1);
        gcoll_plan_send(b, partner.first + partner.index, gcoll_out(0, sent.begin), sent.count);
        gcoll_plan_recv(b, partner.first + partner.index, gcoll_out(0, received.begin), received.count);
        gcoll_plan_round(b);
    }
}

static void halving_doubling_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const gcoll_binary_block own = gcoll_binary_block_of(problem->size, problem->rank);
    const uint32_t after = problem->size - own.first - (UINT32_C(1) << own.log); /* ranks in smaller blocks */
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
    gcoll_binary_reduce(problem, b, (gcoll_sums){gcoll_out(0, 0), 0});
    if (own.first > 0) { /* each block in the round after the one before it */
        uint32_t larger = (uint32_t)__builtin_popcount(own.first),
                 all = (uint32_t)__builtin_popcount(problem->size);
        gcoll_plan_round_at_least(b, gcoll_log2_floor(problem->size) + all - 1 + larger - 1);
        take_down(problem, b, own);
        gcoll_plan_round(b);
    }
    if (after > 0) {
        hand_down(problem, b, own);
        gcoll_plan_round(b);
    }
    double_back(problem, b, own);
}

static double most(double a, double b) {
    return a > b ? a : b;
}

/* The result comes down from the largest block. A rank receives its part from the ranks of the larger block
 * one after the other, sends it on to the smaller block, and doubles. Only the last part arrives after the
 * way up has ended. Steps, elements sent and elements reduced are each counted on their own longest path.
 * Neglected: messages of several blocks wait for each other, which takes up to a sixth longer. */
static void halving_doubling_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const double n = (double)problem->count;
    const gcoll_cost up = gcoll_binary_cost(problem);
    double steps = 0, sent = 0; /* until a block has its part */
    uint32_t above = 0;         /* ranks in the larger blocks */
    *cost = up;
    while (above < problem->size) {
        gcoll_binary_block block = gcoll_binary_block_of(problem->size, above);
        const double ranks = (double)(UINT32_C(1) << block.log);
        above += UINT32_C(1) << block.log;
        const bool hands_on = above < problem->size;
        cost->steps = most(cost->steps, up.steps + steps + hands_on + block.log);
        cost->sent = most(cost->sent, up.sent + sent + (hands_on ? n : n - n / ranks));
        if (!hands_on)
            break;
        const double smaller = (double)(UINT32_C(1) << gcoll_binary_block_of(problem->size, above).log);
        steps += block.first == 0 ? 1 : ranks / smaller;
        sent += block.first == 0 ? n / ranks : n / smaller;
    }
}

/* Of the largest block, whose ranks halve and double the longest. */
static void halving_doubling_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = (gcoll_load){0};
    gcoll_halving_within(problem, load);
}

const gcoll_algorithm gcoll_allreduce_halving_doubling_algorithm = {
    .name = "halving_doubling",
    .collective = GCOLL_ALLREDUCE,
    .summary = "recursive halving and doubling in binary blocks; 2 log2 P steps for a power of two",
    .source = "Thakur, Rabenseifner and Gropp 2005, binary blocks; Gloo, docs/algorithms.md",
    .plan = halving_doubling_plan,
    .claims = gcoll_pairs_claims,
    .cost = halving_doubling_cost,
    .load = halving_doubling_load,
    .takes_codec = true,
};
