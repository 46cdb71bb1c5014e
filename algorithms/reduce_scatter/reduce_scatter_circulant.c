/* algorithms/reduce_scatter/reduce_scatter_circulant.c - reduce-scatter along a list of skips, for any P.
 *
 * In each step a rank sends partial sums of about half of the blocks that it still works on to the rank
 * `skip` below it on a circle, and adds those that it receives from the rank `skip` above it to the other
 * half. The option `max_skip` limits the blocks of a message, for more steps. shared/circulant.h has the
 * list of skips. It is allgather_circulant backwards.
 *
 * Source: J. L. Träff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv:2410.14234;
 * D. Kolmakov and X. Zhang, arXiv:2004.09362, section 7.
 *
 * Steps: ceil(log2 P) without a limit; blocks that go round from the last to the first make up to twice as
 * many messages. P-1 steps for max_skip = 1, which is the ring.
 *
 * Blocks sent: P-1. Reduced: P-1.
 *
 * Restrictions: none. Scratch for P > 2: ceil(P/2) blocks, or P - max_skip if that is more. */
#include "algorithms/shared/circulant.h"

static const gcoll_option options[] = {GCOLL_CIRCULANT_MAX_SKIP("blocks"),
                                       {NULL, NULL, 0, 0, 0, NULL, false}};

static void circulant_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const gcoll_circulant c = gcoll_circulant_make(problem, (uint32_t)problem->option[0]);
    gcoll_plan_window(b, 0); /* strict rounds, for the reason that allgather_circulant.c gives */
    gcoll_circulant_reduce_scatter(&c, b, gcoll_in(0, 0), gcoll_circulant_work_new(&c, b), gcoll_out(0, 0));
}

static uint32_t circulant_claims(const gcoll_problem *problem) {
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem); /* a sum starts with its own rank */
}

static void circulant_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const gcoll_circulant c = gcoll_circulant_make(problem, (uint32_t)problem->option[0]);
    const double sent = gcoll_circulant_sent(&c);
    *cost = (gcoll_cost){c.steps, sent, sent, gcoll_circulant_scratch(&c)};
}

const gcoll_algorithm gcoll_reduce_scatter_circulant_algorithm = {
    .name = "circulant",
    .collective = GCOLL_REDUCE_SCATTER,
    .summary = "any P in ceil(log2 P) steps and fewest bytes; smaller messages for more steps",
    .source = "Träff 2024, arXiv:2410.14234; Kolmakov and Zhang 2020, arXiv:2004.09362, section 7",
    .options = options,
    .plan = circulant_plan,
    .claims = circulant_claims,
    .cost = circulant_cost,
    .takes_codec = true,
};
