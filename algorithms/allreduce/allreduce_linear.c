/* algorithms/allreduce/allreduce_linear.c - allreduce: all vectors to rank 0, the result to all ("basic
 * linear").
 *
 * Rank 0 receives the vectors of the others in rank order, adds them up, and sends the sum to each.
 *
 * Source: Open MPI, ompi/mca/coll/basic/coll_basic_allreduce.c and ompi/mca/coll/base/coll_base_reduce.c,
 * basic_linear, which begins with the last rank; J. Proficz, Improving all-reduce collective operations for
 * imbalanced process arrival patterns, J. Supercomput. 74 (2018), table 1.
 *
 * Steps: 2, of P-1 messages each at rank 0's port: 2(P-1) turns. Elements on the way: 2(P-1) n, in and then
 * out of rank 0, which reduces (P-1) n.
 *
 * Restrictions: none. A left fold, so more ranks do not change how those below them are added up. */
#include "algorithms/planners.h"
#include "algorithms/shared/load.h"

static void linear_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint64_t n = problem->count;
    if (problem->rank > 0) {
        gcoll_plan_send(b, 0, gcoll_in(0, 0), n);
        gcoll_plan_round(b);
        gcoll_plan_recv(b, 0, gcoll_out(0, 0), n);
        return;
    }
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), n);
    for (uint32_t r = 1; r < problem->size; r++)
        gcoll_plan_recv_reduce(b, r, gcoll_out(0, 0), r == 1 ? gcoll_in(0, 0) : gcoll_out(0, 0), n);
    gcoll_plan_round(b);
    for (uint32_t r = 1; r < problem->size; r++)
        gcoll_plan_send(b, r, gcoll_out(0, 0), n);
}

static void linear_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double n = (double)problem->count, others = problem->size - 1;
    *cost = (gcoll_cost){2 * others, 2 * others * n, others * n, 0};
}

static void linear_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, 1, 2);
}

const gcoll_algorithm gcoll_allreduce_linear_algorithm = {
    .name = "linear",
    .collective = GCOLL_ALLREDUCE,
    .summary = "all vectors to rank 0 in rank order, the sum to all; 2(P-1) steps",
    .source = "Open MPI, basic linear; Proficz 2018, table 1",
    .plan = linear_plan,
    .claims = gcoll_left_claims,
    .cost = linear_cost,
    .load = linear_load,
    .takes_codec = true,
};
