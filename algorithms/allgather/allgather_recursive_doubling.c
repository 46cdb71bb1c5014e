/* algorithms/allgather/allgather_recursive_doubling.c - allgather by recursive doubling.
 *
 * In step l rank r and rank r xor 2^l swap the 2^l neighbouring blocks that each has, so every message is
 * one range of the vector. For P = 2^k + j the first j pairs of neighbours count as one rank: the second
 * rank of a pair sends its block to the first one before, and receives the whole vector after.
 *
 * Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in
 * MPICH, Int. J. High Perform. Comput. Appl. 19 (2005), recursive doubling.
 *
 * Steps: log2 P, or floor(log2 P) + 2 when ranks are paired.
 *
 * Elements sent: n less one block; with pairs, 2n to 2.4n, most for P about 5/4 of a power of two.
 *
 * Restrictions: none. */
#include "algorithms/shared/hosts.h"

typedef struct pairing {
    uint32_t log, pairs; /* k and j */
} pairing;

static pairing pairing_of(uint32_t size) {
    uint32_t log = gcoll_log2_floor(size);
    return (pairing){log, size - (UINT32_C(1) << log)};
}

/* The first rank of a group. There are 2^k groups; for group 2^k it returns P. */
static uint32_t first_of(pairing f, uint32_t group) {
    return group + (group < f.pairs ? group : f.pairs);
}

static void double_up(const gcoll_problem *problem, gcoll_builder *b, pairing f, uint32_t group) {
    for (uint32_t level = 0; level < f.log; level++) {
        uint32_t width = UINT32_C(1) << level, mine = group & ~(width - 1), theirs = mine ^ width;
        uint64_t begin = gcoll_block_begin(problem, first_of(f, mine));
        uint64_t end = gcoll_block_begin(problem, first_of(f, mine + width));
        uint64_t their_begin = gcoll_block_begin(problem, first_of(f, theirs));
        uint64_t their_end = gcoll_block_begin(problem, first_of(f, theirs + width));
        uint32_t peer = first_of(f, group ^ width);
        bool alone = level == 0 && group >= f.pairs; /* need not wait for its own copy */
        gcoll_plan_send(b, peer, alone ? gcoll_in(0, 0) : gcoll_out(0, begin), end - begin);
        gcoll_plan_recv(b, peer, gcoll_out(0, their_begin), their_end - their_begin);
        gcoll_plan_round(b);
    }
}

static void doubling_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const pairing f = pairing_of(problem->size);
    const uint32_t rank = problem->rank;
    const bool paired = rank < 2 * f.pairs;
    const uint64_t begin = gcoll_block_begin(problem, rank), own = gcoll_block_count(problem, rank);
    if (paired && rank % 2 == 1) {
        gcoll_plan_send(b, rank - 1, gcoll_in(0, 0), own);
        gcoll_plan_round_at_least(b, f.log + 1);
        gcoll_plan_recv(b, rank - 1, gcoll_out(0, 0), problem->count);
        return;
    }
    gcoll_plan_copy(b, gcoll_out(0, begin), gcoll_in(0, 0), own);
    if (paired)
        gcoll_plan_recv(b, rank + 1, gcoll_out(0, begin + own), gcoll_block_count(problem, rank + 1));
    if (f.pairs > 0)
        gcoll_plan_round(b);
    double_up(problem, b, f, paired ? rank / 2 : rank - f.pairs);
    if (paired)
        gcoll_plan_send(b, rank + 1, gcoll_out(0, 0), problem->count);
}

/* The cost for the first ranks, whose groups are the largest. With unequal blocks, each block of a step
 * counts as the largest block, but all together as no more than all elements. */
static void doubling_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const pairing f = pairing_of(problem->size);
    const double n = (double)problem->count, block = (double)gcoll_largest_block(problem);
    *cost = (gcoll_cost){.steps = f.log + (f.pairs > 0 ? 2.0 : 0.0)};
    for (uint32_t level = 0; level < f.log; level++) {
        double most = first_of(f, UINT32_C(1) << level) * block;
        cost->sent += most < n ? most : n;
    }
    if (f.pairs > 0)
        cost->sent += block + n;
}

static void doubling_load(const gcoll_problem *problem, gcoll_load *load) {
    const double block = (double)gcoll_largest_block(problem);
    *load = (gcoll_load){0};
    for (uint32_t level = 0; gcoll_is_power_of_two(problem->size) && problem->size >> level > 1; level++) {
        if (!gcoll_bit_is_within(problem, UINT32_C(1) << level))
            continue;
        const double sent = block * (UINT32_C(1) << level);
        load->within_steps++;
        load->within_hops++;
        load->within_sent += sent < (double)problem->count ? sent : (double)problem->count;
    }
}

const gcoll_algorithm gcoll_allgather_recursive_doubling_algorithm = {
    .name = "recursive_doubling",
    .collective = GCOLL_ALLGATHER,
    .summary = "neighbouring groups swap and double; log2 P steps, two more if P is no power of two",
    .source = "Thakur, Rabenseifner and Gropp 2005, allgather",
    .plan = doubling_plan,
    .cost = doubling_cost,
    .load = doubling_load,
    .takes_codec = true,
};
