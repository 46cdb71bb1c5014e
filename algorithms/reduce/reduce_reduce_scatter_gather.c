/* algorithms/reduce/reduce_reduce_scatter_gather.c - reduce of long vectors: a reduce-scatter, then a gather
 * to the root.
 *
 * Recursive halving in binary blocks (shared/binary_blocks.h) leaves one of 2^k pieces of the sum with each
 * rank of the largest block. The gather takes the steps backwards: of each pair, the rank whose last bits
 * differ from the root's sends its pieces. A root in another block receives the two halves from the last two
 * ranks, in place of the last step.
 *
 * Source: R. Rabenseifner, Optimization of collective reduction operations, ICCS 2004; R. Thakur, R.
 * Rabenseifner and W. Gropp, Optimization of collective communication operations in MPICH, Int. J. High
 * Perform. Comput. Appl. 19 (2005), reduce.
 *
 * Steps: 2 log2 P. Elements sent: 2(P-1)/P n. Reduced: (P-1)/P n. For P no power of two more, as blocks hand
 * up one after the other, and up to n/2 more for a root outside of the largest block.
 *
 * Restrictions: none. Scratch: n/2 on ranks other than the root. */
#include "algorithms/shared/binary_blocks.h"

/* The rank of the largest block towards which the pieces are gathered. */
static uint32_t towards(const gcoll_problem *problem) {
    return problem->root >> gcoll_log2_floor(problem->size) == 0 ? problem->root : 0;
}

static void gather(const gcoll_problem *problem, gcoll_builder *b, gcoll_binary_block own, gcoll_sums sums) {
    const uint32_t target = towards(problem), last = target == problem->root ? 0 : 1;
    for (uint32_t step = own.log; step-- > last;) {
        gcoll_binary_block partner = own;
        partner.index ^= UINT32_C(1) << step;
        bool sends = ((own.index ^ target) >> step & 1) != 0;
        gcoll_elements moved = gcoll_binary_range(problem, sends ? own : partner, step + 1);
        if (sends) {
            gcoll_plan_send(b, partner.index, gcoll_sum_at(sums, moved.begin), moved.count);
            return;
        }
        gcoll_plan_recv(b, partner.index, gcoll_sum_at(sums, moved.begin), moved.count);
        gcoll_plan_round(b);
    }
    if (last == 1) { /* this is one of the two left */
        gcoll_elements half = gcoll_binary_range(problem, own, 1);
        gcoll_plan_send(b, problem->root, gcoll_sum_at(sums, half.begin), half.count);
    }
}

static void collect_halves(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t log = gcoll_log2_floor(problem->size);
    gcoll_plan_round_at_least(b, log + (uint32_t)__builtin_popcount(problem->size) - 1 + log - 1);
    for (uint32_t rank = 0; rank < 2; rank++) {
        gcoll_elements half = gcoll_binary_range(problem, (gcoll_binary_block){0, log, rank}, 1);
        gcoll_plan_recv(b, rank, gcoll_out(0, half.begin), half.count);
    }
}

static void rabenseifner_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const bool is_root = problem->rank == problem->root;
    const gcoll_binary_block own = gcoll_binary_block_of(problem->size, problem->rank);
    if (problem->size == 1) {
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), problem->count);
        return;
    }
    gcoll_sums sums = is_root ? (gcoll_sums){gcoll_out(0, 0), 0} : gcoll_binary_sums_new(problem, b);
    gcoll_binary_reduce(problem, b, sums);
    if (own.first == 0)
        gather(problem, b, own, sums);
    else if (is_root)
        collect_halves(problem, b);
}

/* If P is no power of two, the longest path up to the largest block and the longest path in it are added,
 * though the piece that comes up last may have a shorter path to the root. */
static void rabenseifner_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const uint32_t size = problem->size, root = problem->root, log = gcoll_log2_floor(size);
    const double n = (double)problem->count;
    *cost = gcoll_binary_cost(problem);
    if (size == 1)
        return;
    cost->steps += log;
    cost->sent += n - n / (double)(UINT32_C(1) << log);
    if (towards(problem) != root && size % 2 == 0) {
        cost->steps += 1; /* both halves complete together; with a block of one rank, one after the other */
        cost->sent += n / 2;
    }
    /* The upper half, which ranks of odd index keep, may be the larger one by an element. */
    bool odd = size > 3 || root != 1;
    cost->scratch = (double)(odd ? problem->count - problem->count / 2 : problem->count / 2);
}

const gcoll_algorithm gcoll_reduce_reduce_scatter_gather_algorithm = {
    .name = "reduce_scatter_gather",
    .collective = GCOLL_REDUCE,
    .summary = "recursive halving, then gather, in rank order; about 2 log2 P steps for 2n elements",
    .source = "Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005, reduce",
    .plan = rabenseifner_plan,
    .claims = gcoll_pairs_claims,
    .cost = rabenseifner_cost,
};
