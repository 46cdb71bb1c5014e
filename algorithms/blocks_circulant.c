/* algorithms/blocks_circulant.c - reduce-scatter and allgather along a list of skips, for any P.
 *
 * Allgather: whoever has N' complete blocks sends as many as the next skip says, ranks above and ranks below
 * as on a circle, so that N' grows to P; with no limit it doubles (Bruck). Reduce-scatter is the same
 * backwards, adding up. circulant.h has the list of skips and what `max_skip` is good for.
 *
 * Source: J. Bruck, C. Ho, S. Kipnis, E. Upfal and D. Weathersby, Efficient algorithms for all-to-all
 * communications in multiport message-passing systems, IEEE Trans. Parallel Distrib. Syst. 8 (1997), section
 * 4; J. L. Träff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv:2410.14234.
 *
 * Steps: ceil(log2 P) without limit, and nearly as many messages more, for blocks that go round from the last
 * to the first; P-1 for max_skip = 1.
 *
 * Blocks sent: P-1. Reduced: none, or P-1.
 *
 * Restrictions: none. Scratch of the reduction for P > 2: ceil(P/2) blocks, or P - max_skip if that is more.
 */
#include "algorithms/blocks.h"
#include "algorithms/circulant.h"

static const gcoll_option options[] = {{"max_skip",
                                        "most blocks that one message carries: 1 is the ring; 0: no limit", 0,
                                        0, GCOLL_MAX_RANKS, NULL, false},
                                       {NULL, NULL, 0, 0, 0, NULL, false}};

static gcoll_circulant make(const gcoll_problem *problem) {
    return gcoll_circulant_make(problem, (uint32_t)problem->option[0]);
}

static void reduce_scatter_plan(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_circulant c = make(problem);
    gcoll_plan_window(b, 0); /* for the same reason as below */
    gcoll_circulant_reduce_scatter(&c, b, gcoll_in(0, 0), gcoll_circulant_work_new(&c, b), gcoll_out(0, 0));
}

static void allgather_plan(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_circulant c = make(problem);
    /* Unbounded, half a message of a later step gets ahead of what others wait for: P = 48 took 75 blocks of
     * time instead of 47. */
    gcoll_plan_window(b, 0);
    gcoll_circulant_allgather(&c, b, gcoll_in(0, 0), gcoll_out(0, 0));
}

static uint32_t reduce_scatter_claims(const gcoll_problem *problem) {
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem); /* sums begin where they end */
}

/* With unequal blocks each step is taken to carry as many of the largest as it carries blocks, but no more
 * than all elements. */
static void allgather_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const gcoll_circulant c = make(problem);
    const double n = (double)problem->count, block = (double)gcoll_largest_block(problem);
    *cost = (gcoll_cost){.steps = c.steps};
    for (uint32_t i = 0; i < c.steps; i++) {
        uint32_t skip = gcoll_circulant_placements(&c, i) - gcoll_circulant_placements(&c, i + 1);
        cost->sent += skip * block < n ? skip * block : n;
    }
}

static void reduce_scatter_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const gcoll_circulant c = make(problem);
    allgather_cost(problem, cost);
    cost->reduced = cost->sent;
    cost->scratch = gcoll_circulant_scratch(&c);
}

const gcoll_algorithm gcoll_reduce_scatter_circulant_algorithm = {
    .name = "circulant",
    .collective = GCOLL_REDUCE_SCATTER,
    .summary = "any P in ceil(log2 P) steps and fewest bytes; smaller messages for more steps",
    .source = "Träff 2024, arXiv:2410.14234; Kolmakov and Zhang 2020, arXiv:2004.09362, section 7",
    .options = options,
    .plan = reduce_scatter_plan,
    .claims = reduce_scatter_claims,
    .cost = reduce_scatter_cost,
};

const gcoll_algorithm gcoll_allgather_circulant_algorithm = {
    .name = "circulant",
    .collective = GCOLL_ALLGATHER,
    .summary = "any P in ceil(log2 P) steps and fewest bytes (Bruck); smaller messages for more steps",
    .source = "Bruck and others 1997, section 4; Träff 2024, arXiv:2410.14234",
    .options = options,
    .plan = allgather_plan,
    .cost = allgather_cost,
};
