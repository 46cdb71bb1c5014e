/* An algorithm of one's own: allreduce along a chain of ranks.
 *
 * Partial sums go up from rank 0, each rank adding its own, and the result comes back down. Cut into segments
 * ("chain:segment=64Ki") it is a pipeline; the planner need not know.
 *
 * Steps: 2(P-1). Elements sent along them: 2(P-1)n; reduced: (P-1)n. Restrictions: none. */
#include <gcoll/plan.h>

/* What rank p->rank does, one thing after the other. The builder finds out what has to wait for what. */
static void chain_plan(const gcoll_problem *p, gcoll_builder *b) {
    const uint32_t rank = p->rank, last = p->size - 1;
    const gcoll_ref in = gcoll_in(0, 0), out = gcoll_out(0, 0);
    if (p->size == 1)
        gcoll_plan_copy(b, out, in, p->count);
    if (rank > 0) { /* the sum of the ranks before this one stands on the left */
        gcoll_plan_round_at_least(b, rank - 1);
        gcoll_plan_recv_reduce_left(b, rank - 1, out, in, p->count);
    }
    if (rank < last) {
        gcoll_plan_round_at_least(b, rank);
        gcoll_plan_send(b, rank + 1, rank > 0 ? out : in, p->count);
        gcoll_plan_round_at_least(b, 2 * last - rank - 1);
        gcoll_plan_recv(b, rank + 1, out, p->count);
    }
    if (rank > 0) {
        gcoll_plan_round_at_least(b, 2 * last - rank);
        gcoll_plan_send(b, rank - 1, out, p->count);
    }
}

/* ((0 op 1) op 2) op ...: in rank order, the same on every rank, and the tree of GCOLL_ORDER_LEFT. */
static uint32_t chain_claims(const gcoll_problem *p) {
    return gcoll_left_claims(p);
}

static void chain_cost(const gcoll_problem *p, gcoll_cost *cost) {
    const double hops = p->size - 1.0, n = (double)p->count;
    cost->steps = 2 * hops;
    cost->sent = 2 * hops * n;
    cost->reduced = hops * n;
    cost->scratch = 0;
}

static const gcoll_algorithm chain = {
    .name = "chain",
    .collective = GCOLL_ALLREDUCE,
    .summary = "up a chain of ranks and back; 2(P-1) steps",
    .source = "examples/planner.c",
    .plan = chain_plan,
    .claims = chain_claims,
    .cost = chain_cost,
};

static const gcoll_algorithm *const algorithms[] = {&chain, NULL};
GCOLL_PLUGIN(algorithms);
