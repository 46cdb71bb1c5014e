/* algorithms/allgather/allgather_circulant.c - allgather along a list of skips (Bruck, generalised).
 *
 * In each step a rank sends blocks that it has to the rank `skip` above it on a circle, and receives as
 * many from the rank `skip` below it. Without a limit its blocks double in each step (Bruck); the option
 * `max_skip` limits the blocks of a message, for more steps. shared/circulant.h has the list of skips.
 *
 * Source: J. Bruck, C. Ho, S. Kipnis, E. Upfal and D. Weathersby, Efficient algorithms for all-to-all
 * communications in multiport message-passing systems, IEEE Trans. Parallel Distrib. Syst. 8 (1997), section
 * 4; J. L. Träff, Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv:2410.14234.
 *
 * Steps: ceil(log2 P) without a limit; blocks that go round from the last to the first make up to twice as
 * many messages. P-1 steps for max_skip = 1, which is the ring.
 *
 * Blocks sent: P-1.
 *
 * Restrictions: none. No scratch. */
#include "algorithms/shared/circulant.h"

static const gcoll_option options[] = {GCOLL_CIRCULANT_MAX_SKIP("blocks"),
                                       {NULL, NULL, 0, 0, 0, NULL, false}};

static void circulant_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const gcoll_circulant c = gcoll_circulant_make(problem, (uint32_t)problem->option[0]);
    /* Strict rounds: with an unbounded window, a message of a later step may overtake one that other ranks
     * wait for. In the simulator, P = 48 then took the time of 75 blocks instead of 47. */
    gcoll_plan_window(b, 0);
    gcoll_circulant_allgather(&c, b, gcoll_in(0, 0), gcoll_out(0, 0));
}

static void circulant_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const gcoll_circulant c = gcoll_circulant_make(problem, (uint32_t)problem->option[0]);
    *cost = (gcoll_cost){.steps = c.steps, .sent = gcoll_circulant_sent(&c)};
}

const gcoll_algorithm gcoll_allgather_circulant_algorithm = {
    .name = "circulant",
    .collective = GCOLL_ALLGATHER,
    .summary = "any P in ceil(log2 P) steps and fewest bytes (Bruck); smaller messages for more steps",
    .source = "Bruck and others 1997, section 4; Träff 2024, arXiv:2410.14234",
    .options = options,
    .plan = circulant_plan,
    .cost = circulant_cost,
};
