/* algorithms/allreduce/allreduce_nonoverlapping.c - allreduce: a reduce to rank 0, then a broadcast, one
 * after the other.
 *
 * Both use the binomial tree. In round l of the reduce, a rank whose number is 2^l above a multiple of
 * 2^(l+1) sends its sum to that rank. The broadcast takes the rounds backwards. A fence keeps each rank
 * from broadcasting before its part of the reduce is done, also where both are cut in segments.
 *
 * Source: Open MPI, ompi/mca/coll/base/coll_base_allreduce.c, ompi_coll_base_allreduce_intra_nonoverlapping;
 * J. Proficz, Improving all-reduce collective operations for imbalanced process arrival patterns, J.
 * Supercomput. 74 (2018), table 1.
 *
 * Steps: 2L, L = ceil(log2 P). Elements on the way: 2L n, in and then out of rank 0, which reduces L n.
 *
 * Restrictions: none. Neighbours are paired, so more ranks do not change how those below them are added up.
 */
#include "algorithms/shared/hosts.h"
#include "algorithms/shared/load.h"

static void nonoverlapping_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, rank = problem->rank, levels = gcoll_log2_ceil(size);
    const uint64_t n = problem->count;
    gcoll_ref sum = gcoll_in(0, 0);
    for (uint32_t level = 0; level < levels; level++) {
        uint32_t half = UINT32_C(1) << level, within = rank & (2 * half - 1);
        if (within == 0 && half < size - rank) {
            gcoll_plan_recv_reduce(b, rank + half, gcoll_out(0, 0), sum, n);
            sum = gcoll_out(0, 0);
        } else if (within == half) {
            gcoll_plan_send(b, rank - half, sum, n);
        }
        gcoll_plan_round(b);
    }
    if (size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), sum, n);
    gcoll_plan_fence(b);
    for (uint32_t level = levels; level-- > 0;) {
        uint32_t half = UINT32_C(1) << level, within = rank & (2 * half - 1);
        if (within == 0 && half < size - rank)
            gcoll_plan_send(b, rank + half, gcoll_out(0, 0), n);
        else if (within == half)
            gcoll_plan_recv(b, rank - half, gcoll_out(0, 0), n);
        gcoll_plan_round(b);
    }
}

static void nonoverlapping_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double n = (double)problem->count, levels = gcoll_log2_ceil(problem->size);
    *cost = (gcoll_cost){2 * levels, 2 * levels * n, levels * n, 0};
}

static void nonoverlapping_load(const gcoll_problem *problem, gcoll_load *load) {
    const double n = (double)problem->count;
    uint32_t within = 0;
    *load = gcoll_load_tree(problem, 1, 0);
    while (problem->size >> within > 1 && gcoll_bit_is_within(problem, UINT32_C(1) << within))
        within++;
    load->within_steps = load->within_hops = 2.0 * within;
    load->within_sent = 2.0 * within * n;
    load->crossing =
        within > 0 ? 1.0 / (UINT32_C(1) << within) : 0; /* the others have handed on their sums */
}

const gcoll_algorithm gcoll_allreduce_nonoverlapping_algorithm = {
    .name = "nonoverlapping",
    .collective = GCOLL_ALLREDUCE,
    .summary = "reduce, then broadcast, on a binomial tree; 2 ceil(log2 P) steps, nothing overlaps",
    .source = "Open MPI, nonoverlapping; Proficz 2018, table 1",
    .plan = nonoverlapping_plan,
    .claims = gcoll_pairs_claims,
    .cost = nonoverlapping_cost,
    .load = nonoverlapping_load,
    .takes_codec = true,
};
