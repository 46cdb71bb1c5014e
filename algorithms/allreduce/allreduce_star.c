/* algorithms/allreduce/allreduce_star.c - allreduce: all ranks send slices to rank 0, which sends sums back
 * to all.
 *
 * In round s rank 0 receives slice s of each other rank, in rank order, and sends the sum of slice s - 1 to
 * each.
 *
 * Source: Peking University, parallel and distributed computing, lab 1, Allreduce (2021), section 2.1. There
 * a slice ends before the next one begins; here rank 0 sends while it receives.
 *
 * Turns: (S+1)(P-1) with S slices. Elements on the way: n/S a turn; rank 0 sends (P-1) n, receives (P-1) n,
 * and reduces (P-1) n.
 *
 * Restrictions: none. A left fold, so more ranks do not change how those below them are added up.
 *
 * Rounds do not overlap: else the senders that come first would get all their slices in before the others'.
 */
#include "algorithms/shared/load.h"
#include "algorithms/shared/tree.h"

static const gcoll_option options[] = {GCOLL_TREE_PARTS_OPTION("slices"), {.name = NULL}};

static void star_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const uint32_t size = problem->size, slices = gcoll_tree_parts(problem->count, problem->option[0]);
    const uint64_t n = problem->count;
    if (size == 1)
        gcoll_plan_copy(b, gcoll_out(0, 0), gcoll_in(0, 0), n);
    gcoll_plan_window(b, 0);
    for (int64_t s = 0; s <= slices; s++) {
        gcoll_tree_part up = gcoll_tree_part_make(problem, slices, s),
                        down = gcoll_tree_part_make(problem, slices, s - 1);
        if (problem->rank > 0) {
            gcoll_plan_send(b, 0, gcoll_in(0, up.begin), up.count);
            gcoll_plan_recv(b, 0, gcoll_out(0, down.begin), down.count);
        }
        for (uint32_t r = 1; problem->rank == 0 && r < size; r++) {
            gcoll_ref sum = gcoll_out(0, up.begin);
            gcoll_plan_recv_reduce(b, r, sum, r == 1 ? gcoll_in(0, up.begin) : sum, up.count);
            gcoll_plan_send(b, r, gcoll_out(0, down.begin), down.count);
        }
        gcoll_plan_round(b);
    }
}

static void star_cost(const gcoll_problem *problem, gcoll_cost *cost) {
    const double slices = gcoll_tree_parts(problem->count, problem->option[0]);
    double n = (double)problem->count, others = problem->size - 1, steps = (slices + 1) * others;
    *cost = (gcoll_cost){steps, steps * n / slices, others * n, 0};
}

static void star_load(const gcoll_problem *problem, gcoll_load *load) {
    const double slices = gcoll_tree_parts(problem->count, problem->option[0]);
    *load = gcoll_load_tree(problem, slices, slices + 1);
}

const gcoll_algorithm gcoll_allreduce_star_algorithm = {
    .name = "star",
    .collective = GCOLL_ALLREDUCE,
    .summary = "slices to rank 0 and back to all, one in while the other is out; (slices+1)(P-1) steps",
    .source = "Peking University lab 1 (2021), section 2.1",
    .options = options,
    .plan = star_plan,
    .claims = gcoll_left_claims,
    .cost = star_cost,
    .load = star_load,
    .takes_codec = true,
};
