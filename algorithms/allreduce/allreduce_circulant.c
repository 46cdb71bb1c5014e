/* algorithms/allreduce/allreduce_circulant.c - allreduce along a list of skips, from the ring to halving.
 *
 * A reduce-scatter and an allgather along the same list of skips (shared/circulant.h). The option
 * `max_skip` limits the chunks of n/P elements that a message carries, for more steps and the same bytes:
 * good where large messages are bad (caches, buffers, fairness). 1 is the ring, 0 (no limit) is halving;
 * each value between gives the fewest steps for its longest message.
 *
 * Source: Kolmakov and Zhang, arXiv:2004.09362, section 11 asks for it; J. L. Träff, arXiv:2410.14234.
 *
 * Steps: 2 ceil(log2 P) without limit, 2(P-1) for max_skip = 1.
 *
 * Chunks sent: 2(P-1). Reduced: P-1. For every list.
 *
 * Restrictions: none. No scratch. */
#include "algorithms/shared/circulant.h"

static const gcoll_option options[] = {GCOLL_CIRCULANT_MAX_SKIP("chunks (of n/P elements)"),
                                       {NULL, NULL, 0, 0, 0, NULL, false}};

static gcoll_circulant make(const gcoll_problem *problem) {
    return gcoll_circulant_make(problem, (uint32_t)problem->option[0]);
}

static void circulant_plan(const gcoll_problem *problem, gcoll_builder *b) {
    gcoll_circulant c = make(problem);
    /* Strict rounds, as in the papers. With any other window, half a message of a later step may overtake a
     * message that other ranks wait for. In the simulator, P = 127 then takes up to half longer. Over TCP it
     * made no difference. */
    gcoll_plan_window(b, 0);
    gcoll_ref own = gcoll_out(0, gcoll_block_begin(problem, problem->rank));
    gcoll_circulant_reduce_scatter(&c, b, gcoll_in(0, 0), gcoll_circulant_work_in(gcoll_out(0, 0)), own);
    gcoll_circulant_allgather(&c, b, own, gcoll_out(0, 0));
}

static uint32_t circulant_claims(const gcoll_problem *problem) {
    return GCOLL_CLAIM_RANK_IDENTICAL | gcoll_trivial_claims(problem); /* sums begin where they end */
}

/* A run of chunks that wraps round the end of the vector is two messages. They count as one here: the second
 * leaves directly after the first, so it costs an overhead but no latency. */
static void circulant_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double chunk = (double)problem->count / problem->size, chunks = problem->size - 1;
    *cost = (gcoll_cost){2.0 * make(problem).steps, 2 * chunks * chunk, chunks * chunk, 0};
}

const gcoll_algorithm gcoll_allreduce_circulant_algorithm = {
    .name = "circulant",
    .collective = GCOLL_ALLREDUCE,
    .summary = "reduce-scatter and allgather along a list of skips, from the ring to halving; fewest bytes",
    .source = "Kolmakov and Zhang 2020, arXiv:2004.09362, section 11; Träff 2024, arXiv:2410.14234",
    .options = options,
    .plan = circulant_plan,
    .claims = circulant_claims,
    .cost = circulant_cost,
};
