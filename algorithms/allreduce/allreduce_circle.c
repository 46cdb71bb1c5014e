/* algorithms/allreduce/allreduce_circle.c - allreduce: slices travel up a chain of ranks to be added up, and
 * back down.
 *
 * Rank r receives each slice from rank r - 1, adds its own and sends it on to rank r + 1. The last rank has
 * the sum, which travels back the same way while later slices still go up. At distance d from the last
 * rank, a rank first exchanges with the rank below: slice s for the sum of slice s - (d+1); then with the
 * rank above: slice s for the sum of slice s - d. Slices that do not exist are left out at both ends.
 *
 * Source: Peking University, parallel and distributed computing, lab 1, Allreduce (2021), section 2.2. There
 * a slice has come down before the next one goes up.
 *
 * Steps: 2S + 2P - 3 with S > 1 slices, 2P - 2 with one, S + 1 for two ranks. Elements on the way: n/S a
 * step; ranks inside the chain send 2n. Reduced: n by each rank but the first.
 *
 * Restrictions: none. A left fold, so more ranks do not change how those below them are added up.
 *
 * Rounds do not overlap: up and down take turns at each port. */
#include "algorithms/shared/load.h"
#include "algorithms/shared/tree.h"

static const gcoll_option options[] = {GCOLL_TREE_PARTS_OPTION("slices"), {.name = NULL}};

static void circle_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t rank = problem->rank, slices = gcoll_tree_parts(problem->count, problem->option[0]);
    const int64_t distance = problem->size - 1 - rank;
    const uint64_t n = problem->count;
    if (problem->size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), n);
    gcoll_plan_window(b, 0);
    for (int64_t s = 0; s <= slices + distance; s++) {
        gcoll_tree_part up = gcoll_tree_part_make(problem, slices, s);
        if (rank > 0) {
            gcoll_tree_part down = gcoll_tree_part_make(problem, slices, s - distance - 1);
            gcoll_plan_recv_reduce_left(b, rank - 1, gcoll_out(0, up.begin), gcoll_in(0, up.begin), up.count);
            gcoll_plan_send(b, rank - 1, gcoll_out(0, down.begin), down.count);
            gcoll_plan_round(b);
        }
        if (distance > 0) {
            gcoll_tree_part down = gcoll_tree_part_make(problem, slices, s - distance);
            gcoll_plan_send(b, rank + 1, rank == 0 ? gcoll_in(0, up.begin) : gcoll_out(0, up.begin),
                            up.count);
            gcoll_plan_recv(b, rank + 1, gcoll_out(0, down.begin), down.count);
            gcoll_plan_round(b);
        }
    }
}

static void circle_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const uint32_t slices = gcoll_tree_parts(problem->count, problem->option[0]);
    const double hops = problem->size - 1, slice = (double)problem->count / slices;
    /* Inside the chain ranks take turns at two links; the first sum that comes down waits for its turn,
     * unless it is the only one. */
    double turns = problem->size > 2 ? 2 : 1, more = slices - 1.0;
    double steps = 2 * hops + turns * more + (problem->size > 2 && slices > 1 ? 1 : 0);
    if (problem->size == 1)
        steps = more = 0;
    *cost = (gcoll_cost){steps, steps * slice, (hops + more) * slice, 0};
}

static void circle_load(const gcoll_problem *problem, gcoll_load *load) {
    *load = gcoll_load_tree(problem, gcoll_tree_parts(problem->count, problem->option[0]), 0);
}

const gcoll_algorithm gcoll_allreduce_circle_algorithm = {
    .name = "circle",
    .collective = GCOLL_ALLREDUCE,
    .summary = "slices go up the chain of ranks and come down it again; 2 slices + 2P - 3 steps",
    .source = "Peking University lab 1 (2021), section 2.2",
    .options = options,
    .plan = circle_plan,
    .claims = gcoll_left_claims,
    .cost = circle_cost,
    .load = circle_load,
    .takes_codec = true,
};
