/* algorithms/allreduce/allreduce_spread.c - allreduce: every rank reduces a block by the wanted tree, and
 * sends the result to all.
 *
 * A reduce-scatter in one step (shared/spread.h): each rank gets all contributions to its block. Then it
 * sends the block to all others. So any tree can be built for any P, at the bytes of a ring. With fewer
 * owners, only so many ranks reduce; with one, that is `linear` by any tree, for short vectors.
 *
 * Source: see shared/spread.c; with the direct allgather of the MPI libraries after it.
 *
 * Steps: 2, of P-1 messages each. Elements sent: 2(P-1)/P n. Reduced: (P-1)/P n.
 *
 * Restrictions: none. Scratch: half the vector by pairs, (P-2)/P n by left; none for two ranks. */
#include "algorithms/shared/spread.h"

static const gcoll_option options[] = {GCOLL_SPREAD_OWNERS, {NULL, NULL, 0, 0, 0, NULL, false}};

static void spread_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint64_t begin = gcoll_spread_begin(problem, problem->rank);
    gcoll_spread_plan(problem, b, gcoll_out(0, begin));
    gcoll_plan_round(b);
    for (uint32_t distance = 1; distance < problem->size; distance++) {
        const uint32_t from = gcoll_rank_below(problem, distance);
        gcoll_plan_send(b, gcoll_rank_above(problem, distance), gcoll_out(0, begin),
                        gcoll_spread_count(problem, problem->rank));
        gcoll_plan_recv(b, from, gcoll_out(0, gcoll_spread_begin(problem, from)),
                        gcoll_spread_count(problem, from));
    }
    gcoll_spread_copies(problem, b);
}

static void spread_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const double others = problem->size - 1.0;
    *cost = gcoll_spread_cost(problem);
    cost->steps += others;
    cost->sent += others * gcoll_spread_largest(problem);
}

static void spread_load(const gcoll_problem *problem, gcoll_load *load) {
    const double others = problem->size - 1.0;
    *load = gcoll_spread_load(problem);
    load->hops += load->hops;
    load->messages += others * gcoll_spread_owners(problem);
    load->sent += others * (double)problem->count;
}

const gcoll_algorithm gcoll_allreduce_spread_algorithm = {
    .name = "spread",
    .collective = GCOLL_ALLREDUCE,
    .summary = "each rank gets all of its block, reduces it by the wanted tree, and sends it to all; 2 steps",
    .source = "Thakur, Rabenseifner and Gropp 2005; the tree is our own",
    .options = options,
    .plan = spread_plan,
    .claims = gcoll_spread_claims,
    .cost = spread_cost,
    .load = spread_load,
    .takes_order = true,
};
