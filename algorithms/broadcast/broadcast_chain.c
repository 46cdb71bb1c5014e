/* algorithms/broadcast/broadcast_chain.c - broadcast: slices follow one another down a chain of ranks.
 *
 * Ranks are numbered from the root. Each rank forwards every slice to the next rank when it arrives, so all
 * links are busy once the first slice has reached the end. For long vectors: with many slices the time
 * approaches that of sending the vector once.
 *
 * Source: J. Pjesivac-Grbovic, T. Angskun, G. Bosilca, G. Fagg, E. Gabriel and J. Dongarra, Performance
 * analysis of MPI collective operations, Cluster Comput. 10 (2007), the pipeline (chain with one child).
 *
 * Steps: S + P - 2 with S slices, each of n/S elements.
 *
 * Elements sent: n by every rank but the last; (S + P - 2) n/S on the way to the last. Reduced: none.
 *
 * Restrictions: none. */
#include "algorithms/shared/load.h"
#include "algorithms/shared/tree.h"

static const gcoll_option options[] = {GCOLL_TREE_PARTS_OPTION("slices"), {.name = NULL}};

static void chain_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, rank = problem->rank,
                   slices = gcoll_tree_parts(problem->count, problem->option[0]);
    const uint32_t place = (rank + size - problem->root) % size;
    const uint64_t n = problem->count;
    gcoll_ref data = place == 0 ? gcoll_in(0, 0) : gcoll_out(0, 0);
    /* Slice s passes from place q to q + 1 in round s + q. */
    gcoll_plan_round_at_least(b, place == 0 ? 0 : place - 1);
    for (uint32_t s = 0; s < slices; s++) {
        uint64_t begin = gcoll_part_begin(problem, slices, s), count = gcoll_part_count(problem, slices, s);
        if (place > 0) {
            gcoll_plan_recv(b, (rank + size - 1) % size, gcoll_ref_add(data, begin), count);
            gcoll_plan_round(b);
        }
        if (place + 1 < size)
            gcoll_plan_send(b, (rank + 1) % size, gcoll_ref_add(data, begin), count);
        if (place == 0)
            gcoll_plan_round(b);
    }
    if (place == 0)
        gcoll_plan_copy(b, gcoll_out(0, 0), data, n);
}

static void chain_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    double slices = gcoll_tree_parts(problem->count, problem->option[0]);
    double steps = problem->size > 1 ? slices + problem->size - 2 : 0;
    *cost = (gcoll_cost){steps, steps * (double)problem->count / slices, 0, 0};
}

static void chain_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, gcoll_tree_parts(problem->count, problem->option[0]), 0);
}

const gcoll_algorithm gcoll_broadcast_chain_algorithm = {
    .name = "chain",
    .collective = GCOLL_BROADCAST,
    .summary = "slices follow one another down a chain from the root; slices + P - 2 steps",
    .source = "Pjesivac-Grbovic et al. 2007, pipeline",
    .options = options,
    .plan = chain_plan,
    .cost = chain_cost,
    .load = chain_load,
    .takes_codec = true,
};
